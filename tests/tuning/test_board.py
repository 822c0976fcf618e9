"""What work tells is heard once and in order, and whoever asks goes on when it is answered."""

import asyncio

from pdnas.tuning.board import Board


def test_whoever_asks_waits_for_its_answer() -> None:
    async def play() -> tuple[list[object], bool, bool]:
        board = Board()
        first = asyncio.create_task(board.ask(7, 25, 0.5))
        second = asyncio.create_task(board.ask(8, 25, 0.25))
        heard = await board.news()
        await board.answer(8, True)
        assert not first.done()
        await board.answer(7, False)
        return [*heard], await first, await second

    heard, first, second = asyncio.run(play())
    assert heard == [(7, 25, 0.5), (8, 25, 0.25)]
    assert (first, second) == (False, True)


def test_an_answer_that_nobody_waits_for_is_none() -> None:
    """That of a question which a board before this one was asked; it will be asked again."""

    async def play() -> tuple[list[object], bool]:
        board = Board()
        await board.answer(7, True)
        asked = asyncio.create_task(board.ask(7, 25, 0.5))
        heard = await board.news()
        await board.answer(7, False)
        return [*heard], await asked

    assert asyncio.run(play()) == ([(7, 25, 0.5)], False)


def test_news_are_told_once_and_waited_for() -> None:
    async def play() -> list[object]:
        board = Board()
        await board.began(1)
        await board.began(2)
        first = await board.news()
        later = asyncio.create_task(board.news())
        await asyncio.sleep(0)
        assert not later.done()
        await board.began(3)
        return [first, await later]

    assert asyncio.run(play()) == [[(1,), (2,)], [(3,)]]
