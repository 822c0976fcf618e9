"""What is written at once, what a file keeps of it, and which URLs are of a database."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from pdnas.errors import PdnasError, RunError
from pdnas.tuning.storage import JournalFile, Memory, check_url, without_password
from pdnas.tuning.study import GridStudy

CELLS = [{"hidden": hidden} for hidden in (4, 8, 16)]


def test_what_is_in_memory_is_gone_with_it() -> None:
    memory = Memory()
    GridStudy(CELLS, memory).ask()
    assert GridStudy(CELLS, memory).ask() == (1, CELLS[0]), "what was under way is done again"
    assert GridStudy(CELLS, Memory()).ask() == (0, CELLS[0])


def test_what_is_asked_for_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = GridStudy(CELLS, JournalFile(tmp_path / "journal"))
    written: list[int] = []
    write = JournalFile._write

    def counted(self: JournalFile, entries: list[str], place: int) -> None:
        written.append(len(entries))
        write(self, entries, place)

    monkeypatch.setattr(JournalFile, "_write", counted)
    study.ask()
    study.report(0, 25, 0.5)
    study.done(0, 0.5, shape=1)
    assert len(written) == 3
    assert written[0] > 1
    assert written[1:] == [1, 2]


def test_what_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    file = JournalFile(tmp_path / "journal")
    with file.at_once():
        file.append_logs([{"one": 1}])
        assert file.read_logs(0) == [{"one": 1}]

    def fail() -> None:
        with file.at_once():
            file.append_logs([{"two": 2}, {"three": 3}])
            assert file.read_logs(1) == [{"two": 2}, {"three": 3}]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert file.read_logs(0) == [{"one": 1}]
    assert (tmp_path / "journal").read_text() == '{"one":1}\n'


@given(batches=st.lists(st.integers(0, 3), max_size=6), begins=st.lists(st.integers(0, 18)))
def test_every_entry_is_read_by_its_number(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], begins: list[int]
) -> None:
    path = tmp_path_factory.mktemp("journals") / "journal"
    file, other = JournalFile(path), JournalFile(path)
    entries: list[dict[str, Any]] = []
    for batch in batches:
        new = [{"number": len(entries) + place} for place in range(batch)]
        with file.at_once():
            file.append_logs(new)
            assert file.read_logs(len(entries)) == new
        entries += new
    for begin in begins:
        assert file.read_logs(begin) == other.read_logs(begin) == entries[begin:]


def test_optuna_reads_the_file_too(tmp_path: Path) -> None:
    study = GridStudy(CELLS, JournalFile(tmp_path / "journal"))
    while (asked := study.ask()) is not None:
        study.done(asked[0], asked[1]["hidden"] / 16)
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal")))
    trials = storage.get_all_trials(storage.get_study_id_from_name("grid"))
    assert [trial.value for trial in trials] == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("left", [1, 9, 30])
def test_an_entry_that_was_cut_is_no_damage(tmp_path: Path, left: int) -> None:
    """Whoever wrote it died; all that was there before is there."""
    path = tmp_path / "journal"
    study = GridStudy(CELLS, JournalFile(path))
    study.ask()
    whole = path.read_bytes()
    study.done(0, 0.5)
    path.write_bytes(path.read_bytes()[: len(whole) + left])
    again = GridStudy(CELLS, JournalFile(path))
    assert again.ask() == (1, CELLS[0])
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_disk_that_takes_nothing_is_one_sentence_and_leaves_the_file_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = tmp_path / "journal"
    study = GridStudy(CELLS, JournalFile(path))
    study.ask()
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError) as caught:
            study.done(0, 0.5)
    assert str(caught.value) == (
        f"The study '{path}' cannot be written ({os.strerror(code)}); make room for it or check "
        "its permissions, and go on with pdnas resume."
    )
    assert path.read_bytes() == before
    assert GridStudy(CELLS, JournalFile(path)).ask() == (1, CELLS[0])


def test_what_cannot_even_be_taken_back_is_one_sentence_and_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    study = GridStudy(CELLS, JournalFile(path))
    study.ask()

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        patch.setattr(os, "truncate", broken)
        with pytest.raises(RunError, match=r"cannot be written \(Input/output error\)"):
            study.done(0, 0.5)
    assert GridStudy(CELLS, JournalFile(path)).ask() is not None


def test_a_file_that_is_out_of_reach_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere/journal' cannot be written \(No such file"):
        JournalFile(tmp_path / "nowhere" / "journal")
    file = JournalFile(tmp_path / "journal")
    (tmp_path / "journal").unlink()
    with pytest.raises(RunError, match=r"journal' cannot be read \(No such file"):
        GridStudy(CELLS, file)


@pytest.mark.parametrize("text", ["garbage\n", "{}\n", '{"op_code": 4}\n'])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal").write_text(text)
    with pytest.raises(RunError, match=r"journal' is damaged \(.*\); without the file"):
        GridStudy(CELLS, JournalFile(tmp_path / "journal"))


URLS = {
    "postgresql://me:secret@host:5432/db": "postgresql://me@host:5432/db",
    "postgres://me:secret@host/db": "postgres://me@host/db",
    "postgresql://me:se:cret@host": "postgresql://me@host",
    "postgresql://me:%40%2Fsecret@host": "postgresql://me@host",
    "postgresql://:secret@host": "postgresql://@host",
    "postgresql://host/db?user=me&password=secret": "postgresql://host/db?user=me",
    "postgresql:///db?password=secret&host=/tmp": "postgresql:///db?host=/tmp",
    "postgresql://me:secret@a:1,b:2/db?sslpassword=secret": "postgresql://me@a:1,b:2/db",
    "postgresql://me:secret@[::1]:5432/db": "postgresql://me@[::1]:5432/db",
    "postgresql://": "postgresql://",
}


@pytest.mark.parametrize("url", URLS)
def test_a_password_is_cut_out_of_a_url(url: str) -> None:
    check_url(url)
    assert without_password(url) == URLS[url]
    check_url(URLS[url])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "secret",
        "mysql://me:secret@host/db",
        "postgresql:/me:secret@host/db",
        "postgresql+psycopg://me:secret@host/db",
        "postgresql://me:secret",
        "postgresql://me:sec@ret@host/db",
        "postgresql://me:sec/ret@host/db",
        "postgresql://me:sec#ret@host/db",
        "postgresql://me:sec?ret@host/db",
    ],
)
def test_what_is_no_url_of_a_database_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(PdnasError, match="--storage is no PostgreSQL URL; write it as") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)
    assert "ret" not in str(caught.value)
