"""One training step of our networks against the same networks made of PyG's layers.

For each data set and network both are stepped in turn in one process, so that whatever else the
machine does befalls both; the figure is the ratio of the medians. On a CPU one thread is used.

    python benchmarks/speed/train_step.py --device cpu

writes ``benchmarks/results/speed/train_step-<device>.json``.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from torch_geometric.nn import GATConv, GCNConv, SAGEConv  # noqa: E402

from pdnas.models import GraphNetwork  # noqa: E402
from pdnas.models.baselines import BASELINES  # noqa: E402
from pdnas.ops import SparseFeatures  # noqa: E402
from pdnas.runs import environment  # noqa: E402
from pdnas.tasks import GraphTask, load_task  # noqa: E402
from pdnas.training import RECIPES, Recipe  # noqa: E402
from pdnas.training.batching import Batches  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402
from pdnas.training.metrics import loss  # noqa: E402

TASKS = ("cora", "citeseer", "pubmed", "pyg:Amazon/Photo")
SCRIPT = "benchmarks/speed/train_step.py"
RESULTS = Path(__file__).parents[1] / "results" / "speed"


class Reference(nn.Module):
    """Two of PyG's layers with dropout before each, as PyG's own examples have it."""

    def __init__(self, name: str, task: GraphTask, recipe: Recipe) -> None:
        super().__init__()
        inner, outer, hidden = task.in_channels, task.out_channels, BASELINES[name].hidden
        self.rates = (recipe.input_dropout, recipe.dropout)
        if name == "gcn":
            self.first = GCNConv(inner, hidden, cached=True)
            self.second = GCNConv(hidden, outer, cached=True)
            self.activation: Callable[[Tensor], Tensor] = F.relu
        elif name == "gat":
            drop = recipe.attention_dropout
            self.first = GATConv(inner, hidden // 8, heads=8, dropout=drop)
            self.second = GATConv(hidden, outer, heads=1, concat=False, dropout=drop)
            self.activation = F.elu
        else:
            self.first = SAGEConv(inner, hidden)
            self.second = SAGEConv(hidden, outer)
            self.activation = F.relu

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, self.rates[0], self.training)
        x = self.activation(self.first(x, edge_index))
        x = F.dropout(x, self.rates[1], self.training)
        logits: Tensor = self.second(x, edge_index)
        return logits


def stepper(
    network: nn.Module, inputs: tuple[Any, Any], task: GraphTask, recipe: Recipe
) -> Callable[[], None]:
    """A function that takes one training step."""
    optimizer = recipe.make_optimizer(network.parameters())
    batch = next(Batches(task, "train").in_order())
    network.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(batch.select(network(*inputs)), batch.y, task.kind).backward()
        optimizer.step()

    return step


def seconds(step: Callable[[], None], device: torch.device) -> float:
    """How long one step takes: by events on a GPU, by the clock on a CPU."""
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize(device)
        return float(start.elapsed_time(end)) / 1000
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def compare(name: str, task: GraphTask, device: torch.device, steps: int) -> dict[str, Any]:
    """Medians of both, step by step in turn, and their ratio."""
    recipe, baseline = RECIPES[name], BASELINES[name]
    graph = task.graphs[0]
    dense = graph.x.to_dense() if isinstance(graph.x, SparseFeatures) else graph.x
    rates = {
        field: getattr(recipe, field) for field in ("input_dropout", "dropout", "attention_dropout")
    }
    ours = GraphNetwork(baseline.architecture, task, baseline.hidden, **rates).to(device)
    theirs = Reference(name, task, recipe).to(device)
    assert sum(w.numel() for w in ours.parameters()) == sum(w.numel() for w in theirs.parameters())
    step_ours = stepper(ours, (graph.x, graph.adjacency), task, recipe)
    step_theirs = stepper(theirs, (dense, graph.edge_index), task, recipe)
    times: dict[str, list[float]] = {"ours": [], "pyg": []}
    for _ in range(3):
        step_ours()
        step_theirs()
    for _ in range(steps):
        times["ours"].append(seconds(step_ours, device))
        times["pyg"].append(seconds(step_theirs, device))
    medians = {key: statistics.median(values) for key, values in times.items()}
    return {
        "network": name,
        "task": task.name,
        "sparse_features": isinstance(graph.x, SparseFeatures),
        "density": float(torch.count_nonzero(dense)) / dense.numel(),
        "split_sha256": task.split.sha256,
        "ours_ms": 1000 * medians["ours"],
        "pyg_ms": 1000 * medians["pyg"],
        "ratio": medians["ours"] / medians["pyg"],
    }


def main() -> None:
    """Compare every network on every data set and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--steps", type=int, default=30, help="timed steps of each")
    parser.add_argument("--data-root", help="where the data sets are; default: PDNAS_DATA")
    parser.add_argument("-o", "--output", type=Path, help="where to write instead")
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = []
    for name in TASKS:
        task = load_task(name, data_root=arguments.data_root).to(device)
        for network in ("gcn", "gat", "sage"):
            row = compare(network, task, device, arguments.steps)
            rows.append(row)
            print(
                f"{row['network']:5} {row['task']:18} ours {row['ours_ms']:8.2f} ms   "
                f"PyG {row['pyg_ms']:8.2f} ms   ratio {row['ratio']:.3f}"
            )
    output = arguments.output or RESULTS / f"train_step-{device.type}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python {SCRIPT} --device {device.type} --steps {arguments.steps}",
        "seed": 0,
        "steps": arguments.steps,
        "environment": environment(device, threads=1),
        "rows": rows,
    }
    output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
