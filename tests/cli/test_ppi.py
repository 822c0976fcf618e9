"""Many graphs with many labels through every command, and the note beside every figure."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.tasks.test_ppi import tiny_ppi

from pdnas.tasks import ppi

Pdnas = Callable[..., CompletedProcess[str]]

SHORT = ["--epochs", "2", "--hidden", "4", "--device", "cpu"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root with tiny protein graphs, whose labels count as rebuilt."""
    with zipfile.ZipFile(tiny_ppi(tmp_path / "data")) as archive:
        monkeypatch.setattr(ppi, "RECONSTRUCTED", archive.getinfo("train_labels.npy").CRC)
    return tmp_path / "data"


@pytest.mark.parametrize(
    "command",
    [
        ["train", "sage-ppi", "ppi"],
        ["search", "ppi", "--space", "inductive", "--candidates", "1", "--controls", "gat-ppi"],
        ["tune", "ppi", "--architecture", "jknet-max-ppi", "--trials", "1", "--trial-seeds", "1"],
        [
            *["compare", "ppi", "--strategies", "random", "--baselines", "sage-ppi"],
            *["--budget-trials", "4", "--space", "inductive"],
        ],
    ],
    ids=lambda command: command[0],
)
def test_every_command_says_that_labels_are_rebuilt(
    command: list[str], root: Path, pdnas: Pdnas
) -> None:
    done = pdnas(*command, *SHORT, "--seeds", "1", "--data-root", root)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())  # titles are folded above narrow tables
    assert "ppi (reconstructed labels)" in said
    if command[0] != "compare":
        assert "micro-f1 in % (reconstructed labels), mean" in said
    for line in done.stderr.splitlines():
        assert "%" not in line or "% (reconstructed labels)" in line, line
