"""Which candidates are trained next, how often, and which of them is chosen."""

import math
import statistics
from collections.abc import Sequence, Set
from functools import cached_property
from typing import NamedTuple

import torch

from pdnas.architecture import Architecture
from pdnas.job import Cell, Job
from pdnas.models.baselines import block_designs
from pdnas.pipeline.problems import problem_of
from pdnas.pipeline.race import Race
from pdnas.runs import Trial
from pdnas.search import Problem
from pdnas.search.effects import Effects
from pdnas.tasks import GraphTask

FINALISTS = 3
"""Candidates that are trained again, beside incumbents: one training is a matter of luck."""

TELLING = 3
"""Trainings of each from which their spread tells how far a mean can be trusted."""

SURE = 6
"""Trainings of each of the best few of many, the lucky ones of which must be told apart."""

CLIMBERS = 5
"""Networks that are trained until it is sure which of them is the best, after a climb."""

CHANGES = 100
"""Changes of a candidate that are looked at before it is said that all were tried."""


class Entry(NamedTuple):
    """A training to be done.

    Args:
        architecture: Of what.
        hidden: Its hidden size.
        estimate: What the search says of it; none where it says nothing.
        seed: Of the training.
        race: What it must keep up with.
    """

    architecture: Architecture
    hidden: int
    estimate: float | None
    seed: int
    race: Race


class Contest:
    """What is trained to choose a network, in order.

    First every candidate of the searches and what people have designed, then changes of the best;
    where time is left, what the trainings so far promise most of. The best are trained again, since
    one training is a matter of luck.

    Args:
        job: What decides how many.
        problems: The cells of the grid.
        cells: What their searches proposed.
    """

    def __init__(self, job: Job, problems: Sequence[Problem], cells: Sequence[Cell]) -> None:
        self.job, self.problems, self.cells = job, problems, cells

    def following(self, trials: Sequence[Trial], *, has_time: bool) -> Entry | None:
        """What to train next; none: enough.

        Args:
            trials: What was trained so far, in order.
            has_time: Whether there is time to climb, where the strategy does.
        """
        job, queue = self.job, self.queue
        first = [trial for trial in trials if trial.seed == job.trial_seed]
        repeated = len(trials) - len(first)
        if len(first) < len(queue):
            architecture, hidden, estimate = queue[len(first)]
            race = self._race([] if estimate is None else first)  # designs are trained to the end
            return Entry(architecture, hidden, estimate, job.trial_seed, race)
        leaders = sorted(first, key=lambda trial: -trial.val)
        asked = len(queue) + job.mutations
        if len(first) < asked and not repeated:
            changed = self._change(leaders[0], trials)
            if changed is not None:
                return changed
        if has_time and not repeated:  # once some are trained again, the climb is over
            proposed = self._propose(trials)
            if proposed is not None:
                return proposed
        incumbents = {job.space.plain(architecture) for architecture in job.incumbents}
        if len(first) > asked:
            return self._doubted(trials, incumbents)
        finalists = [
            trial
            for rank, trial in enumerate(leaders)
            if rank < FINALISTS or trial.architecture in incumbents
        ]
        if len(first) == 1 or repeated == job.repeats * len(finalists):
            return None
        return self._again(finalists[repeated % len(finalists)], 1 + repeated // len(finalists))

    def _doubted(self, trials: Sequence[Trial], incumbents: Set[Architecture]) -> Entry | None:
        """One of the best that was not trained often enough to tell whether it is, in turn.

        A network that was lucky is among the best until it is trained again.
        """
        watched = [
            own
            for rank, own in enumerate(ranked(trials))
            if rank < CLIMBERS or own[0].architecture in incumbents
        ]
        least = min(watched, key=len)
        if len(least) >= max(SURE, 1 + self.job.repeats):
            return None
        return self._again(least[0], len(least))

    def _propose(self, trials: Sequence[Trial]) -> Entry | None:
        """What all trainings so far promise most of, or a change of one of the best.

        The shape is that of one of the best in turn.
        """
        networks = ranked(trials)
        leaders, turn = networks[:CLIMBERS], len(trials) % CLIMBERS
        parents = [*leaders[turn:], *leaders[:turn], *networks[CLIMBERS:]]
        problem = problem_of(parents[0][0], self.problems)
        if problem.places:
            alike = {
                own[0].architecture: _mean(own)
                for own in networks
                if problem_of(own[0], self.problems) is problem
            }
            generator = torch.Generator().manual_seed(self.job.seed + len(trials))
            proposed = Effects(problem, alike).propose(alike, generator)
            if proposed is not None:
                return self._first(proposed, problem.hidden, trials)
        changes = (self._change(own[0], trials) for own in parents)
        return next((changed for changed in changes if changed is not None), None)

    def _first(self, architecture: Architecture, hidden: int, trials: Sequence[Trial]) -> Entry:
        """The first training of what the search did not propose."""
        seed = self.job.trial_seed
        race = self._race([trial for trial in trials if trial.seed == seed])
        return Entry(architecture, hidden, None, seed, race)

    def _again(self, trial: Trial, number: int) -> Entry:
        """Another training of what was trained so many times."""
        seed, race = self.job.trial_seed + number, self._race([])
        return Entry(trial.architecture, trial.hidden, trial.shared_val, seed, race)

    def _race(self, others: Sequence[Trial]) -> Race:
        return Race([trial.rungs for trial in others], self.job.recipe.epochs)

    def _change(self, trial: Trial, trials: Sequence[Trial]) -> Entry | None:
        """What differs in one choice and was not tried; none if none is found."""
        tried = {(one.architecture, one.hidden) for one in trials}
        generator = torch.Generator().manual_seed(self.job.seed + len(trials))
        problem = problem_of(trial, self.problems)
        for _ in range(CHANGES):
            changed = problem.neighbor(trial.architecture, generator)
            if (changed, trial.hidden) not in tried:
                return self._first(changed, trial.hidden, trials)
        return None

    @cached_property
    def queue(self) -> list[tuple[Architecture, int, float | None]]:
        """What is trained at first, with its hidden size and what the search says of it.

        The first candidate of each search, then the second of each, and so on; then what people
        have designed within the space.
        """
        turns = [
            (rank, number, cell, candidate)
            for number, cell in enumerate(self.cells)
            for rank, candidate in enumerate(cell.candidates)
        ]
        turns.sort(key=lambda entry: entry[:2])
        queue: dict[tuple[Architecture, int], float | None] = {
            (candidate.architecture, cell.hidden): candidate.val for _, _, cell, candidate in turns
        }
        for design in designs(self.job, self.problems):
            queue.setdefault(design, None)
        return [(*what, estimate) for what, estimate in queue.items()]


def designs(job: Job, problems: Sequence[Problem]) -> list[tuple[Architecture, int]]:
    """What there was before: members of the space, of a depth that is searched, that fit."""
    space, known = job.space, list(job.incumbents)
    if job.designs == "on":
        known += block_designs()
    return [
        (architecture, problem.hidden)
        for problem in problems
        for architecture in dict.fromkeys(space.plain(one) for one in known)
        if architecture in space
        and architecture.num_blocks == problem.num_blocks
        and problem.fits(architecture)
    ]


def trained(trials: Sequence[Trial]) -> list[list[Trial]]:
    """The trainings of each network, in the order of the first."""
    found: dict[tuple[Architecture, int], list[Trial]] = {}
    for trial in trials:
        found.setdefault((trial.architecture, trial.hidden), []).append(trial)
    return list(found.values())


def ranked(trials: Sequence[Trial]) -> list[list[Trial]]:
    """The trainings of each network, the best mean first."""
    return sorted(trained(trials), key=lambda own: -_mean(own))


def best_of(trials: Sequence[Trial], task: GraphTask) -> Trial:
    """Of the networks that were trained again the first trial of that with the best mean.

    Where each was trained often enough to tell, it is the smallest within one standard error of
    the best: it may well be as good, and depends on fewer weights (Breiman et al., Classification
    and Regression Trees, 1984).

    Args:
        trials: All trainings of all networks.
        task: What they are for.
    """
    networks = trained(trials)
    rivals = [own for own in networks if len(own) > 1] or networks
    means = [_mean(own) for own in rivals]
    least = max(means) - _standard_error(rivals)
    _, _, chosen = min(
        (own[0].architecture.parameters(task, own[0].hidden), -mean, number)
        for number, (own, mean) in enumerate(zip(rivals, means, strict=True))
        if mean >= least
    )
    return rivals[chosen][0]


def _mean(trials: Sequence[Trial]) -> float:
    return statistics.fmean(trial.val for trial in trials)


def _standard_error(rivals: Sequence[Sequence[Trial]]) -> float:
    """Of a mean validation, from how much the trainings of each differ; 0 where there are few."""
    fewest = min(len(own) for own in rivals)
    if fewest < TELLING:
        return 0.0
    spread = statistics.fmean(statistics.variance(trial.val for trial in own) for own in rivals)
    return math.sqrt(spread / fewest)
