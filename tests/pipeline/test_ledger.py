"""What is finished is written down whole: a job that dies goes on to the same end."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.conftest import (
    PREVIOUS,
    Clock,
    Events,
    Whole,
    follow,
    lean,
    outcome,
    short,
    validation,
)

from pdnas.architecture import Architecture
from pdnas.errors import RunError
from pdnas.job import Progress
from pdnas.pipeline import search
from pdnas.runs import (
    ARCHITECTURE,
    HISTORY,
    PIPELINE,
    SEARCH_STATE,
    WEIGHTS,
    RunDirectory,
    load_run,
)
from pdnas.tasks import GraphTask


def files(run: RunDirectory) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


def test_a_checkpoint_counts_on_history_that_the_disk_has(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    append, write = RunDirectory.append_history, RunDirectory.write_state

    def appended(self: RunDirectory, *lines: Any, **how: Any) -> int:
        order.append("durable" if how.get("durable", True) else "not yet")
        return append(self, *lines, **how)

    def written(self: RunDirectory, *what: Any) -> None:
        order.append("checkpoint")
        write(self, *what)

    monkeypatch.setattr(RunDirectory, "append_history", appended)
    monkeypatch.setattr(RunDirectory, "write_state", written)
    ticks = itertools.count(0.0, 10.0)  # so slow that every epoch is kept
    monkeypatch.setattr(Clock, "monotonic", lambda _: next(ticks))
    follow(monkeypatch, Clock())
    search(tiny_task, lean(), run=run)
    places = [number for number, what in enumerate(order) if what == "checkpoint"]
    assert places
    assert {order[place - 1] for place in places} == {"durable"}


PLACES = [
    "search 2x4 epoch 0",
    "candidate 1 epoch 1",
    "candidate 3 epoch 0",
    "candidate 4 epoch 0",
    "found, seed 0 epoch 1",
    "found, seed 1 epoch 0",
    "gcn, seed 1 epoch 1",
]


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupted_job_keeps_the_best_network_and_comes_to_the_same_end(
    whole: RunDirectory, run: RunDirectory, tiny_task: GraphTask, place: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, short(), run=run, watcher=Events(place))
    kept = load_run(run.path)
    assert kept.search is not None
    assert kept.search.stopped == "interrupt"
    assert kept.architecture == Architecture.load(run.path / ARCHITECTURE)
    assert validation(kept, tiny_task) == pytest.approx(max(kept.val.values), abs=1e-6)

    events = Events()
    search(tiny_task, short(), run=run, watcher=events)
    assert outcome(run) == outcome(whole)
    again = {event.rpartition(" ")[0] for event in events.seen}
    assert place.rpartition(" ")[0] in again
    for other in PLACES[: PLACES.index(place)]:
        name = other.rpartition(" ")[0]
        assert name == place.rpartition(" ")[0] or name not in again, "done twice"


@pytest.mark.parametrize("place", ["search 2x4 epoch 5", "search 2x4 epoch 0"])
def test_an_interrupted_search_goes_on_from_its_checkpoint(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask, often: None, place: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events(place))
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert events.seen[0] == place
    assert outcome(run) == outcome(undisturbed(lean()))


def test_an_interrupted_grid_comes_to_the_same_end(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask, often: None
) -> None:
    job, expected, run = lean(hidden=(2, 4)), new_run(), new_run()
    search(tiny_task, job, run=expected)
    for place in ("search 2x2 epoch 3", "search 2x4 epoch 4"):
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, job, run=run, watcher=Events(place))
    search(tiny_task, job, run=run)
    assert outcome(run) == outcome(expected)


def test_an_interrupt_while_weights_are_written_leaves_a_result_that_fits_its_weights(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, count, last = RunDirectory.write_weights, 0, 0

    def stop(self: RunDirectory, name: str | Path, weights: Any) -> None:
        nonlocal count
        count += name != WEIGHTS
        if name != WEIGHTS and count == last:
            raise KeyboardInterrupt
        write(self, name, weights)

    monkeypatch.setattr(RunDirectory, "write_weights", stop)
    job = short(candidates=6, seeds=1, controls=())
    search(tiny_task, job, run=new_run())
    assert count >= 3, "a first candidate, a better one, and the final training"
    for number in range(1, count + 1):
        run, count, last = new_run(), 0, number
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, job, run=run)
        result = load_run(run.path)
        assert validation(result, tiny_task) == pytest.approx(result.val.mean, abs=1e-6)


def test_a_job_killed_after_its_weights_were_written_may_be_interrupted(
    run: RunDirectory, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are then those of a candidate that is not recorded yet."""
    write, job = RunDirectory.write_json, short(candidates=6, seeds=1, controls=())

    def die(self: RunDirectory, name: str | Path, value: Any) -> None:
        if isinstance(value, Progress) and len(value.trials) > 1:
            *others, last = [trial.val for trial in value.trials]
            if last > max(others):
                raise SystemError("killed")
        write(self, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_json", die)
        with pytest.raises(SystemError, match="killed"):
            search(tiny_task, job, run=run)
    number = len(run.read_record(PIPELINE, Progress).trials) + 1
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events(f"candidate {number} epoch 0"))
    result = load_run(run.path)
    assert validation(result, tiny_task) == pytest.approx(result.val.mean, abs=1e-6)


@pytest.mark.parametrize("number", [1, 3, 7])
def test_a_job_that_dies_between_two_files_comes_to_the_same_end(
    whole: RunDirectory,
    run: RunDirectory,
    tiny_task: GraphTask,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    write, left = RunDirectory.write_json, number + 1

    def fail_once(self: RunDirectory, name: str | Path, value: Any) -> None:
        nonlocal left
        left -= name == PIPELINE
        if name == PIPELINE and left == 0:
            raise RunError("No space left.")
        write(self, name, value)

    monkeypatch.setattr(RunDirectory, "write_json", fail_once)
    with pytest.raises(RunError, match="No space left"):
        search(tiny_task, short(), run=run)
    search(tiny_task, short(), run=run)
    assert outcome(run) == outcome(whole)


@pytest.mark.parametrize("place", ["search 2x4 epoch 4", "found, seed 0 epoch 0"])
def test_half_a_line_of_history_is_forgotten(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask, often: None, place: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events(place))
    with (run.path / HISTORY).open("ab") as file:
        file.write(b'{"phase": "sea')
    search(tiny_task, lean(), run=run)
    assert outcome(run) == outcome(undisturbed(lean()))


def test_a_finished_job_is_not_done_again(tiny_task: GraphTask, run: RunDirectory) -> None:
    search(tiny_task, short(), run=run)
    before, events = files(run), Events()
    result = search(tiny_task, short(), run=run, watcher=events)
    assert events.seen == []
    assert files(run) == before
    assert result.model_dump() == load_run(run.path).model_dump()


def test_a_finished_search_leaves_no_checkpoint_of_it(
    run: RunDirectory, tiny_task: GraphTask, often: None
) -> None:
    events = Events("candidate 1 epoch 0")
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=events)
    assert not run.has(SEARCH_STATE)
    assert not run.has(PREVIOUS)


def test_a_run_on_another_split_is_not_gone_on_with(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("candidate 1 epoch 0"))
    before = files(run)
    with pytest.raises(RunError, match="begun on another split: its data have changed"):
        search(tiny_task.with_split("random", 0), lean(), run=run)
    assert files(run) == before


def test_a_run_on_data_that_changed_is_not_gone_on_with(
    run: RunDirectory, tiny_task: GraphTask, changed_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("candidate 1 epoch 0"))
    before = files(run)
    with pytest.raises(RunError, match="begun with other features, edges or labels: its data"):
        search(changed_task, lean(), run=run)
    assert files(run) == before


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-7], "empty": b"", "other": b"\0" * len(content)}[how])


LATEST, BOTH = [SEARCH_STATE], [SEARCH_STATE, PREVIOUS]


@pytest.mark.parametrize(
    ("damaged", "how", "first"),
    [
        (LATEST, "cut", "search 2x4 epoch 3"),
        (LATEST, "other", "search 2x4 epoch 3"),
        (BOTH, "cut", "search 2x4 epoch 0"),
        (BOTH, "empty", "search 2x4 epoch 0"),
    ],
)
def test_a_damaged_checkpoint_is_reported_and_an_earlier_one_used(
    undisturbed: Whole,
    run: RunDirectory,
    tiny_task: GraphTask,
    often: None,
    damaged: list[Path],
    how: str,
    first: str,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("search 2x4 epoch 4"))
    for name in damaged:
        damage(run.path / name, how)
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert len(events.notes) == len(damaged)
    for name, note in zip(damaged, events.notes, strict=True):
        assert note.startswith(f"The checkpoint '{run.path / name}' is damaged and is not used")
        assert "\n" not in note
    assert events.seen[0] == first
    assert outcome(run) == outcome(undisturbed(lean()))


def full(name: Path, monkeypatch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """The disk has no room for one file, once it was written that many times."""
    write, count = RunDirectory._write, 0

    def refuse(self: RunDirectory, other: str | Path, content: bytes) -> None:
        nonlocal count
        count += other == name
        if other == name and count > after:
            error = OSError(errno.ENOSPC, "No space left on device")
            raise self._cannot_write(name, error)
        write(self, other, content)

    monkeypatch.setattr(RunDirectory, "_write", refuse)


def test_a_full_disk_at_a_checkpoint_is_reported_and_the_search_goes_on(
    undisturbed: Whole,
    run: RunDirectory,
    tiny_task: GraphTask,
    often: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full(SEARCH_STATE, monkeypatch)
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert outcome(run) == outcome(undisturbed(lean()))
    assert events.notes
    for note in events.notes:
        assert "search.safetensors' cannot be written (No space left on device)" in note
        assert note.endswith("The search goes on; its checkpoint is an earlier one.")


def test_after_a_full_disk_the_checkpoint_before_it_is_used(
    undisturbed: Whole,
    run: RunDirectory,
    tiny_task: GraphTask,
    often: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        full(SEARCH_STATE, patch, after=2)
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, lean(), run=run, watcher=Events("search 2x4 epoch 5"))
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert events.seen[0] == "search 2x4 epoch 2"
    assert outcome(run) == outcome(undisturbed(lean()))


def test_a_full_disk_for_what_is_finished_ends_the_job_with_a_sentence(
    run: RunDirectory, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(PIPELINE, monkeypatch, after=2)
    with pytest.raises(RunError, match=r"pipeline\.json' cannot be written \(No space left on"):
        search(tiny_task, short(), run=run)
