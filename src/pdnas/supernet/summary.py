"""A whole graph as one vector, for a controller that looks at the data."""

import math

import torch
from torch import Tensor, nn

from pdnas.ops.adjacency import Adjacency
from pdnas.ops.base import glorot_
from pdnas.ops.features import Features


class GraphSummary(nn.Module):
    r"""Two GCN layers, self-attention pooling after the first, a mean after the second.

    .. math::
        H = \mathrm{ReLU}(\hat A X W_1), \quad s = \hat A H w, \quad
        H' = (H \odot \tanh s)_{\mathrm{top}}, \quad
        B_g = \mathrm{mean}(\mathrm{ReLU}(\hat A' H' W_2))

    :math:`\hat A` is the normalized adjacency with self-loops, :math:`\hat A'` that of the nodes
    with the highest scores, which alone are kept. Without the :math:`\tanh` the choice of nodes
    would have no gradient.

    Args:
        in_channels: Features per node.
        width: Of both layers, and of the summary.
        keep: Part of the nodes that the pooling keeps.
    """

    def __init__(self, in_channels: int, width: int = 32, keep: float = 0.5) -> None:
        super().__init__()
        self.keep = keep
        self.weight_1 = nn.Parameter(glorot_(torch.empty(in_channels, width)))
        self.weight_score = nn.Parameter(glorot_(torch.empty(width, 1)))
        self.weight_2 = nn.Parameter(glorot_(torch.empty(width, width)))

    def forward(self, x: Features, graph: Adjacency) -> Tensor:
        """``[N, F] -> [width]``."""
        looped = graph.with_self_loops
        hidden = _propagate(x @ self.weight_1, looped).relu()  # [N, C]
        scores = _propagate(hidden @ self.weight_score, looped).squeeze(1)  # [N]
        count = math.ceil(self.keep * scores.numel())
        kept = scores.detach().topk(count).indices.sort().values
        pooled = hidden[kept] * scores[kept].tanh().unsqueeze(1)  # [N', C]
        part = graph.subgraph(kept).with_self_loops
        return _propagate(pooled @ self.weight_2, part).relu().mean(dim=0)


def _propagate(x: Tensor, graph: Adjacency) -> Tensor:
    r""":math:`\hat A x`, ``[N, C] -> [N, C]``."""
    return graph.weighted_sum(graph.gcn_weights.unsqueeze(1), x.unsqueeze(1)).squeeze(1)
