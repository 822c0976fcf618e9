"""Trainings that need not be finished, because others are better already."""

from collections.abc import Sequence

from pdnas.training.fit import Epoch

RUNGS = (1 / 4,)
"""Parts of a training after which a candidate must keep up with those before it; what it is after
a sixteenth or an eighth says little of what it comes to."""

KEEP_UP = 3
"""It must be as good there as the worst of so many best ones."""


class Race:
    """Whether a training keeps up with earlier ones, asked at a few epochs.

    Args:
        others: The best validation of each earlier training at the epochs that it reached.
        epochs: Of a whole training.
        grace: At how many of these epochs it need not keep up: networks learn at different speeds.
    """

    def __init__(self, others: Sequence[tuple[float, ...]], epochs: int, *, grace: int = 0) -> None:
        self._others, self._epochs, self._grace = others, epochs, grace
        self._best = 0.0
        self.rungs: tuple[float, ...] = ()

    def falls_behind(self, epoch: Epoch) -> bool:
        """Whether so many others were better at this epoch that the training may end."""
        self._best = max(self._best, epoch.val)
        place = len(self.rungs)
        if place == len(RUNGS) or epoch.epoch + 1 < RUNGS[place] * self._epochs:
            return False
        self.rungs = (*self.rungs, self._best)
        reached = sorted(
            (rungs[place] for rungs in self._others if len(rungs) > place), reverse=True
        )
        judged = place >= self._grace and len(reached) >= KEEP_UP
        return judged and self._best < reached[KEEP_UP - 1]
