"""The page: sections of a run, or of several, put into one file that needs nothing else."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from pdnas import __version__
from pdnas.architecture import Architecture
from pdnas.diagram import draw_svg
from pdnas.errors import RunError
from pdnas.report.candidates import draw_candidates, read_candidates
from pdnas.report.classes import class_table, draw_classes, read_classes
from pdnas.report.comparison import difference_table, pair, side_by_side
from pdnas.report.entropy import draw_entropy, read_entropy
from pdnas.report.facts import read_facts
from pdnas.report.gates import draw_gates, read_gates
from pdnas.report.losses import draw_losses, read_losses
from pdnas.report.parts import Figure, Group, Section, Table
from pdnas.report.reading import Run, read_run
from pdnas.report.slots import draw_slots, read_slots
from pdnas.report.trainings import Curve, draw_curves, read_curves
from pdnas.report.verdict import Verdict, read_verdict
from pdnas.runs import Result

REPORT = "report.html"

REFRESH = 5
"""After how many seconds the page of an unfinished run is loaded again."""

Commands = Mapping[Path, Sequence[tuple[str, str]]]
"""For each run what commands do, and the commands."""


def write_report(runs: Sequence[Path], output: Path, commands: Commands | None = None) -> Path:
    """Write the page of a run, or of several side by side.

    Args:
        runs: Run directories, finished or not.
        output: The file.
        commands: How to make each run again, and what to do with it.
    """
    text = render([read_run(run) for run in runs], commands or {})
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


def render(runs: Sequence[Run], commands: Commands) -> str:
    """The page as text."""
    if len(runs) == 1:
        verdict, sections = read_verdict(runs[0]), list(_sections(runs[0], commands))
    else:
        verdict, sections = _compared(runs)
    figures = [f for s in sections for g in s.groups for f in g.figures]
    here = files("pdnas.report")
    return _template().render(
        verdict=verdict,
        sections=sections,
        plots=_embedded({figure.name: figure.plot for figure in figures}),
        plotly=Markup(_plotly()) if figures else "",  # noqa: S704 - no text of users
        style=Markup((here / "page.css").read_text(encoding="utf-8")),  # noqa: S704
        script=Markup((here / "page.js").read_text(encoding="utf-8")),  # noqa: S704
        refresh=REFRESH if any(run.result is None for run in runs) else None,
        version=__version__,
    )


def _sections(run: Run, commands: Commands) -> Iterator[Section]:
    if run.result is not None:
        yield _network(run, run.result)
    yield from _search(run)
    if (trainings := _trainings(run)) is not None:
        yield trainings
    if run.result is not None:
        yield _classes(run, run.result)
    yield read_facts(run)
    if told := commands.get(run.path):
        yield Section(name="commands", title="Make it again, and use it", commands=tuple(told))


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
    caption = f"From {result.in_channels:,} features to {result.out_channels} logits."
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
        metric = result.metric if result else "metric"
        groups: list[Group] = []
        for place, number in enumerate(numbers):
            own = [line for line in lines if line["cell"] == number]
            blocks, hidden = shapes[number]
            found = _search_groups(own, run, number, blocks, metric)
            if len(numbers) > 1:
                name = f"{blocks} blocks, hidden size {hidden}"
                found = [
                    Group(f"{name}: {g.title}", g.figures, folded=g.folded or place > 0)
                    for g in found
                ]
            groups += found
        report = result.search if result else None
        yield Section(
            name="search",
            title="How it was found",
            lead=(_about_search(run),),
            warnings=report.warnings if report else (),
            groups=tuple(groups),
        )
    trials = result.search.trials if result and result.search else ()
    if not trials and run.progress is not None:
        trials = run.progress.trials
    if trials:
        found_one = result.architecture if result else None
        rated = read_candidates(trials, found_one, result.hidden if result else 0)
        correlation = result.search.rank_correlation if result and result.search else None
        yield Section(
            name="candidates",
            title="Candidates",
            lead=("Validation of these trainings chose the network; the test part had no say.",),
            groups=(Group("", (draw_candidates(rated, correlation),)),),
        )


def _search_groups(
    lines: Sequence[dict[str, Any]], run: Run, number: int, num_blocks: int, metric: str
) -> list[Group]:
    space = run.space
    assert space is not None
    prefix, groups = f"search{number}", []
    losses = read_losses(lines)
    assert losses is not None
    groups.append(Group("Losses and validation", draw_losses(losses, prefix, metric)))
    if slots := read_slots(lines, space, num_blocks):
        groups += draw_slots(slots, prefix)
        groups.append(Group("Entropy", (draw_entropy(read_entropy(slots), prefix),)))
    if (gates := read_gates(lines, space, num_blocks)) is not None:
        groups.append(Group("Shortcuts", (draw_gates(gates, prefix),)))
    return groups


def _about_search(run: Run) -> str:
    assert run.job is not None
    strategy = run.job.strategy
    words = f"Strategy {strategy.name} in the space {run.job.space.name}."
    if getattr(strategy, "estimator", None) == "additive":
        words += (
            " While the shared weights are trained, networks are tried at random; the "
            "probabilities below are what is learned of the ops meanwhile."
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
    metric = run.result.metric if run.result else "metric"
    return Section(
        name="trainings",
        title="Trainings",
        groups=(Group("", (draw_curves(curves, metric),)),),
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
    return Section(
        name="classes-section",
        title=title,
        lead=(lead,),
        groups=(Group("", draw_classes(record)),),
        tables=(class_table(record),),
    )


def _compared(runs: Sequence[Run]) -> tuple[Verdict, list[Section]]:
    finished = [run for run in runs if run.result is not None]
    pairings = [pair(runs[0], run) for run in runs[1:]]
    best = max(finished, key=lambda run: run.result.val.mean if run.result else 0.0, default=None)
    sentence = f"{len(runs)} runs, of which {len(finished)} are finished."
    tasks = {(run.result.task, run.result.metric) for run in finished if run.result}
    if best is not None and best.result is not None and len(tasks) == 1:
        sentence += (
            f" The best validation is that of {best.name}: {best.result.val} %, test "
            f"{best.result.test} %."
        )
    curves = []
    for run in runs:
        own = [curve for curve in read_curves(run) if curve.network != "control"]
        mine = run.phase("control")
        controls = {line["name"] for line in mine}
        curves += [
            Curve(run.name, curve.label, curve.epochs, curve.val)
            for curve in own
            if curve.network not in controls
        ]
    sections = [
        Section(
            name="side-by-side",
            title="Side by side",
            groups=(Group("", (_together(curves),)),) if curves else (),
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
    ]
    title = f"{len(runs)} runs side by side"
    tiles = tuple(
        (run.name, str(run.result.test), f"test {run.result.metric}, %, {run.task_name}")
        for run in finished
        if run.result
    )
    return Verdict(title, sentence, tiles), [s for s in sections if not s.is_empty]


def _together(curves: Sequence[Curve]) -> Figure:
    return draw_curves(curves, "metric", "curves")


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
    return environment.get_template("page.html.j2")
