"""Whoever does many pieces of work: the interface that a place to run trials implements."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from pdnas.tuning.work import Work

P = ParamSpec("P")
R = TypeVar("R")

LONGEST = 1e6
"""Seconds of one wait: no system waits as long as some may ask for."""

TRIES = 2
"""How often a piece of work is begun, if whoever does it is lost each time."""


@dataclass(frozen=True)
class Began:
    """A piece of work has really begun: it waits for nobody any more.

    Args:
        number: Of the work.
    """

    number: int


@dataclass(frozen=True)
class Reported:
    """A piece of work tells how it does and waits for an answer.

    Args:
        number: Of the work.
        epoch: When.
        val: The best validation so far.
    """

    number: int
    epoch: int
    val: float


@dataclass(frozen=True)
class Done:
    """A piece of work is done.

    Args:
        number: Of the work.
        outcome: What came out.
    """

    number: int
    outcome: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """A piece of work threw, or cannot be done.

    Args:
        number: Of the work.
        reason: Why, in a line.
    """

    number: int
    reason: str


@dataclass(frozen=True)
class Lost:
    """Whoever did a piece of work is gone: the process died, or its whole machine.

    Args:
        number: Of the work.
        reason: What is known of it, in a sentence.
    """

    number: int
    reason: str


Event = Began | Reported | Done | Failed | Lost


@dataclass
class _UnderWay:
    """A piece of work, how often it was begun, until when it may take, and what it was told."""

    work: Work
    tries: int = 1
    until: float | None = None
    answers: dict[int, bool] = field(default_factory=dict)


class _Clock:
    """Seconds; it stands still while whoever asked for the work is busy."""

    def __init__(self) -> None:
        self._aside = 0.0

    @property
    def now(self) -> float:
        return time.monotonic() - self._aside

    def stopped(self, call: Callable[P, R]) -> Callable[P, R]:
        """The same call, which takes no time."""

        @wraps(call)
        def timeless(*values: P.args, **named: P.kwargs) -> R:
            before = time.monotonic()
            try:
                return call(*values, **named)
            finally:
                self._aside += time.monotonic() - before

        return timeless


class Executor(ABC):
    """A place where work is done, several pieces at a time; to be used as a context.

    Args:
        timeout: Seconds that a piece of work may take from when it really begins; none: any.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self._timeout = timeout

    @property
    @abstractmethod
    def room(self) -> int:
        """How many pieces of work there is room for now, at least one."""

    @abstractmethod
    def start(self, number: int, work: Work) -> None:
        """Begin a piece of work; there must be room for it."""

    @abstractmethod
    def wait(self, seconds: float | None = None) -> Event | None:
        """The next thing that happens; there must be work under way.

        Args:
            seconds: How long to wait at most, if not for ever; then nothing has happened, and
                neither where there may be more room than before.
        """

    @abstractmethod
    def answer(self, number: int, stop: bool) -> None:
        """Tell a piece of work that reported whether to stop."""

    @abstractmethod
    def end(self, number: int) -> None:
        """End a piece of work, whatever it does; nothing more is heard of it."""

    @abstractmethod
    def close(self) -> None:
        """End all work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def drive(
        self,
        supply: Callable[[], tuple[int, Work] | None],
        *,
        reported: Callable[[Reported], bool],
        finished: Callable[[Done | Failed], None],
    ) -> None:
        """Keep all workers busy until there is no more work.

        What is lost with whoever did it is begun again, :data:`TRIES` times in all; what it
        reports again is answered as before, and whoever asked for the work hears of it once. What
        takes too long is ended, and fails; that it is over already is heard before, and no time
        goes by while whoever asked for the work is busy.

        Args:
            supply: Asked for the next piece of work and its number whenever there is room.
            reported: Asked whether work that reports is to stop.
            finished: Told of work that is done, or failed.
        """
        clock = _Clock()
        supply, reported = clock.stopped(supply), clock.stopped(reported)
        finished = clock.stopped(finished)
        under_way: dict[int, _UnderWay] = {}

        def begin_time(number: int) -> None:
            if self._timeout is not None and under_way[number].until is None:
                under_way[number].until = clock.now + self._timeout

        while True:
            while len(under_way) < self.room and (following := supply()) is not None:
                number, work = following
                under_way[number] = _UnderWay(work)
                self.start(number, work)
            if not under_way:
                return
            match self.wait(_patience(under_way, clock.now)):
                case Began(number):
                    begin_time(number)
                case Reported(number, epoch) as event:
                    begin_time(number)
                    answers = under_way[number].answers
                    if epoch not in answers:
                        answers[epoch] = reported(event)
                    self.answer(number, answers[epoch])
                case Lost(number, reason):
                    piece = under_way[number]
                    if piece.tries < TRIES:
                        piece.tries, piece.until = piece.tries + 1, None
                        self.start(number, piece.work)
                    else:
                        del under_way[number]
                        finished(Failed(number, f"{reason} It was begun {TRIES} times."))
                case Done(number) | Failed(number) as event:
                    del under_way[number]
                    finished(event)
                case None:
                    for number in _overdue(under_way, clock.now):
                        del under_way[number]
                        self.end(number)
                        limit = f"--trial-timeout {self._timeout:g} seconds"
                        finished(Failed(number, f"It took longer than {limit} and was ended."))


def _patience(under_way: dict[int, _UnderWay], now: float) -> float | None:
    """Seconds to wait until the first piece of work is overdue; none: none ever is."""
    ends = [piece.until for piece in under_way.values() if piece.until is not None]
    return min(LONGEST, max(0.0, min(ends) - now)) if ends else None


def _overdue(under_way: dict[int, _UnderWay], now: float) -> list[int]:
    return [
        number
        for number, piece in under_way.items()
        if piece.until is not None and piece.until <= now
    ]
