r"""Teachers: networks of the same kind, trained first, whose mean answer is learned too.

A network that was trained with few labels depends on its seed. The mean of several is steadier
than each of them, and a fresh one that learns this mean on all nodes, beside the labels, keeps most
of what is gained (Hinton et al., Distilling the Knowledge in a Neural Network, 2015; Furlanello et
al., Born-Again Neural Networks, 2018).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdnas.tasks import GraphTask
from pdnas.tasks.labels import Kind

STRIDE = 2**48
"""Between the seed of a training and those of its teachers: nobody asks for seeds that large."""


def teacher_seeds(seed: int, count: int) -> tuple[int, ...]:
    """Of the teachers of a training."""
    return tuple((seed + number * STRIDE) % 2**63 for number in range(1, count + 1))


@torch.no_grad()
def mean_answers(teachers: Sequence[nn.Module], task: GraphTask) -> tuple[Tensor, ...]:
    """The mean of what networks say of every node, as probabilities, ``[N, C]`` for each graph."""
    for teacher in teachers:
        teacher.eval()
    return tuple(
        torch.stack(
            [_probabilities(teacher(graph.x, graph.adjacency), task.kind) for teacher in teachers]
        ).mean(dim=0)
        for graph in task.graphs
    )


def teaching_loss(logits: Tensor, answers: Tensor, kind: Kind) -> Tensor:
    r"""Cross-entropy with the teachers' answer, on all nodes.

    .. math::
        -\frac{1}{N} \sum_{i, c} \bar p_{ic} \log p_{ic}

    Every label of a multi-label task is a choice between two answers.

    Args:
        logits: ``[N, C]``.
        answers: :math:`\bar p`, ``[N, C]``.
        kind: Of the task.
    """
    if kind == "single-label":
        return F.cross_entropy(logits, answers)
    return F.binary_cross_entropy_with_logits(logits, answers)


def _probabilities(logits: Tensor, kind: Kind) -> Tensor:
    return logits.softmax(dim=1) if kind == "single-label" else logits.sigmoid()
