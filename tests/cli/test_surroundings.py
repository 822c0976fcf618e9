"""Whatever surrounds a command: little memory, no writing, no streams, other locales."""

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from pdnas.cli import main

Pdnas = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow  # each of them is a process that loads all there is

PROGRAM = [sys.executable, "-c", "import sys; from pdnas.cli import main; sys.exit(main())"]
SHORT = ["--epochs", "3", "--hidden", "4"]


def run(
    *words: object, env: Mapping[str, str] | None = None, **options: Any
) -> CompletedProcess[str]:
    """A command in a process of its own."""
    return subprocess.run(
        [*PROGRAM, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        text=True,
        check=False,
        **{"capture_output": True, **options},
    )


def sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("pdnas: ")
    return done.stderr


def powerless() -> None:
    """Let not even the administrator write where nobody may."""
    drop, override = 24, 1
    ctypes.CDLL(None).prctl(drop, override, 0, 0, 0)


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A folder that nobody may write to."""
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    return folder


def under(mebibytes: int, *words: object) -> CompletedProcess[str]:
    """A command that may have so much memory."""
    most = mebibytes << 20
    return run(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))


@pytest.mark.parametrize("mebibytes", [300, 650, 1023])
def test_too_little_memory_to_begin_is_one_sentence_and_no_run(
    tiny: Path, place: Path, mebibytes: int
) -> None:
    said = sentence(under(mebibytes, "train", "gcn", tiny, *SHORT))
    assert f"the limit (ulimit -v) is {mebibytes} MiB, and pdnas needs 1024 MiB to begin" in said
    assert not list(place.iterdir())


def test_too_little_memory_for_a_network_is_one_sentence(tiny: Path) -> None:
    wide = ("--epochs", "3", "--hidden", "40000")  # 6 GiB for a map between two blocks
    said = sentence(under(3000, "train", "jknet-concat", tiny, *wide, "--quiet"))
    assert "memory" in said


def test_a_command_without_memory_says_so(pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("pdnas.cli.train.execute", exhausted)
    assert "There is too little memory" in sentence(pdnas("train", "gcn"))


def test_a_library_that_is_not_there_is_not_called_lack_of_memory(
    pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr("pdnas.cli.train.execute", absent)
    with pytest.raises(ImportError, match="torch"):
        pdnas("train", "gcn")


def test_no_place_to_write_a_run_is_one_sentence(tiny: Path, locked: Path) -> None:
    done = run("train", "gcn", tiny, *SHORT, cwd=locked, preexec_fn=powerless)
    assert "cannot be made (Permission denied); give a --run-dir" in sentence(done)


@pytest.mark.parametrize(
    ("command", "named"),
    [("report", "report.html"), ("predict", "predictions.csv"), ("resume", ".lock")],
)
def test_a_run_that_nobody_may_write_to_is_one_sentence(
    tiny: Path, command: str, named: str
) -> None:
    assert main(["train", "gcn", str(tiny), *SHORT, "--quiet", "--run-dir", "run"]) == 0
    Path("run/.lock").unlink(missing_ok=True)
    Path("run").chmod(0o555)
    said = sentence(run(command, "run", preexec_fn=powerless))
    assert named in said
    assert "cannot be written (Permission denied)" in said


def test_a_home_that_nobody_may_write_to_is_no_matter(tiny: Path, locked: Path) -> None:
    homeless = {"HOME": str(locked), "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""}
    done = run("train", "gcn", tiny, *SHORT, "--quiet", env=homeless, preexec_fn=powerless)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_cache_that_nobody_may_write_to_is_one_sentence(locked: Path) -> None:
    cache = {"PDNAS_CACHE": str(locked / "cache")}
    done = run("train", "gcn", "cora", env=cache, preexec_fn=powerless)
    assert "cannot be written (Permission denied); set PDNAS_CACHE" in sentence(done)


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_matter(tiny: Path, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for number in closed:
            os.close(number)

    done = run("train", "gcn", tiny, *SHORT, "--run-dir", "run", preexec_fn=close)
    assert done.returncode == 0
    assert done.stderr == ("" if 2 in closed else done.stderr)
    assert json.loads(Path("run/result.json").read_bytes())["task"] == str(tiny)
    lines = Path("run/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2]


def test_bad_input_with_closed_streams_has_its_exit_code() -> None:
    done = run("train", "gcm", preexec_fn=lambda: os.closerange(0, 3))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_full_disk_behind_the_table_is_one_sentence(tiny: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(
            *("train", "gcn", tiny, *SHORT, "--run-dir", "run"),
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("pdnas: There is no space left to write to")
    assert "Traceback" not in done.stderr
    assert Path("run/result.json").is_file()


def test_a_reader_that_reads_one_line_is_no_failure(tiny: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = run(
        *("train", "gcn", tiny, *SHORT, "--run-dir", "run"),
        capture_output=False,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_folder_that_is_gone_is_one_sentence(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()

    def leave() -> None:
        os.chdir(folder)
        folder.rmdir()

    done = run("train", "gcn", tiny, preexec_fn=leave)
    assert "The folder that this was started in is gone" in sentence(done)


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("where", ["argument", "folder", "environment"])
def test_letters_that_a_locale_does_not_know_are_one_sentence(tiny: Path, where: str) -> None:
    Path("grå").mkdir()
    env = {**ASCII, "PDNAS_DATA": "grå"} if where == "environment" else ASCII
    words = ["train", "gcn", "grå" if where == "argument" else tiny]
    done = run(*words, env=env, cwd="grå" if where == "folder" else ".")
    assert "has letters that this locale (ascii) does not know; set PYTHONUTF8=1" in sentence(done)


def test_other_locales_read_and_write_all_letters(folder: Path) -> None:
    table = folder / "nodes.csv"
    table.write_text(table.read_text().replace("class 0", "Zoë 日本").replace("n0,", "ñ0,"))
    edges = folder / "edges.csv"
    edges.write_text(edges.read_text().replace("n0,", "ñ0,").replace("n0\n", "ñ0\n"))
    data = folder.rename("grå")
    narrow = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    words = ["train", "gcn", data, *SHORT, "--run-dir", "rün"]
    for call in (words, ["predict", "rün", "-o", "o.csv"], ["export", "rün"], ["report", "rün"]):
        done = run(*call, env=narrow)
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
    assert '"ñ0"' in Path("o.csv").read_text(encoding="utf-8")
    assert "Zoë 日本" in Path("rün/network.py").read_text(encoding="utf-8")
    assert "Zoë 日本" in Path("rün/report.html").read_text(encoding="utf-8")
