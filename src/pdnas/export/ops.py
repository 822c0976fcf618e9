"""The source of every op: the lines of Python that do what it does, and where its weights go.

A block's source is put together from those of its ops. In them ``x`` is the block's input, ``h``
what the transform made of it, ``source`` and ``target`` are the ends of the edges, ``attention``
their weights and ``messages`` what arrived; ``heads`` is ``h`` as the heads see it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from pdnas.architecture import BlockSpec
from pdnas.errors import ExportError
from pdnas.ops import Dims, Op
from pdnas.ops.activation import (
    ELU,
    LeakyReLU,
    NoActivation,
    ReLU,
    ReLU6,
    Sigmoid,
    Softplus,
    Tanh,
)
from pdnas.ops.aggregation import Aggregation, MaxAggregation, MeanAggregation, SumAggregation
from pdnas.ops.attention import (
    Attention,
    ConstAttention,
    CosAttention,
    GatAttention,
    GcnAttention,
    GeneLinearAttention,
    LinearAttention,
    Normalization,
    SymGatAttention,
)
from pdnas.ops.combine import AddCombine, ConcatMlpCombine, NoCombine, RootCombine
from pdnas.ops.heads import Heads
from pdnas.ops.norm import BatchNorm, LayerNorm, NoNorm
from pdnas.ops.propagation import MixedOrders, OneStep
from pdnas.ops.transform import ExpandingTransform, LinearTransform

HELPERS: Mapping[str, str] = MappingProxyType(
    {
        "gcn_weights": '''\
def gcn_weights(edge_index: Tensor, x: Tensor) -> Tensor:
    """One over the root of the degrees at both ends of each edge, [E]."""
    source, target = edge_index
    out_degree = degree(source, x.size(0), x.dtype)
    in_degree = degree(target, x.size(0), x.dtype)
    return out_degree.rsqrt()[source] * in_degree.rsqrt()[target]
''',
        "mean_of_powers": '''\
def mean_of_powers(x: Tensor, edge_index: Tensor, order: int) -> Tensor:
    """Mean of x, A x, ..., A^order x, with A the adjacency normalized as in GCN."""
    edge_index, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(0))
    source, target = edge_index
    weights = gcn_weights(edge_index, x).unsqueeze(1)
    power = total = x
    for _ in range(order):
        sent = weights * power[source]
        power = scatter(sent, target, dim=0, dim_size=x.size(0), reduce="sum")
        total = total + power
    return total / (order + 1)
''',
        "batch_norm": '''\
def batch_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Every channel to mean 0 and variance 1 over the nodes at hand, then scaled."""
    # Not that of torch.nn.functional, which refuses a graph of one node.
    return torch.batch_norm(x, scale, shift, None, None, True, 0.0, 1e-5, False)
''',
    }
)
"""Functions that stand above the blocks wherever one of them is named."""


@dataclass(frozen=True)
class Place:
    """Where an op stands.

    Args:
        spec: The op of every slot of its block.
        dims: The block's sizes.
        normalization: What learned attention goes through.
    """

    spec: BlockSpec
    dims: Dims
    normalization: Normalization


@dataclass(frozen=True)
class Weight:
    """What a weight of ours is called there.

    Args:
        name: Within the block.
        transposed: Whether it is that of a ``nn.Linear``, which keeps the transpose.
    """

    name: str
    transposed: bool = False


@dataclass(frozen=True)
class Snippet:
    """The source of an op.

    Args:
        comment: What it does, above its lines; nothing where it has none.
        lines: Of ``forward``.
        init: Of ``__init__``.
        weights: The op's own weights and what became of them.
        needs_edges: Whether it reads ``source`` and ``target``.
        needs_edge_index: Whether it reads ``edge_index``.
        self_loops: Whether a node is among its own neighbors in this block.
    """

    comment: str = ""
    lines: tuple[str, ...] = ()
    init: tuple[str, ...] = ()
    weights: Mapping[str, Weight] = field(default_factory=dict)
    needs_edges: bool = False
    needs_edge_index: bool = False
    self_loops: bool = False


Writer = Callable[[Place], Snippet]
W = TypeVar("W", bound=Writer)

SOURCES: dict[type[Op], Writer] = {}
"""What writes the source of an op, by its class."""


def source_of(*kinds: type[Op]) -> Callable[[W], W]:
    """Decorator for what writes the source of an op."""

    def file(writer: W) -> W:
        SOURCES.update(dict.fromkeys(kinds, writer))
        return writer

    return file


def write_op(slot: str, place: Place) -> Snippet:
    """The source of the op in a slot."""
    kind = place.spec.op(slot)
    if kind not in SOURCES:
        raise ExportError(
            f"The {slot} '{getattr(place.spec, slot)}' cannot be exported: nothing writes its "
            f"source; register what does with pdnas.export.source_of({kind.__name__}), as "
            "pdnas/export/ops.py does."
        )
    return SOURCES[kind](place)


def _linear(name: str, in_channels: int, out_channels: int) -> str:
    return f"self.{name} = nn.Linear({in_channels}, {out_channels}, bias=False)"


def _vector(name: str, *shape: int) -> str:
    return f"self.{name} = nn.Parameter(torch.empty({', '.join(map(str, shape))}))"


# Transforms: x -> h.


@source_of(LinearTransform)
def _linear_transform(place: Place) -> Snippet:
    dims = place.dims
    return Snippet(
        "Transform: a linear map.",
        ("h = self.transform(x)",),
        (_linear("transform", dims.in_channels, dims.out_channels),),
        {"weight": Weight("transform.weight", transposed=True)},
    )


@source_of(ExpandingTransform)
def _expanding_transform(place: Place) -> Snippet:
    dims, inner = place.dims, place.dims.expansion * place.dims.hidden
    return Snippet(
        "Transform: a perceptron with one hidden layer.",
        ("h = self.transform_2(self.transform_1(x).relu())",),
        (
            _linear("transform_1", dims.in_channels, inner),
            _linear("transform_2", inner, dims.out_channels),
        ),
        {
            "weight_1": Weight("transform_1.weight", transposed=True),
            "weight_2": Weight("transform_2.weight", transposed=True),
        },
    )


# Propagation: h -> messages, by a step of attention and aggregation or without one.


@source_of(OneStep)
def _one_step(place: Place) -> Snippet:
    return Snippet()  # the attention and the aggregation are all there is to it


@source_of(MixedOrders)
def _mixed_orders(place: Place) -> Snippet:
    order = place.dims.propagation
    if order == 0:
        return Snippet("Propagation: none; a node hears itself alone.", ("messages = h",))
    return Snippet(
        f"Propagation: up to {order} steps, averaged.",
        (f"messages = mean_of_powers(h, edge_index, order={order})",),
        needs_edge_index=True,
    )


# Attention: h -> attention, [E, heads], of every edge.


@source_of(ConstAttention)
def _const(place: Place) -> Snippet:
    return Snippet("Attention: const, every neighbor counts the same.")


@source_of(GcnAttention)
def _gcn(place: Place) -> Snippet:
    return Snippet(
        "Attention: gcn, one over the root of both degrees.",
        ("attention = gcn_weights(edge_index, h).unsqueeze(1)  # [E, 1]",),
        needs_edge_index=True,
        needs_edges=True,
    )


def learned_attention(place: Place, comment: str, scores: Callable[[str], list[str]]) -> Snippet:
    """Attention with vectors of weights per head.

    Args:
        place: Where it stands.
        comment: What it does.
        scores: Lines that compute the scores, ``[E, heads]``, under the name given; ``heads`` is
            what each head sees, ``[N, heads, C]``, or ``[N, 1, C]`` where all see the same.
    """
    count, channels = place.dims.heads, place.dims.head_channels
    kind = place.spec.op("attention")
    normalized = place.normalization == "softmax"
    lines = scores("scores" if normalized else "attention")
    lines[-1] += "  # [E, H]"
    if normalized:
        lines.append("attention = softmax(scores, target, num_nodes=h.size(0))")
    if count == 1 or not place.dims.splits_heads:
        split = "heads = h.unsqueeze(1)  # every head sees all channels"
    else:
        split = f"heads = h.view(-1, {count}, {channels})  # [N, H, C]"
    plural = "one head" if count == 1 else f"{count} heads"
    names = kind.shapes(place.dims)
    return Snippet(
        f"Attention: {comment}, {plural}, {'softmax' if normalized else 'not normalized'}.",
        (split, *lines),
        tuple(_vector(name, count, channels) for name in names),
        {name: Weight(name) for name in names},
        needs_edges=True,
    )


AT_TARGET = "at_target = (heads * self.at_target).sum(dim=-1)  # [N, H]"
AT_SOURCE = "at_source = (heads * self.at_source).sum(dim=-1)  # [N, H]"


@source_of(GatAttention)
def _gat(place: Place) -> Snippet:
    def scores(name: str) -> list[str]:
        both = "at_target[target] + at_source[source]"
        return [AT_TARGET, AT_SOURCE, f"{name} = F.leaky_relu({both}, 0.2)"]

    return learned_attention(place, "gat", scores)


@source_of(SymGatAttention)
def _sym_gat(place: Place) -> Snippet:
    def scores(name: str) -> list[str]:
        return [
            AT_TARGET,
            AT_SOURCE,
            "forth = F.leaky_relu(at_target[target] + at_source[source], 0.2)",
            "back = F.leaky_relu(at_target[source] + at_source[target], 0.2)",
            f"{name} = forth + back",
        ]

    return learned_attention(place, "sym-gat, gat in both directions", scores)


@source_of(CosAttention)
def _cos(place: Place) -> Snippet:
    def scores(name: str) -> list[str]:
        return [
            "at_target = (heads * self.at_target)[target]",
            "at_source = (heads * self.at_source)[source]",
            f"{name} = (at_target * at_source).sum(dim=-1)",
        ]

    return learned_attention(place, "cos, inner products", scores)


@source_of(LinearAttention)
def _linear_attention(place: Place) -> Snippet:
    def scores(name: str) -> list[str]:
        if place.normalization == "softmax":
            return [AT_SOURCE, f"{name} = at_source[source].tanh()"]
        total = 'scatter(at_source[source], target, 0, h.size(0), reduce="sum")'
        return [AT_SOURCE, f"heard = {total}", f"{name} = heard[target].tanh()"]

    heard = "the source" if place.normalization == "softmax" else "all sources of a target"
    return learned_attention(place, f"linear, by {heard}", scores)


@source_of(GeneLinearAttention)
def _gene_linear(place: Place) -> Snippet:
    def scores(name: str) -> list[str]:
        return [
            "at_target = (heads * self.at_target)[target]",
            "at_source = (heads * self.at_source)[source]",
            f"{name} = ((at_target + at_source).tanh() * self.at_sum).sum(dim=-1)",
        ]

    return learned_attention(place, "gene-linear", scores)


# Heads: how their messages become one; the attention's source says what they see.


@source_of(Heads)
def _heads(place: Place) -> Snippet:
    """Nothing where messages have no dimension of heads."""
    if not _is_wide(place):
        return Snippet()
    if place.dims.splits_heads:
        return Snippet("Heads: concatenated.", ("messages = messages.flatten(1)",))
    return Snippet("Heads: averaged.", ("messages = messages.mean(dim=1)",))


def _is_wide(place: Place) -> bool:
    """Whether messages are [E, H, C]: heads differ, and their weights cannot be averaged first."""
    attention, aggregation = place.spec.op("attention"), place.spec.op("aggregation")
    assert issubclass(attention, Attention)
    assert issubclass(aggregation, Aggregation)
    averaged = not place.dims.splits_heads and aggregation.linear
    return attention.learned and place.dims.heads > 1 and not averaged


# Aggregation: h and attention -> messages.


@source_of(SumAggregation, MeanAggregation, MaxAggregation)
def _aggregation(place: Place) -> Snippet:
    reduce, attention = place.spec.aggregation, place.spec.op("attention")
    assert issubclass(attention, Attention)
    lines = []
    if attention is ConstAttention:
        sent = "h[source]"
    elif _is_wide(place):
        sent = "attention.unsqueeze(-1) * heads[source]  # [E, H, C]"
    else:
        if attention.learned and place.dims.heads > 1:
            lines.append("attention = attention.mean(dim=1, keepdim=True)  # of all heads")
        sent = "attention * h[source]"
    lines.append(f"sent = {sent}")
    gather = f'scatter(sent, target, dim=0, dim_size=h.size(0), reduce="{reduce}")'
    lines.append(f"messages = {gather}")
    comment = f"Aggregation: {reduce} of what the neighbors send."
    return Snippet(comment, tuple(lines), needs_edges=True)


# Combination: messages, h and x -> h.


@source_of(AddCombine)
def _add(place: Place) -> Snippet:
    return Snippet("Combine: add the node itself.", ("h = messages + h",))


@source_of(ConcatMlpCombine)
def _concat_mlp(place: Place) -> Snippet:
    out = place.dims.out_channels
    return Snippet(
        "Combine: a perceptron reads the messages beside the node itself.",
        (
            "both = torch.cat([messages, h], dim=1)",
            "h = self.combine_2(self.combine_1(both).relu())",
        ),
        (_linear("combine_1", 2 * out, out), _linear("combine_2", out, out)),
        {
            "weight_1": Weight("combine_1.weight", transposed=True),
            "weight_2": Weight("combine_2.weight", transposed=True),
        },
    )


@source_of(NoCombine)
def _no_combine(place: Place) -> Snippet:
    return Snippet(lines=("h = messages",), self_loops=True)


@source_of(RootCombine)
def _root(place: Place) -> Snippet:
    return Snippet(
        "Combine: add a linear map of the block's input.",
        ("h = messages + self.root(x)",),
        (_linear("root", place.dims.in_channels, place.dims.out_channels),),
        {"weight": Weight("root.weight", transposed=True)},
    )


# Norms: h -> h.


@source_of(NoNorm, NoActivation)
def _nothing(place: Place) -> Snippet:
    return Snippet()


@source_of(LayerNorm)
def _layer_norm(place: Place) -> Snippet:
    return Snippet(
        "Norm: every node over its channels.",
        ("h = self.norm(h)",),
        (f"self.norm = nn.LayerNorm({place.dims.out_channels})",),
        {"scale": Weight("norm.weight"), "shift": Weight("norm.bias")},
    )


@source_of(BatchNorm)
def _batch_norm(place: Place) -> Snippet:
    out = place.dims.out_channels
    return Snippet(
        "Norm: every channel over the nodes of the graph.",
        ("h = batch_norm(h, self.norm_scale, self.norm_shift)",),
        (_vector("norm_scale", out), _vector("norm_shift", out)),
        {"scale": Weight("norm_scale"), "shift": Weight("norm_shift")},
    )


# Activations: h -> h.

ACTIVATED: Mapping[type[Op], str] = MappingProxyType(
    {
        Sigmoid: "h.sigmoid()",
        Tanh: "h.tanh()",
        Softplus: "F.softplus(h)",
        ReLU: "h.relu()",
        LeakyReLU: "F.leaky_relu(h, 0.01)",
        ReLU6: "F.relu6(h)",
        ELU: "F.elu(h)",
    }
)


@source_of(*ACTIVATED)
def _activation(place: Place) -> Snippet:
    expression = ACTIVATED[place.spec.op("activation")]
    return Snippet(f"Activation: {place.spec.activation}.", (f"h = {expression}",))
