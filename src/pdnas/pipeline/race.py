"""Trainings that need not be finished, because others are better already."""

from collections.abc import Sequence

from pdnas.training.fit import Epoch

RUNG = 1 / 4
"""The part of a training after which a candidate must keep up with those before it; what it is
after a sixteenth or an eighth says little of what it comes to."""

KEEP_UP = 3
"""It must be as good there as the worst of so many best ones."""


class Race:
    """Whether a training keeps up with earlier ones, asked at one of its epochs.

    Args:
        others: The best validation until then of each earlier training, if it came so far; without
            others a training never falls behind.
        epochs: Of a whole training.
    """

    def __init__(self, others: Sequence[tuple[float, ...]], epochs: int) -> None:
        self._others, self._epochs = others, epochs
        self._best = 0.0
        self.rungs: tuple[float, ...] = ()

    def falls_behind(self, epoch: Epoch) -> bool:
        """Whether so many others were better at this epoch that the training may end."""
        self._best = max(self._best, epoch.val)
        if self.rungs or epoch.epoch + 1 < RUNG * self._epochs:
            return False
        self.rungs = (self._best,)
        reached = sorted((rungs[-1] for rungs in self._others if rungs), reverse=True)
        return len(reached) >= KEEP_UP and self._best < reached[KEEP_UP - 1]
