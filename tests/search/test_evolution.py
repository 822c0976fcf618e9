"""Regularized evolution: who breeds, who is forgotten, and that it climbs."""

import pytest
import torch

from pdnas.architecture import Architecture
from pdnas.errors import SearchError
from pdnas.search import Candidate, Problem
from pdnas.search.evolution import Evolution, EvolutionSearch
from pdnas.search.rating import Rating
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=1))


def differences(problem: Problem, one: Architecture, other: Architecture) -> int:
    pairs = zip(problem.choices(one), problem.choices(other), strict=True)
    return sum(first != second for first, second in pairs)


def fill(search: EvolutionSearch, vals: list[float]) -> None:
    for val in vals:
        drawn = search.problem.space.plain(search.problem.sample(search.generator))
        search.tried.append(Candidate(architecture=drawn, val=val, loss=1.0))


def test_the_best_of_the_living_is_changed_in_one_choice(problem: Problem) -> None:
    search = Evolution(population=4, tournament=4).start(problem)
    fill(search, [0.9, 0.1, 0.2, 0.8, 0.3])  # the first is too old
    for _ in range(10):
        changed = problem.space.plain(search.propose())
        assert differences(problem, changed, search.tried[3].architecture) <= 2
        assert changed != search.tried[3].architecture


def test_a_tournament_of_one_takes_anybody(problem: Problem) -> None:
    search = Evolution(population=4, tournament=1).start(problem)
    fill(search, [0.1, 0.2, 0.3, 0.9])
    parents = set()
    for _ in range(60):
        changed = problem.space.plain(search.propose())
        distances = [differences(problem, changed, one.architecture) for one in search.tried]
        parents.add(distances.index(min(distances)))
    assert parents == {0, 1, 2, 3}


def test_it_climbs(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each choice that is the first option adds as much: random draws hardly ever have them all."""

    def worth(architecture: Architecture) -> float:
        choices = problem.choices(architecture)
        return sum(choice == 0 for choice in choices) / len(choices)

    search = Evolution(epochs=300, population=10, tournament=5).start(problem)
    monkeypatch.setattr(search.rater, "rate", lambda one, *_: Rating(1.0, 1.0, worth(one)))
    while not search.is_over:
        search.step()
    generator = torch.Generator().manual_seed(1)
    drawn = [worth(problem.space.plain(problem.sample(generator))) for _ in range(300)]
    assert max(one.val for one in search.tried) > max(drawn) + 0.1


def test_a_tournament_larger_than_the_population_is_refused() -> None:
    with pytest.raises(SearchError, match="--tournament is 9, but --population only 3"):
        Evolution().changed(population=3, tournament=9)


def test_a_short_search_has_a_small_population() -> None:
    short = Evolution().lasting(12)
    assert (short.epochs, short.population, short.tournament) == (12, 4, 4)
    assert Evolution().lasting(200).population == 20


def test_a_search_in_which_nothing_was_bred_says_so(problem: Problem) -> None:
    search = Evolution(epochs=9, population=3, tournament=2).start(problem)
    assert search.warnings() == []
    fill(search, [0.1, 0.2, 0.3])
    search.epoch = 3
    (warning,) = search.warnings()
    assert "ended after 3 architectures" in warning
    search.epoch = 4
    assert search.warnings() == []
