"""What one epoch of a training lowers, step by step, and what it tells."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.models import GraphNetwork, PublishedNetwork, make_network
from pdnas.models.baselines import BASELINES
from pdnas.ops import Adjacency
from pdnas.tasks import GraphTask
from pdnas.training import epochs as module
from pdnas.training.batching import Batch, Batches
from pdnas.training.consistency import consistency_loss, drop_nodes
from pdnas.training.epochs import (
    Epochs,
    decayed,
    evaluate,
    hops,
    make_epochs,
    train_epoch,
    training_loss,
)
from pdnas.training.fit import seeded
from pdnas.training.metrics import loss, score
from pdnas.training.recipe import Recipe

RECURRENT = {"jknet-dense", "jknet-lstm", "sage-lstm", "jknet-dense-ppi", "jknet-lstm-ppi"}


def first_batch(task: GraphTask) -> Batch:
    return next(Batches(task, "train", size=2).in_order())


def test_with_one_copy_the_loss_is_that_of_the_labels(
    architecture: Architecture, any_kind: GraphTask
) -> None:
    network, batch = GraphNetwork(architecture, any_kind, 8), first_batch(any_kind)
    plain = loss(batch.select(network(batch.x, batch.adjacency)), batch.y, any_kind.kind)
    for recipe in (Recipe(), Recipe(consistency=7.0, sharpening=0.1)):
        assert torch.equal(training_loss(network, batch, any_kind, recipe, 7.0), plain)


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_add_their_distance_from_a_common_answer(
    architecture: Architecture, any_kind: GraphTask, copies: int
) -> None:
    network, batch = GraphNetwork(architecture, any_kind, 8), first_batch(any_kind)
    recipe = Recipe(copies=copies, node_dropout=0.4, sharpening=0.3)
    with seeded(3):
        value = training_loss(network, batch, any_kind, recipe, 2.5)
    with seeded(3):
        x = drop_nodes(batch.repeated(copies).x, 0.4)
    assert isinstance(x, torch.Tensor)
    answers = torch.stack([network(part, batch.adjacency) for part in x.chunk(copies)])
    labels = [loss(batch.select(answer), batch.y, any_kind.kind) for answer in answers]
    disagreement = consistency_loss(answers, any_kind.kind, 0.3)
    assert disagreement > 0
    torch.testing.assert_close(value, torch.stack(labels).mean() + 2.5 * disagreement)


def test_without_a_weight_the_distance_of_the_copies_is_left_out(
    architecture: Architecture, any_kind: GraphTask
) -> None:
    network, batch = GraphNetwork(architecture, any_kind, 8), first_batch(any_kind)
    recipe = Recipe(copies=2, node_dropout=0.4)
    values = []
    for given, weight in (
        (recipe.changed(consistency=0), 9.0),
        (recipe, 0.0),
        (recipe, 1.0),
        (recipe, torch.tensor(3.0)),
    ):
        with seeded(3):
            values.append(training_loss(network, batch, any_kind, given, weight))
    with seeded(3):
        x = drop_nodes(batch.repeated(2).x, 0.4)
    assert isinstance(x, torch.Tensor)
    logits = torch.cat([batch.select(network(part, batch.adjacency)) for part in x.chunk(2)])
    labels = loss(logits, torch.cat([batch.y, batch.y]), any_kind.kind)
    torch.testing.assert_close(values[0], labels)
    assert torch.equal(values[1], values[0])
    torch.testing.assert_close(values[3] - labels, 3 * (values[2] - labels))


def test_nodes_are_dropped_with_a_single_copy_too(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    network, batch = GraphNetwork(architecture, tiny_task, 8), first_batch(tiny_task)
    with seeded(3):
        value = training_loss(network, batch, tiny_task, Recipe(node_dropout=0.5), 1.0)
    with seeded(3):
        logits = network(drop_nodes(batch.x, 0.5), batch.adjacency)
    assert torch.equal(value, loss(batch.select(logits), batch.y, tiny_task.kind))
    assert not torch.equal(value, training_loss(network, batch, tiny_task, Recipe(), 1.0))


class Said(torch.nn.Module):
    """Says what it is told, whatever it sees."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(logits)

    def forward(self, x: torch.Tensor, adjacency: Adjacency) -> torch.Tensor:
        assert x.shape[0] == adjacency.num_nodes == self.logits.size(0)
        return self.logits


@pytest.mark.parametrize("consistency", [0.0, 1.0])
def test_nodes_without_a_label_take_part_in_the_consistency_alone(
    tiny_task: GraphTask, consistency: float
) -> None:
    said = Said(torch.randn(2 * 20, 3))
    recipe = Recipe(copies=2)
    training_loss(said, first_batch(tiny_task), tiny_task, recipe, consistency).backward()
    assert said.logits.grad is not None
    reached = said.logits.grad.abs().sum(dim=1) > 0
    labeled = [node % 20 < 9 for node in range(40)]
    assert reached.tolist() == ([True] * 40 if consistency else labeled)


def test_what_else_a_network_takes_reaches_it(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    network, batch = GraphNetwork(architecture, tiny_task, 8), first_batch(tiny_task)
    shut = torch.zeros(2, 2)
    value = training_loss(network, batch, tiny_task, Recipe(), 1.0, gates=shut)
    logits = network(batch.x, batch.adjacency, gates=shut)
    assert torch.equal(value, loss(batch.select(logits), batch.y, tiny_task.kind))
    assert not torch.equal(value, training_loss(network, batch, tiny_task, Recipe(), 1.0))


def test_an_epoch_is_a_step_per_batch_in_training_mode(
    architecture: Architecture, any_kind: GraphTask
) -> None:
    network = GraphNetwork(architecture, any_kind, 8).eval()
    twin = GraphNetwork(architecture, any_kind, 8)
    twin.load_state_dict(network.state_dict())
    recipe = Recipe(optimizer="sgd", lr=0.1, copies=2, node_dropout=0.3)
    batches = Batches(any_kind, "train", recipe.batch_graphs)
    with seeded(3):
        mean = train_epoch(
            network, batches, any_kind, recipe.make_optimizer(network.parameters()), recipe, 0.5
        )
    assert network.training

    optimizer, losses = recipe.make_optimizer(twin.parameters()), []
    with seeded(3):
        for batch in batches.shuffled():
            twin.zero_grad()
            value = training_loss(twin, batch, any_kind, recipe, 0.5)
            value.backward()
            optimizer.step()
            losses.append(value.item())
    assert len(losses) == (2 if any_kind.kind == "multi-label" else 1)
    assert mean.item() == pytest.approx(sum(losses) / len(losses))
    assert not mean.requires_grad
    for ours, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_evaluation_is_that_of_all_nodes_of_a_part_at_once(
    architecture: Architecture, many_graphs: GraphTask, part: Any
) -> None:
    network = GraphNetwork(architecture, many_graphs, 8, dropout=0.5, input_dropout=0.5)
    value, metric = evaluate(network, Batches(many_graphs, part), many_graphs)
    (batch,) = Batches(many_graphs, part, size=7).in_order()
    assert not network.training
    logits = network(batch.x, batch.adjacency)
    torch.testing.assert_close(value, loss(logits, batch.y, "multi-label"))
    torch.testing.assert_close(metric, score(logits, batch.y, "multi-label", many_graphs.metric))
    assert not value.requires_grad


def test_an_epoch_tells_training_loss_validation_loss_and_metric(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    network = GraphNetwork(architecture, tiny_task, 8)
    epochs = make_epochs(network, tiny_task, Recipe())
    batch = next(Batches(tiny_task, "train").in_order())
    before = loss(batch.select(network(batch.x, batch.adjacency)), batch.y, tiny_task.kind)
    figures = epochs(0)
    after = evaluate(network, Batches(tiny_task, "val"), tiny_task)
    torch.testing.assert_close(figures, torch.stack([before.detach(), *after]))


def test_every_epoch_has_the_weight_of_consistency_that_the_recipe_states(
    architecture: Architecture, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights: list[float] = []

    def spy(*given: Any) -> Tensor:
        weights.append(given[-1])
        return train_epoch(*given)

    monkeypatch.setattr(module, "train_epoch", spy)
    recipe = Recipe(copies=2, consistency=2.0, consistency_warm_up=4)
    epochs = make_epochs(GraphNetwork(architecture, tiny_task, 8), tiny_task, recipe)
    for number in (0, 1, 3, 9):
        epochs(number)
    assert weights == [0.5, 1.0, 2.0, 2.0]


def test_nothing_is_recorded_on_a_cpu(architecture: Architecture, tiny_task: GraphTask) -> None:
    network = GraphNetwork(architecture, tiny_task, 8)
    assert type(make_epochs(network, tiny_task, Recipe(epochs=1000))) is Epochs


def test_networks_decay_as_they_say_and_in_all_their_weights() -> None:
    recipe, sizes = Recipe(weight_decay=0.25), SimpleNamespace(in_channels=5, out_channels=3)
    for name in BASELINES:
        network = make_network(BASELINES[name].design, sizes, 4)
        optimizer = recipe.make_optimizer(decayed(network, recipe))
        groups = optimizer.param_groups
        assert {id(weight) for group in groups for weight in group["params"]} == {
            id(weight) for weight in network.parameters()
        }
        shares = [1.0]
        if isinstance(network, PublishedNetwork):
            shares = [share for share, _ in network.decays()]
        assert [group["weight_decay"] for group in groups] == [0.25 * share for share in shares]


def test_every_epoch_has_the_learning_rate_of_its_schedule(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    recipe = Recipe(lr=0.5, epochs=2, schedule="cosine")
    network = GraphNetwork(architecture, tiny_task, 4)
    optimizer = recipe.make_optimizer(network.parameters())
    epochs, used = Epochs(network, tiny_task, recipe, optimizer), []
    for number in (0, 1):
        epochs(number)
        used.append([group["lr"] for group in optimizer.param_groups])
    assert used == [[0.5], [pytest.approx(0.25)]]


def test_what_cannot_be_recorded_is_done_step_by_step(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = SimpleNamespace(
        y=SimpleNamespace(device=torch.device("cuda")),
        edge_index=torch.zeros(2, module.MOST_EDGES - 20),
        num_nodes=20,
    )
    elsewhere = SimpleNamespace(
        graphs=[graph],
        split=tiny_task.split,
        kind=tiny_task.kind,
        metric=tiny_task.metric,
    )
    monkeypatch.setattr(module, "RecordedEpochs", lambda *_: "recorded")
    monkeypatch.setattr(module, "Epochs", lambda *_: "step by step")
    made: dict[str, set[str]] = {"recorded": set(), "step by step": set()}
    for name in BASELINES:
        network = make_network(BASELINES[name].design, tiny_task, 4)
        how: Any = make_epochs(network, elsewhere, Recipe(epochs=1000))  # type: ignore[arg-type]
        made[how].add(name)
    assert made["step by step"] == {
        name for name in BASELINES if name.startswith("lgcn") or name in RECURRENT
    }
    network = make_network(BASELINES["gcn"].design, tiny_task, 4)
    assert make_epochs(network, elsewhere, Recipe(epochs=1000)) == "recorded"  # type: ignore
    for values in ({"batch_nodes": 19}, {"batching": "neighbors", "batch_nodes": 99}):
        recipe = Recipe(epochs=1000).changed(**values)
        assert make_epochs(network, elsewhere, recipe) == "step by step"  # type: ignore
    falling = Recipe(epochs=1000, schedule="cosine")
    assert make_epochs(network, elsewhere, falling) == "step by step"  # type: ignore
    graph.num_nodes = 21
    assert make_epochs(network, elsewhere, Recipe(epochs=1000)) == "step by step"  # type: ignore


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["appnp", "gcnii", "jknet-max", "sage-max"])
def test_published_networks_are_recorded(name: str, tiny_task: GraphTask) -> None:
    task, figures = tiny_task.to("cuda:0"), []
    recipe = Recipe(epochs=module.WORTHWHILE, weight_decay=0.01)
    for kind in (Epochs, module.RecordedEpochs):
        with seeded(0, "cuda:0"):
            network = make_network(BASELINES[name].design, task, 8).to("cuda:0")
            optimizer = recipe.make_optimizer(decayed(network, recipe), recorded=True)
            epochs = kind(network, task, recipe, optimizer)
            figures.append(torch.stack([epochs(number).clone() for number in range(5)]))
    torch.testing.assert_close(figures[0], figures[1], rtol=1e-3, atol=1e-3)
    assert isinstance(make_epochs(network, task, recipe), module.RecordedEpochs)


@pytest.mark.gpu
@pytest.mark.parametrize("copies", [1, 3])
def test_what_is_recorded_is_what_happens_step_by_step(
    architecture: Architecture, tiny_task: GraphTask, copies: int
) -> None:
    task = tiny_task.to("cuda:0")
    recipe = Recipe(epochs=module.WORTHWHILE, copies=copies, node_dropout=0.3)
    figures = []
    for kind in (Epochs, module.RecordedEpochs):
        with seeded(0, "cuda:0"):
            network = GraphNetwork(architecture, task, 8).to("cuda:0")
            optimizer = recipe.make_optimizer(network.parameters(), recorded=True)
            epochs = kind(network, task, recipe, optimizer)
            figures.append(torch.stack([epochs(number).clone() for number in range(5)]))
    torch.testing.assert_close(figures[0], figures[1], rtol=1e-3, atol=1e-3)
    assert isinstance(make_epochs(network, task, recipe), module.RecordedEpochs)


@pytest.mark.parametrize(
    ("name", "expected"), [("gcn", 2), ("gcnii", 64), ("jknet-max", 2), ("mlp", 2)]
)
def test_messages_travel_as_often_as_there_are_blocks_or_layers(
    tiny_task: GraphTask, name: str, expected: int
) -> None:
    assert hops(make_network(BASELINES[name].design, tiny_task, 4)) == expected


@pytest.mark.usefixtures("sampler")
@pytest.mark.parametrize("batching", ["clusters", "neighbors"])
def test_batches_of_either_kind_teach_a_network(tiny_task: GraphTask, batching: str) -> None:
    recipe = Recipe(epochs=60, dropout=0.0, input_dropout=0.0, weight_decay=0.0, lr=0.05)
    recipe = recipe.changed(batching=batching, batch_nodes=4)
    with seeded(0):
        network = make_network(BASELINES["sage"].design, tiny_task, 8)
        epochs = make_epochs(network, tiny_task, recipe)
        losses = [epochs(number)[0].item() for number in range(recipe.epochs)]
    assert losses[-1] < 0.2 * losses[0]
