"""What no file can be called is said in a sentence, and none is ever half written."""

import os
from pathlib import Path

import pytest

from pdnas.errors import PdnasError, TaskError
from pdnas.files import check_path, write_whole


@pytest.mark.parametrize("path", ["citeseer", "", "not/there", Path(), "pyg:A/b", "é😀"])
def test_what_a_file_could_be_called_may_be_missing(path: str | Path) -> None:
    check_path(path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a\0b", "'a b' cannot be a path: no file's name has a null byte"),
        (Path("a\0b/c.json"), "'a b/c.json' cannot be a path"),
        ("a\ud800", "'a ' cannot be a path"),
        ("a" * 300, "'a+...' cannot be a path: it is too long; correct it."),
    ],
)
def test_what_no_file_can_be_called_is_one_sentence(path: str | Path, why: str) -> None:
    with pytest.raises(PdnasError, match=why):
        check_path(path)


def test_the_error_is_of_whoever_asks() -> None:
    with pytest.raises(TaskError):
        check_path("\0", TaskError)


def test_a_file_that_cannot_be_written_is_as_it_was_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine"
    write_whole(path, b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", ".", "/", "folder"])
def test_a_folder_is_not_written_over(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - which one differs
        write_whole(Path(name), b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
