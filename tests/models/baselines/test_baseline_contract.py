"""What every hand-designed network can do, whatever it is made of."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from pdnas.errors import TaskError
from pdnas.models import AnyDesign, Network, load_design, make_network
from pdnas.models.baselines import BASELINES
from pdnas.ops import SparseFeatures
from pdnas.runs import Record, RunDirectory, load_run
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES, train
from pdnas.training.batching import Batches
from pdnas.training.fit import fit

HIDDEN = 8
ORDERED = {"sage-lstm"}
"""Networks that hear neighbors in the order of the edges."""

NORMED = {name for name in BASELINES if name.startswith("lgcn")}
"""Networks that normalize over all nodes at hand."""

every_baseline = pytest.mark.parametrize("name", BASELINES)


@dataclass
class Sizes:
    in_channels: int = 5
    out_channels: int = 3


class Holder(Record):
    design: AnyDesign


@pytest.fixture
def x(generator: Generator) -> Tensor:
    return torch.randn(6, 5, generator=generator, dtype=torch.float64)


def network_of(name: str, **rates: float) -> Network:
    torch.manual_seed(1)
    return make_network(BASELINES[name].design, Sizes(), HIDDEN, **rates).double()  # type: ignore[arg-type]


@every_baseline
def test_a_graph_of_one_node_is_no_special_case(name: str, x: Tensor) -> None:
    edges = torch.empty(2, 0, dtype=torch.long)
    assert network_of(name).eval()(x[:1], edges).isfinite().all()


@every_baseline
@pytest.mark.parametrize("edges", [0, 8])
def test_logits_and_gradients_are_finite_with_and_without_edges(
    name: str, edges: int, x: Tensor, tiny_graph: Tensor
) -> None:
    network = network_of(name, input_dropout=0.3, dropout=0.3)
    logits = network(x, tiny_graph[:, :edges])
    assert logits.shape == (6, 3)
    assert logits.isfinite().all()
    logits.square().sum().backward()
    for label, weight in network.named_parameters():
        if edges or weight.grad is not None:  # without edges nothing is heard of neighbors
            assert weight.grad is not None, label
            assert weight.grad.isfinite().all(), label


@every_baseline
def test_nodes_may_be_numbered_in_any_way(
    name: str, x: Tensor, tiny_graph: Tensor, generator: Generator
) -> None:
    network = network_of(name).eval()
    number = torch.randperm(6, generator=generator)
    renamed = torch.empty_like(x).index_copy(0, number, x)
    expected = network(x, tiny_graph)
    torch.testing.assert_close(network(renamed, number[tiny_graph])[number], expected)


@every_baseline
def test_edges_may_come_in_any_order_unless_an_lstm_hears_them(
    name: str, x: Tensor, tiny_graph: Tensor
) -> None:
    network = network_of(name).eval()
    same = torch.allclose(network(x, tiny_graph), network(x, tiny_graph.flip(1)))
    assert same == (name not in ORDERED)


@every_baseline
def test_sparse_features_are_read_as_dense_ones_are(
    name: str, x: Tensor, tiny_graph: Tensor
) -> None:
    network = network_of(name).eval()
    x = x.relu()
    expected = network(x, tiny_graph)
    for sparse in (SparseFeatures.from_tensor(x), x.to_sparse_coo()):
        torch.testing.assert_close(network(sparse, tiny_graph), expected)


@every_baseline
def test_weights_are_counted_without_being_made(name: str) -> None:
    design = BASELINES[name].design
    for feature_weights in (False, True):
        network = make_network(design, Sizes(), HIDDEN, feature_weights=feature_weights)
        count = sum(weight.numel() for weight in network.parameters())
        assert count - 5 * feature_weights == design.parameters(Sizes(), HIDDEN)


@every_baseline
def test_folded_feature_weights_leave_the_logits_as_they_are(
    name: str, x: Tensor, tiny_graph: Tensor, generator: Generator
) -> None:
    network = network_of(name, feature_weights=True).eval()
    assert network.feature_weights is not None
    torch.nn.init.normal_(network.feature_weights, generator=generator)
    expected = network(x, tiny_graph)
    assert not torch.allclose(network_of(name).eval()(x, tiny_graph), expected)
    network.fold_feature_weights()
    torch.testing.assert_close(network(x, tiny_graph), expected)
    assert set(network.state_dict()) == set(network_of(name).state_dict())
    network.fold_feature_weights()


@every_baseline
def test_a_design_is_read_back_from_json(name: str, tmp_path: Path) -> None:
    design = BASELINES[name].design
    holder = Holder(design=design)
    read = Holder.model_validate_json(holder.model_dump_json())
    assert read == holder == Holder.model_validate(holder.model_dump(mode="json"))
    assert hash(read.design) == hash(design)
    (tmp_path / "it.json").write_text(design.model_dump_json())
    assert load_design(tmp_path / "it.json") == design


@every_baseline
def test_a_design_can_be_shown(name: str) -> None:
    design = BASELINES[name].design
    assert "\n" not in str(design)
    header, *rows = design.table()
    assert rows
    assert all(len(row) == len(header) for row in rows)


@every_baseline
def test_a_run_is_written_and_read_back(name: str, tiny_task: GraphTask, tmp_path: Path) -> None:
    recipe, graph = RECIPES[name].changed(epochs=3), tiny_task.graphs[0]
    run = RunDirectory.create(tmp_path / "run", "it")
    run.write_json("settings.json", {})
    design = BASELINES[name].design
    result = train(design, tiny_task, hidden=HIDDEN, recipe=recipe, seeds=2, device="cpu", run=run)
    read = load_run(run.path)
    assert read.model_dump() == result.model_dump()
    assert read.architecture == design
    logits = result.model(graph.x, graph.edge_index)
    assert torch.equal(read.model(graph.x, graph.edge_index), logits)
    assert load_design(run.path / "architecture.json") == design
    again = train(design, tiny_task, hidden=HIDDEN, recipe=recipe, seeds=2, device="cpu")
    assert (again.val, again.test) == (result.val, result.test)


@every_baseline
def test_a_few_epochs_lower_the_loss(name: str, tiny_task: GraphTask) -> None:
    recipe = RECIPES[name].changed(
        epochs=30, input_dropout=0.0, dropout=0.0, node_dropout=0.0, copies=1, selection="loss"
    )
    losses: list[float] = []
    network = make_network(BASELINES[name].design, tiny_task, HIDDEN)
    fit(network, tiny_task, recipe, on_epoch=lambda epoch: losses.append(epoch.train_loss))
    assert min(losses[-5:]) < losses[0]


@every_baseline
def test_consistency_training_and_teachers_work(name: str, tiny_task: GraphTask) -> None:
    recipe = RECIPES["consistency-selective"].changed(epochs=2, copies=2, teachers=1, lr=0.01)
    result = train(BASELINES[name].design, tiny_task, hidden=4, recipe=recipe, device="cpu")
    assert 0 <= result.test.mean <= 1


@every_baseline
def test_graphs_side_by_side_do_not_hear_each_other(name: str, rings: GraphTask) -> None:
    network = make_network(BASELINES[name].design, rings, HIDDEN).eval()
    (joined,) = Batches(rings, "train", size=4).in_order()
    alone = [network(batch.x, batch.adjacency) for batch in Batches(rings, "train").in_order()]
    same = torch.allclose(network(joined.x, joined.adjacency), torch.cat(alone), atol=1e-5)
    assert same == (name not in NORMED)


@every_baseline
def test_whole_graphs_with_many_labels_are_learned_too(name: str, rings: GraphTask) -> None:
    recipe = RECIPES[name].changed(epochs=3, batch_graphs=3)
    result = train(BASELINES[name].design, rings, hidden=4, recipe=recipe, device="cpu")
    assert (result.metric, result.out_channels) == ("micro-f1", 2)
    assert 0 <= result.test.mean <= 1
    assert "(rebuilt rings)" in result.summary()


@every_baseline
def test_what_does_not_fit_is_refused(name: str, x: Tensor, tiny_graph: Tensor) -> None:
    network = network_of(name)
    with pytest.raises(TaskError, match="have 4 features, but the network was made for 5"):
        network(x[:, :4], tiny_graph)
    with pytest.raises(TaskError, match="points to node 7, but its nodes are 0 to 5"):
        network(x, tiny_graph + 3)
