import json
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from pdnas.ops import SLOTS
from pdnas.space import PAPER, SearchSpace

Pdnas = Callable[..., CompletedProcess[str]]


def test_the_paper_space_is_the_default(pdnas: Pdnas) -> None:
    done = pdnas("space", "--json")
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


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_deep_network_is_counted_too(pdnas: Pdnas, form: list[str]) -> None:
    assert pdnas("space", "--blocks", "200", *form).returncode in (0, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["papr"], "Unknown space 'papr'; known are: paper; did you mean 'paper'?"),
        (["--blocks", "0"], "The number of blocks is 0; give 1 to 100."),
        (["--blocks", "-1"], "The number of blocks is -1; give 1 to 100."),
    ],
)
def test_bad_input_is_one_sentence(pdnas: Pdnas, arguments: list[str], sentence: str) -> None:
    done = pdnas("space", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pdnas: {sentence}\n")
