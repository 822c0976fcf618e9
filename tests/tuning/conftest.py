"""A network to tune, places to do work, and work that goes well or ill."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from tests.conftest import Here, until

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import PdnasError
from pdnas.tasks import GraphTask
from pdnas.tuning import local
from pdnas.tuning.executor import Executor
from pdnas.tuning.local import LocalExecutor
from pdnas.tuning.work import Report, Work

Open = Callable[..., Executor]
"""Opens an executor, given its timeout and how many pieces at a time."""


HELD = 300.0
"""Seconds after which those that hold throw: a test that lets nobody go fails, and ends."""


class Deed(Work):
    """Does what its name says, and writes down each time that it begins.

    Args:
        deed: What.
        diary: The file where it is written down, and by which process.
    """

    deed: Literal[
        "end",
        "throw",
        "refuse",
        "ask",
        "die",
        "die once",
        "hang",
        "gobble",
        "devour",
        "labor",
        "hold",
    ]
    diary: Path

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        with self.diary.open("a") as diary:
            diary.write(f"{os.getpid()}\n")
        if self.deed == "throw":
            raise ValueError("It rained.")
        if self.deed == "refuse":
            raise PdnasError("It rains.")
        if self.deed == "gobble":
            torch.empty(2**60)
        if self.deed == "devour":
            eaten = [torch.ones(2**26) for _ in range(32)]  # 8 GiB
            time.sleep(1000)
            del eaten
        if self.deed == "hang":
            time.sleep(1000)
        if self.deed == "labor":
            time.sleep(2)
        if self.deed == "hold":
            until(self.diary.with_name("go").exists, HELD, what="to be let go")
        asked: list[tuple[int, bool]] = []
        if self.deed in ("ask", "die", "die once"):
            for epoch in (1, 2):
                asked.append((epoch, report(epoch, epoch / 10)))
                if asked[-1][1]:
                    break
        if self.deed == "die" or (self.deed == "die once" and self.times == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"task": task.name, "asked": asked}

    @property
    def pids(self) -> list[int]:
        """Who began it, each time."""
        return [int(line) for line in self.diary.read_text().split()] if self.times else []

    @property
    def times(self) -> int:
        """How often it was begun."""
        return self.diary.read_text().count("\n") if self.diary.is_file() else 0

    def wait(self, times: int = 1, seconds: float = 120) -> None:
        """Until it was begun so often."""
        until(lambda: self.times >= times, seconds, what=f"to begin '{self.deed}'")


@pytest.fixture
def deed(tmp_path: Path) -> Callable[[str], Deed]:
    """Work of a kind, each with its own diary."""

    def make(kind: str, number: int = 0) -> Deed:
        diary = tmp_path / f"{kind}-{number}.diary"
        return Deed.model_validate({"task": "task", "deed": kind, "diary": diary})

    return make


@pytest.fixture(scope="session")
def architecture() -> Architecture:
    """A block without learned attention."""
    return Architecture(blocks=(BlockSpec(expansion=0),))


@pytest.fixture
def here(tiny_task: GraphTask) -> Executor:
    """Work on the tiny task, in this process."""
    return Here({tiny_task.name: tiny_task, "task": tiny_task})


@pytest.fixture(scope="session")
def prepared() -> ForkServerContext:
    """Processes that begin with everything imported, which takes seconds otherwise."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pdnas.tuning.local"])
    return context


@pytest.fixture
def open_local(
    tiny_task: GraphTask, prepared: ForkServerContext, monkeypatch: pytest.MonkeyPatch
) -> Open:
    """Processes for the tiny task."""
    patched = SimpleNamespace(
        get_context=lambda _: prepared, parent_process=multiprocessing.parent_process
    )
    monkeypatch.setattr(local, "multiprocessing", patched)

    def open_(**settings: Any) -> Executor:
        return LocalExecutor({"task": tiny_task}, device="cpu", **{"workers": 2, **settings})

    return open_


@pytest.fixture
def open_ray(tiny_task: GraphTask, request: pytest.FixtureRequest) -> Open:
    """Tasks on the cluster for the tiny task."""
    request.getfixturevalue("connected")
    from pdnas.tuning.ray import RayExecutor

    def open_(**settings: Any) -> Executor:
        return RayExecutor({"task": tiny_task}, **settings)

    return open_


def is_over(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def wait_until_over(pids: list[int], seconds: float = 60) -> None:
    until(lambda: all(map(is_over, pids)), seconds, what="to end all processes")
