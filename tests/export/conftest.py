"""Results with random weights, without any training."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.models import Design, make_network
from pdnas.runs import Result, Scores, SplitRecord


@pytest.fixture
def result_of() -> Callable[..., Result]:
    """Makes the result of a design, of 5 features and 6 classes unless said otherwise."""

    def make(design: Design, **fields: Any) -> Result:
        values: dict[str, Any] = {
            "task": "tiny",
            "split": SplitRecord(name="own", sha256="ab", seeds=(), members=("ab",)),
            "strategy": "pdnas",
            "architecture": design,
            "hidden": 8,
            "in_channels": 5,
            "out_channels": 6,
            "class_names": tuple("abcdef"),
            "parameters": 12345,
            "recipe": {},
            "metric": "accuracy",
            "val": Scores.of([0.5, 0.75]),
            "test": Scores.of([0.25, 0.5]),
            "epochs": (3, 4),
            "seeds": (0, 1),
            "train_seconds": 1.5,
            "device": "cpu",
        }
        result = Result(**(values | fields))
        network = make_network(design, result, result.hidden)
        weights = {name: torch.randn(w.shape) / 2 for name, w in network.state_dict().items()}
        return result.with_weights(weights)

    return make


@pytest.fixture
def architecture() -> Architecture:
    """Two blocks that differ in every slot, with a shortcut from the raw features."""
    return Architecture.model_validate(
        {
            "blocks": [
                {"expansion": 2, "attention": "gat", "heads": 4, "norm": "layer", "bias": True}
                | {"aggregation": "max", "combine": "none", "activation": "elu"},
                {"expansion": 0, "propagation": 2, "combine": "root"},
            ],
            "gates": [[0, 1]],
        }
    )


@pytest.fixture
def graph(tiny_graph: Tensor) -> tuple[Tensor, Tensor]:
    """The tiny graph with a parallel edge and a second loop, and 5 features."""
    more = torch.tensor([[0, 4], [1, 4]])
    return torch.randn(6, 5), torch.cat([tiny_graph, more], dim=1)
