"""The benchmark of the baselines, on one task and for one epoch."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pdnas.training import RECIPES, Recipe

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "baselines.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("baselines", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TASKS", ("citeseer",))
    monkeypatch.setattr(module, "RECIPES", {name: Recipe(epochs=1) for name in RECIPES})
    return module


def test_figures_and_table_agree(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "new" / "figures.json"
    arguments = ["baselines.py", "--device", "cpu", "--seeds", "2", "-o", str(output)]
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()
    record = json.loads(output.read_text())
    gcn = record["results"]["gcn"]["citeseer"]
    assert len(gcn["test"]["values"]) == 2
    assert gcn["split"]["sha256"].startswith("414c5ff1")
    assert record["environment"]["device"] == "cpu"
    row = f"| `gcn` | {100 * gcn['test']['mean']:.2f} ± {100 * gcn['test']['std']:.2f} (59,366) |"
    assert row in output.with_suffix(".md").read_text()
