"""Faults of Ray clusters: searches that die half way, connections and nodes that go away."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pdnas.tasks import GraphTask
from pdnas.tuning import ray as on_ray
from pdnas.tuning.folders import Folder, Folders, unpack
from pdnas.tuning.ray import Share
from pdnas.tuning.work import Report, Work


class Slow(Work):
    """Is never done."""

    run: Path | None = None

    @property
    def folder(self) -> Path | None:
        return self.run

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        raise AssertionError


@pytest.mark.parametrize(
    ("gpus", "node", "times"),
    [(0.6, 4.0, 4), (0.6, 1.0, 1), (0.5, 3.0, 6), (0.1, 2.0, 20), (0.34, 2.0, 4), (0.3, 0.0, 0)],
)
def test_no_part_is_of_two_gpus(gpus: float, node: float, times: int) -> None:
    assert Share(1, gpus).fits({"CPU": 64.0, "GPU": node}) == times


@dataclass(frozen=True)
class Hazy(Folder):
    """A folder of which a cache shows only later that it is shared."""

    @property
    def is_shared(self) -> bool:
        shown = self.token.with_name("shown")
        was_shown = shown.exists()
        shown.touch()
        return was_shown


class Scribble(Slow):
    """Writes to its folder."""

    def within(self, folder: Path) -> "Scribble":
        return self.model_copy(update={"run": folder})

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        assert self.run is not None
        self.run.mkdir(parents=True)
        (self.run / "result").write_text("done")
        return {}


@pytest.fixture
def heard(tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a process of a node does before its work; it is done here."""
    heard: list[str] = []

    def load(stored: object, device: str) -> GraphTask:
        heard.append("loaded")
        return tiny_task

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=heard.append))
    monkeypatch.setattr(on_ray, "_task", load)
    return heard


def do(work: Work, folder: Folder | None) -> on_ray.Came:
    board = SimpleNamespace(began=SimpleNamespace(remote=lambda key: "began"))
    return on_ray._do(on_ray._Order(0, work, folder, "cpu", 1), {"task": None}, board)  # type: ignore[dict-item]


def test_a_folder_that_turns_out_to_be_shared_travels_all_the_same(
    tmp_path: Path, heard: list[str]
) -> None:
    """What was written elsewhere would be gone."""
    offered = Folders().offer(tmp_path / "cells" / "one")
    folder = Hazy(offered.path, offered.token, offered.packed)
    kind, _, path, packed = do(Scribble(task="task", run=offered.path), folder)
    assert (kind, path) == ("done", offered.path)
    assert packed is not None
    unpack(packed, offered.path)
    assert (offered.path / "result").read_text() == "done"


def test_work_has_begun_before_its_data_are_loaded(tmp_path: Path, heard: list[str]) -> None:
    """A time limit counts for those that never arrive."""
    assert do(Scribble(task="task", run=tmp_path / "one"), None)[0] == "done"
    assert heard == ["began", "loaded"]
