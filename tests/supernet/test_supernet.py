"""Shared weights: what a network borrows, and that everything else is left alone."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import SearchError
from pdnas.models import GraphNetwork
from pdnas.ops import COMBINES, NORMS, PROPAGATIONS, SLOTS, Adjacency
from pdnas.ops.heads import Heads
from pdnas.space import EXTENDED, PAPER, SearchSpace
from pdnas.supernet import Supernet, candidate_mask
from pdnas.supernet.relaxation import factors
from pdnas.supernet.supernet import MESSAGES


@dataclass(frozen=True)
class Sizes:
    """All that a supernet wants to know of a task."""

    in_channels: int
    out_channels: int


TASK = Sizes(5, 3)
NODES = 6

WIDE = PAPER.model_copy(
    update={
        "name": "wide",
        "expansion": (0, 1, 2),
        "propagation": tuple(PROPAGATIONS),
        "combine": tuple(COMBINES),
        "norm": tuple(NORMS),
        "bias": True,
        "attention_normalization": "none",
    }
)
SINGLE = SearchSpace(
    name="single",
    expansion=(2,),
    attention=("gat",),
    heads=(2,),
    aggregation=("max",),
    combine=("concat-mlp",),
    activation=("relu",),
)
CLOSED = PAPER.model_copy(update={"name": "closed", "shortcuts": "none"})
SPACES = {space.name: space for space in (PAPER, EXTENDED, WIDE, SINGLE, CLOSED)}

SHAPES = [(1, 4), (2, 1), (2, 8), (3, 5)]
"""Blocks and hidden sizes; heads divide some of these and not others."""


@cache
def make(name: str, num_blocks: int, hidden: int) -> Supernet:
    """A supernet for all tests to read, its biases drawn at random."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = Supernet(SPACES[name], TASK, num_blocks, hidden)
        for bias in made.biases:
            nn.init.normal_(bias)
    return made


KEYS = [(name, *shape) for name, shape in itertools.product(SPACES, SHAPES)]


@pytest.fixture(params=KEYS, ids=[f"{name}-{blocks}x{hidden}" for name, blocks, hidden in KEYS])
def supernet(request: pytest.FixtureRequest) -> Supernet:
    return make(*request.param)


seeds = st.integers(0, 2**32)


@pytest.fixture
def x(generator: Generator) -> Tensor:
    return torch.randn(NODES, 5, generator=generator)


@pytest.fixture
def graph(tiny_graph: Tensor) -> Adjacency:
    return Adjacency.from_edge_index(tiny_graph, NODES)


def numel(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def gates_of(architecture: Architecture) -> Tensor:
    gates = torch.zeros(architecture.num_blocks, architecture.num_blocks)
    for i, j in architecture.gates:
        gates[i, j] = 1.0
    return gates


def samples(supernet: Supernet, count: int, generator: Generator) -> Iterator[Architecture]:
    for _ in range(count):
        yield supernet.space.sample(supernet.num_blocks, generator)


def test_a_lent_network_is_one_with_its_weights_copied(
    supernet: Supernet, x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    for architecture in samples(supernet, 10, generator):
        lent = supernet.network(architecture)
        own = GraphNetwork(architecture, TASK, supernet.hidden)
        own.load_state_dict(lent.state_dict())
        assert torch.equal(lent(x, graph), own(x, graph))


def test_a_lent_network_has_as_many_weights_as_its_architecture_states(
    supernet: Supernet, generator: Generator
) -> None:
    for architecture in samples(supernet, 10, generator):
        count = architecture.parameters(TASK, supernet.hidden)
        assert numel(supernet.network(architecture)) == count


def test_a_lent_network_has_no_weights_of_its_own(supernet: Supernet, generator: Generator) -> None:
    shared = {id(weight) for weight in supernet.parameters()}
    for architecture in samples(supernet, 10, generator):
        assert {id(weight) for weight in supernet.network(architecture).parameters()} <= shared


def test_the_same_choice_borrows_the_same_weights_whatever_else_is_chosen() -> None:
    supernet = make("paper", 2, 8)
    one = BlockSpec(expansion=2, attention="gat", heads=4, aggregation="sum", activation="relu")
    other = BlockSpec(expansion=4, attention="gat", heads=4, aggregation="max", activation="elu")
    nets: list[Any] = [
        supernet.network(Architecture(blocks=(spec, BlockSpec()))) for spec in (one, other)
    ]
    first, second = (net.blocks[0] for net in nets)
    assert first.attention is second.attention
    assert first.transform is not second.transform
    assert first.attention is not nets[0].blocks[1].attention


def test_the_ops_of_a_slot_come_in_the_order_of_its_candidates() -> None:
    supernet = make("wide", 2, 8)
    for number, slot in itertools.product(range(2), SLOTS):
        names = supernet.space.candidates(slot, last=number == 1)
        others = {"heads": 4} if slot == "attention" else {}
        ops = supernet.candidates(number, slot, **others)
        suffix = "/4" if others else ""
        assert ops == [supernet.ops[f"{number}/{slot}/{name}{suffix}"] for name in names]


def test_ops_that_depend_on_another_slot_are_not_given_without_it() -> None:
    with pytest.raises(SearchError, match=r"'const' of the slot 'attention' depends on .* 'heads'"):
        make("paper", 2, 8).candidates(0, "attention")


def test_weights_of_two_blocks_and_of_two_ops_start_different() -> None:
    supernet: Any = make("paper", 3, 5)
    weights = [
        supernet.ops["1/attention/gat/1"].at_target,
        supernet.ops["1/attention/sym-gat/1"].at_target,
        supernet.ops["1/attention/cos/1"].at_target,
        supernet.ops["0/attention/gat/1"].at_target,
    ]
    assert len({tuple(weight.flatten().tolist()) for weight in weights}) == len(weights)


def test_dropout_rates_reach_the_network() -> None:
    rates = {"input_dropout": 0.1, "dropout": 0.2, "attention_dropout": 0.3}
    supernet = Supernet(PAPER, TASK, 2, 4, **rates)
    network: Any = supernet.network(Architecture(blocks=(BlockSpec(), BlockSpec())))
    assert (network.input_dropout, network.dropout) == (0.1, 0.2)
    assert [block.attention_dropout for block in network.blocks] == [0.3, 0.3]


@given(seed=seeds, name=st.sampled_from(list(SPACES)), shape=st.sampled_from(SHAPES))
def test_an_architecture_survives_becoming_an_index(
    seed: int, name: str, shape: tuple[int, int]
) -> None:
    supernet = make(name, *shape)
    architecture = supernet.space.sample(shape[0], torch.Generator().manual_seed(seed))
    index = supernet.op_index(architecture)
    assert index.shape == (shape[0], len(SLOTS))
    assert supernet.architecture(index, gates_of(architecture)) == architecture


@given(seed=seeds, name=st.sampled_from(list(SPACES)), shape=st.sampled_from(SHAPES))
def test_an_index_survives_becoming_an_architecture(
    seed: int, name: str, shape: tuple[int, int]
) -> None:
    supernet, generator = make(name, *shape), torch.Generator().manual_seed(seed)
    counts = candidate_mask(supernet.space, shape[0]).sum(dim=-1)
    index = (torch.rand(counts.shape, generator=generator) * counts).long()
    gates = torch.rand(shape[0], shape[0], generator=generator)
    architecture = supernet.architecture(index, gates)
    assert architecture in supernet.space
    assert torch.equal(supernet.op_index(architecture), index)
    possible = supernet.space.possible_gates(shape[0])
    assert set(architecture.gates) == {(i, j) for i, j in possible if gates[i, j] > 0.5}


def test_gates_at_a_half_are_closed() -> None:
    supernet = make("paper", 2, 8)
    index = torch.zeros(2, len(SLOTS), dtype=torch.long)
    architecture = supernet.architecture(index, torch.tensor([[0.5, 0.51], [1.0, 0.49]]))
    assert architecture.gates == ((0, 1),)


def covering(supernet: Supernet) -> Iterator[Architecture]:
    """Architectures that have every op somewhere, all shortcuts open."""
    space, blocks = supernet.space, supernet.num_blocks
    messages = list(itertools.product(space.propagation, space.attention, space.heads))
    rounds = max(len(messages), *(len(space.candidates(slot)) for slot in SLOTS))
    for number in range(rounds):
        propagation, attention, heads = messages[number % len(messages)]
        specs = []
        for block in range(blocks):
            options = {slot: space.candidates(slot, last=block == blocks - 1) for slot in SLOTS}
            chosen = {slot: names[number % len(names)] for slot, names in options.items()}
            chosen |= {"propagation": propagation, "attention": attention, "heads": heads}
            chosen["bias"] = space.bias
            specs.append(BlockSpec.model_validate(chosen))
        yield Architecture(
            blocks=tuple(specs),
            gates=space.possible_gates(blocks),
            attention_normalization=space.attention_normalization,
        )


def test_every_op_and_every_weight_is_reachable(supernet: Supernet) -> None:
    ops: set[nn.Module] = set()
    weights: set[nn.Parameter] = set()
    for architecture in covering(supernet):
        assert architecture in supernet.space
        network = supernet.network(architecture)
        ops |= {op for block in network.blocks for op in block.children()}
        weights |= set(network.parameters())
    assert ops == set(supernet.ops.values())
    assert weights == set(supernet.parameters())


def test_a_space_without_shortcuts_has_no_maps_and_one_without_biases_has_none() -> None:
    assert len(make("closed", 3, 5).shortcuts) == 0
    assert len(make("paper", 3, 5).shortcuts) == 6
    assert len(make("paper", 3, 5).biases) == 0
    assert [len(bias) for bias in make("wide", 3, 5).biases] == [5, 5, 3]


def test_with_a_single_candidate_per_slot_the_supernet_is_the_network() -> None:
    supernet = make("single", 2, 8)
    whole = supernet.architecture(torch.zeros(2, len(SLOTS), dtype=torch.long), torch.ones(2, 2))
    assert numel(supernet) == whole.parameters(TASK, 8)


# Two paths through the space WIDE that have no op in common, not even where the last block allows.
FIRST = Architecture(
    blocks=(
        BlockSpec(
            attention="gat", heads=2, combine="root", norm="layer", activation="tanh", bias=True
        ),
        BlockSpec(attention="cos", heads=4, aggregation="mean", combine="concat-mlp", bias=True),
    ),
    gates=((0, 0), (0, 1)),
    attention_normalization="none",
)
SECOND = Architecture(
    blocks=(
        BlockSpec(
            expansion=2,
            attention="gene-linear",
            aggregation="max",
            combine="concat-mlp",
            norm="batch",
            activation="elu",
            bias=True,
        ),
        BlockSpec(expansion=0, propagation=2, attention="sym-gat", combine="root", bias=True),
    ),
    gates=((1, 1),),
    attention_normalization="none",
)


def train(
    supernet: Supernet,
    architecture: Architecture,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    graph: Adjacency,
) -> set[nn.Parameter]:
    """Four steps on one path, as a search does them; the weights of the path."""
    network = supernet.network(architecture)
    for _ in range(4):
        (network(x, graph) - 1).square().mean().backward()
        optimizer.step()
        for weight in network.parameters():
            weight.grad = None
    return set(network.parameters())


def snapshot(optimizer: torch.optim.Optimizer, weight: nn.Parameter) -> list[Tensor]:
    """A weight and its state in the optimizer."""
    state = optimizer.state.get(weight, {})
    return [weight.detach().clone(), *(state[key].clone() for key in sorted(state))]


def is_same(before: list[Tensor], after: list[Tensor]) -> bool:
    """Bit for bit."""
    return len(before) == len(after) and all(map(torch.equal, before, after))


def test_steps_on_one_path_leave_all_other_weights_and_their_state_bit_for_bit(
    x: Tensor, graph: Adjacency
) -> None:
    supernet = Supernet(WIDE, TASK, 2, 8)
    adam = torch.optim.Adam(supernet.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    first = train(supernet, FIRST, adam, x, graph)
    before = {weight: snapshot(adam, weight) for weight in supernet.parameters()}
    second = train(supernet, SECOND, adam, x, graph)
    changed = {weight for weight, old in before.items() if not is_same(old, snapshot(adam, weight))}

    biases = set(supernet.biases)
    assert first & second == biases  # the paths differ, so the first one's state is at stake
    assert {weight for weight, old in before.items() if len(old) > 1} == first
    assert changed == second


CALLED = {
    "attention": (
        FIRST,
        {
            "0/expansion/1",
            "0/propagation/1",
            "0/attention/gat/2",
            "0/heads/2",
            "0/aggregation/sum",
            "0/combine/root",
            "0/norm/layer",
            "0/activation/tanh",
            "1/expansion/1",
            "1/propagation/1",
            "1/attention/cos/4",
            "1/heads/4",
            "1/aggregation/mean",
            "1/combine/concat-mlp",
            "1/norm/none",
            "1/activation/none",
        },
    ),
    "mixed orders": (
        SECOND,
        {
            "0/expansion/2",
            "0/propagation/1",
            "0/attention/gene-linear/1",
            "0/heads/1",
            "0/aggregation/max",
            "0/combine/concat-mlp",
            "0/norm/batch",
            "0/activation/elu",
            "1/expansion/0",
            "1/propagation/2",
            "1/combine/root",
            "1/norm/none",
            "1/activation/none",
        },
    ),
}


@pytest.mark.parametrize(("architecture", "expected"), CALLED.values(), ids=CALLED.keys())
def test_ops_that_were_not_chosen_are_never_called(
    architecture: Architecture,
    expected: set[str],
    x: Tensor,
    graph: Adjacency,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    supernet = Supernet(WIDE, TASK, 2, 8)
    called: set[str] = set()
    for name, op in supernet.ops.items():
        if isinstance(op, Heads):  # called by its methods
            split = op.split
            monkeypatch.setattr(op, "split", lambda x, n=name, s=split: called.add(n) or s(x))  # type: ignore[func-returns-value]
        else:
            op.register_forward_pre_hook(lambda *_, n=name: called.add(n))
    supernet.network(architecture)(x, graph).sum().backward()
    assert called == expected


def test_only_the_chosen_ops_get_a_gradient(x: Tensor, graph: Adjacency) -> None:
    supernet = Supernet(WIDE, TASK, 2, 8)
    network = supernet.network(SECOND)
    network(x, graph).square().sum().backward()
    given_one = {weight for weight in supernet.parameters() if weight.grad is not None}
    assert given_one == set(network.parameters())


def test_straight_through_factors_leave_the_logits_as_they_are(
    supernet: Supernet, x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    for architecture in samples(supernet, 5, generator):
        network = supernet.network(architecture)
        probs = 0.05 + torch.rand(supernet.num_blocks, len(SLOTS), generator=generator)
        scale = supernet.factors(architecture, factors(probs, "straight-through"))
        assert torch.equal(network(x, graph, factors=scale), network(x, graph))


@pytest.mark.parametrize(
    ("name", "propagation", "idle"),
    [
        ("paper", 1, set()),
        ("extended", 1, set()),
        ("extended", 4, {"attention", "heads", "aggregation"}),
    ],
)
def test_factors_give_a_gradient_to_what_scales_the_same_as_an_open_slot_and_to_no_other(
    name: str, propagation: int, idle: set[str], x: Tensor, graph: Adjacency
) -> None:
    supernet = make(name, 2, 8)
    bias = supernet.space.bias
    spec = BlockSpec(propagation=propagation, attention="gat", heads=2, bias=bias)
    first = spec.model_copy(update={"activation": "tanh"})
    architecture = Architecture(blocks=(first, spec))
    probs = torch.full((2, len(SLOTS)), 0.5, requires_grad=True)
    scale = supernet.factors(architecture, factors(probs, "straight-through"))
    supernet.network(architecture)(x, graph, factors=scale).square().sum().backward()
    is_open = (candidate_mask(supernet.space, 2).sum(dim=-1) > 1).tolist()
    reached = {
        (block, slot)
        for block, row in enumerate(is_open)
        for together in (("expansion",), MESSAGES, ("combine",), ("norm", "activation"))
        for slot in {*together} - idle
        if any(row[list(SLOTS).index(other)] for other in {*together} - idle)
    }
    assert probs.grad is not None
    assert {(block, list(SLOTS)[slot]) for block, slot in probs.grad.nonzero().tolist()} == reached


def test_straight_through_gradients_are_those_of_the_factor_over_the_probability(
    x: Tensor, graph: Adjacency
) -> None:
    supernet = make("paper", 2, 8)
    architecture = Architecture(blocks=(BlockSpec(heads=2), BlockSpec()))
    network = supernet.network(architecture)
    probs = (0.1 + torch.rand(2, len(SLOTS))).requires_grad_()
    ones = torch.ones(2, len(SLOTS), requires_grad=True)
    losses = [
        network(x, graph, factors=supernet.factors(architecture, given)).square().sum()
        for given in (factors(probs, "straight-through"), ones)
    ]
    (grad,), (unit,) = (
        torch.autograd.grad(losses[0], probs),
        torch.autograd.grad(losses[1], ones),
    )
    torch.testing.assert_close(grad, unit / probs.detach())


def test_each_factor_multiplies_what_its_slots_give() -> None:
    supernet = make("wide", 2, 8)
    chosen = torch.tensor([[2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]] * 2)
    first, last = supernet.factors(FIRST, chosen)
    numbers = [factor.item() for factor in first if factor is not None]
    assert numbers == [2.0, 3.0 * 5.0 * 7.0 * 11.0, 13.0, 17.0 * 19.0]
    assert last.output is None
    assert [factor.item() for factor in last[:3] if factor is not None] == [2.0, 1155.0, 13.0]


def test_without_attention_the_propagation_alone_scales_the_messages() -> None:
    supernet = make("wide", 2, 8)
    attentive, mixed = supernet.factors(SECOND, torch.full((2, len(SLOTS)), 0.5))
    assert attentive.messages is not None
    assert mixed.messages is not None
    assert (attentive.messages.item(), mixed.messages.item()) == (0.5**4, 0.5)


def test_where_nothing_is_open_there_is_no_factor(generator: Generator) -> None:
    supernet = make("single", 3, 5)
    architecture = supernet.space.sample(3, generator)
    for block in supernet.factors(architecture, torch.full((3, len(SLOTS)), 0.5)):
        assert all(factor is None for factor in block)


def test_a_fixed_propagation_without_attention_leaves_the_messages_alone(
    generator: Generator,
) -> None:
    still = PAPER.model_copy(update={"propagation": (2,)})
    supernet = Supernet(still, TASK, 2, 4)
    scales = supernet.factors(still.sample(2, generator), torch.full((2, len(SLOTS)), 0.5))
    assert [scale.messages for scale in scales] == [None, None]


def test_the_seed_decides_the_weights() -> None:
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(nn.utils.parameters_to_vector(Supernet(PAPER, TASK, 2, 4).parameters()))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_a_saved_supernet_lends_the_same_network(
    x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    first, second = (Supernet(WIDE, TASK, 2, 4) for _ in range(2))
    second.load_state_dict(first.state_dict())
    for architecture in samples(first, 5, generator):
        results = [supernet.network(architecture)(x, graph) for supernet in (first, second)]
        assert torch.equal(*results)
