"""AGNN: one class of choices at a time, from the best, rewarded by what it adds."""

import pytest

from pdnas.architecture import Architecture
from pdnas.search import Problem
from pdnas.search.agnn import GATES, Agnn
from pdnas.search.rating import Rating, TrainingRater
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import seeded


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=1))


def test_every_choice_belongs_to_one_class(problem: Problem) -> None:
    with seeded(0):
        search = Agnn().start(problem)
        assert set(search.classes) == {
            "expansion",
            "attention",
            "heads",
            "aggregation",
            "activation",
            GATES,
        }
        numbers = sorted(number for own in search.classes.values() for number in own)
    assert numbers == list(range(len(problem.places)))


def test_a_proposal_differs_from_the_best_in_one_class(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeded(0):
        search = Agnn(epochs=40).start(problem)
        monkeypatch.setattr(search.rater, "rate", lambda *_: Rating(1.0, 1.0, 0.5))
        search.step()
        best = problem.choices(search.tried[0].architecture)
        changed_classes = set()
        for _ in range(39):
            name = search.step().details["class"]
            choices = problem.choices(search.tried[-1].architecture)
            differ = {
                n for n, pair in enumerate(zip(best, choices, strict=True)) if len(set(pair)) > 1
            }
            # a fixed attention has no heads to speak of, so that these may change with it
            allowed = set(search.classes[name]) | set(search.classes["heads"])
            assert differ <= allowed
            changed_classes.add(name)
    assert len(changed_classes) >= 4


def test_what_changes_nothing_is_decided_again(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeded(0):
        search = Agnn(epochs=60).start(problem)
    monkeypatch.setattr(search.rater, "rate", lambda *_: Rating(1.0, 1.0, 0.5))
    for _ in range(60):
        search.step()
    best = search.tried[0].architecture
    assert best not in [one.architecture for one in search.tried[1:]]


def test_it_climbs_and_never_goes_back(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    def worth(architecture: Architecture) -> float:
        choices = problem.choices(architecture)
        return sum(choice == 0 for choice in choices) / len(choices)

    with seeded(0):
        search = Agnn(epochs=200).start(problem)
        monkeypatch.setattr(search.rater, "rate", lambda one, *_: Rating(1.0, 1.0, worth(one)))
        while not search.is_over:
            search.step()
        assert search._best is not None
        assert search._best.val == max(one.val for one in search.tried)
    assert search.tried[0].val < 0.7
    assert search._best.val > 0.9


def test_sharing_means_inherited_weights_and_short_trainings(problem: Problem) -> None:
    settings = Agnn(sharing="on", inherited_epochs=7)
    rater = settings.rater(problem)
    assert isinstance(rater, TrainingRater)
    assert rater.inherited_epochs == settings.trained_epochs == 7
    alone = Agnn(train_epochs=30).rater(problem)
    assert isinstance(alone, TrainingRater)
    assert alone.inherited_epochs == 0
    assert Agnn(train_epochs=30).trained_epochs == 30
