"""How rivals stand to each other: means over seeds, paired differences, and who was first."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from pdnas import __version__
from pdnas.compare.curve import Point, reached
from pdnas.compare.work import Attempt
from pdnas.runs import Difference, Record, Scores


class Catch(Record):
    """How soon the first strategy was as good as a rival came to be, seed by seed.

    Args:
        seconds: After how many seconds, on average; none: with no seed.
        rival_seconds: After how many the rival had its answer, with the same seeds.
        rival_first: After how many the rival itself had trained some network as good as that.
        times: With how many seeds.
        seeds: Of how many.
    """

    seconds: float | None = None
    rival_seconds: float | None = None
    rival_first: float | None = None
    times: int
    seeds: int

    @classmethod
    def of(
        cls,
        first: Sequence[Sequence[Point]],
        rival: Sequence[Sequence[Point]],
        vals: Sequence[float],
        ends: Sequence[float],
    ) -> "Catch":
        """Compare curves of the same seeds, in the same order.

        Args:
            first: Curves of the first strategy.
            rival: Those of the rival.
            vals: What the rival came to.
            ends: After how many seconds it had that.
        """
        found = []
        for ours, theirs, val, end in zip(first, rival, vals, ends, strict=True):
            own, other = reached(ours, val), reached(theirs, val)
            if own is not None and other is not None:
                found.append((own, end, other))
        if not found:
            return cls(times=0, seeds=len(vals))
        seconds, rival_seconds, rival_first = map(statistics.fmean, zip(*found, strict=True))
        return cls(
            seconds=seconds,
            rival_seconds=rival_seconds,
            rival_first=rival_first,
            times=len(found),
            seeds=len(vals),
        )

    def __str__(self) -> str:
        if self.seconds is None or self.rival_seconds is None or self.rival_first is None:
            return "never"
        ratio, when = self.rival_seconds / self.seconds, "sooner"
        if ratio < 1:
            ratio, when = 1 / ratio, "later"
        some = f" ({self.times} of {self.seeds} seeds)" if self.times < self.seeds else ""
        return (
            f"{self.seconds:.1f} s{some}, {ratio:.1f} times {when} than its answer; it had one "
            f"after {self.rival_first:.1f} s"
        )


class Standing(Record):
    """A rival over all seeds.

    Args:
        rival: Its name.
        kind: What it is.
        val: Validation of what it chose, seed by seed.
        test: Test of that.
        parameters: Mean number of weights.
        trainings: Mean number of trainings of networks on their own.
        seconds: Mean time of everything.
        difference: Its validation minus the first strategy's, paired by seed, in points of a
            hundred; none for the first.
        caught: How soon the first strategy was as good; none for the first.
    """

    rival: str
    kind: Literal["strategy", "baseline"]
    val: Scores
    test: Scores
    parameters: float
    trainings: float
    seconds: float
    difference: Difference | None = None
    caught: Catch | None = None

    @classmethod
    def of(
        cls,
        rival: Sequence[Attempt],
        first: Sequence[Attempt],
        kind: Literal["strategy", "baseline"],
    ) -> "Standing":
        """Sum up the attempts of a rival, beside those of the first strategy, sorted by seed."""
        about: dict[str, object] = {}
        if rival[0].rival != first[0].rival:
            pairs = zip(rival, first, strict=True)
            ahead = [100 * (theirs.val - ours.val) for theirs, ours in pairs]
            curves = [[one.curve for one in attempts] for attempts in (first, rival)]
            vals, ends = [one.val for one in rival], [one.seconds for one in rival]
            caught = Catch.of(curves[0], curves[1], vals, ends)
            about = {"difference": Difference.of(ahead), "caught": caught}
        return cls.model_validate(
            {
                "rival": rival[0].rival,
                "kind": kind,
                "val": Scores.of([one.val for one in rival]),
                "test": Scores.of([one.test for one in rival]),
                "parameters": statistics.fmean(one.parameters for one in rival),
                "trainings": statistics.fmean(one.trainings for one in rival),
                "seconds": statistics.fmean(one.seconds for one in rival),
                **about,
            }
        )

    def cells(self) -> list[str]:
        """Its row of the table."""
        return [
            self.rival,
            str(self.val),
            str(self.test),
            f"{self.parameters:,.0f}",
            f"{self.trainings:.1f}".removesuffix(".0"),
            f"{self.seconds:.1f}",
            "-" if self.difference is None else _written(self.difference),
            "-" if self.caught is None else str(self.caught),
        ]


class Verdict(Record):
    """What a comparison came to: ``result.json`` of its folder.

    Args:
        task: On what.
        note: What must be said beside every figure on it.
        metric: What the scores mean.
        split: On which kind of split.
        split_sha256: Its fingerprint.
        space: Where strategies searched.
        blocks: Depths that they searched.
        hidden: Hidden sizes that they searched.
        max_parameters: Weights that what they choose may have.
        recipe: How the shared recipe is used: for all, or where a rival has none of its own.
        budget_seconds: How long every rival had with every seed.
        budget_trials: Trainings that every strategy had for its choice.
        seeds: Of the attempts.
        workers: How many attempts ran side by side; none: as many as a Ray cluster had room for.
        executor: Who did them.
        threads: CPU threads of each.
        device: Where.
        device_name: What that is.
        standings: The rivals, the first strategy first.
        warnings: What went wrong, a sentence each.
        version: Of pdnas.
    """

    task: str
    note: str
    metric: str
    split: str
    split_sha256: str
    space: str
    blocks: tuple[int, ...]
    hidden: tuple[int, ...]
    max_parameters: int | None
    recipe: Literal["own", "shared"]
    budget_seconds: float | None
    budget_trials: int | None
    seeds: tuple[int, ...]
    workers: int | None
    executor: Literal["local", "ray"] = "local"
    threads: int
    device: str
    device_name: str
    standings: tuple[Standing, ...]
    warnings: tuple[str, ...] = ()
    version: str = __version__

    @property
    def named(self) -> str:
        """The task, with what must be said wherever a figure on it is printed."""
        return f"{self.task} ({self.note})" if self.note else self.task

    @property
    def title(self) -> str:
        """What the table shows."""
        over = seeds_of(self.seeds)
        return f"{self.named}: {self.metric} in %, mean ± standard deviation over {over}"

    def rows(self) -> list[list[str]]:
        """The table, its header first."""
        first = self.standings[0].rival
        header = [
            "rival",
            "validation",
            "test",
            "parameters",
            "trainings",
            "seconds",
            f"validation minus {first}'s, 95 % interval",
            f"{first} was as good after",
        ]
        return [header, *(standing.cells() for standing in self.standings)]

    def conditions(self) -> str:
        """What was the same for all, in a few sentences."""
        limits = []
        if self.budget_seconds is not None:
            limits.append(f"{self.budget_seconds:g} s in all")
        if self.budget_trials is not None:
            limits.append(f"{self.budget_trials} trainings for its choice")
        own = "its own recipe where there is one of its name, else the shared one"
        size = f", {self.max_parameters:,} parameters at most" if self.max_parameters else ""
        return (
            f"One split: {self.split}, sha256 {self.split_sha256}. "
            f"With each seed a rival had {' and '.join(limits) or 'as long as it took'}. "
            f"Strategies searched the space {self.space}, {_listed(self.blocks)} blocks, hidden "
            f"size {_listed(self.hidden)}{size}; baselines have their own shape. "
            f"Every rival was trained by {own if self.recipe == 'own' else 'the shared recipe'}. "
            f"On {self.device} ({self.device_name}), {self._crowd()} with "
            f"{self.threads} thread(s) each. Validation chose; the test part was read once for "
            "what was chosen. The intervals are over seeds on this split, not over splits."
        )

    def _crowd(self) -> str:
        """How many attempts ran side by side, and where."""
        if self.workers is None:
            return "as many at a time as the Ray cluster had room for"
        return f"{self.workers} at a time" + " on a Ray cluster" * (self.executor == "ray")

    def markdown(self) -> str:
        """The table and its conditions."""
        header, *rows = self.rows()
        lines = [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]
        warned = [f"\nWarning: {warning}" for warning in self.warnings]
        return "\n".join([f"{self.title}\n", *lines, "", self.conditions(), *warned, ""])


def _written(difference: Difference) -> str:
    if difference.interval is None:
        return f"{difference.mean:+.2f}"
    low, high = difference.interval
    return f"{difference.mean:+.2f} ({low:+.2f} to {high:+.2f})"


def seeds_of(seeds: Sequence[int]) -> str:
    """How many seeds, and which, in words."""
    if len(seeds) == 1:
        return f"one seed, {seeds[0]}"
    return f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}"


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def grouped(done: Mapping[str, Attempt], rivals: Sequence[str]) -> dict[str, list[Attempt]]:
    """The attempts of each rival, sorted by seed."""
    return {
        rival: sorted(
            (attempt for attempt in done.values() if attempt.rival == rival),
            key=lambda attempt: attempt.seed,
        )
        for rival in rivals
    }
