import math

import pytest
import torch
from torch import Tensor

from pdnas.tasks.labels import Kind, Metric
from pdnas.tasks.task import METRICS_OF
from pdnas.training.metrics import loss, score

# Predicted 0, 1, 1, 2, 2 against 0, 0, 1, 2, 1.
CLASSES = torch.tensor([[3.0, 0, 0], [0, 3, 1], [0, 2, 1], [0, 1, 5], [1, 0, 2]])
CLASS_OF = torch.tensor([0, 0, 1, 2, 1])

# Predicted {0}, {0, 1}, {1}, {} against {0}, {1}, {0, 1}, {}.
LABELS = torch.tensor([[1.0, -1], [2, 1], [-1, 3], [-4, -2]])
LABELS_OF = torch.tensor([[1.0, 0], [0, 1], [1, 1], [0, 0]])

ANSWERS = torch.tensor([[0.1], [0.4], [0.35], [0.8]]).logit()
ANSWER_OF = torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("logits", "y", "kind", "metric", "expected"),
    [
        (CLASSES, CLASS_OF, "single-label", "accuracy", 3 / 5),
        # F1 = 2 TP / (2 TP + FP + FN) of the three classes: 2/3, 2/4, 2/3.
        (CLASSES, CLASS_OF, "single-label", "macro-f1", (2 / 3 + 1 / 2 + 2 / 3) / 3),
        # Label 0: TP 1, FP 1, FN 1; label 1: TP 2.
        (LABELS, LABELS_OF, "multi-label", "micro-f1", 6 / 8),
        (LABELS, LABELS_OF, "multi-label", "macro-f1", (1 / 2 + 1) / 2),
        (ANSWERS, ANSWER_OF, "binary", "accuracy", 3 / 4),
        # Of the four pairs of a no and a yes only (0.4, 0.35) is in the wrong order.
        (ANSWERS, ANSWER_OF, "binary", "roc-auc", 3 / 4),
    ],
)
def test_metrics_have_their_closed_form(
    logits: Tensor, y: Tensor, kind: Kind, metric: Metric, expected: float
) -> None:
    value = score(logits, y, kind, metric)
    assert value.shape == ()
    assert float(value) == pytest.approx(expected)
    assert float(score(logits.double(), y, kind, metric)) == pytest.approx(expected)


def test_every_metric_of_every_kind_is_tested_above() -> None:
    pairs = {(kind, metric) for kind, metrics in METRICS_OF.items() for metric in metrics}
    assert len(pairs) == 6


@pytest.mark.parametrize(
    ("logits", "y", "kind", "expected"),
    [
        (torch.zeros(3, 4), torch.tensor([0, 1, 3]), "single-label", math.log(4)),
        (torch.tensor([[math.log(3), 0.0]]), torch.tensor([0]), "single-label", -math.log(3 / 4)),
        (torch.zeros(3, 2), torch.ones(3, 2), "multi-label", math.log(2)),
        (torch.full((1, 2), math.log(3)), torch.ones(1, 2), "multi-label", -math.log(3 / 4)),
        (torch.zeros(3, 1), torch.tensor([0, 1, 1]), "binary", math.log(2)),
        (torch.tensor([[math.log(3)]]), torch.tensor([0]), "binary", -math.log(1 / 4)),
    ],
)
def test_losses_have_their_closed_form(
    logits: Tensor, y: Tensor, kind: Kind, expected: float
) -> None:
    assert float(loss(logits, y, kind)) == pytest.approx(expected)
    assert float(loss(logits.double(), y, kind)) == pytest.approx(expected)


def test_a_confident_network_keeps_its_ranking() -> None:
    logits = torch.tensor([[20.0], [30.0], [-120.0], [-110.0]])
    y = torch.tensor([0, 1, 0, 1])
    # In the order of the logits: no, yes, no, yes; one of the four pairs is wrong.
    assert float(score(logits, y, "binary", "roc-auc")) == pytest.approx(3 / 4)


def test_a_loss_can_be_minimized() -> None:
    logits = torch.zeros(4, 1, requires_grad=True)
    loss(logits, ANSWER_OF, "binary").backward()
    assert logits.grad is not None
    assert logits.grad.flatten().tolist() == [0.125, 0.125, -0.125, -0.125]
