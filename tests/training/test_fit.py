import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from pdnas.architecture import Architecture
from pdnas.errors import PdnasError
from pdnas.models import GraphNetwork
from pdnas.models.baselines import BASELINES
from pdnas.tasks import GraphTask
from pdnas.training import epochs as module
from pdnas.training.batching import Batch, Batches, Part
from pdnas.training.epochs import evaluate
from pdnas.training.fit import Epoch, Fit, fit, read_test, seeded
from pdnas.training.recipe import Recipe
from pdnas.training.teaching import teacher_seeds


def fitted(
    architecture: Architecture, task: GraphTask, recipe: Recipe, seed: int = 0
) -> tuple[GraphNetwork, Fit, list[Epoch]]:
    """A network after training, what came out, and the epochs on the way."""
    epochs: list[Epoch] = []
    with seeded(seed):
        network = GraphNetwork(
            architecture,
            task,
            8,
            input_dropout=recipe.input_dropout,
            dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
        )
        outcome = fit(network, task, recipe, on_epoch=epochs.append)
    return network, outcome, epochs


def same_weights(first: GraphNetwork, second: GraphNetwork) -> bool:
    ours, theirs = first.state_dict(), second.state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_tiny_task_is_learnt(architecture: Architecture, tiny_task: GraphTask) -> None:
    recipe = Recipe(epochs=150, patience=150, lr=0.05, dropout=0, input_dropout=0)
    network, outcome, epochs = fitted(architecture, tiny_task, recipe)
    assert epochs[-1].train_loss < 0.2 * epochs[0].train_loss
    assert outcome.val >= 0.8
    assert read_test(network, tiny_task) >= 0.6


def test_a_seed_decides_everything(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    recipe = recipe.changed(attention_dropout=0.3)
    first, _, ours = fitted(architecture, tiny_task, recipe, seed=3)
    second, _, theirs = fitted(architecture, tiny_task, recipe, seed=3)
    other, _, others = fitted(architecture, tiny_task, recipe, seed=4)
    assert ours == theirs
    assert same_weights(first, second)
    assert ours != others
    assert not same_weights(first, other)


@pytest.mark.parametrize("selection", ["metric", "loss"])
def test_the_network_has_the_weights_of_the_best_epoch(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe, selection: str
) -> None:
    recipe = recipe.changed(selection=selection, epochs=40, patience=40, lr=0.1)
    network, outcome, epochs = fitted(architecture, tiny_task, recipe)
    best = epochs[outcome.epoch]
    assert outcome.epoch < 39, "the last epoch is the best one, so nothing is tested"
    val_loss, val = evaluate(network, Batches(tiny_task, "val"), tiny_task)
    assert float(val_loss) == pytest.approx(best.val_loss, abs=1e-6)
    assert float(val) == pytest.approx(best.val, abs=1e-6)
    assert outcome.val == best.val


@pytest.mark.parametrize("selection", ["metric", "loss"])
def test_the_first_of_the_best_epochs_is_chosen(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe, selection: str
) -> None:
    recipe = recipe.changed(selection=selection, epochs=40, patience=40, lr=0.1)
    _, outcome, epochs = fitted(architecture, tiny_task, recipe)
    if selection == "loss":
        best = min(epochs, key=lambda epoch: (epoch.val_loss, -epoch.val, epoch.epoch))
    else:
        best = min(epochs, key=lambda epoch: (-epoch.val, epoch.val_loss, epoch.epoch))
    assert outcome.epoch == best.epoch


@pytest.mark.parametrize(
    ("selection", "patience", "chosen", "run"),
    [("metric", 9, 2, 5), ("loss", 9, 3, 5), ("metric", 1, 0, 2), ("metric", 2, 2, 5)],
)
def test_the_epoch_is_chosen_from_what_validation_says(
    architecture: Architecture,
    tiny_task: GraphTask,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    selection: str,
    patience: int,
    chosen: int,
    run: int,
) -> None:
    said = [(1.0, 0.8), (0.9, 0.6), (0.7, 0.8), (0.2, 0.7), (0.2, 0.6)]  # loss and metric
    figures = iter(said[:run])

    def scripted(*args: object) -> tuple[torch.Tensor, torch.Tensor]:
        loss, metric = next(figures)
        return torch.tensor(loss), torch.tensor(metric)

    monkeypatch.setattr(module, "evaluate", scripted)
    recipe = recipe.changed(epochs=5, selection=selection, patience=patience)
    _, outcome, _ = fitted(architecture, tiny_task, recipe)
    assert (outcome.epoch, outcome.epochs) == (chosen, run)
    assert outcome.val == said[chosen][1]


def test_patience_ends_a_training_that_does_not_improve(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    still = recipe.changed(optimizer="sgd", lr=1e-12, patience=3, epochs=50)
    _, outcome, epochs = fitted(architecture, tiny_task, still)
    assert outcome.epoch == 0
    assert outcome.epochs == len(epochs) == 4


def test_patience_counts_from_the_best_epoch(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    _, outcome, _ = fitted(
        architecture, tiny_task, recipe.changed(epochs=2000, patience=10, lr=0.1)
    )
    assert outcome.epochs == outcome.epoch + 10 + 1 < 2000


@pytest.mark.parametrize(
    ("changes", "epochs"),
    [
        ({"copies": 2, "consistency_warm_up": 10}, 9 + 3 + 1),
        ({"copies": 2, "consistency_warm_up": 1}, 3 + 1),
        ({"copies": 2, "consistency_warm_up": 0}, 3 + 1),
        ({"copies": 2, "consistency_warm_up": 10, "consistency": 0.0}, 3 + 1),
        ({"copies": 1, "consistency_warm_up": 10}, 3 + 1),
    ],
)
def test_patience_does_not_count_while_the_loss_is_warming_up(
    architecture: Architecture,
    tiny_task: GraphTask,
    recipe: Recipe,
    changes: dict[str, Any],
    epochs: int,
) -> None:
    still = recipe.changed(optimizer="sgd", lr=1e-12, patience=3, epochs=50, **changes)
    _, outcome, _ = fitted(architecture, tiny_task, still)
    assert (outcome.epoch, outcome.epochs) == (0, epochs)


def test_every_epoch_is_told_in_order(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    _, outcome, epochs = fitted(architecture, tiny_task, recipe)
    assert [epoch.epoch for epoch in epochs] == list(range(12))
    assert outcome.epochs == 12
    assert outcome.seconds > 0


def test_a_training_ends_where_it_is_told_to(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    network = GraphNetwork(architecture, tiny_task, 8)
    outcome = fit(network, tiny_task, recipe, stop=lambda epoch: epoch.epoch == 4)
    assert outcome.epochs == 5
    _, val = evaluate(network, Batches(tiny_task, "val"), tiny_task)
    assert float(val) == pytest.approx(outcome.val, abs=1e-6)


def test_the_test_part_is_not_read_by_a_training(
    architecture: Architecture,
    tiny_task: GraphTask,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[Part] = []

    class Spy(Batches):
        def __init__(self, task: GraphTask, part: Part, *more: Any, **named: Any) -> None:
            super().__init__(task, part, *more, **named)
            self.part = part

        def in_order(self) -> Iterator[Batch]:
            reads.append(self.part)
            return super().in_order()

        def shuffled(self) -> Iterator[Batch]:
            reads.append(self.part)
            return super().shuffled()

    # The package has a function of the module's name.
    for place in (module, importlib.import_module("pdnas.training.fit")):
        monkeypatch.setattr(place, "Batches", Spy)
    network, _, _ = fitted(architecture, tiny_task, recipe)
    assert reads == ["train", "val"] * recipe.epochs
    read_test(network, tiny_task)
    assert reads[2 * recipe.epochs :] == ["test"]


def test_labels_of_the_test_part_do_not_touch_the_weights(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    first, _, ours = fitted(architecture, tiny_task, recipe)
    test = tiny_task.split.test
    tiny_task.graphs[0].y[test] = (tiny_task.graphs[0].y[test] + 1) % 3
    second, _, theirs = fitted(architecture, tiny_task, recipe)
    assert ours == theirs
    assert same_weights(first, second)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training_that_diverges_is_one_sentence(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe, optimizer: str
) -> None:
    wild = recipe.changed(optimizer=optimizer, lr=1e30)
    with pytest.raises(PdnasError, match=r"no longer finite at epoch \d+; lower .* now 1e\+30"):
        fitted(architecture, tiny_task, wild)


@pytest.mark.parametrize("batch_graphs", [1, 2, 4])
def test_many_labels_on_several_graphs_are_learnt(
    many_graphs: GraphTask, batch_graphs: int
) -> None:
    recipe = Recipe(
        epochs=60, lr=0.05, dropout=0, input_dropout=0, batch_graphs=batch_graphs, weight_decay=0
    )
    network, _, epochs = fitted(BASELINES["sage"].architecture, many_graphs, recipe)
    assert epochs[-1].train_loss < epochs[0].train_loss
    assert read_test(network, many_graphs) > 0.8


def test_a_binary_task_is_judged_by_its_ranking(
    architecture: Architecture, yes_or_no: GraphTask
) -> None:
    recipe = Recipe(epochs=100, lr=0.05, dropout=0, input_dropout=0)
    network, outcome, _ = fitted(architecture, yes_or_no, recipe)
    graph = yes_or_no.graphs[0]
    assert network(graph.x, graph.edge_index).shape == (20, 1)
    assert outcome.val >= 0.75
    assert 0 <= read_test(network, yes_or_no) <= 1


def test_copies_are_learnt_from_and_a_seed_decides_them(
    architecture: Architecture, any_kind: GraphTask
) -> None:
    recipe = Recipe(
        epochs=40, lr=0.05, copies=3, node_dropout=0.2, dropout=0, input_dropout=0, weight_decay=0
    )
    first, _, ours = fitted(architecture, any_kind, recipe)
    second, _, theirs = fitted(architecture, any_kind, recipe)
    assert ours[-1].train_loss < 0.8 * ours[0].train_loss
    assert ours == theirs
    assert same_weights(first, second)


def test_the_random_state_outside_is_untouched() -> None:
    before = torch.get_rng_state()
    with seeded(5):
        inside = torch.rand(3)
    with seeded(5):
        assert torch.equal(torch.rand(3), inside)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_random_state_outside_is_untouched_by_a_failure() -> None:
    before = torch.get_rng_state()
    with contextlib.suppress(KeyboardInterrupt), seeded(5):
        torch.rand(3)
        raise KeyboardInterrupt
    assert torch.equal(torch.get_rng_state(), before)


def test_seeds_that_differ_in_high_bits_alone_differ() -> None:
    seeds = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**33, *teacher_seeds(0, 4)]
    drawn = []
    for seed in seeds:
        with seeded(seed):
            drawn.append(tuple(torch.rand(4).tolist()))
    assert len(set(drawn)) == len(seeds)
    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        assert drawn[1] == tuple(torch.rand(4).tolist()), "small ones are torch's own"
