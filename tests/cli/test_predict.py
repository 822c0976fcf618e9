"""``pdnas predict``: a run is all that is needed, and other data are read by the run's rules."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow import csv, parquet
from torch_geometric.data import Data

from pdnas.architecture import Architecture, BlockSpec
from pdnas.cli import predict as command
from pdnas.runs import RunDirectory

Pdnas = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run(pdnas: Pdnas, folder: Path) -> Path:
    """A run on the folder of tables."""
    flags = ("--hidden", "8", "--epochs", "10", "--device", "cpu", "--run-dir", "run")
    done = pdnas("train", "gcn", folder, *flags, "--quiet")
    assert done.returncode == 0, done.stderr
    return Path("run")


def logits(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["logits"]


def saved(pdnas: Pdnas, *arguments: str | Path) -> Any:
    """The logits that a command writes."""
    done = pdnas("predict", *arguments, "-o", "found.npz", "--force", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return logits(Path("found.npz"))


def edit_nodes(folder: Path, change: Callable[[list[dict[str, str]]], None]) -> Path:
    """A copy of a folder of tables with other nodes."""
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    header, *lines = (other / "nodes.csv").read_text().split()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    change(rows)
    text = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    (other / "nodes.csv").write_text("\n".join(text) + "\n")
    return other


@pytest.fixture
def folder(folder: Path) -> Path:
    """Class names without spaces, so that lines are easily taken apart."""
    nodes = folder / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("class ", "class-"))
    return folder


def test_by_default_a_table_of_the_own_graph_lies_in_the_run(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("predict", run)
    assert done.returncode == 0
    assert done.stdout.endswith("output: run/predictions.csv\n")
    assert "class-0" in done.stdout
    table = csv.read_csv(run / "predictions.csv")
    names = ["class-0", "class-1", "class-2"]
    assert table.column_names == ["node", "class", "label", *(f"probability:{n}" for n in names)]
    assert table["node"].to_pylist() == [f"n{number}" for number in range(20)]
    assert table["label"].to_pylist() == [names[number % 3] for number in range(20)]
    probabilities = np.stack([table[f"probability:{n}"].to_numpy() for n in names], axis=1)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
    assert table["class"].to_pylist() == [names[i] for i in probabilities.argmax(1)]


def test_json_says_where_and_what(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("predict", run, "-o", "a.parquet", "--json")
    said = json.loads(done.stdout)
    classes = parquet.read_table("a.parquet")["class"].to_pylist()
    assert said["output"] == "a.parquet"
    assert said["nodes"] == 20
    assert said["classes"] == {f"class-{i}": classes.count(f"class-{i}") for i in range(3)}


def test_a_run_that_was_moved_says_the_same_without_its_data(
    pdnas: Pdnas, run: Path, folder: Path, tmp_path: Path
) -> None:
    before = saved(pdnas, run)
    assert np.array_equal(saved(pdnas, run, folder), before)
    away, other = tmp_path / "away" / "moved", tmp_path / "home"
    away.parent.mkdir()
    other.mkdir()
    shutil.move(run, away)
    fresh = shutil.copytree(folder, other / "fresh")
    shutil.rmtree(folder)
    path = os.pathsep.join(sys.path)
    env = {**os.environ, "HOME": str(other), "PDNAS_DATA": str(other), "PYTHONPATH": path}
    env["PDNAS_CACHE"] = str(other / "cache")
    own = ["predict", str(away), "-o", "own.npz", "--device", "cpu"]
    asked = ["predict", str(away), str(fresh), "-o", "asked.npz", "--device", "cpu"]
    both = f"from pdnas.cli import main; assert main({own}) == main({asked}) == 0"
    subprocess.run([sys.executable, "-c", both], env=env, cwd=other, check=True)
    for name in ("own.npz", "asked.npz"):
        assert np.array_equal(logits(other / name), before)


def test_columns_are_found_by_their_names(pdnas: Pdnas, run: Path, folder: Path) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        rows[:] = [dict(reversed(row.items())) | {"extra": "9", "more": "x"} for row in rows]

    other = edit_nodes(folder, change)
    assert np.array_equal(saved(pdnas, run, other), saved(pdnas, run))
    done = pdnas("predict", run, other)
    assert "the column(s) extra, more of '" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_table_needs_neither_labels_nor_splits(pdnas: Pdnas, run: Path, folder: Path) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        for row in rows:
            del row["label"], row["split"]

    other = edit_nodes(folder, change)
    assert np.array_equal(saved(pdnas, run, other), saved(pdnas, run))
    assert pdnas("predict", run, other, "-o", "a.csv").stderr == ""
    assert "label" not in csv.read_csv("a.csv").column_names


@pytest.mark.parametrize("label", ["class-1", "", "another"])
def test_labels_of_one_class_of_none_or_of_another_are_no_obstacle(
    pdnas: Pdnas, run: Path, folder: Path, label: str
) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row["label"] = label

    other = edit_nodes(folder, change)
    done = pdnas("predict", run, other, "-o", "a.parquet")
    table = parquet.read_table("a.parquet")
    if label == "class-1":
        assert table["label"].to_pylist() == [label] * 20
        right = table["class"].to_pylist().count(label)
        assert f"accuracy on the 20 node(s) with a known label: {5 * right:.2f} %" in done.stderr
    else:
        assert "label" not in table.column_names
        unknown = "20 node(s) of 'other' have labels that the network does not know: another; "
        assert (unknown in done.stderr.replace(str(other), "other")) == (label == "another")
        assert done.stderr.count("\n") == (label == "another")


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_a_batch_norm_is_said_of_other_graphs(pdnas: Pdnas, folder: Path, norm: str) -> None:
    block = BlockSpec(norm=norm)
    Path("mine.json").write_text(Architecture(blocks=(block, BlockSpec())).model_dump_json())
    flags = ("--hidden", "8", "--epochs", "2", "--run-dir", "run", "--quiet")
    assert pdnas("train", "mine.json", folder, *flags).returncode == 0
    other = edit_nodes(folder, lambda rows: rows[0].update(a="9"))
    said = "pdnas: The network has batch norms: what it says of a node depends on which other nodes"
    assert (said in pdnas("predict", "run", other).stderr) == (norm == "batch")
    assert pdnas("predict", "run", "-o", "kept.csv").stderr == ""
    assert said not in pdnas("predict", "run", folder, "-o", "own.csv").stderr


def refused(pdnas: Pdnas, *arguments: str | Path) -> str:
    before = sorted(Path().rglob("*"))
    done = pdnas("predict", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pdnas: ")
    assert done.stderr.count("\n") == 1
    assert sorted(Path().rglob("*")) == before, "something was written"
    return done.stderr


def test_csv_goes_to_stdout_if_that_is_asked_for(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("predict", run, "-o", "-")
    assert pdnas("predict", run, "-o", "a.csv").returncode == 0
    assert (done.returncode, done.stdout) == (0, Path("a.csv").read_text())
    assert "both write to stdout" in refused(pdnas, run, "-o", "-", "--json")


def test_nothing_is_written_over(pdnas: Pdnas, run: Path, folder: Path) -> None:
    nodes, own = folder / "nodes.csv", folder / "own.csv"
    own.write_text("precious")
    before = nodes.read_bytes()
    for data in ([folder], []):
        for force in ([], ["--force"]):
            said = refused(pdnas, run, *data, "-o", nodes, *force)
            assert "belongs to the data" in said
    assert "own.csv' exists already" in refused(pdnas, run, "-o", own)
    assert (nodes.read_bytes(), own.read_text()) == (before, "precious")
    Path("null.csv").symlink_to("/dev/null")
    assert "is a device" in refused(pdnas, run, "-o", "null.csv", "--force")
    assert "is a device" in refused(pdnas, run, "-o", "/dev/full")
    assert pdnas("predict", run, "-o", own, "--force", "--quiet").returncode == 0
    assert own.read_text() != "precious"


def test_missing_columns_are_named(pdnas: Pdnas, run: Path, folder: Path) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        for row in rows:
            del row["b"], row["e"]

    said = refused(pdnas, run, edit_nodes(folder, change))
    assert "lack 2 of the 5 columns that the network was trained on: 'b', 'e'; add them" in said


def test_a_known_column_of_text_is_one_sentence(pdnas: Pdnas, run: Path, folder: Path) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        rows[0]["c"] = "blue"

    said = refused(pdnas, run, edit_nodes(folder, change))
    assert "The column 'c' of the nodes" in said
    assert "has 'blue' at the node 'n0'; correct the cell." in said


def test_another_number_of_features_is_one_sentence(pdnas: Pdnas, run: Path) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    np.savez("a.npz", x=np.ones((2, 3)), edge_index=edges.numpy())
    torch.save(Data(x=torch.ones(2, 9), edge_index=edges), "a.pt")
    expected = "feature(s) per node, but the network was trained on 5;"
    assert f"'a.npz' has 3 {expected}" in refused(pdnas, run, "a.npz")
    assert f"'a.pt' has 9 {expected}" in refused(pdnas, run, "a.pt")
    assert f"'citeseer' has 3703 {expected}" in refused(pdnas, run, "citeseer")


def test_a_table_for_a_network_that_knows_no_names_goes_by_the_order(
    pdnas: Pdnas, tiny: Path, folder: Path
) -> None:
    flags = ("--undirected", "on", "--hidden", "8", "--epochs", "5", "--run-dir", "run")
    assert pdnas("train", "gcn", tiny, *flags, "--quiet").returncode == 0
    found = saved(pdnas, "run", folder)
    np.testing.assert_allclose(found, saved(pdnas, "run"), atol=1e-3)  # tables have four digits
    (folder / "nodes.csv").write_text("id\n" + "".join(f"n{number}\n" for number in range(20)))
    said = refused(pdnas, "run", folder)
    assert "have shape [20, 0]; give [nodes, features] with at least one feature." in said


def test_several_labels_per_node(pdnas: Pdnas, folder: Path) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        for number, row in enumerate(rows):
            del row["label"]
            row |= {"label:odd": str(number % 2), "label:low": str(int(number < 10))}

    other = edit_nodes(folder, change)
    flags = ("--hidden", "8", "--epochs", "5", "--run-dir", "run", "--quiet")
    assert pdnas("train", "gcn", other, *flags).returncode == 0
    done = pdnas("predict", "run", "-o", "a.csv", "--json")
    table = csv.read_csv("a.csv")
    assert table.column_names == [
        *("node", "class:odd", "class:low", "label:odd", "label:low"),
        *("probability:odd", "probability:low"),
    ]
    for name in ("odd", "low"):
        likely = table[f"probability:{name}"].to_numpy() > 0.5
        assert np.array_equal(table[f"class:{name}"].to_numpy(), likely)
        assert json.loads(done.stdout)["classes"][name] == likely.sum()
    header, *lines = (other / "nodes.csv").read_text().split()
    kept = [",".join([*line.split(",")[:7]]) for line in (header, *lines)]
    (other / "nodes.csv").write_text("\n".join(kept) + "\n")
    assert np.array_equal(saved(pdnas, "run", other), saved(pdnas, "run"))


def test_a_search_that_was_interrupted_tells_of_its_best_network(
    pdnas: Pdnas, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pdnas.pipeline.finals import Finals

    def stop(self: Finals) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Finals, "train_chosen", stop)
    flags = ("--epochs=6", "--hidden=4", "--candidates=1", "--designs=off", "--controls")
    done = pdnas("search", folder, *flags, "--run-dir", "run", "--quiet")
    assert done.returncode == 130, done.stderr
    asked = saved(pdnas, "run", folder)
    assert np.array_equal(asked, saved(pdnas, "run"))
    assert RunDirectory(Path("run")).result().search is not None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "'nowhere' is not a run directory"),
        (["run", "-o", "a.xlsx"], "ending '.xlsx'; give one of .csv, .parquet, .npz"),
        (["run", "-o", "run"], "'run' is a folder"),
        (["run", "-o", "no/a.csv"], "There is no folder 'no'"),
        (["run", "nothing.npz"], "There is no file or folder 'nothing.npz'"),
        (["run", "citeser"], "did you mean 'citeseer'?"),
        (["run", "--device", "tpu"], "Unknown device 'tpu'"),
        (["run", "--threads", "0"], "The number of threads is 0"),
        (["run", "cora", "--data-root", "none"], "The data root 'none' is not a folder"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    pdnas: Pdnas, run: Path, arguments: list[str], expected: str
) -> None:
    assert expected in refused(pdnas, *arguments)


def test_a_graph_that_does_not_fit_into_memory_is_one_sentence(
    pdnas: Pdnas, run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(command, "predict", fail)
    said = refused(pdnas, run, folder)
    assert "does not fit into the memory of cpu; give --device cpu, or a smaller graph" in said
