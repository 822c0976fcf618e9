"""What trainings say of choices: planted effects are found, proposals follow them and fit."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdnas.architecture import Architecture
from pdnas.search import Problem
from pdnas.search.effects import BOLDNESS, PENALTY, Effects, places
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe


def problem_on(task: GraphTask, max_parameters: int | None = None) -> Problem:
    return Problem(task, SPACES["paper"], 2, 4, Recipe(), max_parameters)


def sampled(problem: Problem, count: int, seed: int = 0) -> list[Architecture]:
    generator = torch.Generator().manual_seed(seed)
    return [problem.space.plain(problem.sample(generator)) for _ in range(count)]


def quality(architecture: Architecture) -> float:
    """What is planted: one activation is good, a shortcut is bad, and nothing else matters."""
    return 0.1 * (architecture.blocks[0].activation == "tanh") - 0.1 * (
        (0, 0) in architecture.gates
    )


def test_places_are_spread_evenly_and_equals_share_theirs() -> None:
    values = torch.tensor([0.3, 0.1, 0.2, 0.2], dtype=torch.float64)
    shares = torch.tensor([3.5, 0.5, 2.0, 2.0], dtype=torch.float64) / 4 - 0.5
    torch.testing.assert_close(places(values), math.sqrt(12) * shares)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.1, 10))
def test_places_do_not_depend_on_the_scale(values: list[float], scale: float) -> None:
    tensor = torch.tensor(values, dtype=torch.float64).round(decimals=3)
    found = places(tensor)
    torch.testing.assert_close(found, places(scale * tensor + 1))
    assert abs(float(found.sum())) < 1e-9
    assert float(found.square().mean()) <= 1 + 1e-9


def test_the_mean_of_the_posterior_is_that_of_a_ridge_in_closed_form(tiny_task: GraphTask) -> None:
    problem = problem_on(tiny_task)
    trained = {one: float(number % 7) for number, one in enumerate(sampled(problem, 30))}
    effects = Effects(problem, trained)
    x = effects._coded(list(trained))
    z = places(torch.tensor(list(trained.values()), dtype=torch.float64))
    assert x.sum(dim=1).tolist() == [len(problem.places)] * 30
    # A free constant takes the means out of both sides.
    x, z = x - x.mean(dim=0), z - z.mean()
    gram = x.T @ x + PENALTY * torch.eye(x.size(1), dtype=torch.float64)
    torch.testing.assert_close(effects._mean, torch.linalg.solve(gram, x.T @ z), atol=1e-5, rtol=0)


def test_draws_have_the_mean_and_the_spread_of_the_posterior(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over 2000 draws, a mean within 5 standard errors and a spread within 15 %."""
    problem = problem_on(tiny_task)
    effects = Effects(problem, {one: quality(one) for one in sampled(problem, 40)})
    drawn: list[torch.Tensor] = []
    own = effects._best

    def watched(values: torch.Tensor) -> Architecture:
        drawn.append(values)
        return own(values)

    monkeypatch.setattr(effects, "_best", watched)
    generator = torch.Generator().manual_seed(0)
    for _ in range(2000):
        effects.draw(generator)
    values = torch.stack(drawn)
    spread = BOLDNESS * effects._root.square().sum(dim=1).sqrt()
    assert bool(((values.mean(dim=0) - effects._mean).abs() < 5 * spread / 2000**0.5).all())
    assert bool(((values.std(dim=0) / spread - 1).abs() < 0.15).all())


def test_what_made_networks_good_is_proposed(tiny_task: GraphTask) -> None:
    problem = problem_on(tiny_task)
    trained = {one: quality(one) for one in sampled(problem, 120)}
    effects = Effects(problem, trained)
    others = sampled(problem, 60, seed=2)
    worth = effects.worth(others)
    good = torch.tensor([quality(one) > 0 for one in others])
    bad = torch.tensor([quality(one) < 0 for one in others])
    assert float(worth[good].min()) > float(worth[bad].max()), "it is told by choices alone"
    drawn = [effects.draw(torch.Generator().manual_seed(seed)) for seed in range(40)]
    chance = sum(quality(one) == 0.1 for one in sampled(problem, 400, seed=1)) / 400
    assert chance < 0.15
    assert sum(quality(one) == 0.1 for one in drawn) >= 36
    assert len(set(drawn)) > 10, "what does not matter stays open"


def test_a_proposal_is_new_and_none_where_nothing_is(tiny_task: GraphTask) -> None:
    problem = problem_on(tiny_task)
    trained = {one: quality(one) for one in sampled(problem, 20)}
    effects = Effects(problem, trained)
    generator = torch.Generator().manual_seed(0)
    known = dict(trained)
    for _ in range(20):
        proposed = effects.propose(known, generator)
        assert proposed is not None
        assert proposed not in known
        known[proposed] = 0.0

    class Everything(dict[Architecture, float]):
        def __contains__(self, architecture: object) -> bool:
            return True

    assert effects.propose(Everything(), generator) is None


@pytest.mark.parametrize("room", [0, 30, 200])
def test_proposals_fit_and_are_plain_members_of_the_space(tiny_task: GraphTask, room: int) -> None:
    smallest = problem_on(tiny_task)
    most = smallest.parameters(smallest.smallest) + room
    problem = problem_on(tiny_task, most)
    trained = {one: float(number) for number, one in enumerate(sampled(problem, 12))}
    effects = Effects(problem, trained)
    for seed in range(20):
        drawn = effects.draw(torch.Generator().manual_seed(seed))
        assert problem.fits(drawn)
        assert drawn in problem.space
        assert problem.space.plain(drawn) == drawn
