"""One epoch of the search against the same architectures trained as plain networks.

An epoch of the search samples a path, steps its weights on the training part and looks at the
validation part. The reference takes one training step and one validation step, forward and
backward, of the same path built as a plain network. Both take turns in one process, so that
whatever else the machine does befalls both; the figure is the ratio of the sums over all epochs.
Searches of two blocks are then run as a whole, with the ranking of their candidates, and timed.

    PDNAS_DATA=/path/to/data python benchmarks/speed/search_step.py --device cpu

writes ``benchmarks/results/speed/search_step-<device>.json``.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler speaks of itself otherwise

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from pdnas.architecture import Architecture  # noqa: E402
from pdnas.models import GraphNetwork  # noqa: E402
from pdnas.runs import environment  # noqa: E402
from pdnas.search import Problem  # noqa: E402
from pdnas.search.pdnas import PRESETS, PdnasSearch  # noqa: E402
from pdnas.space import SPACES  # noqa: E402
from pdnas.tasks import GraphTask, load_task  # noqa: E402
from pdnas.training import Recipe  # noqa: E402
from pdnas.training.batching import Batches  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402
from pdnas.training.metrics import loss, score  # noqa: E402

TASKS = ("cora", "citeseer", "pubmed")
BLOCKS = (2, 4, 7)
WHOLE = 2
"""The depth at which searches are run as a whole too."""

ROWS = {name: PRESETS[name] for name in ("default", "straight-through", "paper")}
SCRIPT = "benchmarks/speed/search_step.py"
RESULTS = Path(__file__).parents[1] / "results" / "speed"


class Reference:
    """The path of an epoch as a plain network, with its own optimizer."""

    def __init__(self, architecture: Architecture, problem: Problem) -> None:
        recipe, self.task = problem.recipe, problem.task
        self.network = GraphNetwork(
            architecture,
            problem.task,
            problem.hidden,
            input_dropout=recipe.input_dropout,
            dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
        ).to(problem.device)
        # The same kind of optimizer as the search has.
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True
        )
        self.train = Batches(problem.task, "train")
        self.val = Batches(problem.task, "val")

    def step(self) -> None:
        """One step on the training part, then forward and backward on the validation part."""
        batch = next(self.train.in_order())
        self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        train_loss = self._loss(batch)[0]
        train_loss.backward()
        self.optimizer.step()
        self.network.eval()
        self.optimizer.zero_grad(set_to_none=True)
        batch = next(self.val.in_order())
        val_loss, logits = self._loss(batch)
        val_loss.backward()
        metric = score(logits.detach(), batch.y, self.task.kind, self.task.metric)
        torch.stack([train_loss.detach(), val_loss.detach(), metric]).tolist()

    def _loss(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        logits = batch.select(self.network(batch.x, batch.adjacency))
        return loss(logits, batch.y, self.task.kind), logits


def sampled(search: PdnasSearch, details: Any) -> Architecture:
    """The architecture that an epoch evaluated: with soft gates every shortcut was part of it."""
    size = search.problem.num_blocks
    gates = torch.zeros(size, size)
    gates[search.router.possible] = torch.tensor(details["gates"]) / 1000
    if search.settings.gating == "soft":
        gates = search.router.possible.float()
    return search.supernet.architecture(torch.tensor(details["path"]), gates)


def seconds(action: Callable[[], Any], device: torch.device) -> tuple[float, Any]:
    """How long something takes, and what it gives; a GPU is waited for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    outcome = action()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began, outcome


def peak_bytes(action: Callable[[], Any], device: torch.device) -> int:
    """The most memory that tensors take during an action, above what they took before it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        action()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        action()
    assert profiler.profiler is not None
    events = profiler.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    now = peak = 0
    for _, change in changes:
        now += change
        peak = max(peak, now)
    return peak


def state_bytes(network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Weights and what the optimizer keeps for them."""
    kept = [tensor for state in optimizer.state.values() for tensor in state.values()]
    return sum(tensor.numel() * tensor.element_size() for tensor in [*network.parameters(), *kept])


def compare(
    row: str, task: GraphTask, num_blocks: int, *, hidden: int, warm: int, epochs: int
) -> dict[str, Any]:
    """Epochs of the search and of the reference in turn, and the peak memory of both."""
    problem = Problem(task, SPACES["paper"], num_blocks, hidden, Recipe())
    device = problem.device
    ours = theirs = 0.0
    memory: dict[str, int] = {"search": 0, "plain": 0}
    with ROWS[row].begin(problem) as search:
        assert isinstance(search, PdnasSearch)
        for _ in range(warm):
            search.step()
        for _ in range(epochs):
            spent, epoch = seconds(search.step, device)
            reference = Reference(sampled(search, epoch.details), problem)
            reference.step()  # makes the optimizer's state, and what the graph remembers
            ours += spent
            theirs += seconds(reference.step, device)[0]
        for _ in range(5):
            epochs_seen: list[Any] = []
            peak = peak_bytes(lambda seen=epochs_seen: seen.append(search.step()), device)  # type: ignore[misc]
            reference = Reference(sampled(search, epochs_seen[0].details), problem)
            reference.step()
            plain = peak_bytes(reference.step, device)
            plain += state_bytes(reference.network, reference.optimizer)
            if peak > memory["search"]:
                memory = {"search": peak, "plain": plain}
        state = state_bytes(search.supernet, search.shared.optimizer)
    return {
        "preset": row,
        "task": task.name,
        "split_sha256": task.split.sha256,
        "blocks": num_blocks,
        "hidden": hidden,
        "search_ms": 1000 * ours / epochs,
        "plain_ms": 1000 * theirs / epochs,
        "ratio": ours / theirs,
        "search_peak_bytes": memory["search"] + state,
        "plain_peak_bytes": memory["plain"],
        "state_bytes": state,
        "memory_allowed": memory["search"] + state <= memory["plain"] + state,
    }


def whole_seconds(
    row: str, task: GraphTask, num_blocks: int, *, hidden: int, epochs: int | None = None
) -> dict[str, float]:
    """How long all epochs of a search take, and the ranking of its candidates after them.

    Args:
        row: The preset.
        task: On what.
        num_blocks: Depth.
        hidden: Channels between blocks.
        epochs: How many; none: as many as the preset has.
    """
    problem = Problem(task, SPACES["paper"], num_blocks, hidden, Recipe())
    settings = ROWS[row] if epochs is None else ROWS[row].lasting(epochs)
    with settings.begin(problem) as search:

        def run() -> None:
            while not search.is_over:
                search.step()

        searching, _ = seconds(run, problem.device)
        ranking, _ = seconds(
            lambda: search.refine(search.candidates(lambda: False), lambda: False), problem.device
        )
    return {"epochs": settings.epochs, "search_s": searching, "ranking_s": ranking}


def main() -> None:
    """Compare every preset on every data set and depth and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--epochs", type=int, default=40, help="timed epochs of each")
    parser.add_argument("--warm", type=int, default=40, help="epochs before them")
    parser.add_argument("--hidden", type=int, default=32, help="channels between blocks")
    parser.add_argument(
        "--presets", nargs="+", default=list(ROWS), choices=ROWS, help="kinds of search"
    )
    parser.add_argument("--blocks", type=int, nargs="+", default=BLOCKS, help="depths")
    parser.add_argument("--data-root", help="where the data sets are; default: PDNAS_DATA")
    parser.add_argument("-o", "--output", type=Path, help="where to write instead")
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    torch.set_num_threads(1)
    rows = []
    for name in TASKS:
        task = load_task(name, data_root=arguments.data_root).to(device)
        for num_blocks in arguments.blocks:
            for preset in arguments.presets:
                row = compare(
                    preset,
                    task,
                    num_blocks,
                    hidden=arguments.hidden,
                    warm=arguments.warm,
                    epochs=arguments.epochs,
                )
                if num_blocks == WHOLE:
                    row |= whole_seconds(preset, task, num_blocks, hidden=arguments.hidden)
                    print(
                        f"{preset:17} {row['task']:9} {num_blocks} blocks   {row['epochs']} epochs "
                        f"in {row['search_s']:.2f} s, ranking {row['ranking_s']:.2f} s",
                        flush=True,
                    )
                rows.append(row)
                print(
                    f"{row['preset']:17} {row['task']:9} {num_blocks} blocks   search "
                    f"{row['search_ms']:7.2f} ms   plain {row['plain_ms']:7.2f} ms   ratio "
                    f"{row['ratio']:.3f}   peak {row['search_peak_bytes'] / 2**20:.0f} MiB, "
                    f"allowed {(row['plain_peak_bytes'] + row['state_bytes']) / 2**20:.0f}",
                    flush=True,
                )
    output = arguments.output or RESULTS / f"search_step-{device.type}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python {SCRIPT} --device {device.type} --epochs {arguments.epochs} "
        f"--warm {arguments.warm} --hidden {arguments.hidden} "
        f"--presets {' '.join(arguments.presets)} --blocks {' '.join(map(str, arguments.blocks))}",
        "seed": 0,
        "environment": environment(device, threads=1),
        "rows": rows,
    }
    output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
