"""Anytime curves: the best validation so far of any network trained on its own, against seconds."""

import time
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from pdnas.runs import Share, Trial
from pdnas.search import Search, SearchEpoch
from pdnas.watcher import Watcher

Seconds = Annotated[float, Field(gt=0, le=1e9)]
"""How long something took; more than thirty years are none."""

Point = tuple[Seconds, Share]
"""Seconds since the work began, and the best validation then."""


class Curve:
    """A curve that grows: a point for each time that something better is seen.

    Args:
        clock: Tells the seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self.began = clock, clock()
        self.points: list[Point] = []

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return self._clock() - self.began

    def note(self, val: float) -> None:
        """A network that is trained on its own has this validation now."""
        if not self.points or val > self.points[-1][1]:
            self.points.append((self.seconds, val))


class CurveWatcher(Watcher):
    """Draws the curve of a job, and counts the trainings of networks on their own.

    What weights say that several architectures share is no point of the curve.

    Args:
        curve: To be drawn.
    """

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.trainings = 0

    def searched(self, search: Search, epoch: SearchEpoch) -> None:  # noqa: ARG002
        if epoch.alone:
            self._trained(epoch.val)

    def tried(self, trial: Trial) -> None:
        self._trained(trial.val)

    def finished(self, val: float) -> None:
        """The network that was chosen is trained."""
        self._trained(val)

    def _trained(self, val: float) -> None:
        self.trainings += 1
        self.curve.note(val)


def reached(curve: Sequence[Point], val: float) -> float | None:
    """Seconds after which a curve is at a validation, or above it; none: it never is."""
    return next((seconds for seconds, best in curve if best >= val), None)


def value_at(curve: Sequence[Point], seconds: float) -> float | None:
    """The best validation after some seconds; none: there was nothing yet."""
    return max((best for when, best in curve if when <= seconds), default=None)
