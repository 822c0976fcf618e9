"""Work in processes: what comes back, and what becomes of those that throw, die or are left."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from tests.tuning.conftest import Deed, Open, is_over

from pdnas.architecture import Architecture
from pdnas.errors import DeviceError, PdnasError
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.tuning.executor import Began, Done, Event, Executor, Failed, Lost, Reported
from pdnas.tuning.local import LocalExecutor
from pdnas.tuning.work import TrainingWork

SHORT = Recipe(epochs=3, patience=3)
LONG = Recipe(epochs=10**7, patience=10**7)
"""More epochs than anyone waits for; the last report is at epoch 400."""

KILLED = "Its process was killed (signal 9), as a system does that runs out of memory."

PARENT = """
import multiprocessing
from pdnas.tuning import local
from pdnas.tuning.executor import Reported

fork = multiprocessing.get_context("fork")
local.multiprocessing.get_context = lambda _: fork
executor = local.LocalExecutor({"task": task}, device="cpu")
executor.start(0, work)
while not isinstance(event := executor.wait(), Reported) or event.epoch < 400:
    if isinstance(event, Reported):
        executor.answer(0, False)
executor.answer(0, False)
line.send(multiprocessing.active_children()[0].pid)
executor.wait()
"""
"""Whoever hands out work that reports no more, and tells the process that does it."""


@pytest.fixture
def executor(open_local: Open) -> Iterator[Executor]:
    """Two processes for the tiny task."""
    with open_local() as executor:
        yield executor


@pytest.fixture
def work(architecture: Architecture) -> TrainingWork:
    """A training of a moment."""
    return TrainingWork(task="task", architecture=architecture, hidden=4, recipe=SHORT, seeds=(7,))


def lasting(work: TrainingWork) -> TrainingWork:
    return work.model_copy(update={"recipe": LONG})


def processes() -> list[BaseProcess]:
    return multiprocessing.active_children()


def die(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def told(executor: Executor) -> Event:
    """The next thing that happens to some work after its beginning."""
    while isinstance(event := executor.wait(), Began):
        pass
    assert event is not None
    return event


def ended(executor: Executor) -> Event:
    """The next end of some work; whatever reports goes on."""
    while isinstance(event := told(executor), Reported):
        executor.answer(event.number, False)
    return event


def timeless(event: Event) -> dict[str, object]:
    """What came out, without the time that it took."""
    assert isinstance(event, Done)
    for training in event.outcome["trainings"]:
        training.pop("seconds")
    return event.outcome


def test_work_comes_to_the_same_in_another_process(
    tiny_task: GraphTask, work: TrainingWork
) -> None:
    """The one test that waits for a process as users' are started."""
    with LocalExecutor({"other": tiny_task, "task": tiny_task}, device="cpu") as executor:
        executor.start(4, work)
        event = ended(executor)
    assert event.number == 4
    assert timeless(event) == timeless(Done(4, work.do(tiny_task, lambda epoch, val: False)))


def test_a_process_is_started_once_and_used_again(executor: Executor, work: TrainingWork) -> None:
    before = len(processes())
    for number in range(3):
        executor.start(number, work)
        assert isinstance(ended(executor), Done)
        assert len(processes()) == before + 1


def test_several_work_side_by_side(executor: Executor, work: TrainingWork) -> None:
    executor.start(0, lasting(work))
    executor.start(1, work)
    assert len(processes()) == 2
    event = ended(executor)
    assert (event.number, type(event)) == (1, Done), "the second does not wait for the first"


def test_nobody_waits_behind_others_that_say_more(
    executor: Executor, deed: Callable[..., Deed]
) -> None:
    deeds = [deed("ask"), deed("ask", 1)]
    for number, work in enumerate(deeds):
        executor.start(number, work)
    for work in deeds:
        work.wait()
    assert {executor.wait(), executor.wait()} == {Began(0), Began(1)}


def test_a_limit_of_many_years_is_one(open_local: Open, work: TrainingWork) -> None:
    works, heard = [(0, work)], list[Done | Failed]()
    with open_local(timeout=1e300) as executor:
        executor.drive(
            lambda: works.pop() if works else None, reported=lambda _: False, finished=heard.append
        )
    assert isinstance(heard[0], Done)


def test_data_that_never_arrive_take_too_long(open_local: Open, work: TrainingWork) -> None:
    """As those that a device cannot hold, or that hang on their way to it."""
    works, heard = [(0, work)], list[Done | Failed]()
    with open_local(timeout=0.2) as executor:
        assert isinstance(executor, LocalExecutor)
        stored = executor._folder / "0.task"
        stored.unlink()
        os.mkfifo(stored)
        executor.drive(
            lambda: works.pop() if works else None, reported=lambda _: False, finished=heard.append
        )
    assert heard == [Failed(0, "It took longer than --trial-timeout 0.2 seconds and was ended.")]


def test_work_waits_for_the_answer_to_its_report(executor: Executor, work: TrainingWork) -> None:
    executor.start(0, lasting(work))
    for epoch in (25, 50):
        event = told(executor)
        assert isinstance(event, Reported)
        assert (event.number, event.epoch) == (0, epoch)
        assert 0 <= event.val <= 1
        executor.answer(0, stop=epoch == 50)
    done = told(executor)
    assert isinstance(done, Done)
    assert done.outcome["pruned"]
    assert done.outcome["trainings"][0]["epochs"] == 50


def test_work_that_throws_is_told_with_its_reason_and_its_process_goes_on(
    executor: Executor, work: TrainingWork
) -> None:
    executor.start(0, work.model_copy(update={"recipe": SHORT.changed(lr=1e38)}))
    event = ended(executor)
    assert isinstance(event, Failed)
    assert event.reason.startswith("The loss is no longer finite at epoch")
    (process,) = processes()
    executor.start(1, work)
    assert isinstance(ended(executor), Done)
    assert processes() == [process]


def test_an_error_that_nobody_foresaw_is_told_with_its_place(
    executor: Executor, work: TrainingWork
) -> None:
    executor.start(0, work.model_copy(update={"task": "nowhere"}))
    event = ended(executor)
    assert isinstance(event, Failed)
    assert event.reason.startswith("KeyError: 'nowhere' (local.py, line ")


def test_a_process_that_dies_at_work_is_replaced(executor: Executor, work: TrainingWork) -> None:
    executor.start(0, lasting(work))
    event = told(executor)
    assert isinstance(event, Reported)
    executor.answer(0, False)
    (process,) = processes()
    die(process)
    while isinstance(event := told(executor), Reported):
        pass  # what it had said before
    assert event == Lost(0, KILLED)
    executor.start(1, work)
    assert isinstance(ended(executor), Done)
    assert process not in processes()


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import pdnas\n"
        "task = pdnas.load_task('citeseer')\n"
        "pdnas.compare(task, 'mine', strategies=('random',), baselines=(), seeds=1)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "exit code 1) as it started; processes read 'mine.py' again" in done.stderr
    assert 'under if __name__ == "__main__":' in done.stderr


def test_a_process_that_dies_before_the_answer_is_replaced(
    executor: Executor, work: TrainingWork
) -> None:
    executor.start(0, lasting(work))
    assert isinstance(told(executor), Reported)
    die(*processes())
    executor.answer(0, False)
    assert told(executor) == Lost(0, KILLED)
    executor.start(1, work)
    assert isinstance(ended(executor), Done)


def test_a_process_that_dies_between_two_pieces_of_work_is_replaced(
    executor: Executor, work: TrainingWork
) -> None:
    executor.start(0, work)
    assert isinstance(ended(executor), Done)
    die(*processes())
    executor.start(1, work)
    assert isinstance(ended(executor), Done)


def test_nothing_is_left_behind(executor: Executor, work: TrainingWork) -> None:
    assert isinstance(executor, LocalExecutor)
    folder = executor._folder
    assert {path.name for path in folder.iterdir()} == {"0.name", "0.task"}
    executor.start(0, lasting(work))
    assert isinstance(told(executor), Reported)
    (process,) = processes()
    executor.close()
    assert not process.is_alive()
    assert not folder.exists()


def test_data_that_cannot_be_written_leave_nothing_behind(
    tiny_task: GraphTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(task: object) -> bytes:
        raise OSError("No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(pickle, "dumps", full)
    with pytest.raises(OSError, match="No space left"):
        LocalExecutor({"task": tiny_task}, device="cpu")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_a_process_does_not_outlive_whoever_hands_out_the_work(
    tiny_task: GraphTask, work: TrainingWork, prepared: ForkServerContext
) -> None:
    """Nobody would wait for what comes out, and a search would go on to write to its folder."""
    ours, theirs = prepared.Pipe()
    names = {"task": tiny_task, "work": lasting(work), "line": theirs}
    parent = prepared.Process(target=exec, args=(PARENT, names))
    parent.start()
    theirs.close()
    child = ours.recv()
    assert not is_over(child)
    die(parent)
    until = time.monotonic() + 3
    while not is_over(child) and time.monotonic() < until:
        time.sleep(0.01)
    try:
        assert is_over(child)
    finally:
        if not is_over(child):
            os.kill(child, signal.SIGKILL)


def test_ctrl_c_is_for_whoever_hands_out_the_work(executor: Executor, work: TrainingWork) -> None:
    executor.start(0, lasting(work))
    assert isinstance(told(executor), Reported)
    (process,) = processes()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    executor.answer(0, True)
    assert isinstance(told(executor), Done)


@pytest.mark.parametrize("workers", [0, -1, 1025])
def test_a_number_of_workers_without_sense_is_refused(tiny_task: GraphTask, workers: int) -> None:
    with pytest.raises(PdnasError, match=f"number of workers is {workers}; give 1 to 1024"):
        LocalExecutor({"task": tiny_task}, workers=workers)


def test_a_device_that_is_not_there_is_refused(tiny_task: GraphTask) -> None:
    with pytest.raises(DeviceError, match="cuda:99"):
        LocalExecutor({"task": tiny_task}, device="cuda:99")
