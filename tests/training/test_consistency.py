"""Nodes dropped, answers sharpened, and the distance of several answers from their mean."""

from math import e, log, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdnas.ops import SparseFeatures
from pdnas.ops.features import Features
from pdnas.tasks.labels import Kind
from pdnas.training.consistency import consistency_loss, drop_nodes, sharpen

X = torch.tensor([[1.0, 0, 2, 0], [0, 3, 0, 0], [0, 0, 0, 4], [5, 0, 0, 6]])
FORMS = ["dense", "sparse"]

seeds = st.integers(0, 2**32)


def as_form(x: Tensor, form: str) -> Features:
    return SparseFeatures.from_tensor(x) if form == "sparse" else x


def dense(x: Features) -> Tensor:
    return x.to_dense() if isinstance(x, SparseFeatures) else x


@given(form=st.sampled_from(FORMS), rate=st.sampled_from([0.2, 0.5, 0.9]), seed=seeds)
def test_nodes_are_dropped_whole_and_the_rest_is_rescaled(
    form: str, rate: float, seed: int
) -> None:
    torch.manual_seed(seed)
    dropped = dense(drop_nodes(as_form(X, form), rate))
    for before, after in zip(X, dropped, strict=True):
        kept = before / (1 - rate)
        assert not after.any() or torch.allclose(after, kept)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("form", FORMS)
def test_as_many_nodes_are_dropped_as_the_rate_says(form: str, rate: float) -> None:
    count = 20_000
    dropped = dense(drop_nodes(as_form(torch.ones(count, 2), form), rate))
    share = (dropped[:, 0] == 0).double().mean().item()
    # Five standard deviations of a binomial distribution.
    assert share == pytest.approx(rate, abs=5 * sqrt(rate * (1 - rate) / count))
    # So the mean stays what it was, but for the same deviations, rescaled.
    tolerance = 5 * sqrt(rate / (1 - rate) / count)
    assert dropped.double().mean().item() == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_every_call_drops_other_nodes(form: str) -> None:
    x = as_form(torch.ones(100, 1), form)
    first, second = (dense(drop_nodes(x, 0.5)) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_dropped_at_rate_zero_or_after_training(form: str) -> None:
    x = as_form(X, form)
    assert drop_nodes(x, 0.0) is x


@pytest.mark.parametrize("form", FORMS)
def test_features_keep_their_form_and_precision_and_are_left_alone(form: str) -> None:
    x = as_form(X.double(), form)
    dropped = drop_nodes(x, 0.5)
    assert type(dropped) is type(x)
    assert dense(dropped).dtype == torch.float64
    assert torch.equal(dense(x), X.double())


def test_sharpening_by_hand() -> None:
    # Squares 1 : 4 : 9 of 1 : 2 : 3.
    probs = torch.tensor([1.0, 2.0, 3.0]) / 6
    torch.testing.assert_close(sharpen(probs, 0.5), torch.tensor([1.0, 4.0, 9.0]) / 14)


def distribution(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).softmax(dim=0)


answers = st.lists(st.floats(-5, 5), min_size=2, max_size=5).map(distribution)


@given(probs=answers)
def test_temperature_one_changes_nothing(probs: Tensor) -> None:
    torch.testing.assert_close(sharpen(probs, 1.0), probs)


@given(probs=answers, temperature=st.floats(0.05, 1))
def test_what_is_sharpened_is_as_the_formula_says(probs: Tensor, temperature: float) -> None:
    powers = probs ** (1 / temperature)
    torch.testing.assert_close(sharpen(probs, temperature), powers / powers.sum())


def test_a_low_temperature_leaves_the_likeliest_answer() -> None:
    probs = torch.tensor([[0.3, 0.4, 0.3], [0.5, 0.2, 0.3]])
    assert sharpen(probs, 1e-3).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_a_low_temperature_shares_between_equals() -> None:
    torch.testing.assert_close(
        sharpen(torch.tensor([0.4, 0.4, 0.2]), 1e-3), torch.tensor([0.5, 0.5, 0])
    )


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.01])
def test_a_sure_answer_stays_sure(temperature: float) -> None:
    sure = torch.tensor([0.0, 1.0, 0.0])
    torch.testing.assert_close(sharpen(sure, temperature), sure)


@given(probs=answers, temperature=st.floats(0.05, 1))
def test_sharpening_keeps_a_distribution_and_its_order(probs: Tensor, temperature: float) -> None:
    sharp = sharpen(probs, temperature)
    assert sharp.sum().item() == pytest.approx(1)
    assert sharp.argmax() == probs.argmax()
    assert sharp.max().item() >= probs.max().item() - 1e-9


def test_two_answers_by_hand() -> None:
    # The copies say (1/2, 1/2) and (1/4, 3/4); their mean (3/8, 5/8) becomes 9 : 25.
    logits = torch.tensor([[[0.0, 0.0]], [[0.0, log(3)]]], dtype=torch.float64)
    target = 9 / 34
    expected = (2 * (1 / 2 - target) ** 2 + 2 * (1 / 4 - target) ** 2) / 2
    assert consistency_loss(logits, "single-label", 0.5).item() == pytest.approx(expected)


def test_two_labels_by_hand() -> None:
    # Of the first label the copies say 1/2 and 3/4, of the second 1/2 and 1/2.
    logits = torch.tensor([[[0.0, 0.0]], [[log(3), 0.0]]], dtype=torch.float64)
    target = 25 / 34
    first = 2 * ((1 / 2 - target) ** 2 + (3 / 4 - target) ** 2)
    expected = (first + 0) / 4  # two copies of one node with two labels
    assert consistency_loss(logits, "multi-label", 0.5).item() == pytest.approx(expected)


def test_yes_or_no_by_hand() -> None:
    # The copies say 1 / (1 + e) and e / (1 + e), whose mean is a half.
    logits = torch.tensor([[[-1.0]], [[1.0]]], dtype=torch.float64)
    expected = 2 * (1 / (1 + e) - 1 / 2) ** 2
    assert consistency_loss(logits, "binary", 0.5).item() == pytest.approx(expected)


@given(seed=seeds, temperature=st.floats(0.1, 1))
def test_yes_or_no_is_a_choice_between_two_classes(seed: int, temperature: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    yes = torch.randn(3, 4, 1, generator=generator, dtype=torch.float64)
    both = torch.cat([torch.zeros_like(yes), yes], dim=-1)
    torch.testing.assert_close(
        consistency_loss(yes, "binary", temperature),
        consistency_loss(both, "single-label", temperature),
    )


@given(seed=seeds, copies=st.integers(1, 4), temperature=st.floats(0.1, 1))
def test_the_formula(seed: int, copies: int, temperature: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(copies, 5, 3, generator=generator, dtype=torch.float64)
    probs = logits.softmax(dim=-1)
    target = sharpen(probs.mean(dim=0), temperature)
    expected = sum(
        float((probs[s, i] - target[i]).square().sum()) for s in range(copies) for i in range(5)
    ) / (copies * 5)
    result = consistency_loss(logits, "single-label", temperature)
    assert result.item() == pytest.approx(expected)


KINDS: list[tuple[Kind, list[float]]] = [
    ("single-label", [0.0, 200.0, 0.0]),
    ("multi-label", [-200.0, 200.0, 200.0]),
    ("binary", [200.0]),
]


@pytest.mark.parametrize(("kind", "sure"), KINDS)
def test_copies_that_are_sure_of_the_same_agree(kind: Kind, sure: list[float]) -> None:
    logits = torch.tensor([[sure] * 4] * 3)
    assert consistency_loss(logits, kind, 0.5).item() == 0


@pytest.mark.parametrize(("kind", "unsure"), [(kind, [0.0] * len(sure)) for kind, sure in KINDS])
def test_copies_that_all_know_nothing_agree(kind: Kind, unsure: list[float]) -> None:
    logits = torch.tensor([[unsure] * 4] * 3)
    assert consistency_loss(logits, kind, 0.5).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", ["single-label", "multi-label", "binary"])
def test_the_target_has_no_gradient(kind: Kind) -> None:
    """The gradient is that of the distance from a target that stands still."""
    channels = 1 if kind == "binary" else 3
    logits = torch.randn(2, 4, channels, dtype=torch.float64).requires_grad_()
    (grad,) = torch.autograd.grad(consistency_loss(logits, kind, 0.5), logits)

    yes = logits.sigmoid()
    probs = torch.stack([yes, 1 - yes], dim=-1) if kind != "single-label" else logits.softmax(-1)
    target = sharpen(probs.mean(dim=0), 0.5)
    distance = {
        still: (probs - (target.detach() if still else target)).square().sum(dim=-1).mean()
        for still in (True, False)
    }
    wanted, other = (
        torch.autograd.grad(distance[still], logits, retain_graph=True)[0]
        for still in (True, False)
    )
    torch.testing.assert_close(grad, wanted)
    assert not torch.allclose(grad, other)


@pytest.mark.parametrize("kind", ["single-label", "multi-label"])
def test_a_step_down_brings_copies_together(kind: Kind) -> None:
    logits = torch.randn(2, 4, 3, dtype=torch.float64).requires_grad_()
    before = consistency_loss(logits, kind, 1.0)
    (grad,) = torch.autograd.grad(before, logits)
    assert consistency_loss(logits - 0.1 * grad, kind, 1.0) < before
