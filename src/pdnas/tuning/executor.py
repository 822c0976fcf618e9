"""Whoever does many pieces of work: the interface that a place to run trials implements."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pdnas.tuning.work import Work


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
    """A piece of work threw, or whoever did it died.

    Args:
        number: Of the work.
        reason: Why, in a line.
    """

    number: int
    reason: str


Event = Reported | Done | Failed


class Executor(ABC):
    """A place where work is done, several pieces at a time; to be used as a context.

    Args:
        workers: How many at a time.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @abstractmethod
    def start(self, number: int, work: Work) -> None:
        """Begin a piece of work; there must be a worker without any."""

    @abstractmethod
    def wait(self) -> Event:
        """The next thing that happens; there must be work under way."""

    @abstractmethod
    def answer(self, number: int, stop: bool) -> None:
        """Tell a piece of work that reported whether to stop."""

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

        Args:
            supply: Asked for the next piece of work and its number whenever a worker is free.
            reported: Asked whether work that reports is to stop.
            finished: Told of work that is done, or failed.
        """
        busy = 0
        while True:
            while busy < self.workers:
                following = supply()
                if following is None:
                    break
                self.start(*following)
                busy += 1
            if not busy:
                return
            event = self.wait()
            if isinstance(event, Reported):
                self.answer(event.number, reported(event))
            else:
                busy -= 1
                finished(event)
