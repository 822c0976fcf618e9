"""What strategies have in common: settings that are checked, and searches that can be saved."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import load, save
from torch import Tensor, nn

from pdnas.architecture import Architecture
from pdnas.errors import SearchError, UnknownNameError
from pdnas.models import GraphNetwork
from pdnas.search import STRATEGIES, Candidate, Problem, Search, SearchEpoch, Strategy
from pdnas.search.base import (
    AnyStrategy,
    above,
    below,
    learned,
    load_learned,
    never,
    read_strategy,
)
from pdnas.search.pdnas import PRESETS, Pdnas
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

NAMES = ["0/attention/gat", "0/heads/2", "bias", "idle"]
"""Names with the separator that the optimizer's tensors use, and one that is never stepped."""

KEYS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam keeps."""


def parameters() -> nn.ParameterDict:
    generator = torch.Generator().manual_seed(1)
    shapes = [(3, 2), (4,), (), (2, 2)]
    return nn.ParameterDict(
        {
            name: nn.Parameter(torch.randn(shape, generator=generator))
            for name, shape in zip(NAMES, shapes, strict=True)
        }
    )


def adam(weights: nn.ParameterDict) -> torch.optim.Optimizer:
    return torch.optim.Adam(weights.parameters(), lr=0.1, weight_decay=0.01, fused=True)


def train(weights: nn.ParameterDict, optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Steps on all but the last weight."""
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        torch.stack([weights[name].square().sum() for name in NAMES[:-1]]).sum().backward()
        optimizer.step()


def saved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As they come back from a file."""
    return load(save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}))


def test_what_was_never_stepped_has_no_state() -> None:
    weights = parameters()
    optimizer = adam(weights)
    values = {f"values/{name}" for name in NAMES}
    assert set(learned(weights, optimizer)) == values
    train(weights, optimizer, 1)
    state = {f"optimizer/{name}/{key}" for name in NAMES[:-1] for key in KEYS}
    assert set(learned(weights, optimizer)) == values | state


@pytest.mark.parametrize("steps", [0, 3])
def test_what_is_loaded_goes_on_as_the_first_one(steps: int) -> None:
    first, second = parameters(), parameters()
    optimizers = [adam(first), adam(second)]
    train(first, optimizers[0], steps)
    load_learned(second, optimizers[1], saved(learned(first, optimizers[0])))
    for weights, optimizer in zip((first, second), optimizers, strict=True):
        train(weights, optimizer, 3)
    assert all(torch.equal(first[name], second[name]) for name in NAMES)
    assert (second["idle"] in optimizers[1].state) is False


def test_loading_forgets_what_the_optimizer_held_before() -> None:
    weights = parameters()
    optimizer = adam(weights)
    fresh = saved(learned(weights, optimizer))
    train(weights, optimizer, 2)
    load_learned(weights, optimizer, fresh)
    assert set(learned(weights, optimizer)) == set(fresh)


def test_loading_leaves_the_settings_of_the_optimizer_as_they_are() -> None:
    weights, other = parameters(), parameters()
    optimizer = adam(weights)
    train(weights, optimizer, 1)
    second = torch.optim.Adam(other.parameters(), lr=0.7)
    load_learned(other, second, learned(weights, optimizer))
    assert second.param_groups[0]["lr"] == 0.7


def test_the_optimizer_must_be_of_the_module() -> None:
    weights = parameters()
    optimizer = torch.optim.Adam([weights["bias"]])
    with pytest.raises(ValueError, match="shorter"):
        learned(weights, optimizer)


def test_below_undoes_above() -> None:
    tensors = {"a": torch.zeros(1), "b/c": torch.ones(1)}
    both = above("one/", tensors) | above("two/", tensors)
    assert len(both) == 4
    assert below("one/", both) == tensors


class Walk(Search):
    """A search that only draws numbers: from torch's random state, and adds them up."""

    total = torch.zeros(())

    def step(self, stop: Callable[[], bool] = never) -> SearchEpoch:
        self.total = self.total + torch.rand(())
        self.epoch += 1
        return SearchEpoch(self.epoch - 1, 0.0, 0.0, float(self.total), {})

    def favored(self) -> Architecture:
        return self.problem.smallest

    def candidates(self, stop: Callable[[], bool]) -> list[Candidate]:
        return [Candidate(architecture=self.favored(), val=float(self.total), loss=0.0)]

    def network(self, architecture: Architecture) -> GraphNetwork:
        return GraphNetwork(architecture, self.problem.task, self.problem.hidden)

    def warnings(self) -> list[str]:
        return []

    def tensors(self) -> dict[str, Tensor]:
        return {"total": self.total, "search/name": torch.zeros(())}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        assert set(tensors) == {"total", "search/name"}
        self.total = tensors["total"]


class Walking(Strategy):
    name: Literal["walking"] = "walking"

    def start(self, problem: Problem) -> Search:
        return Walk(problem, self.epochs)


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(), seed=5)


def steps(search: Search) -> Iterator[float]:
    while not search.is_over:
        yield search.step().val


def test_a_search_is_over_after_its_epochs(problem: Problem) -> None:
    with Walking(epochs=3).begin(problem) as search:
        assert not search.is_over
        assert len(list(steps(search))) == 3
        assert search.is_over


def test_a_restored_search_draws_the_numbers_that_were_to_come(problem: Problem) -> None:
    walking = Walking(epochs=6)
    with walking.begin(problem) as search:
        for _ in range(2):
            search.step()
        state = saved(search.state())
        expected = list(steps(search))
    with walking.begin(problem) as again:
        torch.rand(7)
        again.restore(state)
        assert again.epoch == 2
        assert list(steps(again)) == expected


def test_a_state_holds_no_more_than_epoch_random_state_and_the_search_itself(
    problem: Problem,
) -> None:
    with Walking().begin(problem) as search:
        assert set(search.state()) == {
            "epoch",
            "random",
            "search/total",
            "search/search/name",
        }


def test_the_seed_decides_the_random_state_inside_and_nothing_changes_outside(
    problem: Problem, tiny_task: GraphTask
) -> None:
    other = Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(), seed=6)
    outside = torch.get_rng_state()
    walks = []
    for given in (problem, problem, other):
        with Walking(epochs=3).begin(given) as search:
            walks.append(list(steps(search)))
    assert walks[0] == walks[1] != walks[2]
    assert torch.equal(torch.get_rng_state(), outside)


def test_an_error_inside_leaves_the_random_state_outside_alone(problem: Problem) -> None:
    def interrupted() -> None:
        with Walking().begin(problem) as search:
            search.step()
            raise KeyboardInterrupt

    outside = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.equal(torch.get_rng_state(), outside)


def test_settings_with_a_change_differ_in_it_alone() -> None:
    settings = PRESETS["paper"]
    changed = settings.changed(pool=7)
    assert changed.model_dump() == {**settings.model_dump(), "pool": 7}
    assert settings.pool == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("epochs", 1.5),
        ("epochs", "many"),
        ("train_steps", 0),
        ("weight_lr", float("nan")),
        ("weight_lr", float("inf")),
        ("weight_lr", 0.0),
        ("architecture_lr", -0.1),
        ("anneal_start", -1),
        ("anneal_rate", -1.0),
        ("warm_up", -1),
        ("estimator", "guess"),
        ("controller", "rnn"),
        ("gating", "half"),
        ("gate_noise", "white"),
        ("graph_summary", True),
        ("pool", 0),
        ("name", "random"),
    ],
)
def test_settings_without_sense_are_one_sentence(field: str, value: Any) -> None:
    with pytest.raises(SearchError) as caught:
        PRESETS["default"].changed(**{field: value})
    text = str(caught.value)
    assert text.startswith(f"The strategy 'pdnas' cannot be set so: {field}: ")
    assert text.endswith(f", but got {value!r}.")
    assert "\n" not in text


def test_an_unknown_setting_is_one_sentence_with_the_known_ones() -> None:
    with pytest.raises(SearchError) as caught:
        PRESETS["default"].changed(epcohs=3)
    known = "epochs, train_steps, weight_lr"
    assert str(caught.value).startswith(
        f"The strategy 'pdnas' has no setting 'epcohs'; it has: {known}"
    )


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        setattr(PRESETS["default"], "epochs", 3)  # noqa: B010


def test_lasting_settings_have_fewer_epochs_and_are_otherwise_the_same() -> None:
    assert Walking(epochs=50).lasting(20) == Walking(epochs=20)
    with pytest.raises(SearchError, match=r"epochs: .* but got 0"):
        Walking().lasting(0)


@pytest.mark.parametrize("settings", [PRESETS[name] for name in PRESETS], ids=list(PRESETS))
@pytest.mark.parametrize("factor", [0.25, 2])
def test_a_schedule_shrinks_and_grows_with_the_epochs(settings: Pdnas, factor: float) -> None:
    expected = settings.changed(
        epochs=int(400 * factor),
        anneal_start=int(80 * factor),
        warm_up=int(settings.warm_up * factor),
        pool=max(1, round(settings.pool * factor)),
        adapted=int(settings.adapted * factor),
    )
    assert settings.lasting(int(400 * factor)) == expected
    assert settings.lasting(settings.epochs) == settings


def test_at_least_one_candidate_is_left_of_the_shortest_search() -> None:
    assert PRESETS["default"].lasting(1).pool == 1


def test_what_candidates_cost_is_counted_in_epochs() -> None:
    assert Walking(epochs=7).refining == 0
    settings = PRESETS["default"].changed(epochs=100, pool=31, adapted=4, adapt_epochs=5)
    assert settings.refining == 11 + 20


def test_a_search_that_cannot_look_closer_leaves_its_candidates_as_they_are(
    problem: Problem,
) -> None:
    with Walking(epochs=2).begin(problem) as search:
        candidates = search.candidates(lambda: False)
        assert search.refine(candidates, lambda: False) == candidates


ANY: TypeAdapter[Strategy] = TypeAdapter(AnyStrategy)


@pytest.mark.parametrize("settings", [PRESETS[name] for name in PRESETS], ids=list(PRESETS))
def test_settings_of_any_strategy_survive_json(settings: Pdnas) -> None:
    read = ANY.validate_json(ANY.dump_json(settings))
    assert read == settings
    assert type(read) is Pdnas


def test_settings_that_are_settings_already_stay_the_same() -> None:
    settings = Walking()
    assert read_strategy(settings) is settings
    assert ANY.validate_python(PRESETS["paper"]) == PRESETS["paper"]


def test_what_is_written_down_in_part_has_the_defaults_for_the_rest() -> None:
    assert ANY.validate_python({"name": "pdnas", "pool": 3}) == Pdnas(pool=3)


@pytest.mark.parametrize("values", [{}, {"epochs": 3}, {"name": 5}, "pdnas", None, [1]])
def test_settings_without_a_name_are_not_valid(values: Any) -> None:
    with pytest.raises(ValidationError):
        ANY.validate_python(values)


def test_a_value_out_of_range_is_not_valid() -> None:
    with pytest.raises(ValidationError, match="pool"):
        ANY.validate_python({"name": "pdnas", "pool": 0})


def test_an_unknown_strategy_is_answered_with_the_known_ones() -> None:
    known = ", ".join(STRATEGIES)
    sentence = f"Unknown strategy 'pdnsa'; known are: {known}; did you mean 'pdnas'?"
    with pytest.raises(UnknownNameError) as looked_up:
        STRATEGIES["pdnsa"]
    with pytest.raises(UnknownNameError) as read:
        ANY.validate_python({"name": "pdnsa"})
    assert str(looked_up.value) == str(read.value) == sentence


def test_every_strategy_is_registered_under_its_name() -> None:
    assert "pdnas" in STRATEGIES
    for name in STRATEGIES:
        assert STRATEGIES[name].model_validate({"name": name}).name == name
