import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pdnas.ops import SLOTS
from pdnas.space import EXTENDED, PAPER, SearchSpace

Pdnas = Callable[..., CompletedProcess[str]]


def test_the_extended_space_is_the_default(pdnas: Pdnas) -> None:
    said = json.loads(pdnas("space", "--json").stdout)
    assert SearchSpace.from_json(json.dumps(said["space"])) == EXTENDED


def test_the_paper_space_is_counted(pdnas: Pdnas) -> None:
    done = pdnas("space", "paper", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0
    assert SearchSpace.from_json(json.dumps(said["space"])) == PAPER
    # 3360 inner blocks, 420 last ones, and an upper triangle of shortcuts.
    assert said["counts"] == {
        "2": 3360 * 420 * 2**3,
        "3": 3360**2 * 420 * 2**6,
        "4": 3360**3 * 420 * 2**10,
    }


def test_the_tables_show_every_slot_and_count(pdnas: Pdnas) -> None:
    done = pdnas("space", "paper", "--blocks", "1", "2")
    assert all(slot in done.stdout for slot in SLOTS)
    assert "gene-linear" in done.stdout
    assert "840" in done.stdout
    assert "11,289,600" in done.stdout
    assert done.stderr == ""


def test_the_extended_space_is_shown_by_its_name(pdnas: Pdnas) -> None:
    said = json.loads(pdnas("space", "extended", "--json", "--blocks", "2").stdout)
    assert SearchSpace.from_json(json.dumps(said["space"])) == EXTENDED
    assert said["counts"] == {"2": EXTENDED.count(2)}
    shown = pdnas("space", "extended")
    assert shown.returncode == 0
    assert "space extended" in shown.stdout
    assert "1, 0, 2, 4, 8" in shown.stdout


def test_a_space_of_one_s_own_is_shown_from_its_file(pdnas: Pdnas, place: Path) -> None:
    (place / "my.toml").write_text('attention = ["gcn", "gat"]\nnorm = ["none", "layer"]\n')
    shown = pdnas("space", "my.toml", "--blocks", "1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "space my" in shown.stdout
    assert "gcn, gat" in shown.stdout
    # The last block has no norm and no activation; one shortcut is there or not.
    assert f"{4 * 2 * 5 * 3 * 2}" in shown.stdout
    said = json.loads(pdnas("space", "my.toml", "--json").stdout)
    own = {"name": "my", "attention": ("gcn", "gat"), "norm": ("none", "layer")}
    assert SearchSpace.from_json(json.dumps(said["space"])) == PAPER.model_copy(update=own)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "The space 'my.toml' cannot be read (No such file or directory); check the path."),
        (
            'attention = ["gta"]',
            "The space 'my.toml' is not valid: Unknown attention 'gta'; known are: const, gcn, "
            "gat, sym-gat, cos, linear, gene-linear; did you mean 'gat'?",
        ),
        (
            "heads = []",
            "The space 'my.toml' is not valid: The slot 'heads' has the candidates []; give at "
            "least one, each of them once.",
        ),
        (
            "heads = ",
            "The space 'my.toml' is not valid TOML: Invalid value (at end of document); correct "
            'it, for example: attention = ["gcn", "gat"].',
        ),
    ],
    ids=["missing", "unknown op", "no candidates", "not TOML"],
)
def test_a_file_that_is_not_a_space_is_one_sentence(
    pdnas: Pdnas, place: Path, text: str | None, sentence: str
) -> None:
    if text is not None:
        (place / "my.toml").write_text(text)
    done = pdnas("space", "my.toml")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pdnas: {sentence}\n")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_deep_network_is_counted_too(pdnas: Pdnas, form: list[str]) -> None:
    assert pdnas("space", "--blocks", "200", *form).returncode in (0, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["papr"],
            "Unknown space 'papr'; known are: paper, extended, inductive, a .toml file; did you "
            "mean 'paper'?",
        ),
        (["--blocks", "0"], "The number of blocks is 0; give 1 to 100."),
        (["--blocks", "-1"], "The number of blocks is -1; give 1 to 100."),
    ],
)
def test_bad_input_is_one_sentence(pdnas: Pdnas, arguments: list[str], sentence: str) -> None:
    done = pdnas("space", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pdnas: {sentence}\n")
