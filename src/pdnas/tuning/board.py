"""Where work on a cluster asks whether to stop, and whoever handed it out hears and answers."""

import asyncio
from typing import Any


class Board:
    """Held by a process of its own, which needs nothing but what stands here.

    Where that process dies, as where a node runs out of memory, another one begins with an empty
    board, and whoever was waiting for an answer asks again.
    """

    def __init__(self) -> None:
        self._told: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[bool]] = {}

    async def began(self, key: int) -> None:
        """A piece of work has begun."""
        self._told.put_nowait((key,))

    async def ask(self, key: int, epoch: int, val: float) -> bool:
        """A piece of work reports, and waits for whether to stop."""
        self._answers[key] = asyncio.get_running_loop().create_future()
        self._told.put_nowait((key, epoch, val))
        return await self._answers[key]

    async def answer(self, key: int, stop: bool) -> None:
        """Let a piece of work go on, or stop; if it has yet to ask again, it is answered then."""
        if key in self._answers:
            self._answers.pop(key).set_result(stop)

    async def news(self) -> list[tuple[Any, ...]]:
        """All that was told since the last time, as soon as there is something."""
        news = [await self._told.get()]
        while not self._told.empty():
            news.append(self._told.get_nowait())
        return news
