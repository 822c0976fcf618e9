r"""Whether a step on the whole graph fits into memory, and what to do where it does not.

A step of a training keeps what its gradients need. For a graph of :math:`N` nodes and :math:`E`
edges it is about

.. math::
    S \cdot \Big(E \cdot (95 + 56\,\hat H) + 4 \sum_{\text{blocks}} (N\,n + E\,e)\Big)
    \ \text{bytes}

with :math:`S` the copies of the graph (one more where there are several), :math:`\hat H` the most
heads of a learned attention where there are several (a pattern per head), and, for a block of
width :math:`O` (:math:`\hat O = H O` where the heads are averaged, see
:class:`~pdnas.ops.heads.Heads`), of input :math:`I` and inner width :math:`D`,

.. math::
    n = 5\,O + 2\,D + 3\,O K + 4\,\hat O\,[\text{max or cos}] + 2\,I\,[\text{input dropout}],
    \qquad
    e = 8\,H\,[\text{learned}] + 2\,H\,[\text{attention dropout}]
        + 4.5\,\hat O\,[\text{messages are kept}]

:math:`K` is the order of a propagation by powers. Messages are kept by the attention
``gene-linear``, on a GPU by the maximum, and by published networks. The factors are fitted to peaks
measured on planted graphs (``tests/training/test_memory.py`` measures some again).
"""

import itertools
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RecipeError
from pdnas.models import Design
from pdnas.models.published import Published
from pdnas.ops import AGGREGATIONS, ATTENTIONS
from pdnas.ops.features import SparseFeatures
from pdnas.space import SearchSpace
from pdnas.tasks import Graph, GraphTask
from pdnas.training.clusters import has_pymetis
from pdnas.training.neighbors import check_sampler
from pdnas.training.parallel import sharers as ranks_sharing
from pdnas.training.recipe import Recipe

SHARE = 0.8
"""The part of free memory that a step may need; the rest is for what an estimate cannot know."""

BATCH_SHARE = 0.4
"""The part that a batch may need: validation looks at the whole graph all the same."""

STEPS = 10
"""Steps of an epoch where batches are asked for, but not how large, and memory is no matter."""

SEEDS = 1024
"""Nodes that a step with neighbors learns from, where nobody says how many."""

BYTES, STRUCTURE, PER_HEAD = 4, 95, 56
"""Of a number, and of each edge of a graph and of its copy with a node for every head."""

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Load:
    """What a network keeps of a step.

    Args:
        node: Numbers for each node.
        edge: Numbers for each edge.
        heads: The most heads for which the graph has a pattern of its own; 1: for none.
    """

    node: float = 0.0
    edge: float = 0.0
    heads: int = 1

    def __add__(self, other: "Load") -> "Load":
        heads = max(self.heads, other.heads)
        return Load(self.node + other.node, self.edge + other.edge, heads)

    def bytes(self, nodes: int, edges: int, copies: int = 1) -> int:
        """Of a step on a graph of so many nodes and edges."""
        patterns = STRUCTURE + (PER_HEAD * self.heads if self.heads > 1 else 0)
        one = edges * patterns + BYTES * (nodes * self.node + edges * self.edge)
        return math.ceil(one * (copies + 1 if copies > 1 else 1))


def load_of(
    design: Design, task: GraphTask, hidden: int, recipe: Recipe, device: torch.device
) -> Load:
    """What a training of a design keeps; of a published network a guess by its layers.

    Args:
        design: What is trained.
        task: On what.
        hidden: Channels between blocks.
        recipe: How.
        device: Where.
    """
    if not isinstance(design, Architecture):
        layer = Load(node=5 * hidden, edge=4.5 * hidden)
        return _sum([layer] * _layers(design)) + _input(task, recipe)
    widths = design.widths(task, hidden)
    return _sum(
        _of_block(spec, out, hidden, recipe, device)
        for spec, out in zip(design.blocks, widths[1:], strict=True)
    ) + _input(task, recipe)


def load_of_search(
    space: SearchSpace,
    task: GraphTask,
    num_blocks: int,
    hidden: int,
    recipe: Recipe,
    device: torch.device,
    *,
    mixed: bool,
) -> Load:
    """What a step of a search keeps: that of the widest path, or of all ops at once.

    Args:
        space: Where it looks.
        task: On what.
        num_blocks: Depth.
        hidden: Channels between blocks.
        recipe: How.
        device: Where.
        mixed: Whether a step takes all ops of a slot, as that of ``darts`` does.
    """
    total = _input(task, recipe)
    # One that is not linear keeps most; all of them share what the attention keeps.
    aggregation = min(space.aggregation, key=lambda name: AGGREGATIONS[name].linear)
    for out in [hidden] * (num_blocks - 1) + [task.out_channels]:
        loads = [
            _of_block(
                BlockSpec(
                    expansion=max(space.expansion),
                    propagation=propagation,
                    attention=attention,
                    heads=heads,
                    aggregation=aggregation,
                ),
                out,
                hidden,
                recipe,
                device,
            )
            for propagation, attention, heads in itertools.product(
                space.propagation, space.attention, space.heads
            )
        ]
        widest = Load(*(max(getattr(one, part) for one in loads) for part in _PARTS))
        total += _sum(loads) if mixed else widest
    return total


_PARTS = ("node", "edge", "heads")


def _of_block(spec: BlockSpec, out: int, hidden: int, recipe: Recipe, device: torch.device) -> Load:
    node = 5.0 * out + 2 * spec.expansion * hidden
    if not spec.attends:
        return Load(node + 3 * out * spec.propagation)
    attention, linear = ATTENTIONS[spec.attention], AGGREGATIONS[spec.aggregation].linear
    learned = attention.learned
    heads = spec.heads if learned else 1
    dims = spec.dims(out, out, hidden)
    wide = out if dims.splits_heads or not learned else heads * out
    edge = 8.0 * heads if learned else 0.0
    if learned and recipe.attention_dropout:
        edge += 2 * heads
    if attention.wide or (device.type == "cuda" and not linear):
        edge += 4.5 * wide
    if spec.attention == "cos" or not linear:
        node += 4 * wide
    return Load(node, edge, heads)


def _input(task: GraphTask, recipe: Recipe) -> Load:
    x, nodes = task.graphs[0].x, task.graphs[0].num_nodes
    stored = x.pattern.nnz / max(nodes, 1) if isinstance(x, SparseFeatures) else task.in_channels
    drops = recipe.input_dropout > 0 or recipe.node_dropout > 0
    return Load(node=2.0 * stored if drops or recipe.copies > 1 else 0.0)


def _sum(loads: Iterable[Load]) -> Load:
    return sum(loads, Load())


def _layers(design: Published) -> int:
    """How many times a network's nodes hear their neighbors; two where it does not say."""
    return int(design.model_dump().get("layers", 2))


def free_bytes(device: torch.device) -> int:
    """Memory that nobody uses yet: a GPU's, or this machine's within the limits of its cgroup."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What torch holds for nobody is free for us.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min([_available(), *_cgroup_rooms()])


def _available() -> int:
    """What the kernel says can be had without swapping; all that there is where it does not."""
    if not MEMINFO.is_file():  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in MEMINFO.read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(value.split()[0])
    raise RecipeError(
        f"'{MEMINFO}' does not say how much memory is available; give --batching full or clusters."
    )


def _cgroup_rooms() -> list[int]:
    """What the limits of version 2 and version 1 leave, where there are any."""
    files = (
        (CGROUP / "memory.max", CGROUP / "memory.current"),
        (CGROUP / "memory/memory.limit_in_bytes", CGROUP / "memory/memory.usage_in_bytes"),
    )
    rooms = []
    for limit, used in files:
        if limit.is_file() and used.is_file():
            most = limit.read_text(encoding="ascii").strip()
            if most != "max":
                rooms.append(max(0, int(most) - int(used.read_text(encoding="ascii"))))
    return rooms


def settle(
    recipe: Recipe,
    task: GraphTask,
    load: Load,
    *,
    device: torch.device,
    tell: Callable[[str], None],
    sharers: int = 1,
    copies: int = 1,
) -> Recipe:
    """The recipe with what a step sees decided, once, before anything is trained.

    Args:
        recipe: What was asked for; a recipe that says all is given back as it is.
        task: On what.
        load: What a step on it keeps, see :func:`load_of` and :func:`load_of_search`.
        device: Where it will be computed.
        tell: Told in a sentence what was chosen, where it is not the whole graph, and what is lost.
        sharers: How many processes share the memory.
        copies: Of the graph that some trainings will have, where the recipe has fewer.
    """
    if task.split.unit == "graph":
        return _for_many_graphs(recipe, task)
    if recipe.way == "neighbors":
        check_sampler()
        size = recipe.batch_nodes or min(SEEDS, task.graphs[0].num_nodes)
        return recipe.changed(batching="neighbors", batch_nodes=size)
    if recipe.way == "full":
        return recipe
    if recipe.batch_nodes is None:
        step = _whole_step(task, load, max(recipe.copies, copies), device)
        free = free_bytes(device) // (sharers * ranks_sharing(device))
        settled = _fitted(recipe, task, step, free, device, tell)
    else:
        settled = recipe.changed(batching="clusters")
    is_cut = (settled.batch_nodes or math.inf) < task.graphs[0].num_nodes
    if is_cut and not has_pymetis():
        tell(
            "pymetis is not installed, so clusters are dealt out at random and most edges are lost "
            "in every step; pip install 'pdnas[large]' mends it."
        )
    return settled


def _for_many_graphs(recipe: Recipe, task: GraphTask) -> Recipe:
    if recipe.batching in ("clusters", "neighbors"):
        raise RecipeError(
            f"--batching is {recipe.batching}, but {task.name} has {len(task.graphs)} graphs, of "
            "which a step sees --batch-graphs; leave --batching out."
        )
    return recipe


class Step(NamedTuple):
    """Bytes of a step on the whole graph: what it keeps, and what must be moved there first."""

    kept: int
    moved: int


def _whole_step(task: GraphTask, load: Load, copies: int, device: torch.device) -> Step:
    graph = task.graphs[0]
    edges = graph.edge_index.size(1) + graph.num_nodes  # each node with a self-loop
    moved = 0 if graph.y.device == device else _resident(graph)
    return Step(load.bytes(graph.num_nodes, edges, copies), moved)


def _fitted(
    recipe: Recipe,
    task: GraphTask,
    step: Step,
    free: int,
    device: torch.device,
    tell: Callable[[str], None],
) -> Recipe:
    """All of the graph where it fits, else clusters that do."""
    nodes = task.graphs[0].num_nodes
    if recipe.way == "auto" and sum(step) <= SHARE * free:
        return recipe.changed(batching="full")
    room = (BATCH_SHARE * free - step.moved) / max(step.kept, 1)
    fitting = min(nodes, _round_down(nodes * room))
    if recipe.way == "clusters":
        return recipe.changed(batch_nodes=min(fitting, math.ceil(nodes / STEPS)))
    tell(
        f"A step on the whole graph would need about {_gib(sum(step))} GiB, and {_gib(free)} GiB "
        f"are free on {device}, so each step sees clusters of about {fitting} nodes (--batching "
        f"clusters --batch-nodes {fitting}); --batching full takes the whole graph all the same."
    )
    return recipe.changed(batching="clusters", batch_nodes=fitting)


def _resident(graph: Graph) -> int:
    """Bytes of a graph itself: its features, and its edges in both of their forms."""
    x = graph.x
    held: int = 12 * x.pattern.nnz if isinstance(x, SparseFeatures) else BYTES * x.numel()
    return held + 40 * graph.edge_index.size(1)


def _round_down(value: float) -> int:
    """To two digits, and one at least."""
    whole = max(1, int(value))
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return whole // unit * unit


def _gib(count: float) -> str:
    return f"{count / 2**30:.3g}"
