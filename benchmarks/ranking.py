"""What does a search know? Its opinion of random architectures against what training makes of them.

On each task, split and search seed some random architectures are trained whole. Then each kind of
search is run, and Spearman's correlation with the trained validation is taken of what can be read
off the search at its end:

- ``loss``: minus the validation loss with the shared weights,
- ``metric``: the validation metric with the shared weights,
- ``ops``: the sum of what the additive model says of the architecture's ops,
- ``adapted``: the best metric in a few epochs of training from the shared weights,
- ``metric + ops``: the sum of the places in two of these rankings,
- ``ops + adapted``: likewise.

And how well a training knows itself: ``epoch 25`` and so on are the best validation metric until
then; and others: ``effects of 20`` is what the choices of the first twenty architectures say of the
rest. The test part is never read.

    PDNAS_DATA=/path/to/data python benchmarks/ranking.py --device cuda --workers 14

(with ``--searches default`` for one kind of search)

writes ``benchmarks/results/ranking/ranking-<device>.json`` and a table beside it.
"""

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from scipy.stats import rankdata, spearmanr

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from units import SETTINGS, load, parse, run_units  # noqa: E402

from pdnas.architecture import Architecture  # noqa: E402
from pdnas.runs import environment  # noqa: E402
from pdnas.search import Problem  # noqa: E402
from pdnas.search.effects import Effects  # noqa: E402
from pdnas.search.pdnas import PRESETS, Pdnas, PdnasSearch  # noqa: E402
from pdnas.space import SPACES  # noqa: E402
from pdnas.training import Recipe  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402
from pdnas.training.seeds import train_once  # noqa: E402

SEARCHES: dict[str, Pdnas] = {
    "default": PRESETS["default"],
    "follow from the start": PRESETS["default"].changed(warm_up=0),
    "straight-through": PRESETS["straight-through"],
    "paper": PRESETS["paper"],
}
RUNGS = (25, 50, 100, 200)
"""Epochs at which a training is asked how good it will be."""

LEARNED = (10, 20, 40, 80)
"""Trainings from which effects of choices are learned."""

REST = 10
"""Architectures at least that these are held against."""

TRAINING = "a training"
"""The row of what trainings know of themselves."""

SIGNALS = ("loss", "metric", "ops", "adapted", "metric + ops", "ops + adapted")
OF_TRAININGS = (*(f"epoch {rung}" for rung in RUNGS), *(f"effects of {n}" for n in LEARNED))
SCRIPT = "benchmarks/ranking.py"
RESULTS = Path(__file__).parent / "results" / "ranking"


def signals(search: PdnasSearch, architectures: list[Any]) -> dict[str, list[float]]:
    """What the search says of each architecture."""
    rated = [search.shared.rate(architecture) for architecture in architectures]
    said = {
        "loss": [-candidate.loss for candidate in rated],
        "metric": [candidate.val for candidate in rated],
    }
    if search.settings.estimator == "additive":
        epochs = search.settings.adapt_epochs
        adapted = [search.shared.adapt(one, epochs).val for one in architectures]
        worth = search.worth(architectures).tolist()
        said |= {"ops": worth, "adapted": adapted}
        said["metric + ops"] = (rankdata(said["metric"]) + rankdata(worth)).tolist()
        said["ops + adapted"] = (rankdata(worth) + rankdata(adapted)).tolist()
    return said


def curve(problem: Problem, architecture: Architecture, seed: int) -> list[float]:
    """The validation metric of a whole training, epoch by epoch."""
    vals: list[float] = []
    train_once(
        architecture,
        problem.task,
        hidden=problem.hidden,
        recipe=problem.recipe,
        seed=seed,
        on_epoch=lambda epoch: vals.append(epoch.val),
    )
    return vals


def correlations(said: dict[str, list[float]], trained: list[float]) -> dict[str, float]:
    """Spearman's of each signal that says anything."""
    return {
        signal: round(float(spearmanr(values, trained).statistic), 4)
        for signal, values in said.items()
        if len(set(values)) > 1
    }


def promises(
    problem: Problem, architectures: list[Architecture], trained: list[float]
) -> dict[str, float]:
    """How what the first say of choices correlates with what the others come to."""
    found: dict[str, float] = {}
    for count in LEARNED:
        if count + REST <= len(architectures):
            known = dict(zip(architectures[:count], trained[:count], strict=True))
            worth = Effects(problem, known).worth(architectures[count:]).tolist()
            found |= correlations({f"effects of {count}": worth}, trained[count:])
    return found


def work(arguments: argparse.Namespace) -> None:
    """One task, split and seed: train, search, compare; a line of JSON."""
    task, seed, _ = load(arguments)
    generator = torch.Generator().manual_seed(seed)
    problem = Problem(
        task, SPACES["paper"], arguments.blocks, arguments.hidden, Recipe(), seed=seed
    )
    architectures = [problem.sample(generator) for _ in range(arguments.architectures)]
    curves = [curve(problem, architecture, seed + 2**32) for architecture in architectures]
    trained = [max(vals) for vals in curves]
    partly = {f"epoch {rung}": [max(vals[:rung]) for vals in curves] for rung in RUNGS}
    known = correlations(partly, trained) | promises(problem, architectures, trained)
    found: dict[str, Any] = {TRAINING: {"correlation": known}}
    for name in arguments.searches:
        strategy = SEARCHES[name]
        began = time.perf_counter()
        with strategy.begin(problem) as search:
            assert isinstance(search, PdnasSearch)
            while not search.is_over:
                search.step()
            seconds = time.perf_counter() - began
            said = signals(search, architectures)
        found[name] = {
            "seconds": seconds,
            "correlation": correlations(said, trained),
        }
    record = {
        "task": task.name,
        "split": task.split.name,
        "split_sha256": task.split.sha256,
        "search_seed": seed,
        "trained": trained,
        "searches": found,
    }
    print(json.dumps(record), flush=True)


def table(records: list[dict[str, Any]]) -> str:
    """Mean correlation of each search and signal, over the searches of each setting."""
    places = [place for place in SETTINGS if any((r["task"], r["split"]) == place for r in records)]
    head = " | ".join(f"{task}, {split}" for task, split in places)
    lines = [f"| search | signal | {head} | mean |", "|---" * (len(places) + 3) + "|"]
    for name in (TRAINING, *SEARCHES):
        for signal in (*SIGNALS, *OF_TRAININGS):
            cells = []
            for place in places:
                values = [
                    r["searches"][name]["correlation"][signal]
                    for r in records
                    if (r["task"], r["split"]) == place
                    and signal in r["searches"].get(name, {"correlation": {}})["correlation"]
                ]
                cells.append(statistics.fmean(values) if values else None)
            known = [cell for cell in cells if cell is not None]
            if known:
                texts = ["-" if cell is None else f"{cell:.2f}" for cell in cells]
                mean = statistics.fmean(known)
                lines.append(f"| {name} | {signal} | {' | '.join(texts)} | {mean:.2f} |")
    return "\n".join(lines) + "\n"


def write(arguments: argparse.Namespace, records: list[dict[str, Any]]) -> None:
    """Write the figures and the table."""
    device = find_device(arguments.device)
    output = arguments.output or RESULTS / f"ranking-{device.type}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python {SCRIPT} --device {device.type} --workers {arguments.workers} "
        f"--blocks {arguments.blocks} --hidden {arguments.hidden} "
        f"--search-seeds {arguments.search_seeds} --architectures {arguments.architectures} "
        f"--searches {' '.join(map(repr, arguments.searches))}"
        + (f" --only {' '.join(arguments.only)}" if arguments.only else ""),
        "recipe": Recipe().model_dump(),
        "strategies": {name: s.model_dump(mode="json") for name, s in SEARCHES.items()},
        "environment": environment(device, threads=1),
        "records": sorted(records, key=lambda r: (r["task"], r["split"], r["search_seed"])),
    }
    output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    output.with_suffix(".md").write_text(table(records), encoding="utf-8")


def main() -> None:
    """Run all units, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--architectures", type=int, default=24, help="random architectures per search"
    )
    parser.add_argument(
        "--searches", nargs="+", default=list(SEARCHES), choices=SEARCHES, help="kinds of search"
    )
    arguments = parse(parser)
    if arguments.unit:
        work(arguments)
        return
    units = [
        f"{task}/{split}/{seed}/all"
        for task, split in arguments.settings
        for seed in range(arguments.search_seeds)
    ]
    print(table(run_units(arguments, units, write)))


if __name__ == "__main__":
    main()
