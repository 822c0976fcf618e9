"""GraphNAS: what its policy decides is tried, and rewarded by validation."""

import pytest
import torch

from pdnas.architecture import Architecture
from pdnas.search import Problem
from pdnas.search.base import never
from pdnas.search.graphnas import GraphNas
from pdnas.search.rating import Rating
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import seeded


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=1))


def test_it_comes_to_decide_what_validation_likes(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first block's attention matters: gat is worth more than all others."""

    def worth(architecture: Architecture) -> float:
        return 0.9 if architecture.blocks[0].attention == "gat" else 0.1

    settings = GraphNas(epochs=300, policy_lr=0.01, baseline_decay=0.9)
    with seeded(0):
        search = settings.start(problem)
        monkeypatch.setattr(search.rater, "rate", lambda one, *_: Rating(1.0, 1.0, worth(one)))
        while not search.is_over:
            search.step()
    late = [one.val for one in search.tried[-50:]]
    early = [one.val for one in search.tried[:25]]
    assert sum(late) / 50 > 0.7 > 0.5 > sum(early) / 25


def test_with_shared_weights_its_policy_proposes_more_in_the_end(problem: Problem) -> None:
    with seeded(0):
        search = GraphNas(sharing="on", epochs=3, pool=6).start(problem)
        for _ in range(3):
            search.step()
        found = {one.architecture for one in search.candidates(never)}
    assert found > {one.architecture for one in search.tried}
    assert len(found) <= 6


def test_what_is_too_large_is_shrunk_and_learned_as_what_it_became(tiny_task: GraphTask) -> None:
    free = Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=1))
    small = Problem(
        tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=1), free.parameters(free.smallest) + 10
    )
    with seeded(0):
        search = GraphNas(epochs=5, train_epochs=1).start(small)
        for _ in range(5):
            proposed = search.propose()
            assert small.fits(proposed)
            assert small.made(search._actions.tolist()) == proposed


def test_the_entropy_of_the_policy_is_in_the_history(problem: Problem) -> None:
    with seeded(0):
        search = GraphNas(epochs=2, train_epochs=1).start(problem)
        entropy = search.step().details["entropy"]
    sizes = [len(problem.options(place)) for place in problem.places]
    mean = float(torch.tensor(sizes).float().log().mean())
    assert 0.9 * mean < entropy <= mean + 1e-6
