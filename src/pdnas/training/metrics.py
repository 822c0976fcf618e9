"""Losses and metrics of each kind of task."""

import torch.nn.functional as F
from torch import Tensor

from pdnas.tasks.labels import Kind, Metric


def loss(logits: Tensor, y: Tensor, kind: Kind) -> Tensor:
    """Cross-entropy for one class per node, binary cross-entropy per label otherwise.

    Args:
        logits: ``[N, classes]``, ``[N, labels]`` or, for a binary task, ``[N, 1]``.
        y: ``[N]``, ``[N, labels]`` or ``[N]``.
        kind: Of the task.
    """
    if kind == "single-label":
        return F.cross_entropy(logits, y)
    target = y.unsqueeze(1) if kind == "binary" else y
    return F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype))


def score(logits: Tensor, y: Tensor, kind: Kind, metric: Metric) -> Tensor:
    """The metric, between 0 and 1, as a tensor on the logits' device; shapes as in :func:`loss`."""
    if kind == "single-label" and metric == "accuracy":
        return (logits.argmax(dim=1) == y).float().mean()
    from torchmetrics.functional import classification as tm  # takes a second to import

    if kind == "single-label":
        return tm.multiclass_f1_score(
            logits, y, logits.size(1), average="macro", validate_args=False
        )
    if kind == "multi-label":
        return tm.multilabel_f1_score(
            logits.sigmoid(),
            y.long(),
            num_labels=y.size(1),
            average="micro" if metric == "micro-f1" else "macro",
            validate_args=False,
        )
    answer = logits.squeeze(1)
    if metric == "accuracy":
        return tm.binary_accuracy(answer.sigmoid(), y, validate_args=False)
    # Ranks, equal ones for equal logits: a sigmoid would make large logits equal that are not.
    levels, rank = answer.unique(return_inverse=True)
    return tm.binary_auroc(rank / levels.numel(), y, validate_args=False)
