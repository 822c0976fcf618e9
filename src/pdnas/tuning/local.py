"""Work in processes of this machine, each with its own threads; several may share a GPU."""

import contextlib
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import torch

from pdnas.settings import check_workers
from pdnas.tasks import GraphTask
from pdnas.training.device import find_device
from pdnas.tuning.executor import Began, Done, Event, Executor, Failed, Lost, Reported
from pdnas.tuning.work import Work, failure_of


@dataclass
class _Worker:
    process: SpawnProcess
    line: Connection
    number: int | None = None
    is_new: bool = True


class LocalExecutor(Executor):
    """Processes of this machine. One that dies is replaced, and its work is reported as lost.

    Args:
        tasks: What the work is on, by name; handed over once, through files.
        workers: How many processes.
        device: Where they compute; a GPU is shared.
        threads: CPU threads of each.
        timeout: See :class:`Executor`.
    """

    def __init__(
        self,
        tasks: Mapping[str, GraphTask],
        *,
        workers: int = 1,
        device: str = "auto",
        threads: int = 1,
        timeout: float | None = None,
    ) -> None:
        check_workers(workers)
        super().__init__(timeout)
        self._room = workers
        self._device, self._threads = str(find_device(device)), threads
        self._folder = Path(tempfile.mkdtemp(prefix="pdnas-"))
        self._workers: list[_Worker] = []
        try:
            for number, (name, task) in enumerate(tasks.items()):
                (self._folder / f"{number}.name").write_text(name, encoding="utf-8")
                (self._folder / f"{number}.task").write_bytes(pickle.dumps(task.to("cpu")))
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def room(self) -> int:
        return self._room

    def start(self, number: int, work: Work) -> None:
        idle = (other for other in self._workers if other.number is None)
        worker = next((other for other in idle if other.process.is_alive()), None)
        if worker is None:
            worker = self._hire()
        worker.number = number
        with contextlib.suppress(ConnectionError):  # it died: its work is reported as lost
            worker.line.send(work)

    def wait(self, seconds: float | None = None) -> Event | None:
        lines = [worker.line for worker in self._workers if worker.number is not None]
        ready = wait(lines, seconds)
        if not ready:
            return None
        worker = next(worker for worker in self._workers if worker.line in ready)
        self._workers.remove(worker)
        self._workers.append(worker)  # the others are heard first the next time
        number = worker.number
        assert number is not None
        try:
            kind, *values = worker.line.recv()
        except (EOFError, ConnectionError):
            self._dismiss(worker)
            return Lost(number, _how_it_died(worker))
        worker.is_new = False
        if kind == "began":
            return Began(number)
        if kind == "report":
            return Reported(number, *values)
        worker.number = None
        return Done(number, *values) if kind == "done" else Failed(number, *values)

    def answer(self, number: int, stop: bool) -> None:
        with contextlib.suppress(ConnectionError):  # as above
            self._at(number).line.send(stop)

    def end(self, number: int) -> None:
        worker = self._at(number)
        worker.process.kill()
        self._dismiss(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in [*self._workers]:
            self._dismiss(worker)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _at(self, number: int) -> _Worker:
        """Whoever does a piece of work."""
        return next(worker for worker in self._workers if worker.number == number)

    def _dismiss(self, worker: _Worker) -> None:
        """Forget a process that is over, or will be at once."""
        self._workers.remove(worker)
        worker.process.join()
        worker.line.close()

    def _hire(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_serve, args=(theirs, self._folder, self._device, self._threads), daemon=True
        )
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker


def _how_it_died(worker: _Worker) -> str:
    code = worker.process.exitcode
    if code == -signal.SIGKILL:
        return "Its process was killed (signal 9), as a system does that runs out of memory."
    cause = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    script = getattr(sys.modules["__main__"], "__file__", None)
    hint = ""
    if code == 1 and worker.is_new and script is not None:
        hint = (
            f" as it started; processes read '{Path(script).name}' again, so call what "
            'uses them there under if __name__ == "__main__":'
        )
    return f"Its process died ({cause}){hint}."


def _outlive_nobody() -> None:
    """End this process as soon as the one that hands out the work has ended, however it did."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _serve(line: Connection, folder: Path, device: str, threads: int) -> None:
    """A worker's life: receive work, do it, say what came out, until nobody is there any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever hands out the work
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    torch.set_num_threads(threads)
    names = {file.read_text(encoding="utf-8"): file for file in folder.glob("*.name")}
    tasks: dict[str, GraphTask] = {}

    def report(epoch: int, val: float) -> bool:
        line.send(("report", epoch, val))
        stop: bool = line.recv()
        return stop

    while True:
        try:
            work: Work = line.recv()
        except EOFError:
            return
        try:
            line.send(("began",))
            if work.task not in tasks:
                stored = names[work.task].with_suffix(".task").read_bytes()
                task: GraphTask = pickle.loads(stored)  # noqa: S301 - written by our own parent
                tasks[work.task] = task.to(device)
            message = ("done", work.do(tasks[work.task], report))
        except (EOFError, BrokenPipeError):
            return
        except Exception as error:  # whatever happens in a trial is the trial's
            message = ("failed", failure_of(error))  # type: ignore[assignment]
        line.send(message)
