"""The controller: probabilities of every op of every slot of every block, from one tensor."""

from typing import Literal

import torch
from torch import Tensor, nn

from pdnas.ops import SLOTS
from pdnas.ops.base import glorot_
from pdnas.space import SearchSpace

Form = Literal["mlp", "logits"]


def candidate_mask(space: SearchSpace, num_blocks: int) -> Tensor:
    """Where there is an op, ``[L, K, T]``: blocks, slots, candidates up to the longest list."""
    most = max(len(space.candidates(slot)) for slot in SLOTS)
    mask = torch.zeros(num_blocks, len(SLOTS), most, dtype=torch.bool)
    for block in range(num_blocks):
        for number, slot in enumerate(SLOTS):
            mask[block, number, : len(space.candidates(slot, last=block == num_blocks - 1))] = True
    return mask


class Controller(nn.Module):
    r"""Multi-hot: one softmax per slot per block, ``L K T`` outputs in all.

    .. math::
        \bar P = \mathrm{softmax}(W_2\, \mathrm{ReLU}(W_1 (W_B B_g + z)))

    with a trainable prior :math:`z` and, where there is one, a summary :math:`B_g` of the graph.
    :math:`W_2` starts at zero, so that every op is as likely as any other at first. The form
    ``logits`` has no network, :math:`\bar P = \mathrm{softmax}(W_B B_g + z)`, and starts likewise.

    Args:
        mask: Where there is an op, ``[L, K, T]``.
        form: ``mlp``, the paper's, or ``logits``.
        width: Of :math:`z` and of the network, where there is one.
        summary_width: Of :math:`B_g`; 0 if the graph is not looked at.
    """

    mask: Tensor

    def __init__(
        self, mask: Tensor, *, form: Form = "mlp", width: int = 64, summary_width: int = 0
    ) -> None:
        super().__init__()
        self.register_buffer("mask", mask)
        outputs = mask.numel()
        self.layers = nn.ParameterList()
        if form == "mlp":
            self.prior = nn.Parameter(torch.randn(width))
            self.layers.append(glorot_(torch.empty(width, width)))
            self.layers.append(torch.zeros(width, outputs))
        else:
            self.prior = nn.Parameter(torch.zeros(outputs))
        self.summary_map = None
        if summary_width:
            start = torch.zeros(summary_width, self.prior.numel())
            self.summary_map = nn.Parameter(glorot_(start) if form == "mlp" else start)

    def forward(self, graph_summary: Tensor | None = None) -> Tensor:
        """Probabilities ``[L, K, T]``, zero where there is no op.

        Args:
            graph_summary: :math:`B_g`, ``[summary_width]``.
        """
        flow: Tensor = self.prior
        if self.summary_map is not None:
            assert graph_summary is not None
            flow = flow + graph_summary @ self.summary_map
        if len(self.layers):
            flow = (flow @ self.layers[0]).relu() @ self.layers[1]
        logits = flow.view(self.mask.shape).masked_fill(~self.mask, -torch.inf)
        return logits.softmax(dim=-1)
