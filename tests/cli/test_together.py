"""Several processes that share one command, as torchrun starts them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli.conftest import PROMISED
from tests.training.test_parallel import WORLD, environment, free_port

from pdnas.cli import COMMANDS, TOGETHER, _check_together, main
from pdnas.errors import PdnasError
from pdnas.runs import LOCK, PIPELINE, RESULT, SEARCH_STATE, SETTINGS, load_run

Pdnas = Callable[..., CompletedProcess[str]]

PLAIN = ("--dropout", "0", "--input-dropout", "0", "--attention-dropout", "0", "--device", "cpu")
"""Nothing random but the order of graphs."""

LIMIT = 100
"""Seconds after which processes hang."""


@pytest.fixture
def herd(tmp_path: Path) -> Path:
    """A data root with seven, one and two rings of several labels, in the files of PPI."""
    random = np.random.default_rng(0)
    (tmp_path / "data" / "PPI").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "data" / "PPI" / "ppi.zip", "w") as archive:
        for part, sizes in (("train", range(5, 12)), ("valid", (9,)), ("test", (6, 8))):
            links, first = [], 0
            for size in sizes:
                places = first + np.arange(size + 1) % size
                links += [
                    {"source": int(places[n]), "target": int(places[n + 1])} for n in range(size)
                ]
                first += size
            nodes = [{"id": node} for node in range(first)]
            graph = {"directed": False, "multigraph": False, "graph": {}}
            text = json.dumps({**graph, "nodes": nodes, "links": links})
            archive.writestr(f"{part}_graph.json", text)
            labels = random.integers(0, 2, (first, 2))
            arrays = {
                "feats": np.concatenate([labels, random.random((first, 2))], axis=1),
                "labels": labels,
                "graph_id": np.repeat(np.arange(1, len(sizes) + 1), list(sizes)),
            }
            for name, array in arrays.items():
                with archive.open(f"{part}_{name}.npy", "w") as file:
                    np.lib.format.write_array(file, array)
    return tmp_path / "data"


def start(*arguments: str | Path) -> list[Popen[str]]:
    """The processes of a command, as torchrun would start them but without its watch over them."""
    port = free_port()
    command = [sys.executable, "-m", "pdnas", *map(str, arguments)]
    return [
        Popen(
            command,
            env={**os.environ, **environment(rank, port), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD)
    ]


def ended(processes: list[Popen[str]]) -> list[CompletedProcess[str]]:
    """What became of them."""
    try:
        said = [process.communicate(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return [
        CompletedProcess(process.args, process.returncode, *streams)
        for process, streams in zip(processes, said, strict=True)
    ]


def together(*arguments: str | Path) -> list[CompletedProcess[str]]:
    return ended(start(*arguments))


def history(run: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(run) / "history.jsonl").read_text().splitlines()]


def test_torchrun_trains_as_one_process_does(pdnas: Pdnas, herd: Path) -> None:
    arguments = ["train", "gat", "ppi", "--data-root", str(herd), "--epochs", "5", *PLAIN]
    arguments += ["--batch-graphs", "4", "--seeds", "2"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(WORLD)]
    torchrun += ["--master-port", str(free_port()), "-m", "pdnas"]
    done = subprocess.run(
        [*torchrun, *arguments, "--run-dir", "two"], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run: two") == 1
    assert done.stdout.count("gat on ppi") == 1
    assert "pdnas:" not in done.stderr
    assert pdnas(*arguments, "--run-dir", "one").returncode == 0
    two, one = load_run("two"), load_run("one")
    assert json.loads(Path("two", RESULT).read_text()).keys() >= PROMISED
    assert two.val.values == pytest.approx(one.val.values)
    assert two.epochs == one.epochs
    weights = one.model.state_dict()
    for name, weight in two.model.state_dict().items():
        torch.testing.assert_close(weight, weights[name], atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(history("one"), history("two"), strict=True):
        assert theirs == pytest.approx(ours, abs=2e-5)
    files = {path.name for path in Path("two").rglob("*") if path.is_file()} - {LOCK}
    assert files == {path.name for path in Path("one").rglob("*") if path.is_file()} - {LOCK}


@pytest.mark.slow
def test_a_search_that_was_killed_goes_on(pdnas: Pdnas, herd: Path) -> None:
    arguments = ["search", "ppi", "--data-root", str(herd), "--epochs", "120", *PLAIN]
    arguments += ["--batch-graphs", "4", "--patience", "2", "--seeds", "1", "--candidates", "2"]
    arguments += ["--space", "paper"]  # without batch norms, which are over what a process sees
    arguments += ["--adapted", "2", "--adapt-epochs", "1", "--pool", "4", "--controls", "gcn"]
    processes = start(*arguments, "--run-dir", "two")
    deadline = time.monotonic() + LIMIT
    while not Path("two", SEARCH_STATE).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in processes:
        process.kill()
    ended(processes)
    assert Path("two", SEARCH_STATE).exists()
    assert Path("two", PIPELINE).exists()
    assert not Path("two", RESULT).exists(), "it was killed too late"
    first, second = together("resume", "two", "--json")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert second.stdout == second.stderr == ""
    assert json.loads(first.stdout)["run"] == "two"
    assert pdnas(*arguments, "--run-dir", "one", "--quiet").returncode == 0
    ours, theirs = (
        [line for line in history(run) if line["phase"] == "search"] for run in ("one", "two")
    )
    assert [line["epoch"] for line in theirs] == list(range(120))
    assert [line["path"] for line in theirs] == [line["path"] for line in ours]
    for mine, other in zip(ours, theirs, strict=True):
        assert other["train_loss"] == pytest.approx(mine["train_loss"], abs=1e-3)
    assert load_run("two").architecture == load_run("one").architecture
    assert load_run("two").search is not None


def test_ctrl_c_ends_all_and_keeps_the_best(herd: Path) -> None:
    arguments = ["search", "ppi", "--data-root", str(herd), "--epochs", "5000", *PLAIN, "--quiet"]
    processes = start(*arguments, "--run-dir", "two")
    deadline = time.monotonic() + LIMIT
    while not Path("two", "history.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in processes:
        process.send_signal(signal.SIGINT)
    first, second = ended(processes)
    assert (first.returncode, second.returncode) == (130, 130), first.stderr + second.stderr
    assert re.fullmatch(
        r"pdnas: stopped; go on with: pdnas resume two\. The best network so far .*\n", first.stderr
    )
    assert second.stderr == ""
    report = load_run("two").search
    assert report is not None
    assert report.stopped == "interrupt"


def test_a_process_that_is_killed_takes_the_others_with_it(herd: Path) -> None:
    arguments = ["train", "gat", "ppi", "--data-root", str(herd), "--epochs", "1000000"]
    arguments += ["--patience", "1000000", "--device", "cpu", "--run-dir", "two"]
    first, second = start(*arguments)
    deadline = time.monotonic() + LIMIT
    while not Path("two", SETTINGS).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(1)
    second.kill()
    second.wait()
    killed = time.monotonic()
    first.wait(LIMIT)
    assert time.monotonic() - killed < 10
    one, two = ended([first, second])
    assert (one.returncode, two.returncode) == (2, -signal.SIGKILL)
    assert one.stderr.startswith("pdnas: Another of the processes that were started together")
    assert one.stderr.count("\n") == 1


def test_a_whole_graph_cannot_be_shared_and_one_process_says_so(tiny: Path) -> None:
    first, second = together("train", "gcn", tiny, "--device", "cpu", "--run-dir", "two")
    assert (first.returncode, second.returncode) == (2, 2)
    assert first.stderr.startswith("pdnas: 2 processes were started, but every step sees")
    assert first.stderr.count("\n") == 1
    assert second.stderr == first.stdout == second.stdout == ""
    assert not Path("two").exists()


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - set(TOGETHER)))
def test_other_commands_are_refused(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(0, 29500).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PdnasError, match=f"^pdnas {command} was started by torchrun") as refusal:
        _check_together(command)
    assert ("--workers" in str(refusal.value)) == (command in ("tune", "compare", "reproduce"))
    for shared in TOGETHER:
        _check_together(shared)
    monkeypatch.setenv("WORLD_SIZE", "1")
    _check_together(command)


def test_a_refusal_is_said_once() -> None:
    first, second = together("tune", "citeseer")
    assert (first.returncode, second.returncode) == (2, 2)
    assert re.fullmatch(
        r"pdnas: pdnas tune was started by torchrun, .* --workers.*\n", first.stderr
    )
    assert second.stderr == ""


def test_a_wrong_environment_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    assert main(["train", "gcn"]) == 2
    assert capsys.readouterr().err.startswith("pdnas: WORLD_SIZE is 'many'")
