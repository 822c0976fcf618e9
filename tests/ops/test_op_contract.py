"""What every registered op keeps to, whatever it computes; a new op is covered as it registers."""

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.autograd import gradcheck

from pdnas.architecture import BlockSpec
from pdnas.models import GraphBlock
from pdnas.ops import ATTENTIONS, HEADS, SLOTS, Adjacency, Dims, Op
from pdnas.ops.attention import Normalization

NORMALIZATIONS: tuple[Normalization, ...] = ("softmax", "none")
OUT_AND_HEADS = [(4, 1), (4, 2), (3, 2), (7, 4)]
CHOICES = ("expansion", "propagation", "heads")
"""The slots whose choice is a size."""


@dataclass(frozen=True)
class Case:
    """One op, the sizes it is made with and, for attention, its normalization."""

    slot: str
    name: str | int
    dims: Dims
    normalization: Normalization = "softmax"

    def __str__(self) -> str:
        sizes = f"{self.dims.out_channels}/{self.dims.heads}"
        return f"{self.slot}-{self.name}-{sizes}-{self.normalization}"

    @property
    def kind(self) -> type[Op]:
        kind: type[Op] = SLOTS[self.slot][self.name]
        return kind

    def make(self) -> Op:
        more = (self.normalization,) if self.slot == "attention" else ()
        return self.kind(self.dims, *more)


def all_cases() -> list[Case]:
    cases = []
    for slot, registry in SLOTS.items():
        for name in registry:
            for out_channels, heads in OUT_AND_HEADS:
                dims = Dims(5, out_channels, 3, expansion=1, heads=heads)
                if slot in CHOICES:
                    dims = replace(dims, **{slot: name})
                normalizations = NORMALIZATIONS if slot == "attention" else NORMALIZATIONS[:1]
                cases += [Case(slot, name, dims, way) for way in normalizations]
    return list(dict.fromkeys(cases))


CASES = all_cases()
every_op = pytest.mark.parametrize("case", CASES, ids=str)
FLOATS = (torch.float32, torch.float64)


def inputs_of(
    case: Case, graph: Adjacency, generator: Generator, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Random node features, and whatever else an op of that slot reads."""
    dims, nodes = case.dims, graph.num_nodes

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    if case.slot == "expansion":
        return [draw(nodes, dims.in_channels)]
    if case.slot == "aggregation":
        return [draw(graph.num_edges, dims.heads), draw(nodes, dims.heads, dims.head_channels)]
    if case.slot == "combine":
        out = dims.out_channels
        return [draw(nodes, out), draw(nodes, out), draw(nodes, dims.in_channels)]
    return [draw(nodes, dims.out_channels)]


def apply(case: Case, op: Any, inputs: Sequence[Tensor], graph: Adjacency) -> Tensor:
    """Call an op as a block does."""
    if case.slot == "attention":
        heads: Any = HEADS[case.dims.heads](case.dims)
        result: Tensor = op(heads.split(inputs[0]), graph)
    elif case.slot == "heads":
        result = op.merge(op.split(inputs[0]).sin())  # the sine, lest the two cancel each other
    elif case.slot == "aggregation":
        result = op(*inputs, graph)
    elif case.slot == "propagation":
        result = op(*inputs, graph, lambda x: 2 * x)
    else:
        result = op(*inputs)
    return result


def shape_of(case: Case, graph: Adjacency) -> tuple[int, ...]:
    dims = case.dims
    if case.slot == "attention":
        return (graph.num_edges, dims.heads if ATTENTIONS[str(case.name)].learned else 1)
    if case.slot == "aggregation":
        return (graph.num_nodes, dims.heads, dims.head_channels)
    return (graph.num_nodes, dims.out_channels)


def randomize(op: Op, generator: Generator) -> None:
    """Give zero biases, if an op has any, something to do."""
    with torch.no_grad():
        for weight in op.parameters():
            weight.normal_(generator=generator)


@pytest.fixture
def graph(tiny_graph: Tensor) -> Adjacency:
    return Adjacency.from_edge_index(tiny_graph, 6)


def test_every_slot_has_ops_and_the_cases_hold_them_all() -> None:
    assert {(case.slot, case.name) for case in CASES} == {
        (slot, name) for slot, registry in SLOTS.items() for name in registry
    }
    assert all(len(registry) > 0 for registry in SLOTS.values())
    assert {case.dims.splits_heads for case in CASES} == {True, False}


@every_op
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_shape_follows_from_the_sizes(
    case: Case, dtype: torch.dtype, graph: Adjacency, generator: Generator
) -> None:
    op = case.make().to(dtype)
    result = apply(case, op, inputs_of(case, graph, generator, dtype), graph)
    assert result.shape == shape_of(case, graph)


@every_op
@pytest.mark.parametrize("edges", ["tiny", "none"])
def test_values_and_gradients_are_finite_for_nodes_without_neighbors(
    case: Case, edges: str, graph: Adjacency, generator: Generator
) -> None:
    if edges == "none":
        graph = Adjacency.from_edge_index(torch.empty(2, 0, dtype=torch.long), 6)
    op = case.make()
    inputs = [x.requires_grad_() for x in inputs_of(case, graph, generator, torch.float32)]
    result = apply(case, op, inputs, graph)
    assert result.shape == shape_of(case, graph)
    assert result.isfinite().all()
    if not result.requires_grad:
        return
    result.sum().backward()
    grads = [tensor.grad for tensor in (*inputs, *op.parameters())]
    assert all(grad is None or bool(grad.isfinite().all()) for grad in grads)


@every_op
def test_gradients_of_inputs_and_weights_are_right(
    case: Case, graph: Adjacency, generator: Generator
) -> None:
    op = case.make().double()
    randomize(op, generator)
    inputs = [x.requires_grad_() for x in inputs_of(case, graph, generator)]
    # gradcheck moves the weights in place, so the op sees each step.
    assert gradcheck(
        lambda *tensors: apply(case, op, tensors[: len(inputs)], graph),
        (*inputs, *op.parameters()),
    )


@every_op
def test_every_weight_matters(case: Case, graph: Adjacency, generator: Generator) -> None:
    op = case.make().double()
    randomize(op, generator)
    inputs = inputs_of(case, graph, generator)
    result = apply(case, op, inputs, graph)
    if result.requires_grad:
        (result * torch.randn(result.shape, generator=generator)).sum().backward()
    for name, weight in op.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


@every_op
@pytest.mark.parametrize("combine", ["add", "none"], ids=["bare", "self-loops"])
def test_relabelled_nodes_get_the_same_outputs(
    case: Case, combine: str, tiny_graph: Tensor, generator: Generator
) -> None:
    choices = {"attention": "gat", "heads": case.dims.heads, "combine": combine, "expansion": 1}
    spec = BlockSpec.model_validate({**choices, case.slot: case.name})
    block = GraphBlock.from_spec(
        spec, 5, case.dims.out_channels, 3, attention_normalization=case.normalization
    ).double()
    x = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    label = torch.randperm(6, generator=generator)
    order = torch.randperm(tiny_graph.size(1), generator=generator)

    expected = block(x, Adjacency.from_edge_index(tiny_graph, 6))
    relabelled = torch.empty_like(x).index_copy_(0, label, x)
    shuffled = label[tiny_graph][:, order]
    result = block(relabelled, Adjacency.from_edge_index(shuffled, 6))

    torch.testing.assert_close(result[label], expected)


@every_op
def test_inputs_and_weights_stay_as_they_were(
    case: Case, graph: Adjacency, generator: Generator
) -> None:
    op = case.make()
    inputs = inputs_of(case, graph, generator, torch.float32)
    tensors = [*inputs, *op.parameters(), graph.unit_weights, graph.gcn_weights]
    before = [tensor.detach().clone() for tensor in tensors]
    result = apply(case, op, [x.requires_grad_() for x in inputs], graph)
    if result.requires_grad:
        result.square().sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(before, tensors, strict=True))


@every_op
def test_weights_are_counted_without_being_made(case: Case) -> None:
    made = sum(weight.numel() for weight in case.make().parameters())
    assert case.kind.num_parameters(case.dims) == made


@every_op
def test_shapes_name_the_weights(case: Case) -> None:
    made = {name: tuple(weight.shape) for name, weight in case.make().named_parameters()}
    assert case.kind.shapes(case.dims) == made


def sizes_beside(case: Case) -> list[Dims]:
    """Other sizes of a block, in the choices that the op says it does not depend on."""
    bound = {case.slot, *case.kind.depends}
    options = [
        [getattr(case.dims, name)] if name in bound else list(SLOTS[name]) for name in CHOICES
    ]
    return [
        replace(case.dims, **dict(zip(CHOICES, values, strict=True)))
        for values in itertools.product(*options)
    ]


def test_some_ops_depend_on_each_choice_and_some_on_none() -> None:
    named = {case.kind.depends for case in CASES}
    assert {(), *((name,) for name in CHOICES)} <= named
    assert all(len(sizes_beside(case)) > 1 for case in CASES)


@every_op
def test_shapes_follow_from_the_choices_that_the_op_names(case: Case) -> None:
    shapes = case.kind.shapes(case.dims)
    for dims in sizes_beside(case):
        assert case.kind.shapes(dims) == shapes, dims


@every_op
def test_an_op_serves_every_block_that_differs_in_choices_it_does_not_name(
    case: Case, graph: Adjacency, generator: Generator
) -> None:
    """A supernet lends one op to all of them."""
    op = case.make()
    inputs = inputs_of(case, graph, generator, torch.float32)
    expected = apply(case, op, inputs, graph)
    for dims in sizes_beside(case):
        twin = replace(case, dims=dims).make()
        twin.load_state_dict(op.state_dict())
        assert torch.equal(apply(case, twin, inputs, graph), expected), dims


@every_op
def test_matrices_start_within_glorots_bound_scales_at_one_and_biases_at_zero(case: Case) -> None:
    op = case.make()
    for name, weight in op.named_parameters():
        if weight.dim() == 1:
            assert weight.tolist() == [name == "scale"] * len(weight), name
        else:
            bound = math.sqrt(6 / sum(weight.shape[-2:]))
            assert 0.2 * bound < weight.abs().max() <= bound, name


@every_op
def test_the_same_call_gives_the_same_result(
    case: Case, graph: Adjacency, generator: Generator
) -> None:
    op = case.make()
    twin = copy.deepcopy(op)
    inputs = inputs_of(case, graph, generator, torch.float32)
    first = apply(case, op, inputs, graph)
    assert torch.equal(first, apply(case, op, inputs, graph))
    assert torch.equal(first, apply(case, twin, inputs, graph))


@every_op
def test_what_lay_in_memory_before_never_shows(
    case: Case, graph: Adjacency, generator: Generator
) -> None:
    op = case.make()
    inputs = [x.requires_grad_() for x in inputs_of(case, graph, generator, torch.float32)]
    torch.use_deterministic_algorithms(True)  # torch then fills empty memory with nan
    try:
        assert torch.empty(1).isnan()
        result = apply(case, op, inputs, graph)
        if result.requires_grad:
            result.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert result.isfinite().all()
    grads = [tensor.grad for tensor in (*inputs, *op.parameters())]
    assert all(grad is None or bool(grad.isfinite().all()) for grad in grads)


@every_op
def test_the_seed_decides_the_weights(case: Case) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = case.make().state_dict()
        torch.manual_seed(3)
        second = case.make().state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@every_op
def test_weights_of_the_input_may_be_given_to_the_maps_that_read_it(
    case: Case, graph: Adjacency, generator: Generator
) -> None:
    op = case.make().double()
    randomize(op, generator)
    inputs = inputs_of(case, graph, generator)
    if inputs[-1].size(-1) != case.dims.in_channels:
        assert op.input_weights() == []
        return
    scale = torch.randn(case.dims.in_channels, generator=generator, dtype=torch.float64)
    expected = apply(case, op, [*inputs[:-1], inputs[-1] * scale], graph)
    with torch.no_grad():
        for weight in op.input_weights():
            weight.mul_(scale.unsqueeze(1))
    torch.testing.assert_close(apply(case, op, inputs, graph), expected)


@every_op
def test_graphs_side_by_side_do_not_hear_each_other(
    case: Case, graph: Adjacency, generator: Generator
) -> None:
    op = case.make().double()
    randomize(op, generator)
    inputs = [inputs_of(case, graph, generator) for _ in range(2)]
    alone = torch.cat([apply(case, op, own, graph) for own in inputs])
    both = [torch.cat(pair) for pair in zip(*inputs, strict=True)]
    joined = apply(case, op, both, Adjacency.join([graph, graph]))
    assert torch.allclose(joined, alone) == (case.name != "batch"), "but for a norm over all nodes"
