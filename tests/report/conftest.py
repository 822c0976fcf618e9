"""Runs to report on: searched and trained once, on a graph whose class names are hostile."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import optuna
import pytest
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from pdnas.cli import main
from pdnas.report.reading import Run, read_run
from pdnas.runs import HISTORY, JOURNAL, PREDICTIONS, RESULT, SETTINGS

HOSTILE = "<script>alert(1)</script>"
"""What a class is called."""

NAMES = (HOSTILE, "b & c", '"quoted"')


def write_tables(path: Path) -> Path:
    """24 nodes in a ring with chords, 4 features that tell 3 classes apart, as tables."""
    path.mkdir()
    noise = np.random.default_rng(0).random((24, 4))
    rows = ["id,label,split,a,b,c,d"]
    for node in range(24):
        x = noise[node] + np.eye(4)[node % 3]
        part = "train" if node < 12 else "val" if node < 18 else "test"
        label = NAMES[node % 3].replace('"', '""')
        rows.append(f'n{node},"{label}",{part},' + ",".join(f"{value:.4f}" for value in x))
    (path / "nodes.csv").write_text("\n".join(rows) + "\n")
    edges = [f"n{node},n{(node + step) % 24}" for node in range(24) for step in (1, 3)]
    (path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Finished runs, which tests only read: searches of three strategies, and a training."""
    place = tmp_path_factory.mktemp("reported")
    task = str(write_tables(place / "tables"))
    threads = torch.get_num_threads()
    short = ["--epochs", "12", "--quiet", "--hidden", "4"]
    calls = {
        "grid": ["search", task, *short, "8", "--controls", "gcn", "--candidates", "5"],
        "rated": ["search", task, *short, "--strategy", "random", "--controls"],
        "darts": ["search", task, *short, "--strategy", "darts", "--controls"],
        "trained": ["train", "gcn", task, *short, "--seeds", "3"],
    }
    runs = {}
    for name, call in calls.items():
        runs[name] = place / name
        assert main([*call, "--run-dir", str(runs[name])]) == 0
    yield runs
    torch.set_num_threads(threads)


@pytest.fixture
def searched(made: dict[str, Path]) -> Run:
    """A finished search of two shapes."""
    return read_run(made["grid"])


@pytest.fixture(scope="session")
def tuned(made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training as a tuning leaves it: with the journal of its trials."""
    path = tmp_path_factory.mktemp("tuned") / "tuned"
    shutil.copytree(made["trained"], path)
    settings = json.loads((path / SETTINGS).read_text())
    settings |= {"command": "tune", "tuning": {"fields": ["lr", "dropout"]}}
    (path / SETTINGS).write_text(json.dumps(settings))
    recipe = json.loads((path / RESULT).read_text())["recipe"]
    storage = JournalStorage(JournalFileBackend(str(path / JOURNAL)))
    grid = optuna.create_study(storage=storage, study_name="grid", direction="maximize")
    for hidden, val in ((4, 0.6), (8, 0.5)):
        grid.enqueue_trial({"hidden": hidden})
        trial = grid.ask()
        trial.suggest_categorical("hidden", [4, 8])
        grid.tell(trial, val)
    study = optuna.create_study(storage=storage, study_name="recipe", direction="maximize")
    study.set_user_attr("interrupted", [1])
    for lr, figure in ((0.3, 0.5), (0.2, 0.1), (recipe["lr"], 0.7), (0.4, None)):
        trial = study.ask()
        trial.set_user_attr("recipe", recipe | {"lr": lr})
        study.tell(trial, figure, state=None if figure else optuna.trial.TrialState.PRUNED)
    study.enqueue_trial({}, user_attrs={"round": 2})
    trial = study.ask()
    trial.set_user_attr("recipe", recipe)
    study.tell(trial, 0.65)
    return path


@pytest.fixture
def unfinished(made: dict[str, Path], tmp_path: Path) -> Path:
    """A search that is being written: no result, and half a line at the end of its history."""
    path = tmp_path / "unfinished"
    shutil.copytree(made["grid"], path)
    for name in (RESULT, PREDICTIONS, "model.safetensors", "report.html"):
        (path / name).unlink(missing_ok=True)
    lines = (path / HISTORY).read_text().splitlines()
    (path / HISTORY).write_text("\n".join(lines[:9]) + '\n{"phase":"search","ce')
    return path
