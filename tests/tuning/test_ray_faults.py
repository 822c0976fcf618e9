"""Faults of Ray clusters: searches that die half way, connections and nodes that go away."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from tests.conftest import RAY, add_node
from tests.tuning.conftest import Deed, Open, wait_until_over

from pdnas.errors import ExecutorError
from pdnas.job import Job, Progress
from pdnas.runs import HISTORY, PIPELINE, RunDirectory
from pdnas.search import Search, SearchEpoch
from pdnas.search.pdnas import PRESETS
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Epoch
from pdnas.tuning import ray as on_ray
from pdnas.tuning import work as module
from pdnas.tuning.executor import Done, Event, Executor, Failed
from pdnas.tuning.folders import Folder, Folders, unpack
from pdnas.tuning.ray import GONE, LOCAL, LOOK, RayExecutor, Share
from pdnas.tuning.work import Report, SearchWork, Work
from pdnas.watcher import Watcher

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

ROOT = Path(__file__).parents[2]

LONG = 120.0
"""Seconds that something may take which takes one on a machine that has time."""

DRIVER = """
import sys
from pathlib import Path
from tests.tuning.test_ray_faults import client

if __name__ == "__main__":
    client(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
"""
"""A driver in a process of its own."""


CLUSTER = """
import sys
from ray.cluster_utils import Cluster
from tests.conftest import add_node

if __name__ == "__main__":
    cluster, config = Cluster(), {"enable_metrics_collection": False}
    port = int(sys.argv[1])
    add_node(cluster, num_cpus=2, ray_client_server_port=port, _system_config=config)
    print("ready", flush=True)
    sys.stdin.read()
    cluster.shutdown()
"""
"""A cluster that clients outside of it may use, until nobody holds its input any more."""


class Halting(SearchWork):
    """A search that waits half way, when its candidate is trained, until there is a file ``go``.

    Args:
        diary: Where a line is written for each beginning, and for each epoch of the search.
    """

    diary: Path

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        self.write(f"{os.getpid()} {self.run}")
        with patch.object(module, "Watcher", lambda: Halt(self)):
            return super().do(task, report)

    def write(self, line: str) -> None:
        with self.diary.open("a") as diary:
            diary.write(f"{line}\n")

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.diary.read_text().splitlines()]

    @property
    def began(self) -> list[tuple[int, Path]]:
        """The process of each beginning, and where it wrote to."""
        return [(int(first), Path(*rest)) for first, *rest in self.lines() if first.isdigit()]

    @property
    def epochs(self) -> int:
        """How many were searched, all in all."""
        return sum(first == "searched" for first, *_ in self.lines())

    def wait(self) -> None:
        """Until it waits half way."""
        until_true(lambda: self.diary.with_name("halfway").exists())

    def let_go(self) -> None:
        self.diary.with_name("go").touch()


class Halt(Watcher):
    """Sees a search, and halts what comes after it.

    Args:
        work: Whose.
    """

    def __init__(self, work: Halting) -> None:
        self._work = work

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        self._work.write("searched")

    def trained(self, what: str, epoch: Epoch) -> None:
        self._work.diary.with_name("halfway").touch()
        until_true(self._work.diary.with_name("go").exists)


def until_true(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


JOB = Job(
    strategy=PRESETS["default"].lasting(2),
    recipe=Recipe(epochs=2),
    blocks=(1,),
    hidden=(4,),
    candidates=1,
    designs="off",
)


@pytest.fixture
def halting(tmp_path: Path) -> Halting:
    """A search that writes to a folder of its own."""
    run = tmp_path / "run" / "cells" / "one"
    return Halting(task="task", job=JOB, run=run, diary=tmp_path / "diary")


def drive(executor: Executor, *works: Work) -> list[Done | Failed]:
    """What became of some work, all that was heard; nobody waits for ever."""
    waiting, ended = list(enumerate(works)), list[Done | Failed]()
    wait, until = executor.wait, time.monotonic() + 2 * LONG

    def wait_a_while(seconds: float | None = None) -> Event | None:
        assert time.monotonic() < until
        return wait(1.0 if seconds is None else min(1.0, seconds))

    executor.wait = wait_a_while  # type: ignore[method-assign]
    executor.drive(
        lambda: waiting.pop(0) if waiting else None, reported=lambda _: False, finished=ended.append
    )
    return ended


def check_whole(work: Halting, ended: list[Done | Failed], task: GraphTask) -> None:
    """That a search was finished once, as if nothing had happened, and nothing else is there."""
    expected = SearchWork(task="task", job=JOB).do(task, lambda epoch, val: False)
    assert ended == [Done(0, expected)]
    assert work.run is not None
    assert [path.name for path in work.run.parent.iterdir()] == [work.run.name]
    run = RunDirectory.open(work.run)
    progress = run.read_record(PIPELINE, Progress)
    assert [cell.epochs for cell in progress.cells] == [2]
    assert len(progress.trials) == 1
    lines = [json.loads(line) for line in (work.run / HISTORY).read_text().splitlines()]
    assert [(line["phase"], line["epoch"]) for line in lines] == [
        ("search", 0),
        ("search", 1),
        ("candidate", 0),
        ("candidate", 1),
    ]
    assert not [path for path in work.run.rglob("*") if path.name.startswith(".pdnas")]


@pytest.mark.ray
@pytest.mark.parametrize("shared", [True, False])
def test_a_search_whose_process_is_killed_is_finished_once(
    open_ray: Open,
    halting: Halting,
    tiny_task: GraphTask,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared: bool,
) -> None:
    """It goes on where its folder is shared; elsewhere what it had written is gone with it."""

    def kill() -> None:
        halting.wait()
        os.kill(halting.began[0][0], signal.SIGKILL)
        halting.let_go()

    killer = threading.Thread(target=kill)
    with open_ray() as executor:
        assert isinstance(executor, RayExecutor)
        offer = executor._folders.offer
        if not shared:
            monkeypatch.setattr(
                executor._folders,
                "offer",
                lambda path: replace(offer(path), token=tmp_path / "elsewhere"),
            )
        killer.start()
        ended = drive(executor, halting)
        killer.join()
    (first, place), (second, _) = halting.began
    assert first != second
    assert (place == halting.run) == shared
    if not shared:
        shutil.rmtree(place.parent)  # nobody could
    assert halting.epochs == (2 if shared else 4)
    check_whole(halting, ended, tiny_task)


@pytest.mark.ray
def test_a_search_whose_node_is_removed_is_finished_once(
    cluster: "Cluster", open_ray: Open, halting: Halting, tiny_task: GraphTask, tmp_path: Path
) -> None:
    """It is on a node of its own, as others have no room; then they have, and it goes on there."""
    import ray

    @ray.remote(num_cpus=2, max_retries=0)
    def occupy() -> None:
        (tmp_path / "occupied").touch()
        until_true((tmp_path / "go").exists)

    occupied = occupy.remote()
    until_true((tmp_path / "occupied").exists)
    node = add_node(cluster, num_cpus=1)

    def remove() -> None:
        try:
            halting.wait()
        finally:
            cluster.remove_node(node)
            halting.let_go()

    remover = threading.Thread(target=remove)
    remover.start()
    with open_ray() as executor:
        assert executor.room == 3
        ended = drive(executor, halting)
        remover.join()
    ray.get(occupied, timeout=LONG)
    assert len(halting.began) == 2
    assert halting.epochs == 2
    check_whole(halting, ended, tiny_task)
    wait_until_over([halting.began[0][0]])


def client(address: str, folder: Path, names: list[str]) -> None:
    """A driver that tells what becomes of its work, and why it ends."""
    from pdnas.tasks import load_task

    on_ray.AWAY = 5.0
    works: list[Work] = [
        Deed.model_validate({"task": "task", "deed": name, "diary": folder / f"{number}.diary"})
        for number, name in enumerate(names)
    ]
    works.append(SearchWork(task="task", job=JOB, run=folder / "cells" / "one"))
    if "hang" in names:
        works.reverse()
    try:
        with RayExecutor({"task": load_task("citeseer")}, address=address) as executor:
            waiting = list(enumerate(works))
            executor.drive(
                lambda: waiting.pop(0) if waiting else None,
                reported=lambda _: False,
                finished=lambda event: print(type(event).__name__, event.number, flush=True),  # noqa: T201
            )
    except ExecutorError as error:
        print(error, flush=True)  # noqa: T201


@dataclass(frozen=True)
class Door:
    """A cluster that is used from outside.

    Args:
        address: Where.
        process: Which holds it.
    """

    address: str
    process: "subprocess.Popen[str]"

    def close(self) -> None:
        try:
            self.process.communicate(timeout=LONG)
        finally:
            self.process.kill()


@pytest.fixture
def door() -> Iterator[Door]:
    """A cluster in processes of its own, which end with this one, however it does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, **RAY, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    door = Door(f"ray://127.0.0.1:{port}", process)
    yield door
    if process.poll() is None:
        door.close()


Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts a driver that gives up a connection soon after it is lost, and that ends in time."""
    started: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def begin(address: str, *names: str) -> "subprocess.Popen[str]":
        (tmp_path / "run").mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, address, str(tmp_path / "run"), *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **RAY, "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "1"},
        )
        timer = threading.Timer(2 * LONG, process.kill)
        timer.start()
        started.append((process, timer))
        return process

    yield begin
    for process, timer in started:
        timer.cancel()
        process.kill()
        process.communicate()


@pytest.mark.ray
def test_a_driver_outside_of_the_cluster_is_a_client(
    door: Door, begin: Begin, tmp_path: Path
) -> None:
    driver = begin(door.address, "ask", "throw", "die once")
    said, complaint = driver.communicate()
    assert sorted(said.splitlines()) == ["Done 0", "Done 2", "Done 3", "Failed 1"], complaint
    assert "Traceback" not in complaint
    assert [path.name for path in (tmp_path / "run" / "cells").iterdir()] == ["one"]
    assert RunDirectory.open(tmp_path / "run" / "cells" / "one").has(PIPELINE)


@pytest.mark.ray
def test_a_client_whose_cluster_goes_away_says_so_in_one_sentence(
    door: Door, begin: Begin, tmp_path: Path
) -> None:
    """And starts no cluster of its own, as Ray would."""
    driver = begin(door.address, "hang")
    assert driver.stdout is not None
    assert driver.stdout.readline() == "Done 0\n", "the search"
    until_true((tmp_path / "run" / "0.diary").exists)
    door.close()
    said, complaint = driver.communicate()
    assert said.startswith(f"The Ray cluster at '{door.address}' is gone ("), complaint
    assert said.endswith("; what is done is kept; go on when there is one.\n")
    assert said.count("\n") == 1
    assert driver.returncode == 0
    assert "Traceback" not in complaint
    assert [path.name for path in (tmp_path / "run" / "cells").iterdir()] == ["one"]


class FakeRay:
    """A cluster that is not there, as far as a driver sees of it.

    Args:
        nodes: What each node has.
        error: What waiting throws; none: nothing ever happens.
        refusals: Why it cannot be joined, each time that somebody tries.
    """

    class RayError(Exception):
        pass

    def __init__(
        self,
        *nodes: dict[str, float],
        error: Exception | None = None,
        refusals: tuple[str, ...] = (),
    ) -> None:
        self.have, self.error, self.refusals = nodes, error, list(refusals)
        self.lost: Exception | None = None
        self.ready: list[str] = []
        self.is_connected = not refusals
        self.heard: list[str] = []
        self.exceptions = SimpleNamespace(RayError=self.RayError)
        self.util = SimpleNamespace(disconnect=self.shutdown)
        self.cloudpickle = SimpleNamespace(register_pickle_by_value=lambda _: None)

    def is_initialized(self) -> bool:
        return self.is_connected

    def init(self, **_: object) -> None:
        if self.refusals:
            raise ConnectionAbortedError(self.refusals.pop(0))
        self.is_connected = True

    def shutdown(self) -> None:
        self.is_connected = False

    def nodes(self) -> list[dict[str, Any]]:
        if self.lost is not None:
            raise self.lost
        return [{"Resources": have, "Alive": True} for have in self.have]

    def remote(self, **_: object) -> Callable[[object], Any]:
        """Where questions are asked takes no arguments; work does."""
        board = SimpleNamespace(news=SimpleNamespace(remote=lambda: "news"))
        return lambda _: SimpleNamespace(remote=lambda *given: "work" if given else board)

    def put(self, value: object) -> object:
        return value

    def wait(self, refs: list[object], **_: object) -> tuple[list[object], list[object]]:
        self.heard.append("wait")
        if self.error is not None:
            raise self.error
        return ([self.ready.pop(0)], refs) if self.ready else ([], refs)

    def get(self, ref: str) -> object:
        """News of what is over, or what came of work."""
        return [(99,)] if ref == "news" else ("done", {}, None, None)

    def cancel(self, ref: object, force: bool = False) -> None:
        self.heard.append("cancel")
        if self.error is not None:
            raise ConnectionError("The client has already been disconnected.")

    def kill(self, actor: object) -> None:
        self.heard.append("kill")


@pytest.fixture
def open_fake(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[RayExecutor, FakeRay]]:
    """Opens an executor on a cluster that is not there."""

    def open_(
        *nodes: dict[str, float],
        error: Exception | None = None,
        refusals: tuple[str, ...] = (),
        **settings: Any,
    ) -> tuple[RayExecutor, FakeRay]:
        fake = FakeRay(*nodes, error=error, refusals=refusals)
        monkeypatch.setattr(on_ray, "_import_ray", lambda: fake)
        monkeypatch.setattr(on_ray, "_remembered", lambda: "here")
        return RayExecutor({"task": tiny_task}, **settings), fake

    return open_


Fake = Callable[..., tuple[RayExecutor, FakeRay]]


class Slow(Work):
    """Is never done."""

    run: Path | None = None

    @property
    def folder(self) -> Path | None:
        return self.run

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("Client is shutting down."),
        FakeRay.RayError("It is gone."),
        Exception("Client Wait request failed. Reference invalid?"),
    ],
)
def test_a_connection_that_is_lost_is_one_sentence(
    open_fake: Fake, tmp_path: Path, error: Exception
) -> None:
    """Ending what nobody can reach throws as well, and hides neither that nor the tokens."""
    executor, fake = open_fake({"CPU": 2.0}, error=error)
    with (
        pytest.raises(ExecutorError, match=r"at 'auto' is gone \(.*\); what is done is kept"),
        executor,
    ):
        drive(executor, Slow(task="task", run=tmp_path / "cells" / "one"))
    assert fake.heard == ["wait", "cancel"]
    assert list((tmp_path / "cells").iterdir()) == []


def test_what_is_not_ray_s_own_is_no_lost_connection(open_fake: Fake) -> None:
    executor, _ = open_fake({"CPU": 2.0}, error=TypeError("a mistake"))
    with pytest.raises(TypeError, match="a mistake"):
        drive(executor, Slow(task="task"))


def test_a_client_that_is_lost_asks_ray_for_nothing(open_fake: Fake) -> None:
    """It would start a cluster."""
    executor, fake = open_fake({"CPU": 2.0})
    executor.start(0, Slow(task="task"))
    fake.is_connected = False
    with pytest.raises(ExecutorError, match=r"is gone \(the connection is lost\)"):
        executor.wait()
    executor.close()
    assert fake.heard == []


def test_what_is_done_is_not_overlooked_for_news_of_what_is_over(open_fake: Fake) -> None:
    executor, fake = open_fake({"CPU": 2.0})
    executor.start(0, Slow(task="task"))
    fake.ready = ["news", "work"]
    assert executor.wait(0) == Done(0, {})
    assert executor.wait(0) is None


def test_a_client_that_hears_nothing_for_long_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself asks on and on."""
    monkeypatch.setattr(on_ray, "LOOK", 0.01)
    monkeypatch.setattr(on_ray, "AWAY", 0.05)
    fake = FakeRay({"CPU": 2.0})
    watch = on_ray._Watch(fake)
    watch.start()
    watch.join(0.2)
    assert fake.is_connected
    fake.lost = ConnectionError("Nobody answers.")
    watch.join(LONG)
    assert not fake.is_connected


DIED = "Initialization failure from server:\nTraceback (most recent call last):"
SLOW = "The current node timed out during startup."


@pytest.mark.parametrize("refusals", [(DIED,), (SLOW, DIED)])
def test_a_cluster_that_is_busy_is_joined_at_another_try(
    open_fake: Fake, refusals: tuple[str, ...]
) -> None:
    executor, fake = open_fake({"CPU": 2.0}, refusals=refusals)
    assert fake.is_connected
    executor.close()
    assert not fake.is_connected


@pytest.mark.parametrize("refusals", [(DIED,) * 3, ("Version mismatch",)])
def test_a_cluster_that_cannot_be_joined_is_refused(
    open_fake: Fake, refusals: tuple[str, ...]
) -> None:
    with pytest.raises(ExecutorError, match="No Ray cluster can be used at 'auto'") as refused:
        open_fake({"CPU": 2.0}, refusals=refusals)
    assert "set RAY_AUTH_MODE=token; start one" in str(refused.value)


def test_nodes_that_cannot_be_counted_are_counted_later(
    open_fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is back soon is waited for by Ray, but for this."""
    executor, fake = open_fake({"CPU": 2.0})
    fake.lost = ConnectionError("It is away.")
    monkeypatch.setattr(executor, "_looked", -LOOK)
    assert executor.wait(0) is None
    fake.lost, fake.have = None, ({"CPU": 3.0},)
    monkeypatch.setattr(executor, "_looked", -LOOK)
    assert executor.wait(0) is None
    assert executor.room == 3


@pytest.mark.parametrize("settings", [{}, {"workers": 2, "address": LOCAL}])
def test_a_cluster_without_room_is_refused(open_fake: Fake, settings: dict[str, Any]) -> None:
    """Of this machine none grows."""
    with pytest.raises(ExecutorError, match=r"A trial needs 1 CPU\(s\) and 0\.5 GPU\(s\), but no "):
        open_fake({"CPU": 2.0}, gpus=0.5, **settings)


def test_a_cluster_that_grows_gets_time_where_the_number_of_workers_is_given(
    open_fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes come when there is work, and there is as long as this waits."""
    with pytest.warns(RuntimeWarning, match=r"1 node\(s\) with 2 CPU.*; one is waited for, 10 min"):
        executor, _ = open_fake({"CPU": 2.0}, gpus=0.5, workers=3)
    assert executor.room == 3
    monkeypatch.setattr(executor, "_looked", -LOOK)
    assert executor.wait(0) is None
    monkeypatch.setattr(executor, "_looked", -LOOK)
    monkeypatch.setattr(executor, "_fit", time.monotonic() - GONE - 1)
    with pytest.raises(ExecutorError, match=r"has had 1 CPU.* for 10 minutes"):
        executor.wait(0)


@pytest.mark.parametrize(
    ("gpus", "node", "times"),
    [(0.6, 4.0, 4), (0.6, 1.0, 1), (0.5, 3.0, 6), (0.1, 2.0, 20), (0.34, 2.0, 4), (0.3, 0.0, 0)],
)
def test_no_part_is_of_two_gpus(gpus: float, node: float, times: int) -> None:
    assert Share(1, gpus).fits({"CPU": 64.0, "GPU": node}) == times


@dataclass(frozen=True)
class Hazy(Folder):
    """A folder of which a cache shows only later that it is shared."""

    @property
    def is_shared(self) -> bool:
        shown = self.token.with_name("shown")
        was_shown = shown.exists()
        shown.touch()
        return was_shown


class Scribble(Slow):
    """Writes to its folder."""

    def within(self, folder: Path) -> "Scribble":
        return self.model_copy(update={"run": folder})

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        assert self.run is not None
        self.run.mkdir(parents=True)
        (self.run / "result").write_text("done")
        return {}


@pytest.fixture
def heard(tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a process of a node does before its work; it is done here."""
    heard: list[str] = []

    def load(stored: object, device: str) -> GraphTask:
        heard.append("loaded")
        return tiny_task

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=heard.append))
    monkeypatch.setattr(on_ray, "_task", load)
    return heard


def do(work: Work, folder: Folder | None) -> on_ray.Came:
    board = SimpleNamespace(began=SimpleNamespace(remote=lambda key: "began"))
    return on_ray._do(on_ray._Order(0, work, folder, "cpu", 1), {"task": None}, board)  # type: ignore[dict-item]


def test_a_folder_that_turns_out_to_be_shared_travels_all_the_same(
    tmp_path: Path, heard: list[str]
) -> None:
    """What was written elsewhere would be gone."""
    offered = Folders().offer(tmp_path / "cells" / "one")
    folder = Hazy(offered.path, offered.token, offered.packed)
    kind, _, path, packed = do(Scribble(task="task", run=offered.path), folder)
    assert (kind, path) == ("done", offered.path)
    assert packed is not None
    unpack(packed, offered.path)
    assert (offered.path / "result").read_text() == "done"


def test_work_has_begun_before_its_data_are_loaded(tmp_path: Path, heard: list[str]) -> None:
    """A time limit counts for those that never arrive."""
    assert do(Scribble(task="task", run=tmp_path / "one"), None)[0] == "done"
    assert heard == ["began", "loaded"]


@pytest.mark.parametrize(
    ("meant", "complaint"),
    [
        ("127.0.0.1:{port}", "No Ray cluster answers at '127.0.0.1:{port}' ("),
        (None, "This machine belongs to no Ray cluster; start one with 'ray start --head'"),
    ],
)
def test_a_cluster_that_this_machine_belonged_to_is_not_asked_for_ever(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, meant: str | None, complaint: str
) -> None:
    """Its head is gone, but it was not told to stop; Ray would ask its address on and on."""
    from ray._private import services

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def known(address: str, folder: str | None) -> str:
        assert (address, folder) == ("auto", None)
        if meant is None:
            raise ConnectionError("Could not find any running Ray instance.")
        return meant.format(port=port)

    monkeypatch.setattr(services, "get_ray_address_from_environment", known)
    monkeypatch.setattr(on_ray, "_import_ray", lambda: FakeRay(refusals=(DIED,)))
    with pytest.raises(ExecutorError) as refused:
        RayExecutor({"task": tiny_task})
    assert str(refused.value).startswith(complaint.format(port=port))
    assert "start one with 'ray start --head', give its --ray-address" in str(refused.value)


def test_ctrl_c_on_the_way_out_is_heard_after_it(
    open_fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, fake = open_fake({"CPU": 2.0}, refusals=(DIED,))
    leave, left = executor._leave, []

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        leave()
        left.append(fake.is_connected)

    monkeypatch.setattr(executor, "_leave", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        executor.close()
    assert left == [False], "all of it was done"
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_twice_does_not_wait(open_fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    executor, _ = open_fake({"CPU": 2.0})

    def hangs() -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        pytest.fail("nobody came")

    monkeypatch.setattr(executor, "_leave", hangs)
    with pytest.raises(KeyboardInterrupt):
        executor.close()


def test_on_the_way_out_of_another_thread_nothing_changes(open_fake: Fake) -> None:
    executor, fake = open_fake({"CPU": 2.0}, refusals=(DIED,))
    thread = threading.Thread(target=executor.close)
    thread.start()
    thread.join(LONG)
    assert not fake.is_connected
