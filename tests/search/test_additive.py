"""The additive model on planted effects: what it recovers, how sure it is, what it forgets."""

import math
from statistics import NormalDist

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from pdnas.search.additive import GOOD, MEMORY, NEIGHBORS, PENALTY, AdditiveModel

COUNT = 400
"""Paths of a search."""


def switches(generator: Generator, size: int = 3, count: int = COUNT) -> Tensor:
    """Choices that are made half of the time, as gates are, ``[count, size]``."""
    return (torch.rand(count, size, generator=generator) < 0.5).double()


def noise(generator: Generator, count: int = COUNT) -> Tensor:
    return torch.randn(count, generator=generator, dtype=torch.float64)


def fitted(choices: Tensor, values: Tensor, groups: list[int] | None = None) -> AdditiveModel:
    """A model that saw these paths and values in this order."""
    model = AdditiveModel(choices.size(1))
    for row, value, group in zip(
        choices, values.tolist(), groups or [0] * len(values), strict=True
    ):
        model.observe(row, value, group)
    return model


def mean_effects(values_of: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The mean effects of several searches, each given by its choices and values."""
    return torch.stack([fitted(*each).effects()[0] for each in values_of]).mean(dim=0)


shrinkage = (COUNT / 4) / (COUNT / 4 + PENALTY)
"""Of the effect of a choice that is made half of the time."""


def test_two_choices_that_decide_all_have_half_an_effect_each(generator: Generator) -> None:
    """The best quarter are the paths with both: 1 with both and 0 else is -1/4 + a / 2 + b / 2."""
    choices = switches(generator)
    values = 0.1 * noise(generator) + 100 * choices[:, 0] + 100 * choices[:, 2]
    effects, errors = fitted(choices, values).effects()
    expected = shrinkage * torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)
    assert ((effects - expected).abs() < 4 * errors).all()
    assert (errors < 0.05).all()


@pytest.mark.parametrize("lead", [-1.5, 1.0, 3.0])
def test_an_effect_is_what_a_choice_adds_to_the_chance_of_being_good(
    lead: float, generator: Generator
) -> None:
    normal, searches = NormalDist(), 6
    seen = []
    for _ in range(searches):
        choices = switches(generator)
        seen.append((choices, noise(generator) + lead * choices[:, 1]))
    # Good is what lies above q, where a half of the paths is shifted by the lead.
    low, high = -5.0, 5.0
    for _ in range(50):
        middle = (low + high) / 2
        share = 1 - (normal.cdf(middle) + normal.cdf(middle - lead)) / 2
        low, high = (middle, high) if share > 1 - GOOD else (low, middle)
    expected = shrinkage * (normal.cdf(low) - normal.cdf(low - lead))

    effects = mean_effects(seen)

    # Of one search: sqrt(3/16) for a quarter that is good, over the root of the paths.
    four_errors = 4 * math.sqrt(3 / 16) * 2 / math.sqrt(COUNT * searches)
    assert abs(effects[1].item() - expected) < four_errors
    assert abs(expected) > 2 * four_errors  # or nothing would be told
    assert (effects[[0, 2]].abs() < four_errors).all()


def test_effects_of_the_ops_of_a_slot_sum_to_zero_and_rank_them(generator: Generator) -> None:
    picked = torch.randint(4, (COUNT,), generator=generator)
    planted = torch.tensor([0.0, 3.0, 1.0, -1.0], dtype=torch.float64)
    values = planted[picked] + 0.5 * noise(generator)
    effects, _ = fitted(one_hot(picked, 4), values).effects()
    assert effects.argsort(descending=True)[:2].tolist() == [1, 2]
    assert abs(effects.sum().item()) < 1e-4


def test_effects_and_errors_are_those_of_a_ridge_regression(generator: Generator) -> None:
    choices, values = switches(generator, count=40), noise(generator, 40)
    model = fitted(choices, values, [0, 1] * 20)
    effects, errors = model.effects()

    groups = torch.tensor([[1.0, 0.0], [0.0, 1.0]] * 20, dtype=torch.float64)
    design, good = torch.cat([groups, choices], dim=1), model.good()
    ridge = torch.tensor([1e-6, 1e-6, *[PENALTY] * 3], dtype=torch.float64)
    inverse = torch.linalg.inv(design.t() @ design + ridge.diag())
    weights = inverse @ design.t() @ good
    variance = (good - design @ weights).square().mean()

    torch.testing.assert_close(effects, weights[2:])
    torch.testing.assert_close(errors, (variance * inverse.diagonal()[2:]).sqrt())


def test_a_choice_that_was_never_made_has_no_effect_and_the_largest_error(
    generator: Generator,
) -> None:
    choices = switches(generator)
    choices[:, 1] = 0
    effects, errors = fitted(choices, noise(generator)).effects()
    assert effects[1] == 0
    assert errors.argmax() == 1


@pytest.mark.parametrize("count", [0, 1, 50])
def test_without_differences_there_are_no_effects_and_errors_above_zero(
    count: int, generator: Generator
) -> None:
    choices = switches(generator, count=count)
    effects, errors = fitted(choices, torch.full((count,), 0.75)).effects()
    assert effects.tolist() == pytest.approx([0.0] * 3)
    assert ((errors > 0) & errors.isfinite()).all()


def test_errors_shrink_with_the_root_of_the_observations(generator: Generator) -> None:
    few, many = (
        fitted(switches(generator, count=count), noise(generator, count)).effects()[1]
        for count in (60, 960)
    )
    # Of n paths each choice weighs n / 4 observations beside the penalty's.
    ratio = math.sqrt((240 + PENALTY) / (15 + PENALTY))
    torch.testing.assert_close(few / many, torch.full((3,), ratio).double(), rtol=0.2, atol=0)


def test_errors_cover_the_truth_as_often_as_a_normal_does(generator: Generator) -> None:
    """Of choices without an effect, whose truth is zero whatever else is at work."""
    repeats, size = 75, 15
    distances = torch.empty(repeats, size - 1, dtype=torch.float64)
    for number in range(repeats):
        choices = switches(generator, size)
        effects, errors = fitted(choices, noise(generator) + 2 * choices[:, 0]).effects()
        distances[number] = (effects / errors)[1:].abs()
    # The penalty draws the effects to zero, by the root of the shrinkage more than it costs error.
    pull = 1 / math.sqrt(shrinkage)
    for width in (1.0, 2.0):
        share = 1 - 2 * NormalDist().cdf(-width * pull)
        standard_error = math.sqrt(share * (1 - share) / distances.numel())
        covered = (distances < width).double().mean().item()
        assert abs(covered - share) < 4 * standard_error


def naive_effect(choices: Tensor, values: Tensor) -> float:
    """What the best quarter of all paths says of the first choice."""
    good = (values > values.quantile(GOOD)).double()
    made = choices[:, 0] > 0
    return (good[made].mean() - good[~made].mean()).item()


def test_a_trend_in_time_is_not_taken_for_an_effect(generator: Generator) -> None:
    """The first choice is made ever more often while everything improves on its own."""
    times = torch.arange(MEMORY, dtype=torch.float64) / MEMORY
    seen = []
    for _ in range(6):
        made = torch.rand(MEMORY, 2, generator=generator) < torch.stack([times, 1 - times], dim=1)
        seen.append((made.double(), 0.4 + 0.4 * times + 0.05 * noise(generator, MEMORY)))
    assert min(naive_effect(*each) for each in seen) > 0.3
    # Of the mean of six searches one standard error is 0.027 / sqrt(6).
    assert (mean_effects(seen).abs() < 0.044).all()


def test_what_every_path_gains_leaves_every_effect_as_it_is(generator: Generator) -> None:
    choices, values = switches(generator), noise(generator)
    plain, raised = (fitted(choices, values + gain) for gain in (0.0, 7.0))
    assert torch.equal(plain.effects()[0], raised.effects()[0])


def test_a_path_that_fails_utterly_weighs_no_more_than_any_other(generator: Generator) -> None:
    choices, values = switches(generator), noise(generator)
    worst = values.argmin()
    failed = values.index_fill(0, worst, -1e6)
    assert torch.equal(fitted(choices, failed).effects()[0], fitted(choices, values).effects()[0])


def test_groups_are_not_compared_with_each_other(generator: Generator) -> None:
    """Paths of the second group are worse and all have the first choice, which is not to blame."""
    choices, groups = switches(generator), [0, 1] * (COUNT // 2)
    second = torch.tensor(groups, dtype=torch.float64)
    choices[:, 0] = second
    values = noise(generator) - 100 * second
    apart, together = (fitted(choices, values, given).effects() for given in (groups, [0] * COUNT))
    assert apart[0][0].abs() < 0.01
    assert together[0][0] < -0.4


def by_hand(values: list[float], groups: list[int]) -> list[float]:
    """Good is what beats more than ``GOOD`` of its neighbors, ties and itself counting half."""
    good = []
    for here, (value, group) in enumerate(zip(values, groups, strict=True)):
        near = [
            other
            for there, other in enumerate(values)
            if abs(there - here) <= NEIGHBORS and groups[there] == group
        ]
        beaten = sum((other < value) + 0.5 * (other == value) for other in near) / len(near)
        good.append(float(beaten > GOOD))
    return good


@given(
    paths=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), min_size=1, max_size=130),
)
def test_good_paths_are_those_that_beat_most_of_their_neighbors(
    paths: list[tuple[int, int]],
) -> None:
    values, groups = [float(value) for value, _ in paths], [group for _, group in paths]
    model = AdditiveModel(1)
    for value, group in zip(values, groups, strict=True):
        model.observe(torch.ones(1), value, group)
    assert model.good().tolist() == by_hand(values, groups)


def test_neighbors_are_counted_to_the_last(generator: Generator) -> None:
    values, groups = noise(generator), torch.randint(2, (COUNT,), generator=generator).tolist()
    model = fitted(switches(generator), values, groups)
    assert model.good().tolist() == by_hand(values.tolist(), groups)


def test_a_quarter_of_the_paths_is_good(generator: Generator) -> None:
    good = fitted(switches(generator), noise(generator)).good()
    assert good.mean().item() == pytest.approx(0.25, abs=0.03)


def test_what_came_before_the_memory_is_forgotten(generator: Generator) -> None:
    choices, values = switches(generator, count=MEMORY + 200), noise(generator, MEMORY + 200)
    late = fitted(choices[200:], values[200:])
    whole = fitted(choices, values)
    assert len(whole.values) == len(whole.choices) == len(whole.groups) == MEMORY
    assert all(map(torch.equal, whole.effects(), late.effects()))


def test_an_effect_that_turned_is_followed(generator: Generator) -> None:
    count = 2 * MEMORY
    choices = switches(generator, count=count)
    turned = torch.where(torch.arange(count) < MEMORY, 1.0, -1.0).double()
    values = noise(generator, count) + 2 * turned * choices[:, 0]
    early, late = (fitted(choices[:end], values[:end]).effects() for end in (MEMORY, count))
    assert early[0][0] > 4 * early[1][0]
    assert late[0][0] < -4 * late[1][0]
