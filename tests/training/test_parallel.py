"""Two processes on a CPU come to what one comes to with the same batches, and never hang."""

import os
import pickle
import socket
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import _neighbor_sample, seven_rings
from torch import Tensor, nn
from torch_geometric.data import Data

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import DeviceError, ParallelError, PdnasError, RecipeError
from pdnas.models import GraphNetwork
from pdnas.search import Problem, Strategy
from pdnas.search.darts import Darts
from pdnas.search.pdnas import PRESETS
from pdnas.search.rated import labeled
from pdnas.search.shared import SharedWeights
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, parallel, train
from pdnas.training.batching import Batch, Batches, check_shared
from pdnas.training.epochs import train_epoch, training_loss
from pdnas.training.fit import Epoch, seeded
from pdnas.training.metrics import loss
from pdnas.training.seeds import train_once

WORLD = 2
NODES = 120
SOON = 5.0
"""Seconds within which a process ends after another one."""

SPEC = BlockSpec(attention="gat", heads=2, activation="relu")
ARCHITECTURE = Architecture(blocks=(SPEC, BlockSpec(attention="gcn")), gates=((0, 1),))
PLAIN = Recipe(dropout=0, input_dropout=0, epochs=4, lr=0.05)
"""Nothing random but the order of graphs."""

MANY_GRAPHS = {
    "a batch of all": PLAIN.changed(batch_graphs=4),
    "odd batches, and a last one of one graph": PLAIN.changed(batch_graphs=3),
    "batches of one graph": PLAIN.changed(batch_graphs=1),
    "copies": PLAIN.changed(batch_graphs=3, copies=2, consistency_warm_up=0, consistency=3.0),
    "teachers": PLAIN.changed(batch_graphs=3, teachers=1),
}
STRATEGIES: dict[str, Strategy] = {
    "default": PRESETS["default"].lasting(8),
    "paper": PRESETS["paper"].lasting(6),
    "straight-through": PRESETS["straight-through"].lasting(6),
    "darts": Darts(epochs=3, pool=3),
    "evolution": labeled("evolution").changed(epochs=3, train_epochs=3),
    "random-shared": labeled("random-shared").changed(epochs=4, pool=4),
}
CLUSTERS = PLAIN.changed(batch_nodes=24, optimizer="sgd", lr=0.5)
NEIGHBORS = PLAIN.changed(batching="neighbors", batch_nodes=13, neighbors=2)


def rings() -> GraphTask:
    return seven_rings(False)


def wide() -> GraphTask:
    """A ring of 120 nodes with features that tell three classes; every other node is to train."""
    nodes, generator = torch.arange(NODES), torch.Generator().manual_seed(0)
    y = nodes // 5 % 3
    x = torch.rand(NODES, 5, generator=generator) + nn.functional.one_hot(y, 5)
    forth = torch.stack([nodes, (nodes + 1) % NODES])
    data = Data(x=x, edge_index=torch.cat([forth, forth.flip(0)], dim=1), y=y)
    for part, rests in {"train": (0, 2), "val": (1,), "test": (3,)}.items():
        data[f"{part}_mask"] = torch.isin(nodes % 4, torch.tensor(rests))
    return GraphTask.from_data(data, name="wide")


def trained(recipe: Recipe) -> tuple[list[Epoch], dict[str, Tensor]]:
    """The epochs and the weights of a training on several graphs."""
    seen: list[Epoch] = []
    network, _ = train_once(
        ARCHITECTURE, rings(), hidden=4, recipe=recipe, seed=3, on_epoch=seen.append
    )
    return seen, dict(network.state_dict())


def searched(strategy: Strategy, task: GraphTask, recipe: Recipe) -> dict[str, Any]:
    """The history of a search, what it proposes, and its tensors."""
    problem = Problem(task, SPACES["paper"], 2, 4, recipe, seed=1)
    with strategy.begin(problem) as search:
        history = []
        while not search.is_over:
            history.append(search.step())
        candidates = search.refine(search.candidates(lambda: False)[:3], lambda: False)
        return {"history": history, "candidates": candidates, "tensors": search.tensors()}


def network_of(task: GraphTask) -> GraphNetwork:
    with seeded(0):
        return GraphNetwork(ARCHITECTURE, task, 4)


def numbers() -> list[Tensor]:
    """An answer for each node of the ring: its number."""
    return [torch.arange(float(NODES)).unsqueeze(1).expand(NODES, 3)]


def stepped_on_clusters() -> dict[str, Any]:
    """Weights after an epoch on clusters, and the nodes of each batch with its share."""
    task = wide()
    network, seen = network_of(task), []

    class Watched(Batches):
        def shuffled(self) -> Iterator[Batch]:
            for batch in super().shuffled():
                assert batch.answers is not None
                seen.append((batch.answers[:, 0].long(), batch.share))
                yield Batch(batch.x, batch.adjacency, batch.nodes, batch.y, share=batch.share)

    with seeded(5):
        batches = Watched.by(CLUSTERS, task, "train", hops=2, answers=numbers())
        optimizer = CLUSTERS.make_optimizer(network.parameters())
        value = train_epoch(parallel.wrapped(network), batches, task, optimizer, CLUSTERS, 0.0)
    return {"weights": dict(network.state_dict()), "seen": seen, "loss": value}


def sampled() -> list[tuple[list[int], tuple[float, ...]]]:
    """The nodes that count in each batch of neighbors, and its share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch_geometric.typing.WITH_TORCH_SPARSE", True)
        fake = type("Fake", (), {"neighbor_sample": staticmethod(_neighbor_sample)})
        patch.setattr(torch.ops, "torch_sparse", fake, raising=False)
        with seeded(6):
            batches = Batches.by(NEIGHBORS, wide(), "train", hops=2, answers=numbers())
            found = []
            for batch in batches.shuffled():
                assert batch.answers is not None
                counting = batch.select(batch.answers)[:, 0].long().tolist()
                found.append((counting, tuple(batch.share)))
            return found


def slopes_on_clusters() -> list[Tensor]:
    """The gradient of the validation loss on clusters for a factor of the logits."""
    problem = Problem(wide(), SPACES["paper"], 2, 4, CLUSTERS)
    with seeded(7):
        shared = SharedWeights(problem, 0.01)
        network = shared.network(problem.smallest)
        leaf = torch.ones(3, requires_grad=True)
        grads, _ = shared.slopes(
            network, [leaf], lambda batch: leaf * network(batch.x, batch.adjacency)
        )
    return grads


def unused() -> dict[str, Any]:
    """Which weights have a gradient, or a state of the optimizer, after a step on one path."""
    problem = Problem(rings(), SPACES["paper"], 2, 4, PLAIN)
    with seeded(8):
        shared = SharedWeights(problem, 0.01)
        network = shared.network(problem.smallest)
        of_path = {id(weight) for weight in network.parameters()}
        shared.step(network, 0)
    weights = dict(shared.supernet.named_parameters())
    return {
        "path": {name for name, weight in weights.items() if id(weight) in of_path},
        "stepped": {name for name, weight in weights.items() if weight in shared.optimizer.state},
        "graded": {name for name, weight in weights.items() if weight.grad is not None},
        "count": len(weights),
    }


def dropped() -> tuple[Tensor, Tensor]:
    """An order of graphs, and random numbers after it."""
    with seeded(9):
        return parallel.permutation(50), torch.rand(8)


def refused(action: Callable[[], object]) -> str:
    try:
        action()
    except PdnasError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


def refuse() -> None:
    raise RecipeError(f"Rank {parallel.rank()} refuses.")


def everything() -> dict[str, Any]:
    """All that is compared."""
    many = PLAIN.changed(batch_graphs=3)
    return {
        "ranks": (parallel.rank(), parallel.world(), parallel.is_first()),
        "agreed": parallel.agreed({"rank": parallel.rank()}),
        "by first": parallel.by_first(parallel.rank),
        "refused": refused(lambda: parallel.by_first(refuse)),
        "totals": parallel.totals([1.0, parallel.rank()]),
        "mean": parallel.mean(torch.tensor([1.0 + parallel.rank()])).tolist(),
        "own": [parallel.own(range(count)) for count in (4, 3, 1)],
        "dealt": list(parallel.dealt("abc")),
        "dropped": dropped(),
        "trained": {name: trained(recipe) for name, recipe in MANY_GRAPHS.items()},
        "clusters": stepped_on_clusters(),
        "neighbors": sampled(),
        "slopes": slopes_on_clusters(),
        "unused": unused(),
        "searched": {name: searched(one, rings(), many) for name, one in STRATEGIES.items()},
        "cut": {
            name: searched(STRATEGIES[name], wide(), CLUSTERS.changed(optimizer="adam", lr=0.01))
            for name in ("default", "paper", "darts")
        },
        "whole": refused(lambda: train(ARCHITECTURE, wide(), hidden=4, recipe=PLAIN)),
        "sharers": parallel.sharers(torch.device("cpu")),
        "result": train(
            ARCHITECTURE, rings(), hidden=4, recipe=Recipe(epochs=3), device="cpu"
        ).val.mean,
    }


def keep(folder: Path) -> None:
    (folder / f"{parallel.rank()}.pickle").write_bytes(pickle.dumps(everything()))


def fail(folder: Path) -> None:
    """One process fails while the other waits for it."""
    if parallel.rank() == 1:
        (folder / "1.txt").touch()
        raise ValueError("no more")
    parallel.agreed(None)
    parallel.totals([1.0])


def environment(rank: int, port: int) -> dict[str, str]:
    """What torchrun tells a process."""
    return {
        "WORLD_SIZE": str(WORLD),
        "LOCAL_WORLD_SIZE": str(WORLD),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def begin(rank: int, port: int, folder: Path, work: Callable[[Path], None]) -> None:
    """The first thing that a process does."""
    torch.set_num_threads(1)
    os.environ |= environment(rank, port)
    try:
        with parallel.group("cpu"):
            work(folder)
    except ParallelError as error:
        (folder / f"{rank}.txt").write_text(str(error))
        parallel.leave(2)  # as a command does
        raise SystemExit(2) from None


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def together(work: Callable[[Path], None], folder: Path) -> list[int | None]:
    """Exit codes of two processes that work together."""
    port = free_port()
    processes = [
        get_context("spawn").Process(target=begin, args=(rank, port, folder, work))
        for rank in range(WORLD)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        if process.exitcode is None:
            process.kill()
    return [process.exitcode for process in processes]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What came of everything on each of two ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    assert together(keep, folder) == [0, 0]
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(WORLD)]


def close(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], atol=1e-5, rtol=1e-4, msg=name)


def test_a_process_that_is_alone_is_all_of_them() -> None:
    assert (parallel.world(), parallel.rank(), parallel.is_first()) == (1, 0, True)
    assert parallel.agreed("it") == "it"
    assert parallel.totals([2.0, 3.0]) == [2.0, 3.0]
    assert parallel.own([1, 2, 3]) == ([1, 2, 3], True)
    assert list(parallel.dealt("ab")) == [("a", True), ("b", True)]
    network = nn.Linear(2, 2)
    assert parallel.wrapped(network) is network
    torch.manual_seed(4)
    order = parallel.permutation(9)
    torch.manual_seed(4)
    assert torch.equal(order, torch.randperm(9))
    with pytest.raises(RecipeError, match="Rank 0 refuses"):
        parallel.by_first(refuse)
    check_shared(PLAIN, wide())
    said: list[str] = []
    parallel.say_once("It is so.", said.append)
    assert said == ["It is so."]
    with parallel.group("cpu") as device:
        assert device == torch.device("cpu")
        assert parallel.world() == 1


def test_ranks_agree_on_what_the_first_says(both: list[dict[str, Any]]) -> None:
    assert [one["ranks"] for one in both] == [(0, 2, True), (1, 2, False)]
    for one in both:
        assert one["agreed"] == {"rank": 0}
        assert one["by first"] == 0
        assert one["refused"] == "RecipeError: Rank 0 refuses."
        assert one["totals"] == [2.0, 1.0]
        assert one["mean"] == [1.5]
        assert one["sharers"] == 2
    assert both[0]["result"] == both[1]["result"]


def test_items_are_dealt_out_and_nobody_is_left_without(both: list[dict[str, Any]]) -> None:
    first, second = both
    assert first["own"] == [(range(0, 4, 2), True), (range(0, 3, 2), True), (range(1), True)]
    assert second["own"] == [(range(1, 4, 2), True), (range(1, 3, 2), True), (range(1), False)]
    assert first["dealt"] == [("a", True), ("c", True)]
    assert second["dealt"] == [("b", True), ("c", False)]


def test_the_order_is_the_same_and_what_is_dropped_is_not(both: list[dict[str, Any]]) -> None:
    (order, first), (same, second) = (one["dropped"] for one in both)
    assert torch.equal(order, same)
    assert not torch.equal(first, second)
    alone, after = dropped()
    assert torch.equal(order, alone), "rank 0 draws what a single process draws"
    assert torch.equal(first, after)


@pytest.mark.parametrize("name", MANY_GRAPHS)
def test_two_processes_train_as_one_does(both: list[dict[str, Any]], name: str) -> None:
    epochs, weights = trained(MANY_GRAPHS[name])
    for one in both:
        their_epochs, their_weights = one["trained"][name]
        close(their_weights, weights)
        assert len(their_epochs) == len(epochs) == PLAIN.epochs
        for ours, theirs in zip(epochs, their_epochs, strict=True):
            assert vars(theirs) == pytest.approx(vars(ours), abs=2e-5)
    assert both[0]["trained"][name][0] == both[1]["trained"][name][0]
    start = network_of(rings()).state_dict()
    assert not any(torch.allclose(weights[key], start[key], atol=1e-3) for key in weights)


def test_a_step_on_clusters_is_that_of_all_that_the_ranks_see(both: list[dict[str, Any]]) -> None:
    task = wide()
    (graph,), network = task.graphs, network_of(task)
    optimizer = CLUSTERS.make_optimizer(network.parameters())
    steps = list(zip(*(one["clusters"]["seen"] for one in both), strict=True))
    assert len(steps) == 3, "of five batches"
    is_training = torch.zeros(NODES, dtype=torch.bool)
    is_training[task.split.train] = True
    counted, losses, fillers = [], [], 0
    for step in steps:
        optimizer.zero_grad()
        values = []
        for nodes, share in step:
            if not share.labels:
                fillers += 1
                continue
            assert isinstance(graph.x, Tensor)
            logits = network(graph.x[nodes], graph.adjacency.subgraph(nodes))
            inside = is_training[nodes]
            counted += nodes[inside].tolist()
            each = loss(logits[inside], graph.y[nodes[inside]], task.kind) * inside.sum()
            values.append((each, inside.sum()))
        value = sum(each for each, _ in values) / sum(count for _, count in values)
        assert isinstance(value, Tensor)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    assert sorted(counted) == task.split.train.tolist(), "each label once"
    assert fillers == 1, "there was one batch too few"
    for one in both:
        close(one["clusters"]["weights"], dict(network.state_dict()))
        torch.testing.assert_close(one["clusters"]["loss"], torch.stack(losses).mean())
        assert all(sum(share.labels for _, share in step) == pytest.approx(2) for step in steps)
        assert all(sum(share.nodes for _, share in step) == pytest.approx(2) for step in steps)


def test_ranks_learn_from_other_nodes_with_neighbors(both: list[dict[str, Any]]) -> None:
    steps = list(zip(*(one["neighbors"] for one in both), strict=True))
    assert len(steps) == 3, "five batches of sixty nodes"
    counted = [node for step in steps for nodes, share in step if share[0] for node in nodes]
    assert sorted(counted) == wide().split.train.tolist()
    assert steps[-1][1][1] == (0.0, 0.0)
    for step in steps:
        sizes = [len(nodes) * bool(share[0]) for nodes, share in step]
        assert [share[0] for _, share in step] == [2 * size / sum(sizes) for size in sizes]


def test_slopes_are_those_of_all_batches(both: list[dict[str, Any]]) -> None:
    alone = slopes_on_clusters()
    assert alone[0].abs().min() > 0
    for one in both:
        torch.testing.assert_close(one["slopes"], alone)


def test_weights_that_no_rank_used_are_passed_by(both: list[dict[str, Any]]) -> None:
    for one in (*(each["unused"] for each in both), unused()):
        assert one["stepped"] == one["path"]
        assert 0 < len(one["path"]) < one["count"]
        assert not one["graded"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_two_processes_search_as_one_does(both: list[dict[str, Any]], name: str) -> None:
    alone = searched(STRATEGIES[name], rings(), PLAIN.changed(batch_graphs=3))
    first, second = (one["searched"][name] for one in both)
    assert first["history"] == second["history"]
    assert first["candidates"] == second["candidates"]
    for ours, theirs in zip(alone["history"], first["history"], strict=True):
        for key, value in vars(ours).items():
            if isinstance(value, float):
                assert getattr(theirs, key) == pytest.approx(value, abs=1e-4)
        assert theirs.details == ours.details
    architectures = [[one.architecture for one in way["candidates"]] for way in (alone, first)]
    assert architectures[0] == architectures[1]
    floats = {key: tensor for key, tensor in alone["tensors"].items() if tensor.is_floating_point()}
    for rank in (first, second):
        assert rank["tensors"].keys() == alone["tensors"].keys()
        close({key: rank["tensors"][key] for key in floats}, floats)
    assert floats


@pytest.mark.parametrize("name", ["default", "paper", "darts"])
def test_searches_on_clusters_agree(both: list[dict[str, Any]], name: str) -> None:
    first, second = (one["cut"][name] for one in both)
    assert first["history"] == second["history"]
    assert first["candidates"] == second["candidates"]
    for key, tensor in first["tensors"].items():
        assert torch.equal(tensor, second["tensors"][key]), key
    assert len(first["history"]) == STRATEGIES[name].epochs


def test_a_graph_that_every_step_sees_whole_cannot_be_shared(both: list[dict[str, Any]]) -> None:
    for one in both:
        assert one["whole"].startswith("RecipeError: 2 processes were started, but every step")
        assert "--batching clusters" in one["whole"]


def test_when_one_process_fails_the_other_ends(tmp_path: Path) -> None:
    assert together(fail, tmp_path) == [2, 1]
    ended, failed = tmp_path / "0.txt", tmp_path / "1.txt"
    assert ended.read_text().startswith("Another of the processes")
    assert ended.stat().st_mtime - failed.stat().st_mtime < SOON


@pytest.mark.parametrize("given", ["0", "two", "-1"])
def test_a_number_of_processes_must_be_one(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", given)
    with pytest.raises(ParallelError, match=f"^WORLD_SIZE is '{given}'"):
        parallel.launched()


def test_torchrun_must_say_which_process_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in parallel.NEEDED:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ParallelError, match="but RANK is not set"):
        parallel.launched()
    for name, value in environment(1, 29500).items():
        monkeypatch.setenv(name, value)
    assert parallel.launched() == 2


def test_each_process_takes_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    for name in ("auto", "cuda"):
        assert parallel._own_device(name) == torch.device("cuda:1")
    assert chosen == [1, 1]
    assert parallel._own_device("cpu") == torch.device("cpu")
    assert parallel.sharers(torch.device("cuda:1")) == 1
    with pytest.raises(DeviceError, match="cannot share one GPU"):
        parallel._own_device("cuda:1")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(DeviceError, match="more processes than the 2 CUDA"):
        parallel._own_device("auto")


def test_shares_weigh_labels_and_nodes_apart() -> None:
    network, task = network_of(wide()), wide()
    (batch,) = Batches(task, "train", answers=[torch.full((NODES, 3), 1 / 3)]).in_order()
    recipe = PLAIN.changed(copies=2)

    def value(labels: float, nodes: float) -> Tensor:
        shared = Batch(
            batch.x,
            batch.adjacency,
            batch.nodes,
            batch.y,
            batch.answers,
            share=type(batch.share)(labels, nodes),
        )
        return training_loss(network, shared, task, recipe, 2.0)

    assert value(0.0, 0.0) == 0
    assert value(1.0, 0.0) > 0
    assert value(0.0, 1.0) > 0
    torch.testing.assert_close(value(3.0, 5.0), 3 * value(1.0, 0.0) + 5 * value(0.0, 1.0))
    torch.testing.assert_close(value(1.0, 1.0), training_loss(network, batch, task, recipe, 2.0))
