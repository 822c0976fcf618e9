"""A policy that makes one decision after another, and how it learns from a reward."""

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Generator, Tensor, nn

from pdnas.errors import SearchError
from pdnas.ops.base import glorot_
from pdnas.search.base import learned, load_learned
from pdnas.search.problem import Place, Problem
from pdnas.search.rated import Rated

IMPOSSIBLE = -1e9
"""The logit of an option that is not there: of no chance, and without the gradients of infinity."""

WIDTH = 100
"""Of the LSTM, as in GraphNAS."""


class Policy(nn.Module):
    r"""An LSTM that reads the decisions so far and gives the chances of the next.

    .. math::
        h_d = \mathrm{LSTM}(e_{d-1, a_{d-1}}, h_{d-1}), \qquad
        p_d = \mathrm{softmax}(c \tanh((W_d h_d + b_d) / \tau))

    :math:`e_{d, a}` is a vector for option :math:`a` of decision :math:`d`, and one of its own
    comes before the first. The :math:`\tanh` keeps the policy from being too sure too soon.

    Args:
        sizes: How many options each of the :math:`D` decisions has.
        temperature: :math:`\tau`.
        scale: :math:`c`.
    """

    mask: Tensor
    first: Tensor

    def __init__(
        self, sizes: Sequence[int], *, temperature: float = 5.0, scale: float = 2.5
    ) -> None:
        super().__init__()
        self.temperature, self.scale = temperature, scale
        count = max(sizes)
        self.embedding = nn.Embedding(1 + sum(sizes), WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH)
        self.weight = nn.Parameter(glorot_(torch.empty(len(sizes), count, WIDTH)))
        self.bias = nn.Parameter(torch.zeros(len(sizes), count))
        given = torch.tensor(sizes)
        self.register_buffer("mask", torch.arange(count) < given.unsqueeze(1), persistent=False)
        # Where the vectors of each decision's options begin; the first of all precedes them.
        self.register_buffer("first", 1 + given.cumsum(0) - given, persistent=False)

    def log_probs(self, actions: Tensor) -> Tensor:
        """Of all options, each decision knowing those before, ``[D] -> [D, T]``."""
        tokens = torch.cat([torch.zeros_like(actions[:1]), (self.first + actions)[:-1]])
        hidden, _ = self.lstm(self.embedding(tokens))  # [D, W]
        return self._log_probs(torch.einsum("dw,dtw->dt", hidden, self.weight) + self.bias)

    def _log_probs(self, logits: Tensor, place: slice | int = slice(None)) -> Tensor:
        bounded = self.scale * torch.tanh(logits / self.temperature)
        return bounded.masked_fill(~self.mask[place], IMPOSSIBLE).log_softmax(dim=-1)

    @torch.no_grad()
    def sample(self, generator: Generator) -> Tensor:
        """Decisions, one after the other, ``[D]``."""
        token, state = torch.zeros(1, dtype=torch.long), None
        actions = []
        for number in range(len(self.bias)):
            hidden, state = self.lstm(self.embedding(token), state)  # [1, W]
            logits = hidden[0] @ self.weight[number].T + self.bias[number]
            probs = self._log_probs(logits, number).exp()
            actions.append(torch.multinomial(probs, 1, generator=generator))
            token = self.first[number] + actions[-1]
        return torch.cat(actions)


def entropies(log_probs: Tensor) -> Tensor:
    r"""How open each decision is, ``[D, T] -> [D]``: :math:`-\sum_t p_t \log p_t`."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


class Reinforce:
    r"""Policies that make rewarded decisions likelier.

    .. math::
        \nabla \Big( (R - b) \sum_d \log p_d(a_d) + \beta \sum_d H(p_d) \Big), \qquad
        b \leftarrow \gamma b + (1 - \gamma) R

    The first reward is its own baseline (Williams, Simple Statistical Gradient-Following
    Algorithms for Connectionist Reinforcement Learning, 1992).

    Args:
        policies: What learns, all by one optimizer.
        lr: Learning rate.
        decay: :math:`\gamma` of the baseline.
        entropy_weight: :math:`\beta`.
    """

    def __init__(
        self, policies: nn.ModuleList, *, lr: float, decay: float, entropy_weight: float
    ) -> None:
        self.policies, self.decay, self.entropy_weight = policies, decay, entropy_weight
        self.optimizer = torch.optim.Adam(policies.parameters(), lr=lr)
        self.baseline: float | None = None

    def learn(self, number: int, actions: Tensor, reward: float) -> None:
        """One step of a policy.

        Args:
            number: Of the policy that decided.
            actions: What it decided, ``[D]``.
            reward: What came of it.
        """
        if self.baseline is None:
            self.baseline = reward
        policy = self.policies[number]
        assert isinstance(policy, Policy)
        log_probs = policy.log_probs(actions)
        taken = log_probs.gather(-1, actions.unsqueeze(-1)).sum()
        gain = (reward - self.baseline) * taken + self.entropy_weight * entropies(log_probs).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (-gain).backward()
        self.optimizer.step()
        self.baseline = self.decay * self.baseline + (1 - self.decay) * reward

    def tensors(self) -> dict[str, Tensor]:
        """Everything that decides how it goes on."""
        known = [] if self.baseline is None else [self.baseline]
        return {
            "baseline": torch.tensor(known, dtype=torch.float64),
            **learned(self.policies, self.optimizer),
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`tensors` gave."""
        known = tensors["baseline"].tolist()
        self.baseline = known[0] if known else None
        load_learned(self.policies, self.optimizer, tensors)


class Learned(Rated):
    """Settings of a policy that learns; the defaults are GraphNAS's."""

    policy_lr: float = Field(0.00035, gt=0, description="Learning rate of the policy.")
    baseline_decay: float = Field(
        0.95, ge=0, le=1, description="How long the baseline of the reward remembers."
    )
    entropy_weight: float = Field(
        0.0001, ge=0, description="Weight of the policy's entropy beside the reward."
    )

    def reinforce(self, policies: list[Policy]) -> Reinforce:
        """Policies that learn so."""
        return Reinforce(
            nn.ModuleList(policies),
            lr=self.policy_lr,
            decay=self.baseline_decay,
            entropy_weight=self.entropy_weight,
        )


def something(problem: Problem) -> tuple[Place, ...]:
    """Where there is something to decide; a policy cannot do without."""
    if not problem.places:
        raise SearchError(
            f"The space '{problem.space.name}' leaves nothing to choose with "
            f"{problem.num_blocks} block(s); give a larger --space, or use --strategy random."
        )
    return problem.places
