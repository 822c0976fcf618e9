import os
import threading
from pathlib import Path

import pytest

from pdnas.errors import TaskError
from pdnas.tasks.cache import cache_root, fingerprint, made_once


def test_the_environment_names_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_root() == cache
    monkeypatch.delenv("PDNAS_CACHE")
    assert cache_root().name == "pdnas"


def test_the_fingerprint_follows_names_sizes_and_times(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"1")
    os.utime(file, ns=(1, 1))
    keys = [fingerprint([file], tmp_path)]
    os.utime(file, ns=(2, 2))
    keys.append(fingerprint([file], tmp_path))
    file.write_bytes(b"22")
    os.utime(file, ns=(2, 2))
    keys.append(fingerprint([file], tmp_path))
    file = file.rename(tmp_path / "b")
    keys.append(fingerprint([file], tmp_path))
    keys.append(fingerprint([file], tmp_path, "other"))
    assert len(set(keys)) == 5


def test_the_fingerprint_does_not_depend_on_the_place(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a").write_bytes(b"1")
    before = fingerprint([tmp_path / "here" / "a"], tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert fingerprint([tmp_path / "there" / "a"], tmp_path / "there") == before


def test_a_folder_is_made_once(cache: Path) -> None:
    calls: list[Path] = []

    def make(draft: Path) -> None:
        calls.append(draft)
        (draft / "file").touch()

    folder = made_once(cache / "a", make)
    assert made_once(cache / "a", make) == folder
    assert len(calls) == 1
    assert [path.name for path in cache.iterdir()] == ["a"]


def test_a_failure_leaves_nothing_behind(cache: Path) -> None:
    def make(draft: Path) -> None:
        (draft / "half").touch()
        raise TaskError("no")

    with pytest.raises(TaskError, match="no"):
        made_once(cache / "a", make)
    assert list(cache.iterdir()) == []


def test_the_loser_of_a_race_takes_the_winners_folder(cache: Path) -> None:
    barrier = threading.Barrier(4)

    def make(draft: Path) -> None:
        barrier.wait(timeout=10)  # all are at work before the first is done
        (draft / "file").write_text(draft.name)

    threads = [threading.Thread(target=made_once, args=(cache / "a", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in cache.iterdir()] == ["a"]
    assert (cache / "a" / "file").exists()


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TaskError, match="set PDNAS_CACHE to a folder that can"):
        made_once(tmp_path / "file" / "a", lambda draft: None)
