"""Every example runs, and is short."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pdnas.ops import ATTENTIONS

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

SAYS = {
    "custom_op.py": "distance alone: test ",
    "custom_space.py": "citeseer, split public: test accuracy",
    "own_data.py": "of 300 nodes are told right",
    "stop_early.py": "The search was ended by a callback after epoch ",
}
"""A part of what each prints."""


def test_every_example_is_known() -> None:
    assert [path.name for path in EXAMPLES] == sorted(SAYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(
    path: Path,
    script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ATTENTIONS, "_entries", dict(ATTENTIONS._entries))  # what it adds goes
    script(f"examples/{path.name}").main()
    assert SAYS[path.name] in capsys.readouterr().out


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 100
