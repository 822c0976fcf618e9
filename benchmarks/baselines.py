"""The baselines on the public splits of the citation graphs, ten seeds each, beside their papers.

    PDNAS_DATA=/path/to/data python benchmarks/baselines.py --device cuda --workers 14

writes ``benchmarks/results/baselines/baselines.json`` and, beside it, a table as Markdown. Where a
baseline has settings for a graph, such as ``gcnii-citeseer``, they are used there. What the file
holds already, with the same settings and seeds, is not trained again. The seeds of a network are
trained a few at a time, side by side.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import torch

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from units import Record, run_units  # noqa: E402

from pdnas.models.baselines import BASELINES  # noqa: E402
from pdnas.runs import Result, Scores, environment  # noqa: E402
from pdnas.tasks import load_task  # noqa: E402
from pdnas.training import RECIPES, find_recipe, train  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402

TASKS = ("cora", "citeseer", "pubmed")
SCRIPT = "benchmarks/baselines.py"
RESULTS = Path(__file__).parent / "results" / "baselines"

PUBLISHED: dict[str, tuple[float, ...]] = {
    "appnp": (83.3, 71.8, 80.1),
    "gat": (83.0, 72.5, 79.0),
    "gcn": (81.5, 70.3, 79.0),
    "gcnii": (85.5, 73.4, 80.3),
    "grand": (85.4, 75.4, 82.7),
    "lgcn": (83.3, 73.0, 79.5),
}
"""Test accuracy in % on Cora, CiteSeer and PubMed, where there is a figure for these splits."""

TOGETHER = 2
"""Seeds that one process trains."""


def rows() -> list[str]:
    """The networks of the table."""
    return [name for name in BASELINES if BASELINES[name].of is None]


def settings_for(name: str, task: str) -> str:
    """The name of a network's settings for a task: its own, unless there are special ones."""
    special = f"{name}-{task}"
    return special if special in BASELINES else name


def is_done(record: Record, seeds: int) -> bool:
    """Whether a record is of the settings that there are now."""
    name = settings_for(record["row"], record["task"])
    baseline, result = BASELINES[name], Result.model_validate(record["result"])
    return (
        result.architecture == baseline.design
        and result.hidden == baseline.hidden
        and find_recipe(result.recipe) == RECIPES[name]
        and result.seeds == tuple(range(seeds))
    )


def known(path: Path, seeds: int) -> list[Record]:
    """The records of an earlier run that need not be made again."""
    if not path.exists():
        return []
    records: list[Record] = json.loads(path.read_text(encoding="utf-8"))["records"]
    current = [record for record in records if record["row"] in BASELINES]
    return [record for record in current if is_done(record, seeds)]


def joined(records: list[Record], seeds: int) -> list[Record]:
    """One record for each network and task whose seeds are all there."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["row"], record["task"]), []).append(record)
    whole = []
    for parts in groups.values():
        results = sorted(
            (Result.model_validate(part["result"]) for part in parts), key=lambda one: one.seeds
        )
        update = {
            "val": Scores.of([value for one in results for value in one.val.values]),
            "test": Scores.of([value for one in results for value in one.test.values]),
            "epochs": tuple(epoch for one in results for epoch in one.epochs),
            "seeds": tuple(seed for one in results for seed in one.seeds),
            "train_seconds": sum(one.train_seconds for one in results),
        }
        if update["seeds"] == tuple(range(seeds)):
            result = results[0].model_copy(update=update)
            whole.append({**parts[0], "result": result.model_dump(mode="json")})
    return whole


def table(records: list[Record]) -> str:
    """One row per network; per task our figure, and the published one with the difference."""
    done = {(one["row"], one["task"]): Result.model_validate(one["result"]) for one in records}
    header = "".join(f" {task} | published |" for task in TASKS)
    lines = [f"| network |{header}", "|---" * (2 * len(TASKS) + 1) + "|"]
    for name in rows():
        cells = []
        for number, task in enumerate(TASKS):
            result, published = done.get((name, task)), PUBLISHED.get(name)
            ours = "-" if result is None else f"{result.test} ({result.parameters:,})"
            theirs = "-" if published is None else f"{published[number]:.1f}"
            if result is not None and published is not None:
                theirs += f" ({100 * result.test.mean - published[number]:+.1f})"
            cells += [ours, theirs]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(arguments: argparse.Namespace, records: list[Record]) -> None:
    """Write what there is so far."""
    places = [(name, task) for name in rows() for task in TASKS]
    new = joined(records, arguments.seeds)
    merged = {(one["row"], one["task"]): one for one in [*arguments.known, *new]}
    kept = [merged[place] for place in places if place in merged]
    command = f"python {SCRIPT} --device {arguments.device} --seeds {arguments.seeds}"
    record = {"command": command, "records": kept}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    arguments.output.with_suffix(".md").write_text(table(kept), encoding="utf-8")


def do(arguments: argparse.Namespace) -> Record:
    """Train one network on one task with a few of the seeds."""
    row, task, first = arguments.unit.split("/")
    name, device = settings_for(row, task), find_device(arguments.device)
    seeds = range(arguments.seeds)[int(first) : int(first) + TOGETHER]
    torch.set_num_threads(1)
    result = train(
        BASELINES[name].design,
        load_task(task, data_root=arguments.data_root),
        hidden=BASELINES[name].hidden,
        recipe=RECIPES[name],
        seeds=seeds,
        device=device,
    )
    return {
        "row": row,
        "task": task,
        "settings": name,
        "environment": environment(device, threads=1),
        "result": result.model_dump(mode="json"),
    }


def main() -> None:
    """Train every baseline on every task, or one on one, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--seeds", type=int, default=10, help="trainings per network and task")
    parser.add_argument("--only", nargs="*", help="gcnii or gcnii/cora and so on, not all of them")
    parser.add_argument("--data-root", help="where the data sets are; default: PDNAS_DATA")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "baselines.json")
    parser.add_argument("--unit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.unit:
        print(json.dumps(do(arguments)))
        return
    arguments.known = known(arguments.output, arguments.seeds)
    done = {f"{one['row']}/{one['task']}" for one in arguments.known}
    wanted: list[str] = [
        f"{name}/{task}"
        for task in reversed(TASKS)  # the slowest first, so that none is waited for
        for name in rows()
        if not arguments.only or name in arguments.only or f"{name}/{task}" in arguments.only
    ]
    units = [
        f"{place}/{first}"
        for place in wanted
        if place not in done
        for first in range(0, arguments.seeds, TOGETHER)
    ]
    records: list[dict[str, Any]] = run_units(arguments, units, write)
    write(arguments, records)
    print(f"wrote {arguments.output}")
    whole = joined(records, arguments.seeds)
    missing = set(wanted) - done - {f"{one['row']}/{one['task']}" for one in whole}
    if missing:
        raise SystemExit(f"Not done: {', '.join(sorted(missing))}; run the same command again.")


if __name__ == "__main__":
    main()
