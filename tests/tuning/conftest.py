"""A network to tune, and a place to do work that is this process."""

from collections.abc import Callable

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import PdnasError
from pdnas.tasks import GraphTask
from pdnas.tuning.executor import Done, Event, Executor, Failed, Reported
from pdnas.tuning.work import Work, reason_of


@pytest.fixture(scope="session")
def architecture() -> Architecture:
    """A block without learned attention."""
    return Architecture(blocks=(BlockSpec(expansion=0),))


class Here(Executor):
    """Does work in this process, each piece as soon as it is supplied.

    Args:
        task: What all work is on.
    """

    def __init__(self, task: GraphTask) -> None:
        super().__init__(workers=1)
        self._task = task

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
                outcome = work.do(self._task, report)
            except PdnasError as error:
                finished(Failed(number, reason_of(error)))
            else:
                finished(Done(number, outcome))

    def start(self, number: int, work: Work) -> None:
        raise NotImplementedError

    def wait(self) -> Event:
        raise NotImplementedError

    def answer(self, number: int, stop: bool) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def here(tiny_task: GraphTask) -> Executor:
    """Work on the tiny task, in this process."""
    return Here(tiny_task)
