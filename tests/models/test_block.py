"""One block against PyG's layers and against its heads one by one."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import to_undirected

from pdnas.architecture import BlockSpec
from pdnas.models import GraphBlock
from pdnas.models import block as block_module
from pdnas.models.block import Factors
from pdnas.ops import (
    AGGREGATIONS,
    ATTENTIONS,
    COMBINES,
    HEADS,
    NORMS,
    PROPAGATIONS,
    Adjacency,
    SparseFeatures,
)

LEARNED = [name for name in ATTENTIONS if ATTENTIONS[name].learned]
MIXED = [order for order in PROPAGATIONS if not PROPAGATIONS[order].attentive]
NODES, FEATURES = 12, 5


@pytest.fixture
def edges(generator: Generator) -> Tensor:
    """A random undirected graph in which the last node is isolated."""
    pairs = torch.randint(NODES - 1, (2, 30), generator=generator)
    undirected: Tensor = to_undirected(pairs[:, pairs[0] != pairs[1]])
    return undirected


@pytest.fixture
def x(generator: Generator) -> Tensor:
    return torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64)


def make(out_channels: int = 6, **choices: Any) -> Any:
    """A block in double precision, its bias drawn at random."""
    spec = BlockSpec.model_validate(choices)
    block = GraphBlock.from_spec(spec, FEATURES, out_channels, 4).double()
    if block.bias is not None:
        torch.nn.init.normal_(block.bias)
    return block


def run(module: Any, x: Tensor, graph: Any) -> tuple[Tensor, Tensor]:
    """Output, and the gradient of the input; those of the weights stay with the module."""
    x = x.clone().requires_grad_()
    result: Tensor = module(x, graph)
    (result * torch.linspace(-1, 2, result.size(1), dtype=result.dtype)).square().sum().backward()
    assert x.grad is not None
    return result.detach(), x.grad


def assert_same(block: Any, layer: Any, x: Tensor, edges: Tensor) -> None:
    """Same outputs and same gradients of the input."""
    results = run(block, x, Adjacency.from_edge_index(edges, NODES)), run(layer, x, edges)
    # The weights 1 / sqrt(d_i d_j) are single numbers, so eight digits are all there is.
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-6)


def assert_same_grads(*pairs: tuple[Any, Any]) -> None:
    for ours, theirs in pairs:
        assert ours.grad.abs().sum() > 0
        torch.testing.assert_close(ours.grad, theirs.grad.view(ours.shape), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def copy(source: Any, target: Any) -> None:
    target.copy_(source.reshape(target.shape))


def transposed(linear: Any) -> Any:
    """A PyG weight ``[out, in]`` in our shape, with its gradient."""
    weight = linear.weight.detach().t().clone()
    weight.grad = None if linear.weight.grad is None else linear.weight.grad.t().clone()
    return weight


def test_a_gcn_block_is_gcnconv(x: Tensor, edges: Tensor) -> None:
    block = make(expansion=0, attention="gcn", combine="none", bias=True)
    layer = GCNConv(FEATURES, 6).double()
    copy(block.transform.weight.t(), layer.lin.weight)
    copy(block.bias, layer.bias)
    assert_same(block, layer, x, edges)
    assert_same_grads((block.transform.weight, transposed(layer.lin)), (block.bias, layer.bias))


@pytest.mark.parametrize("heads", [1, 2])
def test_a_gat_block_is_gatconv(heads: int, x: Tensor, edges: Tensor) -> None:
    block = make(expansion=0, attention="gat", heads=heads, combine="none", bias=True)
    layer = GATConv(FEATURES, 6 // heads, heads=heads).double()
    copy(block.transform.weight.t(), layer.lin.weight)
    copy(block.attention.at_source, layer.att_src)
    copy(block.attention.at_target, layer.att_dst)
    copy(block.bias, layer.bias)
    assert_same(block, layer, x, edges)
    assert_same_grads(
        (block.transform.weight, transposed(layer.lin)),
        (block.attention.at_source, layer.att_src),
        (block.attention.at_target, layer.att_dst),
        (block.bias, layer.bias),
    )


def test_a_sage_block_is_sageconv(x: Tensor, edges: Tensor) -> None:
    block = make(expansion=0, aggregation="mean", combine="root", bias=True)
    layer = SAGEConv(FEATURES, 6).double()
    copy(block.transform.weight.t(), layer.lin_l.weight)
    copy(block.combine.weight.t(), layer.lin_r.weight)
    copy(block.bias, layer.lin_l.bias)
    assert_same(block, layer, x, edges)
    assert_same_grads(
        (block.transform.weight, transposed(layer.lin_l)),
        (block.combine.weight, transposed(layer.lin_r)),
        (block.bias, layer.lin_l.bias),
    )


def head_block(block: Any, head: int, columns: slice, **choices: Any) -> Any:
    """One head of a block as a block of its own."""
    weight = block.transform.weight[:, columns]
    alone = make(weight.size(1), **{**choices, "heads": 1})
    copy(weight, alone.transform.weight)
    for name, vector in alone.attention.named_parameters():
        copy(block.attention.get_parameter(name)[head], vector)
    return alone


@pytest.mark.parametrize("attention", LEARNED)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_averaged_heads_are_the_mean_of_single_ones(
    aggregation: str, attention: str, x: Tensor, edges: Tensor
) -> None:
    choices = {"expansion": 0, "attention": attention, "aggregation": aggregation}
    block = make(7, heads=4, **choices)
    graph = Adjacency.from_edge_index(edges, NODES)
    assert block.heads.averaged
    singles = [head_block(block, head, slice(None), **choices) for head in range(4)]
    result = run(block, x, graph)
    mean = run(lambda x, graph: torch.stack([one(x, graph) for one in singles]).mean(0), x, graph)
    torch.testing.assert_close(result, mean)
    for name, vector in block.attention.named_parameters():
        rows = [one.attention.get_parameter(name).grad for one in singles]
        torch.testing.assert_close(vector.grad, torch.cat(rows))


@pytest.mark.parametrize("attention", LEARNED)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_concatenated_heads_are_single_ones_side_by_side(
    aggregation: str, attention: str, x: Tensor, edges: Tensor
) -> None:
    choices = {"expansion": 0, "attention": attention, "aggregation": aggregation}
    block = make(6, heads=2, **choices)
    graph = Adjacency.from_edge_index(edges, NODES)
    slices = (slice(0, 3), slice(3, 6))
    singles = [head_block(block, head, part, **choices) for head, part in enumerate(slices)]
    expected = torch.cat([one(x, graph) for one in singles], dim=1)
    torch.testing.assert_close(block(x, graph), expected)


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_equation_one_by_hand(aggregation: str, combine: str, x: Tensor, edges: Tensor) -> None:
    block = make(
        expansion=2, aggregation=aggregation, combine=combine, activation="tanh", bias=True
    )
    transformed = (x @ block.transform.weight_1).relu() @ block.transform.weight_2
    neighbors = torch.zeros(NODES, NODES, dtype=torch.bool)
    neighbors[edges[1], edges[0]] = True
    if combine == "none":
        neighbors.fill_diagonal_(True)
    gather = {"sum": lambda m: m.sum(0), "mean": lambda m: m.mean(0), "max": lambda m: m.amax(0)}
    messages = torch.stack(
        [
            gather[aggregation](transformed[row]) if row.any() else torch.zeros_like(transformed[0])
            for row in neighbors
        ]
    )
    combined = block.combine(messages, transformed, x)
    result = block(x, Adjacency.from_edge_index(edges, NODES))
    torch.testing.assert_close(result, (combined + block.bias).tanh())


def mean_of_powers(edges: Tensor, order: int) -> Tensor:
    """Of the normalized adjacency with self-loops, dense."""
    looped = torch.eye(NODES, dtype=torch.float64)
    looped[edges[1], edges[0]] = 1
    scale = looped.sum(dim=1).rsqrt()
    normalized = scale.unsqueeze(1) * looped * scale
    powers = [torch.linalg.matrix_power(normalized, number) for number in range(order + 1)]
    return torch.stack(powers).mean(dim=0)


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("order", MIXED)
def test_mixed_orders_take_the_place_of_the_messages(
    order: int, combine: str, x: Tensor, edges: Tensor
) -> None:
    block = make(
        expansion=2, propagation=order, combine=combine, norm="layer", activation="tanh", bias=True
    )
    transformed = (x @ block.transform.weight_1).relu() @ block.transform.weight_2
    combined = block.combine(mean_of_powers(edges, order) @ transformed, transformed, x)
    shifted = combined + block.bias
    deviation = (shifted.var(dim=1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    expected = ((shifted - shifted.mean(dim=1, keepdim=True)) / deviation).tanh()
    result = block(x, Adjacency.from_edge_index(edges, NODES))
    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_stands_between_the_bias_and_the_activation(
    norm: str, x: Tensor, edges: Tensor
) -> None:
    block = make(norm=norm, activation="tanh", bias=True)
    for weight in block.norm.parameters():
        torch.nn.init.normal_(weight)
    bare = make(bias=True)
    bare.load_state_dict(block.state_dict(), strict=False)
    graph = Adjacency.from_edge_index(edges, NODES)
    torch.testing.assert_close(block(x, graph), block.norm(bare(x, graph)).tanh())


@pytest.mark.parametrize("order", MIXED)
def test_mixed_orders_do_not_look_at_attention_heads_or_aggregation(
    order: int, x: Tensor, edges: Tensor
) -> None:
    block = make(propagation=order)
    other = make(propagation=order, attention="gat", heads=2, aggregation="max")
    other.load_state_dict(block.state_dict())
    graph = Adjacency.from_edge_index(edges, NODES)
    assert torch.equal(other(x, graph), block(x, graph))
    assert not {"attention", "heads", "aggregation"} & dict(other.named_children()).keys()


def test_a_block_of_order_zero_does_not_look_at_the_edges(x: Tensor, edges: Tensor) -> None:
    block = make(propagation=0, combine="none", activation="relu")
    none = Adjacency.from_edge_index(edges[:, :0], NODES)
    expected = (x @ block.transform.weight_1).relu() @ block.transform.weight_2
    torch.testing.assert_close(block(x, none), expected.relu())
    assert torch.equal(block(x, Adjacency.from_edge_index(edges, NODES)), block(x, none))


def test_a_bias_is_there_on_request_and_zero_at_first() -> None:
    spec = BlockSpec(bias=True)
    block = GraphBlock.from_spec(spec, 3, 5, 4)
    assert block.bias is not None
    assert block.bias.tolist() == [0] * 5
    assert GraphBlock.from_spec(BlockSpec(), 3, 5, 4).bias is None


@pytest.mark.parametrize("heads", HEADS)
def test_any_width_works_with_any_number_of_heads(heads: int, edges: Tensor, x: Tensor) -> None:
    graph = Adjacency.from_edge_index(edges, NODES)
    for width in range(1, 18):
        block = make(width, attention="gat", heads=heads)
        assert block(x, graph).shape == (NODES, width)


@pytest.mark.parametrize("combine", COMBINES)
def test_sparse_features_give_what_dense_ones_give(combine: str, x: Tensor, edges: Tensor) -> None:
    block, graph = make(attention="gat", combine=combine), Adjacency.from_edge_index(edges, NODES)
    features = SparseFeatures.from_tensor(x.relu())
    torch.testing.assert_close(block(features, graph), block(x.relu(), graph))


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("combine", ["add", "none"])
def test_without_gradients_a_large_graph_is_heard_in_parts_and_exactly(
    attention: str,
    aggregation: str,
    combine: str,
    x: Tensor,
    edges: Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = make(attention=attention, heads=2, aggregation=aggregation, combine=combine)
    graph = Adjacency.from_edge_index(edges, len(x))
    whole = block(x, graph)
    seen: list[int] = []
    parts = Adjacency.parts

    def spy(self: Adjacency, count: int) -> Any:
        for part in parts(self, count):
            seen.append(part.adjacency.num_edges)
            yield part

    monkeypatch.setattr(Adjacency, "parts", spy)
    # Four edges at a time: a fixed weight is all that an edge carries, else there are channels.
    numbers = 6 if ATTENTIONS[attention].learned else 1
    monkeypatch.setattr(block_module, "AT_ONCE", 4 * numbers)
    with torch.no_grad():
        torch.testing.assert_close(block(x, graph), whole, rtol=1e-12, atol=1e-12)
    assert len(seen) > 2
    seen.clear()
    torch.testing.assert_close(block(x, graph), whole, rtol=0, atol=0)
    assert not seen, "gradients are asked for"


@pytest.mark.parametrize(
    ("attention", "heads", "edges_at_once"),
    [("gcn", 4, 24), ("gat", 4, 4), ("gene-linear", 2, 4), ("gene-linear", 4, 1)],
)
def test_parts_are_as_small_as_what_an_edge_carries_asks_for(
    attention: str,
    heads: int,
    edges_at_once: int,
    x: Tensor,
    edges: Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six channels, which four heads cannot share: each sees all of them."""
    asked: list[int] = []
    parts = Adjacency.parts

    def spy(self: Adjacency, count: int) -> Any:
        asked.append(count)
        return parts(self, count)

    monkeypatch.setattr(Adjacency, "parts", spy)
    monkeypatch.setattr(block_module, "AT_ONCE", 4 * 6)
    graph = Adjacency.from_edge_index(edges.repeat(1, 4), len(x))
    with torch.no_grad():
        make(attention=attention, heads=heads)(x, graph)
    assert asked == [edges_at_once]


@pytest.mark.parametrize("attention", ["gat", "gcn"])
def test_attention_dropout_meets_learned_attention_in_training(
    attention: str, x: Tensor, edges: Tensor
) -> None:
    spec = BlockSpec(attention=attention, heads=2)
    block = GraphBlock.from_spec(spec, FEATURES, 6, 4, attention_dropout=0.5).double()
    graph = Adjacency.from_edge_index(edges, NODES)
    expected = block.eval()(x, graph)
    assert torch.equal(block(x, graph), expected)
    assert torch.equal(block.train()(x, graph), expected) == (attention == "gcn")


def test_the_normalization_reaches_the_attention() -> None:
    spec = BlockSpec(attention="gat")
    block = GraphBlock.from_spec(spec, 3, 5, 4, attention_normalization="none")
    assert block.attention.normalization == "none"


def factors_of(*values: float) -> Factors:
    """As numbers in double precision that want a gradient."""
    return Factors(
        *(torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values)
    )


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("propagation", PROPAGATIONS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_factors_of_one_change_nothing(
    aggregation: str, propagation: int, combine: str, x: Tensor, edges: Tensor
) -> None:
    block = make(
        propagation=propagation,
        attention="gat",
        heads=2,
        aggregation=aggregation,
        combine=combine,
        norm="layer",
        activation="tanh",
        bias=True,
    )
    graph = Adjacency.from_edge_index(edges, NODES)
    assert torch.equal(block(x, graph, factors_of(1, 1, 1, 1)), block(x, graph))


@pytest.mark.parametrize("combine", COMBINES)
def test_each_factor_multiplies_the_result_of_its_step(
    combine: str, x: Tensor, edges: Tensor
) -> None:
    block = make(expansion=0, combine=combine, activation="tanh", bias=True)
    graph = Adjacency.from_edge_index(edges, NODES)
    neighbors = torch.zeros(NODES, NODES, dtype=torch.float64)
    neighbors[edges[1], edges[0]] = 1
    if combine == "none":
        neighbors.fill_diagonal_(1)
    scale = factors_of(0.7, 1.3, 0.4, 2.5)
    transform, messages, combined, output = (factor for factor in scale if factor is not None)

    result = block(x, graph, scale)
    inner = transform * (x @ block.transform.weight)
    joined = block.combine(messages * (neighbors @ inner), inner, x)
    expected = output * (combined * joined + block.bias).tanh()

    torch.testing.assert_close(result, expected)
    weights = torch.linspace(-1, 2, 6).double()
    grads, wanted = (
        torch.autograd.grad(
            (each * weights).sum(), [transform, messages, combined, output], materialize_grads=True
        )
        for each in (result, expected)
    )
    torch.testing.assert_close(grads, wanted)
    assert all(grads)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("order", MIXED)
def test_factors_scale_mixed_orders_and_what_follows_a_norm(
    order: int, norm: str, x: Tensor, edges: Tensor
) -> None:
    block = make(expansion=0, propagation=order, norm=norm, activation="tanh", bias=True)
    scale = factors_of(0.7, 1.3, 0.4, 2.5)
    transform, messages, combined, output = (factor for factor in scale if factor is not None)

    result = block(x, Adjacency.from_edge_index(edges, NODES), scale)
    inner = transform * (x @ block.transform.weight)
    joined = messages * (mean_of_powers(edges, order) @ inner) + inner
    expected = output * block.norm(combined * joined + block.bias).tanh()

    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)
    weights = torch.linspace(-1, 2, 6).double()
    grads, wanted = (
        torch.autograd.grad((each * weights).sum(), [transform, messages, combined, output])
        for each in (result, expected)
    )
    torch.testing.assert_close(grads, wanted, rtol=1e-5, atol=1e-6)
    assert all(grads)


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("propagation", "attention"), [(1, "gat"), (1, "const"), (0, "gat"), (4, "gat")]
)
def test_gradients_of_factors_are_slopes(
    propagation: int, attention: str, norm: str, combine: str, x: Tensor, edges: Tensor
) -> None:
    """Central differences, one factor after the other."""
    block = make(
        propagation=propagation,
        attention=attention,
        heads=2,
        combine=combine,
        norm=norm,
        activation="tanh",
        bias=True,
    )
    graph, start, tiny = Adjacency.from_edge_index(edges, NODES), [0.7, 1.3, 0.4, 2.5], 1e-5
    weights = torch.linspace(-1, 2, 6).double()

    def value(factors: Factors) -> Tensor:
        weighted: Tensor = (block(x, graph, factors) * weights).sum()
        return weighted

    scale = factors_of(*start)
    grads = torch.autograd.grad(value(scale), [factor for factor in scale if factor is not None])
    for number, grad in enumerate(grads):
        ends = []
        for sign in (1, -1):
            moved = [one + sign * tiny * (place == number) for place, one in enumerate(start)]
            ends.append(value(factors_of(*moved)).item())
        slope = (ends[0] - ends[1]) / (2 * tiny)
        assert grad.item() == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_a_factor_that_is_missing_multiplies_nothing(x: Tensor, edges: Tensor) -> None:
    block, graph = make(activation="tanh"), Adjacency.from_edge_index(edges, NODES)
    half = torch.tensor(0.5).double()
    assert torch.equal(block(x, graph, Factors(output=half)), block(x, graph) * half)


@pytest.mark.parametrize("propagation", PROPAGATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_a_block_has_as_many_weights_as_its_specification_states(
    propagation: int, norm: str
) -> None:
    spec = BlockSpec(propagation=propagation, attention="gat", heads=2, norm=norm, bias=True)
    block = GraphBlock.from_spec(spec, FEATURES, 6, 4)
    assert sum(weight.numel() for weight in block.parameters()) == spec.parameters(FEATURES, 6, 4)


def test_a_block_uses_the_ops_that_it_is_given() -> None:
    first = GraphBlock.from_spec(BlockSpec(attention="gat", bias=True), 3, 5, 4)
    ops = dict(first.named_children())
    second: Any = GraphBlock(
        {**ops, "expansion": first.transform}, bias=first.bias, attention_dropout=0.25
    )
    assert all(getattr(second, name) is op for name, op in ops.items())
    assert second.bias is first.bias
    assert second.attention_dropout == 0.25
