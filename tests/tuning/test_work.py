"""Work that is sent elsewhere: what it does, when it reports, and what it must not look at."""

import json
import pickle
import statistics
import time
from pathlib import Path

import pytest

from pdnas.architecture import Architecture
from pdnas.errors import DivergedError, PdnasError, SearchError
from pdnas.job import Job
from pdnas.pipeline import Pipeline
from pdnas.runs import SETTINGS
from pdnas.search.pdnas import PRESETS
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, train
from pdnas.tuning import work as module
from pdnas.tuning.work import (
    RUNGS,
    SearchOutcome,
    SearchWork,
    Trained,
    TrainingOutcome,
    TrainingWork,
    Work,
    reason_of,
)
from pdnas.watcher import Watcher

RECIPE = Recipe(epochs=60, patience=60)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    """A search of a moment."""
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    strategy = PRESETS["default"].changed(pool=4, adapted=1, adapt_epochs=1).lasting(4)
    return Job(
        strategy=strategy,
        blocks=(1,),
        hidden=(4,),
        recipe=Recipe(epochs=4),
        candidates=2,
        controls=(),
    )


def trainings(architecture: Architecture, **changed: object) -> TrainingWork:
    values = {"task": "task", "architecture": architecture, "hidden": 4, "recipe": RECIPE}
    return TrainingWork.model_validate({**values, "seeds": (5, 6), **changed})


def never(epoch: int, val: float) -> bool:
    return False


def no_look(*_: object) -> float:
    raise AssertionError("the test part was read")


def test_a_training_is_the_same_as_anywhere(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    outcome = TrainingOutcome.model_validate(trainings(architecture).do(tiny_task, never))
    result = train(architecture, tiny_task, hidden=4, recipe=RECIPE, seeds=(5, 6))
    assert tuple(training.val for training in outcome.trainings) == result.val.values
    assert tuple(training.epoch for training in outcome.trainings) == result.epochs
    assert [training.seed for training in outcome.trainings] == [5, 6]
    assert outcome.mean_val == statistics.fmean(result.val.values)
    assert outcome.parameters == result.parameters
    assert not outcome.pruned


def test_the_mean_is_that_of_the_trainings() -> None:
    vals = (0.5, 0.75, 1.0)
    made = tuple(Trained(seed=0, val=v, test=None, epoch=0, epochs=1, seconds=0) for v in vals)
    assert TrainingOutcome(trainings=made, parameters=1).mean_val == 0.75


def test_the_test_part_is_read_only_where_that_is_asked_for(
    architecture: Architecture, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = trainings(architecture, tested=True)
    tested = TrainingOutcome.model_validate(work.do(tiny_task, never))
    result = train(architecture, tiny_task, hidden=4, recipe=RECIPE, seeds=(5, 6))
    assert tuple(training.test for training in tested.trainings) == result.test.values
    monkeypatch.setattr(module, "read_test", no_look)
    outcome = TrainingOutcome.model_validate(trainings(architecture).do(tiny_task, never))
    assert [training.test for training in outcome.trainings] == [None, None]
    with pytest.raises(AssertionError, match="was read"):
        work.do(tiny_task, never)


def test_only_the_first_training_reports_its_best_so_far(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    heard: list[tuple[int, float]] = []

    def report(epoch: int, val: float) -> bool:
        heard.append((epoch, val))
        return False

    work = trainings(architecture, recipe=RECIPE.changed(epochs=120, patience=120))
    outcome = TrainingOutcome.model_validate(work.do(tiny_task, report))
    assert [epoch for epoch, _ in heard] == [25, 50, 100]
    assert heard == sorted(heard, key=lambda entry: entry[1])
    assert heard[-1][1] <= outcome.trainings[0].val


@pytest.mark.parametrize("rung", RUNGS[:3])
def test_one_that_is_told_to_stop_does(
    architecture: Architecture, tiny_task: GraphTask, rung: int
) -> None:
    work = trainings(architecture, recipe=RECIPE.changed(epochs=120, patience=120))
    outcome = TrainingOutcome.model_validate(work.do(tiny_task, lambda epoch, _: epoch == rung))
    assert outcome.pruned
    assert [(training.seed, training.epochs) for training in outcome.trainings] == [(5, rung)]


@pytest.mark.parametrize(("late", "epochs"), [(1, [1]), (60, [60]), (61, [60, 1]), (70, [60, 10])])
def test_whoever_is_late_ends_at_any_epoch(
    architecture: Architecture, tiny_task: GraphTask, late: int, epochs: list[int]
) -> None:
    count = 0

    def is_late() -> bool:
        nonlocal count
        count += 1
        return count >= late

    outcome = TrainingOutcome.model_validate(trainings(architecture).do(tiny_task, never, is_late))
    assert outcome.pruned
    assert [training.epochs for training in outcome.trainings] == epochs


def test_work_is_on_the_split_that_it_names(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    random = tiny_task.with_split("random", 0)
    others = [random.with_split("random", seed) for seed in (0, 3)]
    for seed, expected in ((None, others[0]), (0, others[0]), (3, others[1])):
        work = trainings(architecture, split_seed=seed)
        assert work.on_split(random).split.sha256 == expected.split.sha256
        outcome = TrainingOutcome.model_validate(work.do(random, never))
        result = train(architecture, expected, hidden=4, recipe=RECIPE, seeds=(5, 6))
        assert tuple(training.val for training in outcome.trainings) == result.val.values


def test_a_training_that_diverges_throws(architecture: Architecture, tiny_task: GraphTask) -> None:
    work = trainings(architecture, recipe=RECIPE.changed(lr=1e38))
    with pytest.raises(DivergedError, match="no longer finite"):
        work.do(tiny_task, never)


def test_work_and_what_comes_out_can_be_sent(
    architecture: Architecture, tiny_task: GraphTask, job: Job, tmp_path: Path
) -> None:
    pieces: list[Work] = [trainings(architecture), SearchWork(task="task", job=job, run=tmp_path)]
    for piece in pieces:
        assert pickle.loads(pickle.dumps(piece)) == piece
        assert type(piece).model_validate_json(piece.model_dump_json()) == piece
    outcome = pieces[0].do(tiny_task, never)
    assert json.loads(json.dumps(outcome)) == outcome


def test_a_search_chooses_as_the_pipeline_does(
    tiny_task: GraphTask, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("finals", "outcome"):
        monkeypatch.setattr(f"pdnas.pipeline.{place}.read_test", no_look)
    work = SearchWork(task="task", job=job)
    outcome = SearchOutcome.model_validate(work.do(tiny_task, never))
    line = Pipeline(job, tiny_task, run=None, watcher=Watcher(), started=time.monotonic())
    chosen = line.choose()
    assert (outcome.architecture, outcome.hidden) == (chosen.architecture, chosen.hidden)
    own = [t.val for t in line.progress.trials if t.architecture == chosen.architecture]
    assert outcome.val == statistics.fmean(own)
    assert outcome.warnings == tuple(line.progress.cells[0].warnings)


def test_a_search_goes_on_in_its_folder(
    tiny_task: GraphTask, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = SearchWork(task="task", job=job).do(tiny_task, never)
    work = SearchWork(task="task", job=job, run=tmp_path / "cell")
    trained = Watcher.trained

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Watcher, "trained", die)
        with pytest.raises(KeyboardInterrupt):
            work.do(tiny_task, never)
    assert (tmp_path / "cell" / SETTINGS).is_file()
    assert Watcher.trained is trained
    with monkeypatch.context() as patch:
        patch.setattr(Watcher, "searched", die)  # the search itself is over and not repeated
        outcome = work.do(tiny_task, never)
    assert outcome == expected


def test_a_folder_whose_maker_died_at_once_is_made_again(
    tiny_task: GraphTask, job: Job, tmp_path: Path
) -> None:
    (tmp_path / "cell" / "checkpoint").mkdir(parents=True)
    SearchWork(task="task", job=job, run=tmp_path / "cell").do(tiny_task, never)
    assert (tmp_path / "cell" / SETTINGS).is_file()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DivergedError("The loss is gone."), "The loss is gone."),
        (SearchError("No network\n  fits."), "No network fits."),
        (PdnasError("A sentence."), "A sentence."),
        (ValueError("two\nlines"), "ValueError: two lines"),
    ],
)
def test_a_reason_is_a_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
