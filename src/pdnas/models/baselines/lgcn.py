r"""LGCN: Gao et al., Large-Scale Learnable Graph Convolutional Networks, 2018.

A layer gives every node a small image and reads it by ordinary convolutions. Row 0 of the image is
the node itself, rows 1 to :math:`k` hold, channel by channel, the :math:`k` largest values among
its neighbors, largest first and zeros where there are fewer,

.. math::
    \tilde X_v = [x_v; \mathrm{sort}_k(\{x_u, u \in N(v)\})] \in \mathbb{R}^{(k + 1) \times C},

and two convolutions along the rows, each of which reads about half of them at a time, leave one row
of :math:`C'` channels. A linear GCN layer makes the first :math:`x`; what a layer gives is put
beside what it read; a GCN layer gives the logits.

As in the authors' code, no activation follows a convolution, and a batch norm over the nodes at
hand follows each layer. Three things are left out: the authors multiply neighbors by the entries of
:math:`\hat A` before they are sorted, drop one edge in a thousand, and train with Nadam.
"""

from typing import Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from pdnas.architecture import Channels
from pdnas.models.baselines.base import BASELINES, Baseline
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


@PUBLISHED.register("lgcn")
class Lgcn(Published):
    """What decides an LGCN; the defaults are the paper's for Cora."""

    name: Literal["lgcn"] = "lgcn"
    layers: int = Field(2, ge=1, le=1000, description="Learnable layers between the two of GCN.")
    channels: int = Field(8, ge=1, le=100_000, description="Channels that each of them adds.")
    largest: int = Field(8, ge=1, le=1000, description="Values that are kept of a neighborhood, k.")

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "LgcnNetwork":
        return LgcnNetwork(self, task, hidden, **rates)


class LgcnNetwork(PublishedNetwork):
    """The network of an :class:`Lgcn`; the hidden size is that of the first layer."""

    def __init__(self, design: Lgcn, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__(task, hidden, **rates)
        self.design = design
        self.first = GCNConv(hidden, hidden, normalize=False)
        self.first.lin = FeatureMap(task.in_channels, hidden)  # for sparse features
        widths = [hidden + layer * design.channels for layer in range(design.layers + 1)]
        self.layers = nn.ModuleList(
            LearnableLayer(width, design.channels, design.largest, dropout=self.dropout)
            for width in widths[:-1]
        )
        self.last = GCNConv(widths[-1], task.out_channels, normalize=False)

    @property
    def recordable(self) -> bool:
        return False

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        looped = graph.with_self_loops
        weights = looped.gcn_weights.to(self.last.bias.dtype)
        flow = self.first(x, looped.edge_index, weights)  # [N, hidden]
        for layer in self.layers:
            flow = torch.cat([flow, layer(flow, graph)], dim=1)
        logits: Tensor = self.last(self.between(flow), looped.edge_index, weights)
        return logits


class LearnableLayer(nn.Module):
    """The largest values of each neighborhood and two convolutions, ``[N, C] -> [N, C']``.

    Args:
        in_channels: ``C``.
        out_channels: ``C'``.
        largest: How many values are kept of a neighborhood, ``k``.
        dropout: Rate for what each convolution reads.
    """

    def __init__(
        self, in_channels: int, out_channels: int, largest: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.largest = largest
        between = (in_channels + out_channels) // 2
        self.drop = nn.Dropout(dropout)
        self.first = nn.Conv1d(in_channels, between, (largest + 1) // 2 + 1)
        self.second = nn.Conv1d(between, out_channels, largest // 2 + 1, bias=False)
        # Of the nodes at hand in evaluation too, as the authors have it.
        self.norm = nn.BatchNorm1d(out_channels, track_running_stats=False)

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        image = torch.cat([x.unsqueeze(1), largest_neighbors(x, graph, self.largest)], dim=1)
        rows = self.drop(image.transpose(1, 2))  # [N, C, 1 + k]
        read: Tensor = self.second(self.drop(self.first(rows)))  # [N, C', 1]
        norm = self.norm  # whose own forward refuses a graph of one node
        scale, shift = norm.weight, norm.bias
        return torch.batch_norm(
            read.squeeze(2), scale, shift, None, None, True, 0.0, norm.eps, False
        )


def largest_neighbors(x: Tensor, graph: Adjacency, count: int) -> Tensor:
    """The largest values of each channel among a node's neighbors, ``[N, C] -> [N, count, C]``.

    They come largest first, with zeros where there are fewer neighbors. Nodes of about the same
    degree are sorted together, so that a few large neighborhoods do not widen all others.
    """
    absent = x.new_full((1, x.size(1)), -torch.inf)
    padded = torch.cat([x, absent])  # [N + 1, C]
    order, tables = _tables(graph)
    parts = []
    for table in tables:  # [n, width]
        width = max(table.size(1), count)
        values = padded.index_select(0, table.flatten()).view(*table.shape, -1)
        if table.size(1) < width:
            missing = absent.expand(len(table), width - table.size(1), -1)
            values = torch.cat([values, missing], dim=1)
        parts.append(values.topk(count, dim=1).values)
    found = torch.cat(parts).index_select(0, order)
    return found.masked_fill(found == -torch.inf, 0.0)


@PerGraph
def _tables(graph: Adjacency) -> tuple[Tensor, list[Tensor]]:
    """The neighbors of nodes with similar degrees, and where each node's row is among all tables.

    A table is ``[n, width]``; where a node has fewer neighbors, ``N`` stands for none.
    """
    degree = graph.in_degree.long()
    nodes = torch.arange(graph.num_nodes, device=degree.device)
    rank = torch.arange(graph.num_edges, device=degree.device) - graph.first_edges[graph.targets]
    tables: list[Tensor] = []
    sorted_nodes, least, width = [], 0, 8
    most = int(degree.max()) if graph.num_nodes else 0
    while not tables or least <= most:
        inside = (degree >= least) & (degree <= width)
        members = nodes[inside]
        row = torch.full_like(nodes, -1).scatter(
            0, members, torch.arange(len(members), device=degree.device)
        )
        table = members.new_full((len(members), width), graph.num_nodes)
        edges = inside[graph.targets]
        table[row[graph.targets[edges]], rank[edges]] = graph.sources[edges]
        tables.append(table)
        sorted_nodes.append(members)
        least, width = width + 1, 2 * width
    return torch.argsort(torch.cat(sorted_nodes)), tables


BASELINES.register("lgcn")(Baseline(Lgcn(), hidden=32))
BASELINES.register("lgcn-citeseer")(Baseline(Lgcn(layers=1), hidden=32, of="lgcn"))
BASELINES.register("lgcn-pubmed")(Baseline(Lgcn(layers=1), hidden=32, of="lgcn"))
BASELINES.register("lgcn-ppi")(Baseline(Lgcn(channels=160), hidden=128, of="lgcn"))
