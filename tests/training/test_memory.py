"""What a step needs against what it took, what is free, and what is decided from both."""

import ctypes
import gc
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RecipeError
from pdnas.models import Design, make_network
from pdnas.models.baselines import BASELINES
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, memory
from pdnas.training.batching import Batches
from pdnas.training.epochs import train_epoch
from pdnas.training.memory import (
    BATCH_SHARE,
    SHARE,
    STEPS,
    Load,
    free_bytes,
    load_of,
    load_of_search,
    settle,
)

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
CLEAR = Path("/proc/self/clear_refs")
TOLERANCE = (0.75, 2.0)
"""An estimate is at least three quarters of what was measured, and at most twice that."""

GIB = 2**30


def status(name: str) -> int:
    """Bytes of a line of this process's status."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def peak(task: GraphTask, design: Design, hidden: int, recipe: Recipe) -> int:
    """Bytes that two steps of a training took at most, above what there was before."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    CLEAR.write_text("5")  # the peak begins again from here
    before = status("VmRSS")
    network = make_network(
        design,
        task,
        hidden,
        input_dropout=recipe.input_dropout,
        dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
    )
    batches, optimizer = Batches(task, "train"), recipe.make_optimizer(network.parameters())
    for _ in range(2):
        train_epoch(network, batches, task, optimizer, recipe, 1.0)
    return status("VmHWM") - before


def blocks(**slots: Any) -> Architecture:
    first = BlockSpec(**{"expansion": 0, "activation": "relu", **slots})
    return Architecture(blocks=(first, first.model_copy(update={"activation": "none"})))


LIGHT = Recipe(input_dropout=0.0, dropout=0.2)
CASES: dict[str, tuple[Design, Recipe]] = {
    "gcn": (blocks(attention="gcn"), LIGHT),
    "gcn, input dropped": (blocks(attention="gcn"), LIGHT.changed(input_dropout=0.5)),
    "wide transform and maximum": (
        blocks(attention="gcn", expansion=8, aggregation="max"),
        LIGHT,
    ),
    "four copies": (blocks(attention="gcn"), LIGHT.changed(copies=4)),
    "gat": (blocks(attention="gat", heads=8), LIGHT),
    "gat, attention dropped": (
        blocks(attention="gat", heads=8),
        LIGHT.changed(attention_dropout=0.5),
    ),
    "cos": (blocks(attention="cos", heads=16), LIGHT),
    "maximum of heads": (blocks(attention="gat", heads=16, aggregation="max"), LIGHT),
    "gene-linear": (blocks(attention="gene-linear"), LIGHT),
    "powers": (blocks(propagation=8), LIGHT),
}


def ratio(task: GraphTask, name: str) -> float:
    """How often what a case took goes into its estimate."""
    design, recipe = CASES[name]
    graph = task.graphs[0]
    took = peak(task, design, 32, recipe)
    edges = graph.edge_index.size(1) + graph.num_nodes
    return (
        load_of(design, task, 32, recipe, CPU).bytes(graph.num_nodes, edges, recipe.copies) / took
    )


FRESH = """
import os, sys
from scale import planted
from tests.training.test_memory import ratio

for line in sys.stdin:
    if not os.fork():
        print(ratio(planted(500_000), line.strip()), flush=True)
        os._exit(0)
    os.wait()
"""
"""Measures each case in a process that has freed nothing yet, and so cannot use it again."""


@pytest.fixture(scope="module")
def measured() -> Iterator[Callable[[str], float]]:
    """What :func:`ratio` is of a case by name, with nothing else in memory."""
    places = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    with subprocess.Popen(
        [sys.executable, "-c", FRESH],
        env={**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, told = process.stdin, process.stdout

        def measure(name: str) -> float:
            print(name, file=asked, flush=True)
            return float(told.readline())

        yield measure
        asked.close()


@pytest.mark.slow
@pytest.mark.skipif(not CLEAR.exists(), reason="only Linux tells the peak of a part of a run")
@pytest.mark.parametrize("name", CASES)
def test_the_estimate_is_near_what_is_measured(measured: Callable[[str], float], name: str) -> None:
    low, high = TOLERANCE
    assert low < measured(name) < high


def test_the_formula_by_hand(tiny_task: GraphTask) -> None:
    spec = BlockSpec(attention="gene-linear", heads=4, expansion=2)
    design = Architecture(blocks=(spec, spec))
    recipe = Recipe(input_dropout=0.5, attention_dropout=0.1)
    load = load_of(design, tiny_task, 8, recipe, CPU)
    classes, features = tiny_task.out_channels, tiny_task.in_channels
    assert classes % 4 != 0, "so the last block's heads are averaged"
    node = 2 * features + (5 * 8 + 2 * 2 * 8) + (5 * classes + 2 * 2 * 8)
    edge = 2 * (8 * 4 + 2 * 4) + 4.5 * (8 + 4 * classes)
    assert load == Load(node, edge, heads=4)
    assert load.bytes(10, 100) == math.ceil(100 * (95 + 56 * 4) + 4 * (10 * node + 100 * edge))
    assert load.bytes(10, 100, copies=3) == 4 * load.bytes(10, 100)


def test_on_a_gpu_the_maximum_keeps_its_messages(tiny_task: GraphTask) -> None:
    design, recipe = blocks(attention="gcn", aggregation="max"), Recipe()
    here, there = (
        load_of(design, tiny_task, 8, recipe, torch.device(name)) for name in ("cpu", "cuda")
    )
    assert there.edge - here.edge == 4.5 * (8 + tiny_task.out_channels)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_an_estimate(tiny_task: GraphTask, name: str) -> None:
    load = load_of(BASELINES[name].design, tiny_task, 8, Recipe(), CPU)
    assert load.bytes(10**6, 10**7) > 10**8


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("seed", range(20))
def test_no_member_of_a_space_needs_more_than_its_search(
    tiny_task: GraphTask, name: str, seed: int
) -> None:
    space = SPACES[name]
    member = space.sample(2, torch.Generator().manual_seed(seed))
    recipe = Recipe(attention_dropout=0.5)
    own = load_of(member, tiny_task, 8, recipe, CPU)
    path, all_ops = (
        load_of_search(space, tiny_task, 2, 8, recipe, CPU, mixed=mixed) for mixed in (False, True)
    )
    assert own.bytes(100, 1000) <= path.bytes(100, 1000) < all_ops.bytes(100, 1000)


def test_free_memory_is_that_of_the_machine_within_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert free_bytes(CPU) > 2**20, "where there is no such file, all memory"
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:     500 kB\n")
    assert free_bytes(CPU) == 500 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1024\n")
    assert free_bytes(CPU) == 500 * 1024, "no limit"
    (tmp_path / "memory.max").write_text(f"{301 * 1024}\n")
    assert free_bytes(CPU) == 300 * 1024
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("2048\n")
    (tmp_path / "memory/memory.usage_in_bytes").write_text("4096\n")
    assert free_bytes(CPU) == 0
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\n")
    with pytest.raises(RecipeError, match="does not say how much memory is available"):
        free_bytes(CPU)


@pytest.mark.gpu
def test_free_memory_of_a_gpu_is_what_it_says() -> None:
    free, total = torch.cuda.mem_get_info(0)
    assert free <= free_bytes(torch.device("cuda:0")) <= total


class Told(list[str]):
    """Keeps what it is told."""

    __call__ = list.append


def decide(
    monkeypatch: pytest.MonkeyPatch, task: GraphTask, free: float, recipe: Recipe, **values: Any
) -> tuple[Recipe, Told]:
    """What is decided with so many free bytes, for a load of a MiB per node and nothing else."""
    monkeypatch.setattr(memory, "free_bytes", lambda _: int(free))
    monkeypatch.setattr(memory, "STRUCTURE", 0)
    told = Told()
    load = Load(node=2**20 / 4)
    settled = settle(recipe, task, load, device=CPU, tell=told, **values)
    return settled, told


def test_where_the_whole_graph_fits_nothing_is_said(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = 20 * 2**20
    for recipe in (Recipe(lr=0.5), Recipe(lr=0.5, batching="auto")):
        settled, told = decide(monkeypatch, tiny_task, need / SHARE + 9, recipe)
        assert settled == Recipe(lr=0.5, batching="full")
        assert told == []
        assert decide(monkeypatch, tiny_task, 0, settled) == (settled, [])


def test_where_it_does_not_fit_clusters_do_and_one_sentence_says_why(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "has_pymetis", lambda: True)
    settled, told = decide(monkeypatch, tiny_task, 20 * 2**20, Recipe())
    assert settled == Recipe(batching="clusters", batch_nodes=8)
    assert int(BATCH_SHARE * 20) == 8
    assert told == [
        "A step on the whole graph would need about 0.0195 GiB, and 0.0195 GiB are free on cpu, "
        "so each step sees clusters of about 8 nodes (--batching clusters --batch-nodes 8); "
        "--batching full takes the whole graph all the same."
    ]
    assert decide(monkeypatch, tiny_task, 0, settled) == (settled, []), "and it stays so"


def test_those_who_share_memory_have_less_of_it_and_copies_need_more(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 20 * 2**20 / SHARE + 9
    assert decide(monkeypatch, tiny_task, free, Recipe(), sharers=2)[0].way == "clusters"
    assert decide(monkeypatch, tiny_task, 2 * free, Recipe(), sharers=2)[0].way == "full"
    for recipe, copies in ((Recipe(), 3), (Recipe(copies=3), 1)):
        assert decide(monkeypatch, tiny_task, 3.9 * free, recipe, copies=copies)[1]
        assert not decide(monkeypatch, tiny_task, 4 * free, recipe, copies=copies)[1]


@given(free=st.integers(0, 2**40), nodes=st.integers(1, 2**20))
def test_clusters_that_are_chosen_fit(free: int, nodes: int) -> None:
    size = memory._round_down(nodes * BATCH_SHARE * free / (nodes * 2**20))
    assert size == 1 or size * 2**20 <= BATCH_SHARE * free
    assert len(str(size).rstrip("0")) <= 2


def test_what_was_asked_for_is_kept(tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "has_pymetis", lambda: True)
    full = Recipe(batching="full")
    assert decide(monkeypatch, tiny_task, 0, full) == (full, [])
    settled, told = decide(monkeypatch, tiny_task, 10 * GIB, Recipe(batch_nodes=9))
    assert (settled, told) == (Recipe(batching="clusters", batch_nodes=9), [])
    settled, told = decide(monkeypatch, tiny_task, 10 * GIB, Recipe(batching="clusters"))
    assert (settled.batch_nodes, told) == (20 // STEPS, [])
    settled, told = decide(monkeypatch, tiny_task, 3 * 2**20, Recipe(batching="clusters"))
    assert (settled.batch_nodes, told) == (1, [])


def test_without_pymetis_the_loss_of_edges_is_said(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "has_pymetis", lambda: False)
    for recipe, sentences in ((Recipe(), 2), (Recipe(batch_nodes=9), 1)):
        _, told = decide(monkeypatch, tiny_task, 2**20, recipe)
        assert len(told) == sentences
        assert "most edges are lost" in told[-1]
        assert "pip install 'pdnas[large]'" in told[-1]
    assert decide(monkeypatch, tiny_task, 2**20, Recipe(batch_nodes=20))[1] == [], "nothing is cut"


@pytest.mark.usefixtures("sampler")
def test_neighbors_are_sampled_for_all_nodes_or_some(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, told = decide(monkeypatch, tiny_task, 0, Recipe(neighbors=4))
    assert settled == Recipe(batching="neighbors", neighbors=4, batch_nodes=20)
    asked = Recipe(batching="neighbors", batch_nodes=3)
    assert decide(monkeypatch, tiny_task, 0, asked) == (asked, [])
    assert told == []


def test_what_is_not_on_the_device_yet_needs_room_too(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = 20 * 2**20
    monkeypatch.setattr(memory, "free_bytes", lambda _: int(need / SHARE + 9))
    monkeypatch.setattr(memory, "STRUCTURE", 0)
    told = Told()
    gpu = torch.device("cuda:0")
    settled = settle(Recipe(), tiny_task, Load(node=2**20 / 4), device=gpu, tell=told)
    assert settled.way == "clusters"
    assert "free on cuda:0" in told[0]


def test_several_graphs_are_not_cut(many_graphs: GraphTask) -> None:
    def now(recipe: Recipe) -> Recipe:
        return settle(recipe, many_graphs, Load(), device=CPU, tell=Told())

    assert now(Recipe()) == Recipe()
    for way in ("clusters", "neighbors"):
        with pytest.raises(RecipeError, match=f"^--batching is {way}, but rings has 7 graphs"):
            now(Recipe().changed(batching=way))


def test_sparse_features_count_as_what_is_stored(tiny_task: GraphTask) -> None:
    from pdnas.ops import SparseFeatures

    (graph,) = tiny_task.graphs
    one = torch.zeros(20, tiny_task.in_channels)
    one[:, 0] = 1.0
    source = replace(tiny_task.source, graphs=(replace(graph, x=SparseFeatures.from_tensor(one)),))
    design, recipe = blocks(attention="gcn"), Recipe(input_dropout=0.5)
    dense = load_of(design, tiny_task, 8, recipe, CPU)
    sparse = load_of(design, replace(tiny_task, source=source), 8, recipe, CPU)
    assert dense.node - sparse.node == 2 * (tiny_task.in_channels - 1)
