"""Every kind of bad input is answered with one sentence, exit code 2, and nothing written."""

import contextlib
import errno
import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid

from pdnas.models.baselines import BASELINES

Pdnas = Callable[..., CompletedProcess[str]]
Arrays = dict[str, Any]
Refused = Callable[..., str]


@pytest.fixture
def refused(pdnas: Pdnas, place: Path) -> Refused:
    """What a failing ``pdnas train`` says, after checking that it says it properly."""

    def run(*arguments: str | Path) -> str:
        before = sorted(place.rglob("*"))
        done = pdnas("train", *arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("pdnas: ")
        assert done.stderr.count("\n") == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert sorted(place.rglob("*")) == before, "something was written"
        return done.stderr.removeprefix("pdnas: ").strip()

    return run


def save(arrays: Arrays, **changes: Any) -> Path:
    path = Path("graph.npz")
    np.savez(path, **{**arrays, **changes})
    return path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["gcn", "citeser"], r"Unknown task 'citeser'; known .* did you mean 'citeseer'\?"),
        (["gcm"], r"Unknown baseline 'gcm'; known are: .*gcn.* did you mean 'gcn'\?"),
        (["gcn", "--split", "pubic"], r"Unknown split 'pubic'; known .* did you mean 'public'\?"),
        (["gcn", "--recipe", "gatt"], r"Unknown recipe 'gatt'; known .* did you mean 'gat'\?"),
        (["gcn", "--metric", "acuracy"], r"metric .*'acuracy'.* did you mean 'accuracy'\?"),
        (["gcn", "--metric", "roc-auc"], r"single-label metric 'roc-auc'"),
        (["gcn", "pyg:Planetoyd/Cora"], r"no class .*'Planetoyd'.*perhaps 'Planetoid'"),
        (["gcn", "pyg:Planetoid/Coro"], r"'Coro'.* did you mean 'Cora'\?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    refused: Refused, arguments: list[str], expected: str
) -> None:
    assert re.search(expected, refused(*arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["gcn", "none.npz"], "There is no file or folder 'none.npz'"),
        (["gcn", "none.pt"], "There is no file or folder 'none.pt'"),
        (["gcn", "no/folder"], "There is no file or folder 'no/folder'"),
        (["none.json"], "The architecture 'none.json' cannot be read"),
        (["no/run"], "Unknown baseline 'no/run'; known are: "),
        (["."], "'.' is not a run directory: it has no settings.json"),
        (["gcn", "--recipe", "none.toml"], "The recipe 'none.toml' cannot be read"),
        (["gcn", "cora", "--data-root", "none"], "The data root 'none' is not a folder"),
    ],
)
def test_a_missing_file_is_named(refused: Refused, arguments: list[str], expected: str) -> None:
    assert expected in refused(*arguments)


CORRUPT = [
    (name, content)
    for name in ("graph.npz", "graph.pt", "mine.json", "mine.toml")
    for content in (b"", b"PK\x03\x04 not whole", b"\x80\xff\x00")
    if content or name != "mine.toml"  # an empty file is a recipe of defaults
]


@pytest.mark.parametrize(("name", "content"), CORRUPT)
def test_a_corrupt_file_is_named(refused: Refused, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    arguments = {"mine.json": [name], "mine.toml": ["gcn", "--recipe", name]}
    assert f"'{name}'" in refused(*arguments.get(name, ["gcn", name]))


def test_a_truncated_file_is_named(refused: Refused, arrays: Arrays) -> None:
    path = save(arrays)
    path.write_bytes(path.read_bytes()[:-200])
    assert "'graph.npz' is damaged" in refused("gcn", path)


@pytest.mark.parametrize("name", ["nodes.csv", "nodes.parquet"])
def test_a_corrupt_table_is_named(refused: Refused, folder: Path, name: str) -> None:
    (folder / "nodes.csv").unlink()
    (folder / name).write_bytes(b"id,label\n1,2,3\n")
    assert name in refused("gcn", folder)


def test_a_lacking_table_is_named(refused: Refused, folder: Path) -> None:
    (folder / "edges.csv").unlink()
    assert "neither edges.csv nor edges.parquet" in refused("gcn", folder)


@pytest.mark.parametrize(("node", "form"), [(20, ".npz"), (-1, ".npz"), (20, ".pt")])
def test_an_edge_that_points_outside_is_named(
    refused: Refused, arrays: Arrays, node: int, form: str
) -> None:
    arrays["edge_index"] = np.array([[0, 1], [1, node]])
    path = save(arrays)
    if form == ".pt":
        path = Path("graph.pt")
        torch.save(Data(**{key: torch.tensor(value) for key, value in arrays.items()}), path)
    sentence = refused("gcn", path)
    assert f"An edge of '{path}' points to node {node}, but its nodes are 0 to 19" in sentence


def test_an_edge_of_a_table_that_points_outside_is_named(refused: Refused, folder: Path) -> None:
    (folder / "edges.csv").write_text("source,target\nn1,n77\n")
    assert "an edge points outside the graph: no node has the id 'n77'" in refused("gcn", folder)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("width", [5, 200], ids=["dense", "sparse"])
def test_features_that_are_not_finite_are_refused(
    refused: Refused, arrays: Arrays, value: float, width: int
) -> None:
    x = np.zeros((20, width), dtype=np.float32)
    x[:, :5] = arrays["x"]
    x[3, 2] = value
    sentence = refused("gcn", save(arrays, x=x))
    assert sentence.startswith("1 feature value(s) of 'graph.npz' are NaN or infinite; ")


def test_an_empty_cell_of_a_feature_is_refused(refused: Refused, folder: Path) -> None:
    nodes = folder / "nodes.csv"
    nodes.write_text(re.sub(r"(?m)^(n3,.*,)[^,]+$", r"\1nan", nodes.read_text()))
    sentence = refused("gcn", folder)
    assert "The column 'e'" in sentence
    assert "1 empty or NaN value" in sentence


@pytest.mark.parametrize("label", [-2, 3, 5000])
def test_labels_outside_the_classes_are_refused(
    refused: Refused, arrays: Arrays, label: int
) -> None:
    y = arrays["y"].copy()
    y[4] = label
    sentence = refused("gcn", save(arrays, y=y, class_names=np.array(["a", "b", "c"])))
    assert f"A label of 'graph.npz' is {label}, but " in sentence


def test_a_label_of_many_that_is_neither_0_nor_1_is_refused(
    refused: Refused, arrays: Arrays
) -> None:
    y = np.zeros((20, 3))
    y[0, 0] = 2
    assert "A label of 'graph.npz' is 2; make every label 0 or 1" in refused(
        "gcn", save(arrays, y=y)
    )


def test_labels_that_are_no_classes_are_refused(refused: Refused, arrays: Arrays) -> None:
    y = np.linspace(0, 1, 20)
    assert "labels of 'graph.npz' are not whole numbers" in refused("gcn", save(arrays, y=y))


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_part_without_a_labelled_node_is_named(
    refused: Refused, arrays: Arrays, part: str
) -> None:
    y = arrays["y"].copy()
    y[arrays[f"{part}_mask"]] = -1
    sentence = refused("gcn", save(arrays, y=y))
    assert sentence.startswith(f"The split 'own' has no labelled node for {part}; ")
    assert "--split random" in sentence


def test_overlapping_splits_are_refused(refused: Refused, arrays: Arrays) -> None:
    mask = arrays["test_mask"].copy()
    mask[2] = True
    sentence = refused("gcn", save(arrays, test_mask=mask))
    assert "'own' has 1 node(s) in both train and test, node 2 among them" in sentence


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda text: text[: len(text) // 2],
            r"is not whole JSON .*; correct it or write it again",
        ),
        (lambda text: "", r"is not whole JSON"),
        (lambda text: "[1, 2]", r"is not valid"),
        (lambda text: "null", r"is not valid"),
        (lambda text: text.replace("gates", "gaits"), r"unknown field 'gaits'; known are: .*gates"),
        (lambda text: text.replace("heads", "haeds"), r"unknown field .*haeds'; known are: .*head"),
        (lambda text: text.replace('"gcn"', '"gnc"'), r"'gnc'.* did you mean 'gcn'\?"),
        (lambda text: text.replace('"heads": 1', '"heads": 3', 1), r"'3'; known are: 1, 2, 4"),
        (lambda text: text.replace('"heads": 1', '"heads": []', 1), r"heads"),
        (
            lambda text: text.replace('"gates": []', '"gates": [[1, 0]]'),
            r"The gate \(1, 0\) points backwards",
        ),
        (
            lambda text: text.replace('"gates": []', '"gates": [[0, 2]]'),
            r"The gate \(0, 2\) leaves the network; its blocks are 0 to 1",
        ),
        (
            lambda text: text.replace('"version": 1', '"version": 2'),
            r"its format version is 2, and this pdnas reads version 1; update pdnas",
        ),
        (lambda text: re.sub(r'"blocks": \[.*?\n  \]', '"blocks": []', text, flags=re.S), "none"),
    ],
    ids=[
        "truncated",
        "empty",
        "list",
        "null",
        "unknown-field",
        "unknown-field-of-a-block",
        "unknown-op",
        "unknown-heads",
        "wrong-type",
        "backwards",
        "outside",
        "future",
        "no-blocks",
    ],
)
def test_an_architecture_that_is_not_valid_is_explained(
    refused: Refused, change: Callable[[str], str], expected: str
) -> None:
    text = BASELINES["gcn"].architecture.to_json()
    changed = change(text)
    assert changed != text
    Path("mine.json").write_text(changed)
    sentence = refused("mine.json")
    assert sentence.startswith("The architecture 'mine.json' is not valid: ")
    assert re.search(expected, sentence)


@pytest.mark.parametrize("hidden", ["0", "-8"])
def test_a_hidden_size_below_one_is_refused(refused: Refused, hidden: str) -> None:
    assert f"The hidden size is {hidden}; give a whole number" in refused("gcn", "--hidden", hidden)


@pytest.mark.parametrize("kind", ["folder", "file", "run"])
def test_a_run_directory_that_exists_is_refused(
    refused: Refused, pdnas: Pdnas, tiny: Path, kind: str
) -> None:
    if kind == "run":
        pdnas("train", "gcn", tiny, "--epochs", "1", "--run-dir", "run")
    elif kind == "folder":
        Path("run").mkdir()
    else:
        Path("run").touch()
    sentence = refused("gcn", tiny, "--run-dir", "run")
    why = "is a file" if kind == "file" else "exists already"
    assert f"The run directory 'run' {why}; give another --run-dir" in sentence
    assert ("pdnas resume run" in sentence) == (kind == "run")


@pytest.mark.parametrize("flags", [[], ["--run-dir", "there/run"]])
def test_no_write_permission_is_one_sentence(
    refused: Refused, tiny: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:  # the administrator may write anywhere
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    sentence = refused("gcn", tiny, *flags)
    assert "cannot be made (Permission denied); give a --run-dir that you may write to" in sentence


def test_a_run_below_a_file_is_one_sentence(refused: Refused, tiny: Path) -> None:
    Path("file").touch()
    assert "cannot be made (Not a directory)" in refused("gcn", tiny, "--run-dir", "file/run")


@pytest.mark.parametrize("device", ["cuda:99", "cuda:999", "cuda:256"])
def test_a_cuda_device_that_is_not_there_is_refused(
    refused: Refused, tiny: Path, device: str
) -> None:
    sentence = refused("gcn", tiny, "--device", device)
    assert sentence.startswith(f"The device '{device}' is not there: this machine has ")
    assert sentence.endswith("use --device cpu.")


@pytest.mark.parametrize("device", ["gpu", "tpu", "CUDA"])
def test_an_unknown_device_is_refused(refused: Refused, tiny: Path, device: str) -> None:
    sentence = refused("gcn", tiny, "--device", device)
    assert f"Unknown device '{device}'; give auto, cpu, cuda" in sentence


@pytest.mark.parametrize("task", ["cora", "pubmed", "pyg:Planetoid/Cora"])
def test_a_download_that_cannot_be_reached_names_the_embedded_task(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    def unreachable(self: object) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setattr(Planetoid, "download", unreachable)
    sentence = refused("gcn", task)
    assert f"'{task}'" in sentence
    assert "could not be downloaded" in sentence
    assert "PDNAS_DATA" in sentence
    assert "embedded task 'citeseer'" in sentence


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--lr", "0", "lr: Input should be greater than 0, but got 0.0"),
        ("--lr", "-1", "lr: Input should be greater than 0, but got -1.0"),
        ("--lr", "nan", "lr: "),
        ("--lr", "inf", "lr: "),
        ("--weight-decay", "inf", "weight_decay: "),
        ("--dropout", "1", "dropout: Input should be less than 1, but got 1.0"),
        ("--epochs", "0", "epochs: "),
        ("--patience", "0", "patience: "),
        ("--batch-graphs", "0", "batch_graphs: "),
        ("--seeds", "0", "The number of seeds is 0; give 1 to 10000"),
        ("--threads", "0", "The number of threads is 0; give 1 to 1024"),
        ("--split-seeds", "9..0", "The split seeds '9..0' cannot be read; write one number"),
    ],
)
def test_a_number_out_of_range_is_refused(
    refused: Refused, tiny: Path, flag: str, value: str, expected: str
) -> None:
    assert expected in refused("gcn", tiny, f"{flag}={value}")


def test_a_split_seed_that_the_data_do_not_bring_is_refused(
    refused: Refused, arrays: Arrays
) -> None:
    masks = {
        f"{part}_mask": np.stack([arrays[f"{part}_mask"]] * 3, axis=1)
        for part in ("train", "val", "test")
    }
    sentence = refused("gcn", save(arrays, **masks), "--split-seeds", "1..3")
    assert "split seed 3 is out of range: the data bring 3 split" in sentence


def test_a_name_with_a_line_break_stays_one_line(refused: Refused) -> None:
    assert "gc" in refused("gc\nn")


def test_a_damaged_run_is_not_an_architecture(refused: Refused) -> None:
    Path("run").mkdir()
    Path("run/settings.json").write_text(json.dumps({"command": "train"}))
    assert "settings.json' is damaged" in refused("run")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a" * 5000], "Unknown baseline"),
        (["gcn", "--threads", "99999999999"], "give 1 to 1024"),
        (["gcn", "--hidden", "99999999999999999999"], "give a whole number from 1 to"),
        (
            ["gcn", "--hidden", "1000000", "--batching", "full"],
            "does not fit into the memory of cpu; give a smaller --hidden, or --batching clusters",
        ),
        (["gcn", "--seeds", "99999999999"], "give 1 to 10000"),
        (["gcn", "--split-seeds", "0..99999999999"], "10000 of them at most"),
        (["gcn", ""], "The task has no name"),
    ],
    ids=["name", "threads", "hidden", "memory", "seeds", "splits", "task"],
)
def test_what_is_too_much_is_refused(
    arguments: list[str], sentence: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    if "memory" in sentence:
        monkeypatch.setattr("pdnas.cli.train.train", exhausted)
        monkeypatch.setattr("pdnas.cli.train.RunDirectory.create", lambda *_: _Nowhere())
    assert sentence in refused(*arguments)


class _Nowhere:
    """A run directory that keeps nothing."""

    def alone(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def write_json(self, *_: object) -> None:
        pass
