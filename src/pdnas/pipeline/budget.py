"""How the budget of a job is shared out: what is late, and what there is time for."""

import math
import statistics

from pdnas.job import Job, Progress
from pdnas.pipeline.contest import CLIMBERS, FINALISTS, SURE
from pdnas.pipeline.ledger import Ledger
from pdnas.training.parallel import agreed

SEARCH_SHARE, CANDIDATE_SHARE, TUNE_SHARE = 0.45, 0.75, 0.9
"""Parts of a budget after which the search, the candidates' trainings and the tuning end; of a
budget of trials, a search that trains what it tries may use the second."""

LONGEST_SEARCH, LONGEST_CANDIDATES = 0.9, 0.95
"""What the first two become at most where little is to be done afterwards."""


class Budget:
    """The seconds and the trainings that a job may take; without a budget nothing is ever late.

    Args:
        job: What is to be done, and what it may cost.
        searches: How many cells the grid has.
        ledger: What was done so far, and in what time.
    """

    def __init__(self, job: Job, searches: int, ledger: Ledger) -> None:
        self._job, self._searches, self._ledger = job, searches, ledger

    @property
    def _progress(self) -> Progress:
        return self._ledger.progress

    @property
    def _usable(self) -> float:
        """Seconds of the budget but for those that are kept for the end; no end without one."""
        if self._job.budget_seconds is None:
            return math.inf
        return self._job.budget_seconds - reserve(self._progress.plan.epoch_seconds)

    def is_late(self, share: float) -> bool:
        """Whether a part of the budget is spent, by the first rank's clock; never without one."""
        if self._job.budget_seconds is None:
            return False
        return agreed(self._ledger.elapsed() > share * self._usable)

    def training_seconds(self, now: float = 0.0, epochs: int = 0) -> float | None:
        """What a whole training of a candidate takes, as far as is known; none: not yet.

        Trials tell: those of what was trained again, or else of the best, which will be. Before
        them the searches do, where these train what they try.

        Args:
            now: Seconds of the search that is under way.
            epochs: Its epochs.
        """
        trials = self._progress.trials
        again = [trial.seconds for trial in trials if trial.seed != self._job.trial_seed]
        if trials:
            best = sorted(trials, key=lambda trial: -trial.val)[:CLIMBERS]
            return statistics.fmean(again or [trial.seconds for trial in best])
        epochs += sum(cell.epochs for cell in self._progress.cells)
        if not self._job.strategy.trained_epochs or not epochs:
            return None
        return (now + sum(cell.seconds for cell in self._progress.cells)) / epochs

    def search_share(self, training: float | None) -> float:
        """The part of a budget after which the searches end.

        Args:
            training: Seconds of a training, where they train what they try; none otherwise.
        """
        job = self._job
        if training is None:
            return SEARCH_SHARE
        count = job.candidates * self._searches + job.mutations + FINALISTS * job.repeats
        return max(SEARCH_SHARE, self._share_before(1 + count, training))

    def candidate_share(self, training: float | None) -> float:
        """The part of a budget after which the choice is made.

        Args:
            training: Seconds of a training; none: not known yet.
        """
        job = self._job
        if job.tune or training is None:
            return CANDIDATE_SHARE
        # Final trainings have twice the patience, and one training may be under way.
        count = job.seeds * (1 + len(job.controls)) * (1 + job.recipe.teachers)
        final = min(self._progress.plan.final_seconds, 2 * training * count)
        share = 1 - (final + training) / self._usable
        return max(CANDIDATE_SHARE, min(LONGEST_CANDIDATES, share))

    def _share_before(self, count: int, training: float) -> float:
        """The part of a budget that leaves time for so many trainings before the choice is made."""
        share = self.candidate_share(training) - count * training / self._usable
        return min(LONGEST_SEARCH, share)

    def is_tried_out(self) -> bool:
        """Whether the budget of trials is spent."""
        return self._job.budget_trials is not None and self._tried() >= self._job.budget_trials

    def _tried(self) -> int:
        """Trainings so far, in the searches and of candidates."""
        searched = 0
        if self._job.strategy.trained_epochs:
            searched = sum(cell.epochs for cell in self._progress.cells)
        return searched + len(self._progress.trials)

    def has_time_to_climb(self) -> bool:
        """Whether the strategy climbs and budgets leave room for that, and for the choice."""
        job, training = self._job, self.training_seconds()
        if job.budget_seconds is None or not job.strategy.climbs or not self._progress.trials:
            return False
        assert training is not None
        repeats = CLIMBERS * (SURE - 1)  # of networks that are new among the best
        if job.budget_trials is not None and self._tried() + repeats >= job.budget_trials:
            return False
        return not self.is_late(self._share_before(repeats, training))


def reserve(epoch_seconds: float) -> float:
    """Seconds kept for the last epoch, the test, the files and the way out."""
    return 2.0 + 3 * epoch_seconds
