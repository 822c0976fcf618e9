"""Small graphs, random numbers and a place to do work, for the tests of every part."""

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch_geometric.typing
from hypothesis import settings
from torch import Generator, Tensor
from torch_geometric.data import Data

from pdnas.errors import PdnasError
from pdnas.tasks.source import source_from_graphs
from pdnas.tasks.task import GraphTask
from pdnas.tuning.executor import Done, Event, Executor, Failed, Reported
from pdnas.tuning.work import Work, reason_of

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

settings.register_profile("pdnas", deadline=None)  # torch's first call of each kernel is slow
settings.load_profile("pdnas")


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: what a shell begins in the background is deaf to it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``gpu`` where there is none."""
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="this machine has no CUDA device")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test meets the same random numbers, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder with real data sets."""
    named = os.environ.get("PDNAS_DATA")
    if not named:
        pytest.skip("PDNAS_DATA does not name a folder with data sets")
    return Path(named)


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """Loads a script of the project, given by its path, as a module."""
    root = Path(__file__).parents[1]

    def load(path: str) -> ModuleType:
        name = Path(path).stem
        spec = importlib.util.spec_from_file_location(name, root / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # PyG looks there for the source of a layer
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend((root / path).parent)
            spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def generator() -> Generator:
    """Random numbers that are the same in every run."""
    return torch.Generator().manual_seed(0)


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PyG samples neighbors with: the library, or the same in plain Python without it."""
    if not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE):
        monkeypatch.setattr(torch_geometric.typing, "WITH_TORCH_SPARSE", True)
        fake = SimpleNamespace(neighbor_sample=_neighbor_sample)
        monkeypatch.setattr(torch.ops, "torch_sparse", fake, raising=False)


def _neighbor_sample(
    colptr: Tensor, row: Tensor, seed: Tensor, counts: list[int], replace: bool, directed: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As that of torch-sparse: nodes, and sources, targets and numbers of edges among them."""
    assert directed
    assert not replace
    places = {node: place for place, node in enumerate(seed.tolist())}
    edges: list[tuple[int, int, int]] = []
    fresh = list(places)
    for count in counts:
        known = len(places)
        for target in fresh:
            first, last = colptr[target : target + 2].tolist()
            for entry in (first + torch.randperm(last - first)[:count]).tolist():
                source = places.setdefault(int(row[entry]), len(places))
                edges.append((source, places[target], entry))
        fresh = list(places)[known:]
    sources, targets, entries = torch.tensor(edges, dtype=torch.long).view(-1, 3).T
    return torch.tensor(list(places)), sources, targets, entries


@pytest.fixture
def tiny_graph() -> Tensor:
    """An ``edge_index`` of 6 nodes in no order: node 3 only sends, 4 has a loop, 5 is isolated."""
    return torch.tensor([[4, 2, 0, 3, 0, 4, 1, 2], [1, 0, 1, 2, 2, 4, 0, 1]])


@pytest.fixture
def tiny_task() -> GraphTask:
    """20 nodes in a ring with chords, 5 features that tell 3 classes apart, an own split."""
    generator = torch.Generator().manual_seed(0)
    nodes = torch.arange(20)
    y = nodes % 3
    noise = torch.rand(20, 5, generator=generator)
    x = noise + torch.nn.functional.one_hot(y, 5)
    ring = torch.stack([nodes, (nodes + 1) % 20])
    chords = torch.stack([nodes, (nodes + 3) % 20])
    one_way = torch.cat([ring, chords], dim=1)
    data = Data(x=x, edge_index=torch.cat([one_way, one_way.flip(0)], dim=1), y=y)
    for part, (first, last) in {"train": (0, 9), "val": (9, 14), "test": (14, 20)}.items():
        data[f"{part}_mask"] = (nodes >= first) & (nodes < last)
    return GraphTask.from_data(data, name="tiny")


@pytest.fixture
def changed_task(tiny_task: GraphTask) -> GraphTask:
    """The tiny task with one edge less; labels and split are the same."""
    graph = tiny_task.source.graphs[0]
    fewer = replace(graph, edge_index=graph.edge_index[:, :-1])
    return replace(tiny_task, source=replace(tiny_task.source, graphs=(fewer,)))


def ring(nodes: int, generator: torch.Generator, sparse: bool) -> Data:
    """Two labels per node that two of its features tell; sparse graphs have many empty columns."""
    y = torch.randint(2, (nodes, 2), generator=generator)
    x = torch.zeros(nodes, 40 if sparse else 4)
    x[:, :2] = y.float()
    x[:, 2:4] = torch.rand(nodes, 2, generator=generator)
    index = torch.arange(nodes)
    forth = torch.stack([index, (index + 1) % nodes])
    return Data(x=x, edge_index=torch.cat([forth, forth.flip(0)], dim=1), y=y)


def seven_rings(sparse: bool) -> GraphTask:
    """Rings of 5 to 11 nodes with several labels per node: four, one and two of them."""
    generator = torch.Generator().manual_seed(0)
    rings = [ring(nodes, generator, sparse) for nodes in range(5, 12)]
    own = (torch.tensor([0, 1, 2, 3]), torch.tensor([4]), torch.tensor([5, 6]))
    return GraphTask.from_source(source_from_graphs(rings, "rings", splits={"own": own}))


@pytest.fixture
def rings() -> GraphTask:
    """Seven graphs with several labels per node, and a note: whole graphs are what is split."""
    task = seven_rings(sparse=False)
    return replace(task, source=replace(task.source, note="rebuilt rings"))


def until(is_so: Callable[[], Any], seconds: float = 120, *, what: str = "it") -> None:
    """Wait for something.

    Args:
        is_so: Whether it has happened.
        seconds: How long at most.
        what: Takes longer than that, says the error.
    """
    late = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < late, f"{what} takes longer than {seconds:g} seconds"
        time.sleep(0.02)


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, and no connection is given: those of connections lie higher."""
    bounds = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    first = int(bounds.split()[0])
    ports = range(max(1024, first - 9000), first) or range(1024, 2**16)
    found: list[int] = []
    for port in random.SystemRandom().sample(ports, len(ports)):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no port is free")


NEEDED = "PDNAS_NEEDS_POSTGRESQL"
"""Where this is set, as it is in CI, a server that is missing fails the tests."""


class Server:
    """A PostgreSQL server of the tests' own, with a user for each kind of right.

    Args:
        programs: Where those of the server are.
        folder: For all that it writes.
    """

    password = "s3cret"

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        (self.port,) = free_ports(1)
        (folder / "password").write_text(self.password)
        if os.geteuid() == 0:  # the server refuses to be root's
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        self._call(
            "initdb",
            *("--username=owner", f"--pwfile={folder / 'password'}", "--auth=scram-sha-256"),
            *("--no-sync", "--encoding=UTF8", "--no-locale"),
        )
        self.start()
        for command in (
            "create database studies",
            "create database closed",
            "revoke connect on database closed from public",
            f"create role guest login password '{self.password}'",
        ):
            self.do(command, database="postgres")

    def start(self) -> None:
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._call("pg_ctl", "start", "-w", "-l", str(self._folder / "log"), "-o", options)

    def stop(self) -> None:
        """As if its machine had lost power."""
        self._call("pg_ctl", "stop", "-m", "immediate")

    def url(
        self, database: str = "studies", *, user: str = "owner", password: str | None = password
    ) -> str:
        word = "" if password is None else f":{password}"
        return f"postgresql://{user}{word}@127.0.0.1:{self.port}/{database}"

    def do(self, command: str, *values: object, database: str = "studies") -> list[tuple[Any, ...]]:
        """What a command of SQL comes to."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as line:
            found = line.execute(command, values)
            return list(found) if found.description else []

    def _call(self, program: str, *words: str) -> None:
        root = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        command = [*root[: 4 * (os.geteuid() == 0)], str(self._programs / program)]
        done = subprocess.run(
            [*command, "-D", str(self._folder / "data"), *words],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout.decode()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server from Debian's package."""
    found = shutil.which("initdb")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[4]))
    programs = Path(found).parent if found else next(reversed(places), None)
    if programs is None:
        reason = "PostgreSQL is not installed; apt-get install postgresql"
        if os.environ.get(NEEDED):
            pytest.fail(reason)
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="pdnas-postgresql-") as folder:
        server = Server(programs, Path(folder))
        try:
            yield server
        finally:
            server.stop()


RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_agent_register_timeout_ms": "240000",
}
"""What clusters of tests are told: they tell nobody, leave nothing at home, and have time."""

NODE: dict[str, Any] = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
"""What each of their nodes has beside its CPUs."""

AGENTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)
"""Ports of its agents. For those that choose their own it waits 15 seconds, and ends itself."""


@pytest.fixture(scope="session")
def cluster() -> Iterator["Cluster"]:
    """A Ray cluster of one node with two CPUs, which tests may add others to."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in RAY.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        config = {"enable_metrics_collection": False}
        cluster = Cluster()
        add_node(cluster, num_cpus=2, _system_config=config)
        yield cluster
        cluster.shutdown()


def add_node(cluster: "Cluster", **about: Any) -> Any:
    """A node more; Ray gives one some time to start, which busy machines do not always make.

    One that was too slow is removed, or it would come later, beside its successor.
    """
    before = cluster.list_all_nodes()

    def add() -> Any:
        ports: dict[str, Any] = dict(zip(AGENTS, free_ports(len(AGENTS)), strict=True))
        return cluster.add_node(**NODE, **ports, **about)

    for _ in range(3):
        try:
            return add()
        except Exception:  # Ray throws of any kind
            for late in set(cluster.list_all_nodes()) - set(before):
                cluster.remove_node(late, allow_graceful=False)
    return add()


@pytest.fixture(scope="session")
def connected(cluster: "Cluster") -> Iterator[None]:
    """This process belongs to the cluster: whoever works for one test works for the next, too."""
    import ray

    ray.init(cluster.address, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


class Here(Executor):
    """Does work at once in this process: others take seconds to start.

    Args:
        tasks: What work is on, by name.
        workers: Believed, no more.
    """

    def __init__(self, tasks: Mapping[str, GraphTask], *, workers: int = 1, **_: object) -> None:
        super().__init__()
        self._tasks, self._room = tasks, workers

    @property
    def room(self) -> int:
        return self._room

    def drive(
        self,
        supply: Callable[[], tuple[int, Work] | None],
        *,
        reported: Callable[[Reported], bool],
        finished: Callable[[Done | Failed], None],
    ) -> None:
        while (following := supply()) is not None:
            number, work = following

            def report(epoch: int, val: float, number: int = number) -> bool:
                return reported(Reported(number, epoch, val))

            try:
                outcome = work.do(self._tasks[work.task], report)
            except PdnasError as error:
                finished(Failed(number, reason_of(error)))
            else:
                finished(Done(number, outcome))

    def start(self, number: int, work: Work) -> None:
        raise NotImplementedError

    def wait(self, seconds: float | None = None) -> Event | None:
        raise NotImplementedError

    def end(self, number: int) -> None:
        raise NotImplementedError

    def answer(self, number: int, stop: bool) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to end."""
