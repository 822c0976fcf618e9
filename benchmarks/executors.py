r"""What it costs to hand a trial to another process, or to a Ray cluster, beside a bare loop.

For each way, in a process of its own, a study of 1,000 trials of work that is over at once: asked
for, handed out, one report answered, the outcome written to the study's journal. The overhead of a
way is its time per trial minus that of the bare loop, in which the same study calls the work
itself. The driver's memory and time per trial are told for the first and the last hundred trials.
Then sixteen equal pieces of work, each so many seconds of one CPU, on a Ray cluster of one node
with one CPU, and on one of two such nodes.

    python benchmarks/executors.py

writes ``benchmarks/results/executors/executors-cpu.json`` and a table beside it.
"""

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pieces import Tiny
from units import Record, run_units

from pdnas.models.baselines import BASELINES
from pdnas.runs import environment
from pdnas.tasks import GraphTask, load_task
from pdnas.training import RECIPES
from pdnas.tuning.executor import Done, Executor, Failed
from pdnas.tuning.local import LocalExecutor
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.ray import LOCAL, RayExecutor
from pdnas.tuning.storage import JournalFile
from pdnas.tuning.study import RecipeStudy
from pdnas.tuning.work import TrainingOutcome, Work

WAYS = ("bare", "local", "ray")
"""Who does the trials."""

NODES = (1, 2)
"""How many nodes of one CPU do the equal pieces."""

PIECES = 16
"""How many of these there are."""

STORE = 80 * 2**20
"""Bytes of each node's object store."""

TASK = "task"
SCRIPT = "benchmarks/executors.py"
RESULTS = Path(__file__).parent / "results" / "executors"


def memory() -> int:
    """Bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def trials(way: str, count: int, span: int) -> Record:
    """A study of so many trials that are over at once.

    Args:
        way: Who does them.
        count: How many.
        span: How many of the first and the last are looked at.
    """
    task = load_task("citeseer")
    ended: list[float] = []
    grown: list[int] = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        study = RecipeStudy(
            BASELINES["gcn"].architecture,
            RECIPES["gcn"],
            fields=tuple(RANGES),
            trials=count,
            seeds=1,
            storage=JournalFile(Path(folder) / "study.journal"),
        )

        def supply() -> tuple[int, Work] | None:
            asked = study.ask() if len(ended) < count else None
            if asked is None:
                return None
            return asked.number, Tiny(task=TASK, val=1 / (2 + asked.recipe.lr))

        def finished(event: Done | Failed) -> None:
            assert isinstance(event, Done), event.reason
            study.ended(event.number, TrainingOutcome.model_validate(event.outcome))
            ended.append(time.perf_counter())
            grown.append(memory())

        with _open(way, task) as executor:
            if executor is None:
                while (following := supply()) is not None:
                    number, work = following
                    outcome = work.do(task, partial(study.report, number))
                    finished(Done(number, outcome))
            else:
                executor.drive(
                    supply,
                    reported=lambda event: study.report(event.number, event.epoch, event.val),
                    finished=finished,
                )
    each = [after - before for before, after in itertools.pairwise(ended)]
    return {
        "way": way,
        "trials": len(ended),
        "start_seconds": ended[0] - began,
        "trial_seconds": statistics.fmean(each),
        "median_trial_seconds": statistics.median(each),
        "first_trial_seconds": statistics.fmean(each[:span]),
        "last_trial_seconds": statistics.fmean(each[-span:]),
        "first_bytes": grown[min(span, len(grown)) - 1],
        "last_bytes": grown[-1],
    }


def _open(way: str, task: GraphTask) -> Any:
    if way == "bare":
        return nullcontext()
    if way == "local":
        return LocalExecutor({TASK: task}, device="cpu")
    return RayExecutor({TASK: task}, address=LOCAL, workers=1)


def side_by_side(nodes: int, seconds: float) -> Record:
    """Equal pieces of work on so many nodes of one CPU each; processes are started before.

    Args:
        nodes: How many.
        seconds: Of a CPU that each piece takes.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for _ in range(nodes):
        cluster.add_node(num_cpus=1, object_store_memory=STORE, include_dashboard=False)
    task = load_task("citeseer")
    with RayExecutor({TASK: task}, address=cluster.address) as executor:
        _do(executor, nodes, 2.0)  # so long that each node has a process
        began = time.perf_counter()
        _do(executor, PIECES, seconds)
        spent = time.perf_counter() - began
    cluster.shutdown()
    return {"nodes": nodes, "pieces": PIECES, "piece_seconds": seconds, "seconds": spent}


def _do(executor: Executor, count: int, seconds: float) -> None:
    works = iter([(n, Tiny(task=TASK, val=0.5, seconds=seconds)) for n in range(count)])
    ended: list[Done | Failed] = []
    executor.drive(lambda: next(works, None), reported=lambda _: False, finished=ended.append)
    failed = [event.reason for event in ended if isinstance(event, Failed)]
    assert not failed, failed


def do(arguments: argparse.Namespace) -> Record:
    """What the unit that this process is for comes to."""
    torch.set_num_threads(1)
    kind, _, which = arguments.unit.partition("/")
    if kind == "trials":
        record = trials(which, arguments.trials, arguments.span)
    else:
        record = side_by_side(int(which), arguments.seconds)
    about = environment(torch.device("cpu"), 1)
    about["packages"] |= {name: version(name) for name in ("optuna", "ray")}
    return {**record, "environment": {**about, "cores": len(os.sched_getaffinity(0))}}


def table(records: list[Record]) -> str:
    """What it costs, way by way, and what nodes are worth."""
    ways = {record["way"]: record for record in records if "way" in record}
    lines = [
        "| way | trials | ms per trial | median | overhead in ms | first hundred | last hundred | "
        "MB after the first hundred | at the end | seconds to the first trial |",
        "|" + "---|" * 10,
    ]
    for way, record in ways.items():
        over = 1000 * (record["trial_seconds"] - ways["bare"]["trial_seconds"])
        overhead = "" if way == "bare" else f"{over:.1f}"
        lines.append(
            f"| {way} | {record['trials']:,} | {1000 * record['trial_seconds']:.1f} | "
            f"{1000 * record['median_trial_seconds']:.1f} | {overhead} | "
            f"{1000 * record['first_trial_seconds']:.1f} | "
            f"{1000 * record['last_trial_seconds']:.1f} | {record['first_bytes'] / 1e6:.0f} | "
            f"{record['last_bytes'] / 1e6:.0f} | {record['start_seconds']:.1f} |"
        )
    several = [record for record in records if "nodes" in record]
    for record in several:
        lines += [
            "",
            f"{record['pieces']} pieces of {record['piece_seconds']:g} s on {record['nodes']} "
            f"node(s) of one CPU, of {record['environment']['cores']} core(s) in all: "
            f"{record['seconds']:.1f} s, "
            f"{several[0]['seconds'] / record['seconds']:.2f} times as fast as one node.",
        ]
    return "\n".join(lines) + "\n"


def write(arguments: argparse.Namespace, records: list[Record]) -> None:
    """Write what there is so far."""
    order = [f"trials/{way}" for way in WAYS] + [f"nodes/{nodes}" for nodes in NODES]
    ordered = sorted(records, key=lambda record: order.index(_unit(record)))
    command = f"python {SCRIPT} --trials {arguments.trials} --seconds {arguments.seconds:g}"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"command": command, "records": ordered}, indent=1) + "\n"
    arguments.output.write_text(text, encoding="utf-8")
    if {record.get("way") for record in records} >= set(WAYS):
        arguments.output.with_suffix(".md").write_text(table(ordered), encoding="utf-8")


def _unit(record: Record) -> str:
    return f"trials/{record['way']}" if "way" in record else f"nodes/{record['nodes']}"


def main() -> None:
    """Measure all ways, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=1000, help="trials of each way")
    parser.add_argument("--span", type=int, default=100, help="how many are first, and last")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a CPU, of an equal piece")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "executors-cpu.json")
    parser.add_argument("--unit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.unit:
        print(json.dumps(do(arguments)))
        return
    arguments.workers = 1  # side by side they would disturb each other
    units = [f"trials/{way}" for way in WAYS] + [f"nodes/{nodes}" for nodes in NODES]
    records = run_units(arguments, units, write)
    print(table(records))
    if len(records) < len(units):
        raise SystemExit(f"{len(units) - len(records)} of {len(units)} parts failed; see above.")


if __name__ == "__main__":
    main()
