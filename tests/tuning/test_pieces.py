"""Pieces of work: told apart, kept, done once, and refused where they are of something else."""

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Here

from pdnas.errors import RunError
from pdnas.runs import Record, RunDirectory
from pdnas.tasks import GraphTask
from pdnas.tuning.pieces import Piece, Pieces, PieceWatcher, difference, open_folder
from pdnas.tuning.work import Report


class Count(Record):
    number: int
    work_sha256: str = ""


class Counting(Piece):
    """Work that comes to its number; a negative one fails."""

    number: int
    remark: str | None = None

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        if self.number < 0:
            raise RunError("It rained.")
        return {"number": self.number}


class Kept(PieceWatcher[Count]):
    def __init__(self) -> None:
        self.told: list[str] = []

    def began(self, key: str) -> None:
        self.told.append(f"{key} begins")

    def done(self, key: str, outcome: Count) -> None:
        self.told.append(f"{key} {outcome.number}")

    def failed(self, key: str, reason: str) -> None:
        self.told.append(f"{key} {reason}")


Finish = Callable[[Mapping[str, int]], Kept]


def refuse(there: bytes) -> str:
    return f"holds {len(there)} bytes."


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return open_folder(tmp_path / "folder", {"a": 1}, refuse)


@pytest.fixture
def finish(run: RunDirectory, tiny_task: GraphTask) -> Finish:
    """Does counts by key; what was told."""

    def do(numbers: Mapping[str, int]) -> Kept:
        kept = Kept()
        works = {key: Counting(task="tiny", number=number) for key, number in numbers.items()}
        with Here({"tiny": tiny_task}) as executor:
            Pieces(run, Count, "sum").finish(
                lambda _: works, executor, tasks={"tiny"}, watcher=kept
            )
        return kept

    return do


def test_a_fingerprint_leaves_out_what_is_not_set() -> None:
    plain = Counting(task="tiny", number=1)
    assert plain.sha256 == Counting(task="tiny", number=1, remark=None).sha256
    assert len({plain.sha256, Counting(task="tiny", number=1, remark="x").sha256}) == 2


def test_what_is_done_is_kept_and_not_done_again(finish: Finish, run: RunDirectory) -> None:
    assert finish({"a": 1, "b": 2}).told == ["a begins", "a 1", "b begins", "b 2"]
    assert finish({"a": 1, "b": 2, "c": 3}).told == ["c begins", "c 3"]
    stored = json.loads((run.path / "runs" / "b.json").read_bytes())
    assert stored == {"number": 2, "work_sha256": Counting(task="tiny", number=2).sha256}


def test_what_fails_is_told_and_the_rest_is_done(finish: Finish, run: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"^1 part\(s\) of the sum failed, the first of them 'a': "):
        finish({"a": -1, "b": 2})
    assert [path.stem for path in (run.path / "runs").iterdir()] == ["b"]


def test_what_other_settings_came_to_is_refused(finish: Finish) -> None:
    finish({"a": 1})
    with pytest.raises(RunError, match=r"a\.json' is of other settings than the sum has now"):
        finish({"a": 2})


def test_works_may_wait_for_others(run: RunDirectory, tiny_task: GraphTask) -> None:
    kept = Kept()

    def works(done: Mapping[str, Count]) -> dict[str, Piece]:
        first = {"a": Counting(task="tiny", number=4)}
        last = {"b": Counting(task="tiny", number=done["a"].number + 1)} if "a" in done else {}
        other = {"c": Counting(task="other", number=9)}
        return {**last, **first, **other}

    with Here({"tiny": tiny_task}) as executor:
        Pieces(run, Count, "sum").finish(works, executor, tasks={"tiny"}, watcher=kept)
    assert kept.told == ["a begins", "a 4", "b begins", "b 5"]


def test_a_damaged_outcome_is_one_sentence(finish: Finish, run: RunDirectory) -> None:
    finish({"a": 1})
    (run.path / "runs" / "a.json").write_text("{")
    with pytest.raises(RunError, match=r"a\.json' is damaged: .*; delete it and run again\."):
        finish({"a": 1})


def test_a_folder_is_made_and_opened_again(run: RunDirectory) -> None:
    before = (run.path / "settings.json").read_bytes()
    assert open_folder(run.path, {"a": 1}, refuse).path == run.path
    with pytest.raises(RunError, match=r"The folder '.*folder' holds 13 bytes\."):
        open_folder(run.path, {"a": 2}, refuse)
    open_folder(run.path, {"a": 2}, lambda _: None)
    assert (run.path / "settings.json").read_bytes() == before


def test_a_folder_that_holds_something_else_is_refused_and_an_empty_one_is_not(
    tmp_path: Path,
) -> None:
    assert open_folder(tmp_path, {}, refuse).path == tmp_path
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").touch()
    with pytest.raises(RunError, match=r"'.*other' holds something else already; give an"):
        open_folder(other, {}, refuse)
    assert [path.name for path in other.iterdir()] == ["letter.txt"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be made"):
        open_folder(tmp_path / "file", {}, refuse)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b was 2 and is 3"),
        ({}, {"a": 1}, "a was not given and is 1"),
        ({"a": "x" * 41}, {"a": "y"}, "another a"),
    ],
)
def test_the_first_difference_is_named(
    before: dict[str, Any], now: dict[str, Any], expected: str | None
) -> None:
    assert difference(before, now) == expected


def test_a_folder_that_no_folder_can_be_called_is_one_sentence() -> None:
    with pytest.raises(RunError, match="'a b' cannot be a path"):
        open_folder(Path("a\0b"), {}, lambda _: None)


def test_settings_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "settings.json").write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", _forbidden)
        with pytest.raises(RunError, match=r"settings\.json' cannot be read \(Permission denied\)"):
            open_folder(tmp_path / "out", {}, lambda _: None)


def test_a_piece_that_is_a_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a.json").mkdir(parents=True)
    with pytest.raises(RunError, match=r"a\.json' cannot be read \(Is a directory\)"):
        Pieces(RunDirectory(tmp_path), Record, "whole")


def _forbidden(_: Path) -> bytes:
    raise PermissionError(errno.EACCES, "Permission denied")
