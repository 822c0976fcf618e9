"""Is the search worth its time? The network it chooses against the best of random ones.

On each task, split and search seed, with one recipe:

- ``default``, ``uniform``, ``straight-through``, ``follow`` (as default, but a last quarter of its
  paths is drawn from what it learned): search, train the candidates, validation chooses;
- ``paper``: the paper's search, whose noise-free choice is the network;
- ``random``: as many random architectures as can be trained whole in the time that ``default`` took
  from its first step to its choice; validation chooses.

What was chosen is then trained with fresh seeds, and the mean validation of these is compared: the
validation that made the choice is lucky by construction. The test part is read for those trainings
alone and decides nothing.

    PDNAS_DATA=/path/to/data python benchmarks/search_quality.py --device cuda --workers 14

writes ``benchmarks/results/search_quality/search_quality-<device>.json`` and a table beside it.
"""

import argparse
import json
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from units import SETTINGS, load, parse, run_units  # noqa: E402

from pdnas.architecture import Architecture  # noqa: E402
from pdnas.job import Job  # noqa: E402
from pdnas.pipeline import Pipeline  # noqa: E402
from pdnas.runs import environment  # noqa: E402
from pdnas.search import Problem, Strategy  # noqa: E402
from pdnas.search.pdnas import PRESETS  # noqa: E402
from pdnas.space import SPACES  # noqa: E402
from pdnas.tasks import GraphTask  # noqa: E402
from pdnas.training import Recipe  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402
from pdnas.training.fit import read_test  # noqa: E402
from pdnas.training.seeds import train_once  # noqa: E402
from pdnas.watcher import Watcher  # noqa: E402

STRATEGIES: dict[str, tuple[Strategy, int]] = {
    "default": (PRESETS["default"], 6),
    "uniform": (PRESETS["uniform"], 6),
    "straight-through": (PRESETS["straight-through"], 6),
    "follow": (PRESETS["default"].changed(warm_up=300), 6),
    "paper": (PRESETS["paper"], 1),
}
"""Each row's strategy and how many candidates it trains."""

SCRIPT = "benchmarks/search_quality.py"
RESULTS = Path(__file__).parent / "results" / "search_quality"


def final(
    architecture: Architecture, task: GraphTask, hidden: int, seeds: Sequence[int]
) -> dict[str, Any]:
    """Validation and test of the chosen architecture with fresh seeds."""
    val, test = [], []
    for seed in seeds:
        network, outcome = train_once(architecture, task, hidden=hidden, recipe=Recipe(), seed=seed)
        val.append(outcome.val)
        test.append(read_test(network, task))
    return {"val": val, "test": test, "seeds": list(seeds)}


def searched(row: str, task: GraphTask, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """What a strategy chooses."""
    strategy, candidates = STRATEGIES[row]
    job = Job(
        space=SPACES["paper"],
        strategy=strategy,
        blocks=(arguments.blocks,),
        hidden=(arguments.hidden,),
        seed=seed,
        candidates=candidates,
    )
    pipeline = Pipeline(job, task, run=None, watcher=Watcher(), started=time.monotonic())
    chosen = pipeline.choose()
    progress = pipeline.progress
    return {
        "architecture": chosen.architecture,
        "selection_val": chosen.val,
        "seconds": sum(cell.seconds + cell.refine_seconds for cell in progress.cells)
        + sum(trial.seconds for trial in progress.trials),
        "search_seconds": sum(cell.seconds for cell in progress.cells),
        "candidates": len(progress.trials),
        "trials": [[trial.shared_val, trial.val, trial.epochs] for trial in progress.trials],
        "warnings": [warning for cell in progress.cells for warning in cell.warnings],
    }


def random_control(
    seconds: float, task: GraphTask, arguments: argparse.Namespace, seed: int
) -> dict[str, Any]:
    """The best of as many random architectures as can be trained in some time."""
    problem = Problem(task, SPACES["paper"], arguments.blocks, arguments.hidden, Recipe())
    generator = torch.Generator().manual_seed(seed)
    best, best_val, spent, count = None, -1.0, 0.0, 0
    while best is None or spent < seconds:
        architecture = problem.sample(generator)
        _, outcome = train_once(
            architecture, task, hidden=arguments.hidden, recipe=Recipe(), seed=seed + 2**32
        )
        if spent + outcome.seconds > seconds and best is not None:
            break
        spent, count = spent + outcome.seconds, count + 1
        if outcome.val > best_val:
            best, best_val = architecture, outcome.val
    assert best is not None
    return {
        "architecture": best,
        "selection_val": best_val,
        "seconds": spent,
        "candidates": count,
    }


def work(arguments: argparse.Namespace) -> None:
    """Do one unit: rows of one task, split and search seed; a line of JSON for each row."""
    task, seed, rows = load(arguments)
    seconds = 0.0
    for row in rows:
        if row == "random":
            found = random_control(seconds, task, arguments, seed)
        else:
            found = searched(row, task, arguments, seed)
            seconds = found["seconds"]
        architecture = found.pop("architecture")
        seeds = range(1000 * (seed + 1), 1000 * (seed + 1) + arguments.seeds)
        record = {
            "row": row,
            "task": task.name,
            "split": task.split.name,
            "split_sha256": task.split.sha256,
            "search_seed": seed,
            **found,
            "parameters": architecture.parameters(task, arguments.hidden),
            "architecture": architecture.model_dump(mode="json"),
            **final(architecture, task, arguments.hidden, seeds),
        }
        print(json.dumps(record), flush=True)


def table(records: list[dict[str, Any]], rows: Sequence[str]) -> str:
    """Mean and standard deviation of the fresh validation over the searches, row by row."""
    cells: defaultdict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        cells[record["row"], record["task"], record["split"]].append(record)
    places = [place for place in SETTINGS if any(key[1:] == place for key in cells)]
    lines = [
        "| validation in % | " + " | ".join(f"{task}, {split}" for task, split in places) + " |",
        "|---" * (len(places) + 1) + "|",
    ]
    for row in rows:
        texts = []
        for place in places:
            found = cells[(row, *place)]
            means = [100 * statistics.fmean(record["val"]) for record in found]
            count = statistics.fmean(record["candidates"] for record in found) if found else 0
            spread = statistics.stdev(means) if len(means) > 1 else 0.0
            texts.append(
                f"{statistics.fmean(means):.2f} ± {spread:.2f} ({count:.1f})" if found else "-"
            )
        lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def write(arguments: argparse.Namespace, records: list[dict[str, Any]]) -> None:
    """Write the figures and the table."""
    device = find_device(arguments.device)
    output = arguments.output or RESULTS / f"search_quality-{device.type}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    order = {row: number for number, row in enumerate(arguments.rows)}
    records = sorted(
        records, key=lambda r: (r["task"], r["split"], order[r["row"]], r["search_seed"])
    )
    record = {
        "command": f"python {SCRIPT} --device {device.type} --workers {arguments.workers} "
        f"--blocks {arguments.blocks} --hidden {arguments.hidden} --seeds {arguments.seeds} "
        f"--search-seeds {arguments.search_seeds} --rows {' '.join(arguments.rows)}",
        "recipe": Recipe().model_dump(),
        "strategies": {
            row: STRATEGIES[row][0].model_dump(mode="json")
            for row in arguments.rows
            if row in STRATEGIES
        },
        "environment": environment(device, threads=1),
        "records": records,
    }
    output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    output.with_suffix(".md").write_text(table(records, arguments.rows), encoding="utf-8")


def main() -> None:
    """Run all units, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=5, help="final trainings of each choice")
    parser.add_argument(
        "--rows", nargs="+", default=["default", "random", "uniform", "straight-through", "paper"]
    )
    arguments = parse(parser)
    if arguments.unit:
        work(arguments)
        return
    # The random control needs the time of the default search, so the two go together.
    groups = [
        row if row != "default" or "random" not in arguments.rows else "default+random"
        for row in arguments.rows
        if row != "random"
    ]
    units = [
        f"{task}/{split}/{seed}/{rows}"
        for rows in groups
        for task, split in arguments.settings
        for seed in range(arguments.search_seeds)
    ]
    print(table(run_units(arguments, units, write), arguments.rows))


if __name__ == "__main__":
    main()
