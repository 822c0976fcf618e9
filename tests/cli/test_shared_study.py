"""``pdnas tune --storage``: drivers in processes of their own that share a study, and what dies."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from uuid import uuid4

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import FrozenTrial, TrialState
from tests.conftest import Here, Server, until

from pdnas.cli.trials import TuningProgress
from pdnas.runs import JOURNAL, SETTINGS, load_run
from pdnas.tuning import postgresql
from pdnas.tuning.entries import INTERRUPTED

pytestmark = pytest.mark.postgresql

Pdnas = Callable[..., CompletedProcess[str]]

LEAN = ["--architecture=gcn", "--seeds=1", "--trial-seeds=1", "--device=cpu", "--quiet"]

NURSERY = """
import json, multiprocessing, os, signal, sys
from multiprocessing import forkserver
from types import SimpleNamespace
from pdnas.cli import main, resume, tune
from pdnas.tuning import local, postgresql

server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(["pdnas.tuning.local"])
local.multiprocessing = SimpleNamespace(
    get_context=lambda _: server, parent_process=multiprocessing.parent_process
)
server.Process(target=int).start()
forkserver._forkserver.ensure_running = lambda: None  # it is the drivers', but no child of theirs
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    os.chdir(order["place"])
    code = main(order["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    with open(order["code"], "w") as file:
        file.write(str(code))
    os._exit(code)
"""
"""A process that has imported everything, which takes seconds, and starts one for each driver."""


class Driver:
    """A ``pdnas`` in a process of its own.

    Args:
        pid: Of the process.
        folder: For what it says, and its exit code.
    """

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self._folder = pid, folder

    @property
    def said(self) -> str:
        return (self._folder / "said").read_text()

    @property
    def is_there(self) -> bool:
        return Path(f"/proc/{self.pid}").exists()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: not self.is_there)

    def end(self) -> int:
        """Its exit code, when it has ended."""
        until(lambda: not self.is_there)
        assert (self._folder / "code").exists(), self.said
        return int((self._folder / "code").read_text())


Begin = Callable[..., Driver]


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.fixture
def begin(nursery: subprocess.Popen[str], tmp_path: Path, place: Path) -> Iterator[Begin]:
    """Begins a driver; what is left of them at the end of a test is killed."""
    drivers: list[Driver] = []

    def run(*arguments: str | Path) -> Driver:
        folder = tmp_path / f"driver-{len(drivers)}"
        folder.mkdir()
        given = [str(argument) for argument in arguments]
        order = {"arguments": given, "said": f"{folder}/said", "code": f"{folder}/code"}
        order["place"] = str(place)
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        nursery.stdin.write(json.dumps(order) + "\n")
        nursery.stdin.flush()
        drivers.append(Driver(int(nursery.stdout.readline()), folder))
        return drivers[-1]

    yield run
    for driver in drivers:
        if driver.is_there:
            driver.kill()


class Entries(BaseJournalBackend):
    """A study as the server has it, to be looked at from outside."""

    def __init__(self, server: Server, study: str) -> None:
        self._server, self._study = server, study

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        rows = self._server.do(
            "select entry from pdnas_entries join pdnas_studies on study = id "
            "where name = %s and place >= %s order by place",
            self._study,
            log_number_from,
        )
        return [json.loads(entry) for (entry,) in rows]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise NotImplementedError


class Shared:
    """A study in a database.

    Args:
        server: Where.
    """

    def __init__(self, server: Server) -> None:
        self.server, self.name = server, f"study-{uuid4().hex[:8]}"
        self.flags = ["--storage", server.url(), "--study", self.name]

    def trials(self, kind: str = "recipe") -> list[FrozenTrial]:
        """The trials; those that died with their driver are left out."""
        if self.server.do("select to_regclass('pdnas_studies')") == [(None,)]:
            return []
        storage = JournalStorage(Entries(self.server, self.name))
        if kind not in [study.study_name for study in storage.get_all_studies()]:
            return []
        study = optuna.load_study(study_name=kind, storage=storage)
        lost = study.user_attrs.get(INTERRUPTED, [])
        return [trial for trial in study.get_trials(False) if trial.number not in lost]

    def states(self, kind: str = "recipe") -> list[str]:
        return [trial.state.name for trial in self.trials(kind)]

    def drivers(self) -> set[str]:
        return {
            trial.user_attrs["driver"] for kind in ("grid", "recipe") for trial in self.trials(kind)
        }


@pytest.fixture
def shared(server: Server) -> Shared:
    return Shared(server)


def choice(run: str) -> tuple[Any, ...]:
    """What a run came to, whatever it cost."""
    result = load_run(run)
    return result.architecture, result.hidden, result.recipe, result.val, result.test


def recipes_tried(shared: Shared) -> list[tuple[Any, bool]]:
    """The recipes of all trials, and whether each is of the second round."""
    return [(trial.user_attrs["recipe"], "round" in trial.user_attrs) for trial in shared.trials()]


def test_two_drivers_do_each_trial_once_and_come_to_the_same(
    begin: Begin, shared: Shared, tiny: Path
) -> None:
    lean = [*LEAN, "--hidden", "2", "4", "8", "--epochs=60", "--trials=5", *shared.flags]
    both = [begin("tune", tiny, *lean, "--run-dir", name) for name in ("one", "two")]
    assert [driver.end() for driver in both] == [0, 0], [driver.said for driver in both]
    assert [driver.said for driver in both] == ["", ""]
    assert shared.states("grid") == ["COMPLETE"] * 3
    assert sorted(trial.params["hidden"] for trial in shared.trials("grid")) == [2, 4, 8]
    tried = recipes_tried(shared)
    assert len(tried) == 5 + 4
    assert all(trial not in tried[:place] for place, trial in enumerate(tried))
    assert set(shared.states()) <= {"COMPLETE", "PRUNED"}
    assert len(shared.drivers()) == 2, "both had a part in it"
    assert choice("one") == choice("two")
    assert not Path("one", JOURNAL).exists()
    for path in (path for name in ("one", "two") for path in Path(name).rglob("*")):
        assert not path.is_file() or shared.server.password.encode() not in path.read_bytes()


def test_what_a_killed_driver_had_under_way_is_done_by_another(
    begin: Begin, shared: Shared, tiny: Path, monkeypatch: pytest.MonkeyPatch, pdnas: Pdnas
) -> None:
    """And the one that was killed goes on in its own run, where nothing is left to be done."""
    long = ["--hidden=4", "--epochs=300", "--patience=300", "--trials=2", "--grace=2"]
    command = ["tune", tiny, *LEAN, *long, *shared.flags]
    dead = begin(*command, "--run-dir", "dead")
    until(lambda: shared.states() == ["RUNNING"])
    dead.kill()
    assert shared.states() == ["RUNNING"]
    other = begin(*command, "--run-dir", "other")
    assert other.end() == 0, other.said
    done = shared.trials()
    assert [trial.state for trial in done] == [TrialState.COMPLETE] * 4
    assert shared.drivers() == {
        json.loads(Path("other", SETTINGS).read_text())["storage"]["driver"]
    }
    tried = recipes_tried(shared)
    assert all(trial not in tried[:place] for place, trial in enumerate(tried))
    monkeypatch.setenv("PGPASSWORD", shared.server.password)
    assert pdnas("resume", "dead", "--quiet").returncode == 0
    assert shared.trials() == done
    assert choice("dead") == choice("other")


def test_a_study_survives_that_the_server_is_away(
    begin: Begin, shared: Shared, tiny: Path, server: Server
) -> None:
    lean = ["--hidden=4", "--epochs=150", "--patience=150", "--trials=4", "--workers=2"]
    flags = [flag for flag in LEAN if flag != "--quiet"]
    driver = begin("tune", tiny, *flags, *lean, *shared.flags, "--run-dir", "run")
    until(lambda: "COMPLETE" in shared.states())
    server.stop()
    try:
        until(lambda: " is away " in driver.said)
    finally:
        server.start()
    assert driver.end() == 0, driver.said
    assert (
        len(re.findall(r" is away \(.*\); it is waited for, 5 minutes at most\.", driver.said)) == 1
    )
    assert len(re.findall(r" is back after \d+ seconds\.", driver.said)) == 1
    tried = recipes_tried(shared)
    assert len(tried) == 8
    assert all(trial not in tried[:place] for place, trial in enumerate(tried))
    assert set(shared.states()) <= {"COMPLETE", "PRUNED"}
    assert load_run("run").test.values


def test_a_server_that_stays_away_ends_the_run_which_goes_on_later(
    shared: Shared, tiny: Path, server: Server, pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch
) -> None:
    lean = ["--hidden=4", "--epochs=2", "--trials=2", "--run-dir", "run"]
    command = ["tune", tiny, *LEAN, *lean, *shared.flags]
    changed, calls = TuningProgress.changed, 0

    def stop(self: TuningProgress, study: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # one trial is done, and the next one under way
            server.stop()
        changed(self, study)

    monkeypatch.setattr("pdnas.tuning.place.LocalExecutor", Here)
    with monkeypatch.context() as patch:
        patch.setattr(TuningProgress, "changed", stop)
        patch.setattr(postgresql, "PATIENCE", 1.0)
        done = pdnas(*command)
    server.start()
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"pdnas: The database .* has been away for 1 seconds \(.*\n", done.stderr)
    assert done.stderr.endswith("when it is back, go on with pdnas resume.\n")
    assert shared.states() == ["COMPLETE", "RUNNING"]
    monkeypatch.setenv("PGPASSWORD", server.password)
    assert pdnas("resume", "run", "--quiet").returncode == 0
    assert shared.states() == ["COMPLETE"] * 4
    tried = recipes_tried(shared)
    assert all(trial not in tried[:place] for place, trial in enumerate(tried))


def test_a_second_process_in_the_same_run_is_no_second_driver(
    begin: Begin, shared: Shared, tiny: Path, pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, and the driver that works there is not taken for dead by the others."""
    lean = ["--hidden=4", "--epochs=300", "--patience=300", "--trials=1", "--run-dir", "run"]
    driver = begin("tune", tiny, *LEAN, *lean, *shared.flags)
    until(lambda: shared.states() == ["RUNNING"])
    os.kill(driver.pid, signal.SIGSTOP)
    monkeypatch.setenv("PGPASSWORD", shared.server.password)
    assert pdnas("resume", "run").stderr.startswith("pdnas: The run 'run' is worked on by another")
    there = "select count(*) from pdnas_drivers join pdnas_studies on id = study where name = %s"
    assert shared.server.do(there, shared.name) == [(1,)]
    os.kill(driver.pid, signal.SIGCONT)
    assert driver.end() == 0, driver.said
    assert shared.states() == ["COMPLETE"] * 2
    assert shared.server.do(there, shared.name) == [(0,)]


def test_other_settings_are_refused_and_leave_nothing_behind(
    shared: Shared, tiny: Path, pdnas: Pdnas
) -> None:
    command = ["tune", tiny, *LEAN, "--hidden=4", "--epochs=2", "--trials=0", *shared.flags]
    assert pdnas(*command, "--run-dir", "one").returncode == 0
    for other, said in (
        (["--epochs=3"], "epochs was 2 and is 3"),
        (["--split", "random"], "another split"),
        (["--seed=1"], "seed was 0 and is 1"),
    ):
        done = pdnas(*command, *other, "--run-dir", "two")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"pdnas: The study '{shared.name}' was begun with other settings: {said}; repeat them, "
            "or give another --study.\n"
        )
        assert not Path("two").exists()


def test_the_same_command_goes_on_and_another_place_is_refused(
    shared: Shared, tiny: Path, pdnas: Pdnas
) -> None:
    command = ["tune", tiny, *LEAN, "--hidden=4", "--epochs=2", "--trials=0", "--run-dir", "one"]
    assert pdnas(*command, *shared.flags).returncode == 0
    before = json.loads(Path("one", SETTINGS).read_text())["storage"]
    assert before["url"] == shared.server.url(password=None)
    assert pdnas(*command, *shared.flags).returncode == 0
    assert json.loads(Path("one", SETTINGS).read_text())["storage"] == before
    said = pdnas(*command).stderr
    assert "begun with other settings: storage was a database and is not given; repeat them" in said
    said = pdnas(*command, *shared.flags[:2], "--study", "other").stderr
    assert f"begun with other settings: study was {shared.name} and is other; repeat them" in said


def test_without_a_name_the_same_command_means_the_same_study(
    server: Server, tiny: Path, pdnas: Pdnas
) -> None:
    command = ["tune", tiny, *LEAN, "--hidden=4", "--trials=0", "--storage", server.url()]
    names = []
    for place, epochs in enumerate((2, 2, 3)):
        done = pdnas(*command, f"--epochs={epochs}", "--run-dir", f"run-{place}")
        assert (done.returncode, done.stderr) == (0, "")
        names.append(json.loads(Path(f"run-{place}", SETTINGS).read_text())["storage"]["study"])
    assert names[0] == names[1] != names[2]
    assert re.fullmatch(r"tiny-[0-9a-f]{8}", names[0])


def test_resume_asks_for_the_password_that_no_run_keeps(
    shared: Shared, tiny: Path, pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["tune", tiny, *LEAN, "--hidden=4", "--epochs=2", "--trials=0", *shared.flags]
    assert pdnas(*command, "--run-dir", "run").returncode == 0
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    done = pdnas("resume", "run")
    assert done.returncode == 2
    assert "wants a password; set PGPASSWORD, or write it into ~/.pgpass." in done.stderr
    monkeypatch.setenv("PGPASSWORD", shared.server.password)
    assert pdnas("resume", "run").returncode == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wrong"}, "refuses the password"),
        ({"database": "nowhere"}, "is not there, but its server is"),
        ({"database": "postgres", "user": "guest"}, "does not let this user do what is needed"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence_and_leaves_nothing_behind(
    server: Server, tiny: Path, place: Path, pdnas: Pdnas, change: dict[str, str], said: str
) -> None:
    done = pdnas("tune", tiny, *LEAN, "--storage", server.url(**change))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"pdnas: The database '.*' {said}.*\.\n", done.stderr)
    assert server.password not in done.stderr
    assert list(place.iterdir()) == []
