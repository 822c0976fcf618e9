"""Noise, gates and factors against theory: marginals, gradients and the limits of temperature."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.autograd import gradcheck

from pdnas.supernet.relaxation import (
    Factor,
    GateNoise,
    entropy,
    factors,
    gate_noise,
    gumbel_sigmoid,
    mean_entropy,
    noisy_probs,
    temperature,
)

NOISES: tuple[GateNoise, ...] = ("gumbel", "logistic")
DRAWS = 100_000
EULER = 0.57721566

every_noise = pytest.mark.parametrize("kind", NOISES)


def assert_frequency(hits: Tensor, chance: float) -> None:
    """The frequency of hits is the chance, within four standard errors."""
    error = math.sqrt(chance * (1 - chance) / hits.numel())
    assert abs(hits.double().mean().item() - chance) <= 4 * error


def paper_temperature(epoch: int) -> float:
    return temperature(epoch, epochs=400, anneal_start=80, anneal_rate=1.0)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, 1.0), (79, 1.0), (80, 1.0), (240, math.exp(-0.4)), (399, 0.450454)]
)
def test_the_paper_s_temperature_by_epoch(epoch: int, expected: float) -> None:
    assert paper_temperature(epoch) == pytest.approx(expected, abs=1e-6)


def test_the_temperature_falls_by_the_same_factor_each_epoch_once_it_falls() -> None:
    values = [paper_temperature(epoch) for epoch in range(80, 400)]
    ratios = [later / earlier for earlier, later in pairwise(values)]
    assert ratios == pytest.approx([math.exp(-1 / 400)] * 319)


@given(
    epochs=st.integers(1, 1000), start=st.integers(0, 1000), rate=st.floats(0, 100), data=st.data()
)
def test_the_temperature_never_rises_and_stays_above_zero(
    epochs: int, start: int, rate: float, data: st.DataObject
) -> None:
    epoch = data.draw(st.integers(0, epochs - 1))
    now, then = (
        temperature(number, epochs=epochs, anneal_start=start, anneal_rate=rate)
        for number in (epoch, epoch + 1)
    )
    assert 0 < then <= now <= 1


def test_a_rate_of_zero_keeps_the_temperature_at_one() -> None:
    assert temperature(300, epochs=400, anneal_start=80, anneal_rate=0.0) == 1.0


MASK = torch.tensor([[True, True, True, True], [True, True, False, False], [True] + 3 * [False]])
PROBS = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.6, 0.4, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])


@given(heat=st.floats(0, 100), seed=st.integers(0, 2**32))
def test_noisy_probabilities_sum_to_one_and_vanish_where_there_is_no_op(
    heat: float, seed: int
) -> None:
    noisy = noisy_probs(PROBS, heat, MASK, torch.Generator().manual_seed(seed))
    torch.testing.assert_close(noisy.sum(dim=-1), torch.ones(3))
    assert not noisy[~MASK].any()
    assert (noisy >= 0).all()


def test_at_temperature_zero_probabilities_are_left_as_they_are(generator: Generator) -> None:
    torch.testing.assert_close(noisy_probs(PROBS, 0.0, MASK, generator), PROBS)


def test_noise_is_uniform_on_the_scale_of_the_probabilities(generator: Generator) -> None:
    """Undoing the division by Z, which is 1 plus the temperature times the sum of the noise."""
    probs, heat = torch.tensor([0.7, 0.3]).expand(DRAWS, 2), 0.5
    noisy = noisy_probs(probs, heat, torch.ones(2, dtype=torch.bool), generator)
    # P0 = (0.7 + u / 2) / Z, P1 = (0.3 + v / 2) / Z: of all (u, v) the mean of P0 is known.
    points = (torch.arange(400, dtype=torch.float64) + 0.5) / 400
    left, right = 0.7 + heat * points.unsqueeze(1), 0.3 + heat * points
    expected = left / (left + right)
    error = expected.std() / math.sqrt(DRAWS)
    assert abs(noisy[:, 0].double().mean() - expected.mean()) < 4 * error
    assert noisy[:, 0].min() >= 0.7 / (0.7 + 0.3 + heat)
    assert noisy[:, 0].max() <= (0.7 + heat) / (0.7 + 0.3 + heat)


@pytest.mark.parametrize("heat", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("lead", [0.0, 0.05, 0.1])
def test_the_likelier_of_two_wins_as_often_as_two_uniform_numbers_say(
    lead: float, heat: float, generator: Generator
) -> None:
    probs = torch.tensor([0.5 + lead, 0.5 - lead]).expand(DRAWS, 2)
    noisy = noisy_probs(probs, heat, torch.ones(2, dtype=torch.bool), generator)
    # u1 - u0 < c = 2 d / tau, whose density is the triangle 1 - |x|.
    assert_frequency(noisy.argmax(dim=-1) == 0, 1 - (1 - 2 * lead / heat) ** 2 / 2)


def test_a_lead_above_the_temperature_always_wins(generator: Generator) -> None:
    probs = torch.tensor([0.56, 0.44]).expand(DRAWS, 2)
    noisy = noisy_probs(probs, 0.1, torch.ones(2, dtype=torch.bool), generator)
    assert (noisy.argmax(dim=-1) == 0).all()


def test_with_much_noise_every_op_is_picked_as_often_and_nothing_else_ever(
    generator: Generator,
) -> None:
    mask = torch.tensor([True, True, True, False])
    probs = torch.tensor([0.9, 0.1, 0.0, 0.0]).expand(DRAWS, 4)
    picked = noisy_probs(probs, 1e4, mask, generator).argmax(dim=-1)
    for number, chance in enumerate([1 / 3, 1 / 3, 1 / 3, 0.0]):
        assert_frequency(picked == number, chance)


def test_the_gradient_of_a_noisy_probability_is_that_of_the_quotient(generator: Generator) -> None:
    probs = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64, requires_grad=True)
    mask = torch.ones(3, dtype=torch.bool)
    noisy = noisy_probs(probs, 1.0, mask, generator)
    total = 1 + torch.rand(3, generator=generator.manual_seed(0)).double().sum()  # Z

    (grad,) = torch.autograd.grad(noisy[1], probs)

    own = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(grad, (own - noisy[1].detach()) / total)
    # Z is the same for all probabilities that sum to one: to move there costs 1 / Z alone.
    towards = torch.tensor([-0.25, 1.0, -0.75], dtype=torch.float64)
    torch.testing.assert_close(grad @ towards, 1 / total)


def test_the_only_op_of_a_slot_is_certain_and_has_no_gradient(generator: Generator) -> None:
    probs = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    noisy = noisy_probs(probs, 1.0, torch.tensor([True, False]), generator)
    (grad,) = torch.autograd.grad(noisy[0], probs)
    assert noisy.tolist() == [1.0, 0.0]
    assert grad[0].abs() < 1e-12


@every_noise
def test_the_seed_decides_the_draws(kind: GateNoise) -> None:
    first, second, other = (torch.Generator().manual_seed(seed) for seed in (5, 5, 6))
    draws = [gate_noise((3, 3), kind, source) for source in (first, second, other)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    probs = [noisy_probs(PROBS, 1.0, MASK, source) for source in (first, second, other)]
    assert torch.equal(probs[0], probs[1])
    assert not torch.equal(probs[0], probs[2])


@every_noise
def test_nothing_else_draws(kind: GateNoise, generator: Generator) -> None:
    before = torch.get_rng_state()
    gate_noise((3, 3), kind, generator)
    noisy_probs(PROBS, 1.0, MASK, generator)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("kind", "mean", "variance"),
    [("gumbel", EULER, math.pi**2 / 6), ("logistic", 0.0, math.pi**2 / 3)],
)
def test_gate_noise_has_its_mean_and_variance(
    kind: GateNoise, mean: float, variance: float, generator: Generator
) -> None:
    noise = gate_noise((DRAWS,), kind, generator).double()
    assert abs(noise.mean().item() - mean) < 4 * math.sqrt(variance / DRAWS)
    # The fourth central moment is 5.4 and 4.2 times the square of the variance.
    assert noise.var().item() == pytest.approx(variance, rel=4 * math.sqrt(4.4 / DRAWS))


@every_noise
@pytest.mark.parametrize("logit", [-3.0, -0.5, 0.0, 1.0, 2.0])
def test_a_gate_opens_as_often_as_its_logit_says(
    kind: GateNoise, logit: float, generator: Generator
) -> None:
    opened = logit + gate_noise((DRAWS,), kind, generator) > 0
    chance = 1 - math.exp(-math.exp(logit))
    if kind == "logistic":
        chance = 1 / (1 + math.exp(-logit))
    assert_frequency(opened, chance)


@every_noise
def test_gate_noise_is_finite_however_often_it_is_drawn(
    kind: GateNoise, generator: Generator
) -> None:
    noise = gate_noise((1 << 22,), kind, generator)
    assert noise.isfinite().all()


@every_noise
@pytest.mark.parametrize("extreme", [0.0, 1.0 - 2**-24, 1.0])
def test_gate_noise_is_finite_at_the_ends_of_the_uniform_numbers(
    kind: GateNoise, extreme: float, generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "rand", lambda shape, generator: torch.full(shape, extreme))
    assert gate_noise((1,), kind, generator).isfinite().all()


def test_equation_four_by_hand() -> None:
    gates = gumbel_sigmoid(torch.tensor([0.5, -1.0]), torch.tensor([0.2, 0.3]), 0.7)
    expected = [1 / (1 + math.exp(-1.0)), 1 / (1 + math.exp(1.0))]
    assert gates.tolist() == pytest.approx(expected)


def test_gates_tend_to_the_sign_as_the_temperature_falls_and_to_a_half_as_it_rises() -> None:
    logits, noise = torch.tensor([0.4, -0.1, 0.0]), torch.tensor([-0.3, -0.2, 0.5])
    assert gumbel_sigmoid(logits, noise, 1e-4).tolist() == [1.0, 0.0, 1.0]
    assert gumbel_sigmoid(logits, noise, 1e6).tolist() == pytest.approx([0.5] * 3, abs=1e-6)


@pytest.mark.parametrize("heat", [0.3, 1.0, 4.0])
def test_the_gradient_of_a_gate_is_y_times_one_minus_y_over_the_temperature(
    heat: float, generator: Generator
) -> None:
    logits = torch.linspace(-2, 2, 9, dtype=torch.float64).requires_grad_()
    noise = gate_noise((9,), "gumbel", generator).double()
    gates = gumbel_sigmoid(logits, noise, heat)
    (grad,) = torch.autograd.grad(gates.sum(), logits)
    torch.testing.assert_close(grad, gates * (1 - gates) / heat)
    assert gradcheck(lambda given: gumbel_sigmoid(given, noise, heat), (logits,))


def test_scaled_factors_are_the_probabilities() -> None:
    probs = torch.tensor([[0.2, 0.9], [1e-6, 1.0]], requires_grad=True)
    scaled = factors(probs, "scaled")
    assert torch.equal(scaled, probs)
    (grad,) = torch.autograd.grad(scaled.sum(), probs)
    assert torch.equal(grad, torch.ones(2, 2))


@given(prob=st.floats(2**-100, 1, width=32))
def test_straight_through_factors_are_exactly_one(prob: float) -> None:
    assert factors(torch.tensor(prob), "straight-through").item() == 1.0


def test_straight_through_factors_have_the_gradient_of_the_logarithm() -> None:
    probs = torch.tensor([0.2, 0.9, 1e-4, 1.0], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)
    (grad,) = torch.autograd.grad(factors(probs, "straight-through") @ weights, probs)
    (expected,) = torch.autograd.grad(probs.log() @ weights, probs)
    torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize("kind", ["scaled", "straight-through"])
def test_factors_raise_the_probability_of_what_lowers_the_loss(kind: Factor) -> None:
    """Whatever the probability, the sign of the gradient is that of the output's own."""
    probs = torch.tensor([0.1, 0.8], requires_grad=True)
    (grad,) = torch.autograd.grad((factors(probs, kind) * torch.tensor([2.0, -3.0])).sum(), probs)
    assert grad.sign().tolist() == [1.0, -1.0]


def test_entropy_of_uniform_settled_and_single_choices() -> None:
    probs = torch.tensor([[0.25] * 4, [0.0, 0.0, 1.0, 0.0], [0.5, 0.5, 0.0, 0.0], [1.0, 0, 0, 0]])
    counts = torch.tensor([[4], [4], [2], [1]])
    shares = entropy(probs, torch.arange(4) < counts)
    assert shares.tolist() == pytest.approx([1.0, 0.0, 1.0, 0.0])


def test_entropy_by_hand() -> None:
    share = entropy(torch.tensor([0.5, 0.25, 0.25, 0.0]), torch.tensor([True, True, True, False]))
    assert share.item() == pytest.approx(1.5 * math.log(2) / math.log(3))


def test_the_mean_entropy_is_of_the_slots_with_something_to_choose() -> None:
    probs = torch.tensor([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
    mask = torch.tensor([[[True, True], [True, False]], [[True, True], [True, False]]])
    assert mean_entropy(probs, mask) == pytest.approx(0.5)
    assert mean_entropy(probs[:, 1:], mask[:, 1:]) == 0.0


@given(logits=st.lists(st.floats(-20, 20), min_size=1, max_size=6), padding=st.integers(0, 3))
def test_entropy_lies_between_zero_and_one_and_padding_changes_nothing(
    logits: list[float], padding: int
) -> None:
    probs = torch.tensor(logits, dtype=torch.float64).softmax(0)
    padded = torch.cat([probs, probs.new_zeros(padding)])
    share = entropy(padded, torch.arange(len(padded)) < len(probs)).item()
    assert -1e-12 <= share <= 1 + 1e-12
    assert share == pytest.approx(entropy(probs, torch.ones(len(probs), dtype=torch.bool)).item())
