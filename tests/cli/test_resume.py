"""``pdnas resume``: runs that can be finished, and those that cannot."""

import json
import multiprocessing
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from safetensors.torch import load_file, save_file
from tests.conftest import Here

from pdnas.cli.flags import WorkerChanges
from pdnas.errors import ExecutorError
from pdnas.pipeline.searches import Searches
from pdnas.progress import SearchProgress
from pdnas.runs import JOURNAL, SETTINGS, RunDirectory, load_run
from pdnas.settings import SearchSettings, WorkerFlags
from pdnas.tuning import local
from pdnas.tuning.cells import CELLS
from pdnas.tuning.executor import Executor

Pdnas = Callable[..., CompletedProcess[str]]

SEARCH = ["--hidden", "4", "--candidates", "2", "--pool", "4", "--adapted", "1", "--adapt-epochs=1"]
TRAININGS = ["--epochs=36", "--patience=3", "--seeds=2", "--mutations=2", "--controls", "gcn"]
SMALL = [*SEARCH, *TRAININGS, "--quiet"]
"""A search and its trainings, which take about as long, of a second altogether."""

TUNE = ["--architecture=gcn", "--hidden=4", "--trial-seeds=1", "--seeds=1", "--device=cpu"]
"""The tuning of a network that there is."""

NURSERY = """
import json, os, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
from pdnas import tuning
from pdnas.cli import main, resume, search
from pdnas.pipeline import ledger, plan, searches, whole

# The search's clock is far too fast, so that it writes a checkpoint after every epoch.
fast = lambda: 1e6 * time.monotonic()
for module in (ledger, plan, searches, whole):
    module.time = SimpleNamespace(monotonic=fast, perf_counter=time.perf_counter)
searches.CHECKPOINT_SHARE, plan.TIMED = 1e9, 1
replace = Path.replace

def put_in_place(self, target):
    global files
    files += 1
    if files == order["last"]:
        os.kill(os.getpid(), signal.SIGKILL)
    Path(order["files"]).write_text(str(files))
    return replace(self, target)

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs begin without it
print("ready", flush=True)

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        os.dup2(os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(os.open(order["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        files, Path.replace = 0, put_in_place
        code = main(order["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    ended, status, moment = 0, 0, None
    while not ended:
        ended, status = os.waitpid(child, os.WNOHANG)
        if moment is None and order["signal"] and os.path.exists(order["begun"]):
            moment = time.monotonic() + order["after"]
        if not ended and moment is not None and time.monotonic() >= moment:
            os.kill(child, order["signal"])
            ended, status = os.waitpid(child, 0)
        time.sleep(0.001)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
"""A process that has imported everything, which takes seconds, and starts one for each command."""


class Nursery:
    """Runs commands in processes of their own, and sends them signals.

    Args:
        folder: For what they say.
    """

    def __init__(self, folder: Path) -> None:
        self._said = {name: str(folder / name) for name in ("out", "err", "files")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def __call__(
        self,
        *arguments: str | Path,
        sent: signal.Signals | None = None,
        begun: Path = Path(),
        after: float = 0.0,
        last: int = 0,
    ) -> CompletedProcess[str]:
        """Run a command.

        Args:
            arguments: The command.
            sent: A signal for it.
            begun: A file that is there when it has begun.
            after: When to send the signal, in seconds after that.
            last: The number of the file before whose putting in place it is killed.
        """
        given = [str(argument) for argument in arguments]
        order = {"arguments": given, "signal": sent, "begun": str(begun), "after": after}
        order["last"] = last
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**order, **self._said}) + "\n")
        self._process.stdin.flush()
        code = int(self._line())
        said = [Path(self._said[name]).read_text() for name in ("out", "err")]
        return CompletedProcess(["pdnas", *given], code, *said)

    @property
    def files(self) -> int:
        """How many files the last command put in place."""
        return int(Path(self._said["files"]).read_text())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.mktemp("nursery"))
    yield nursery
    nursery.close()


@pytest.fixture
def run(pdnas: Pdnas, tiny: Path) -> Path:
    """A finished run of two trainings."""
    command = ["train", "gcn", tiny, "--epochs", "4", "--seeds", "2", "--hidden", "5"]
    assert pdnas(*command, "--run-dir", "run", "--quiet").returncode == 0
    return Path("run")


def one_sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("pdnas: ")
    return done.stderr.removeprefix("pdnas: ").strip()


def test_a_finished_run_stays_as_it_is(pdnas: Pdnas, run: Path) -> None:
    files = [path for path in run.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    done = pdnas("resume", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("run: run\nreport: run/report.html\n")
    assert {path: path.read_bytes() for path in before} == before


def test_json_and_quiet_mean_the_same_as_in_train(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("resume", run, "--json", "--quiet")
    said = json.loads(done.stdout)
    assert (said.pop("run"), said.pop("report")) == ("run", "run/report.html")
    assert said == json.loads((run / "result.json").read_text())
    assert pdnas("resume", run, "--quiet").stdout == ""


@pytest.mark.parametrize("name", ["jknet-lstm", "sage-max"])
def test_a_run_of_a_published_network_goes_on(pdnas: Pdnas, tiny: Path, name: str) -> None:
    command = ["train", name, tiny, "--epochs", "3", "--seeds", "2", "--hidden", "5", "--quiet"]
    assert pdnas(*command, "--run-dir", "run").returncode == 0
    run = Path("run")
    before = {name: (run / name).read_bytes() for name in ("result.json", "model.safetensors")}
    for path in before:
        (run / path).unlink()
    assert pdnas("resume", run, "--quiet").returncode == 0
    assert {name: (run / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("lost", ["result.json", "model.safetensors", "architecture.json"])
def test_a_lost_file_is_written_again(pdnas: Pdnas, run: Path, lost: str) -> None:
    before = (run / lost).read_bytes()
    (run / lost).unlink()
    assert pdnas("resume", run, "--quiet").returncode == 0
    assert (run / lost).read_bytes() == before


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_another_folder_is_no_run(pdnas: Pdnas, name: str) -> None:
    sentence = one_sentence(pdnas("resume", name))
    assert sentence.startswith(f"'{name}' is not a run directory: it has no settings.json; ")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", '{"command": "train", '),
        ("settings.json", '{"command": "search"}'),
        ("settings.json", ""),
        ("settings.json", "\x00\xff"),
        ("checkpoint/trainings.json", "{"),
        ("checkpoint/trainings.json", '{"trainings": 1}'),
        ("checkpoint/model.safetensors", "PK"),
    ],
)
def test_a_damaged_run_is_one_sentence(pdnas: Pdnas, run: Path, name: str, content: str) -> None:
    (run / name).write_text(content, encoding="latin-1")
    assert name in one_sentence(pdnas("resume", run))


def change(path: Path, *keys: str | int, value: Any) -> None:
    """Put something else into a file of JSON."""
    values = json.loads(path.read_bytes())
    inner = values
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(values))


TOO_MANY = 10**400
"""What is no number of anything, and too large for a float."""


@pytest.mark.parametrize(
    ("name", "keys", "value"),
    [
        ("settings.json", ["seeds"], []),
        ("settings.json", ["seeds"], [0, 0]),
        ("settings.json", ["seeds"], [-1]),
        ("settings.json", ["hidden"], TOO_MANY),
        ("settings.json", ["recipe", "epochs"], TOO_MANY),
        ("settings.json", ["task", "task"], "a\0b"),
        ("settings.json", ["task", "task"], "a\0b/c.npz"),
        ("settings.json", ["task", "task"], "a" * 300),
        ("settings.json", ["task", "data_root"], "/a\0b"),
        ("checkpoint/trainings.json", ["history_bytes"], -1),
        ("checkpoint/trainings.json", ["trainings", 0, "epochs"], TOO_MANY),
        ("checkpoint/trainings.json", ["trainings", 0, "val"], 1e9),
        ("checkpoint/trainings.json", ["trainings", 0, "seconds"], 1e308),
    ],
)
def test_a_training_with_a_value_that_makes_no_sense_is_one_sentence(
    pdnas: Pdnas, run: Path, name: str, keys: list[str | int], value: Any
) -> None:
    (run / "result.json").unlink()
    change(run / name, *keys, value=value)
    assert name in one_sentence(pdnas("resume", run))
    if name == "settings.json":
        assert "\n" not in one_sentence(pdnas("report", run, "-o", "page.html"))


@pytest.mark.parametrize("threads", [0, -1, 10**6, TOO_MANY])
def test_threads_that_nobody_has_are_one_sentence(pdnas: Pdnas, run: Path, threads: int) -> None:
    change(run / "settings.json", "device", "threads", value=threads)
    assert "The number of threads is" in one_sentence(pdnas("resume", run))


def test_a_damaged_architecture_in_the_settings_is_one_sentence(pdnas: Pdnas, run: Path) -> None:
    settings = json.loads((run / "settings.json").read_text())
    settings["architecture"]["blocks"][0]["attention"] = "gatt"
    (run / "settings.json").write_text(json.dumps(settings))
    assert "gatt" in one_sentence(pdnas("resume", run))


def test_data_that_are_gone_are_one_sentence(pdnas: Pdnas, run: Path, tiny: Path) -> None:
    tiny.unlink()
    assert f"There is no file or folder '{tiny}'" in one_sentence(pdnas("resume", run))


def test_a_run_is_resumed_from_another_folder(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny.rename("here.npz")
    run = tmp_path / "run"
    command = ["train", "gcn", "here.npz", "--epochs", "2", "--quiet", "--run-dir"]
    assert pdnas(*command, run).returncode == 0
    monkeypatch.chdir(tmp_path)
    assert pdnas("resume", run, "--quiet").returncode == 0


@pytest.fixture
def searched(pdnas: Pdnas, tiny: Path) -> Path:
    """A finished search."""
    lean = ["--epochs=6", "--seeds=1", "--candidates=1", "--designs=off", "--quiet", "--controls"]
    assert pdnas("search", tiny, *SEARCH, *lean, "--run-dir", "searched").returncode == 0
    return Path("searched")


def timeless(value: Any) -> Any:
    """Plain values without those that say how long something took."""
    if isinstance(value, dict):
        return {key: timeless(v) for key, v in value.items() if not key.endswith("seconds")}
    return [timeless(entry) for entry in value] if isinstance(value, list) else value


def outcome(run: Path) -> dict[str, Any]:
    """All that two runs of the same search must have in common."""
    names = ("history.jsonl", "architecture.json", "model.safetensors")
    result = timeless(json.loads((run / "result.json").read_text()))
    return {"result": result, **{name: (run / name).read_bytes() for name in names}}


def test_a_finished_search_stays_as_it_is(pdnas: Pdnas, searched: Path) -> None:
    before = {path: path.read_bytes() for path in searched.rglob("*") if path.is_file()}
    done = pdnas("resume", searched)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nrun: searched\n" in done.stdout
    assert before == {path: path.read_bytes() for path in searched.rglob("*") if path.is_file()}


def test_lost_weights_of_a_search_are_written_again(pdnas: Pdnas, searched: Path) -> None:
    weights = searched / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-4])
    said = one_sentence(pdnas("export", searched))
    assert said.endswith("; have them written again with: pdnas resume searched."), said
    assert pdnas("resume", searched, "--quiet").returncode == 0
    assert weights.read_bytes() == before


def test_json_and_quiet_mean_the_same_as_in_search(pdnas: Pdnas, searched: Path) -> None:
    done = pdnas("resume", searched, "--json", "--quiet")
    said = json.loads(done.stdout)
    assert (said.pop("run"), said.pop("report")) == ("searched", "searched/report.html")
    assert said == json.loads((searched / "result.json").read_text())
    assert pdnas("resume", searched, "--quiet").stdout == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", '{"command": "search", '),
        ("settings.json", '{"command": "seek"}'),
        ("checkpoint/pipeline.json", "{"),
        ("checkpoint/pipeline.json", '{"cells": 1}'),
        ("checkpoint/final-0.safetensors", "PK"),
        ("history.jsonl", ""),
    ],
)
def test_a_damaged_search_is_one_sentence(
    pdnas: Pdnas, searched: Path, name: str, content: str
) -> None:
    assert (searched / name).exists()
    (searched / name).write_text(content)
    assert name in one_sentence(pdnas("resume", searched))


@pytest.mark.parametrize(
    ("name", "keys", "value", "said"),
    [
        ("settings.json", ["job", "hidden"], [], "--hidden has the values []"),
        ("settings.json", ["job", "blocks"], [], "--blocks has the values []"),
        ("settings.json", ["job", "blocks"], [10**9], "The number of blocks is 1000000000"),
        ("settings.json", ["job", "strategy", "epochs"], TOO_MANY, "job.strategy.epochs: "),
        ("settings.json", ["task", "task"], "a\0b", "'a b' cannot be a path"),
        ("checkpoint/pipeline.json", ["history_bytes"], -1, "history_bytes: "),
        ("checkpoint/pipeline.json", ["seconds"], -1.0, "seconds: "),
        ("checkpoint/pipeline.json", ["plan", "epochs"], TOO_MANY, "plan.epochs: "),
        ("checkpoint/pipeline.json", ["cells", 0, "seconds"], 1e308, "cells.0.seconds: "),
        ("checkpoint/pipeline.json", ["cells", 0, "candidates"], [], "cells.0.candidates: "),
        ("checkpoint/pipeline.json", ["cells", 0, "hidden"], 5, "a search of another shape"),
        ("checkpoint/pipeline.json", ["trials", 0, "hidden"], 5, "a candidate of another shape"),
        ("checkpoint/pipeline.json", ["trials", 0, "seconds"], 1e308, "trials.0.seconds: "),
        ("checkpoint/pipeline.json", ["finals", 0, "val"], -1e9, "finals.0.val: "),
        ("checkpoint/pipeline.json", ["controls"], {"mlp": []}, "controls.mlp: "),
    ],
)
def test_a_search_with_a_value_that_makes_no_sense_is_one_sentence(
    pdnas: Pdnas, searched: Path, name: str, keys: list[str | int], value: Any, said: str
) -> None:
    (searched / "result.json").unlink()
    change(searched / name, *keys, value=value)
    assert said in one_sentence(pdnas("resume", searched))
    if name == "settings.json":
        assert "\n" not in one_sentence(pdnas("report", searched, "-o", "page.html"))


def test_a_choice_of_nothing_is_one_sentence(pdnas: Pdnas, searched: Path) -> None:
    (searched / "result.json").unlink()
    change(searched / "checkpoint/pipeline.json", "trials", value=[])
    change(searched / SETTINGS, "job", "budget_seconds", value=1e-9)
    assert "but nothing to choose of" in one_sentence(pdnas("resume", searched))


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.int64])
def test_weights_of_another_type_are_one_sentence(
    pdnas: Pdnas, run: Path, tiny: Path, kind: torch.dtype
) -> None:
    for name in ("model.safetensors", "checkpoint/model.safetensors"):
        weights = load_file(run / name)
        save_file({key: weight.to(kind) for key, weight in weights.items()}, run / name)
    for words in (["predict", run, tiny, "-o", "all.csv"], ["export", run]):
        said = one_sentence(pdnas(*words))
        assert "The weights do not fit the architecture" in said
        assert f"is of {kind}, not of torch.float32); train again." in said
    (run / "result.json").unlink()
    assert "The weights do not fit the architecture" in one_sentence(pdnas("resume", run))


def test_weights_of_another_shape_where_the_budget_is_spent_are_one_sentence(
    pdnas: Pdnas, searched: Path
) -> None:
    (searched / "result.json").unlink()
    path = searched / "checkpoint/pipeline.json"
    place = searched / "checkpoint" / json.loads(path.read_bytes())["weights"]
    save_file({key: weight[:1] for key, weight in load_file(place).items()}, place)
    change(path, "finals", value=[])
    change(searched / SETTINGS, "job", "budget_seconds", value=1e-9)
    assert "The weights do not fit the architecture" in one_sentence(pdnas("resume", searched))


def test_a_control_that_was_not_asked_for_is_one_sentence(pdnas: Pdnas, searched: Path) -> None:
    (searched / "result.json").unlink()
    path = searched / "checkpoint/pipeline.json"
    done = json.loads(path.read_bytes())["finals"]
    change(path, "controls", value={"mlp": done})
    assert "it tells of another control than its settings" in one_sentence(
        pdnas("resume", searched)
    )


def test_a_search_is_resumed_from_another_folder(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    run = tmp_path / "run"
    tiny.rename("here.npz")
    with monkeypatch.context() as patch:
        patch.setattr(SearchProgress, "trained", stop)
        assert pdnas("search", "here.npz", *SMALL, "--run-dir", run).returncode == 130
    monkeypatch.chdir(tmp_path)
    assert pdnas("resume", run, "--quiet").returncode == 0
    assert load_run(run).task == "here.npz"


@pytest.mark.slow
def test_a_search_killed_at_random_moments_comes_to_the_same_end(
    nursery: Nursery, pdnas: Pdnas, tiny: Path, tmp_path: Path
) -> None:
    """The moments are spread over the whole job; a resumed one may be killed again."""
    began, flags, count = time.monotonic(), [*SMALL, "--tune=2"], 20
    assert nursery("search", tiny, *flags, "--run-dir", tmp_path / "whole").returncode == 0
    took, expected = time.monotonic() - began, outcome(tmp_path / "whole")
    chance = random.Random(0)
    for number in range(count):
        moment, code, tries = (number + chance.random()) / count * took, 0, 0
        while code == 0:  # it was faster than the first one: not killed yet
            tries += 1
            run = tmp_path / f"killed{number}-{tries}"
            begun, moment = run / "settings.json", moment * 0.8 if tries > 1 else moment
            command: list[str | Path] = ["search", tiny, *flags, "--run-dir", run]
            code = nursery(*command, sent=signal.SIGKILL, begun=begun, after=moment).returncode
        assert code == -signal.SIGKILL
        later = chance.uniform(0, 1.5 * took)
        again = nursery("resume", run, "--quiet", sent=signal.SIGKILL, begun=begun, after=later)
        assert again.returncode in (0, -signal.SIGKILL), again.stderr
        done = pdnas("resume", run, "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        assert outcome(run) == expected, f"killed after {moment:.3f} s"


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_a_search_killed_at_random_files_comes_to_the_same_end(
    nursery: Nursery, pdnas: Pdnas, tiny: Path, tmp_path: Path, count: int
) -> None:
    """Killed just before files are put in place, which are spread over the whole job."""
    flags = [*SMALL, "--tune=2"] if count > 4 else SMALL
    assert nursery("search", tiny, *flags, "--run-dir", tmp_path / "whole").returncode == 0
    files, expected, phases = nursery.files, outcome(tmp_path / "whole"), set()
    chance = random.Random(0)
    for number in range(count):
        run = tmp_path / f"killed{number}"
        last = 2 + int((number + chance.random()) / count * (files - 1))
        killed = nursery("search", tiny, *flags, "--run-dir", run, last=last)
        assert killed.returncode == -signal.SIGKILL
        phases.add(phase(run))
        done = pdnas("resume", run, "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        assert outcome(run) == expected, f"killed before file {last} of {files}"
    if count > 4:  # the trainings write a sixth of the files
        assert {"search", "trainings"} <= phases


def phase(run: Path) -> str:
    """What a killed process was at: the beginning, the search after a checkpoint, trainings."""
    progress = run / "checkpoint" / "pipeline.json"
    if progress.exists() and json.loads(progress.read_text())["cells"]:
        return "trainings"
    return "search" if (run / "checkpoint" / "search.safetensors").exists() else "beginning"


def test_ctrl_c_ends_a_search_with_130_and_a_result(
    nursery: Nursery, tiny: Path, tmp_path: Path
) -> None:
    run, long = tmp_path / "run", ["--epochs", "100000", "--quiet"]
    done = nursery(
        "search",
        tiny,
        *SEARCH,
        *long,
        "--run-dir",
        run,
        sent=signal.SIGINT,
        begun=run / "history.jsonl",
        after=0.2,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith(f"pdnas: stopped; go on with: pdnas resume {run}. The best ")
    assert done.stderr.count("\n") == 1
    result = load_run(run)
    assert result.search is not None
    assert result.search.stopped == "interrupt"
    assert 0 < result.search.epochs < 100000


def test_a_table_is_not_resumed(pdnas: Pdnas) -> None:
    Path("table").mkdir()
    Path("table/settings.json").write_text('{"command": "reproduce", "table": "x", "quick": true}')
    assert one_sentence(pdnas("resume", "table")) == (
        "'table' holds a table of the paper; go on with the command that it is of: "
        "pdnas reproduce TABLE --output table."
    )


def test_a_comparison_is_not_resumed(pdnas: Pdnas) -> None:
    Path("mine").mkdir()
    Path("mine/settings.json").write_text('{"command": "compare"}')
    assert one_sentence(pdnas("resume", "mine")) == (
        "'mine' holds a comparison; go on with the command that it is of: pdnas compare TASK "
        "--output mine."
    )


@pytest.fixture
def tuned(pdnas: Pdnas, tiny: Path) -> Path:
    """A finished tuning, of no trials: nothing but the final training."""
    command = ["tune", tiny, *TUNE, "--epochs=3", "--trials=0", "--run-dir", "tuned", "--quiet"]
    assert pdnas(*command).returncode == 0
    return Path("tuned")


def test_a_finished_tuning_comes_to_the_same_result(pdnas: Pdnas, tuned: Path) -> None:
    before, history = outcome(tuned), (tuned / "history.jsonl").read_bytes()
    done = pdnas("resume", tuned)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nrun: tuned\n" in done.stdout
    assert (outcome(tuned), (tuned / "history.jsonl").read_bytes()) == (before, history)


def test_lost_weights_of_a_tuning_are_written_again(pdnas: Pdnas, tuned: Path) -> None:
    weights = tuned / "model.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    assert pdnas("resume", tuned, "--quiet").returncode == 0
    assert weights.read_bytes() == before


def test_a_finished_tuning_still_says_how_long_it_took(pdnas: Pdnas, tuned: Path) -> None:
    before = json.loads((tuned / "result.json").read_text())
    assert pdnas("resume", tuned, "--quiet").returncode == 0
    assert json.loads((tuned / "result.json").read_text()) == before


def test_json_and_quiet_mean_the_same_as_in_tune(pdnas: Pdnas, tuned: Path) -> None:
    done = pdnas("resume", tuned, "--json", "--quiet")
    said = json.loads(done.stdout)
    assert (said.pop("run"), said.pop("report")) == ("tuned", "tuned/report.html")
    assert said == json.loads((tuned / "result.json").read_text())
    assert pdnas("resume", tuned, "--quiet").stdout == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", '{"command": "tune"}'),
        ("checkpoint/final.json", "{"),
        ("checkpoint/trainings.json", "{"),
    ],
)
def test_a_damaged_tuning_is_one_sentence(
    pdnas: Pdnas, tuned: Path, name: str, content: str
) -> None:
    assert (tuned / name).exists()
    (tuned / name).write_text(content)
    assert name in one_sentence(pdnas("resume", tuned))


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (["tuning", "search", "hidden"], [], "--hidden has the values []"),
        (["tuning", "search", "seeds"], 0, "--seeds is 0"),
        (["tuning", "search", "seeds"], TOO_MANY, "--seeds is 1"),
        (["tuning", "trials"], -1, "--trials is -1"),
        (["tuning", "trial_seeds"], 0, "--trial-seeds is 0"),
        (["tuning", "fields"], ["lr", "lr"], "name each of them once"),
        (["task", "task"], "a\0b", "'a b' cannot be a path"),
        (
            ["storage"],
            {"url": "postgresql://a/b", "study": "a\0", "driver": "a", "grace": 60},
            "storage.study: ",
        ),
        (
            ["storage"],
            {"url": "postgresql://a/b", "study": "a", "driver": "a", "grace": 0},
            "storage.grace: ",
        ),
    ],
)
def test_a_tuning_with_a_value_that_makes_no_sense_is_one_sentence(
    pdnas: Pdnas, tuned: Path, keys: list[str | int], value: Any, said: str
) -> None:
    change(tuned / "settings.json", *keys, value=value)
    assert said in one_sentence(pdnas("resume", tuned))


def trials(run: Path) -> dict[str, dict[int, float | None]]:
    """The numbers and the validations of the recipes that a tuning tried, by what became of them.

    Only what the journal holds is read: nothing is added to it.
    """
    found: dict[str, dict[int, float | None]] = {}
    if (run / JOURNAL).exists():
        storage = JournalStorage(JournalFileBackend(str(run / JOURNAL)))
        if "recipe" in optuna.get_all_study_names(storage):
            for trial in optuna.load_study(study_name="recipe", storage=storage).trials:
                found.setdefault(trial.state.name, {})[trial.number] = trial.value
    return found


def test_a_killed_tuning_repeats_nothing_and_comes_to_a_result(
    nursery: Nursery, pdnas: Pdnas, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed in its third trial, and gone on with by the same command and by resume."""
    run, now = tmp_path / "run", tmp_path / "now"
    same = [f"--data-root={tmp_path}", "--epochs=150", "--patience=150"]
    flags = [*TUNE, *same, "--trials=5", "--quiet", "--run-dir"]

    def watch() -> None:
        until = time.monotonic() + 60
        while len(trials(run).get("COMPLETE", {})) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        now.touch()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    killed = nursery("tune", tiny, *flags, run, sent=signal.SIGKILL, begun=now, after=0.05)
    watcher.join()
    assert killed.returncode == -signal.SIGKILL
    before = trials(run)
    begun = {*before.get("RUNNING", {}), *before.get("WAITING", {})}
    assert 2 <= len(before["COMPLETE"]) < 5
    assert len(begun) <= 1
    assert not (run / "result.json").exists()
    shutil.copytree(run, tmp_path / "copy")

    server = multiprocessing.get_context("forkserver")  # processes take seconds to start otherwise
    server.set_forkserver_preload(["pdnas.tuning.local"])
    here = SimpleNamespace(
        get_context=lambda _: server, parent_process=multiprocessing.parent_process
    )
    monkeypatch.setattr(local, "multiprocessing", here)
    commands: dict[str, list[str | Path]] = {
        "run": ["resume", "--quiet"],
        "copy": ["tune", tiny, *flags],
    }
    for name, command in commands.items():
        place = tmp_path / name
        done = pdnas(*command, place)
        assert (done.returncode, done.stderr) == (0, "")
        after = trials(place)
        ended = {**after["COMPLETE"], **after.get("PRUNED", {})}
        assert before["COMPLETE"].items() <= after["COMPLETE"].items()
        assert len(ended) == 5 + 4, "five trials and the best four again, none of them twice"
        assert after.keys() <= {"COMPLETE", "PRUNED", "FAIL"}
        assert set(after.get("FAIL", {})) == begun
        assert sorted([*ended, *after.get("FAIL", {})]) == list(
            range(sum(map(len, after.values())))
        )
    assert outcome(tmp_path / "copy") == outcome(run)


def test_ctrl_c_ends_a_tuning_with_130(nursery: Nursery, tiny: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command: list[str | Path] = ["tune", tiny, *TUNE, "--trials=99", "--quiet", "--run-dir", run]
    done = nursery(*command, sent=signal.SIGINT, begun=run / JOURNAL, after=0.5)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == f"pdnas: stopped; go on with: pdnas resume {run}\n"


RAY = WorkerFlags(executor="ray", ray_address="a:1", workers=8, gpus_per_trial=0.5)
GRID = [*SEARCH, "--epochs=4", "--seeds=1", "--designs=off", "--blocks=1", "2", "--device=cpu"]
"""Two searches of a moment."""


@pytest.mark.parametrize(
    ("before", "given", "now"),
    [
        (RAY, {}, RAY),
        (RAY, {"ray_address": "b:2"}, replace(RAY, ray_address="b:2")),
        (RAY, {"trial_timeout": 9.0}, replace(RAY, trial_timeout=9.0)),
        (RAY, {"executor": "local"}, WorkerFlags(workers=8)),
        (replace(RAY, workers=None), {"executor": "local"}, WorkerFlags(workers=1)),
        (RAY, {"executor": "local", "workers": 2}, WorkerFlags(workers=2)),
        (WorkerFlags(), {"workers": 2}, WorkerFlags(workers=2)),
        (
            WorkerFlags(workers=2),
            {"executor": "ray", "ray_address": "a:1", "workers": 8, "gpus_per_trial": 0.5},
            RAY,
        ),
    ],
)
def test_flags_change_who_does_trials(
    before: WorkerFlags, given: dict[str, Any], now: WorkerFlags
) -> None:
    assert WorkerChanges(**given).of(before) == now


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[WorkerFlags]:
    """Who was to do trials, each time; on Ray there is nobody, but for the address here:1."""
    asked: list[WorkerFlags] = []

    def open_executor(tasks: Any, who: WorkerFlags, **_: object) -> Executor:
        asked.append(who)
        if who.executor == "ray" and who.ray_address != "here:1":
            raise ExecutorError("No Ray cluster answers; give the --ray-address of one.")
        return Here(tasks)

    for name in ("cells", "tune"):  # the package has a function of that name, too
        monkeypatch.setattr(sys.modules[f"pdnas.tuning.{name}"], "open_executor", open_executor)
    return asked


def test_a_grid_goes_on_elsewhere(pdnas: Pdnas, tiny: Path, opened: list[WorkerFlags]) -> None:
    elsewhere = ["--executor", "ray", "--ray-address", "gone:1", "--controls", "--run-dir", "run"]
    said = (
        "No Ray cluster answers; give the --ray-address of one. The run goes on with: pdnas resume "
        "run, and another --ray-address or --executor if need be."
    )
    assert one_sentence(pdnas("search", tiny, *GRID, "--quiet", *elsewhere)) == said
    assert one_sentence(pdnas("resume", "run")) == said
    done = pdnas("resume", "run", "--ray-address", "here:1", "--trial-timeout", "60", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    now = WorkerFlags(executor="ray", ray_address="here:1", trial_timeout=60.0)
    assert [who.ray_address for who in opened] == ["gone:1", "gone:1", "here:1"]
    assert opened[-1] == now
    assert RunDirectory(Path("run")).read_record(SETTINGS, SearchSettings).workers == now
    assert load_run("run").search is not None


def test_what_this_process_has_searched_is_not_searched_again_by_others(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch, opened: list[WorkerFlags]
) -> None:
    flags = [*GRID, "--quiet", "--controls", "--run-dir"]
    assert pdnas("search", tiny, *flags, "whole").returncode == 0
    searched, numbers = Searches.search, list[int]()

    def stop(self: Searches, number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt
        searched(self, number)

    def count(self: Searches, number: int) -> None:
        numbers.append(number)
        searched(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(Searches, "search", stop)
        assert pdnas("search", tiny, *flags, "run").returncode == 130
    monkeypatch.setattr(Searches, "search", count)
    done = pdnas("resume", "run", "--workers", "2", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert opened == [WorkerFlags(workers=2)]
    assert len(numbers) == 1
    assert [path.name for path in Path("run", CELLS).iterdir()] == ["blocks-2-hidden-4"]
    results = [load_run(run) for run in ("whole", "run")]
    assert results[0].architecture == results[1].architecture
    assert results[0].val == results[1].val
    histories = [Path(run, "history.jsonl").read_text().splitlines() for run in ("whole", "run")]
    places = [[json.loads(line).get("cell") for line in lines] for lines in histories]
    assert places[0] == places[1]


def test_a_tuning_goes_on_elsewhere(pdnas: Pdnas, tiny: Path, opened: list[WorkerFlags]) -> None:
    flags = [*TUNE, "--epochs=3", "--trials=1", "--quiet", "--run-dir", "run"]
    ray = ["--executor", "ray", "--ray-address", "gone:1"]
    said = one_sentence(pdnas("tune", tiny, *flags, *ray))
    assert "The run goes on with: pdnas resume run, and another --ray-address" in said
    assert pdnas("resume", "run", "--executor", "local", "--quiet").returncode == 0
    assert opened[-1] == WorkerFlags(workers=1)


@pytest.mark.parametrize(
    ("begin", "flags", "said"),
    [
        (["train", "gcn"], ["--workers", "2"], "'run' holds trainings, which are done one after"),
        (
            ["search"],
            ["--workers", "2"],
            "--workers, --executor, --trial-timeout and the like are for the searches of a grid, "
            "but this is one search; leave them out.",
        ),
        (["search"], ["--ray-address", "a:1"], "--ray-address is for trials on Ray; leave it out"),
        (
            ["search", "--blocks=1", "2", "--budget-seconds=60"],
            ["--executor", "ray"],
            "--budget-seconds is for searches of this process, one after the other; leave out --w",
        ),
        (["tune", *TUNE], ["--gpus-per-trial", "0.5"], "--gpus-per-trial is for trials on Ray; l"),
        (["tune", *TUNE], ["--executor=ray", "--gpus-per-trial=1"], "--device is cpu, but --gpus"),
        (["tune", *TUNE], ["--workers", "0"], "The number of workers is 0; give 1 to"),
    ],
)
def test_flags_that_change_nothing_or_make_no_sense_are_refused(
    pdnas: Pdnas,
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    begin: list[str],
    flags: list[str],
    said: str,
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        for place in ("cli.search.search", "cli.train.train", "cli.tune.tune"):
            patch.setattr(f"pdnas.{place}", stop)
        words = [begin[0], tiny, *begin[1:]] if begin[0] != "train" else [*begin, tiny]
        assert pdnas(*words, "--quiet", "--run-dir", "run").returncode == 130
    before = Path("run", SETTINGS).read_bytes()
    assert one_sentence(pdnas("resume", "run", *flags)).startswith(said)
    assert Path("run", SETTINGS).read_bytes() == before
