"""The whole job: search, train the candidates, choose, evaluate, and compare with controls."""

import statistics
import time
from typing import Any

import torch

from pdnas.errors import SearchError
from pdnas.job import Cell, Job, Progress, Searcher, Tuner, make_job, settle_job
from pdnas.pipeline.budget import TUNE_SHARE, Budget
from pdnas.pipeline.contest import best_of
from pdnas.pipeline.finals import Finals, controls
from pdnas.pipeline.ledger import Ledger
from pdnas.pipeline.outcome import Outcome, Stopped
from pdnas.pipeline.plan import make_plan
from pdnas.pipeline.problems import check_incumbents, check_recorded, grid
from pdnas.pipeline.searches import Searches
from pdnas.pipeline.trials import Trials
from pdnas.runs import RECIPE, Result, RunDirectory, Trial
from pdnas.search import Problem
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.device import find_device
from pdnas.training.parallel import by_first, is_first, world
from pdnas.watcher import Watcher


def search(
    task: GraphTask,
    job: Job | None = None,
    *,
    device: str | torch.device = "auto",
    run: RunDirectory | None = None,
    watcher: Watcher | None = None,
    tuner: Tuner | None = None,
    searcher: Searcher | None = None,
    started: float | None = None,
    **settings: Any,
) -> Result:
    """Find the network that fits a task: search, train the candidates, choose, evaluate.

    Selection uses validation only. The test part is read once for each final training, after all
    choices are made.

    Args:
        task: What the network is for.
        job: What to do; by default a job of the other settings.
        device: Where.
        run: Where to write everything, and where to go on if something is there. Of several
            ranks the first alone has one.
        watcher: Told of what happens.
        tuner: Tunes the recipe where the job asks for it, see :mod:`pdnas.tuning`.
        searcher: Searches the grid in other processes; none: this one does, cell after cell.
        started: When the budget began to run, by ``time.monotonic``; by default now.
        settings: Fields of :class:`Job`: ``blocks=(2, 3), hidden=(32,), seeds=5`` and so on.
    """
    if job is not None and settings:
        raise SearchError(
            f"Both a job and settings ({', '.join(settings)}) were given; give one of the two."
        )
    job = make_job(**settings) if job is None else job
    job.check()
    return Pipeline(
        job,
        task.to(find_device(str(device))),
        run=run,
        watcher=watcher or Watcher(),
        tuner=tuner,
        searcher=searcher,
        started=time.monotonic() if started is None else started,
    ).run()


class Pipeline:
    """A job at work.

    Args:
        job: What to do.
        task: On the device to work on.
        run: Where to write, and where to go on.
        watcher: Told of what happens.
        tuner: Tunes the recipe, where the job asks for it.
        started: When the budget began to run, by ``time.monotonic``.
        searcher: Searches the grid in other processes; none: this one does, cell after cell.
        sharers: How many processes share the memory of the device.
    """

    def __init__(
        self,
        job: Job,
        task: GraphTask,
        *,
        run: RunDirectory | None,
        watcher: Watcher,
        started: float,
        tuner: Tuner | None = None,
        searcher: Searcher | None = None,
        sharers: int = 1,
    ) -> None:
        if job.tune and tuner is None:
            raise SearchError(
                f"The job asks for {job.tune} trials of a tuning, but there is no tuner; call "
                "pdnas.search, or give tuner=pdnas.tuning.RecipeTuner(...)."
            )
        if job.tune and world() > 1:
            raise SearchError(
                f"The job asks for {job.tune} trials of a tuning, which several processes cannot "
                "share; leave --tune out, and tune what was found with pdnas tune --workers."
            )
        if searcher is not None and world() > 1:
            raise SearchError(
                "Several processes share this search already; leave out --workers and --executor, "
                "or start it without torchrun."
            )
        self.task, self.watcher = task, watcher
        self._tuner, self._searcher, self._sharers = tuner, searcher, sharers
        self._ledger = Ledger(run, started, watcher.noted)
        self.job = job = self._settled(job)
        self._problems = grid(job, task, watcher)
        check_incumbents(job, self._problems)
        self._budget = Budget(job, len(self._problems), self._ledger)
        self._searches = Searches(
            job, self._problems, ledger=self._ledger, budget=self._budget, watcher=watcher
        )
        self._begin()

    def _settled(self, job: Job) -> Job:
        """The job with what a step sees decided: as the run says, or now."""
        return job if job.recipe.is_decided else by_first(lambda: self._decided(job))

    def _decided(self, job: Job) -> Job:
        known = self._ledger.job_recipe
        if known is not None:
            return job.model_copy(update={"recipe": known})
        device = self.task.graphs[0].y.device
        return settle_job(
            job, self.task, device=device, tell=self.watcher.noted, sharers=self._sharers
        )

    def run(self) -> Result:
        """Do what is left to do; a job that is interrupted keeps the best network so far."""
        try:
            self.choose()
            self._tune()
            self._evaluate()
        except KeyboardInterrupt:
            if not is_first():
                raise
            self._ledger.note_time()
            self._finish("interrupt")
            raise
        result = self._finish(None if self._is_whole() else "budget")
        self.watcher.ended(result)
        return result

    def _is_whole(self) -> bool:
        """Whether every final training and every control is there, none of them cut short."""
        progress = self.progress
        finals = {f"seed {training.seed}" for training in progress.finals}
        controls = {
            name
            for name, trainings in progress.controls.items()
            if len(trainings) == self.job.seeds
        }
        wanted = {*map("seed {}".format, self.job.final_seeds), *self.job.controls}
        return not progress.cut and wanted <= {*finals, *controls, *progress.lost}

    def choose(self) -> Trial:
        """Search every cell of the grid and train the candidates: the chosen one."""
        self.search_cells()
        Trials(
            self.job,
            self.task,
            self._problems,
            ledger=self._ledger,
            budget=self._budget,
            watcher=self.watcher,
        ).run()
        if self.progress.weights is None:
            raise SearchError(
                "The losses of all candidates were no longer finite; lower the learning rate, now "
                f"{self.job.recipe.lr:g}."
            )
        return self.chosen

    def search_cells(self) -> tuple[Cell, ...]:
        """Search what is left of the grid: all cells."""
        done = len(self.progress.cells)
        if self._searcher is None:
            for number in range(done, len(self._problems)):
                self._searches.search(number)
        elif done < len(self._problems):
            self._ledger.forget_unfinished()
            jobs = [self._job_of(problem) for problem in self._problems[done:]]
            found = self._searcher(jobs, self.task, self.progress.plan, on_cell=self.watcher.found)
            for number, (cell, lines) in enumerate(found, start=done):
                history = [{**line, "cell": number} for line in lines]  # of the whole grid
                self._ledger.record(history, cells=(*self.progress.cells, cell))
        return self.progress.cells

    def _job_of(self, problem: Problem) -> Job:
        """The search of one cell, without what is decided over all of them."""
        update = {
            "blocks": (problem.num_blocks,),
            "hidden": (problem.hidden,),
            "incumbents": (),
            "tune": 0,
            "budget_seconds": None,
            "budget_trials": None,
        }
        return self.job.model_copy(update=update)

    def _begin(self) -> None:
        """Go on where the run ended, or make a plan."""
        if self._ledger.resume(self.task, len(self._problems)):
            check_recorded(self.progress, self.job, self._problems)
            return
        plan = make_plan(self.job, self._problems, self._tuner, self._ledger.elapsed)
        self._ledger.begin(Progress.new(self.job, self.task, plan))
        self.watcher.planned(plan, self._problems)

    @property
    def progress(self) -> Progress:
        """How far the job has come."""
        return self._ledger.progress

    @property
    def chosen(self) -> Trial:
        """See :func:`best_of`."""
        return best_of(self.progress.trials, self.task)

    @property
    def choice_val(self) -> float:
        """What the choice rests on: the mean validation of the chosen one's brief trainings."""
        chosen = self.chosen.architecture, self.chosen.hidden
        trials = self.progress.trials
        return statistics.fmean(t.val for t in trials if (t.architecture, t.hidden) == chosen)

    @property
    def recipe(self) -> Recipe:
        """How final networks are trained: as the tuning says, or the job."""
        return self.progress.recipe or self.job.recipe

    def _tune(self) -> None:
        """Tune the recipe of the chosen network."""
        if self._tuner is None or not self.job.tune or self.progress.recipe is not None:
            return
        began = time.monotonic()
        recipe = self._tuner(
            self.chosen.architecture,
            self.task,
            hidden=self.chosen.hidden,
            base=self.job.recipe,
            seed=self.job.trial_seed,
            is_late=lambda: self._budget.is_late(TUNE_SHARE),
            on_trial=self.watcher.tuned,
        )
        if self._ledger.run is not None:
            recipe.undecided.save(self._ledger.run.path / RECIPE)
        self._ledger.record([], recipe=recipe, tune_seconds=time.monotonic() - began)

    def _evaluate(self) -> None:
        """Train the chosen network and its controls with every final seed."""
        chosen = self.chosen
        finals = Finals(
            self.job,
            self.task,
            chosen,
            self.recipe,
            ledger=self._ledger,
            budget=self._budget,
            watcher=self.watcher,
        )
        finals.train_chosen()
        finals.train_controls(controls(self.job, chosen, self._problems))

    def _finish(self, stopped: Stopped) -> Result:
        """What came of the job, written down."""
        outcome = Outcome(
            self.job,
            self.task,
            self._problems,
            progress=self.progress,
            weights=self._ledger.weights,
            search=self._searches.latest,
        )
        return self._ledger.write_result(outcome.result(stopped), self.task)
