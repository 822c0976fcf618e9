"""The paper's search: a controller chooses ops, a router chooses shortcuts, both by gradient."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from pdnas.architecture import Architecture
from pdnas.errors import SearchError
from pdnas.models import GraphNetwork
from pdnas.registry import Registry
from pdnas.runs import MOST
from pdnas.search.additive import AdditiveModel
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
    once,
    per_mille,
    per_mille_of_ops,
    ranked,
)
from pdnas.supernet import Controller, GraphSummary, Router, candidate_mask
from pdnas.supernet.controller import Form
from pdnas.supernet.relaxation import (
    GateNoise,
    factors,
    mean_entropy,
    noisy_probs,
    temperature,
)
from pdnas.supernet.router import Gating
from pdnas.training.batching import Batch
from pdnas.training.fit import DIGITS
from pdnas.training.parallel import agreed

Estimator = Literal["scaled", "straight-through", "additive"]

SEEN = ("choices", "values", "groups")
"""What the additive model remembers."""

REFIT = 10
"""Epochs between two fits of the additive model."""

LINE = 800
"""Bytes of probabilities in a line of the history; deeper networks record them less often."""


@STRATEGIES.register("pdnas")
class Pdnas(Strategy):
    """Settings of the paper's search; the defaults are those that validation favors."""

    name: Literal["pdnas"] = "pdnas"
    train_steps: int = Field(1, ge=1, le=MOST, description="Steps of the weights in each epoch.")
    weight_lr: float = Field(0.005, gt=0, description="Learning rate of the shared weights.")
    architecture_lr: float = Field(
        0.02, gt=0, description="Learning rate of the controller and the router."
    )
    anneal_start: int = Field(
        80, ge=0, le=MOST, description="Epoch from which the noise is lowered."
    )
    anneal_rate: float = Field(1.0, ge=0, description="How fast it is lowered.")
    warm_up: int = Field(
        400, ge=0, le=MOST, description="Epochs at first in which all paths are equally likely."
    )
    estimator: Estimator = Field(
        "additive",
        description="How controller and router learn: by the gradient of the validation loss, as "
        "in the paper (scaled) or free of the probabilities' scale (straight-through), or from "
        "what each choice adds to the validation metric (additive).",
    )
    controller: Form = Field("logits", description="What gives the probabilities.")
    gating: Gating = Field("hard", description="Whether shortcuts are open or shut, or in between.")
    gate_noise: GateNoise = Field("logistic", description="Noise of the shortcuts' gates.")
    graph_summary: Literal["off", "on"] = Field(
        "off", description="Whether the controller looks at the graph."
    )
    pool: int = Field(
        128,
        ge=1,
        le=MOST,
        description="Architectures that are ranked by the shared weights at the end.",
    )
    adapted: int = Field(
        32,
        ge=0,
        le=MOST,
        description="How many of them adapt the weights before they are ranked again.",
    )
    adapt_epochs: int = Field(10, ge=1, le=MOST, description="For how many epochs they do.")
    climb: Literal["off", "on"] | None = Field(
        None,
        description="Whether the rest of a budget of seconds is spent on what trainings so far "
        "promise; on unless it is off.",
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.estimator == "additive" and (self.controller, self.graph_summary) != (
            "logits",
            "off",
        ):
            raise SearchError(
                "The estimator 'additive' sets the controller's logits itself; use --controller "
                "logits and --graph-summary off with it, or another --estimator."
            )
        return self

    def start(self, problem: Problem) -> "PdnasSearch":
        return PdnasSearch(problem, self)

    @property
    def climbs(self) -> bool:
        return self.climb != "off"

    @property
    def refining(self) -> int:
        """Rating an architecture takes about a third of an epoch."""
        return math.ceil(self.pool / 3) + self.adapted * self.adapt_epochs

    def lasting(self, epochs: int) -> Self:
        """All shrinks or grows by as much: the warm-up, the start of the annealing, the pool."""
        part = epochs / self.epochs
        return self.changed(
            epochs=epochs,
            anneal_start=round(part * self.anneal_start),
            warm_up=round(part * self.warm_up),
            pool=max(1, round(part * self.pool)),
            adapted=round(part * self.adapted),
        )


PRESETS: Registry[str, Pdnas] = Registry("preset")
"""Settings of the search that have a name."""

PRESETS.register("default")(Pdnas())
PRESETS.register("straight-through")(
    Pdnas(estimator="straight-through", architecture_lr=0.02, warm_up=0, adapted=0)
)
PRESETS.register("paper")(
    Pdnas(
        epochs=400,
        train_steps=1,
        weight_lr=0.005,
        architecture_lr=0.002,
        anneal_start=80,
        anneal_rate=1.0,
        warm_up=0,
        estimator="scaled",
        controller="mlp",
        gating="soft",
        gate_noise="gumbel",
        graph_summary="off",
        pool=1,
        adapted=0,
        climb="off",
    )
)
# Every path as likely from the first to the last epoch, and nothing learned of the ops.
PRESETS.register("uniform")(Pdnas(estimator="straight-through", warm_up=400, adapted=0))


class PdnasSearch(Search):
    """Algorithm 1 of the paper, an epoch at a time.

    Args:
        problem: What to solve.
        settings: How.
    """

    def __init__(self, problem: Problem, settings: Pdnas) -> None:
        super().__init__(problem, settings.epochs)
        self.settings = settings
        self.shared = SharedWeights(problem, settings.weight_lr)
        self.supernet = self.shared.supernet
        self.summary = None
        if settings.graph_summary == "on":
            self.summary = GraphSummary(problem.task.in_channels).to(problem.device)
        # Controller and router stay on the CPU: they are small, what they choose must be known
        # there, and a GPU need not be waited for.
        self.controller = Controller(
            candidate_mask(problem.space, problem.num_blocks),
            form=settings.controller,
            summary_width=self.summary.weight_2.size(1) if self.summary else 0,
        )
        self.router = Router(
            fitting_gates(problem), noise=settings.gate_noise, gating=settings.gating
        )
        self._choosers = nn.ModuleList([self.controller, self.router])
        if self.summary is not None:
            self._choosers.append(self.summary)
        self.architecture_optimizer = torch.optim.Adam(
            self._choosers.parameters(), lr=settings.architecture_lr, fused=True
        )
        mask = self.controller.mask
        self._uniform = mask / mask.sum(dim=-1, keepdim=True)
        self._generator = torch.Generator().manual_seed(problem.seed)
        self._entropies = torch.zeros(settings.epochs)
        self._model = AdditiveModel(self.controller.mask.numel() + len(self._gates()))
        numbers = int(self.controller.mask.sum()) + 2 * int(self.router.possible.sum())
        self._stride = math.ceil(5 * numbers / LINE)

    def step(self, stop: Callable[[], bool] = never) -> SearchEpoch:  # noqa: ARG002 - it is short
        """Sample a path, step its weights on training, then controller and router on validation."""
        settings, warming = self.settings, self.epoch < self.settings.warm_up
        heat = temperature(
            self.epoch,
            epochs=settings.epochs,
            anneal_start=settings.anneal_start,
            anneal_rate=settings.anneal_rate,
        )
        op_probs = self._op_probs()
        noisy = noisy_probs(
            self._uniform if warming else op_probs, heat, self.controller.mask, self._generator
        )
        gates = self.router(heat, self._generator, fair=warming)
        op_index, architecture = agreed(self._choose(noisy, gates))
        network = self._lend(architecture)

        soft = gates.detach().to(self.problem.device) if settings.gating == "soft" else None
        for _ in range(settings.train_steps):
            train_loss = self.shared.step(network, self.epoch, gates=soft)

        if warming or settings.estimator == "additive":
            judged = self.shared.judge(network, gates=soft)
        else:
            chosen = noisy.gather(-1, op_index.unsqueeze(-1)).squeeze(-1)  # P[Index], [L, K]
            judged = self._step_architecture(network, chosen, gates)

        figures = agreed(torch.stack([train_loss, *judged]).tolist())
        if not math.isfinite(sum(figures)):
            raise SearchError(
                f"The loss is no longer finite at epoch {self.epoch} of the search; lower "
                f"--weight-lr, now {settings.weight_lr:g}."
            )
        epoch = self._record(figures, heat, op_index, op_probs, self._taken(gates, architecture))
        self.epoch += 1
        if settings.estimator == "additive":
            self._learn(architecture, figures[2])
        return epoch

    def _op_probs(self) -> Tensor:
        r""":math:`\bar P^g`, ``[L, K, T]``."""
        summary = None
        if self.summary is not None:
            parts = [self.summary(batch.x, batch.adjacency) for batch in self.shared.val.in_order()]
            summary = torch.stack(parts).mean(dim=0).cpu()
        probs: Tensor = self.controller(summary)
        return probs

    def _choose(self, op_probs: Tensor, gates: Tensor) -> tuple[Tensor, Architecture]:
        """The likeliest op of each slot, within the number of parameters: indices and value."""
        op_index = op_probs.detach().argmax(dim=-1)  # [L, K]
        architecture = self.supernet.architecture(op_index, gates)
        fitting = self.problem.shrink(architecture, op_probs.detach(), self.router.probs())
        if fitting is not architecture:
            op_index = self.supernet.op_index(fitting)
        return op_index, fitting

    def _taken(self, gates: Tensor, architecture: Architecture) -> Tensor:
        """The gates of the path that was taken: hard ones may have been closed to save room."""
        if self.settings.gating == "soft":
            return gates.detach()
        taken = torch.zeros_like(self.router.gate_logits)
        for i, j in architecture.gates:
            taken[i, j] = 1.0
        return taken

    def _lend(self, architecture: Architecture) -> GraphNetwork:
        """The network of a path; with soft gates every shortcut is part of it."""
        if self.settings.gating == "soft":
            every = [(i, j) for i, j in self._gates() if self.router.possible[i, j]]
            architecture = architecture.model_copy(update={"gates": tuple(sorted(every))})
        return self.supernet.network(architecture)

    def _step_architecture(self, network: GraphNetwork, chosen: Tensor, gates: Tensor) -> Judged:
        """One step of controller and router; what the validation part says.

        The gradient is found for the few probabilities first and led through the controller and
        the router once, however many batches there are.
        """
        estimator, device = self.settings.estimator, self.problem.device
        assert estimator != "additive"
        leaves = [part.detach().to(device).requires_grad_() for part in (chosen, gates)]

        def forward(batch: Batch) -> Tensor:
            scale = self.supernet.factors(network.architecture, factors(leaves[0], estimator))
            output: Tensor = network(batch.x, batch.adjacency, factors=scale, gates=leaves[1])
            return output

        grads, judged = self.shared.slopes(network, leaves, forward)
        self.architecture_optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([chosen, gates], [grad.cpu() for grad in grads])
        self.architecture_optimizer.step()
        return judged

    def _learn(self, architecture: Architecture, val: float) -> None:
        """Add a path and its validation to what is known, and now and then follow it."""
        if self.epoch > self.epochs // 4:  # before, the weights say nothing yet
            self._model.observe(self._choices(architecture), val)
            if self.epoch % REFIT == 0 or self.is_over:
                self._follow_effects()

    def _choices(self, architecture: Architecture) -> Tensor:
        """A 1 for every op and every gate of an architecture, ``[D]``: first ops, then gates."""
        index = self.supernet.op_index(architecture).unsqueeze(-1)
        ops = torch.zeros(self.controller.mask.shape).scatter_(-1, index, 1.0)
        gates = torch.tensor([gate in architecture.gates for gate in self._gates()])
        return torch.cat([ops.flatten(), gates])

    @torch.no_grad()
    def _follow_effects(self) -> None:
        """Make every logit what the choice adds to the metric, in units of its standard error."""
        effects, errors = self._model.effects()
        scores = (effects / errors).to(self.controller.prior)
        self.controller.prior.copy_(scores[: self.controller.mask.numel()])
        for (i, j), value in zip(
            self._gates(), scores[self.controller.mask.numel() :], strict=True
        ):
            self.router.gate_logits[i, j] = value

    def _record(
        self, figures: list[float], heat: float, op_index: Tensor, op_probs: Tensor, gates: Tensor
    ) -> SearchEpoch:
        """The epoch as plain values; probabilities are per mille, which keeps the line short."""
        probs, mask = op_probs.detach(), self.controller.mask
        self._entropies[self.epoch] = self._entropy(probs)
        details: dict[str, Any] = {"temperature": round(heat, DIGITS), "path": op_index.tolist()}
        possible = self.router.possible
        if self.epoch % self._stride == 0 or self.epoch == self.epochs - 1:
            details["op_probs"] = per_mille_of_ops(probs, mask)
            details["gate_probs"] = per_mille(self.router.probs()[possible])
        details["gates"] = per_mille(gates[possible])
        train_loss, val_loss, val = (round(figure, DIGITS) for figure in figures)
        return SearchEpoch(self.epoch, train_loss, val_loss, val, details)

    def _entropy(self, op_probs: Tensor) -> float:
        """How open the choices are, on the mean: 1 if nothing is known, 0 if all is settled."""
        return mean_entropy(op_probs, self.controller.mask)

    @torch.no_grad()
    def favored(self) -> Architecture:
        """The noise-free choice: the likeliest op of every slot, the gates that are likely open."""
        return self.shared.likeliest(self._op_probs(), self.router.probs())

    def candidates(self, stop: Callable[[], bool] = never) -> list[Candidate]:
        """The favored one and others drawn from controller and router, ranked by validation.

        All are rated by the shared weights. With the additive estimator only half of them are
        drawn so, and the others blindly, since what it learned of the ops may be wrong; the best
        of both halves take turns.
        """
        probs, gate_probs = self._op_probs().detach(), self.router.probs()
        count, rate = self.settings.pool, self.shared.rate_all
        if self.settings.estimator != "additive":
            return ranked(rate(self._draw(probs, gate_probs, count, stop), stop))
        blind = self._draw(self._uniform, 0.5 * self.router.possible, count // 2, stop)
        drawn = self._draw(probs, gate_probs, count - count // 2, stop)
        favored = rate(drawn, stop)
        for candidate in favored:
            self._model.observe(self._choices(candidate.architecture), candidate.val, group=1)
        return _alternate(self._rank(favored), ranked(rate(blind, stop)))

    def refine(
        self, candidates: list[Candidate], stop: Callable[[], bool] = never
    ) -> list[Candidate]:
        """Let the first candidates adapt the weights to themselves, and rank these by that."""
        count, epochs = self.settings.adapted, self.settings.adapt_epochs
        first = [
            entry if stop() else self.shared.adapt(entry.architecture, epochs)
            for entry in candidates[:count]
        ]
        return ranked(first) + candidates[count:]

    def _draw(
        self, op_probs: Tensor, gate_probs: Tensor, count: int, stop: Callable[[], bool]
    ) -> list[Architecture]:
        """The likeliest architecture and random ones, different from each other."""
        return self.shared.draw(op_probs, gate_probs, count, self._generator, stop)

    def _rank(self, rated: list[Candidate]) -> list[Candidate]:
        """By the sum of two places: what the candidates' ops are worth, and their validation."""
        worth = self.worth([candidate.architecture for candidate in rated])
        val = [candidate.val for candidate in rated]
        from scipy.stats import rankdata  # takes a second to import

        places = rankdata(worth) + rankdata(val)  # equals share their place
        return [rated[number] for number in sorted(range(len(rated)), key=lambda n: -places[n])]

    def worth(self, architectures: Sequence[Architecture]) -> Tensor:
        """What the additive model says of architectures, by their ops and gates alone, ``[n]``."""
        choices = torch.stack([self._choices(architecture) for architecture in architectures])
        return choices.double() @ self._model.effects()[0]

    def network(self, architecture: Architecture) -> GraphNetwork:
        return self.shared.network(architecture)

    def warnings(self) -> list[str]:
        """A controller that settled at once, or that never did."""
        nothing_to_choose = bool((self.controller.mask.sum(dim=-1) <= 1).all())
        nothing_learned = (
            self.settings.estimator != "additive" and self.settings.warm_up >= self.epoch
        )
        if self.epoch == 0 or nothing_to_choose or nothing_learned:
            return []
        early = float(self._entropies[: max(1, self.epoch // 4)].min())
        last = self._entropy(self._op_probs().detach())
        learns_by_rate = self.settings.estimator != "additive"
        remedy = "more --epochs" + (" or a higher --architecture-lr" if learns_by_rate else "")
        found = []
        if early < SETTLED:
            found.append(
                "The controller collapsed: within the first quarter of the search its entropy fell "
                f"to {early:.2f} of 1, so that most ops were hardly tried; use the default "
                "--preset or a lower --architecture-lr."
            )
        if last > UNDECIDED:
            found.append(
                f"The controller never sharpened: its entropy is still {last:.2f} of 1, so that "
                f"the choice rests on the candidates' validation alone; use {remedy}."
            )
        return found

    def tensors(self) -> dict[str, Tensor]:
        tensors = {"generator": self._generator.get_state(), "entropies": self._entropies}
        tensors |= {f"model/{name}": getattr(self._model, name) for name in SEEN}
        tensors |= above("supernet/", self.shared.tensors())
        return tensors | above("choosers/", learned(self._choosers, self.architecture_optimizer))

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._generator.set_state(tensors["generator"])
        self._entropies = like(self._entropies, tensors["entropies"])
        seen = len(tensors["model/choices"])
        for name in SEEN:
            own: Tensor = getattr(self._model, name)
            own = own.new_empty(seen, *own.shape[1:])
            setattr(self._model, name, like(own, tensors[f"model/{name}"]))
        self.shared.load(below("supernet/", tensors))
        load_learned(self._choosers, self.architecture_optimizer, below("choosers/", tensors))

    def _gates(self) -> tuple[tuple[int, int], ...]:
        return self.problem.space.possible_gates(self.problem.num_blocks)


def _alternate(*ranked: list[Candidate]) -> list[Candidate]:
    """The first of each list, then the second of each, and so on; every architecture once."""
    turns = itertools.chain.from_iterable(itertools.zip_longest(*ranked))
    return once(entry for entry in turns if entry is not None)
