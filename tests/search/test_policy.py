"""A policy that decides: its chances, and that it learns what is rewarded."""

import math

import pytest
import torch
from torch import nn

from pdnas.errors import SearchError
from pdnas.search import Problem
from pdnas.search.graphnas import GraphNas
from pdnas.search.policy import Policy, Reinforce, entropies, something
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import seeded

SIZES = [3, 2, 4]


@pytest.fixture
def policy() -> Policy:
    with seeded(0):
        return Policy(SIZES)


def reinforce(policy: Policy, lr: float = 0.01, decay: float = 0.9) -> Reinforce:
    return Reinforce(nn.ModuleList([policy]), lr=lr, decay=decay, entropy_weight=0.0)


def test_chances_sum_to_one_and_what_is_not_there_has_none(policy: Policy) -> None:
    probs = policy.log_probs(torch.tensor([2, 0, 1])).exp()
    assert probs.shape == (3, 4)
    assert torch.allclose(probs.sum(dim=1), torch.ones(3))
    for row, size in zip(probs, SIZES, strict=True):
        assert row[size:].tolist() == [0.0] * (4 - size)
        assert bool((row[:size] > 0).all())


def test_a_decision_knows_those_before_and_none_after(policy: Policy) -> None:
    given = policy.log_probs(torch.tensor([2, 0, 1]))
    first, last = (
        policy.log_probs(torch.tensor([1, 0, 1])),
        policy.log_probs(torch.tensor([2, 0, 3])),
    )
    assert torch.equal(given[0], first[0])
    assert not torch.equal(given[1], first[1])
    assert torch.allclose(given, last)


def test_draws_follow_the_chances(policy: Policy) -> None:
    """1500 draws: six standard errors of a share are below 0.08."""
    with torch.no_grad():
        policy.bias[0] = torch.tensor([4.0, 0.0, -4.0, 0.0])
    generator = torch.Generator().manual_seed(1)
    drawn = torch.stack([policy.sample(generator) for _ in range(1500)])
    shares = torch.bincount(drawn[:, 0], minlength=4) / len(drawn)
    expected = policy.log_probs(drawn[0]).exp()[0]
    assert torch.allclose(shares, expected, atol=0.08)
    assert bool((drawn < torch.tensor(SIZES)).all())


def test_chances_are_bounded_however_large_the_logits(policy: Policy) -> None:
    with torch.no_grad():
        policy.bias[1] = torch.tensor([1e6, -1e6, 0.0, 0.0])
    probs = policy.log_probs(torch.tensor([0, 0, 0])).exp()[1].detach()
    assert float(probs[0]) == pytest.approx(1 / (1 + math.exp(-5.0)), abs=1e-4)


def test_entropy_is_that_of_a_fair_die_and_of_a_certain_one() -> None:
    fair = torch.full((1, 4), 0.25).log()
    certain = torch.tensor([[0.0, -1e9, -1e9, -1e9]])
    assert float(entropies(fair)) == pytest.approx(math.log(4))
    assert float(entropies(certain)) == 0.0


def test_what_is_rewarded_becomes_likely(policy: Policy) -> None:
    learner, generator = reinforce(policy), torch.Generator().manual_seed(2)
    wanted = torch.tensor([1, 0, 3])
    for _ in range(400):
        actions = policy.sample(generator)
        learner.learn(0, actions, float((actions == wanted).float().mean()))
    chances = policy.log_probs(wanted).exp().gather(1, wanted.unsqueeze(1)).squeeze(1)
    assert bool((chances > torch.tensor([0.6, 0.75, 0.5])).all())


def test_the_first_reward_is_its_own_baseline(policy: Policy) -> None:
    learner = reinforce(policy, decay=0.9)
    before = policy.weight.clone()
    learner.learn(0, torch.tensor([0, 0, 0]), 0.8)
    assert torch.equal(policy.weight, before)
    assert learner.baseline == pytest.approx(0.8)
    learner.learn(0, torch.tensor([0, 0, 0]), 0.3)
    assert learner.baseline == pytest.approx(0.9 * 0.8 + 0.1 * 0.3)
    assert not torch.equal(policy.weight, before)


def test_a_loaded_learner_goes_on_as_the_first_one() -> None:
    learners = []
    for seed in (0, 1):
        with seeded(seed):
            learners.append(reinforce(Policy(SIZES)))
    first, second = learners
    first.learn(0, torch.tensor([0, 1, 2]), 0.5)
    first.learn(0, torch.tensor([0, 1, 1]), 0.7)
    second.load({name: value.clone() for name, value in first.tensors().items()})
    for learner in learners:
        learner.learn(0, torch.tensor([2, 1, 0]), 0.2)
    assert all(map(torch.equal, first.policies.parameters(), second.policies.parameters()))
    assert first.baseline == second.baseline
    second.load(reinforce(Policy(SIZES)).tensors())
    assert second.baseline is None


def test_a_space_without_choices_is_refused(tiny_task: GraphTask) -> None:
    one = dict.fromkeys(("combine", "activation"), ("none",))
    space = SPACES["paper"].model_copy(
        update={
            **one,
            "combine": ("add",),
            "expansion": (1,),
            "attention": ("gcn",),
            "heads": (1,),
            "aggregation": ("sum",),
            "shortcuts": "none",
        }
    )
    problem = Problem(tiny_task, space, 2, 4, Recipe())
    with pytest.raises(SearchError, match="leaves nothing to choose with 2 block"):
        something(problem)
    with pytest.raises(SearchError, match="--strategy random"):
        GraphNas().start(problem)
