"""The command line in this process, in an empty folder, and small tasks as files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch

from pdnas.cli import main
from pdnas.ops import SparseFeatures
from pdnas.settings import WorkerFlags
from pdnas.tasks import GraphTask
from pdnas.tasks.splits import PARTS

PROMISED = frozenset(
    [
        "task",
        "split",
        "strategy",
        "space",
        "architecture",
        "parameters",
        "metric",
        "val",
        "test",
        "seeds",
        "search_seconds",
        "train_seconds",
        "device",
        "version",
    ]
)
"""What ``result.json`` holds at least."""


WORKERS = [
    (["--workers", "2"], WorkerFlags(workers=2)),
    (["--executor", "ray"], WorkerFlags(executor="ray")),
    (["--executor", "ray", "--ray-address", "a:1"], WorkerFlags(executor="ray", ray_address="a:1")),
    (
        ["--executor", "ray", "--gpus-per-trial", "0.1"],
        WorkerFlags(executor="ray", gpus_per_trial=0.1),
    ),
    (["--trial-timeout", "9"], WorkerFlags(trial_timeout=9.0)),
]
"""Flags that say who does trials, which several commands have, and what they become."""

WORKER_FLAGS = {words[-2] for words, _ in WORKERS}

every_worker_flag = pytest.mark.parametrize(("words", "workers"), WORKERS, ids=str)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, no data root, a cache of the test's own."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PDNAS_CACHE", str(tmp_path / "cache"))
    for name in ("PDNAS_DATA", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    threads = torch.get_num_threads()
    yield folder
    torch.set_num_threads(threads)


@pytest.fixture
def pdnas(capsys: pytest.CaptureFixture[str]) -> Callable[..., CompletedProcess[str]]:
    """Runs a command in this process."""

    def run(*arguments: str | Path) -> CompletedProcess[str]:
        given = [str(argument) for argument in arguments]
        capsys.readouterr()
        try:
            code = main(given)
        except SystemExit as stop:  # what the help of a command ends with
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return CompletedProcess(["pdnas", *given], code, said.out, said.err)

    return run


@pytest.fixture
def arrays(tiny_task: GraphTask) -> dict[str, Any]:
    """The tiny task as the arrays of an ``.npz`` file; its edges lead one way only."""
    graph = tiny_task.graphs[0]
    assert not isinstance(graph.x, SparseFeatures)
    forth = graph.edge_index[:, : graph.edge_index.size(1) // 2]
    masks = {
        f"{part}_mask": np.isin(np.arange(20), getattr(tiny_task.split, part).numpy())
        for part in PARTS
    }
    return {"x": graph.x.numpy(), "edge_index": forth.numpy(), "y": graph.y.numpy(), **masks}


@pytest.fixture
def tiny(arrays: dict[str, Any], tmp_path: Path) -> Path:
    """The tiny task as an ``.npz`` file."""
    path = tmp_path / "tiny.npz"
    np.savez(path, **arrays)
    return path


@pytest.fixture
def folder(arrays: dict[str, Any], tmp_path: Path) -> Path:
    """The tiny task as a folder of tables, with names for nodes and classes."""
    path = tmp_path / "tables"
    path.mkdir()
    part = np.array(["", *PARTS])[sum((n + 1) * arrays[f"{p}_mask"] for n, p in enumerate(PARTS))]
    rows = ["id,label,split,a,b,c,d,e"]
    for node in range(20):
        features = ",".join(f"{value:.4f}" for value in arrays["x"][node])
        rows.append(f"n{node},class {arrays['y'][node]},{part[node]},{features}")
    (path / "nodes.csv").write_text("\n".join(rows) + "\n")
    edges = [f"n{a},n{b}" for a, b in arrays["edge_index"].T]
    (path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return path
