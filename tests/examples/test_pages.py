"""The Python of README and of the tutorial runs as it stands, whatever kind of task it is given."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import pdnas
from pdnas import api
from pdnas.ops import SparseFeatures
from pdnas.runs import Result
from pdnas.search.pdnas import PRESETS
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES, Recipe

ROOT = Path(__file__).parents[2]
BRIEF = Recipe(epochs=2)


def python_of(page: str, begin: str) -> str:
    """The block of a page's Python that begins so."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    (block,) = (block for block in blocks if block.startswith(begin))
    return str(block)


def asking(task: GraphTask, kind: str) -> GraphTask:
    """The same graph with another kind of question."""
    graph, classes = task.graphs[0], task.graphs[0].y
    assert not isinstance(graph.x, SparseFeatures)
    y = {
        "single-label": classes,
        "binary": (classes > 0).long(),
        "multi-label": torch.stack([classes == 0, classes > 0], dim=1).long(),
    }[kind]
    parts = {
        f"{part}_mask": torch.isin(torch.arange(20), getattr(task.split, part))
        for part in ("train", "val", "test")
    }
    return GraphTask.from_data(Data(x=graph.x, edge_index=graph.edge_index, y=y, **parts))


@pytest.fixture(params=["citeseer", "single-label", "binary", "multi-label"])
def short(
    request: pytest.FixtureRequest, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> GraphTask:
    """Every task is this one, and nothing takes long."""
    task = (
        pdnas.load_task("citeseer")
        if request.param == "citeseer"
        else asking(tiny_task, request.param)
    )
    strategy = PRESETS["default"].changed(epochs=2, pool=2, adapted=1, adapt_epochs=1)
    few: Any = {"strategy": strategy, "recipe": BRIEF, "candidates": 1, "designs": "off"}

    def search(task: GraphTask, budget_seconds: float | None = None, **given: Any) -> Result:
        """A budget would be used whole."""
        return api.search(task, controls=(), **few, **given)

    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    monkeypatch.setattr(pdnas, "load_task", lambda _: task)
    monkeypatch.setattr(pdnas, "search", search)
    monkeypatch.setitem(RECIPES._entries, "gcn", BRIEF)
    monkeypatch.setitem(RECIPES._entries, "default", BRIEF)
    return task


def test_the_lines_of_the_readme_run_to_their_end(short: GraphTask) -> None:
    names: dict[str, Any] = {}
    exec(python_of("README.md", "import pdnas"), names)
    nodes = short.graphs[0].num_nodes
    assert len(names["names"]) == nodes
    known = pdnas.predict(names["found"], short, device="cpu").classes
    assert tuple(names["names"]) == known
    assert names["rival"].hidden == 16
    assert len(names["rival"].seeds) == 3


def test_the_lines_of_the_tutorial_run_to_their_end(
    short: GraphTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pdnas.train("gcn", short, run_dir="first")
    names: dict[str, Any] = {}
    exec(python_of("docs/tutorial.md", "import pdnas"), names)
    assert len(names["names"]) == short.graphs[0].num_nodes
