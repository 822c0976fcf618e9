"""Whole networks: sizes, shortcuts, kinds of input and the hand-designed ones against PyG."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import to_undirected

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ArchitectureError, TaskError
from pdnas.models import GraphNetwork
from pdnas.models.baselines import BASELINES
from pdnas.models.block import Factors
from pdnas.ops import COMBINES, HEADS, NORMS, PROPAGATIONS, SLOTS, Adjacency, SparseFeatures
from pdnas.space import PAPER
from pdnas.tasks import GraphTask


@dataclass(frozen=True)
class Sizes:
    """All that a network wants to know of a task."""

    in_channels: int
    out_channels: int


CORA, PUBMED, SMALL = Sizes(1433, 7), Sizes(500, 3), Sizes(5, 3)
NODES = 15


@pytest.fixture
def edges(generator: Generator) -> Tensor:
    pairs = torch.randint(NODES - 1, (2, 40), generator=generator)
    undirected: Tensor = to_undirected(pairs[:, pairs[0] != pairs[1]])
    return undirected


@pytest.fixture
def x(generator: Generator) -> Tensor:
    return torch.randn(NODES, 5, generator=generator, dtype=torch.float64)


def numel(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def blocks(*specs: BlockSpec, **more: Any) -> Architecture:
    return Architecture(blocks=specs, **more)


@pytest.mark.parametrize(("task", "count"), [(CORA, 48128), (PUBMED, 18144)])
def test_two_plain_blocks_have_the_size_that_the_method_states(task: Sizes, count: int) -> None:
    architecture = blocks(BlockSpec(), BlockSpec())
    # F h + h h + h h + h C for hidden size h, F features and C classes.
    assert count == task.in_channels * 32 + 2 * 32 * 32 + 32 * task.out_channels
    assert architecture.parameters(task, 32) == count
    assert numel(GraphNetwork(architecture, task, 32)) == count


def random_variant(draw: st.DrawFn) -> Architecture:
    """A member of the paper's space with any choice that this space leaves out."""
    seed, count = draw(st.integers(0, 2**32)), draw(st.integers(1, 4))
    member = PAPER.sample(count, torch.Generator().manual_seed(seed))
    changed = tuple(
        block.model_copy(
            update={
                "expansion": draw(st.sampled_from([0, block.expansion])),
                "propagation": draw(st.sampled_from(list(PROPAGATIONS))),
                "combine": draw(st.sampled_from(list(COMBINES))),
                "norm": draw(st.sampled_from(list(NORMS))),
                "bias": draw(st.booleans()),
            }
        )
        for block in member.blocks
    )
    normalization = draw(st.sampled_from(["softmax", "none"]))
    return member.model_copy(update={"blocks": changed, "attention_normalization": normalization})


architectures = st.composite(random_variant)()


@settings(max_examples=60)
@given(
    architecture=architectures,
    hidden=st.integers(1, 20),
    in_channels=st.integers(1, 9),
    out_channels=st.integers(1, 9),
)
def test_weights_are_counted_without_being_made(
    architecture: Architecture, hidden: int, in_channels: int, out_channels: int
) -> None:
    task = Sizes(in_channels, out_channels)
    network = GraphNetwork(architecture, task, hidden)
    assert architecture.parameters(task, hidden) == numel(network)


@settings(max_examples=40)
@given(architecture=architectures, hidden=st.integers(1, 17))
def test_any_architecture_gives_finite_logits_and_gradients(
    architecture: Architecture, hidden: int
) -> None:
    network = GraphNetwork(architecture, SMALL, hidden)
    edge_index = torch.tensor([[0, 1, 2, 0, 3, 4], [1, 0, 1, 2, 2, 4]])
    logits = network(torch.linspace(0, 1, 30).view(6, 5), edge_index)
    logits.square().mean().backward()
    assert logits.shape == (6, 3)
    assert logits.isfinite().all()
    grads = [weight.grad for weight in network.parameters()]
    assert all(grad is None or bool(grad.isfinite().all()) for grad in grads)


@pytest.mark.parametrize("heads", HEADS)
def test_any_hidden_size_works_with_any_number_of_heads(
    heads: int, edges: Tensor, x: Tensor
) -> None:
    block = BlockSpec(attention="cos", heads=heads)
    graph = Adjacency.from_edge_index(edges, NODES)
    for hidden in range(1, 18):
        network = GraphNetwork(blocks(block, block), SMALL, hidden).double()
        assert network(x, graph).shape == (NODES, 3)


def test_shortcuts_follow_their_formula(x: Tensor, edges: Tensor) -> None:
    plain = BlockSpec(expansion=0, attention="const")
    gates = ((0, 0), (0, 1), (1, 1))
    architecture = blocks(plain.model_copy(update={"activation": "tanh"}), plain, gates=gates)
    network: Any = GraphNetwork(architecture, SMALL, 4).double()
    neighbors = torch.zeros(NODES, NODES, dtype=torch.float64)
    neighbors[edges[1], edges[0]] = 1
    messages = neighbors + torch.eye(NODES)  # combined by addition
    first, second = (block.transform.weight for block in network.blocks)
    maps = {key: network.shortcuts[key] for key in ("0_0", "0_1", "1_1")}

    middle = (messages @ x @ first).tanh() + x @ maps["0_0"]
    expected = messages @ middle @ second + x @ maps["0_1"] + middle @ maps["1_1"]

    assert set(network.shortcuts) == set(maps)
    torch.testing.assert_close(network(x, edges), expected)


def test_gates_multiply_their_shortcuts(x: Tensor, edges: Tensor) -> None:
    plain = BlockSpec(expansion=0, attention="const")
    architecture = blocks(plain, plain, gates=((0, 0), (0, 1), (1, 1)))
    network: Any = GraphNetwork(architecture, SMALL, 4).double()
    neighbors = torch.zeros(NODES, NODES, dtype=torch.float64)
    neighbors[edges[1], edges[0]] = 1
    messages = neighbors + torch.eye(NODES)  # combined by addition
    first, second = (block.transform.weight for block in network.blocks)
    maps = network.shortcuts
    gates = torch.tensor([[0.3, 0.8], [9.0, 0.1]]).double().requires_grad_()

    middle = messages @ x @ first + 0.3 * (x @ maps["0_0"])
    expected = messages @ middle @ second + 0.8 * (x @ maps["0_1"]) + 0.1 * (middle @ maps["1_1"])
    logits = network(x, edges, gates=gates)
    (grad,) = torch.autograd.grad(logits[:, 0].sum(), gates)

    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
    # The gate into the logits meets its shortcut alone, and there is none that leads backwards.
    torch.testing.assert_close(grad[0, 1], (x @ maps["0_1"])[:, 0].sum())
    assert (grad != 0).tolist() == [[True, True], [False, True]]


def test_open_gates_change_nothing_and_shut_ones_leave_the_blocks(x: Tensor, edges: Tensor) -> None:
    network = GraphNetwork(EVERYTHING, SMALL, 8).double()
    ones, zeros = torch.ones(2, 2).double(), torch.zeros(2, 2).double()
    assert torch.equal(network(x, edges, gates=ones), network(x, edges))
    bare = GraphNetwork(EVERYTHING.model_copy(update={"gates": ()}), SMALL, 8).double()
    bare.blocks.load_state_dict(network.blocks.state_dict())
    assert torch.equal(network(x, edges, gates=zeros), bare(x, edges))


def test_a_gate_without_a_map_has_no_say(x: Tensor, edges: Tensor) -> None:
    network = GraphNetwork(blocks(BlockSpec(), BlockSpec(), gates=((0, 1),)), SMALL, 4).double()
    gates = torch.tensor([[5.0, 1.0], [5.0, 5.0]]).double()
    assert torch.equal(network(x, edges, gates=gates), network(x, edges))


def test_factors_of_one_change_nothing(x: Tensor, edges: Tensor) -> None:
    network, one = GraphNetwork(EVERYTHING, SMALL, 8).double(), torch.tensor(1.0).double()
    factors = [Factors(one, one, one, one)] * 2
    assert torch.equal(network(x, edges, factors=factors), network(x, edges))


def test_every_block_has_factors_of_its_own_and_shortcuts_have_none(
    x: Tensor, edges: Tensor
) -> None:
    network: Any = GraphNetwork(EVERYTHING, SMALL, 8).double()
    graph = Adjacency.from_edge_index(edges, NODES)
    first, second = (
        Factors(*torch.tensor(values).double()) for values in ([2.0, 0.5, 3.0, 0.7], [0.9] * 4)
    )
    maps = network.shortcuts

    middle = network.blocks[0](x, graph, first) + x @ maps["0_0"]
    last = network.blocks[1](middle, graph, second)
    expected = last + x @ maps["0_1"] + middle @ maps["1_1"]

    torch.testing.assert_close(network(x, edges, factors=[first, second]), expected)


def test_ready_blocks_and_maps_are_used_as_they_are(x: Tensor, edges: Tensor) -> None:
    donor = GraphNetwork(EVERYTHING, SMALL, 8).double()
    maps = {(i, j): donor.shortcuts[f"{i}_{j}"] for i, j in EVERYTHING.gates}
    network = GraphNetwork(EVERYTHING, SMALL, 8, blocks=list(donor.blocks), shortcuts=maps)  # type: ignore[arg-type]
    assert all(one is other for one, other in zip(network.blocks, donor.blocks, strict=True))
    assert set(network.parameters()) == set(donor.parameters())
    assert torch.equal(network(x, edges), donor(x, edges))


def test_only_open_gates_have_maps() -> None:
    network = GraphNetwork(blocks(BlockSpec(), BlockSpec(), gates=((0, 1),)), SMALL, 4)
    assert {key: tuple(weight.shape) for key, weight in network.shortcuts.items()} == {
        "0_1": (5, 3)
    }


def test_a_shortcut_costs_its_map() -> None:
    without, with_gate = (
        blocks(BlockSpec(), BlockSpec(), gates=gates) for gates in ((), ((0, 1),))
    )
    assert with_gate.parameters(CORA, 32) - without.parameters(CORA, 32) == 1433 * 7


EVERYTHING = blocks(
    BlockSpec(attention="gat", heads=2, combine="root", activation="elu"),
    BlockSpec(attention="cos", heads=4, aggregation="max"),
    gates=((0, 0), (0, 1), (1, 1)),
)


@pytest.mark.parametrize("form", ["features", "coo", "csr"])
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta:UserWarning")
def test_dense_and_sparse_features_give_the_same_logits_and_gradients(
    form: str, x: Tensor, edges: Tensor
) -> None:
    x = x.relu()
    network = GraphNetwork(EVERYTHING, SMALL, 8).double()
    sparse: Any = SparseFeatures.from_tensor(x)
    if form != "features":
        sparse = x.to_sparse(layout=torch.sparse_coo if form == "coo" else torch.sparse_csr)
    results = []
    for features in (x, sparse):
        network.zero_grad()
        logits = network(features, edges)
        logits.square().sum().backward()
        results.append([logits, *(weight.grad for weight in network.parameters())])
    torch.testing.assert_close(results[1], results[0])


def test_edges_and_adjacency_give_the_same_logits(x: Tensor, edges: Tensor) -> None:
    network = GraphNetwork(EVERYTHING, SMALL, 8).double()
    expected = network(x, Adjacency.from_edge_index(edges, NODES))
    assert torch.equal(network(x, edges), expected)


@pytest.mark.parametrize("rate", ["input_dropout", "dropout", "attention_dropout"])
def test_dropout_acts_in_training_alone(rate: str, x: Tensor, edges: Tensor) -> None:
    rates: dict[str, Any] = {rate: 0.5}
    network = GraphNetwork(EVERYTHING, SMALL, 8, **rates).double()
    network.eval()
    assert torch.equal(network(x, edges), network(x, edges))
    network.train()
    assert not torch.equal(network(x, edges), network(x, edges))


def test_without_dropout_training_changes_no_output(x: Tensor, edges: Tensor) -> None:
    network = GraphNetwork(EVERYTHING, SMALL, 8).double()
    assert torch.equal(network.train()(x, edges), network.eval()(x, edges))


def test_input_dropout_leaves_the_raw_features_alone(x: Tensor, edges: Tensor) -> None:
    before = x.clone()
    GraphNetwork(EVERYTHING, SMALL, 8, input_dropout=0.5, dropout=0.5).double()(x, edges)
    assert torch.equal(x, before)


def test_weights_survive_saving_and_loading(x: Tensor, edges: Tensor) -> None:
    first, second = (GraphNetwork(EVERYTHING, SMALL, 8).double() for _ in range(2))
    assert not torch.equal(first(x, edges), second(x, edges))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x, edges), second(x, edges))


@settings(max_examples=40)
@given(architecture=architectures, sparse=st.booleans())
def test_folded_feature_weights_leave_the_logits_as_they_are(
    architecture: Architecture, sparse: bool
) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(NODES, 5, generator=generator, dtype=torch.float64)
    edges = torch.randint(NODES, (2, 40), generator=generator)
    features = SparseFeatures.from_tensor(x) if sparse else x
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = GraphNetwork(architecture, SMALL, 4, feature_weights=True).double().eval()
        torch.manual_seed(0)
        plain = GraphNetwork(architecture, SMALL, 4).double().eval()
    assert numel(network) == numel(plain) + 5
    with torch.no_grad():
        assert torch.equal(network(features, edges), plain(features, edges)), "they begin as ones"
        assert network.feature_weights is not None
        network.feature_weights.copy_(torch.tensor([0.0, 0.5, -1.0, 2.0, 3.0]))
        expected = network(features, edges)
        torch.testing.assert_close(expected, plain(x * network.feature_weights, edges))
        network.fold_feature_weights()
        assert torch.equal(network(features, edges), expected)
    assert network.state_dict().keys() == plain.state_dict().keys()
    network.fold_feature_weights()


@pytest.mark.parametrize("hidden", [0, -3])
def test_a_hidden_size_below_one_is_refused(hidden: int) -> None:
    with pytest.raises(ArchitectureError, match=f"The hidden size is {hidden}; give"):
        GraphNetwork(EVERYTHING, SMALL, hidden)


class Layers(torch.nn.Module):
    """PyG's layers with an activation between them."""

    def __init__(self, name: str, hidden: int) -> None:
        super().__init__()
        if name == "gcn":
            pair: list[Any] = [GCNConv(5, hidden), GCNConv(hidden, 3)]
        elif name == "gat":
            pair = [GATConv(5, hidden // 8, heads=8), GATConv(hidden, 3)]
        else:
            pair = [SAGEConv(5, hidden), SAGEConv(hidden, 3)]
        self.layers = torch.nn.ModuleList(pair)
        self.activation = torch.nn.functional.elu if name == "gat" else torch.relu

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        first, second = self.layers
        logits: Tensor = second(self.activation(first(x, edges)), edges)
        return logits


def pairs_of(block: Any, layer: Any) -> list[tuple[Any, Any, bool]]:
    """Our weights beside PyG's, and whether one is the transpose of the other."""
    if isinstance(layer, SAGEConv):
        return [
            (block.transform.weight, layer.lin_l.weight, True),
            (block.combine.weight, layer.lin_r.weight, True),
            (block.bias, layer.lin_l.bias, False),
        ]
    pairs = [(block.transform.weight, layer.lin.weight, True), (block.bias, layer.bias, False)]
    if isinstance(layer, GATConv):
        pairs.append((block.attention.at_source, layer.att_src, False))
        pairs.append((block.attention.at_target, layer.att_dst, False))
    return pairs


@pytest.mark.parametrize("name", ["gcn", "gat", "sage"])
def test_hand_designed_networks_are_those_of_pyg(name: str, x: Tensor, edges: Tensor) -> None:
    baseline = BASELINES[name]
    network: Any = GraphNetwork(baseline.architecture, SMALL, baseline.hidden).double()
    reference = Layers(name, baseline.hidden).double()
    together = [
        pair
        for block, layer in zip(network.blocks, reference.layers, strict=True)
        for pair in pairs_of(block, layer)
    ]
    with torch.no_grad():
        for ours, theirs, flipped in together:
            ours.normal_()
            theirs.copy_(ours.t() if flipped else ours.view(theirs.shape))
    assert len(together) == len(list(network.parameters())) == len(list(reference.parameters()))

    logits, expected = network(x, edges), reference(x, edges)
    logits.square().mean().backward()
    expected.square().mean().backward()

    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
    for ours, theirs, flipped in together:
        grad = theirs.grad.t() if flipped else theirs.grad.view(ours.shape)
        torch.testing.assert_close(ours.grad, grad, rtol=1e-5, atol=1e-6)


def test_every_slot_reaches_the_block() -> None:
    spec = BlockSpec(
        expansion=2,
        attention="cos",
        heads=4,
        aggregation="max",
        combine="concat-mlp",
        norm="batch",
        activation="elu",
    )
    mixed = spec.model_copy(update={"propagation": 4})
    network = GraphNetwork(blocks(spec, mixed, BlockSpec()), SMALL, 8)
    idle = {"attention", "heads", "aggregation"}
    attributes = {"expansion": "transform"}
    for made, chosen, slots in zip(
        network.blocks, (spec, mixed), (set(SLOTS), set(SLOTS) - idle), strict=False
    ):
        ops = {slot: getattr(made, attributes.get(slot, slot)) for slot in slots}
        assert all(type(op) is chosen.op(slot) for slot, op in ops.items())
        assert set(made.children()) == set(ops.values())


@pytest.mark.parametrize("node", [-5, 25, 10**8])
def test_an_edge_that_leaves_the_graph_is_refused(tiny_task: GraphTask, node: int) -> None:
    network = GraphNetwork(BASELINES["gcn"].architecture, tiny_task, 4)
    edges = torch.tensor([[0, node], [1, 2]])
    with pytest.raises(TaskError, match=rf"points to node {node}, but its nodes are 0 to 19"):
        network(tiny_task.graphs[0].x, edges)


def test_features_of_another_width_are_refused(tiny_task: GraphTask) -> None:
    network = GraphNetwork(BASELINES["gcn"].architecture, tiny_task, 4)
    with pytest.raises(TaskError, match="have 3 features, but the network was made for 5"):
        network(torch.ones(20, 3), tiny_task.graphs[0].edge_index)
