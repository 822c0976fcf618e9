"""``pdnas export``: what is written, what is said, and what is refused."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch

Pdnas = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run(pdnas: Pdnas, tiny: Path) -> Path:
    """A finished run of a baseline of blocks."""
    done = pdnas("train", "gcn", tiny, "--epochs", "2", "--run-dir", "run", "--quiet")
    assert done.returncode == 0, done.stderr
    return Path("run")


def test_the_files_and_how_to_use_them_are_told(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("export", run)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "wrote run/network.pt",
        "wrote run/network.py",
        "from network import classes, load_network, prepare",
        "names = classes(load_network()(*prepare(x, edge_index)))",
    ]


RAW = """
import sys
sys.path.insert(0, "run")
sys.modules["pdnas"] = None
import csv
import torch
from network import classes, load_network, prepare
with open("{folder}/nodes.csv") as file:
    nodes = list(csv.DictReader(file))
with open("{folder}/edges.csv") as file:
    edges = list(csv.DictReader(file))
number = {{node["id"]: place for place, node in enumerate(nodes)}}
x = torch.tensor([[float(node[name]) for name in "abcde"] for node in nodes])
ends = [[number[edge["source"]], number[edge["target"]]] for edge in edges]
logits = load_network()(*prepare(x, torch.tensor(ends).t()))
torch.save((logits.detach(), classes(logits)), "theirs.pt")
"""
"""What a user does with the raw tables and the exported file alone."""


@pytest.mark.parametrize("labels", ["class", "yes-or-no", "several"])
@pytest.mark.parametrize(
    "flags", [[], ["--undirected", "off"], ["--normalize", "on"], ["--standardize=off"]]
)
def test_raw_tables_come_to_the_predictions_of_the_run(
    pdnas: Pdnas, folder: Path, flags: list[str], labels: str
) -> None:
    edges = folder / "edges.csv"
    header, *lines = edges.read_text().splitlines()
    source, target = lines[0].split(",")[:2]
    # Twice the same edge, one that leads back, and loops.
    more = [lines[0], lines[1], f"{target},{source}", f"{source},{source}", f"{source},{source}"]
    only = {line.split(",")[0] + "," + line.split(",")[1] for line in [*lines, *more]}
    assert len(only) < len(lines) + len(more)
    edges.write_text("\n".join([header, *lines, *more]) + "\n")
    nodes = folder / "nodes.csv"
    with nodes.open() as file:
        rows = list(csv.DictReader(file))
    rows[3] |= dict.fromkeys("abcde", "0")
    for place, row in enumerate(rows):
        if labels == "yes-or-no":
            row["label"] = ("no", "yes")[place % 2]
        elif labels == "several":
            del row["label"]
            row |= {"label:odd": str(place % 2), "label:low": str(int(place < 10))}
    with nodes.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    short = ("--epochs", "9", "--hidden", "8", "--run-dir", "run", "--quiet")
    assert pdnas("train", "gcn", folder, *flags, *short).returncode == 0
    assert pdnas("export", "run", "--quiet").returncode == 0
    assert pdnas("predict", "run", folder, "-o", "ours.npz", "--quiet").returncode == 0
    script = RAW.format(folder=folder)
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    logits, names = torch.load("theirs.pt")
    with np.load("ours.npz") as ours:
        np.testing.assert_allclose(logits.numpy(), ours["logits"], rtol=0, atol=1e-6)
        if labels == "several":
            told = [
                [n for n, has in zip(ours["class_names"], row, strict=True) if has]
                for row in ours["class"]
            ]
            assert names == told
        else:
            assert names == ours["class"].tolist()


def test_a_program_says_how_its_data_were_prepared(pdnas: Pdnas, folder: Path) -> None:
    short = ("--epochs", "2", "--hidden", "8", "--run-dir", "run", "--quiet")
    assert pdnas("train", "gcn", folder, *short, "--normalize", "on").returncode == 0
    assert pdnas("export", "run", "--format", "torch").stdout.splitlines()[1:] == [
        "import json",
        "import torch",
        "from torch_geometric.utils import to_undirected",
        "files = {'classes.json': '', 'features.json': ''}",
        "network = torch.export.load('run/network.pt2', extra_files=files).module()",
        "# What each logit stands for: a node is of the class with the largest.",
        "CLASSES = json.loads(files['classes.json'])",
        "# The columns of x, in order: a, b, c, d, e.",
        "FEATURES = json.loads(files['features.json'])",
        "x, edge_index = x.float(), edge_index.long()",
        "# The features of each node sum to one, but for nodes whose sum is 0.",
        "sums = x.sum(dim=1, keepdim=True)",
        "x = x / torch.where(sums == 0, 1.0, sums)",
        "# Every edge leads both ways, and each is there once.",
        "edge_index = to_undirected(edge_index, num_nodes=x.size(0))",
        "logits = network(x, edge_index)",
    ]


TABLES = """
import csv
import sys
sys.modules["pdnas"] = None
with open("{folder}/nodes.csv") as file:
    nodes = list(csv.DictReader(file))
with open("{folder}/edges.csv") as file:
    edges = list(csv.DictReader(file))
number = {{node["id"]: place for place, node in enumerate(nodes)}}
import torch
x = torch.tensor([[float(node[name]) for name in "abcde"] for node in nodes])
ends = [[number[edge["source"]], number[edge["target"]]] for edge in edges]
edge_index = torch.tensor(ends).t()
"""


def test_the_lines_for_a_program_name_the_classes_of_raw_tables(pdnas: Pdnas, folder: Path) -> None:
    short = ("--epochs", "9", "--hidden", "8", "--run-dir", "run", "--quiet")
    assert pdnas("train", "gcn", folder, *short).returncode == 0
    told = pdnas("export", "run", "--format", "torch").stdout.splitlines()[1:]
    assert pdnas("predict", "run", folder, "-o", "ours.npz", "--quiet").returncode == 0
    told += ["assert FEATURES == list('abcde')"]
    told += ["print(json.dumps([CLASSES[number] for number in logits.argmax(dim=1)]))"]
    script = TABLES.format(folder=folder) + "\n".join(told)
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with np.load("ours.npz") as ours:
        assert json.loads(done.stdout) == ours["class"].tolist()


def test_a_program_says_by_what_its_data_were_scaled(pdnas: Pdnas, folder: Path) -> None:
    short = ("--epochs", "2", "--hidden", "8", "--run-dir", "run", "--quiet")
    assert pdnas("train", "gcn", folder, *short).returncode == 0
    said = pdnas("export", "run", "--format", "torch").stdout
    lines = said[said.index("# The mean") : said.index("# Every edge")]
    raw = torch.tensor([[0.0] * 5])
    space: dict[str, Any] = {"torch": torch, "x": raw}
    exec(lines, space)
    data = json.loads(Path("run/result.json").read_bytes())["data"]
    expected = -torch.tensor(data["means"]).double() / torch.tensor(data["deviations"]).double()
    assert torch.equal(space["x"], expected.float().unsqueeze(0))


def test_a_program_goes_where_it_is_asked_to(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("export", run, "--format", "torch", "-o", "mine.pt2")
    told = done.stdout.splitlines()
    assert told[0] == "wrote mine.pt2"
    assert "network = torch.export.load('mine.pt2', extra_files=files).module()" in told
    assert not any("features" in line for line in told)  # they have no names
    assert Path("mine.pt2").is_file()


def test_json_is_one_line(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("export", run, "--output", "mine.py", "--json")
    assert json.loads(done.stdout) == {
        "run": "run",
        "format": "python",
        "files": ["mine.pt", "mine.py"],
    }


def test_quiet_says_nothing(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("export", run, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (run / "network.py").is_file()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "'nowhere' is not a run directory"),
        (["run", "--format", "onnx"], "onnx"),
        (["run", "-o", "run"], "'run' is a folder"),
        (["run", "-o", "no/network.py"], "There is no folder 'no' for the output"),
        (["run", "-o", "torch.py"], "would hide the module 'torch'"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], expected: str, pdnas: Pdnas, run: Path
) -> None:
    done = pdnas("export", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_an_export_is_replaced_only_if_that_is_asked_for(pdnas: Pdnas, run: Path) -> None:
    assert pdnas("export", run).returncode == 0
    assert "network.py' exists already" in pdnas("export", run).stderr
    assert pdnas("export", run, "--force").returncode == 0


@pytest.mark.parametrize("name", ["appnp", "jknet-lstm"])
def test_a_published_network_says_what_its_run_says(name: str, pdnas: Pdnas, folder: Path) -> None:
    short = ("--epochs", "3", "--hidden", "8", "--run-dir", "run", "--quiet")
    assert pdnas("train", name, folder, *short).returncode == 0
    assert pdnas("export", "run", "--quiet").returncode == 0
    assert pdnas("predict", "run", folder, "-o", "ours.npz", "--quiet").returncode == 0
    subprocess.run([sys.executable, "-I", "-c", RAW.format(folder=folder)], check=True)
    logits, names = torch.load("theirs.pt")
    with np.load("ours.npz") as ours:
        np.testing.assert_allclose(logits.numpy(), ours["logits"], rtol=0, atol=1e-6)
        assert names == ours["class"].tolist()
