"""What commands say of pieces of work that go on where they stopped."""

import sys
from collections.abc import Callable

from pdnas.tuning.pieces import PieceWatcher, R


class Lines(PieceWatcher[R]):
    """A line on stderr for each piece of work that begins, is done or fails.

    Args:
        told: What is said of one that is done.
    """

    def __init__(self, told: Callable[[R], str]) -> None:
        self._told = told

    def began(self, key: str) -> None:
        print(f"{key} begins", file=sys.stderr)

    def done(self, key: str, outcome: R) -> None:
        print(f"{key}: {self._told(outcome)}", file=sys.stderr)

    def failed(self, key: str, reason: str) -> None:
        print(f"{key} failed: {reason}", file=sys.stderr)


def stopped() -> int:
    """Say how to go on after Ctrl-C; the exit code."""
    print("pdnas: stopped; the same command goes on where it stopped.", file=sys.stderr)
    return 130
