"""The entry of the command line, and what happens when a command fails."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pdnas import __version__
from pdnas.cli import COMMANDS
from pdnas.progress import TrainingProgress
from pdnas.training.fit import Epoch

Pdnas = Callable[..., CompletedProcess[str]]

PROGRAM = [sys.executable, "-c", "import sys; from pdnas.cli import main; sys.exit(main())"]


def one_sentence(done: CompletedProcess[str]) -> str:
    """What a failed command said, after checking that it is one line for the user."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("pdnas: ")
    assert "Traceback" not in done.stderr
    return done.stderr.removeprefix("pdnas: ").strip()


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(pdnas: Pdnas, arguments: list[str]) -> None:
    done = pdnas(*arguments)
    assert done.returncode == 0
    assert done.stderr == ""
    assert all(name in done.stdout and about in done.stdout for name, about in COMMANDS.items())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_defaults(pdnas: Pdnas, command: str) -> None:
    done = pdnas(command, "--help")
    assert done.returncode == 0
    assert f"usage: pdnas {command}" in done.stdout
    assert "--json" in done.stdout
    assert "(default: " in done.stdout


def test_the_version_is_told(pdnas: Pdnas) -> None:
    assert pdnas("--version").stdout == f"pdnas {__version__}\n"


@pytest.mark.parametrize(("given", "meant"), [("trian", "train"), ("task", "tasks")])
def test_an_unknown_command_is_answered_with_the_closest(
    pdnas: Pdnas, given: str, meant: str
) -> None:
    sentence = one_sentence(pdnas(given))
    assert sentence.startswith(f"Unknown command '{given}'; known are: {', '.join(COMMANDS)}; ")
    assert sentence.endswith(f"did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train"], "ARCH"),
        (["train", "gcn", "citeseer", "more"], "more"),
        (["train", "gcn", "--lrr", "1"], "--lrr"),
        (["train", "gcn", "--lr"], "--lr"),
        (["train", "gcn", "--lr", "fast"], "'fast'"),
        (["train", "gcn", "--epochs", "2.5"], "'2.5'"),
        (["train", "gcn", "--seeds", "many"], "'many'"),
        (["train", "gcn", "--optimizer", "adamm"], "'adamm'"),
        (["train", "gcn", "--normalize", "yes"], "'yes'"),
        (["train", "gcn", "--no-json"], "--no-json"),
        (["resume"], "PATH"),
        (["tasks", "--jsn"], "--jsn"),
        (["space", "paper", "--blocks", "two"], "'two'"),
    ],
)
@pytest.mark.parametrize("width", ["20", "200"])
def test_a_wrong_flag_is_one_sentence(
    pdnas: Pdnas,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    named: str,
    width: str,
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    sentence = one_sentence(pdnas(*arguments))
    assert named in sentence
    assert not set("─│╭╰").intersection(sentence)
    assert "---" not in sentence
    assert sentence.endswith(f"; see pdnas {arguments[0]} --help.")


def test_a_wrong_choice_is_answered_with_the_choices(pdnas: Pdnas) -> None:
    sentence = one_sentence(pdnas("train", "gcn", "--optimizer", "adamm"))
    assert all(name in sentence for name in ("'adam'", "'adamw'", "'sgd'"))
    assert "None" not in sentence


@pytest.mark.parametrize("flag", ["--optimizer", "--lr", "--hidden", "--recipe", "--epochs"])
def test_none_is_not_a_value(pdnas: Pdnas, tiny: Path, flag: str) -> None:
    assert "None" in one_sentence(pdnas("train", "gcn", tiny, flag, "None", "--run-dir", "none"))


def test_a_stop_outside_a_run_is_told(pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pdnas.cli.train.execute", interrupt)
    done = pdnas("train", "gcn")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "pdnas: stopped.\n")


def test_a_stopped_run_can_be_resumed_to_the_same_result(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["train", "gat", tiny, "--epochs", "6", "--seeds", "3", "--json", "--quiet"]
    whole = json.loads(pdnas(*command, "--run-dir", "whole").stdout)

    def stop(self: TrainingProgress, number: int, epoch: Epoch) -> None:
        if (number, epoch.epoch) == (1, 3):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingProgress, "show", stop)
        done = pdnas(*command, "--run-dir", "stopped")
    assert done.returncode == 130
    assert done.stdout == ""
    assert done.stderr == "pdnas: stopped; go on with: pdnas resume stopped\n"
    assert not Path("stopped/result.json").exists()

    done = pdnas("resume", "stopped", "--json", "--quiet")
    assert done.returncode == 0
    resumed = json.loads(done.stdout)
    for result in (whole, resumed):
        del result["train_seconds"], result["run"], result["report"]
    assert resumed == whole
    for name in ("history.jsonl", "model.safetensors", "architecture.json"):
        assert Path("stopped", name).read_bytes() == Path("whole", name).read_bytes()


def test_ctrl_c_ends_a_real_process_with_130(place: Path) -> None:
    command = ["train", "gcn", "--epochs", "100000", "--patience", "100000", "--run-dir", "run"]
    with subprocess.Popen(
        [*PROGRAM, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background has signals of the keyboard ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        deadline = time.monotonic() + 60
        while not (place / "run" / "environment.json").exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert err == "pdnas: stopped; go on with: pdnas resume run\n"


@pytest.mark.parametrize("command", [["tasks"], ["space"], ["tasks", "--json"], ["--help"]])
def test_a_reader_that_is_gone_is_no_failure(
    pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as stream:  # noqa: PTH123
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            done = pdnas(*command)
        stream.flush()  # as at the end of a process, where a failure would be reported
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [["tasks"], ["tasks", "--json"], ["--help"]])
def test_a_disk_without_space_is_one_sentence(
    pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    with open("/dev/full", "w", encoding="utf-8") as stream:  # noqa: PTH123
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            done = pdnas(*command)
        stream.flush()
    assert done.returncode == 2
    assert done.stderr == (
        "pdnas: There is no space left to write to; free some, and go on with pdnas resume.\n"
    )


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_quota_that_is_used_up_is_the_same_sentence(
    pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def full(_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("pdnas.cli._dispatch", full)
    monkeypatch.setattr("pdnas.cli._silence", lambda: None)
    done = pdnas("tasks")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "pdnas: There is no space left to write to; free some, and go on with pdnas resume.\n"
    )


def test_a_terminal_without_unicode_gets_the_result_too(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="ascii"))
    done = pdnas("train", "gcn", tiny, "--epochs", "2", "--seeds", "2", "--run-dir", "run")
    sys.stdout.flush()
    assert (done.returncode, done.stderr) == (0, "")
    assert content.getvalue().endswith(b"run: run\nreport: run/report.html\n")


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from pdnas.cli import main; main([]); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_a_flag_that_is_almost_right_is_answered_with_the_right_one(pdnas: Pdnas) -> None:
    assert "did you mean --epochs" in one_sentence(pdnas("train", "gcn", "--epoch", "20"))


def test_a_word_for_a_number_is_answered_in_plain_words(pdnas: Pdnas) -> None:
    sentence = one_sentence(pdnas("train", "gcn", "--epochs", "twenty"))
    assert "Error parsing --epochs: 'twenty' is not INT" in sentence
