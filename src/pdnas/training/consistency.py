r"""Consistency training: one network, several corrupted copies of its input, one answer.

Per step, ``S`` copies of the features are drawn with whole nodes dropped. The copies' predictions
are averaged and sharpened, and each copy is drawn towards that target on all nodes, labeled or not,
as in GRAND (Feng et al., Graph Random Neural Networks, 2020).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from pdnas.ops.features import Features, SparseFeatures
from pdnas.tasks.labels import Kind


def drop_nodes(x: Features, rate: float) -> Features:
    """Zero all features of a node with probability ``rate``; divide the rest by ``1 - rate``."""
    if rate == 0:
        return x
    values = x.values if isinstance(x, SparseFeatures) else x
    kept = F.dropout(torch.ones(x.shape[0], 1, device=values.device, dtype=values.dtype), rate)
    if isinstance(x, SparseFeatures):
        return SparseFeatures(x.pattern, x.values * kept.squeeze(1)[x.pattern.rows])
    return x * kept


def sharpen(probs: Tensor, temperature: float) -> Tensor:
    r""":math:`p_c^{1/T} / \sum_k p_k^{1/T}`, ``[..., C]``; the lower :math:`T`, the surer."""
    tiny = torch.finfo(probs.dtype).tiny
    return (probs.clamp(min=tiny).log() / temperature).softmax(dim=-1)


def consistency_loss(logits: Tensor, kind: Kind, temperature: float) -> Tensor:
    r"""How far the copies' predictions are from their sharpened mean.

    .. math::
        \frac{1}{S N} \sum_{s, i} \|p_i^{(s)} - \mathrm{sharpen}(\bar p_i)\|^2, \qquad
        \bar p_i = \frac{1}{S} \sum_s p_i^{(s)}

    The target has no gradient. Every label of a multi-label task is a choice between two answers,
    and counts as one of the :math:`N`.

    Args:
        logits: ``[S, N, C]``.
        kind: Of the task.
        temperature: :math:`T`.
    """
    if kind == "single-label":
        probs = logits.softmax(dim=-1)
    else:
        yes = logits.sigmoid()
        probs = torch.stack([yes, 1 - yes], dim=-1)
    target = sharpen(probs.detach().mean(dim=0), temperature)
    return (probs - target).square().sum(dim=-1).mean()
