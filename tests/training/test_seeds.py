import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import pdnas
from pdnas.architecture import Architecture
from pdnas.errors import DeviceError, PdnasError, RunError
from pdnas.runs import (
    ARCHITECTURE,
    CHECKPOINT,
    CHECKPOINT_WEIGHTS,
    HISTORY,
    RESULT,
    SETTINGS,
    WEIGHTS,
    Result,
    RunDirectory,
    load_run,
)
from pdnas.tasks import GraphTask
from pdnas.training import memory, train
from pdnas.training.batching import Batches
from pdnas.training.epochs import evaluate
from pdnas.training.fit import Epoch
from pdnas.training.recipe import Recipe
from pdnas.training.seeds import train_once


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", "test")


def timeless(result: Result) -> dict[str, Any]:
    """A result without the time that it took."""
    return result.model_dump(exclude={"train_seconds"})


def lines(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / HISTORY).read_text().splitlines()]


def test_feature_weights_are_trained_and_then_folded(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    off, on = (recipe.changed(feature_weights=state) for state in ("off", "on"))
    plain, _ = train_once(architecture, tiny_task, hidden=6, recipe=off, seed=0)
    network, fit = train_once(architecture, tiny_task, hidden=6, recipe=on, seed=0)
    assert network.state_dict().keys() == plain.state_dict().keys()
    assert sum(w.numel() for w in network.parameters()) == architecture.parameters(tiny_task, 6)
    assert any(
        not torch.equal(own, other)
        for own, other in zip(network.parameters(), plain.parameters(), strict=True)
    )
    _, val = evaluate(network, Batches(tiny_task, "val"), tiny_task)
    assert float(val) == pytest.approx(fit.val, abs=1e-6)


def test_a_result_says_what_was_done(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    result = train(architecture, tiny_task, hidden=6, recipe=recipe, seeds=3, device="cpu")
    assert (result.task, result.metric, result.device) == ("tiny", "accuracy", "cpu")
    assert result.split.name == "own"
    assert result.split.sha256 == tiny_task.split.sha256
    assert result.split.members == (tiny_task.split.sha256,)
    assert result.split.seeds == ()
    assert result.architecture == architecture
    assert (result.hidden, result.in_channels, result.out_channels) == (6, 5, 3)
    assert result.parameters == sum(weight.numel() for weight in result.model.parameters())
    assert result.recipe == recipe.model_dump()
    assert result.seeds == (0, 1, 2)
    assert len(result.val.values) == len(result.test.values) == len(result.epochs) == 3
    assert result.train_seconds > 0
    assert result.search_seconds == 0
    assert result.strategy is None
    assert result.space is None
    assert result.version == pdnas.__version__


def test_seeds_may_be_named(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    together = train(architecture, tiny_task, recipe=recipe, seeds=[5, 2])
    alone = [train(architecture, tiny_task, recipe=recipe, seeds=[seed]) for seed in (5, 2)]
    assert together.seeds == (5, 2)
    assert together.val.values == tuple(result.val.mean for result in alone)
    assert together.test.values == tuple(result.test.mean for result in alone)


@pytest.mark.parametrize("seeds", [0, -1, []])
def test_no_seed_at_all_is_one_sentence(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe, seeds: int | list[int]
) -> None:
    with pytest.raises(PdnasError):
        train(architecture, tiny_task, recipe=recipe, seeds=seeds)


def test_the_model_is_the_one_with_the_best_validation(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    result = train(architecture, tiny_task, recipe=recipe.changed(epochs=2), seeds=6)
    assert len(set(result.val.values)) > 1
    _, val = evaluate(result.model, Batches(tiny_task, "val"), tiny_task)
    assert float(val) == pytest.approx(max(result.val.values), abs=1e-6)


def test_the_model_gives_logits_without_dropout(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    model = train(architecture, tiny_task, recipe=recipe).model
    graph = tiny_task.graphs[0]
    logits = model(graph.x, graph.edge_index)
    assert logits.shape == (20, 3)
    assert torch.equal(logits, model(graph.x, graph.adjacency))


def test_every_seed_is_trained_on_every_split(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe, run: RunDirectory
) -> None:
    task = tiny_task.with_split("random", 0)
    result = train(architecture, task, recipe=recipe, seeds=2, split_seeds=[0, 4, 7], run=run)
    splits = [tiny_task.source.split("random", seed).sha256 for seed in (0, 4, 7)]
    assert result.split.name == "random"
    assert result.split.seeds == (0, 4, 7)
    assert result.split.members == tuple(splits)
    assert result.split.sha256 == hashlib.sha256("".join(splits).encode()).hexdigest()
    assert len(result.test.values) == 6
    places = dict.fromkeys((line["split_seed"], line["seed"]) for line in lines(run))
    assert list(places) == [(0, 0), (0, 1), (4, 0), (4, 1), (7, 0), (7, 1)]


def test_the_only_split_is_not_trained_on_twice(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    """Ten trainings on one split with one seed are one training, not ten of spread zero."""
    with pytest.raises(PdnasError):
        train(architecture, tiny_task, recipe=recipe, split_seeds=[0, 1])


def test_the_random_state_outside_is_untouched(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    before = torch.get_rng_state()
    train(architecture, tiny_task, recipe=recipe)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_task_stays_as_it_was(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    graph = tiny_task.graphs[0]
    assert isinstance(graph.x, torch.Tensor)
    x, edges, y = graph.x.clone(), graph.edge_index.clone(), graph.y.clone()
    train(architecture, tiny_task, recipe=recipe)
    assert torch.equal(graph.x, x)
    assert torch.equal(graph.edge_index, edges)
    assert torch.equal(graph.y, y)


def test_a_hidden_size_of_zero_is_refused_before_anything_is_written(
    architecture: Architecture, tiny_task: GraphTask, run: RunDirectory
) -> None:
    with pytest.raises(PdnasError, match="hidden size is 0"):
        train(architecture, tiny_task, hidden=0, run=run)
    assert not run.has(HISTORY)


def test_a_device_that_is_not_there_is_refused(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    with pytest.raises(DeviceError, match="cuda:99"):
        train(architecture, tiny_task, device="cuda:99")


def test_several_graphs_are_trained_on(architecture: Architecture, many_graphs: GraphTask) -> None:
    result = train(architecture, many_graphs, hidden=4, recipe=Recipe(epochs=3), seeds=2)
    assert result.metric == "micro-f1"
    assert result.split.sha256 == many_graphs.split.sha256


def test_a_run_holds_everything(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe, run: RunDirectory
) -> None:
    result = train(architecture, tiny_task, recipe=recipe, seeds=2, run=run)
    assert Architecture.load(run.path / ARCHITECTURE) == architecture
    history = lines(run)
    assert [(line["seed"], line["epoch"]) for line in history] == [
        (seed, epoch) for seed in (0, 1) for epoch in range(12)
    ]
    assert history[0].keys() == {"split_seed", "seed", "epoch", "train_loss", "val_loss", "val"}
    assert [max(line["val"] for line in history if line["seed"] == s) for s in (0, 1)] == list(
        result.val.values
    )
    run.write_json(SETTINGS, {})
    read = load_run(run.path)
    assert read.model_dump() == result.model_dump()
    graph = tiny_task.graphs[0]
    assert torch.equal(
        read.model(graph.x, graph.edge_index), result.model(graph.x, graph.edge_index)
    )


class _Crash:
    """Stops the training of that number at that epoch, as Ctrl-C would."""

    def __init__(self, number: int, epoch: int) -> None:
        self.place = (number, epoch)
        self.seen: list[tuple[int, int]] = []

    def __call__(self, number: int, epoch: Epoch) -> None:
        self.seen.append((number, epoch.epoch))
        if self.seen[-1] == self.place:
            raise KeyboardInterrupt


@pytest.mark.parametrize("place", [(0, 0), (0, 11), (1, 5), (2, 0)])
def test_a_run_that_was_stopped_comes_to_the_same_end(
    architecture: Architecture,
    tiny_task: GraphTask,
    recipe: Recipe,
    tmp_path: Path,
    place: tuple[int, int],
) -> None:
    whole = RunDirectory.create(tmp_path / "whole", "test")
    expected = train(architecture, tiny_task, recipe=recipe, seeds=3, run=whole)
    stopped = RunDirectory.create(tmp_path / "stopped", "test")
    with pytest.raises(KeyboardInterrupt):
        train(architecture, tiny_task, recipe=recipe, seeds=3, run=stopped, on_epoch=_Crash(*place))
    assert not stopped.has(RESULT)
    watch = _Crash(-1, -1)
    result = train(architecture, tiny_task, recipe=recipe, seeds=3, run=stopped, on_epoch=watch)
    assert timeless(result) == timeless(expected)
    assert watch.seen[0] == (place[0], 0), "finished trainings are not repeated"
    for name in (HISTORY, WEIGHTS, ARCHITECTURE):
        assert (stopped.path / name).read_bytes() == (whole.path / name).read_bytes()


@pytest.mark.parametrize("lost", [CHECKPOINT, CHECKPOINT_WEIGHTS])
def test_a_run_that_dies_between_two_files_comes_to_the_same_end(
    architecture: Architecture,
    tiny_task: GraphTask,
    recipe: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lost: Path,
) -> None:
    whole = RunDirectory.create(tmp_path / "whole", "test")
    expected = train(architecture, tiny_task, recipe=recipe, seeds=3, run=whole)
    died = RunDirectory.create(tmp_path / "died", "test")
    write, count = RunDirectory._write, 0

    def fail_once(self: RunDirectory, name: str | Path, content: bytes) -> None:
        nonlocal count
        count += name == lost
        if name == lost and count == (2 if lost == CHECKPOINT else 1):
            raise RunError("No space left.")
        write(self, name, content)

    monkeypatch.setattr(RunDirectory, "_write", fail_once)
    with pytest.raises(RunError, match="No space left"):
        train(architecture, tiny_task, recipe=recipe, seeds=3, run=died)
    result = train(architecture, tiny_task, recipe=recipe, seeds=3, run=died)
    assert timeless(result) == timeless(expected)
    for name in (HISTORY, WEIGHTS):
        assert (died.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_finished_run_is_not_trained_again(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe, run: RunDirectory
) -> None:
    first = train(architecture, tiny_task, recipe=recipe, seeds=2, run=run)
    watch = _Crash(-1, -1)
    second = train(architecture, tiny_task, recipe=recipe, seeds=2, run=run, on_epoch=watch)
    assert watch.seen == []
    assert second.model_dump() == first.model_dump()


def test_trainings_on_data_that_changed_are_not_gone_on_with(
    architecture: Architecture,
    tiny_task: GraphTask,
    changed_task: GraphTask,
    recipe: Recipe,
    run: RunDirectory,
) -> None:
    train(architecture, tiny_task, recipe=recipe, seeds=1, run=run)
    with pytest.raises(PdnasError, match="begun with other features, edges or labels: its data"):
        train(architecture, changed_task, recipe=recipe, seeds=2, run=run)
    with pytest.raises(PdnasError, match="begun on another split: its data have changed"):
        train(architecture, tiny_task.with_split("random", 0), recipe=recipe, seeds=2, run=run)


@pytest.mark.gpu
def test_cuda_comes_close_to_the_cpu(architecture: Architecture, tiny_task: GraphTask) -> None:
    recipe = Recipe(epochs=20, dropout=0, input_dropout=0)
    result = train(architecture, tiny_task, recipe=recipe, device="cuda")
    assert result.device.startswith("cuda")
    graph = tiny_task.graphs[0]
    assert result.model(graph.x, graph.edge_index).shape == (20, 3)


def test_a_repeated_seed_is_refused(tiny_task: GraphTask) -> None:
    architecture = pdnas.Architecture(blocks=(pdnas.BlockSpec(),))
    with pytest.raises(PdnasError, match=r"The seeds \[0, 0\]"):
        train(architecture, tiny_task, seeds=[0, 0])


def test_a_graph_that_does_not_fit_is_cut_and_a_warning_says_so(
    tiny_task: GraphTask,
    architecture: Architecture,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: 10_000)
    monkeypatch.setattr(memory, "has_pymetis", lambda: True)
    with pytest.warns(RuntimeWarning, match="so each step sees clusters of about"):
        cut = train(architecture, tiny_task, hidden=4, recipe=recipe, device="cpu")
    size = cut.recipe["batch_nodes"]
    again = recipe.changed(batch_nodes=size)
    assert train(architecture, tiny_task, hidden=4, recipe=again, device="cpu").val == cut.val
    assert cut.recipe == recipe.changed(batching="clusters", batch_nodes=size).model_dump()
