"""What came of a job: the best network so far, and what must be said of it."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.job import Cell, Job, Progress
from pdnas.models import GraphNetwork
from pdnas.pipeline.contest import best_of
from pdnas.pipeline.finals import controls
from pdnas.runs import Control, Difference, Result, Scores, SearchReport, Trial, fill
from pdnas.search import Problem, Search
from pdnas.tasks import GraphTask
from pdnas.training.batching import Batches
from pdnas.training.epochs import evaluate
from pdnas.training.fit import DIGITS, read_test
from pdnas.training.seeds import Training, sum_up

Stopped = Literal["budget", "interrupt"] | None
"""Why a job ended early, if it did."""

DISAGREEMENT = 0.0
"""Rank correlation below which the shared weights are said to mislead."""

COARSE = 0.05
"""How far from a validation the true share may lie, in 95 of 100 cases, before that is said."""

WORTH = 0.25
"""The part of its epochs without which a search learns little."""


class Outcome:
    """What came of a job, as far as it has come.

    Args:
        job: What was to be done.
        task: On the device to work on.
        problems: The cells of the grid.
        progress: What was done.
        weights: The best so far; nothing before the first training.
        search: The latest; none where all are over since the job was resumed.
    """

    def __init__(
        self,
        job: Job,
        task: GraphTask,
        problems: Sequence[Problem],
        *,
        progress: Progress,
        weights: Mapping[str, Tensor],
        search: Search | None,
    ) -> None:
        self._job, self._task, self._problems = job, task, problems
        self._progress, self._weights, self._search = progress, weights, search
        self._recipe = progress.recipe or job.recipe

    @property
    def _chosen(self) -> Trial:
        return best_of(self._progress.trials, self._task)

    def result(self, stopped: Stopped) -> Result:
        """The best network so far: of the final trainings, or of the trials, or as searched."""
        weights = self._weights
        if self._progress.finals:
            architecture, hidden = self._chosen.architecture, self._chosen.hidden
            trainings = list(self._progress.finals)
        elif weights:
            best = max(self._progress.trials, key=lambda trial: trial.val)
            architecture, hidden = best.architecture, best.hidden
            trainings = [self._of_trial(best, weights)]
        else:
            architecture, hidden, training, weights = self._of_search()
            trainings = [training]
        result = sum_up(
            architecture,
            [self._task],
            trainings,
            hidden=hidden,
            recipe=self._recipe,
            seeds=[training.seed for training in trainings],
        )
        cells = self._progress.cells
        rates = [training.seconds / max(training.epochs, 1) for training in trainings]
        report = SearchReport(
            settings=self._job.strategy.model_dump(mode="json"),
            seed=self._job.seed,
            epochs=next(
                (
                    c.epochs
                    for c in cells
                    if (c.num_blocks, c.hidden) == (architecture.num_blocks, hidden)
                ),
                self._search.epoch if self._search else 0,
            ),
            trials=self._progress.trials,
            controls=tuple(self._control(name) for name in self._progress.controls),
            rank_correlation=rank_correlation(self._progress.trials),
            training_seconds=self._recipe.epochs * statistics.median(rates),
            candidate_seconds=sum(cell.refine_seconds for cell in cells)
            + sum(trial.seconds for trial in self._progress.trials),
            warnings=tuple(self._warnings(result.val, result.seeds, stopped)),
            stopped=stopped,
        )
        update = {
            "strategy": self._job.strategy.name,
            "space": self._job.space.name,
            "search_seconds": sum(cell.seconds for cell in cells),
            "search": report,
            "tune_seconds": self._progress.tune_seconds,
        }
        return result.model_copy(update=update).with_weights(weights)

    def _of_trial(self, trial: Trial, weights: Mapping[str, Tensor]) -> Training:
        """A trial as the result, where there was no time for more; its test is read here."""
        network = GraphNetwork(trial.architecture, self._task, trial.hidden)
        fill(network, weights)
        return Training(
            split_seed=self._task.split.seed,
            seed=trial.seed,
            epoch=trial.epoch,
            val=trial.val,
            test=read_test(network.to(self._task.graphs[0].y.device), self._task),
            epochs=trial.epochs,
            seconds=trial.seconds,
        )

    def _of_search(self) -> tuple[Architecture, int, Training, dict[str, Tensor]]:
        """What the search favors, with the weights that it shares, where nothing else is there."""
        if self._search is None:
            raise KeyboardInterrupt  # before the first epoch there is nothing to keep
        architecture = self._search.favored()
        network = self._search.network(architecture)
        _, val = evaluate(network, Batches(self._task, "val"), self._task)
        weights = {name: weight.detach().cpu() for name, weight in network.state_dict().items()}
        training = Training(
            split_seed=self._task.split.seed,
            seed=self._job.seed,
            epoch=self._search.epoch,
            val=round(float(val), DIGITS),
            test=read_test(network, self._task),
            epochs=0,
            seconds=0.0,
        )
        return architecture, self._search.problem.hidden, training, weights

    def _control(self, name: str) -> Control:
        trainings = self._progress.controls[name]
        architecture = controls(self._job, self._chosen, self._problems)[name]
        return Control(
            name=name,
            architecture=architecture,
            hidden=self._chosen.hidden,
            parameters=architecture.parameters(self._task, self._chosen.hidden),
            val=Scores.of([training.val for training in trainings]),
            test=Scores.of([training.test for training in trainings]),
            seconds=sum(training.seconds for training in trainings),
            seeds=tuple(training.seed for training in trainings),
        )

    def _warnings(self, val: Scores, seeds: Sequence[int], stopped: Stopped) -> Iterator[str]:
        """What the searches say of themselves, and whether they were worth anything.

        Args:
            val: Validation of the network found.
            seeds: Of its trainings.
            stopped: Why the job ended early, if it did.
        """
        for cell in self._progress.cells:
            place = f"With {cell.num_blocks} block(s) and hidden size {cell.hidden}: "
            told = [*cell.warnings]
            if self._is_cut_short(cell):  # that is what it says of itself, in other words
                told = [
                    f"The budget left {cell.epochs} of {self._job.strategy.epochs} epochs to the "
                    "search, too few to learn much: raise --budget-seconds."
                ]
            if cell.stopped:
                told.append(
                    f"The search was ended by a callback after epoch {cell.epochs} of "
                    f"{self._progress.plan.epochs}."
                )
            for warning in told:
                yield warning if len(self._progress.cells) == 1 else place + warning
        yield from self._progress.lost.values()
        if stopped == "budget":
            yield from self._left_out()
        agreement = rank_correlation(self._progress.trials)
        if agreement is not None and agreement < DISAGREEMENT:
            yield (
                f"The search's ranking of the candidates does not agree with their training (rank "
                f"correlation {agreement:.2f}): the choice rests on their validation; try more "
                "--candidates."
            )
        for control in map(self._control, self._progress.controls):
            if control.val.mean > val.mean:
                yield _ahead(control, val, seeds)
        yield from _coarse(self._task, val)

    def _is_cut_short(self, cell: Cell) -> bool:
        """Whether a budget left a search with a schedule too little of it."""
        strategy = self._job.strategy
        is_scheduled = self._job.budget_seconds is not None and not strategy.trained_epochs
        return is_scheduled and not cell.stopped and cell.epochs < WORTH * strategy.epochs

    def _left_out(self) -> Iterator[str]:
        """What a budget left no time for."""
        job, progress = self._job, self._progress
        done = {"the network found": len(progress.finals)}
        for name in job.controls:
            if name not in progress.lost:
                done[f"the control '{name}'"] = len(progress.controls.get(name, ()))
        missing = [
            f"{name} has {count} of {job.seeds} final trainings"
            for name, count in done.items()
            if count < job.seeds
        ]
        if missing:
            yield f"The budget left out a part: {', '.join(missing)}; raise --budget-seconds."


def _ahead(control: Control, val: Scores, seeds: Sequence[int]) -> str:
    """What must be said of a control with a better validation: it is better, or nobody can tell."""
    places = [(its, own) for own, its in control.paired(seeds)]
    figures, unsure = f"{control.val} against {val} %", ""
    if not places:
        unsure = ", though no seed is in the trainings of both"
    elif Difference.between(control.val, val, places).is_noise:
        count = f"{len(places)} training{'s' if len(places) > 1 else ''}"
        return (
            f"The control '{control.name}' is level with the network found ({figures}, which "
            f"{count} cannot tell apart): take the smaller of the two, or give more --seeds."
        )
    return (
        f"The control '{control.name}' has a better validation than the network found "
        f"({figures}{unsure}): this space, shape or recipe may not suit the task; use the "
        "control, or search with another --recipe, --space, --blocks or --hidden."
    )


def _coarse(task: GraphTask, val: Scores) -> Iterator[str]:
    r"""Whether the validation part is too small to tell candidates apart.

    Of :math:`n` nodes a share :math:`p` is known to :math:`1.96 \sqrt{p (1 - p) / n}`.
    """
    if task.metric != "accuracy":
        return
    nodes = len(task.labels("val"))
    half = 1.96 * math.sqrt(val.mean * (1 - val.mean) / nodes)
    if half > COARSE:
        yield (
            f"Validation is on {nodes} nodes, on which an accuracy of {100 * val.mean:.2f} % is "
            f"known to ± {100 * half:.1f} points: differences between candidates smaller than "
            "that may be chance; label more nodes, or train what was found on ten splits with "
            "pdnas train RUN TASK --split random --split-seeds 0..9."
        )


def rank_correlation(trials: Sequence[Trial]) -> float | None:
    """Spearman's correlation of estimate and training; none where it would say nothing."""
    rated = [
        (trial.shared_val, trial.val)
        for trial in trials
        if trial.seed == trials[0].seed and trial.shared_val is not None
    ]
    shared, trained = [pair[0] for pair in rated], [pair[1] for pair in rated]
    if len(rated) < 5 or len(set(shared)) == 1 or len(set(trained)) == 1:
        return None
    from scipy.stats import spearmanr  # takes a second to import

    return round(float(spearmanr(shared, trained).statistic), DIGITS)
