"""What the pages tell to type works as it stands there."""

import csv
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import pdnas
from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import PdnasError
from pdnas.export.ops import SOURCES
from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.base import Baseline
from pdnas.models.published import PUBLISHED
from pdnas.ops import attention
from pdnas.search import STRATEGIES
from pdnas.tasks import GraphTask
from pdnas.tasks.source import NAMED
from pdnas.training import train

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

GATE = (
    "from torch import Tensor, nn\nfrom pdnas.ops.adjacency import Adjacency\n"
    "from pdnas.ops.attention import ATTENTIONS, LearnedAttention, inner\n"
)
"""What the worked op names."""


def blocks(page: str, language: str) -> list[str]:
    """What a page shows in a language, from top to bottom."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [content for known, content in BLOCK.findall(text) if known == language]


@pytest.fixture
def extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a module of a worked example; what it registers is gone after the test."""
    for registry in (attention.ATTENTIONS, PUBLISHED, BASELINES, STRATEGIES, NAMED):
        entries: Any = registry
        monkeypatch.setattr(entries, "_entries", dict(entries._entries))

    def make(says: str, before: str = "") -> ModuleType:
        (text,) = [block for block in blocks("extending.md", "python") if says in block]
        path = tmp_path / "worked.py"
        path.write_text(before + text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("worked", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "worked", module)
        spec.loader.exec_module(module)
        return module

    return make


def test_every_worked_example_is_tested() -> None:
    assert len(blocks("extending.md", "python")) == 5


def test_the_worked_op_is_trained(extended: Any, tiny_task: GraphTask) -> None:
    extended("class GateAttention", GATE)
    gate = Architecture(blocks=(BlockSpec(attention="gate", heads=2), BlockSpec()))

    result = train(gate, tiny_task, hidden=4, recipe=pdnas.Recipe(epochs=2), device="cpu")

    assert torch.isfinite(result.model(*_graph(tiny_task))).all()


def test_the_worked_source_says_what_the_worked_op_says(
    extended: Any, tiny_task: GraphTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdnas.export.ops.SOURCES", dict(SOURCES))
    (source,) = [block for block in blocks("extending.md", "python") if "def write_gate" in block]
    op = extended("class GateAttention", GATE)
    gate = Architecture(blocks=(BlockSpec(attention="gate", heads=2), BlockSpec()))
    result = train(gate, tiny_task, hidden=4, recipe=pdnas.Recipe(epochs=2), device="cpu")
    with pytest.raises(PdnasError, match=r"attention 'gate' cannot be exported"):
        pdnas.export(result, output=tmp_path / "network.py")

    exec(source, vars(op))

    assert pdnas.export(result, output=tmp_path / "network.py")  # which is checked beside ours


def test_the_worked_network_is_trained(extended: Any, tiny_task: GraphTask) -> None:
    extended("class SgcNetwork")
    baseline: Baseline = BASELINES["sgc"]

    result = train(baseline.design, tiny_task, recipe=pdnas.Recipe(epochs=2), device="cpu")

    assert result.parameters == 3 * 5 + 3 * 3 + 3


def test_the_worked_strategy_does_the_whole_job(extended: Any, tiny_task: GraphTask) -> None:
    strategy = extended("class BlindSearch").Blind(count=4)

    result = pdnas.search(
        tiny_task,
        strategy=strategy,
        candidates=3,
        hidden=(4,),
        recipe=pdnas.Recipe(epochs=2),
        device="cpu",
    )

    assert result.strategy == "blind"
    assert result.search is not None
    assert sum(trial.shared_val == 0.0 for trial in result.search.trials) >= 3


def test_the_worked_source_is_a_task(extended: Any) -> None:
    extended("def read_karate")

    task = pdnas.load_task("karate", split="random")

    assert task.graphs[0].num_nodes == 34
    assert task.out_channels == 4


@pytest.mark.slow
def test_the_tutorial_works_from_its_first_line_to_its_last(tmp_path: Path) -> None:
    names = ("make_people.py", "alone.py", "again.py")
    for name, script in zip(names, blocks("tutorial.md", "python"), strict=True):
        (tmp_path / name).write_text(script, encoding="utf-8")
    place = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said: dict[str, str] = {}

    for command in [*blocks("tutorial.md", "sh"), "python alone.py", "python again.py"]:
        done = subprocess.run(
            f"set -e\n{command}",
            shell=True,
            cwd=tmp_path,
            env=place,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, f"{command}{done.stdout}"
        said[command] = done.stdout

    with (tmp_path / "clubs.csv").open(encoding="utf-8", newline="") as file:
        clubs = [row["class"] for row in csv.DictReader(file)]
    assert said["python alone.py"].strip() == str(clubs[:5])
    made = {"clubs.csv", "network.py", "network.pt", "both.html", "first", "plain"}
    assert made <= {path.name for path in tmp_path.iterdir()}
    assert len((tmp_path / "clubs.csv").read_text(encoding="utf-8").splitlines()) == 241


def _graph(task: GraphTask) -> tuple[Any, torch.Tensor]:
    return task.graphs[0].x, task.graphs[0].edge_index
