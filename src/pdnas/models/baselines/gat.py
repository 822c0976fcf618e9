r"""GAT: Velickovic et al., Graph Attention Networks, 2018; 8 heads of 8 channels, then one head.

On PubMed the paper has eight heads at the end too, whose answers are averaged. Its heads have a map
each, here they share one.

For proteins there are three layers, two of four heads that are put side by side and one of six that
are averaged, each head with a map of its own, and every layer hears its input by a linear map too,

.. math::
    h' = \sigma(\mathrm{GAT}(h) + W_s h + b),

as in PyG's example; in the paper only the second layer does so, as it is.
"""

import itertools
from typing import Literal, Unpack

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from pdnas.architecture import Architecture, BlockSpec, Channels
from pdnas.errors import ArchitectureError
from pdnas.models.baselines.base import BASELINES, Baseline
from pdnas.models.published import PUBLISHED, FeatureMap, Published, PublishedNetwork, Rates
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.attention import GatAttention
from pdnas.ops.base import Dims
from pdnas.ops.features import BlockInput

_OUTPUT = BlockSpec(expansion=0, attention="gat", heads=1, combine="none", bias=True)


def gat(last_heads: int) -> Architecture:
    """A GAT with so many heads at the end."""
    first = _OUTPUT.model_copy(update={"heads": 8, "activation": "elu"})
    return Architecture(blocks=(first, _OUTPUT.model_copy(update={"heads": last_heads})))


GAT = Baseline(gat(last_heads=1), hidden=64)


@PUBLISHED.register("gat-skip")
class SkipGat(Published):
    """What decides a GAT whose layers hear their input by a linear map too."""

    name: Literal["gat-skip"] = "gat-skip"
    layers: int = Field(3, ge=2, le=1000, description="Attentive layers.")
    heads: int = Field(4, ge=1, le=1000, description="Side by side; they divide the hidden size.")
    last_heads: int = Field(6, ge=1, le=1000, description="Averaged at the end.")

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "SkipGatNetwork":
        return SkipGatNetwork(self, task, hidden, **rates)


class SkipGatNetwork(PublishedNetwork):
    """The network of a :class:`SkipGat`."""

    def __init__(
        self, design: SkipGat, task: Channels, hidden: int, **rates: Unpack[Rates]
    ) -> None:
        super().__init__(task, hidden, **rates)
        if hidden % design.heads:
            raise ArchitectureError(
                f"The hidden size is {hidden}, but {design.heads} heads share it; give a multiple "
                f"of {design.heads}."
            )
        self.design = design
        widths = [task.in_channels, *[hidden] * (design.layers - 1), task.out_channels]
        self.maps, self.attentions, self.skips = (nn.ModuleList() for _ in range(3))
        for number, (before, after) in enumerate(itertools.pairwise(widths)):
            last = number == design.layers - 1
            heads, width = design.heads, after
            if last:
                heads, width = design.last_heads, design.last_heads * after
            linear = nn.Linear if number else FeatureMap
            self.maps.append(linear(before, width, bias=False))
            self.attentions.append(GatAttention(Dims(before, width, hidden, heads=heads)))
            self.skips.append(linear(before, after, bias=True))

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        graph, flow = graph.with_self_loops, x
        for number in range(self.design.layers - 1):
            heard, own = self._layer(number, self.design.heads, flow, graph)
            flow = self.between(F.elu(heard.flatten(1) + own))
        heard, own = self._layer(self.design.layers - 1, self.design.last_heads, flow, graph)
        return heard.mean(dim=1) + own

    def _layer(
        self, number: int, heads: int, x: BlockInput, graph: Adjacency
    ) -> tuple[Tensor, Tensor]:
        """What each head hears, ``[N, H, C]``, and what a node says of itself, ``[N, O]``."""
        mapped: Tensor = self.maps[number](x).unflatten(1, (heads, -1))
        weights = self.attentions[number](mapped, graph)
        return graph.weighted_sum(weights, mapped), self.skips[number](x)


BASELINES.register("gat")(GAT)
BASELINES.register("gat-pubmed")(Baseline(gat(last_heads=8), hidden=64, of="gat"))
BASELINES.register("gat-ppi")(Baseline(SkipGat(), hidden=1024, of="gat"))
