"""All workers are busy as long as there is work, and whatever happens is told to whoever asks."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdnas.job import Job
from pdnas.tuning.executor import Done, Event, Executor, Failed, Reported
from pdnas.tuning.work import SearchWork, Work

WORK = SearchWork(task="task", job=Job(), run=Path("nowhere"))


class Scripted(Executor):
    """Says of each piece of work what was written down for it, the newest piece first.

    Args:
        workers: How many pieces at a time.
        script: What happens to each piece, its end last.
    """

    def __init__(self, workers: int, script: dict[int, list[Event]]) -> None:
        super().__init__(workers)
        self._script = {number: list(events) for number, events in script.items()}
        self.under_way: list[int] = []
        self.most = 0
        self.answers: list[tuple[int, bool]] = []
        self.closed = False

    def start(self, number: int, work: Work) -> None:
        self.under_way.append(number)
        self.most = max(self.most, len(self.under_way))

    def wait(self) -> Event:
        event = self._script[self.under_way[-1]].pop(0)
        if not isinstance(event, Reported):
            self.under_way.remove(event.number)
        return event

    def answer(self, number: int, stop: bool) -> None:
        self.answers.append((number, stop))

    def close(self) -> None:
        self.closed = True


def drive(executor: Executor, count: int) -> list[Done | Failed]:
    """What became of so many pieces of work; those that report 0 are told to stop."""
    waiting = list(range(count))
    ended: list[Done | Failed] = []

    def supply() -> tuple[int, Work] | None:
        return (waiting.pop(0), WORK) if waiting else None

    executor.drive(supply, reported=lambda event: event.val == 0, finished=ended.append)
    return ended


def test_without_work_it_is_over_at_once() -> None:
    assert drive(Scripted(2, {}), 0) == []


@given(count=st.integers(0, 12), workers=st.integers(1, 5), data=st.data())
def test_every_piece_is_done_once_and_all_workers_are_busy(
    count: int, workers: int, data: st.DataObject
) -> None:
    script: dict[int, list[Event]] = {}
    for number in range(count):
        reports = data.draw(st.lists(st.integers(0, 1), max_size=2))
        end = Failed(number, "why") if data.draw(st.booleans()) else Done(number, {"n": number})
        script[number] = [*(Reported(number, n, val) for n, val in enumerate(reports)), end]
    executor = Scripted(workers, script)
    ended = drive(executor, count)
    assert sorted(ended, key=lambda event: event.number) == [script[n][-1] for n in range(count)]
    assert executor.most == min(count, workers)
    reports_of = [event for events in script.values() for event in events[:-1]]
    assert sorted(executor.answers) == sorted(
        (event.number, event.val == 0) for event in reports_of if isinstance(event, Reported)
    )


def test_whoever_supplies_may_wait_for_others_to_finish() -> None:
    """A second round begins only when the first is over; nobody is forgotten meanwhile."""
    ended: list[int] = []

    def supply() -> tuple[int, Work] | None:
        begun = len(ended) + len(executor.under_way)
        if begun < 2:
            return begun, WORK
        return (2, WORK) if begun == len(ended) == 2 else None

    script: dict[int, list[Event]] = {number: [Done(number, {})] for number in range(3)}
    executor = Scripted(3, script)
    executor.drive(
        supply, reported=lambda _: False, finished=lambda event: ended.append(event.number)
    )
    assert ended == [1, 0, 2]
    assert executor.most == 2


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ValueError])
def test_all_work_ends_with_the_context(error: type[BaseException] | None) -> None:
    executor = Scripted(1, {})

    def use() -> Any:
        with executor as inside:
            assert inside is executor
            assert not executor.closed
            if error is not None:
                raise error

    if error is None:
        use()
    else:
        with pytest.raises(error):
            use()
    assert executor.closed
