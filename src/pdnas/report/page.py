"""The page: sections of a run, or of several, put into one file that needs nothing else."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from pdnas import __version__
from pdnas.architecture import Architecture
from pdnas.diagram import draw_svg
from pdnas.errors import RunError
from pdnas.pipeline.outcome import rank_correlation
from pdnas.report.candidates import draw_candidates, read_candidates
from pdnas.report.classes import class_table, draw_classes, read_classes
from pdnas.report.comparison import comparable, difference_table, pair, side_by_side, told_apart
from pdnas.report.designs import designs_of
from pdnas.report.entropy import draw_entropy, read_entropy
from pdnas.report.facts import read_facts
from pdnas.report.gates import draw_gates, read_gates
from pdnas.report.losses import draw_losses, read_losses
from pdnas.report.parts import CommandList, Figure, Group, Section, Table, percent
from pdnas.report.reading import Run, read_run, with_labels
from pdnas.report.slots import draw_slots, read_slots
from pdnas.report.trainings import draw_curves, read_curves
from pdnas.report.tuned import draw_tried, read_tried, tried_table
from pdnas.report.verdict import Verdict, read_verdict
from pdnas.runs import Result

REPORT = "report.html"

REFRESH = 5
"""After how many seconds a page that is written again and again is loaded again."""

WHOLE = re.compile(
    r"--[a-z][a-z-]*"
    r"|\b[a-z]{1,12}(?:-[a-z]{1,12}){1,2}\b"
    r"|\b\w+, %"
    r"|\d[\d,.]* (?:%|s\b|(?:±|to) \d[\d,.]*(?: %)?)"
)
"""What must not be broken in a sentence: flags, ops with a hyphen, figures and their units."""

Commands = Mapping[Path, Sequence[tuple[str, str]]]
"""For each run what commands do, and the commands."""


def write_report(
    runs: Sequence[Path], output: Path, commands: Commands | None = None, *, watched: bool = False
) -> Path:
    """Write the page of a run, or of several side by side.

    Args:
        runs: Run directories, finished or not.
        output: The file.
        commands: How to make each run again, and what to do with it.
        watched: Whether the page is written again when the run has gone on.
    """
    text = render([read_run(run) for run in runs], commands or {}, watched=watched)
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(output)
    except OSError as error:
        raise RunError(
            f"The report '{output}' cannot be written ({error.strerror}); make room for it or give "
            "a path that you may write to."
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    return output


def render(runs: Sequence[Run], commands: Commands, *, watched: bool = False) -> str:
    """The page as text; one that is watched loads itself again."""
    if len(runs) == 1:
        verdict, sections = read_verdict(runs[0]), list(_sections(runs[0], commands))
    else:
        verdict, sections = _compared(runs, commands)
    figures = [f for s in sections for g in s.groups for f in g.figures]
    here = files("pdnas.report")
    return _template().render(
        verdict=verdict,
        sections=sections,
        plots=_embedded({figure.name: figure.plot for figure in figures}),
        plotly=Markup(_plotly()) if figures else "",  # noqa: S704 - no text of users
        style=Markup((here / "page.css").read_text(encoding="utf-8")),  # noqa: S704
        script=Markup((here / "page.js").read_text(encoding="utf-8")),  # noqa: S704
        refresh=REFRESH if watched else None,
        version=__version__,
    )


def kept_whole(text: str) -> Markup:
    """A sentence whose flags, and whose figures with their units, stay in one line each."""
    marked = WHOLE.sub(lambda found: f'<span class="whole">{found[0]}</span>', str(escape(text)))
    return Markup(marked)  # noqa: S704 - escaped before


def _sections(run: Run, commands: Commands) -> Iterator[Section]:
    if run.result is not None:
        yield _network(run, run.result)
    if run.command == "tune":
        yield from _tuned(run)
    yield from _search(run)
    if (trainings := _trainings(run)) is not None:
        yield trainings
    if run.result is not None:
        yield _classes(run, run.result)
    yield read_facts(run)
    if told := commands.get(run.path):
        title = "Make it again, and use it" if run.result else "Go on with it"
        yield Section(name="commands", title=title, commands=(CommandList("", tuple(told)),))


def _tuned(run: Run) -> Iterator[Section]:
    """What a tuning tried; a study in a database is not read."""
    tried = read_tried(run)
    if not tried:
        return
    parts = []
    for what, trials in tried.items():
        chosen = next((one for one in trials if one.chosen), None)
        if chosen is not None:
            parts.append(f"Of the {what} that were tried this one was chosen: {chosen.values}.")
    yield Section(
        name="trials",
        title="Trials",
        lead=(*parts, "Validation chose; the test part had no say."),
        groups=(
            Group(
                "",
                tuple(
                    draw_tried(what, trials)
                    for what, trials in tried.items()
                    if any(one.val is not None for one in trials)
                ),
            ),
        ),
        tables=tuple(tried_table(what, trials) for what, trials in tried.items()),
    )


def _network(run: Run, result: Result) -> Section:
    beside, design = read_verdict(run).table, result.architecture
    table = design.table()
    rows = tuple(tuple(row) for row in table[1:])
    return Section(
        name="network",
        title="The network",
        drawings=(_drawing(result),) if isinstance(design, Architecture) else (),
        tables=(*([beside] if beside else []), Table("Its choices", tuple(table[0]), rows)),
    )


def _drawing(result: Result) -> tuple[str, str]:
    assert isinstance(result.architecture, Architecture)
    logits = "one logit" if result.out_channels == 1 else f"{result.out_channels} logits"
    caption = f"From {result.in_channels:,} features to {logits}."
    if result.architecture.gates:
        caption += " Arcs are shortcuts: linear maps that are added where they end."
    return Markup(draw_svg(result.architecture, result, result.hidden)), caption  # noqa: S704


def _search(run: Run) -> Iterator[Section]:
    """How the network was found: the search that it is from, the others of the grid, candidates."""
    lines, space = run.phase("search"), run.space
    result = run.result
    if space is not None and lines:
        shapes = run.cells
        numbers = sorted({line["cell"] for line in lines})
        if result is not None:  # the search that found the network comes first
            shape = (_depth(result), result.hidden)
            numbers.sort(key=lambda number: shapes[number] != shape)
        groups: list[Group] = []
        for place, number in enumerate(numbers):
            own = [line for line in lines if line["cell"] == number]
            blocks, hidden = shapes[number]
            found = _search_groups(own, run, number, blocks)
            if len(numbers) > 1:
                name = f"{blocks} blocks, hidden size {hidden}"
                found = [
                    Group(f"{name}: {g.title}", g.figures, folded=g.folded or place > 0)
                    for g in found
                ]
            groups += found
        yield Section(
            name="search",
            title="How it was found",
            lead=(_about_search(run),),
            warnings=_warnings(run),
            groups=tuple(groups),
        )
    trials = result.search.trials if result and result.search else ()
    if not trials and run.progress is not None:
        trials = run.progress.trials
    if trials:
        found_one = result.architecture if result else None
        rated = read_candidates(
            trials,
            found_one,
            result.hidden if result else 0,
            designs=designs_of(space),
            epochs=run.job.recipe.epochs if run.job else 0,
        )
        yield Section(
            name="candidates",
            title="Candidates",
            lead=("Validation of these trainings chose the network; the test part had no say.",),
            groups=(Group("", (draw_candidates(rated, rank_correlation(trials)),)),),
        )


def _warnings(run: Run) -> tuple[str, ...]:
    """What the search says of itself; before its end, what the finished ones of the grid say."""
    if run.result is not None:
        return run.result.search.warnings if run.result.search else ()
    told = []
    for cell in run.progress.cells if run.progress else ():
        place = f"With {cell.num_blocks} block(s) and hidden size {cell.hidden}: "
        told += [place + text if len(run.cells) > 1 else text for text in cell.warnings]
    return tuple(told)


def _search_groups(
    lines: Sequence[dict[str, Any]], run: Run, number: int, num_blocks: int
) -> list[Group]:
    space = run.space
    assert space is not None
    prefix, groups = f"search{number}", []
    losses = read_losses(lines)
    assert losses is not None
    groups.append(Group("Losses and validation", draw_losses(losses, prefix, run.validation)))
    if slots := read_slots(lines, space, num_blocks):
        groups += draw_slots(slots, prefix)
        groups.append(Group("Entropy", (draw_entropy(read_entropy(slots), prefix),)))
    if (gates := read_gates(lines, space, num_blocks)) is not None:
        groups.append(Group("Shortcuts", (draw_gates(gates, prefix),)))
    return groups


def _about_search(run: Run) -> str:
    assert run.job is not None
    strategy = run.job.strategy
    words = f"By the strategy {strategy.name}, in the space {run.job.space.name}."
    if getattr(strategy, "estimator", None) == "additive":
        words += (
            " While the shared weights are trained, networks are tried at random; the "
            "probabilities below are what is learned of the ops meanwhile, by what each of them "
            "adds to validation."
        )
    elif not any("op_probs" in line for line in run.phase("search")):
        words += " This strategy rates whole networks and keeps no probabilities of single ops."
    return words


def _depth(result: Result) -> int:
    design = result.architecture
    return design.num_blocks if isinstance(design, Architecture) else 0


def _trainings(run: Run) -> Section | None:
    curves = read_curves(run)
    if not curves:
        return None
    return Section(
        name="trainings",
        title="Trainings",
        groups=(Group("", (draw_curves(curves, run.validation),)),),
    )


def _classes(run: Run, result: Result) -> Section:
    title = "Classes"
    if run.predictions is None:
        why = (
            "This run keeps no predictions of its nodes, so there are no figures for each class; "
            "run it again with this version to have them."
        )
        return Section(name="classes-section", title=title, lead=(why,))
    record = read_classes(run.predictions, result.class_names)
    lead = (
        "Of the one network that is kept, the training with the best validation, on the test part "
        f"({record.nodes:,} nodes); the figures at the top are over all trainings."
    )
    if result.metric == "accuracy" and record.matrix:
        lead += (
            f" It takes {record.right:,} of them for what they are, "
            f"{percent(record.right / max(1, record.nodes))} % ({record.certainty}, Wilson's): "
            "other nodes of the same kind would give another figure, however many seeds there are."
        )
    return Section(
        name="classes-section",
        title=title,
        lead=(lead,),
        groups=(Group("", draw_classes(record)),),
        tables=(class_table(record),),
    )


def _compared(runs: Sequence[Run], commands: Commands) -> tuple[Verdict, list[Section]]:
    runs = with_labels(runs)
    finished = [run for run in runs if run.result is not None]
    pairings = [pair(runs[0], run) for run in runs[1:]]
    figures = tuple(_together(alike, place) for place, alike in enumerate(comparable(runs)))
    sections = [
        Section(
            name="side-by-side",
            title="Side by side",
            groups=(Group("", drawn),) if (drawn := tuple(filter(None, figures))) else (),
            tables=(side_by_side(runs), difference_table(pairings)),
        ),
        Section(
            name="networks",
            title="The networks",
            drawings=tuple(
                (svg, f"{run.name}. {caption}")
                for run in finished
                if run.result and isinstance(run.result.architecture, Architecture)
                for svg, caption in [_drawing(run.result)]
            ),
        ),
        _commands_of_each(runs, commands),
    ]
    title = f"{len(runs)} runs side by side"
    sentence = f"{len(runs)} runs, of which {len(finished)} are finished. {told_apart(runs)}"
    tiles = tuple(map(_tile, runs))
    return Verdict(title, sentence.strip(), tiles), [s for s in sections if not s.is_empty]


def _commands_of_each(runs: Sequence[Run], commands: Commands) -> Section:
    """How the page is made again, and what the page of each run has to copy."""
    lists = []
    for run in runs:
        own = _report_on(run)
        told = [
            ("The page of this run alone" if command == own else about, command)
            for about, command in commands.get(run.path, ())
        ]
        lists += [CommandList(run.name, tuple(told))] if told else []
    again = CommandList("", (("This page again", _report_on(*runs)),))
    return Section(
        name="commands",
        title="Make them again, and use them",
        commands=(again, *lists) if lists else (),
    )


def _report_on(*runs: Run) -> str:
    return shlex.join(["pdnas", "report", *(str(run.path) for run in runs)])


def _tile(run: Run) -> tuple[str, str, str]:
    if run.result is None:
        return run.name, "-", f"{run.task_name}: {'goes on' if run.at_work else 'was stopped'}"
    about = f"{run.validation}, %, on {run.task_name}; test {run.result.test}"
    return run.name, percent(run.result.val.mean), about


def _together(runs: Sequence[Run], place: int) -> Figure | None:
    """The final trainings of runs that can be compared; controls have the page of their own run."""
    curves = []
    for run in runs:
        controls = {line["name"] for line in run.phase("control")}
        curves += [
            replace(curve, network=run.name)
            for curve in read_curves(run)
            if curve.network not in controls
        ]
    if not curves:
        return None
    first = next((run for run in runs if run.metric is not None), runs[0])
    figure = draw_curves(curves, first.validation, f"curves{place or ''}")
    return replace(figure, title=f"{figure.title} on {first.task_name}")


def _embedded(values: Mapping[str, Any]) -> Markup:
    """JSON that cannot end the element that holds it."""
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))
    for mark, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(mark, code)
    return Markup(text)  # noqa: S704 - escaped just now


@cache
def _plotly() -> str:
    """Plotly's own script; nothing else of it is used, since it takes a while to import."""
    script = files("plotly") / "package_data" / "plotly.min.js"
    return script.read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pdnas.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = kept_whole
    return environment.get_template("page.html.j2")
