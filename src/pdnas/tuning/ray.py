"""Work on a Ray cluster: each piece is a task with its share of CPUs and GPUs."""

import itertools
import logging
import os
import pickle
import shutil
import signal
import socket
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pdnas import __version__
from pdnas.errors import ExecutorError
from pdnas.settings import check_workers
from pdnas.tasks import GraphTask
from pdnas.training.device import find_device
from pdnas.tuning import board
from pdnas.tuning.executor import Began, Done, Event, Executor, Failed, Lost, Reported
from pdnas.tuning.folders import Folder, Folders, pack, unpack
from pdnas.tuning.work import Work, failure_of

if TYPE_CHECKING:
    from ray import ObjectRef

LOCAL = "local"
"""The address of a cluster of this machine, which lasts as long as the work."""

AUTO = "auto"
"""The address of the cluster that this machine belongs to."""

REMEDY = (
    "start one with 'ray start --head', give its --ray-address, or --ray-address local for one of "
    "this machine alone."
)
"""What to do where there is no cluster."""

ASKED = "where it asks for a token, as clusters of Ray do by default, set RAY_AUTH_MODE=token; "
"""What to do where Ray, which sends tokens nowhere unasked, may have sent none."""

STARTS = 3
"""How often a cluster is joined, or started, where it seems to be :data:`BUSY`."""

BUSY = ("timed out during startup", "Initialization failure from server")
"""What Ray says where a cluster of this machine, or the process that a client talks to, starts too
slowly or dies as it starts; the next one may not."""

LOOK = 2.0
"""Seconds after which the nodes of the cluster are counted again."""

GONE = 600.0
"""Seconds without any node that can do the work, after which nobody waits for one any more."""

AWAY = 60.0
"""Seconds without an answer after which a client gives up its connection, if Ray has not yet."""

ANSWER = 10.0
"""Seconds that an address has to answer."""

HEAD = "node:__internal_head__"
"""What only the head node of a cluster has: it lives as long as the cluster."""

STORE = 200 * 2**20
"""Bytes of shared memory that a cluster of this machine has, beside what the tasks take."""

ASKING = 10_000
"""Pieces of work that may wait for an answer at once."""

_NEARLY = 1e-6
"""What quotients may be off by: ten tenths are one."""


@dataclass(frozen=True)
class Share:
    """What a piece of work needs of a node.

    Args:
        threads: CPUs.
        gpus: GPUs, or a part of one.
    """

    threads: int = 1
    gpus: float = 0.0

    def __str__(self) -> str:
        gpus = f" and {self.gpus:g} GPU(s)" if self.gpus else ""
        return f"{self.threads} CPU(s){gpus}"

    def fits(self, resources: Mapping[str, float]) -> int:
        """How often a node with some resources has it."""
        times = int(resources.get("CPU", 0.0) / self.threads + _NEARLY)
        if not self.gpus:
            return times
        gpus = resources.get("GPU", 0.0)
        if self.gpus < 1:  # no part is of two GPUs
            return min(times, int(gpus + _NEARLY) * int(1 / self.gpus + _NEARLY))
        return min(times, int(gpus / self.gpus + _NEARLY))


@dataclass(frozen=True)
class _Order:
    """All that whoever does a piece of work is told.

    Args:
        key: Tells this try of this work from any other.
        work: What to do.
        folder: Where the work writes, if it does.
        device: Where to compute.
        threads: CPU threads.
        version: Of pdnas.
    """

    key: int
    work: Work
    folder: Folder | None
    device: str
    threads: int
    version: str = __version__


class _Watch(threading.Thread):
    """Gives up the connection of a client that is lost: Ray sometimes asks on for ever.

    Args:
        ray: The module.
    """

    def __init__(self, ray: Any) -> None:
        super().__init__(daemon=True)
        self._ray = ray
        self.over = threading.Event()

    def run(self) -> None:
        heard = time.monotonic()
        while not self.over.wait(LOOK):
            try:
                self._ray.nodes()
                heard = time.monotonic()
            except Exception:  # whatever it is, there was no answer
                if time.monotonic() - heard > AWAY:
                    self._ray.util.disconnect()
                    return


class RayExecutor(Executor):
    """Tasks on a Ray cluster. What is lost with a process or a node is reported as lost.

    Args:
        tasks: What the work is on, by name; put into the cluster's object store once.
        address: Of the cluster: ``auto``, ``host:port``, ``ray://host:port``, or ``local`` for one
            of this machine. Where this process is connected to Ray already, that is used.
        workers: How many pieces of work at a time; by default as many as the nodes have room for,
            which are counted again as they come and go. A cluster that has none yet gets time to
            add some where this says a number.
        gpus: Of each piece of work, or a part of one; without, it computes on CPUs.
        threads: CPUs, and CPU threads, of each.
        timeout: See :class:`Executor`.
    """

    def __init__(
        self,
        tasks: Mapping[str, GraphTask],
        *,
        address: str = AUTO,
        workers: int | None = None,
        gpus: float = 0.0,
        threads: int = 1,
        timeout: float | None = None,
    ) -> None:
        if workers is not None:
            check_workers(workers)
        super().__init__(timeout)
        self._ray = _import_ray()
        self._away = (self._ray.exceptions.RayError, ConnectionError, *_errors_of_clients())
        self._address, self._wanted, self._share = address, workers, Share(threads, gpus)
        stored = {name: pickle.dumps(task.to("cpu")) for name, task in tasks.items()}
        self._temporary: Path | None = None
        self._watch: _Watch | None = None
        self._is_ours = not self._ray.is_initialized()
        self._folders = Folders()
        self._keys = itertools.count()
        self._numbers: dict[int, int] = {}
        self._running: dict[ObjectRef[Any], int] = {}
        self._events: deque[Event] = deque()
        try:
            if self._is_ours:
                self._connect(STORE + 2 * sum(map(len, stored.values())))
                if address.startswith("ray://"):
                    self._watch = _Watch(self._ray)
                    self._watch.start()
            with self._connection():
                self._looked, self._fit = 0.0, time.monotonic()
                self._count()
                if not self._seen:
                    self._miss()
                share = {"num_cpus": threads, "num_gpus": gpus}
                self._do = self._ray.remote(max_retries=0, max_calls=0, **share)(_do)
                self._do_once = self._ray.remote(max_retries=0, max_calls=1, **share)(_do)
                self._tasks = {name: self._ray.put(content) for name, content in stored.items()}
                self._ray.cloudpickle.register_pickle_by_value(board)  # its holder needs no torch
                own = {"num_cpus": 0, "resources": {HEAD: 0.001}, "max_concurrency": ASKING}
                again = {"max_restarts": -1, "max_task_retries": -1}  # who waits for it asks again
                self._board = self._ray.remote(**own, **again)(board.Board).remote()
                self._news = self._board.news.remote()
        except BaseException:
            self._leave()
            raise

    @property
    def room(self) -> int:
        return self._wanted or max(1, self._seen)

    def start(self, number: int, work: Work) -> None:
        key = next(self._keys)
        order = _Order(
            key,
            work,
            None if work.folder is None else self._folders.offer(work.folder),
            "cuda" if self._share.gpus else "cpu",
            self._share.threads,
        )
        do = self._do_once if self._has_crowds else self._do
        with self._connection():
            self._running[do.remote(order, self._tasks, self._board)] = number
        self._numbers[key] = number

    def wait(self, seconds: float | None = None) -> Event | None:
        until = None if seconds is None else time.monotonic() + seconds
        before = self.room
        while not self._events:
            left = LOOK if until is None else min(LOOK, max(0.0, until - time.monotonic()))
            with self._connection():
                has_happened = self._listen(left)
            is_over = until is not None and time.monotonic() >= until
            with suppress(*self._away):  # it may come back; whoever listens is told if not
                self._count()
            if not has_happened and (is_over or self.room > before):
                return None
        return self._events.popleft()

    def answer(self, number: int, stop: bool) -> None:
        with self._connection():
            self._board.answer.remote(self._key_of(number), stop)

    def end(self, number: int) -> None:
        ref = next(ref for ref, other in self._running.items() if other == number)
        with self._connection():
            self._ray.cancel(ref, force=True)
        self._forget(ref)

    def close(self) -> None:
        with _undisturbed():
            self._close()

    def _close(self) -> None:
        try:
            if self._ray.is_initialized():  # else Ray would start a cluster
                with suppress(*self._away):
                    for ref in self._running:
                        self._ray.cancel(ref, force=True)
                    self._ray.cancel(self._news)  # else Ray says that it asks who is killed again
                    self._ray.kill(self._board)
        finally:
            self._running.clear()
            self._folders.close()
            self._leave()

    def _connect(self, memory: int) -> None:
        """Join the cluster, or start one of this machine."""
        logging.getLogger("ray").setLevel(logging.ERROR)
        place: dict[str, Any] = {"address": self._address}
        if self._address == LOCAL:
            self._temporary = Path(tempfile.mkdtemp(prefix="pdnas-"))
            place |= {
                "num_cpus": self._wanted and self._wanted * self._share.threads,
                "include_dashboard": False,
                "object_store_memory": memory,
                "_temp_dir": str(self._temporary),
                "_system_config": {"enable_metrics_collection": False},
            }
        _check_answers(self._address)
        _let_ray_print(False)
        for start in range(STARTS):
            try:
                with warnings.catch_warnings():  # what they say is in the error too
                    warnings.filterwarnings("ignore", module=r"ray\.")
                    self._ray.init(
                        **place,
                        log_to_driver=False,
                        configure_logging=False,
                        logging_level=logging.ERROR,
                    )
                return
            except Exception as error:  # Ray throws of any kind, plain ones among them
                if any(sign in str(error) for sign in BUSY) and start + 1 < STARTS:
                    continue
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                reason = " ".join(lines[:4]).rstrip(".")
                asked = "" if self._address == LOCAL else ASKED
                raise ExecutorError(
                    f"No Ray cluster can be used at '{self._address}' ({reason}); {asked}{REMEDY}"
                ) from None

    def _leave(self) -> None:
        try:
            if self._watch is not None:
                self._watch.over.set()
            if self._is_ours and self._ray.is_initialized():  # else there is nothing to leave
                self._ray.shutdown()
        finally:
            if self._is_ours:
                _let_ray_print(True)
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    @contextmanager
    def _connection(self) -> Iterator[None]:
        """Whatever Ray throws where the cluster, or the way to it, is gone is one sentence."""
        if not self._ray.is_initialized():  # else Ray would start a cluster now
            raise self._is_gone("the connection is lost")
        try:
            yield
        except Exception as error:
            if isinstance(error, self._away) or type(error) is Exception:  # Ray throws plain ones
                raise self._is_gone(error) from None
            raise

    def _count(self) -> None:
        """Count what the nodes have room for, every now and then."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self._seen = sum(self._share.fits(node) for node in self._nodes)
        # A process that has seen one GPU cannot change to another: it is used again only where
        # there is no other.
        several = any(node.get("GPU", 0.0) > 1 for node in self._nodes)
        self._has_crowds = bool(self._share.gpus) and several
        if self._seen:
            self._fit = now
        elif now - self._fit > GONE:
            raise ExecutorError(
                f"No node of the Ray cluster at '{self._address}' has had {self._share} for "
                f"{GONE / 60:g} minutes: {self._described()}; what is done is kept; go on when "
                "there is one."
            )

    def _described(self) -> str:
        """What the nodes have."""
        nodes = {
            f"{node.get('CPU', 0.0):g} CPU(s) and {node.get('GPU', 0.0):g} GPU(s)"
            for node in self._nodes
        }
        return f"{len(self._nodes)} node(s) with {', or '.join(sorted(nodes)) or 'nothing'}"

    def _key_of(self, number: int) -> int:
        """The last try of a piece of work."""
        return next(key for key, other in self._numbers.items() if other == number)

    def _forget(self, ref: "ObjectRef[Any]") -> int:
        """The number of a try that is over, and of which nothing more is to be heard."""
        number = self._running.pop(ref)
        del self._numbers[self._key_of(number)]
        self._events = deque(event for event in self._events if event.number != number)
        return number

    def _miss(self) -> None:
        """Refuse a cluster without a node that can do the work, or say that one is waited for."""
        needs = (
            f"A trial needs {self._share}, but no node of the Ray cluster at '{self._address}' has "
            f"that: {self._described()}; "
        )
        if self._wanted and self._address != LOCAL:
            wait = f"one is waited for, {GONE / 60:g} minutes at most."
            warnings.warn(needs + wait, RuntimeWarning, stacklevel=3)
            return
        raise ExecutorError(
            f"{needs}give other --threads or --gpus-per-trial, add a node first, or give --workers "
            "where nodes are added as they are needed."
        )

    def _listen(self, seconds: float) -> bool:
        """Wait for something to happen and take it in; whether anything did."""
        refs = [self._news, *self._running]
        ready, _ = self._ray.wait(refs, timeout=seconds, fetch_local=False)
        if not ready:
            return False
        if ready[0] in self._running:
            ended = self._ended(ready[0])
            self._events.append(ended)
        else:
            self._hear()
        return True

    def _hear(self) -> None:
        """Take in what work has told; what is ended or lost is heard no more."""
        news = self._ray.get(self._news)
        self._news = self._board.news.remote()
        for key, *report in news:
            if key in self._numbers:
                number = self._numbers[key]
                self._events.append(Reported(number, *report) if report else Began(number))

    def _ended(self, ref: "ObjectRef[Any]") -> Event:
        """What became of a piece of work that is over."""
        errors = self._ray.exceptions
        number = self._forget(ref)
        try:
            kind, outcome, folder, packed = self._ray.get(ref)
        except errors.RayTaskError as error:
            raise self._is_unfit(error.cause or error) from None
        except errors.OutOfMemoryError:
            return Lost(number, "Its node ran out of memory, and Ray ended its process.")
        except errors.NodeDiedError:
            return Lost(number, "Its node was removed, or died.")
        except errors.WorkerCrashedError:
            return Lost(number, "Its process died.")
        except errors.RayError as error:
            return Lost(number, f"{type(error).__name__}: {_first_line(error)}.")
        if kind == "unfit":
            raise self._is_unfit(outcome)
        if kind == "failed":
            return Failed(number, outcome)
        if packed is not None:
            unpack(packed, folder)
        return Done(number, outcome)

    def _is_unfit(self, reason: object) -> ExecutorError:
        return ExecutorError(
            f"The Ray cluster at '{self._address}' cannot do the work ({_first_line(reason)}); "
            f"install pdnas {__version__} and what it needs on all of its nodes."
        )

    def _is_gone(self, error: object) -> ExecutorError:
        return ExecutorError(
            f"The Ray cluster at '{self._address}' is gone ({_first_line(error)}); what is done is "
            "kept; go on when there is one."
        )


Came = tuple[str, Any, Path | None, bytes | None]
"""How a piece of work ended, what came out or why not, and its folder where it has to travel."""


def _do(order: _Order, tasks: "dict[str, ObjectRef[Any]]", board: Any) -> Came:
    """Do a piece of work, in a process of a node."""
    import ray

    if order.version != __version__:
        return "unfit", f"it has pdnas {__version__}", None, None
    work, folder, packed = order.work, order.folder, None

    def report(epoch: int, val: float) -> bool:
        stop: bool = ray.get(board.ask.remote(order.key, epoch, val))
        return stop

    try:
        ray.get(board.began.remote(order.key))  # its reports could overtake it
        torch.set_num_threads(order.threads)
        task = _task(tasks[work.task], order.device)
        if folder is None:
            return "done", work.do(task, report), None, None
        with folder.here() as place:
            outcome = work.within(place).do(task, report)
            packed = None if place == folder.path else pack(place)
        return "done", outcome, folder.path, packed
    except Exception as error:  # whatever happens in a trial is the trial's
        return "failed", failure_of(error), None, None


@cache
def _task(stored: "ObjectRef[Any]", device: str) -> GraphTask:
    """A task on its device; a process fetches it once."""
    import ray

    task: GraphTask = pickle.loads(ray.get(stored))  # noqa: S301 - put there by our own driver
    return task.to(str(find_device(device)))


def _import_ray() -> Any:
    """Ray, which says nothing of its own and tells nobody that it is used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise ExecutorError(
            "--executor ray needs Ray, which is not installed; run pip install 'pdnas[ray]'."
        ) from None
    return ray


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits: in the middle of the way out the exit code would be Ray's. Twice is enough."""
    if threading.current_thread() is not threading.main_thread():
        yield  # it goes to the main thread
        return
    came: list[int] = []

    def wait(number: int, _: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    before = signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _let_ray_print(allowed: bool) -> None:
    """Whether Ray prints what befalls its tasks, ``log_to_driver`` or not, where results go."""
    from ray._private import worker  # its debugger does this; there is no public way

    worker._worker_logs_enabled = allowed


def _errors_of_clients() -> tuple[type[Exception], ...]:
    """What clients of ``ray://`` throw beside errors of Ray, where they are installed."""
    try:
        from grpc import RpcError  # type: ignore[import-untyped]
    except ImportError:
        return ()
    return (RpcError,)


def _check_answers(address: str) -> None:
    """Refuse an address where nobody answers; Ray itself would try for minutes, or for ever."""
    meant = _remembered() if address == AUTO else address
    host, _, port = meant.removeprefix("ray://").rpartition(":")
    if not host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER).close()
    except (OSError, ValueError, OverflowError) as error:
        if address == AUTO:
            raise ExecutorError(
                f"No Ray cluster answers at '{meant}' ({error}), which this machine remembers; "
                f"{REMEDY}"
            ) from None
        raise ExecutorError(
            f"No Ray cluster answers at '{address}' ({error}); give the --ray-address of one, "
            "auto for the one that this machine belongs to, or local for one of this machine."
        ) from None


def _remembered() -> str:
    """The address of the cluster that this machine belongs to, or belonged to."""
    from ray._private import services  # what its init asks; there is no public way

    try:
        address: str = services.get_ray_address_from_environment(AUTO, None)
    except ConnectionError:
        raise ExecutorError(f"This machine belongs to no Ray cluster; {REMEDY}") from None
    return address


def _first_line(reason: object) -> str:
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(reason).__name__
