"""What logits say, for each kind of task."""

import pytest
import torch

from pdnas.answers import Names, check_logits, names_of, numbers_of
from pdnas.errors import PdnasError
from pdnas.tasks.labels import Kind

CASES: list[tuple[Kind, list[list[float]], list[object], Names]] = [
    ("single-label", [[1.0, 2.0], [3.0, -1.0]], [1, 0], ("b", "a")),
    ("binary", [[0.5], [-0.5], [0.0], [1e-9]], [1, 0, 0, 1], ("b", "a", "a", "b")),
    ("multi-label", [[1.0, 2.0], [0.0, -1.0]], [[1, 1], [0, 0]], (("a", "b"), ())),
]


@pytest.mark.parametrize(("kind", "logits", "numbers", "names"), CASES)
def test_each_kind_has_its_rule(
    kind: Kind, logits: list[list[float]], numbers: list[object], names: Names
) -> None:
    found = numbers_of(torch.tensor(logits), kind)
    assert found.tolist() == numbers
    assert names_of(found, kind, ("a", "b")) == names


@pytest.mark.parametrize("shape", [(3,), (3, 2), (1, 3, 1)])
def test_logits_of_another_shape_are_one_sentence(shape: tuple[int, ...]) -> None:
    check_logits(torch.zeros(3, 1), 1)
    with pytest.raises(PdnasError, match=r"this network, which gives \[nodes, 1\]"):
        check_logits(torch.zeros(shape), 1)
