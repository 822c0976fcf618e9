"""Drivers that agree, drivers that do not, and what is left open until the first decides it."""

import pytest
import torch

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RunError
from pdnas.job import Job
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.tuning.agreement import Agreement, decided_as, different, join
from pdnas.tuning.tune import Tuning

CPU = torch.device("cpu")
OPEN = Recipe(epochs=5)
WHOLE = OPEN.changed(batching="full")
CLUSTERS = OPEN.changed(batching="clusters", batch_nodes=9)


def of(recipe: Recipe, architecture: Architecture | None = None, trials: int = 3) -> Tuning:
    return Tuning(architecture=architecture, search=Job(recipe=recipe), trials=trials)


class Place:
    """Where a study is, without a database."""

    def __init__(self, task: GraphTask) -> None:
        self.task = task
        self.about: str | None = None

    def register(self, about: str) -> str:
        self.about = self.about or about
        return self.about

    def join(self, tuning: Tuning, settled: Tuning | None = None, known: bool = True) -> Tuning:
        return join(
            "mine",
            tuning,
            self.task,
            CPU,
            known=self.about if known else None,
            register=self.register,
            settle=lambda: settled or tuning,
        )


@pytest.fixture
def place(tiny_task: GraphTask) -> Place:
    return Place(tiny_task)


def test_the_first_driver_decides_what_a_step_sees(place: Place) -> None:
    assert place.join(of(OPEN), of(CLUSTERS)) == of(CLUSTERS)
    assert place.join(of(OPEN), of(WHOLE)) == of(CLUSTERS)


def test_of_two_that_are_first_the_faster_one_decides(place: Place) -> None:
    place.join(of(OPEN), of(CLUSTERS))
    assert place.join(of(OPEN), of(WHOLE), known=False) == of(CLUSTERS)


def test_how_many_trials_there_are_is_each_drivers_own_matter(place: Place) -> None:
    place.join(of(WHOLE, trials=3))
    assert place.join(of(WHOLE, trials=9)).trials == 9


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (of(WHOLE.changed(lr=0.5)), "lr was 0.01 and is 0.5"),
        (of(CLUSTERS), "batching was full and is clusters"),
        (of(WHOLE).model_copy(update={"trial_seeds": 5}), "trial_seeds was 2 and is 5"),
        (of(WHOLE, Architecture(blocks=(BlockSpec(),))), "another architecture"),
        (of(WHOLE).model_copy(update={"search": Job(recipe=WHOLE, seed=4)}), "seed was 0 and is 4"),
    ],
)
def test_other_settings_are_refused_by_name(place: Place, other: Tuning, said: str) -> None:
    place.join(of(WHOLE))
    with pytest.raises(RunError) as caught:
        place.join(other)
    assert str(caught.value) == (
        f"The study 'mine' was begun with other settings: {said}; repeat them, or give another "
        "--study."
    )


def test_other_data_another_split_and_another_device_are_refused(
    place: Place, tiny_task: GraphTask, rings: GraphTask
) -> None:
    before = Agreement.of(of(WHOLE), tiny_task, CPU)
    random = tiny_task.with_split("random", 3)
    assert before.difference(before) is None
    assert before.difference(Agreement.of(of(WHOLE), random, CPU)) == "another split"
    assert before.difference(Agreement.of(of(WHOLE), rings, CPU)) == "another data"
    cuda = Agreement.of(of(WHOLE), tiny_task, torch.device("cuda:1"))
    assert before.difference(cuda) == "device was cpu and is cuda"


def test_a_study_of_another_version_is_refused(place: Place) -> None:
    place.about = '{"tuning": {}, "weather": "fine"}'
    with pytest.raises(RunError, match=r"'mine' was begun by another version of pdnas \(data: "):
        place.join(of(WHOLE))


def test_a_fingerprint_is_of_all_but_the_number_of_trials(tiny_task: GraphTask) -> None:
    prints = [
        Agreement.of(tuning, tiny_task, CPU).fingerprint
        for tuning in (of(OPEN), of(OPEN, trials=9), of(OPEN.changed(lr=0.5)))
    ]
    assert prints[0] == prints[1] != prints[2]
    assert len(prints[0]) == 8


def test_what_is_said_now_is_not_overruled() -> None:
    assert decided_as(of(WHOLE), of(CLUSTERS)) == of(CLUSTERS)
    assert decided_as(of(CLUSTERS), of(OPEN)) == of(CLUSTERS)
    assert different(of(CLUSTERS), decided_as(of(CLUSTERS), of(OPEN))) is None
