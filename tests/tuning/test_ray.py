"""Studies on Ray clusters where processes, nodes and drivers die: nothing is lost or done twice."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.conftest import RAY, Server, add_node, until
from tests.tuning.conftest import Deed, Open, is_over, wait_until_over

from pdnas.architecture import Architecture
from pdnas.errors import ExecutorError, RunError
from pdnas.job import Job
from pdnas.runs import SETTINGS
from pdnas.search.pdnas import PRESETS
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.tuning import ray as on_ray
from pdnas.tuning.executor import TRIES, Began, Done, Executor, Failed, Reported
from pdnas.tuning.ray import LOCAL, RayExecutor, Share
from pdnas.tuning.storage import JournalFile, Storage
from pdnas.tuning.study import GridStudy, Row
from pdnas.tuning.work import SearchWork, TrainingWork

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

PAGE = os.sysconf("SC_PAGE_SIZE")
"""Bytes that a disk in memory gives at once."""

DRIVER = """
import sys
from pathlib import Path
from tests.tuning.conftest import Deed
from tests.tuning.test_ray import study
from pdnas.tasks import load_task
from pdnas.tuning import ray
from pdnas.tuning.ray import RayExecutor

if __name__ == "__main__":
    ray.STARTS = 6  # of a cluster that a busy machine starts
    address, folder = sys.argv[1], Path(sys.argv[2])
    deeds = [
        Deed(task="task", deed=deed, diary=folder / f"{number}.diary")
        for number, deed in enumerate(sys.argv[3:])
    ]
    with RayExecutor({"task": load_task("citeseer")}, address=address) as executor:
        print(*(row.state for row in study(executor, deeds, folder / "study.journal")))
"""
"""A study in a process of its own."""


def study(executor: Executor, deeds: list[Deed], kept: Path | Storage) -> list[Row]:
    """The trials of a study that has a cell for each deed, and goes on where it stopped."""
    storage = JournalFile(kept) if isinstance(kept, Path) else kept
    study = GridStudy([{"deed": number} for number in range(len(deeds))], storage)

    def supply() -> tuple[int, Deed] | None:
        asked = study.ask()
        return None if asked is None else (asked[0], deeds[asked[1]["deed"]])

    def finished(event: Done | Failed) -> None:
        if isinstance(event, Failed):
            study.failed(event.number, event.reason)
        else:
            study.done(event.number, 0.5)

    executor.drive(supply, reported=lambda _: False, finished=finished)
    rows = study.rows()
    assert sorted(row.values["deed"] for row in rows) == [*range(len(deeds))], "each once"
    return sorted(rows, key=lambda row: int(row.values["deed"]))


MARK = "PDNAS_TESTS_FOLDER"
"""A variable of drivers and of all that they start, by which that is told from other tests'."""

Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts drivers; what is left of them at the end of a test is killed."""
    with contextlib.ExitStack() as stack:

        def start(address: str, folder: Path, *deeds: str) -> "subprocess.Popen[str]":
            folder.mkdir(exist_ok=True)
            # Whoever changes his title writes over his variables, unless the last one is there.
            mark = {MARK: str(folder), "SPT_NOENV": "1"}
            driver = subprocess.Popen(
                [sys.executable, "-c", DRIVER, address, str(folder), *deeds],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **RAY, **mark},
            )
            stack.enter_context(driver)
            stack.callback(driver.kill)
            return driver

        yield start


@contextlib.contextmanager
def meanwhile(act: Callable[[], object], folder: Path) -> Iterator[None]:
    """Does something in a thread; those that hold are let go when that is over, well or ill."""

    def run() -> None:
        try:
            act()
        finally:
            (folder / "go").touch()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def works_of(folder: Path, *deeds: str) -> list[Deed]:
    """What a driver is to do."""
    return [
        Deed.model_validate({"task": "task", "deed": deed, "diary": folder / f"{number}.diary"})
        for number, deed in enumerate(deeds)
    ]


@pytest.mark.ray
def test_a_worker_that_is_killed_loses_no_trial(
    open_ray: Open, deed: Callable[..., Deed], tmp_path: Path
) -> None:
    deeds = [deed("hold"), deed("end", 1), deed("hold", 2), deed("end", 3)]

    def kill() -> None:
        deeds[0].wait()
        os.kill(deeds[0].pids[0], signal.SIGKILL)
        wait_until_over(deeds[0].pids[:1])

    with meanwhile(kill, tmp_path), open_ray() as executor:
        rows = study(executor, deeds, tmp_path / "study.journal")
    pids = [pid for work in deeds for pid in work.pids]
    assert [row.state for row in rows] == ["done"] * 4
    assert [work.times for work in deeds] == [2, 1, 1, 1]
    assert os.getpid() not in pids


@pytest.mark.ray
def test_where_questions_are_asked_may_die(open_ray: Open, deed: Callable[..., Deed]) -> None:
    """The question is asked again, and the work is not done again."""
    work = deed("ask")
    with open_ray() as executor:
        assert isinstance(executor, RayExecutor)
        board = executor._ray.get(executor._board.__ray_call__.remote(lambda _: os.getpid()))
        executor.start(0, work)
        assert executor.wait() == Began(0)
        assert executor.wait() == Reported(0, 1, 0.1)
        os.kill(board, signal.SIGKILL)
        assert executor.wait() == Reported(0, 1, 0.1)
        executor.answer(0, False)
        assert executor.wait() == Reported(0, 2, 0.2)
        executor.answer(0, True)
        assert isinstance(executor.wait(), Done)
    assert work.times == 1


@pytest.mark.ray
def test_of_an_end_that_is_meant_ray_says_nothing(
    open_ray: Open, deed: Callable[..., Deed], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where this process was connected before, it would say so among what a command says."""
    for number in range(4):
        with open_ray() as executor:
            study(executor, [deed("end", number)], tmp_path / f"{number}.journal")
    time.sleep(2)  # it comes from elsewhere
    assert "ray.kill" not in capsys.readouterr().out


@pytest.mark.ray
def test_a_node_that_is_removed_loses_no_trial(
    cluster: "Cluster", open_ray: Open, deed: Callable[..., Deed], tmp_path: Path
) -> None:
    """Three trials on three CPUs, one of which goes away: its trial is done on another."""
    node = add_node(cluster, num_cpus=1)
    deeds = [deed("hold", number) for number in range(4)]

    def remove() -> None:
        until(lambda: sum(work.times for work in deeds) == 3, what="to begin three")
        pids = [pid for work in deeds for pid in work.pids]
        cluster.remove_node(node)
        until(lambda: any(map(is_over, pids)), what="to lose one")  # it outlives its node a while

    with open_ray() as executor:
        assert executor.room == 3
        with meanwhile(remove, tmp_path):
            rows = study(executor, deeds, tmp_path / "study.journal")
    assert [row.state for row in rows] == ["done"] * 4
    assert sorted(work.times for work in deeds) == [1, 1, 1, 2]


@pytest.mark.ray
def test_nodes_that_come_are_used(
    cluster: "Cluster",
    open_ray: Open,
    deed: Callable[..., Deed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three trials that wait for each other, of which two had a CPU at first."""
    deeds = [deed("hold", number) for number in range(3)]
    added: list[Any] = []

    def let_go() -> None:
        for work in deeds:
            work.wait(seconds=240)  # nodes may take long to come

    with open_ray() as executor:
        assert executor.room == 2
        start = executor.start

        def start_and_add(number: int, work: Deed) -> None:
            start(number, work)
            if executor.room == 2 and number == 1:
                added.append(add_node(cluster, num_cpus=1))

        monkeypatch.setattr(executor, "start", start_and_add)
        try:
            with meanwhile(let_go, tmp_path):
                rows = study(executor, deeds, tmp_path / "study.journal")
        finally:
            for node in added:
                cluster.remove_node(node)
    assert [row.state for row in rows] == ["done"] * 3


@pytest.mark.ray
def test_a_driver_that_is_killed_takes_its_trials_with_it_and_is_started_again(
    cluster: "Cluster", begin: Begin, tmp_path: Path
) -> None:
    folder, deeds = tmp_path / "run", ["end", "end", "hold", "hold", "end"]
    driver = begin(cluster.address, folder, *deeds)
    works = works_of(folder, *deeds)
    for work in works[2:4]:
        work.wait()
    driver.kill()
    driver.communicate()
    wait_until_over([pid for work in works for pid in work.pids])
    (folder / "go").touch()
    again = begin(cluster.address, folder, *deeds)
    said, complaint = again.communicate(timeout=240)
    assert (said.split(), again.returncode) == (["done"] * 5, 0), complaint
    assert complaint == "", "Ray says nothing of its own"
    assert [work.times for work in works] == [1, 1, 2, 2, 1]
    wait_until_over([pid for work in works for pid in work.pids])


@pytest.mark.ray
def test_a_database_that_is_away_for_half_a_minute_loses_no_trial(
    open_ray: Open, deed: Callable[..., Deed], server: Server, tmp_path: Path
) -> None:
    """Trials end while nobody can write that down; they wait, and are not done again."""
    from pdnas.tuning.postgresql import Database

    told: list[str] = []
    deeds = [deed("end"), *(deed("hold", number) for number in range(1, 4)), deed("end", 4)]

    def go_away() -> None:
        deeds[1].wait()
        server.stop()
        (tmp_path / "go").touch()
        time.sleep(30)
        server.start()

    with Database(server.url(), "away", str(uuid4())) as database, open_ray() as executor:
        database.tell = told.append
        database.join("{}")
        with meanwhile(go_away, tmp_path):
            rows = study(executor, deeds, database)
    assert [row.state for row in rows] == ["done"] * 5
    assert [work.times for work in deeds] == [1] * 5
    assert len(told) == 2
    assert " is back after " in told[1]


NEEDED = "PDNAS_NEEDS_DISK"
"""Where this is set, as it is in CI, a disk that cannot be mounted fails its test."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        reason = f"no disk can be mounted here: {done.stderr.strip()}"
        if os.environ.get(NEEDED):
            pytest.fail(reason)
        pytest.skip(reason)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill_page(journal: Path) -> None:
    """Leave fifty bytes of a journal's last page, which a full disk would still have."""
    length = journal.stat().st_size
    for _ in range(2):  # the first tells how long an entry without text is
        entry = journal.stat().st_size - length
        text = "x" * (-(journal.stat().st_size + entry + 50) % PAGE) if entry else ""
        storage = JournalFile(journal)
        with storage.at_once():
            storage.open().set_study_user_attr(0, "text", text)
    assert journal.stat().st_size % PAGE == PAGE - 50


@pytest.mark.ray
def test_a_disk_that_fills_loses_no_trial_that_is_finished(
    open_ray: Open, deed: Callable[..., Deed], disk: Path, tmp_path: Path
) -> None:
    """What could not be written down is done again when there is room, and nothing else."""
    journal, filler = disk / "study.journal", disk / "filler"
    deeds = [deed("end"), deed("hold", 1), deed("end", 2)]

    def fill() -> None:
        deeds[1].wait()
        deeds[2].wait()
        ended = '"state":1'
        until(lambda: journal.read_text().count(ended) == 2, what="to write down both that end")
        fill_page(journal)
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(64))

    with (
        meanwhile(fill, tmp_path),
        open_ray() as executor,
        pytest.raises(RunError, match="No space left on device"),
    ):
        study(executor, deeds, journal)
    with open_ray() as executor, pytest.raises(RunError, match="No space left on device"):
        executor.start(0, search(disk / "cells" / "one"))
    filler.unlink()
    with open_ray() as executor:
        rows = study(executor, deeds, journal)
        executor.start(9, search(disk / "cells" / "one"))
        assert isinstance(ended(executor), Done)
    assert [row.state for row in rows] == ["done"] * 3
    assert [work.times for work in deeds] == [1, 2, 1]
    assert whole(disk / "cells" / "one")


@pytest.mark.ray
def test_a_trial_that_takes_all_memory_is_ended_and_failed_with_its_reason(
    begin: Begin, tmp_path: Path
) -> None:
    """By the memory monitor of a node that allows four gigabytes more than are used now.

    One trial at a time: of several, the monitor may end any.
    """
    from ray._common.utils import get_system_memory
    from ray._private.utils import get_used_memory
    from ray.cluster_utils import Cluster

    used, there = get_used_memory(), get_system_memory()
    if there - used < 10 * 2**30:
        pytest.skip("less than 10 GiB of memory are free, of which the trial takes 8")
    config = {
        "enable_metrics_collection": False,
        "memory_usage_threshold": (used + 4 * 2**30) / there,
        "memory_monitor_refresh_ms": 100,
    }
    cluster, folder = Cluster(), tmp_path / "run"
    try:
        add_node(cluster, num_cpus=1, _system_config=config)
        driver = begin(cluster.address, folder, "devour", "end", "end")
        said, complaint = driver.communicate(timeout=240)
    finally:
        cluster.shutdown()
    assert said.split() == ["failed", "done", "done"], complaint
    rows = GridStudy([{"deed": n} for n in range(3)], JournalFile(folder / "study.journal")).rows()
    reason = next(row.reason for row in rows if row.state == "failed")
    assert reason == (
        "Its node ran out of memory, and Ray ended its process. It was begun 2 times."
    )
    pids = [int(line) for path in folder.glob("*.diary") for line in path.read_text().split()]
    wait_until_over(pids)


@pytest.mark.ray
def test_a_thousand_trials_cost_what_the_first_ones_do(
    open_ray: Open, deed: Callable[..., Deed], tmp_path: Path
) -> None:
    """In memory and in processor time of the driver."""
    work, count, span = deed("ask"), 1000, 100
    clock: list[float] = []
    memory: list[int] = []

    def supply() -> tuple[int, Deed] | None:
        number = next(numbers)
        return (number, work) if number < count else None

    def finished(event: Done | Failed) -> None:
        assert isinstance(event, Done), event.reason
        clock.append(time.process_time())
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory.append(pages * os.sysconf("SC_PAGE_SIZE"))

    numbers = itertools.count()
    with open_ray() as executor:
        executor.drive(supply, reported=lambda _: False, finished=finished)
    assert len(clock) == work.times == count
    first, last = clock[span] - clock[0], clock[-1] - clock[-1 - span]
    assert last < 3 * first
    assert memory[-1] - memory[span] < 30 * 2**20


@pytest.mark.ray
def test_a_cluster_of_this_machine_ends_with_the_command(begin: Begin, tmp_path: Path) -> None:
    """And Ray says nothing among what the command says, even where a process of it dies."""
    folder, deeds = tmp_path / "run", ["hold", "throw"]
    driver = begin(LOCAL, folder, *deeds)
    works_of(folder, *deeds)[0].wait(seconds=240)
    (board,) = (pid for pid, title in processes(folder).items() if title.startswith("ray::Board"))
    os.kill(board, signal.SIGKILL)
    time.sleep(1)  # what Ray has to say comes from elsewhere
    (folder / "go").touch()
    said, complaint = driver.communicate(timeout=240)
    assert (said.split(), complaint) == (["done", "failed"], "")
    until(lambda: not processes(folder), what="to end the cluster")


@pytest.mark.ray
def test_a_cluster_of_this_machine_ends_with_a_driver_that_is_killed(
    begin: Begin, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    driver = begin(LOCAL, folder, "hang")
    works_of(folder, "hang")[0].wait(seconds=240)
    assert {"raylet", "gcs_server"} <= {Path(title).name for title in processes(folder).values()}
    driver.kill()
    driver.communicate()
    until(lambda: not processes(folder), what="to end the cluster")


def processes(folder: Path) -> dict[int, str]:
    """What a driver has started that is still there, with titles.

    Agents are left out: they end a minute after their node.
    """
    found: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            marked = f"{MARK}={folder}".encode() in (place / "environ").read_bytes().split(b"\0")
            title = (place / "cmdline").read_bytes().partition(b"\0")[0].decode()
            if marked and "Agent" not in title:
                found[int(place.name)] = title
    return found


@pytest.mark.ray
def test_a_search_writes_its_folder_where_it_is_shared(open_ray: Open, tmp_path: Path) -> None:
    with open_ray() as executor:
        executor.start(0, search(tmp_path / "cells" / "one"))
        assert isinstance(ended(executor), Done)
    assert whole(tmp_path / "cells" / "one")
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["one"]


@pytest.mark.ray
def test_the_folder_of_a_search_travels_where_it_is_not_shared(
    open_ray: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_ray() as executor:
        assert isinstance(executor, RayExecutor)
        offer = executor._folders.offer
        monkeypatch.setattr(
            executor._folders,
            "offer",
            lambda path: replace(offer(path), token=tmp_path / "elsewhere"),
        )
        executor.start(0, search(tmp_path / "cells" / "one"))
        assert isinstance(ended(executor), Done)
    assert whole(tmp_path / "cells" / "one")
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["one"]


def search(folder: Path) -> SearchWork:
    job = Job(
        strategy=PRESETS["default"].lasting(2),
        recipe=Recipe(epochs=2),
        blocks=(1,),
        hidden=(4,),
        candidates=1,
        designs="off",
    )
    return SearchWork(task="task", job=job, run=folder)


def whole(folder: Path) -> bool:
    """Whether a search was written to a folder, and nothing half."""
    names = {path.name for path in folder.iterdir()}
    return {SETTINGS, "checkpoint"} <= names and not any(".new" in name for name in names)


def ended(executor: Executor) -> Any:
    while not isinstance(event := executor.wait(), Done | Failed):
        pass
    return event


@pytest.mark.ray
def test_a_training_comes_to_the_same_there(
    open_ray: Open, tiny_task: GraphTask, architecture: Architecture
) -> None:
    work = TrainingWork(
        task="task", architecture=architecture, hidden=4, recipe=Recipe(epochs=3), seeds=(7,)
    )
    with open_ray() as executor:
        executor.start(0, work)
        event = ended(executor)
    here = work.do(tiny_task, lambda epoch, val: False)
    for outcome in (here, event.outcome):
        del outcome["trainings"][0]["seconds"]
    assert event.outcome == here


@pytest.mark.ray
@pytest.mark.parametrize(
    ("asked", "needs"),
    [
        ({"gpus": 0.1}, r"1 CPU\(s\) and 0\.1 GPU\(s\), but no node .* has that: 1 node\(s\)"),
        ({"threads": 99}, r"99 CPU\(s\), but no node .* with 2 CPU\(s\) and 0 GPU\(s\); give"),
    ],
)
def test_a_share_that_no_node_has_is_refused_at_once(
    open_ray: Open, asked: dict[str, Any], needs: str
) -> None:
    with pytest.raises(ExecutorError, match=needs):
        open_ray(**asked)


@pytest.mark.ray
def test_another_version_of_pdnas_is_refused(
    open_ray: Open, deed: Callable[..., Deed], monkeypatch: pytest.MonkeyPatch
) -> None:
    order = on_ray._Order
    monkeypatch.setattr(on_ray, "_Order", lambda *given: replace(order(*given), version="0.0.1"))
    with open_ray() as executor:
        executor.start(0, deed("end"))
        with pytest.raises(ExecutorError, match=r"cannot do the work \(it has pdnas .*\); install"):
            ended(executor)


@pytest.mark.ray
@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("127.0.0.1:{port}", "No Ray cluster answers at '127.0.0.1:"),
        ("ray://127.0.0.1:{port}", "No Ray cluster answers at 'ray://127.0.0.1:"),
        ("somewhere", "No Ray cluster can be used at 'somewhere' (Invalid address format"),
        ("a:b", "No Ray cluster answers at 'a:b' (invalid literal"),
    ],
)
def test_an_address_without_a_cluster_is_refused(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, address: str, complaint: str
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    if address == "somewhere":
        reason = ValueError("Invalid address format: somewhere\n")
        monkeypatch.setattr(ray, "init", lambda **_: (_ for _ in ()).throw(reason))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ExecutorError) as refused:
        RayExecutor({"task": tiny_task}, address=address.format(port=port))
    assert str(refused.value).startswith(complaint)


@pytest.mark.ray
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("OutOfMemoryError", "Its node ran out of memory, and Ray ended its process."),
        ("NodeDiedError", "Its node was removed, or died."),
        ("WorkerCrashedError", "Its process died."),
        ("ObjectLostError", "ObjectLostError: "),
    ],
)
def test_whoever_is_lost_is_told_apart(
    open_ray: Open,
    deed: Callable[..., Deed],
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    reason: str,
) -> None:
    import ray

    kind = getattr(ray.exceptions, error)
    lost = kind("ab" * 14, None, "") if error == "ObjectLostError" else kind("gone")
    get = ray.get
    ended: list[Done | Failed] = []
    works = [(0, deed("end"))]
    with open_ray() as executor:
        assert isinstance(executor, RayExecutor)

        def lose(ref: Any) -> Any:
            if ref is executor._news:
                return get(ref)
            raise lost

        patched = SimpleNamespace(**{**vars(ray), "get": lose})
        monkeypatch.setattr(executor, "_ray", patched)
        executor.drive(
            lambda: works.pop() if works else None, reported=lambda _: False, finished=ended.append
        )
    (failed,) = ended
    assert isinstance(failed, Failed)
    assert failed.reason.startswith(reason)
    assert failed.reason.endswith(f"It was begun {TRIES} times.")


@pytest.mark.parametrize(
    ("share", "node", "times"),
    [
        (Share(1), {"CPU": 3.0}, 3),
        (Share(2), {"CPU": 3.0}, 1),
        (Share(1, 0.1), {"CPU": 64.0, "GPU": 1.0}, 10),
        (Share(1, 0.1), {"CPU": 4.0, "GPU": 1.0}, 4),
        (Share(1, 2), {"CPU": 4.0, "GPU": 3.0}, 1),
        (Share(1, 0.5), {"CPU": 4.0}, 0),
        (Share(1), {}, 0),
    ],
)
def test_a_node_has_room_for_whole_shares(share: Share, node: dict[str, float], times: int) -> None:
    assert share.fits(node) == times
