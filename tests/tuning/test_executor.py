"""All workers are busy as long as there is work, and whatever happens is told to whoever asks."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdnas.job import Job
from pdnas.tuning import executor as module
from pdnas.tuning.executor import (
    LONGEST,
    TRIES,
    Began,
    Done,
    Event,
    Executor,
    Failed,
    Lost,
    Reported,
)
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


class Clock:
    """Seconds that go by only when somebody takes them."""

    def __init__(self) -> None:
        self.now = 100.0

    def take(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    patched = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(module, "time", patched)
    return clock


class Waiting(Scripted):
    """Says what happens in the order that it is written down in, and then that nothing does.

    Args:
        events: What happens, as soon as anyone listens.
        clock: Goes on where nothing happens.
        timeout: See :class:`Executor`.
        slow: Seconds that it takes to hear of a beginning.
    """

    def __init__(
        self, events: list[Event], clock: Clock, *, timeout: float, slow: float = 0.0
    ) -> None:
        super().__init__(2, {}, timeout)
        self._events, self._clock, self._slow = events, clock, slow

    def wait(self, seconds: float | None = None) -> Event | None:
        self.patience.append(seconds)
        if self._events:
            event = self._events.pop(0)
            self._clock.take(self._slow * isinstance(event, Began))
            if not isinstance(event, Reported | Began):
                self.under_way.remove(event.number)
            return event
        assert seconds is not None, "nothing would ever happen"
        self._clock.take(seconds)
        return None


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


def test_no_wait_is_longer_than_a_system_can_wait() -> None:
    executor = Scripted(1, {0: [Began(0), Done(0, {})]}, timeout=1e300)
    assert drive(executor, 1) == [Done(0, {})]
    assert executor.patience == [None, LONGEST]


def test_time_counts_from_when_work_begins_each_time() -> None:
    script: list[Event] = [Began(0), Lost(0, "It died."), Began(0), Done(0, {})]
    executor = Scripted(1, {0: script}, timeout=60.0)
    assert drive(executor, 1) == [Done(0, {})]
    first, began, lost, again = executor.patience
    assert (first, lost) == (None, None), "what waits for its turn has time"
    assert began is not None
    assert again is not None
    assert 59 < again <= 60


LATE = "It took longer than --trial-timeout 10 seconds and was ended."


@pytest.mark.parametrize("busy", ["supply", "reported", "finished"])
def test_time_stands_still_while_whoever_asked_for_the_work_is_busy(
    clock: Clock, busy: str
) -> None:
    """A database that is away keeps nobody from hearing of what is done, nor ends what waits."""
    events: list[Event] = [Began(0), Began(1), Reported(0, 1, 0.5), Done(1, {}), Began(2)]
    executor = Waiting(events, clock, timeout=10.0)
    waiting, ended = [0, 1, 2], list[Done | Failed]()

    def supply() -> tuple[int, Work] | None:
        clock.take(300.0 * (busy == "supply"))
        return (waiting.pop(0), WORK) if waiting else None

    def reported(event: Reported) -> bool:
        clock.take(300.0 * (busy == "reported"))
        return False

    def finished(event: Done | Failed) -> None:
        clock.take(300.0 * (busy == "finished"))
        ended.append(event)

    executor.drive(supply, reported=reported, finished=finished)
    assert ended == [Done(1, {}), Failed(0, LATE), Failed(2, LATE)]
    assert executor.patience == [None, 10, 10, 10, 10, 10]


def test_what_has_ended_meanwhile_is_heard_before_anything_is_overdue(clock: Clock) -> None:
    """Whoever hands out work was slow itself; of two pieces one had ended, the other hangs."""
    executor = Waiting([Began(0), Began(1), Done(0, {})], clock, timeout=10.0, slow=20.0)
    assert drive(executor, 2) == [Done(0, {}), Failed(1, LATE)]


def test_whoever_reports_has_begun(clock: Clock) -> None:
    """What was said of its beginning may be lost with whoever heard it."""
    executor = Waiting([Reported(0, 1, 0.5)], clock, timeout=10.0)
    assert drive(executor, 1) == [Failed(0, LATE)]


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
