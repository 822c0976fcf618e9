"""What came out in a sentence and a few figures, beside the controls."""

from dataclasses import dataclass

from pdnas.report.parts import Table, percent
from pdnas.report.reading import Run
from pdnas.runs import Control, Difference, Result, Scores


@dataclass(frozen=True)
class Verdict:
    """What the page begins with.

    Args:
        title: Of the page.
        sentence: What came out, and how that compares.
        tiles: Figures: what, how much, and what to know of it.
        table: The network beside the controls; none if there are none.
    """

    title: str
    sentence: str
    tiles: tuple[tuple[str, str, str], ...]
    table: Table | None = None


def read_verdict(run: Run) -> Verdict:
    """What came out of a run so far."""
    if run.result is None:
        return _unfinished(run)
    result = run.result
    seconds = result.search_seconds + result.tune_seconds + result.train_seconds
    if result.search is not None:
        seconds += result.search.candidate_seconds
    runs = len(result.test.values)
    noted = f" ({result.note})" if result.note else ""
    what = f"The {run.settings.get('name', 'network')} network"
    if result.search is not None:
        what = f"The network found for {run.task_name}{noted}"
    where = "" if result.search is not None else f" on {run.task_name}{noted}"
    sentence = (
        f"{what}{where} reaches {result.metric} {percent(result.test.mean)} % on test"
        f"{_sure(result.test)}, over {trainings(runs)}, with "
        f"{result.parameters:,} parameters, after {seconds:.0f} s in all. {against(result)}"
    )
    return Verdict(
        title=f"{run.task_name}: {result.strategy or run.settings.get('name', 'training')}",
        sentence=sentence.strip(),
        tiles=(
            (f"test {result.metric}, %", percent(result.test.mean), _range(result.test)),
            (f"validation {result.metric}, %", percent(result.val.mean), _range(result.val)),
            ("parameters", f"{result.parameters:,}", f"hidden size {result.hidden}"),
            ("seconds", f"{seconds:.1f}", f"on {result.device}"),
        ),
        table=_beside(result),
    )


def against(result: Result) -> str:
    """How the network stands to the controls, by validation, which is what choices rest on."""
    controls = result.search.controls if result.search else ()
    if not controls:
        return ""
    best = max(controls, key=lambda control: control.val.mean)
    ahead = Difference.between(result.val, best.val)
    figures = (
        f"{percent(result.val.mean)} against {percent(best.val.mean)} %; on test "
        f"{percent(result.test.mean)} against {percent(best.test.mean)} %"
    )
    unsure = f", which {trainings(ahead.pairs)} cannot tell apart" if ahead.is_noise else ""
    if ahead.mean < 0:
        return (
            f"By validation the control {best.name}, which nobody searched for, is "
            f"{-ahead.mean:.2f} points ahead of it ({figures}){unsure}."
        )
    others = ", ".join(control.name for control in controls)
    return (
        f"By validation it is {ahead.mean:.2f} points ahead of {best.name}, the best of the "
        f"controls {others} ({figures}){unsure}."
    )


def trainings(count: int) -> str:
    """So many trainings, in words."""
    return f"{count} training{'s' if count > 1 else ''}"


def _unfinished(run: Run) -> Verdict:
    epochs = len(run.phase("search"))
    parts = [f"{epochs:,} epochs of search"] if run.command == "search" else []
    if run.progress is not None:
        parts.append(f"{len(run.progress.trials)} candidates")
    seeds = {(one.get("split_seed"), one["seed"]) for one in run.phase("final")}
    parts.append(f"{len(seeds)} final trainings")
    best = max((line["val"] for line in run.history), default=None)
    tiles = [("lines of history", f"{len(run.history):,}", "so far")]
    if best is not None:
        tiles.append(("best validation so far, %", percent(best), "of whatever was tried"))
    return Verdict(
        title=f"{run.task_name}: not finished",
        sentence=(
            f"This run on {run.task_name} is not finished: there are {', '.join(parts)} so far, "
            "and no result."
        ),
        tiles=tuple(tiles),
    )


def _beside(result: Result) -> Table | None:
    controls = result.search.controls if result.search else ()
    if not controls:
        return None
    own = ("found", result.val, result.test, result.parameters, result.train_seconds)
    rows = [own, *(_row_of(control) for control in controls)]
    return Table(
        f"The network found beside the controls, {result.metric} in %, mean ± standard deviation",
        ("network", "validation", "test", "95 % interval of test", "parameters", "seconds"),
        tuple(
            (name, str(val), str(test), _interval(test), f"{count:,}", f"{seconds:.1f}")
            for name, val, test, count, seconds in rows
        ),
    )


def _row_of(control: Control) -> tuple[str, Scores, Scores, int, float]:
    return control.name, control.val, control.test, control.parameters, control.seconds


def _sure(scores: Scores) -> str:
    return f" (95 % interval {_interval(scores)})" if scores.interval else ""


def _interval(scores: Scores) -> str:
    if scores.interval is None:
        return "-"
    low, high = scores.interval
    return f"{percent(low)} to {percent(high)}"


def _range(scores: Scores) -> str:
    return f"95 % interval {_interval(scores)}" if scores.interval else "one training"
