"""A metric over several trainings, and how far one network is ahead of another."""

import math
import statistics
from collections.abc import Sequence

from scipy.special import stdtrit

from pdnas.runs.record import Figure, Record


class Scores(Record):
    """A metric over several trainings.

    Args:
        mean: Of the values.
        std: Sample standard deviation; 0 for a single value.
        interval: 95 % confidence interval of the mean, Student's t; none for a single value. With
            several splits it is that of the splits' means: seeds on one split are not independent.
        values: One per training, split by split, in the order of the seeds.
    """

    mean: Figure
    std: Figure
    interval: tuple[Figure, Figure] | None
    values: tuple[Figure, ...]

    @classmethod
    def of(cls, values: Sequence[float], splits: int = 1) -> "Scores":
        """Summarize the values, between 0 and 1, of as many trainings on each of some splits."""
        mean, each = statistics.fmean(values), len(values) // splits
        if len(values) == 1:
            return cls(mean=mean, std=0.0, interval=None, values=tuple(values))
        sample = list(values)
        if splits > 1:
            sample = [statistics.fmean(values[i : i + each]) for i in range(0, len(values), each)]
        half = half_width(sample)
        return cls(
            mean=mean,
            std=statistics.stdev(values),
            interval=(max(mean - half, 0.0), min(mean + half, 1.0)),
            values=tuple(values),
        )

    def __str__(self) -> str:
        """In percent."""
        spread = f" ± {100 * self.std:.2f}" if self.interval else ""
        return f"{100 * self.mean:.2f}{spread}"


class Difference(Record):
    """By how much one is ahead of another, pair by pair: the same split, or the same seed.

    Args:
        mean: Of the differences.
        interval: 95 % confidence interval of the mean, Student's t; none for a single pair.
        pairs: How many there are.
    """

    mean: float
    interval: tuple[float, float] | None
    pairs: int

    @classmethod
    def of(cls, differences: Sequence[float]) -> "Difference":
        """Sum up what each pair differs by."""
        mean, pairs = statistics.fmean(differences), len(differences)
        if pairs == 1:
            return cls(mean=mean, interval=None, pairs=pairs)
        half = half_width(differences)
        return cls(mean=mean, interval=(mean - half, mean + half), pairs=pairs)

    @classmethod
    def between(cls, one: Scores, other: Scores, places: Sequence[tuple[int, int]]) -> "Difference":
        """How far one is ahead, in points of a hundred.

        Args:
            one: The one.
            other: The other.
            places: Of the values that are a pair, in the one and in the other.
        """
        return cls.of([100 * (one.values[i] - other.values[j]) for i, j in places])

    @property
    def is_noise(self) -> bool:
        """Whether so few pairs cannot tell who is ahead: the interval holds 0, or there is none."""
        return self.interval is None or self.interval[0] <= 0.0 <= self.interval[1]


def half_width(sample: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of a mean, Student's t."""
    error = statistics.stdev(sample) / math.sqrt(len(sample))
    return float(stdtrit(len(sample) - 1, 0.975)) * error
