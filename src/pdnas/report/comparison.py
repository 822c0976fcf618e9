"""Several runs side by side, and by how much they differ where they can be paired."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pdnas.report.parts import Table, percent
from pdnas.report.reading import Run
from pdnas.report.verdict import spent
from pdnas.runs import Difference, Scores


@dataclass(frozen=True)
class Pairing:
    """A run against the first one.

    Args:
        name: Of the run.
        first: Of the first one.
        val: How far its validation is ahead, in points of a hundred; none: they have no pairs.
        test: The same of its test.
        of: What a pair is of: trainings with one seed, or all of those on one split.
        reason: Why there are no pairs.
    """

    name: str
    first: str
    val: Difference | None = None
    test: Difference | None = None
    of: str = "trainings"
    reason: str = ""


def pair(first: Run, other: Run) -> Pairing:
    """The differences of trainings with the same seeds on the same split, wherever that lies.

    Trainings on one split are not independent of each other: of several splits each is one pair.
    """
    names = (other.name, first.name)
    ours, theirs = first.result, other.result
    if ours is None or theirs is None:
        missing = first if ours is None else other
        return Pairing(*names, reason=f"{missing.name} is not finished")
    if is_elsewhere(first, other):
        return Pairing(*names, reason=f"the tasks differ: {other.task_name}, {first.task_name}")
    if ours.metric != theirs.metric:
        return Pairing(*names, reason=f"the metrics differ: {theirs.metric}, {ours.metric}")
    if (ours.split.sha256, ours.split.members) != (theirs.split.sha256, theirs.split.members):
        return Pairing(*names, reason="the splits differ")
    if not set(ours.seeds) & set(theirs.seeds):
        return Pairing(*names, reason="no seed is in both")
    val = Difference.of(_ahead(theirs.val, theirs.seeds, ours.val, ours.seeds))
    test = Difference.of(_ahead(theirs.test, theirs.seeds, ours.test, ours.seeds))
    several = len(ours.split.members) > 1
    return Pairing(*names, val=val, test=test, of="splits" if several else "trainings")


def is_elsewhere(first: Run, other: Run) -> bool:
    """Whether runs are of different tasks: neither their names nor their data are the same."""
    if first.task_name == other.task_name:
        return False
    known = [run.result and run.result.data and run.result.data.sha256 for run in (first, other)]
    return known[0] is None or known[0] != known[1]


def told_apart(runs: Sequence[Run]) -> str:
    """Which run is the best by validation, and whether its trainings tell it from the next."""
    finished = [run for run in runs if run.result is not None]
    if not finished:
        return ""
    if len(comparable(finished)) > 1:
        return "They are of different tasks or metrics: figures of one say nothing of another."
    ranked = sorted(finished, key=lambda run: -_val(run).mean)
    best = ranked[0]
    words = f"By validation {best.name} is the best with {percent(_val(best).mean)} %"
    if len(ranked) == 1:
        return f"{words}, the only one that is finished."
    following = ranked[1]
    words += f", then {following.name} with {percent(_val(following).mean)} %"
    ahead = pair(following, best)
    if ahead.val is None:
        return f"{words}; the two cannot be paired: {ahead.reason}."
    tell = "which cannot be told" if ahead.val.is_noise else "which can be told"
    return (
        f"{words}: the two differ by {_told(ahead.val)}, {tell} from nothing with so many pairs of "
        f"{ahead.of}: {ahead.val.pairs}."
    )


def comparable(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs, gathered by task and metric, whatever order they are given in.

    An unfinished run whose metric is not known goes by its task, where that has one metric only.
    """
    gathered: list[list[int]] = []
    for place in sorted(range(len(runs)), key=lambda place: runs[place].metric is None):
        run = runs[place]
        near = [
            places for places in gathered if not all(is_elsewhere(runs[one], run) for one in places)
        ]
        alike = [places for places in near if runs[places[0]].metric == run.metric]
        if run.metric is None and not alike and len(near) == 1:
            alike = near
        gathered = [places for places in gathered if places not in alike]
        gathered.append(sorted([place, *chain.from_iterable(alike)]))
    return [[runs[place] for place in places] for places in sorted(gathered)]


def _val(run: Run) -> Scores:
    assert run.result is not None
    return run.result.val


def side_by_side(runs: Sequence[Run]) -> Table:
    """A row for each run."""
    rows = []
    for run in runs:
        result = run.result
        if result is None:
            rows.append((run.name, run.task_name, "not finished", *["-"] * 5))
            continue
        seconds, _ = spent(result)
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
        f"Differences to {pairings[0].first}, in points of a hundred, paired by split and seed",
        ("run", "validation", "test", "pairs"),
        tuple(
            (
                one.name,
                _told(one.val) if one.val else f"cannot be paired: {one.reason}",
                _told(one.test) if one.test else "-",
                f"{one.val.pairs} of {one.of}" if one.val else "0",
            )
            for one in pairings
        ),
    )


def _ahead(
    one: Scores, seeds: Sequence[int], other: Scores, other_seeds: Sequence[int]
) -> list[float]:
    """How far one is ahead, pair by pair, in points of a hundred; of several splits their means."""
    shared = [seed for seed in seeds if seed in other_seeds]
    by_split = [
        [
            100 * (one.values[i + seeds.index(seed)] - other.values[j + other_seeds.index(seed)])
            for seed in shared
        ]
        for i, j in zip(
            range(0, len(one.values), len(seeds)),
            range(0, len(other.values), len(other_seeds)),
            strict=True,
        )
    ]
    return by_split[0] if len(by_split) == 1 else [statistics.fmean(each) for each in by_split]


def _told(difference: Difference) -> str:
    if difference.interval is None:
        return f"{difference.mean:+.2f} (one pair: no interval)"
    low, high = difference.interval
    return f"{difference.mean:+.2f} (95 % interval {low:+.2f} to {high:+.2f})"
