"""What searches by proposal have in common: what is remembered, favored and asked again."""

from collections.abc import Iterator
from typing import Literal

import pytest
import torch

from pdnas.architecture import Architecture
from pdnas.errors import UnknownNameError
from pdnas.search import Candidate, Problem
from pdnas.search.base import never
from pdnas.search.random import Random
from pdnas.search.rated import SHARED_EPOCHS, OneShot, RatedSearch, labeled, labels
from pdnas.search.rating import HOPELESS_RATING, Rating, SharedRater
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import seeded


class Fixed(OneShot):
    name: Literal["fixed"] = "fixed"

    def start(self, problem: Problem) -> "FixedSearch":
        return FixedSearch(problem, self, self.pool)


class FixedSearch(RatedSearch):
    """Proposes what it is told to."""

    proposals: Iterator[Architecture]

    def propose(self) -> Architecture:
        return next(self.proposals)


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=3))


def some(problem: Problem, count: int) -> list[Architecture]:
    generator = torch.Generator().manual_seed(0)
    return [problem.space.plain(problem.sample(generator)) for _ in range(count)]


def begun(
    problem: Problem,
    proposals: list[Architecture],
    vals: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> FixedSearch:
    """A search whose ratings are given."""
    search = Fixed(epochs=len(proposals), train_epochs=2).start(problem)
    search.proposals, values = iter(proposals), iter(vals)
    monkeypatch.setattr(search.rater, "rate", lambda *_: Rating(1.0, 0.5, next(values), alone=True))
    return search


def test_candidates_are_what_was_tried_each_once_the_best_first(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = some(problem, 3)
    search = begun(problem, [first, second, first, third], [0.1, 0.9, 0.4, 0.3], monkeypatch)
    epochs = []
    while not search.is_over:
        epochs.append(search.step())
    found = search.candidates(never)
    assert [one.architecture for one in found] == [second, first, third]
    assert [one.val for one in found] == [0.9, 0.4, 0.3]
    assert search.favored() == second
    assert [epoch.val for epoch in epochs] == [0.1, 0.9, 0.4, 0.3]
    assert all(epoch.alone for epoch in epochs)
    assert epochs[1].details["choices"] == list(problem.choices(second))


def test_shared_weights_are_asked_again_about_the_latest(problem: Problem) -> None:
    with seeded(0):
        search = Random(sharing="on", epochs=6, pool=3).start(problem)
        for _ in range(6):
            assert search.step().alone is False
        found = search.candidates(never)
        assert isinstance(search.rater, SharedRater)
        shared = search.rater.shared
        again = {one.architecture: shared.rate(one.architecture) for one in found}
    latest = {one.architecture for one in search.tried[-3:]}
    assert {one.architecture for one in found} == latest
    assert all(again[one.architecture] == one for one in found)
    assert [one.val for one in found] == sorted((one.val for one in found), reverse=True)


def test_a_search_lasts_longer_where_weights_are_shared() -> None:
    assert Random().epochs == 100
    assert Random(sharing="on").epochs == SHARED_EPOCHS
    assert Random(sharing="on", epochs=7).epochs == 7


def test_what_an_epoch_costs() -> None:
    assert Random(train_epochs=50).trained_epochs == 50
    assert Random(sharing="on").trained_epochs == 0
    assert (Random().refining, Random(sharing="on", pool=30).refining) == (0, 10)


def test_a_search_in_which_nothing_learns_says_so(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = begun(problem, some(problem, 2), [0.0, 0.0], monkeypatch)
    assert search.warnings() == []
    monkeypatch.setattr(search.rater, "rate", lambda *_: HOPELESS_RATING)
    search.step()
    (warning,) = search.warnings()
    assert "lower the learning rate, now 0.01" in warning


def test_what_was_tried_is_saved_to_the_last_digit(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = begun(problem, some(problem, 3), [0.123457, 0.7, 0.333333], monkeypatch)
    for _ in range(3):
        search.step()
    other = Fixed(epochs=3).start(problem)
    other.load(search.tensors())
    assert other.tried == search.tried
    assert all(isinstance(one, Candidate) for one in other.tried)


def test_every_label_names_a_strategy_that_has_it() -> None:
    assert "pdnas" in labels()
    assert {"random-shared", "evolution-shared", "graphnas-shared", "agnn-shared"} < set(labels())
    assert [labeled(label).label for label in labels()] == labels()
    assert labeled("graphnas-shared").epochs == SHARED_EPOCHS


def test_an_unknown_label_is_refused_with_the_closest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'graphnas-shared'"):
        labeled("graphnas-share")
    with pytest.raises(UnknownNameError, match="pdnas-shared"):
        labeled("pdnas-shared")


def test_settings_that_change_nothing_are_known() -> None:
    assert labeled("graphnas").idle == ("weight_lr", "pool")
    assert labeled("graphnas-shared").idle == ("train_epochs",)
    assert (labeled("agnn").idle, labeled("agnn-shared").idle) == (("inherited_epochs",), ())
    assert labeled("pdnas").idle == ()
