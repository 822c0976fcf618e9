"""What a run keeps of a network's answers: every node, its part, and the network of the run."""

from dataclasses import replace
from pathlib import Path

import torch

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models import make_network
from pdnas.runs import RunDirectory
from pdnas.tasks import GraphTask
from pdnas.training.predictions import logits_of, record_of
from pdnas.training.recipe import Recipe
from pdnas.training.seeds import train

SMALL = Architecture(blocks=(BlockSpec(activation="relu"), BlockSpec()))
BRIEF = Recipe(epochs=3, patience=3)


def trained(task: GraphTask, path: Path, seeds: int = 2, splits: tuple[int, ...] = ()) -> None:
    run = RunDirectory.create(path, "test")
    train(SMALL, task, hidden=4, recipe=BRIEF, seeds=seeds, split_seeds=splits, run=run)


def test_every_node_is_answered_without_dropout(tiny_task: GraphTask) -> None:
    network = make_network(SMALL, tiny_task, 4, input_dropout=0.9, dropout=0.9)
    network.train()
    graph = tiny_task.graphs[0]
    first, second = (logits_of(network, [graph]) for _ in range(2))
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert first.shape == (20, 3)


def test_a_training_leaves_the_answers_of_its_network_in_the_run(
    tiny_task: GraphTask, tmp_path: Path
) -> None:
    trained(tiny_task, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    stored, graph = run.read_predictions(), tiny_task.graphs[0]
    with torch.no_grad():
        assert torch.equal(stored.logits, run.result().model(graph.x, graph.edge_index))
    assert torch.equal(stored.labels, graph.y)
    assert stored.part.tolist() == [1] * 9 + [2] * 5 + [3] * 6
    assert stored.graph.tolist() == [0] * 20
    assert stored.node_ids == ()


def test_several_graphs_follow_each_other_with_the_parts_of_theirs(
    rings: GraphTask, tmp_path: Path
) -> None:
    trained(rings, tmp_path / "run", seeds=1)
    stored = RunDirectory(tmp_path / "run").read_predictions()
    sizes = range(5, 12)
    assert stored.graph.tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]
    parts = [1, 1, 1, 1, 2, 3, 3]
    assert stored.part.tolist() == [parts[i] for i in stored.graph.tolist()]
    assert torch.equal(stored.labels, torch.cat([graph.y for graph in rings.graphs]).long())


def test_of_several_splits_the_parts_are_those_of_the_best_training(
    tiny_task: GraphTask, tmp_path: Path
) -> None:
    task = tiny_task.with_split("random", 0)
    trained(task, tmp_path / "run", splits=(0, 1, 2))
    run = RunDirectory(tmp_path / "run")
    values = run.result().val.values
    split = task.with_split("random", values.index(max(values)) // 2).split
    part = run.read_predictions().part
    for number, name in enumerate(("train", "val", "test"), start=1):
        assert sorted((part == number).nonzero().flatten().tolist()) == sorted(
            getattr(split, name).tolist()
        )


def test_a_result_remembers_how_its_data_were_read(tiny_task: GraphTask, tmp_path: Path) -> None:
    source = replace(
        tiny_task.source,
        normalize=True,
        feature_names=tuple("abcde"),
        means=(1.5,) * 5,
        deviations=(2.0,) * 5,
    )
    trained(replace(tiny_task, source=source), tmp_path / "run")
    data = RunDirectory(tmp_path / "run").result().data
    assert data == record_of(source)
    assert data is not None
    assert (data.kind, data.sha256) == ("single-label", source.sha256)
    assert (data.normalize, data.undirected) == (True, False)
    assert data.feature_names == tuple("abcde")
    assert (data.means, data.deviations) == ((1.5,) * 5, (2.0,) * 5)
