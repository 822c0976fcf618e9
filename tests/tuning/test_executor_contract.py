"""Every place for work: what is done, fails, reports, is lost or hangs comes back the same way."""

import os
import time
from collections.abc import Callable, Mapping

import pytest
from tests.tuning.conftest import Deed, Open, wait_until_over

from pdnas.tuning.executor import TRIES, Began, Done, Executor, Failed, Reported

Ended = dict[int, Done | Failed]


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.ray)])
def open_executor(request: pytest.FixtureRequest) -> Open:
    """Opens an executor of each kind."""
    opened: Open = request.getfixturevalue(f"open_{request.param}")
    return opened


def drive(
    executor: Executor,
    deeds: Mapping[int, Deed],
    reported: Callable[[Reported], bool] = lambda _: False,
) -> Ended:
    """What became of some deeds, each of which is told once."""
    waiting, ended = list(deeds.items()), Ended()

    def finished(event: Done | Failed) -> None:
        assert event.number not in ended
        ended[event.number] = event

    executor.drive(
        lambda: waiting.pop(0) if waiting else None, reported=reported, finished=finished
    )
    return ended


def test_work_is_done_and_what_came_out_is_told(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    with open_executor() as executor:
        assert drive(executor, {7: deed("end")}) == {7: Done(7, {"task": "tiny", "asked": []})}


def test_work_that_throws_fails_with_its_reason_and_is_not_repeated(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    deeds = {number: deed(kind) for number, kind in enumerate(("refuse", "throw", "gobble"))}
    with open_executor() as executor:
        ended = drive(executor, deeds)
    reasons = [event.reason for _, event in sorted(ended.items()) if isinstance(event, Failed)]
    assert reasons[0] == "It rains."
    assert reasons[1].startswith("ValueError: It rained. (conftest.py, line ")
    assert reasons[2].startswith("RuntimeError: ")
    assert "memory" in reasons[2] or "overflow" in reasons[2]
    assert [work.times for work in deeds.values()] == [1, 1, 1]


def test_work_waits_for_the_answer_to_its_report(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    heard: list[Reported] = []

    def reported(event: Reported) -> bool:
        heard.append(event)
        return event.number == 1

    with open_executor() as executor:
        ended = drive(executor, {0: deed("ask"), 1: deed("ask", 1)}, reported)
    assert sorted(heard, key=lambda event: (event.number, event.epoch)) == [
        Reported(0, 1, 0.1),
        Reported(0, 2, 0.2),
        Reported(1, 1, 0.1),
    ]
    asked = [
        event.outcome["asked"] for _, event in sorted(ended.items()) if isinstance(event, Done)
    ]
    assert [[tuple(pair) for pair in pairs] for pairs in asked] == [
        [(1, False), (2, False)],
        [(1, True)],
    ]


def test_what_is_lost_is_done_again_and_asks_nobody_twice(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    heard: list[Reported] = []
    work = deed("die once")

    def hear(event: Reported) -> bool:
        heard.append(event)
        return False

    with open_executor() as executor:
        ended = drive(executor, {0: work}, hear)
    assert isinstance(ended[0], Done)
    assert heard == [Reported(0, 1, 0.1), Reported(0, 2, 0.2)]
    assert work.times == 2
    assert work.pids[0] != work.pids[1]


def test_what_is_always_lost_fails_in_the_end(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    work = deed("die")
    with open_executor() as executor:
        ended = drive(executor, {0: work, 1: deed("end")})
    assert isinstance(ended[0], Failed)
    assert ended[0].reason.startswith("Its process ")
    assert ended[0].reason.endswith(f" It was begun {TRIES} times.")
    assert isinstance(ended[1], Done)
    assert work.times == TRIES


def test_what_takes_too_long_is_ended_and_its_process_with_it(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    work, others = deed("hang"), {number: deed("end", number) for number in range(1, 5)}
    with open_executor(timeout=2.0) as executor:
        ended = drive(executor, {0: work, **others})
        wait_until_over(work.pids)
    assert ended.pop(0) == Failed(0, "It took longer than --trial-timeout 2 seconds and was ended.")
    assert all(isinstance(event, Done) for event in ended.values())
    assert work.times == 1


def test_nothing_is_heard_of_what_was_ended(open_executor: Open, deed: Callable[..., Deed]) -> None:
    """Not even what it said before that, together with others."""
    deeds = [deed("ask"), deed("ask", 1)]
    with open_executor() as executor:
        for number, work in enumerate(deeds):
            executor.start(number, work)
        for work in deeds:
            work.wait()
        time.sleep(1)  # until both have said that they began and how they do
        first = executor.wait()
        assert isinstance(first, Began)
        executor.end(1 - first.number)
        heard = []
        while not isinstance(event := executor.wait(), Done):
            assert event is not None
            heard.append(event)
            if isinstance(event, Reported):
                executor.answer(event.number, False)
    assert {event.number for event in heard} == {first.number}


def test_time_counts_from_when_work_begins(open_executor: Open, deed: Callable[..., Deed]) -> None:
    """One at a time, three pieces together take longer than the limit of each."""
    with open_executor(timeout=5.0, workers=1) as executor:
        began = time.monotonic()
        ended = drive(executor, {number: deed("labor", number) for number in range(3)})
    assert time.monotonic() - began > 5
    assert all(isinstance(event, Done) for event in ended.values())


def test_many_pieces_are_done_each_once(open_executor: Open, deed: Callable[..., Deed]) -> None:
    deeds = {number: deed("ask" if number % 3 else "end", number) for number in range(40)}
    with open_executor() as executor:
        ended = drive(executor, deeds)
    assert len(ended) == 40
    assert all(isinstance(event, Done) for event in ended.values())
    assert {work.times for work in deeds.values()} == {1}


def test_an_executor_is_used_again_with_the_same_numbers(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    with open_executor() as executor:
        for _ in range(2):
            assert isinstance(drive(executor, {0: deed("ask")})[0], Done)


def test_whatever_is_under_way_ends_with_the_context(
    open_executor: Open, deed: Callable[..., Deed]
) -> None:
    work = deed("hang")
    with open_executor() as executor:
        executor.start(0, work)
        work.wait()
    wait_until_over(work.pids)
    assert os.getpid() not in work.pids
