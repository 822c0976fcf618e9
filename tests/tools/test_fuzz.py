"""Hostile files: samples are read, what is made of them is no more than changed, findings end."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fuzz(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("tools/fuzz.py")


def test_changes_follow_from_their_seed(fuzz: ModuleType) -> None:
    sample = b'\0{"a": [1, 2], "b": "text"}'
    many = {fuzz.mutate(sample, random.Random(seed)) for seed in range(200)}
    assert len(many) > 100
    assert fuzz.mutate(sample, random.Random(3)) == fuzz.mutate(sample, random.Random(3))


def test_arrays_are_made_of_what_describes_them(fuzz: ModuleType) -> None:
    arrays = fuzz.tiny()
    again = fuzz.arrays_of(fuzz.describe(arrays))
    assert all((again[name] == array).all() for name, array in arrays.items())


@pytest.mark.parametrize("text", ["no end", "", "lower case.", "x" * 3000 + "."])
def test_what_is_no_sentence_is_a_finding(fuzz: ModuleType, text: str) -> None:
    with pytest.raises((AssertionError, IndexError)):
        fuzz.check_sentence(text)
    fuzz.check_sentence("'file' is damaged; write it anew.")


def test_an_input_that_takes_the_process_with_it_is_kept(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a trial sees there is what a watchdog, which ends the process, would leave."""
    seen: list[bytes] = []

    def attempt(data: bytes) -> None:
        seen.append(data)
        assert (tmp_path / "latest").read_bytes() == data

    attempt.told = lambda: ""  # type: ignore[attr-defined]
    monkeypatch.setattr(fuzz, "limit_memory", lambda: None)
    reader = fuzz.Reader(tmp_path, (fuzz.Part("a", b"sample"),), lambda _: None)
    with pytest.raises(SystemExit) as end:
        fuzz.try_plainly(attempt, reader, 0.05, random.Random(0), tmp_path)
    assert (end.value.code, len(seen) > 1) == (False, True)
    assert list(tmp_path.iterdir()) == [], "nothing is left of what was only tried"


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["recipe", "npz", "pt", "parquet"])
def test_a_reader_stands_a_moment(reader: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "fuzz.py", reader, "--plain", "--seconds", "2"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings; " in done.stdout
