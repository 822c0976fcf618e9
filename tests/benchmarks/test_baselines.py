"""The benchmark of the baselines, on one task and for one epoch."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pdnas.models.baselines import BASELINES
from pdnas.training import RECIPES, Recipe

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "baselines.py"
RESULTS = SCRIPT.parent / "results" / "baselines"

Main = Callable[..., list[str]]


@pytest.fixture
def baselines(script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = script("benchmarks/baselines.py")
    monkeypatch.setattr(module, "TASKS", ("citeseer",))
    monkeypatch.setattr(module, "RECIPES", {name: Recipe(epochs=1) for name in RECIPES})
    return module


@pytest.fixture
def main(baselines: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """Runs the script in this process; the units that it did."""

    def run(*flags: str) -> list[str]:
        done: list[str] = []

        def here(
            arguments: argparse.Namespace, units: list[str], write: Callable[..., None]
        ) -> list[dict[str, Any]]:
            done.extend(units)
            records = []
            for unit in units:
                records.append(
                    baselines.do(argparse.Namespace(**{**vars(arguments), "unit": unit}))
                )
                write(arguments, records)
            return records

        monkeypatch.setattr(baselines, "run_units", here)
        output = tmp_path / "new" / "figures.json"
        command = ["baselines.py", "--device", "cpu", "--seeds", "2", "-o", str(output), *flags]
        monkeypatch.setattr(sys, "argv", command)
        baselines.main()
        return done

    return run


def test_figures_and_table_agree_and_nothing_is_done_twice(main: Main, tmp_path: Path) -> None:
    assert main("--only", "gcn") == ["gcn/citeseer/0"]
    assert main("--only", "gcn", "appnp/citeseer") == ["appnp/citeseer/0"]
    assert main("--only", "gcn", "appnp") == []
    path = tmp_path / "new" / "figures.json"
    records = {one["row"]: one for one in json.loads(path.read_text())["records"]}
    assert set(records) == {"gcn", "appnp"}
    gcn = records["gcn"]["result"]
    assert len(gcn["test"]["values"]) == 2
    assert gcn["split"]["sha256"].startswith("414c5ff1")
    assert records["gcn"]["environment"]["device"] == "cpu"
    ours = f"{100 * gcn['test']['mean']:.2f} ± {100 * gcn['test']['std']:.2f} (59,366)"
    difference = f"{100 * gcn['test']['mean'] - 81.5:+.1f}"
    table = path.with_suffix(".md").read_text()
    assert f"| `gcn` | {ours} | 81.5 ({difference}) |" in table
    assert "| `mlp` | - | - |" in table


def test_other_seeds_are_trained_again(main: Main) -> None:
    assert main("--only", "mlp") == ["mlp/citeseer/0"]
    assert main("--only", "mlp", "--seeds", "1") == ["mlp/citeseer/0"]


def test_seeds_that_are_trained_apart_are_one_figure(
    main: Main, baselines: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "figures.json"
    assert main("--only", "mlp", "--seeds", "3") == ["mlp/citeseer/0", "mlp/citeseer/2"]
    (apart,) = json.loads(path.read_text())["records"]
    monkeypatch.setattr(baselines, "TOGETHER", 3)
    path.unlink()
    assert main("--only", "mlp", "--seeds", "3") == ["mlp/citeseer/0"]
    (together,) = json.loads(path.read_text())["records"]
    for record in (apart, together):
        assert record["result"]["train_seconds"] > 0
        record["result"]["train_seconds"] = 0.0
    assert apart == together
    assert apart["result"]["seeds"] == [0, 1, 2]
    assert baselines.joined([apart], 4) == [], "a seed is missing"


def test_settings_for_a_graph_are_used_there(baselines: ModuleType) -> None:
    assert baselines.settings_for("gcnii", "citeseer") == "gcnii-citeseer"
    assert baselines.settings_for("gcnii", "cora") == "gcnii"
    assert baselines.rows() == [name for name in BASELINES if BASELINES[name].of is None]


def test_a_unit_that_failed_is_named(
    baselines: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(baselines, "run_units", lambda *_: [])
    command = ["baselines.py", "--only", "gcn", "-o", str(tmp_path / "figures.json")]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="Not done: gcn/citeseer; run the same command again"):
        baselines.main()


def test_the_figures_of_this_repository_are_those_of_its_table(
    baselines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "TASKS", ("cora", "citeseer", "pubmed"))
    records = json.loads((RESULTS / "baselines.json").read_text())["records"]
    assert baselines.table(records) == (RESULTS / "baselines.md").read_text()
