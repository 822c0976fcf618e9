"""A network: blocks in a row, and shortcuts across them."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from pdnas.architecture import Architecture, Channels
from pdnas.errors import TaskError
from pdnas.models.block import UNSCALED, Factors, GraphBlock
from pdnas.ops.adjacency import Adjacency, check_edges
from pdnas.ops.base import glorot_
from pdnas.ops.features import BlockInput, Features, SparseFeatures, WeightedFeatures, dropout


class GraphNetwork(nn.Module):
    r"""The network of an architecture, from features to logits.

    Block :math:`j` reads :math:`I_j` and gives :math:`O'_j`; shortcuts are added to it,

    .. math::
        O_j = O'_j + \sum_{i \le j,\ (i, j) \in \mathrm{gates}} g_{ij}(I_i), \qquad I_{j+1} = O_j,

    with :math:`I_0` the raw features and :math:`g_{ij}` linear maps without bias. Only the
    maps of open gates exist.

    Examples:
        >>> task = pdnas.load_task("citeseer")
        >>> architecture = pdnas.Architecture(blocks=(pdnas.BlockSpec(attention="gcn"),))
        >>> network = pdnas.GraphNetwork(architecture, task, hidden=16)  # its weights are fresh
        >>> network(task.graphs[0].x, task.graphs[0].edge_index).shape
        torch.Size([3327, 6])

    Args:
        architecture: The choices made.
        task: What is to be read and told: the number of features and of logits.
        hidden: Channels between blocks.
        input_dropout: Rate for the raw features.
        dropout: Rate for what flows between blocks.
        attention_dropout: Rate for learned attention.
        feature_weights: Whether each raw feature has a weight of its own, until they are folded.
        blocks: Ready ones, whose weights are used instead of fresh ones; a supernet lends them.
        shortcuts: The same for the maps of the open gates.
    """

    def __init__(
        self,
        architecture: Architecture,
        task: Channels,
        hidden: int,
        *,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        feature_weights: bool = False,
        blocks: Sequence[GraphBlock] | None = None,
        shortcuts: Mapping[tuple[int, int], nn.Parameter] | None = None,
    ) -> None:
        super().__init__()
        self.architecture = architecture
        self.hidden = hidden
        self.input_dropout = input_dropout
        self.dropout = dropout
        self.in_channels = task.in_channels
        self.feature_weights: nn.Parameter | None = None
        if feature_weights:
            self.feature_weights = nn.Parameter(torch.ones(task.in_channels))
        widths = architecture.widths(task, hidden)
        if blocks is None:
            blocks = [
                GraphBlock.from_spec(
                    spec,
                    widths[number],
                    widths[number + 1],
                    hidden,
                    attention_normalization=architecture.attention_normalization,
                    attention_dropout=attention_dropout,
                )
                for number, spec in enumerate(architecture.blocks)
            ]
        if shortcuts is None:
            shortcuts = {
                (i, j): nn.Parameter(glorot_(torch.empty(widths[i], widths[j + 1])))
                for i, j in architecture.gates
            }
        self.blocks = nn.ModuleList(blocks)
        self.shortcuts = nn.ParameterDict(
            {_key(*gate): weight for gate, weight in shortcuts.items()}
        )

    def forward(
        self,
        x: Features,
        edge_index: Tensor | Adjacency,
        *,
        factors: Sequence[Factors] | None = None,
        gates: Tensor | None = None,
    ) -> Tensor:
        """Logits of every node, ``[N, F] -> [N, classes]``.

        Args:
            x: Features; a torch sparse matrix is welcome.
            edge_index: ``[2, E]``, or the adjacency made of it once, which saves the sorting.
            factors: Of each block, where a search wants to know what its ops are worth.
            gates: What the shortcuts are multiplied with, ``[L, L]``, likewise.
        """
        x, graph = read_input(x, edge_index, self.in_channels)
        block_inputs: list[BlockInput] = []
        flow: Features = x
        for j, block in enumerate(self.blocks):
            rate = self.dropout if j else self.input_dropout
            dropped = dropout(flow, rate, self.training)
            if j == 0 and self.feature_weights is not None:
                block_inputs.append(WeightedFeatures(dropped, self.feature_weights))
            else:
                block_inputs.append(dropped)
            scale = UNSCALED if factors is None else factors[j]
            routed_output: Tensor = block(block_inputs[j], graph, scale)
            for i in range(j + 1):
                if _key(i, j) in self.shortcuts:
                    weight = self.shortcuts[_key(i, j)]
                    if gates is not None:
                        weight = weight * gates[i, j]  # smaller than what it would scale
                    routed_output = routed_output + block_inputs[i] @ weight
            flow = routed_output
        return routed_output

    @torch.no_grad()
    def fold_feature_weights(self) -> None:
        """Multiply the feature weights into the maps that read features; logits stay the same."""
        if self.feature_weights is None:
            return
        shortcuts = [self.shortcuts[_key(i, j)] for i, j in self.architecture.gates if i == 0]
        first = self.blocks[0]
        assert isinstance(first, GraphBlock)
        for weight in [*first.input_weights(), *shortcuts]:
            weight.mul_(self.feature_weights.unsqueeze(1))
        self.feature_weights = None


def read_input(
    x: Features, edge_index: Tensor | Adjacency, in_channels: int
) -> tuple[Features, Adjacency]:
    """Features and edges as networks use them, or one sentence about what is wrong with them.

    Args:
        x: Features, ``[N, F]``; a torch sparse matrix is welcome.
        edge_index: ``[2, E]``, or the adjacency made of it.
        in_channels: The ``F`` that the network was made for.
    """
    if isinstance(x, Tensor) and x.layout != torch.strided:
        x = SparseFeatures.from_tensor(x)
    if x.shape[1] != in_channels:
        raise TaskError(
            f"The nodes have {x.shape[1]} features, but the network was made for "
            f"{in_channels}; give it the features that it was trained on."
        )
    if isinstance(edge_index, Adjacency):
        return x, edge_index
    check_edges(edge_index, "the graph", x.shape[0])
    return x, Adjacency.from_edge_index(edge_index, x.shape[0])


def _key(i: int, j: int) -> str:
    """Name of the shortcut from the input of block ``i`` to the output of block ``j``."""
    return f"{i}_{j}"
