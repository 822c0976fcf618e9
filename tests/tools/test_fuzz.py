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
