r"""How cost grows with the graph: synthetic graphs with planted classes, from few edges to many.

Degrees follow a power law, and an edge joins two nodes of one class with probability ``HOMOPHILY``
(a degree-corrected block model). Nodes have 100 features and one of 47 classes, and there are 50.5
edges per node, as in ogbn-products, which has 123718280, counted in both directions as all edges
are here. For every size, in a process of its own: the seconds of an epoch of a search and of a
training, validation included, without and with the cutting into clusters, and the peak of memory;
nothing where a step on the whole graph would not fit. The exponent :math:`b` of
:math:`t = a E^b` is fitted to the largest sizes, where fixed costs no longer matter.

    python benchmarks/scale.py --device cpu --edges 100000 1000000 10000000 --batch-nodes 20000

writes ``benchmarks/results/scale/scale-<device>.json`` and a table beside it.
"""

import argparse
import json
import math
import resource
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from torch_geometric.data import Data

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from units import Record, run_units  # noqa: E402

from pdnas.architecture import Architecture  # noqa: E402
from pdnas.models.baselines import BASELINES  # noqa: E402
from pdnas.runs import environment  # noqa: E402
from pdnas.search import Problem  # noqa: E402
from pdnas.search.pdnas import PRESETS  # noqa: E402
from pdnas.space import SPACES  # noqa: E402
from pdnas.tasks import GraphTask  # noqa: E402
from pdnas.training import Recipe  # noqa: E402
from pdnas.training.clusters import clusters  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402
from pdnas.training.memory import Load, load_of, load_of_search, settle  # noqa: E402
from pdnas.training.seeds import train_once  # noqa: E402

FEATURES, CLASSES, DEGREE = 100, 47, 50.5
"""Of ogbn-products, the last one of both directions together."""

HOMOPHILY, TAIL = 0.8, 2.5
"""How often an edge stays within a class, and the exponent of the degrees' power law."""

FITTED = 2
"""How many of the largest sizes tell how cost grows."""

BLOCKS = 2
"""Of the networks that are searched."""

WARM = 2
"""Epochs before those that are timed."""

SCRIPT = "benchmarks/scale.py"
RESULTS = Path(__file__).parent / "results" / "scale"


def planted(edges: int, seed: int = 0) -> GraphTask:
    """A graph with about so many edges, counted in both directions.

    Args:
        edges: How many.
        seed: Of everything that is random.
    """
    generator = torch.Generator().manual_seed(seed)
    nodes = max(20 * CLASSES, round(edges / DEGREE))
    y = torch.randint(CLASSES, (nodes,), generator=generator)
    # Inverse transform of a Pareto law, cut off so that no node has all edges.
    weights = (1 - torch.rand(nodes, generator=generator, dtype=torch.float64)).pow(-1 / (TAIL - 1))
    weights = weights.clamp(max=math.sqrt(nodes))
    sources = draw(weights, edges // 2, generator)
    targets = draw(weights, edges // 2, generator)
    inside = torch.rand(edges // 2, generator=generator) < HOMOPHILY
    targets[inside] = same_class(weights, y, y[sources[inside]], generator)
    centers = torch.randn(CLASSES, FEATURES, generator=generator)
    x = 0.5 * centers[y] + torch.randn(nodes, FEATURES, generator=generator)
    pairs = torch.stack([sources, targets])[:, sources != targets]
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    part = torch.rand(nodes, generator=generator)  # as sparsely labelled as ogbn-products
    masks = {
        "train_mask": part < 0.08,
        "val_mask": (part >= 0.08) & (part < 0.1),
        "test_mask": part >= 0.1,
    }
    data = Data(x=x, edge_index=edge_index, y=y, **masks)
    return GraphTask.from_data(data, name=f"planted-{edges}")


def draw(weights: Tensor, count: int, generator: Generator) -> Tensor:
    """Nodes, each as often as its weight says, ``[count]``."""
    sums = weights.cumsum(0)
    points = torch.rand(count, generator=generator, dtype=torch.float64) * sums[-1]
    return torch.searchsorted(sums, points).clamp(max=len(weights) - 1)


def same_class(weights: Tensor, y: Tensor, wanted: Tensor, generator: Generator) -> Tensor:
    """For each class that is wanted a node of it, as often as weights say, ``[count]``."""
    order = torch.argsort(y, stable=True)
    sums = weights[order].cumsum(0)
    sizes = torch.bincount(y, minlength=CLASSES)
    last = sizes.cumsum(0) - 1
    top = sums[last.clamp(min=0)]
    bottom = torch.cat([top.new_zeros(1), top[:-1]])
    share = torch.rand(len(wanted), generator=generator, dtype=torch.float64)
    points = bottom[wanted] + share * (top - bottom)[wanted]
    return order[torch.searchsorted(sums, points).clamp(max=len(y) - 1)]


def peak_bytes(device: torch.device) -> int:
    """The most memory that this process has had, on the device or, on a CPU, altogether."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def fits(recipe: Recipe, task: GraphTask, load: Load, device: torch.device) -> bool:
    """Whether a step fits into memory, as ``--batching auto`` decides it; batches always do."""
    if recipe.batch_nodes is not None:
        return True
    return settle(recipe, task, load, device=device, tell=lambda _: None).batching == "full"


def search_seconds(task: GraphTask, recipe: Recipe, hidden: int, epochs: int) -> float | None:
    """Median time of an epoch of the default search; none: it would not fit."""
    problem = Problem(task, SPACES["paper"], BLOCKS, hidden, recipe)
    device = problem.device
    load = load_of_search(problem.space, task, BLOCKS, hidden, recipe, device, mixed=False)
    if not fits(recipe, task, load, device):
        return None
    seconds = []
    with PRESETS["default"].begin(problem) as search:
        for _ in range(WARM + epochs):
            began = time.perf_counter()
            search.step()  # it ends with figures on the CPU: the device is done by then
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[WARM:])


def train_seconds(
    architecture: Architecture, task: GraphTask, recipe: Recipe, hidden: int, epochs: int
) -> tuple[float | None, float | None]:
    """Median time of an epoch of a training, and its validation in the end; none: it won't fit."""
    device = task.graphs[0].y.device
    if not fits(recipe, task, load_of(architecture, task, hidden, recipe, device), device):
        return None, None
    clock: list[float] = []
    _, fit = train_once(
        architecture,
        task,
        hidden=hidden,
        recipe=recipe.changed(epochs=WARM + epochs),
        seed=0,
        on_epoch=lambda _: clock.append(time.perf_counter()),
    )
    pairs = zip(clock[WARM:], clock[WARM - 1 : -1], strict=True)
    return statistics.median(after - before for after, before in pairs), fit.val


def do(arguments: argparse.Namespace) -> Record:
    """One size, cut into clusters or not."""
    edges, batch = arguments.unit.split("/")
    batch_nodes = None if batch == "full" else int(batch)
    device = find_device(arguments.device)
    torch.set_num_threads(arguments.threads)
    made = time.perf_counter()
    task = planted(int(edges)).to(device)
    graph = task.graphs[0].adjacency
    began = time.perf_counter()
    if batch_nodes is not None:
        clusters(graph, batch_nodes)
    cut = time.perf_counter() - began
    recipe = Recipe(dropout=0.2, input_dropout=0.0, weight_decay=0.0, batch_nodes=batch_nodes)
    training, val = train_seconds(
        BASELINES["gcn"].architecture, task, recipe, arguments.hidden, arguments.epochs
    )
    searching = search_seconds(task, recipe, arguments.hidden, arguments.epochs)
    return {
        "edges": graph.num_edges,
        "nodes": graph.num_nodes,
        "batch_nodes": batch_nodes,
        "hidden": arguments.hidden,
        "making_seconds": began - made,
        "cutting_seconds": cut,
        "search_epoch_seconds": searching,
        "training_epoch_seconds": training,
        "val": val,
        "peak_bytes": peak_bytes(device),
        "split_sha256": task.split.sha256,
        "environment": environment(device, threads=arguments.threads),
    }


def exponent(records: list[Record], figure: str) -> float | None:
    """Of the growth with edges, over the largest sizes; none where there are too few."""
    done = [record for record in records if record[figure] is not None]
    largest = sorted(done, key=lambda record: record["edges"])[-FITTED:]
    if len(largest) < FITTED:
        return None
    logs = [(math.log(record["edges"]), math.log(record[figure])) for record in largest]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def table(records: list[Record]) -> str:
    """One row per size, and how cost grows."""
    lines = [
        "| edges | nodes | nodes per step | search epoch, s | training epoch, s | cutting, s | "
        "peak, GiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        lines.append(
            f"| {record['edges']:,} | {record['nodes']:,} | {record['batch_nodes'] or 'all'} | "
            f"{_cell(record['search_epoch_seconds'])} | "
            f"{_cell(record['training_epoch_seconds'])} | "
            f"{record['cutting_seconds']:.1f} | {record['peak_bytes'] / 2**30:.2f} |"
        )
    lines.append("")
    for batch in dict.fromkeys(record["batch_nodes"] for record in records):
        own = [record for record in records if record["batch_nodes"] == batch]
        for figure in ("search_epoch_seconds", "training_epoch_seconds"):
            slope = exponent(own, figure)
            if slope is not None:
                what = figure.removesuffix("_seconds").replace("_", " ")
                how = "the whole graph" if batch is None else f"{batch} nodes per step"
                lines.append(
                    f"A {what} with {how} takes about edges^{slope:.2f} "
                    f"between the {FITTED} largest sizes."
                )
    return "\n".join(lines) + "\n"


def _cell(seconds: float | None) -> str:
    return "does not fit" if seconds is None else f"{seconds:.3f}"


def write(arguments: argparse.Namespace, records: list[Record]) -> None:
    """Write what there is so far."""
    ordered = sorted(records, key=lambda record: (record["batch_nodes"] or 0, record["edges"]))
    edges = " ".join(map(str, arguments.edges))
    command = (
        f"python {SCRIPT} --device {find_device(arguments.device).type} --edges {edges} "
        f"--batch-nodes {arguments.batch_nodes} --epochs {arguments.epochs} "
        f"--hidden {arguments.hidden} --threads {arguments.threads}"
        + (" --clusters-only" if arguments.clusters_only else "")
    )
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"command": command, "records": ordered}, indent=1) + "\n"
    arguments.output.write_text(text, encoding="utf-8")
    arguments.output.with_suffix(".md").write_text(table(ordered), encoding="utf-8")


def main() -> None:
    """Measure all sizes, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--edges", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--batch-nodes", type=int, default=20_000, help="nodes per step")
    parser.add_argument("--clusters-only", action="store_true", help="never the whole graph")
    parser.add_argument("--epochs", type=int, default=5, help="epochs that are timed")
    parser.add_argument("--hidden", type=int, default=32, help="channels between blocks")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--unit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.unit:
        print(json.dumps(do(arguments)))
        return
    device = find_device(arguments.device)
    arguments.output = arguments.output or RESULTS / f"scale-{device.type}.json"
    arguments.workers = 1  # side by side they would disturb each other
    ways = [str(arguments.batch_nodes)] + ([] if arguments.clusters_only else ["full"])
    units = [f"{edges}/{way}" for edges in arguments.edges for way in ways]
    records: list[dict[str, Any]] = run_units(arguments, units, write)
    print(table(records))
    if len(records) < len(units):
        raise SystemExit(f"{len(units) - len(records)} of {len(units)} sizes failed; see above.")


if __name__ == "__main__":
    main()
