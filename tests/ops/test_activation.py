from math import exp, log, log1p

import pytest
import torch

from pdnas.ops import ACTIVATIONS, Dims

POINTS = [-2.0, -0.5, 0.0, 0.5, 8.0]
BY_HAND = {
    "none": POINTS,
    "sigmoid": [1 / (1 + exp(-x)) for x in POINTS],
    "tanh": [(exp(x) - exp(-x)) / (exp(x) + exp(-x)) for x in POINTS],
    "softplus": [log1p(exp(-2)), log1p(exp(-0.5)), log(2), log1p(exp(0.5)), log1p(exp(8))],
    "relu": [0, 0, 0, 0.5, 8],
    "leaky-relu": [-0.02, -0.005, 0, 0.5, 8],
    "relu6": [0, 0, 0, 0.5, 6],
    "elu": [exp(-2) - 1, exp(-0.5) - 1, 0, 0.5, 8],
}


def test_there_are_values_for_every_activation() -> None:
    assert set(BY_HAND) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(name: str) -> None:
    op = ACTIVATIONS[name](Dims(1, 5, 1))
    result = op(torch.tensor([POINTS], dtype=torch.float64))
    expected = torch.tensor([BY_HAND[name]], dtype=torch.float64)
    torch.testing.assert_close(result, expected)
