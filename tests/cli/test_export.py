"""``pdnas export``: what is written, what is said, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

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
        "from network import load_network",
        "logits = load_network()(x, edge_index)",
    ]


def test_the_file_of_a_run_says_how_its_data_were_read(pdnas: Pdnas, run: Path) -> None:
    pdnas("export", run)
    about = " ".join((run / "network.py").read_text().split())
    assert "the features of each node were left as they are" in about


def test_a_program_goes_where_it_is_asked_to(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("export", run, "--format", "torch", "-o", "mine.pt2")
    assert done.stdout.splitlines()[:2] == [
        "wrote mine.pt2",
        "network = torch.export.load('mine.pt2').module()",
    ]
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


def test_a_published_network_is_one_sentence(pdnas: Pdnas, tiny: Path) -> None:
    pdnas("train", "appnp", tiny, "--epochs", "2", "--run-dir", "run", "--quiet")
    done = pdnas("export", "run")
    assert done.returncode == 2
    assert "published 'appnp'" in done.stderr
