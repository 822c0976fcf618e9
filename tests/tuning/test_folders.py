"""Folders are written to where they are shared; elsewhere they travel, and arrive as a whole."""

import errno
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from pdnas.errors import RunError
from pdnas.tuning.folders import Folders, pack, unpack


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fill(folder: Path, **files: str) -> Path:
    (folder / "checkpoint").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_shared_folder_is_written_to_where_it_lies(tmp_path: Path) -> None:
    folders = Folders()
    folder = folders.offer(tmp_path / "cells" / "one")
    assert folder.is_shared
    with folder.here() as place:
        assert place == tmp_path / "cells" / "one"
    folders.close()
    assert not folder.is_shared
    assert [*(tmp_path / "cells").iterdir()] == []


def test_a_folder_that_is_not_shared_is_another_one_for_a_while(tmp_path: Path) -> None:
    fill(tmp_path / "one", settings="a")
    folder = Folders().offer(tmp_path / "one")
    elsewhere = replace(folder, token=tmp_path / "nowhere" / folder.token.name)
    assert not elsewhere.is_shared
    with elsewhere.here() as place:
        assert place.name == "one"
        assert not place.is_relative_to(tmp_path)
        assert contents(place) == {"settings": "a"}, "what was begun goes on"
        (place / "result").write_text("b")
        packed = pack(place)
    assert not place.exists()
    unpack(packed, folder.path)
    assert contents(tmp_path / "one") == {"result": "b", "settings": "a"}
    assert (tmp_path / "one" / "checkpoint").is_dir()


def test_a_folder_that_is_not_there_is_left_to_whoever_works(tmp_path: Path) -> None:
    folder = Folders().offer(tmp_path / "one")
    elsewhere = replace(folder, token=tmp_path / "nowhere")
    with elsewhere.here() as place:
        assert not place.exists()
        assert place.parent.is_dir()


def test_tokens_of_drivers_that_were_killed_are_cleared(tmp_path: Path) -> None:
    """The run is locked: nobody else has a token there."""
    killed = Folders().offer(tmp_path / "one")
    fill(tmp_path / ".pdnas-mine", settings="a")
    (tmp_path / ".pdnas-notes").write_text("mine")
    folders = Folders()
    folder = folders.offer(tmp_path / "two")
    assert folder.is_shared
    assert not killed.is_shared
    assert folders.offer(tmp_path / "three").token == folder.token
    folders.close()
    assert {path.name for path in tmp_path.iterdir()} == {".pdnas-mine", ".pdnas-notes"}


def test_a_token_of_another_run_proves_nothing(tmp_path: Path) -> None:
    folder = Folders().offer(tmp_path / "one")
    folder.token.write_text("something else")
    assert not folder.is_shared


@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_leaves_a_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    packed = pack(fill(tmp_path / "other", settings="b", result="c"))
    if there:
        fill(tmp_path / "one", settings="a")
    before = contents(tmp_path / "one") if there else None

    def full(self: tarfile.TarFile, path: Path, **_: object) -> None:
        (Path(path) / "settings").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tarfile.TarFile, "extractall", full)
        with pytest.raises(RunError, match=r"one' cannot be written \(No space left on device\)"):
            unpack(packed, tmp_path / "one")
    assert {path.name for path in tmp_path.iterdir()} == {"other"} | ({"one"} if there else set())
    if there:
        assert contents(tmp_path / "one") == before
    unpack(packed, tmp_path / "one")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_what_a_death_left_half_way_is_cleared(tmp_path: Path) -> None:
    packed = pack(fill(tmp_path / "other", settings="b"))
    for rest in (".one.new", ".one.old"):
        fill(tmp_path / rest, settings="half")
    unpack(packed, tmp_path / "one")
    assert {path.name for path in tmp_path.iterdir()} == {"other", "one"}


def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file' cannot be written \((File exists|Not a directory)"):
        Folders().offer(tmp_path / "file" / "one")


def test_a_token_that_could_not_be_written_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, encoding: str) -> None:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RunError, match=r"cells' cannot be written \(No space left on device\)"):
        Folders().offer(tmp_path / "cells" / "one")
    assert list((tmp_path / "cells").iterdir()) == []
