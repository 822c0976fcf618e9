"""What came out in a sentence and a few figures, beside the controls."""

import shlex
import statistics
from dataclasses import dataclass

from pdnas.architecture import Architecture
from pdnas.report.classes import read_classes
from pdnas.report.designs import designs_of
from pdnas.report.parts import Table, percent
from pdnas.report.reading import Run
from pdnas.runs import Control, Difference, Result, Scores

DIGITS = 4
"""Of a share, as far as it is shown: what is the same up to there is level."""


@dataclass(frozen=True)
class Verdict:
    """What the page begins with.

    Args:
        title: Of the page.
        sentence: What came out, and how that compares.
        tiles: Figures: what, how much, and what to know of it.
        table: The network beside the controls; none if there are none.
        notes: Sentences on how far the run came.
    """

    title: str
    sentence: str
    tiles: tuple[tuple[str, str, str], ...]
    table: Table | None = None
    notes: tuple[str, ...] = ()


def read_verdict(run: Run) -> Verdict:
    """What came out of a run so far."""
    if run.result is None:
        return _unfinished(run)
    result = run.result
    seconds, on_what = spent(result)
    runs, digits = len(result.test.values), 0 if seconds >= 10 else 1
    sure = f" ({_range(result.test, over(result))})" if result.test.interval else ""
    noted = f" ({result.note})" if result.note else ""
    what = f"The {run.settings.get('name', 'network')} network"
    if result.strategy is not None:
        what = f"The network found for {run.task_name}{noted}{_alike(run, result)}"
    where = "" if result.strategy is not None else f" on {run.task_name}{noted}"
    sentence = (
        f"{what}{where} reaches {result.metric} {percent(result.test.mean)} % on test"
        f"{sure}, over {trainings(runs)}, with "
        f"{result.parameters:,} parameters, after {seconds:.{digits}f} s of {on_what}. "
        f"{against(result)}"
    )
    return Verdict(
        title=_title(run, result),
        sentence=sentence.strip(),
        tiles=(
            (
                f"test {result.metric}, %",
                percent(result.test.mean),
                _range(result.test, over(result)),
            ),
            (
                f"validation {result.metric}, %",
                percent(result.val.mean),
                _range(result.val, over(result)),
            ),
            ("parameters", f"{result.parameters:,}", f"hidden size {result.hidden}"),
            ("seconds", f"{seconds:.1f}", f"of {on_what}, on {result.device}"),
            *_test_nodes(run, result),
        ),
        table=_beside(result),
        notes=tuple(filter(None, [ended_early(run, result)])),
    )


def spent(result: Result) -> tuple[float, str]:
    """The seconds that a network took, and what they were spent on: not on controls."""
    *told, last = [what for what, seconds in result.spent.items() if seconds] or ["nothing"]
    return sum(result.spent.values()), f"{', '.join(told)} and {last}" if told else last


def ended_early(run: Run, result: Result) -> str:
    """What ended a search before its end, and what it left out; nothing if it did all."""
    report, job = result.search, run.job
    if report is None or report.stopped is None or job is None:
        return ""
    wanted, left = job.seeds, []
    epochs, asked = report.epochs, job.strategy.epochs
    if epochs < asked:
        left.append(f"the search had {epochs:,} of {asked:,} epochs")
    finals = {*result.seeds} & {*range(job.seed, job.seed + wanted)}
    done = len(finals) if result.train_seconds else 0
    if done < wanted:
        left.append(f"the network found has {done} of {trainings(wanted)}")
    counts = {control.name: len(control.val.values) for control in report.controls}
    for name in job.controls:
        if name not in counts:
            left.append(f"the control {name} is missing")
        elif counts[name] < wanted:
            left.append(f"the control {name} has {counts[name]} of {trainings(wanted)}")
    what, on = "An interruption", f" To have it, {run.way_on}"
    if report.stopped == "budget":
        seconds = job.budget_seconds
        what, on = f"The budget of {seconds:g} s" if seconds else "The budget", ""
    return f"{what} ended the job early: {'; '.join(left) or 'a training was cut short'}.{on}"


def against(result: Result) -> str:
    """How the network stands to the controls, by validation, which is what choices rest on."""
    controls = result.search.controls if result.search else ()
    if not controls:
        return ""
    best = max(controls, key=lambda one: (round(one.val.mean, DIGITS), -one.parameters))
    places = best.paired(result.seeds)
    if not places:
        return f"No seed is in its trainings and in those of {best.name}, the best of the controls."
    ahead = Difference.between(result.val, best.val, places)
    ours, its = zip(*places, strict=True)
    own, theirs, own_test, their_test = (
        percent(statistics.fmean(scores.values[place] for place in there))
        for scores, there in (
            (result.val, ours),
            (best.val, its),
            (result.test, ours),
            (best.test, its),
        )
    )
    figures = f"{own} against {theirs} %; on test {own_test} against {their_test} %"
    shared = ""
    if ahead.pairs < len(result.val.values):
        shared = f", over the {trainings(ahead.pairs)} that both have,"
    unsure = f", which {trainings(ahead.pairs)} cannot tell apart" if ahead.is_noise else ""
    others = ", ".join(control.name for control in controls)
    among = f"the best of the controls {others} ({figures})"
    if not round(ahead.mean, 2):
        words = f"By validation{shared} it is level with {best.name}, {among}."
    elif ahead.mean < 0:
        words = (
            f"By validation{shared} the control {best.name}, which nobody searched for, is "
            f"{-ahead.mean:.2f} points ahead of it ({figures}){unsure}."
        )
    else:
        words = (
            f"By validation{shared} it is {ahead.mean:.2f} points ahead of {best.name}, {among}"
            f"{unsure}."
        )
    if 2 * best.parameters < result.parameters:
        words += f" {best.name} has less than half the parameters: {best.parameters:,}."
    return words


def trainings(count: int) -> str:
    """So many trainings, in words."""
    return f"{count} training{'s' if count > 1 else ''}"


def _title(run: Run, result: Result) -> str:
    if result.strategy is None:
        return f"{run.settings.get('name', 'A network')} on {run.task_name}"
    return f"A network for {run.task_name}"


def _alike(run: Run, result: Result) -> str:
    """Which known design the network found has, if it has one."""
    if not isinstance(result.architecture, Architecture):
        return ""
    name = designs_of(run.space).get(result.architecture)
    return f", which has the blocks of {name}," if name else ""


def _unfinished(run: Run) -> Verdict:
    epochs = len(run.phase("search"))
    parts = [_count(epochs, "epoch") + " of search"] if run.command == "search" else []
    if run.progress is not None:
        parts.append(_count(len(run.progress.trials), "candidate"))
    seeds = {(one.get("split_seed"), one["seed"]) for one in run.phase("final")}
    parts.append(_count(len(seeds), "final training"))
    best = max((line["val"] for line in run.history), default=None)
    tiles = [("epochs so far", f"{len(run.history):,}", "of searches and of trainings")]
    if best is not None:
        tiles.append((f"best {run.validation} so far, %", percent(best), "of whatever was tried"))
    return Verdict(
        title=f"{run.task_name}: not finished",
        sentence=(
            f"This run on {run.task_name} is not finished: there are {', '.join(parts)} so far, "
            "and no result."
        ),
        tiles=tuple(tiles),
        notes=(_state(run),),
    )


def _state(run: Run) -> str:
    """What becomes of an unfinished run."""
    if not run.at_work:
        return f"This run was stopped; {run.way_on}"
    path = shlex.quote(str(run.path))
    return f"The run goes on. A page that follows it is written by: pdnas report {path} --watch"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _test_nodes(run: Run, result: Result) -> list[tuple[str, str, str]]:
    """How many nodes the test rests on, and how far the share of right ones can be trusted."""
    if run.predictions is None:
        return []
    record = read_classes(run.predictions, result.class_names)
    about = "labeled, one training is kept"
    if result.metric == "accuracy" and record.matrix:
        about = f"{record.certainty}, for the network that is kept"
    return [("test nodes", f"{record.nodes:,}", about)]


def _beside(result: Result) -> Table | None:
    controls = result.search.controls if result.search else ()
    if not controls:
        return None
    own = ("found", result.val, result.test, result.parameters, result.train_seconds)
    rows = [own, *(_row_of(control) for control in controls)]
    return Table(
        f"The network found beside the controls, {result.metric} in %, mean ± standard deviation, "
        "intervals of test, seconds of these trainings",
        (
            "network",
            "validation",
            "test",
            f"95 % interval {over(result)}",
            "trainings",
            "parameters",
            "seconds",
        ),
        tuple(
            (
                name,
                str(val),
                str(test),
                _interval(test),
                str(len(test.values)),
                f"{count:,}",
                f"{seconds:.1f}",
            )
            for name, val, test, count, seconds in rows
        ),
    )


def _row_of(control: Control) -> tuple[str, Scores, Scores, int, float]:
    return control.name, control.val, control.test, control.parameters, control.seconds


def over(result: Result) -> str:
    """What an interval is over: with several splits their means, else the seeds of one."""
    return f"over {result.over}"


def _interval(scores: Scores) -> str:
    if scores.interval is None:
        return "-"
    low, high = scores.interval
    return f"{percent(low)} to {percent(high)}"


def _range(scores: Scores, over: str) -> str:
    return f"95 % interval {over} {_interval(scores)}" if scores.interval else "one training"
