"""Several runs side by side, and by how much they differ where they can be paired."""

from collections.abc import Sequence
from dataclasses import dataclass

from pdnas.report.parts import Table
from pdnas.report.reading import Run
from pdnas.runs import Difference, Result


@dataclass(frozen=True)
class Pairing:
    """A run against the first one.

    Args:
        name: Of the run.
        first: Of the first one.
        val: How far its validation is ahead, in points of a hundred; none: they have no pairs.
        test: The same of its test.
        reason: Why there are no pairs.
    """

    name: str
    first: str
    val: Difference | None = None
    test: Difference | None = None
    reason: str = ""


def pair(first: Run, other: Run) -> Pairing:
    """The differences of trainings with the same seeds on the same split."""
    names = (other.name, first.name)
    ours, theirs = first.result, other.result
    if ours is None or theirs is None:
        missing = first if ours is None else other
        return Pairing(*names, reason=f"{missing.name} is not finished")
    if ours.task != theirs.task:
        return Pairing(*names, reason=f"the tasks differ: {theirs.task}, {ours.task}")
    if ours.metric != theirs.metric:
        return Pairing(*names, reason=f"the metrics differ: {theirs.metric}, {ours.metric}")
    if ours.split.sha256 != theirs.split.sha256:
        return Pairing(*names, reason="the splits differ")
    mine, yours = _values(ours), _values(theirs)
    shared = [key for key in mine if key in yours]
    if not shared:
        return Pairing(*names, reason="no seed is in both")
    val, test = (
        Difference.of([100 * (yours[key][part] - mine[key][part]) for key in shared])
        for part in (0, 1)
    )
    return Pairing(*names, val=val, test=test)


def side_by_side(runs: Sequence[Run]) -> Table:
    """A row for each run."""
    rows = []
    for run in runs:
        result = run.result
        if result is None:
            rows.append((run.name, run.task_name, "not finished", *["-"] * 5))
            continue
        seconds = result.search_seconds + result.tune_seconds + result.train_seconds
        seconds += result.search.candidate_seconds if result.search else 0.0
        how = result.strategy or f"{run.settings.get('name', 'training')}, not searched"
        rows.append(
            (
                run.name,
                run.task_name,
                how,
                str(result.val),
                str(result.test),
                f"{result.parameters:,}",
                f"{seconds:.1f}",
                str(result.architecture),
            )
        )
    return Table(
        "Runs side by side, scores in %, mean ± standard deviation",
        ("run", "task", "strategy", "validation", "test", "parameters", "seconds", "network"),
        tuple(rows),
    )


def difference_table(pairings: Sequence[Pairing]) -> Table:
    """A row for each run but the first."""
    return Table(
        f"Differences to {pairings[0].first}, in points of a hundred, paired by seed",
        ("run", "validation", "test", "pairs"),
        tuple(
            (
                one.name,
                _told(one.val) if one.val else f"cannot be paired: {one.reason}",
                _told(one.test) if one.test else "-",
                str(one.val.pairs) if one.val else "0",
            )
            for one in pairings
        ),
    )


def _values(result: Result) -> dict[tuple[int, int], tuple[float, float]]:
    """Validation and test of each training, by the place of its split and by its seed."""
    keys = [(split, seed) for split in range(len(result.split.members)) for seed in result.seeds]
    return dict(zip(keys, zip(result.val.values, result.test.values, strict=True), strict=True))


def _told(difference: Difference) -> str:
    if difference.interval is None:
        return f"{difference.mean:+.2f} (one pair: no interval)"
    low, high = difference.interval
    return f"{difference.mean:+.2f} (95 % interval {low:+.2f} to {high:+.2f})"
