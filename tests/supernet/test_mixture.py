"""Mixtures of all candidates: their limits, what they are linear in, and where gradients go."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models import block as block_module
from pdnas.ops import COMBINES, NORMS, PROPAGATIONS, SLOTS, Adjacency
from pdnas.ops.adjacency import Part
from pdnas.space import EXTENDED, PAPER, SearchSpace
from pdnas.supernet import MixedNetwork, Supernet, candidate_mask
from pdnas.supernet.mixture import mixed


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
LINEAR = SearchSpace(
    name="linear",
    expansion=(0,),
    attention=("const",),
    heads=(1,),
    aggregation=("sum",),
    combine=("add",),
    activation=("none",),
    bias=True,
)
"""One candidate per slot; its only network is linear in the features."""

TOLERANCE = 1e-5
"""For rounding: fixed attention is the same for all heads, which a plain network computes once."""

SPACES = {space.name: space for space in (PAPER, EXTENDED, WIDE, LINEAR)}


@cache
def make(name: str, num_blocks: int, hidden: int) -> Supernet:
    """A supernet for all tests to read, its biases drawn at random."""
    return fresh(SPACES[name], num_blocks, hidden)


def fresh(space: SearchSpace, num_blocks: int, hidden: int, **rates: float) -> Supernet:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = Supernet(space, TASK, num_blocks, hidden, **rates)
        for bias in made.biases:
            nn.init.normal_(bias)
    return made


@pytest.fixture
def x(generator: Generator) -> Tensor:
    return torch.randn(NODES, 5, generator=generator)


@pytest.fixture
def graph(tiny_graph: Tensor) -> Adjacency:
    return Adjacency.from_edge_index(tiny_graph, NODES)


def one_hot(supernet: Supernet, architecture: Architecture) -> dict[str, Tensor]:
    """All probability on the ops of an architecture, its gates open, the others shut."""
    mask = candidate_mask(supernet.space, supernet.num_blocks)
    index = supernet.op_index(architecture).unsqueeze(-1)
    gates = torch.zeros(supernet.num_blocks, supernet.num_blocks)
    for i, j in architecture.gates:
        gates[i, j] = 1.0
    return {"op_probs": torch.zeros(mask.shape).scatter(-1, index, 1.0), "gates": gates}


def drawn(supernet: Supernet, generator: Generator) -> dict[str, Tensor]:
    """Probabilities and gates somewhere inside, with gradients."""
    blocks, mask = supernet.num_blocks, candidate_mask(supernet.space, supernet.num_blocks)
    logits = torch.randn(mask.shape, generator=generator).masked_fill(~mask, -torch.inf)
    gates = torch.rand(blocks, blocks, generator=generator).triu()
    return {"op_probs": logits.softmax(dim=-1).requires_grad_(), "gates": gates.requires_grad_()}


def covering(supernet: Supernet) -> Iterator[Architecture]:
    """Architectures that have every op somewhere, every attention with every number of heads."""
    space, blocks = supernet.space, supernet.num_blocks
    attending = [(1, *pair) for pair in itertools.product(space.attention, space.heads)]
    others = [(order, "gat", 2) for order in space.propagation]
    gates = space.possible_gates(blocks)
    for number, (propagation, attention, heads) in enumerate(attending + others):
        specs = []
        for block in range(blocks):
            options = {slot: space.candidates(slot, last=block == blocks - 1) for slot in SLOTS}
            chosen = {slot: names[number % len(names)] for slot, names in options.items()}
            chosen |= {"propagation": propagation, "attention": attention, "heads": heads}
            specs.append(BlockSpec.model_validate({**chosen, "bias": space.bias}))
        yield Architecture(
            blocks=tuple(specs),
            gates=tuple(gate for place, gate in enumerate(gates) if (number >> place) % 2),
            attention_normalization=space.attention_normalization,
        )


@torch.no_grad()
@pytest.mark.parametrize("name", ["paper", "extended", "wide"])
def test_with_all_probability_on_one_op_the_mixture_is_the_plain_network(
    name: str, x: Tensor, graph: Adjacency
) -> None:
    supernet = make(name, 2, 8)
    mixture, seen = MixedNetwork(supernet), set()
    for architecture in covering(supernet):
        assert architecture in supernet.space
        plain = supernet.network(architecture)
        seen |= {op for block in plain.blocks for op in block.children()}
        found = mixture(x, graph, **one_hot(supernet, architecture))
        torch.testing.assert_close(found, plain(x, graph), rtol=TOLERANCE, atol=TOLERANCE)
    assert seen == set(supernet.ops.values())


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    name=st.sampled_from(list(SPACES)),
    shape=st.sampled_from([(1, 4), (2, 1), (2, 5), (3, 8)]),
)
def test_the_same_for_any_architecture_and_shape(
    seed: int, name: str, shape: tuple[int, int]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, 5, generator=generator)
    edges = torch.randint(NODES, (2, 12), generator=generator)
    graph, supernet = Adjacency.from_edge_index(edges, NODES), make(name, *shape)
    architecture = supernet.space.sample(shape[0], generator)
    with torch.no_grad():
        found = MixedNetwork(supernet)(x, graph, **one_hot(supernet, architecture))
        torch.testing.assert_close(
            found, supernet.network(architecture)(x, graph), rtol=TOLERANCE, atol=TOLERANCE
        )


OPEN = {
    "expansion": (0, 1, 4),
    "propagation": (1, 0, 4),
    "attention": ("const", "gcn", "gat", "sym-gat", "cos", "linear", "gene-linear"),
    "heads": (1, 2, 4),
    "aggregation": ("sum", "mean", "max"),
    "combine": ("add", "none", "concat-mlp", "root"),
    "norm": ("none", "layer", "batch"),
    "activation": ("none", "tanh", "relu"),
}
"""For each slot some candidates."""


@torch.no_grad()
@pytest.mark.parametrize("slot", list(OPEN))
def test_what_is_mixed_is_the_weighted_mean_of_the_plain_networks(
    slot: str, x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    """Where all that follows the open slot is linear, its mixture is that of the whole networks.

    The last block has no norm and no activation, so that these are open in a block before it.
    """
    blocks = 2 if slot in ("norm", "activation") else 1
    attention = ("gat",) if slot == "heads" else LINEAR.attention
    space = LINEAR.model_copy(
        update={"attention": attention, "shortcuts": "none", slot: OPEN[slot], "bias": False}
    )
    supernet = fresh(space, blocks, 4)
    op_probs = drawn(supernet, generator)["op_probs"]
    place = list(SLOTS).index(slot)

    expected = torch.zeros(NODES, 3)
    for number in range(len(OPEN[slot])):
        index = torch.zeros(blocks, len(SLOTS), dtype=torch.long)
        index[0, place] = number
        architecture = supernet.architecture(index, torch.zeros(blocks, blocks))
        expected += op_probs[0, place, number] * supernet.network(architecture)(x, graph)

    found = MixedNetwork(supernet)(x, graph, op_probs=op_probs, gates=torch.zeros(blocks, blocks))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_a_gate_scales_its_shortcut(x: Tensor, graph: Adjacency) -> None:
    supernet, op_probs = make("linear", 1, 4), torch.ones(1, len(SLOTS), 1)
    mixture = MixedNetwork(supernet)
    shut, half = (
        mixture(x, graph, op_probs=op_probs, gates=torch.tensor([[gate]])) for gate in (0.0, 0.5)
    )
    torch.testing.assert_close(half - shut, 0.5 * x @ supernet.shortcuts["0_0"])


def test_shortcuts_that_cannot_be_are_not_there(x: Tensor, graph: Adjacency) -> None:
    supernet = make("linear", 2, 4)
    mixture, op_probs = MixedNetwork(supernet, [(0, 1)]), torch.ones(2, len(SLOTS), 1)
    assert list(mixture.shortcuts) == ["0_1"]
    gates = torch.zeros(2, 2)
    gates[0, 0] = gates[1, 1] = torch.nan
    assert mixture(x, graph, op_probs=op_probs, gates=gates).isfinite().all()


@pytest.mark.parametrize("name", ["paper", "extended", "wide"])
def test_gradients_reach_every_probability_every_gate_and_every_weight(
    name: str, x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    supernet = fresh(SPACES[name], 2, 8)
    mixture, given = MixedNetwork(supernet), drawn(supernet, generator)
    mixture(x, graph, **given).square().mean().backward()
    mask = candidate_mask(supernet.space, 2)
    to_choose = mask & (mask.sum(dim=-1, keepdim=True) > 1)
    grads = given["op_probs"].grad, given["gates"].grad
    assert grads[0] is not None
    assert grads[1] is not None
    assert grads[0].isfinite().all()
    assert torch.equal(grads[0] != 0, to_choose)
    assert torch.equal(grads[1] != 0, torch.ones(2, 2).triu().bool())
    assert set(mixture.parameters()) == set(supernet.parameters())
    assert all(weight.grad is not None for weight in supernet.parameters())


def test_gradients_of_probabilities_are_those_of_finite_differences(
    x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    space = EXTENDED.model_copy(
        update={"expansion": (0, 1), "heads": (1, 2), "activation": ("tanh", "sigmoid")}
    )
    supernet = fresh(space, 2, 4).double()
    given = {key: value.detach().double() for key, value in drawn(supernet, generator).items()}
    mixture, x = MixedNetwork(supernet).requires_grad_(False), x.double()
    inputs = [given["op_probs"].requires_grad_(), given["gates"].requires_grad_()]

    def loss(op_probs: Tensor, gates: Tensor) -> Tensor:
        logits: Tensor = mixture(x, graph, op_probs=op_probs, gates=gates)
        return logits.square().mean()

    grads = torch.autograd.grad(loss(*inputs), inputs)
    for _ in range(3):
        ways = [torch.randn(part.shape, generator=generator).double() for part in inputs]
        mask = candidate_mask(space, 2)
        ways[0] *= mask & (mask.sum(dim=-1, keepdim=True) > 1)
        ends = [
            loss(*(part.detach() + sign * way for part, way in zip(inputs, ways, strict=True)))
            for sign in (1e-5, -1e-5)
        ]
        slope = sum((grad * way).sum() for grad, way in zip(grads, ways, strict=True))
        # Single-precision degrees and unit weights are all that is not exact.
        torch.testing.assert_close((ends[0] - ends[1]) / 2e-5, slope, rtol=1e-4, atol=1e-7)


def test_where_there_is_nothing_to_choose_probabilities_are_not_read(
    x: Tensor, graph: Adjacency
) -> None:
    supernet = make("linear", 2, 4)
    op_probs = torch.full((2, len(SLOTS), 1), torch.nan)
    found = MixedNetwork(supernet)(x, graph, op_probs=op_probs, gates=torch.zeros(2, 2))
    plain = supernet.architecture(torch.zeros(2, len(SLOTS), dtype=torch.long), torch.zeros(2, 2))
    assert torch.equal(found, supernet.network(plain)(x, graph))


@torch.no_grad()
@pytest.mark.parametrize(("name", "graphs"), [("paper", 1), ("extended", 2)])
def test_every_op_is_called_once_for_each_graph_that_it_needs(
    name: str, graphs: int, x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    supernet, called = fresh(SPACES[name], 2, 8), Counter[str]()
    for key, op in supernet.ops.items():
        op.register_forward_pre_hook(lambda *_, key=key: called.update([key]))
    MixedNetwork(supernet)(x, graph, **drawn(supernet, generator))
    per_graph = {"propagation", "attention"}
    for key in supernet.ops:
        slot = key.split("/")[1]
        if slot not in ("heads", "aggregation"):  # the one has no formula, the other all heads'
            assert called[key] == (graphs if slot in per_graph else 1)


@torch.no_grad()
def test_learned_attention_is_dropped_in_training_and_no_other(
    x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    for attention, is_dropped in {("const", "gcn"): False, ("const", "gat"): True}.items():
        space = PAPER.model_copy(update={"attention": attention})
        supernet = fresh(space, 2, 8, attention_dropout=0.5)
        mixture, given = MixedNetwork(supernet), drawn(supernet, generator)
        trained, evaluated = mixture(x, graph, **given), mixture.eval()(x, graph, **given)
        assert torch.equal(trained, evaluated) is not is_dropped


@torch.no_grad()
@pytest.mark.parametrize("rate", ["input_dropout", "dropout"])
def test_features_are_dropped_in_training(
    rate: str, x: Tensor, graph: Adjacency, generator: Generator
) -> None:
    supernet = fresh(PAPER, 2, 8, **{rate: 0.5})
    mixture, given = MixedNetwork(supernet), drawn(supernet, generator)
    trained = [mixture(x, graph, **given) for _ in range(2)]
    evaluated = [mixture.eval()(x, graph, **given) for _ in range(2)]
    assert not torch.equal(*trained)
    assert torch.equal(*evaluated)


def test_mixed_values_are_weighted_and_a_single_one_is_itself() -> None:
    values = [torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])]
    probs = (torch.tensor(0.25), torch.tensor(0.5))
    assert mixed(values, probs).tolist() == [5.25, 10.5]
    assert mixed(values[:1], probs[:1]) is values[0]


def test_without_gradients_a_large_graph_is_heard_in_parts_and_exactly(
    x: Tensor, tiny_graph: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    supernet, graph = make("wide", 2, 4), Adjacency.from_edge_index(tiny_graph, NODES)
    network = MixedNetwork(supernet).eval()
    op_probs = candidate_mask(supernet.space, 2) / 10
    gates = torch.full((2, 2), 0.5)
    whole = network(x, graph, op_probs=op_probs, gates=gates)
    sizes: list[int] = []
    parts = Adjacency.parts

    def spy(self: Adjacency, count: int) -> Iterator[Part]:
        for part in parts(self, count):
            sizes.append(part.size)
            yield part

    monkeypatch.setattr(Adjacency, "parts", spy)
    monkeypatch.setattr(
        block_module, "AT_ONCE", 64
    )  # sixteen heads of four channels: an edge at a time
    with torch.no_grad():
        torch.testing.assert_close(network(x, graph, op_probs=op_probs, gates=gates), whole)
    assert len(sizes) > NODES
    sizes.clear()
    network(x, graph, op_probs=op_probs, gates=gates)
    assert not sizes, "gradients are asked for"
