"""All workers are busy as long as there is work, and whatever happens is told to whoever asks."""

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdnas.job import Job
from pdnas.tuning.executor import TRIES, Began, Done, Event, Executor, Failed, Lost, Reported
from pdnas.tuning.work import SearchWork, Work

WORK = SearchWork(task="task", job=Job(), run=Path("nowhere"))


class Scripted(Executor):
    """Says of each piece of work what was written down for it, the newest piece first.

    Args:
        workers: How many pieces at a time.
        script: What happens to each piece, its end last.
    """

    def __init__(
        self, workers: int, script: dict[int, list[Event]], timeout: float | None = None
    ) -> None:
        super().__init__(timeout)
        self.workers = workers
        self._script = {number: list(events) for number, events in script.items()}
        self.under_way: list[int] = []
        self.began: list[int] = []
        self.patience: list[float | None] = []
        self.most = 0
        self.answers: list[tuple[int, bool]] = []
        self.closed = False

    @property
    def room(self) -> int:
        return self.workers

    def start(self, number: int, work: Work) -> None:
        self.began.append(number)
        self.under_way.append(number)
        self.most = max(self.most, len(self.under_way))

    def wait(self, seconds: float | None = None) -> Event | None:
        self.patience.append(seconds)
        events = self._script[self.under_way[-1]]
        if not events:
            assert seconds is not None, "nothing would ever happen"
            time.sleep(seconds)
            return None
        event = events.pop(0)
        if not isinstance(event, Reported | Began):
            self.under_way.remove(event.number)
        return event

    def answer(self, number: int, stop: bool) -> None:
        self.answers.append((number, stop))

    def end(self, number: int) -> None:
        self.under_way.remove(number)
        self.began.append(-number)

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


def test_what_is_lost_is_begun_again_and_answered_as_before() -> None:
    lost: list[Event] = [Reported(1, 25, 0.5), Reported(1, 50, 0), Lost(1, "It died.")]
    again: list[Event] = [Reported(1, 25, 0.5), Reported(1, 50, 0), Done(1, {})]
    executor = Scripted(1, {1: [*lost, *again]})
    heard: list[int] = []
    work = iter([(1, WORK)])

    def reported(event: Reported) -> bool:
        heard.append(event.epoch)
        return event.val == 0

    ended: list[Done | Failed] = []
    executor.drive(lambda: next(work, None), reported=reported, finished=ended.append)
    assert executor.began == [1, 1]
    assert heard == [25, 50], "whoever asked for it hears of it once"
    assert executor.answers == [(1, False), (1, True)] * 2
    assert ended == [Done(1, {})]


def test_what_is_lost_too_often_fails() -> None:
    executor = Scripted(1, {0: [Lost(0, f"It died, {n}.") for n in range(TRIES)], 1: [Done(1, {})]})
    reason = f"It died, {TRIES - 1}. It was begun {TRIES} times."
    assert drive(executor, 2) == [Failed(0, reason), Done(1, {})]
    assert executor.began == [0] * TRIES + [1]


def test_what_takes_too_long_is_ended_and_fails() -> None:
    executor = Scripted(1, {0: [Began(0)], 1: [Began(1), Done(1, {})]}, timeout=0.05)
    failed = Failed(0, "It took longer than --trial-timeout 0.05 seconds and was ended.")
    assert drive(executor, 2) == [failed, Done(1, {})]
    assert executor.began == [0, -0, 1]


def test_time_counts_from_when_work_begins_each_time() -> None:
    script: list[Event] = [Began(0), Lost(0, "It died."), Began(0), Done(0, {})]
    executor = Scripted(1, {0: script}, timeout=60.0)
    assert drive(executor, 1) == [Done(0, {})]
    first, began, lost, again = executor.patience
    assert (first, lost) == (None, None), "what waits for its turn has time"
    assert began is not None
    assert again is not None
    assert 59 < again <= 60


def test_more_is_asked_for_as_soon_as_there_is_more_room() -> None:
    class Growing(Scripted):
        def wait(self, seconds: float | None = None) -> Event | None:
            if self.workers == 1:
                self.workers = 3
                return None
            return super().wait(seconds)

    executor = Growing(1, {number: [Done(number, {})] for number in range(4)})
    assert len(drive(executor, 4)) == 4
    assert executor.most == 3


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
