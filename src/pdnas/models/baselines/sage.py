r"""GraphSAGE: Hamilton et al., Inductive Representation Learning on Large Graphs, 2017.

A layer hears its neighbors through an aggregator and the node itself through a map of its own,
:math:`h'_v = W_1 \mathrm{AGGREGATE}(\{h_u, u \in N(v)\}) + W_2 h_v`. Three aggregators:

- the mean, made of blocks;
- the maximum, :math:`\max_u \sigma(W h_u + b)`, channel by channel;
- an LSTM over the neighbors in random order, of which the last state counts. An LSTM needs a bound
  on the number of neighbors, ten here: in training a node hears ten of them, drawn anew in every
  pass, or all in random order if there are fewer; outside of training it hears the first ten in the
  order of the edges, so that what it says depends on that order.

For proteins there is a residual form: a linear map to the hidden size, layers of the mean that are
added to what they read, each with a layer norm, :math:`h' = h + \mathrm{ReLU}(\mathrm{LN}(
\mathrm{SAGE}(h)))`, and a linear map to the labels.

Of raw features, the LSTM reads a linear map to the hidden size; the published one reads them as
they are, thousands of channels for each neighbor.
"""

from typing import Literal, NamedTuple, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from pdnas.architecture import Architecture, BlockSpec, Channels
from pdnas.models.baselines.base import BASELINES, Baseline
from pdnas.models.block import GraphBlock
from pdnas.models.published import (
    PUBLISHED,
    FeatureMap,
    PerGraph,
    Published,
    PublishedNetwork,
    Rates,
)
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.features import BlockInput

_OUTPUT = BlockSpec(expansion=0, aggregation="mean", combine="root", bias=True)

SAGE = Baseline(
    Architecture(blocks=(_OUTPUT.model_copy(update={"activation": "relu"}), _OUTPUT)),
    hidden=64,
)


@PUBLISHED.register("sage")
class Sage(Published):
    """What decides a GraphSAGE of two layers that does not take the mean."""

    name: Literal["sage"] = "sage"
    aggregator: Literal["max", "lstm"] = Field("max", description="How neighbors are heard.")
    neighbors: int = Field(10, ge=1, le=10_000, description="How many an LSTM hears at most.")

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> PublishedNetwork:
        network = SageMaxNetwork if self.aggregator == "max" else SageLstmNetwork
        return network(self, task, hidden, **rates)


class SageMaxNetwork(PublishedNetwork):
    """The network of a :class:`Sage` with the maximum, of PyG's layers."""

    def __init__(self, design: Sage, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__(task, hidden, **rates)
        self.design = design
        self.projection = FeatureMap(task.in_channels, hidden, bias=True)
        self.root = FeatureMap(task.in_channels, hidden)
        self.first = SAGEConv(hidden, hidden, aggr="max", root_weight=False)
        self.second = SAGEConv(hidden, task.out_channels, aggr="max", project=True)

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        edges = graph.edge_index
        heard = self.first(self.projection(x).relu(), edges)  # [N, hidden]
        flow = self.between((heard + self.root(x)).relu())
        logits: Tensor = self.second(flow, edges)
        return logits


class SageLstmNetwork(PublishedNetwork):
    """The network of a :class:`Sage` with an LSTM."""

    def __init__(self, design: Sage, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__(task, hidden, **rates)
        self.design = design
        self.projection = FeatureMap(task.in_channels, hidden)
        self.root = FeatureMap(task.in_channels, hidden)
        self.first = NeighborLstm(hidden, hidden, design.neighbors)
        self.second = NeighborLstm(hidden, task.out_channels, design.neighbors)
        self.second_root = nn.Linear(hidden, task.out_channels, bias=False)

    @property
    def recordable(self) -> bool:
        return False

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        heard = self.first(self.projection(x), graph)  # [N, hidden]
        flow = self.between((heard + self.root(x)).relu())
        logits: Tensor = self.second(flow, graph) + self.second_root(flow)
        return logits


@PUBLISHED.register("sage-residual")
class ResidualSage(Published):
    """What decides a residual GraphSAGE with the mean and layer norms."""

    name: Literal["sage-residual"] = "sage-residual"
    layers: int = Field(4, ge=1, le=1000, description="Layers between the two linear maps.")

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "ResidualSageNetwork":
        return ResidualSageNetwork(self, task, hidden, **rates)


class ResidualSageNetwork(PublishedNetwork):
    """The network of a :class:`ResidualSage`, whose layers are blocks."""

    def __init__(
        self, design: ResidualSage, task: Channels, hidden: int, **rates: Unpack[Rates]
    ) -> None:
        super().__init__(task, hidden, **rates)
        self.design = design
        self.first = FeatureMap(task.in_channels, hidden, bias=True)
        layer = _OUTPUT.model_copy(update={"norm": "layer", "activation": "relu"})
        self.layers = nn.ModuleList(
            GraphBlock.from_spec(layer, hidden, hidden, hidden) for _ in range(design.layers)
        )
        self.last = nn.Linear(hidden, task.out_channels)

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        flow: Tensor = self.first(x)
        for layer in self.layers:
            flow = flow + layer(self.between(flow), graph)
        logits: Tensor = self.last(self.between(flow))
        return logits


class NeighborLstm(nn.Module):
    """The last state of an LSTM over a node's neighbors, and a map of it, ``[N, I] -> [N, O]``.

    Args:
        in_channels: ``I``; the LSTM's state is as wide.
        out_channels: ``O``.
        neighbors: How many are heard at most.
    """

    def __init__(self, in_channels: int, out_channels: int, neighbors: int) -> None:
        super().__init__()
        self.neighbors = neighbors
        self.lstm = nn.LSTM(in_channels, in_channels, batch_first=True)
        self.map = nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        neighbors, count = draw_neighbors(graph, self.neighbors, shuffled=self.training)
        states, _ = self.lstm(x[neighbors])  # [N, K, I]
        nodes = torch.arange(len(count), device=x.device)
        last = states[nodes, (count - 1).clamp(min=0)]
        mapped: Tensor = self.map(last * (count > 0).unsqueeze(1))
        return mapped


def draw_neighbors(graph: Adjacency, most: int, *, shuffled: bool) -> tuple[Tensor, Tensor]:
    """Some neighbors of each node, ``[N, most]``, and how many of them there are, ``[N]``.

    Where there are fewer than ``most``, the rest of the row is of no meaning.

    Args:
        graph: Whose.
        most: How many at most.
        shuffled: Whether they are drawn in random order; otherwise they are the first ones.
    """
    sources = graph.sources
    if shuffled:
        # Targets are whole numbers, so that what is added to them orders each one's edges alone.
        keys = graph.targets + torch.rand(graph.num_edges, device=sources.device).double()
        sources = sources[torch.argsort(keys)]
    rank = _ranks(graph)
    kept = rank.of_edge < most
    table = sources.new_zeros(graph.num_nodes, most)
    table[graph.targets[kept], rank.of_edge[kept]] = sources[kept]
    return table, rank.degree.clamp(max=most)


class _Ranks(NamedTuple):
    """The place of each edge among those of its target, ``[E]``, and the degrees, ``[N]``."""

    of_edge: Tensor
    degree: Tensor


@PerGraph
def _ranks(graph: Adjacency) -> _Ranks:
    edges = torch.arange(graph.num_edges, device=graph.sources.device)
    return _Ranks(edges - graph.first_edges[graph.targets], graph.in_degree.long())


BASELINES.register("sage")(SAGE)
BASELINES.register("sage-max")(Baseline(Sage(aggregator="max"), hidden=64))
BASELINES.register("sage-lstm")(Baseline(Sage(aggregator="lstm"), hidden=64))
BASELINES.register("sage-ppi")(Baseline(ResidualSage(), hidden=512, of="sage"))
