"""Differentiable search: all candidates of a slot at once, weighted by a softmax that learns.

First order, after Liu, Simonyan and Yang, DARTS: Differentiable Architecture Search, 2019.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from pdnas.architecture import Architecture
from pdnas.errors import SearchError
from pdnas.models import GraphNetwork
from pdnas.runs import MOST
from pdnas.search.base import (
    STRATEGIES,
    Candidate,
    Search,
    SearchEpoch,
    Strategy,
    above,
    below,
    learned,
    like,
    load_learned,
    never,
)
from pdnas.search.problem import Problem
from pdnas.search.shared import (
    SETTLED,
    UNDECIDED,
    Judged,
    SharedWeights,
    fitting_gates,
    per_mille,
    per_mille_of_ops,
    ranked,
)
from pdnas.supernet import Controller, MixedNetwork, Router, candidate_mask
from pdnas.supernet.relaxation import mean_entropy
from pdnas.training.batching import Batch
from pdnas.training.fit import DIGITS
from pdnas.training.parallel import agreed

BETAS = (0.5, 0.999)
"""Of Adam on the logits, as in the paper."""


@STRATEGIES.register("darts")
class Darts(Strategy):
    """Settings of the differentiable search.

    Decay and momentum of the logits are the paper's. Its learning rate of 0.0003 is for hundreds
    of steps in each of 50 epochs; here an epoch is one step, so that the rate is higher.
    """

    name: Literal["darts"] = "darts"
    epochs: int = Field(50, ge=1, le=MOST, description="Epochs of the search.")
    weight_lr: float = Field(0.005, gt=0, description="Learning rate of the shared weights.")
    architecture_lr: float = Field(
        0.1, gt=0, description="Learning rate of the logits of ops and shortcuts."
    )
    architecture_decay: float = Field(
        0.001, ge=0, description="Pull of these logits towards zero, where all is equally likely."
    )
    pool: int = Field(
        16,
        ge=1,
        le=MOST,
        description="Architectures that are proposed at the end, the likeliest first.",
    )

    def start(self, problem: Problem) -> "DartsSearch":
        return DartsSearch(problem, self)

    @property
    def refining(self) -> int:
        """Rating an architecture costs far less than an epoch, which evaluates every op twice."""
        return math.ceil(self.pool / 16)

    def lasting(self, epochs: int) -> Self:
        """The pool shrinks or grows by as much."""
        return self.changed(epochs=epochs, pool=max(1, round(epochs / self.epochs * self.pool)))


class DartsSearch(Search):
    r"""First-order DARTS, an epoch at a time.

    With logits :math:`\alpha` of the ops of each slot and :math:`\beta` of the shortcuts, the
    network of all candidates has :math:`p = \mathrm{softmax}(\alpha)` and gates
    :math:`\gamma = \mathrm{sigmoid}(\beta)`, see :mod:`pdnas.supernet.mixture`. An epoch takes

    .. math::
        \alpha, \beta \leftarrow \mathrm{Adam}(\nabla L_{val}(w, p, \gamma)), \qquad
        w \leftarrow \mathrm{Adam}(\nabla L_{train}(w, p, \gamma)),

    one step each; :math:`w` is not unrolled. All logits start at 0. The paper chooses which
    edges of a cell to keep by the strength of their ops; the shortcuts here have logits of their
    own instead. Validation is looked at without dropout; weights decay, drop out and are trained
    for consistency as the recipe says. What an epoch shows is the mixture's, no architecture's.

    The number of parameters bounds what is derived from the search, and closes shortcuts that
    could not be part of it; the mixture itself has all other candidates.

    Args:
        problem: What to solve.
        settings: How.
    """

    def __init__(self, problem: Problem, settings: Darts) -> None:
        super().__init__(problem, settings.epochs)
        self.settings = settings
        self.shared = SharedWeights(problem, settings.weight_lr)
        # The logits stay on the CPU, as those of other searches do: they are few.
        self.controller = Controller(
            candidate_mask(problem.space, problem.num_blocks), form="logits"
        )
        self.router = Router(fitting_gates(problem), noise="logistic")
        self._choosers = nn.ModuleList([self.controller, self.router])
        self.architecture_optimizer = torch.optim.Adam(
            self._choosers.parameters(),
            lr=settings.architecture_lr,
            betas=BETAS,
            weight_decay=settings.architecture_decay,
            fused=True,
        )
        gates = [(i, j) for i, j in self.router.possible.nonzero().tolist()]
        self.mixture = MixedNetwork(self.shared.supernet, gates)
        self._generator = torch.Generator().manual_seed(problem.seed)
        self._entropies = torch.zeros(settings.epochs)

    def step(self, stop: Callable[[], bool] = never) -> SearchEpoch:  # noqa: ARG002 - two steps
        """Step the logits on validation, then the weights on training."""
        judged = self._step_architecture()
        op_probs, gates = self._probs()
        device = self.problem.device
        loss = self.shared.step(
            self.mixture, self.epoch, op_probs=op_probs.to(device), gates=gates.to(device)
        )
        figures = agreed(torch.stack([loss, *judged]).tolist())
        if not math.isfinite(sum(figures)):
            raise SearchError(
                f"The loss is no longer finite at epoch {self.epoch} of the search; lower "
                f"--weight-lr, now {self.settings.weight_lr:g}."
            )
        mask = self.controller.mask
        self._entropies[self.epoch] = mean_entropy(op_probs, mask)
        details = {
            "op_probs": per_mille_of_ops(op_probs, mask),
            "gate_probs": per_mille(gates[self.router.possible]),
        }
        self.epoch += 1
        train_loss, val_loss, val = (round(figure, DIGITS) for figure in figures)
        return SearchEpoch(self.epoch - 1, train_loss, val_loss, val, details)

    def _step_architecture(self) -> Judged:
        """One step of the logits; what validation says of the mixture before it.

        The gradient is found for the probabilities first and led through softmax and sigmoid once,
        however many batches there are.
        """
        op_probs = self.controller()
        gates = self.router.gate_logits.sigmoid() * self.router.possible
        device = self.problem.device
        leaves = [part.detach().to(device).requires_grad_() for part in (op_probs, gates)]

        def forward(batch: Batch) -> Tensor:
            output: Tensor = self.mixture(
                batch.x, batch.adjacency, op_probs=leaves[0], gates=leaves[1]
            )
            return output

        grads, judged = self.shared.slopes(self.mixture, leaves, forward)
        self.architecture_optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([op_probs, gates], [grad.cpu() for grad in grads])
        self.architecture_optimizer.step()
        return judged

    @torch.no_grad()
    def _probs(self) -> tuple[Tensor, Tensor]:
        """How likely each op and each open gate is, ``[L, K, T]`` and ``[L, L]``."""
        return self.controller(), self.router.probs()

    def favored(self) -> Architecture:
        """The likeliest op of every slot and the gates above a half, made to fit."""
        return self.shared.likeliest(*self._probs())

    def candidates(self, stop: Callable[[], bool] = never) -> list[Candidate]:
        """The favored one, and then others drawn from the probabilities, ranked by validation.

        The paper derives one network. Others give the trials something to choose among; they are
        rated by the shared weights, which were trained for the mixture and not for any of them,
        so that the favored one stays first whatever they say of it.
        """
        drawn = self.shared.draw(*self._probs(), self.settings.pool, self._generator, stop)
        favored, *others = self.shared.rate_all(drawn, stop)
        return [favored, *ranked(others)]

    def network(self, architecture: Architecture) -> GraphNetwork:
        return self.shared.network(architecture)

    def warnings(self) -> list[str]:
        """Probabilities that settled at once, or that never did."""
        nothing_to_choose = bool((self.controller.mask.sum(dim=-1) <= 1).all())
        if self.epoch == 0 or nothing_to_choose:
            return []
        early = float(self._entropies[: max(1, self.epoch // 4)].min())
        last = mean_entropy(self._probs()[0], self.controller.mask)
        found = []
        if early < SETTLED:
            found.append(
                "The mixture collapsed: within the first quarter of the search its entropy fell to "
                f"{early:.2f} of 1, before the weights of most ops were trained; use a lower "
                f"--architecture-lr, now {self.settings.architecture_lr:g}."
            )
        if last > UNDECIDED:
            found.append(
                f"The mixture never sharpened: its entropy is still {last:.2f} of 1, so that the "
                "network derived from it is little better than a random one; use more --epochs or "
                f"a higher --architecture-lr, now {self.settings.architecture_lr:g}."
            )
        return found

    def tensors(self) -> dict[str, Tensor]:
        tensors = {"generator": self._generator.get_state(), "entropies": self._entropies}
        tensors |= above("supernet/", self.shared.tensors())
        return tensors | above("choosers/", learned(self._choosers, self.architecture_optimizer))

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._generator.set_state(tensors["generator"])
        self._entropies = like(self._entropies, tensors["entropies"])
        self.shared.load(below("supernet/", tensors))
        load_learned(self._choosers, self.architecture_optimizer, below("choosers/", tensors))
