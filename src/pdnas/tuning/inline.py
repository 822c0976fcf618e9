"""Recipes tuned here and now, one trial after the other: what a search does with its network."""

from collections.abc import Callable
from pathlib import Path

from pdnas.errors import PdnasError
from pdnas.models import Design
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.storage import JournalFile
from pdnas.tuning.study import AGAIN, FINALISTS, RecipeStudy
from pdnas.tuning.work import TrainingOutcome, TrainingWork, reason_of

SEEDS = 2
"""Trainings of each trial."""


class RecipeTuner:
    """Tunes the recipe of the network that a search found; see :class:`pdnas.job.Tuner`.

    Args:
        trials: How many recipes to try.
        journal: The file that keeps the trials; none: they are not kept.
    """

    def __init__(self, trials: int, journal: Path | None = None) -> None:
        self._trials, self._journal = trials, journal

    @property
    def trainings(self) -> int:
        """Whole trainings that it takes at most."""
        return SEEDS * (self._trials + AGAIN * min(FINALISTS, self._trials))

    def __call__(
        self,
        architecture: Design,
        task: GraphTask,
        *,
        hidden: int,
        base: Recipe,
        seed: int,
        is_late: Callable[[], bool],
        on_trial: Callable[[int, int], None],
    ) -> Recipe:
        study = RecipeStudy(
            architecture,
            base,
            fields=tuple(RANGES),
            trials=self._trials,
            seeds=SEEDS,
            seed=seed,
            storage=None if self._journal is None else JournalFile(self._journal),
        )
        while not is_late() and (asked := study.ask()) is not None:
            on_trial(len(study.trials), study.wanted)
            number = asked.number
            work = TrainingWork(
                task=task.name,
                architecture=architecture,
                hidden=hidden,
                recipe=asked.recipe,
                seeds=asked.seeds,
            )

            def report(epoch: int, val: float, number: int = number) -> bool:
                return study.report(number, epoch, val)

            try:
                outcome = TrainingOutcome.model_validate(work.do(task, report, is_late))
            except PdnasError as error:
                study.failed(number, reason_of(error))
            else:
                study.ended(number, outcome)
        return study.best
