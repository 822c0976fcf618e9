"""The router: which gates there are, how often they open and what gradient they get."""

import math

import pytest
import torch
from torch import Generator, Tensor

from pdnas.supernet import Router
from pdnas.supernet.relaxation import GateNoise
from pdnas.supernet.router import Gating

NOISES: tuple[GateNoise, ...] = ("gumbel", "logistic")
GATINGS: tuple[Gating, ...] = ("soft", "hard")
TRIANGLE = torch.ones(3, 3, dtype=torch.bool).triu()
DRAWS = 3000

every_noise = pytest.mark.parametrize("noise", NOISES)
every_gating = pytest.mark.parametrize("gating", GATINGS)


def router(possible: Tensor = TRIANGLE, **settings: GateNoise | Gating) -> Router:
    """One with random priors."""
    made = Router(possible, **settings)  # type: ignore[arg-type]
    torch.nn.init.normal_(made.gate_logits)
    return made


@every_noise
@every_gating
def test_gates_lie_in_the_upper_triangle(
    noise: GateNoise, gating: Gating, generator: Generator
) -> None:
    made = router(noise=noise, gating=gating)
    torch.nn.init.constant_(made.gate_logits, 20.0)  # open, wherever there can be a gate
    assert torch.equal(made(1.0, generator) > 0.5, TRIANGLE)
    assert torch.equal(made.probs() > 0.5, TRIANGLE)


@every_noise
@every_gating
def test_impossible_gates_are_always_zero_and_have_no_gradient(
    noise: GateNoise, gating: Gating, generator: Generator
) -> None:
    possible = torch.tensor([[True, False, True], [False, False, True], [False, False, True]])
    made = router(possible, noise=noise, gating=gating)
    for _ in range(50):
        gates = made(1.0, generator)
        assert not gates[~possible].any()
        gates.sum().backward()
    assert made.gate_logits.grad is not None
    assert torch.equal(made.gate_logits.grad != 0, possible)
    assert not made.probs()[~possible].any()


def test_without_possible_gates_all_are_zero(generator: Generator) -> None:
    made = Router(torch.zeros(2, 2, dtype=torch.bool))
    assert made(1.0, generator).tolist() == made.probs().tolist() == [[0.0, 0.0]] * 2


@every_noise
@pytest.mark.parametrize("heat", [0.4, 1.0])
def test_soft_gates_lie_strictly_between_zero_and_one(
    noise: GateNoise, heat: float, generator: Generator
) -> None:
    gates = router(noise=noise)(heat, generator)[TRIANGLE]
    assert ((gates > 0) & (gates < 1)).all()


@every_noise
def test_hard_gates_are_exactly_zero_or_one(noise: GateNoise, generator: Generator) -> None:
    made = router(noise=noise, gating="hard")
    values = torch.stack([made(0.5, generator) for _ in range(100)]).unique()
    assert values.tolist() == [0.0, 1.0]


@every_noise
def test_a_hard_gate_is_the_soft_one_rounded_and_has_its_gradient(noise: GateNoise) -> None:
    soft, hard = (router(noise=noise, gating=gating) for gating in GATINGS)
    hard.load_state_dict(soft.state_dict())
    weights = torch.randn(3, 3)
    results = []
    for made in (soft, hard):
        gates = made(0.7, torch.Generator().manual_seed(2))
        (grad,) = torch.autograd.grad((gates * weights).sum(), made.gate_logits)
        results.append((gates, grad))
    assert torch.equal(results[1][0], results[0][0].round())
    assert results[0][1][TRIANGLE].all()
    torch.testing.assert_close(results[1][1], results[0][1])


@pytest.mark.parametrize("heat", [0.3, 1.0])
def test_the_gradient_of_a_gate_follows_the_sigmoid(heat: float, generator: Generator) -> None:
    made = router()
    gates = made(heat, generator)
    (grad,) = torch.autograd.grad(gates.sum(), made.gate_logits)
    torch.testing.assert_close(grad, gates * (1 - gates) / heat)


@every_noise
@every_gating
@pytest.mark.parametrize("heat", [0.3, 1.0])
def test_gates_open_as_often_as_their_probabilities_say(
    noise: GateNoise, gating: Gating, heat: float, generator: Generator
) -> None:
    made = router(noise=noise, gating=gating)
    with torch.no_grad():
        opened = torch.stack([made(heat, generator) > 0.5 for _ in range(DRAWS)])
    probs = made.probs()
    four_errors = 4 * (probs * (1 - probs) / DRAWS).sqrt()
    assert ((opened.float().mean(dim=0) - probs).abs() <= four_errors).all()


@pytest.mark.parametrize(("noise", "chance"), [("gumbel", 1 - math.exp(-1)), ("logistic", 0.5)])
def test_all_gates_are_alike_at_first(noise: GateNoise, chance: float) -> None:
    probs = Router(TRIANGLE, noise=noise).probs()
    assert probs[TRIANGLE].tolist() == pytest.approx([chance] * 6)


def test_probabilities_follow_their_closed_forms() -> None:
    made = {noise: Router(torch.ones(1, 4, dtype=torch.bool), noise=noise) for noise in NOISES}
    logits = [-8.0, -1.0, 0.5, 3.0]
    for one in made.values():
        with torch.no_grad():
            one.gate_logits.copy_(torch.tensor([logits]))
    gumbel = [-math.expm1(-math.exp(logit)) for logit in logits]
    logistic = [1 / (1 + math.exp(-logit)) for logit in logits]
    assert made["gumbel"].probs()[0].tolist() == pytest.approx(gumbel, rel=1e-5)
    assert made["logistic"].probs()[0].tolist() == pytest.approx(logistic, rel=1e-5)


@every_noise
@every_gating
def test_fair_gates_are_those_of_a_router_that_has_learned_nothing(
    noise: GateNoise, gating: Gating
) -> None:
    made, fresh = router(noise=noise, gating=gating), Router(TRIANGLE, noise=noise, gating=gating)
    fair, expected = (
        one(0.5, torch.Generator().manual_seed(3), fair=fair)
        for one, fair in ((made, True), (fresh, False))
    )
    assert torch.equal(fair, expected)
    assert not fair.requires_grad


def test_probabilities_are_for_reading_alone() -> None:
    assert not router().probs().requires_grad


@every_gating
def test_the_seed_decides_the_gates(gating: Gating) -> None:
    made = Router(torch.ones(8, 8, dtype=torch.bool).triu(), gating=gating)
    first, again, other = (made(1.0, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_priors_are_the_only_parameters() -> None:
    assert [name for name, _ in router().named_parameters()] == ["gate_logits"]
