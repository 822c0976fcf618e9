"""The benchmark of large graphs: what it plants, what it fits, and that it comes to an end."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scale.py"


@pytest.fixture
def scale(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/scale.py")


def test_planted_graphs_have_classes_that_stay_together_and_hubs(scale: ModuleType) -> None:
    task = scale.planted(100_000)
    (graph,) = task.graphs
    sources, targets = graph.edge_index
    assert 0.9 * 100_000 < sources.numel() <= 100_000
    assert (graph.num_nodes, graph.x.shape[1]) == (round(100_000 / scale.DEGREE), scale.FEATURES)
    same = (graph.y[sources] == graph.y[targets]).float().mean()
    # Four in five by plan, and one in 47 of the others by accident; fewer without self-loops.
    assert 0.78 < float(same) < 0.83
    degree = graph.adjacency.in_degree
    assert int(degree.max()) > 10 * float(degree.float().mean())
    assert torch.equal(scale.planted(100_000).graphs[0].edge_index, graph.edge_index)
    parts = [len(part) / graph.num_nodes for part in (task.split.train, task.split.val)]
    assert parts == pytest.approx([0.08, 0.02], abs=0.01)


def test_nodes_are_drawn_as_often_as_weights_say(scale: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([1.0, 0.0, 3.0, 4.0], dtype=torch.float64)
    drawn = torch.bincount(scale.draw(weights, 80_000, generator), minlength=4) / 80_000
    assert drawn.tolist() == pytest.approx([1 / 8, 0, 3 / 8, 4 / 8], abs=0.01)
    y = torch.tensor([0, 1, 0, 1])
    wanted = torch.tensor([0, 1]).repeat(40_000)
    found = scale.same_class(weights, y, wanted, generator)
    assert torch.equal(y[found], wanted)
    often = torch.bincount(found, minlength=4) / 40_000
    assert often.tolist() == pytest.approx([1 / 4, 0, 3 / 4, 1], abs=0.01)


def test_the_exponent_is_that_of_the_largest_sizes(scale: ModuleType) -> None:
    records = [{"edges": n, "s": s} for n, s in ((10, 9.0), (100, 10.0), (1000, 1000.0))]
    assert scale.exponent(records, "s") == pytest.approx(2.0)
    assert scale.exponent(records[:1], "s") is None


def test_every_size_has_a_row(
    scale: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def here(
        arguments: argparse.Namespace, units: list[str], write: Callable[..., None]
    ) -> list[dict[str, Any]]:
        records = [scale.do(argparse.Namespace(**{**vars(arguments), "unit": u})) for u in units]
        write(arguments, records)
        return records

    monkeypatch.setattr(scale, "run_units", here)
    output = tmp_path / "new" / "scale.json"
    flags = ["--edges", "20000", "60000", "--batch-nodes", "300", "--epochs", "1", "--hidden", "4"]
    monkeypatch.setattr(sys, "argv", ["scale.py", "--device", "cpu", *flags, "-o", str(output)])
    scale.main()
    written = json.loads(output.read_text())
    assert [(one["batch_nodes"], one["nodes"]) for one in written["records"]] == [
        (None, 940),
        (None, 1188),
        (300, 940),
        (300, 1188),
    ]
    for record in written["records"]:
        assert record["search_epoch_seconds"] > 0
        assert record["training_epoch_seconds"] > 0
        assert record["peak_bytes"] > 2**20
    table = output.with_suffix(".md").read_text()
    assert table.count("| 300 |") == 2
    assert table.count("edges^") == 4
    assert "--edges 20000 60000 --batch-nodes 300 --epochs 1" in written["command"]


def test_what_does_not_fit_is_said_to(scale: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.training.memory.free_bytes", lambda _: 2**22)
    flags = argparse.Namespace(
        unit="100000/full", device="cpu", threads=1, hidden=4, epochs=1, batch_nodes=300
    )
    whole = scale.do(flags)
    assert (whole["search_epoch_seconds"], whole["training_epoch_seconds"]) == (None, None)
    assert whole["val"] is None
    flags.unit = "100000/300"
    cut = scale.do(flags)
    assert cut["search_epoch_seconds"] > 0
    assert scale.exponent([whole, whole, cut], "search_epoch_seconds") is None
    assert scale.table([whole, cut]).count("does not fit") == 2
