"""The whole job: search, train the candidates, choose, evaluate, and compare with controls."""

import contextlib
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.contest import (
    CLIMBERS,
    FINALISTS,
    SURE,
    Contest,
    Entry,
    best_of,
    designs,
    problem_of,
)
from pdnas.errors import DivergedError, RunError, SearchError, shown
from pdnas.job import Cell, Job, Mark, Plan, Progress, Tuner, Watcher, make_job, settle_job
from pdnas.models import Design, GraphNetwork
from pdnas.models.baselines import BASELINES
from pdnas.race import KEEP_UP, RUNG
from pdnas.runs import (
    ARCHITECTURE,
    FOLDER,
    PIPELINE,
    RECIPE,
    RESULT,
    SEARCH_STATE,
    WEIGHTS,
    Control,
    Difference,
    Result,
    RunDirectory,
    Scores,
    SearchReport,
    Trial,
)
from pdnas.search import Problem, Search, SearchEpoch
from pdnas.search.shared import once
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.batching import Batches
from pdnas.training.device import find_device
from pdnas.training.epochs import WORTHWHILE, evaluate
from pdnas.training.fit import DIGITS, Epoch, Fit, read_test
from pdnas.training.parallel import agreed, by_first, is_first, world
from pdnas.training.predictions import predict_task
from pdnas.training.seeds import Training, sum_up, train_once

SEARCH_SHARE, CANDIDATE_SHARE, TUNE_SHARE = 0.45, 0.75, 0.9
"""Parts of a budget after which the search, the candidates' trainings and the tuning end; of a
budget of trials, a search that trains what it tries may use the second."""

LONGEST_SEARCH, LONGEST_CANDIDATES = 0.9, 0.95
"""What the first two become at most where little is to be done afterwards."""

TIMED = 5
"""Steps from which costs are estimated."""

WORTH = 0.25
"""The part of its epochs without which a search learns little."""

FEWEST = 10
"""Epochs without which neither a search nor a training is worth its name."""

CHECKPOINT_SHARE = 0.02
"""The part of a search's time that its checkpoints may take."""

DISAGREEMENT = 0.0
"""Rank correlation below which the shared weights are said to mislead."""


def search(
    task: GraphTask,
    job: Job | None = None,
    *,
    device: str | torch.device = "auto",
    run: RunDirectory | None = None,
    watcher: Watcher | None = None,
    tuner: Tuner | None = None,
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
        self.task, self.watcher = task, watcher
        self._tuner = tuner
        self._run = run
        self.job = job = self._settled(job)
        self._problems = grid(job, task, watcher)
        _check_incumbents(job, self._problems)
        self._live: Search | None = None
        self._kept: dict[str, dict[str, Tensor]] = {}
        self._started = started
        self.progress = self._begin()

    def _settled(self, job: Job) -> Job:
        """The job with what a step sees decided: as the run says, or now."""
        return job if job.recipe.is_decided else by_first(lambda: self._decided(job))

    def _decided(self, job: Job) -> Job:
        if self._run is not None and self._run.has(PIPELINE):
            known = self._run.read_record(PIPELINE, Progress).job_recipe
            if known is not None:
                return job.model_copy(update={"recipe": known})
        device = self.task.graphs[0].y.device
        return settle_job(job, self.task, device=device, tell=self.watcher.noted)

    def run(self) -> Result:
        """Do what is left to do; a job that is interrupted keeps the best network so far."""
        try:
            self.choose()
            self._tune()
            self._train_chosen()
            self._train_controls()
        except KeyboardInterrupt:
            if not is_first():
                raise
            self._note_time()
            self._write_result(self._result("interrupt"))
            raise
        result = self._write_result(self._result(None if self._is_whole() else "budget"))
        self.watcher.ended(result)
        return result

    def _note_time(self) -> None:
        """Write down the time spent, so that a budget does not begin again with a resumed run."""
        self.progress = self.progress.model_copy(update={"seconds": self._elapsed()})
        if self._run is not None:
            self._run.write_json(PIPELINE, self.progress)

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
        for number in range(len(self.progress.cells), len(self._problems)):
            self._search(number)
        self._try_candidates()
        if self.progress.weights is None:
            raise SearchError(
                "The losses of all candidates were no longer finite; lower the learning rate, now "
                f"{self.job.recipe.lr:g}."
            )
        return self.chosen

    def _begin(self) -> Progress:
        """What is recorded in the run, or a new plan."""
        recorded = by_first(self._recorded)
        if recorded is not None:
            progress, self._kept = recorded
            self._started = time.monotonic() - progress.seconds
            return progress
        plan = self._plan()
        progress = Progress(
            data=self.task.source.sha256,
            split=self.task.split.sha256,
            plan=plan,
            job_recipe=self.job.recipe,
        )
        if self._run is not None:
            self._run.cut_history(0)
            self._run.write_json(PIPELINE, progress)
        self.watcher.planned(plan, self._problems)
        return progress

    def _recorded(self) -> tuple[Progress, dict[str, dict[str, Tensor]]] | None:
        """How far the run has come, and the weights that it keeps; none: it is a new one."""
        if self._run is None or not self._run.has(PIPELINE):
            return None
        progress, kept = self._run.read_record(PIPELINE, Progress), {}
        if progress.split != self.task.split.sha256:
            raise self._run.other_data("on another split")
        if progress.data not in ("", self.task.source.sha256):
            raise self._run.other_data("with other features, edges or labels")
        if progress.weights is not None:
            kept[progress.weights] = self._run.read_weights(FOLDER / progress.weights)
        if len(progress.cells) == len(self._problems):
            self._run.cut_history(progress.history_bytes)
        return progress, kept

    def _plan(self) -> Plan:
        """Estimate the costs from a few steps, and fit the search to the budget."""
        job, strategy = self.job, self.job.strategy
        costs = agreed([_measure(problem, job) for problem in self._problems])
        step = sum(search for search, _ in costs)
        training = statistics.fmean(training for _, training in costs)
        whole_training = training * job.recipe.epochs
        raced = job.candidates * len(costs) + job.mutations
        first = min(raced, KEEP_UP)  # these have nobody to fall behind
        again = (FINALISTS + len(job.incumbents)) * job.repeats
        trials = whole_training * (first + len(designs(job, self._problems)) + again)
        trials += training * (raced - first) * math.ceil(RUNG * job.recipe.epochs)
        tuning = whole_training * self._tuner.trainings if job.tune and self._tuner else 0.0
        final = whole_training * job.seeds * (1 + len(job.controls)) * (1 + job.recipe.teachers)
        refines = True
        if job.budget_seconds is not None:
            elapsed = agreed(self._elapsed())
            left = job.budget_seconds - elapsed - reserve(training)
            # A search that trains what it tries has epochs enough in a part of one training.
            some = training * len(costs) if strategy.trained_epochs else step
            least = FEWEST * (some + training) + elapsed + reserve(training)
            if left < FEWEST * (some + training):
                raise SearchError(
                    f"The budget of {job.budget_seconds:g} seconds is too small for this job; the "
                    f"least is about {math.ceil(least) + 1} seconds: raise --budget-seconds or "
                    "search fewer --blocks and --hidden."
                )
            searching = step * (strategy.epochs + strategy.refining)
            is_enough = left >= searching + trials + tuning + final
            refines = not (is_enough and strategy.climbs)
            # Who trains what it tries has no schedule to fit, and goes on until its time is over.
            if not is_enough and not strategy.trained_epochs:
                part = min(1.0, SEARCH_SHARE * left / searching)
                strategy = strategy.lasting(max(1, int(part * strategy.epochs)))
        if job.budget_trials is not None and strategy.trained_epochs:
            share = int(CANDIDATE_SHARE * job.budget_trials)
            most = min(max(share, len(costs)), job.budget_trials - 1)
            if most < len(costs):
                raise SearchError(
                    f"--budget-trials is {job.budget_trials}, too few for {len(costs)} search(es) "
                    f"that train what they try; give {len(costs) + 1} at least, better "
                    f"{4 * len(costs)}, or search fewer --blocks and --hidden."
                )
            strategy = strategy.lasting(min(strategy.epochs, most // len(costs)))
        return Plan(
            epochs=strategy.epochs,
            search_seconds=step * strategy.epochs,
            candidate_seconds=step * strategy.refining + trials,
            tune_seconds=tuning,
            final_seconds=final,
            epoch_seconds=training,
            refines=refines,
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    @property
    def _usable(self) -> float:
        """Seconds of the budget but for those that are kept for the end; no end without one."""
        if self.job.budget_seconds is None:
            return math.inf
        return self.job.budget_seconds - reserve(self.progress.plan.epoch_seconds)

    def _is_late(self, share: float) -> bool:
        """Whether a part of the budget is spent, by the first rank's clock; never without one."""
        if self.job.budget_seconds is None:
            return False
        return agreed(self._elapsed() > share * self._usable)

    def _training_seconds(self, now: float = 0.0, epochs: int = 0) -> float | None:
        """What a whole training of a candidate takes, as far as is known; none: not yet.

        Trials tell: those of what was trained again, or else of the best, which will be. Before
        them the searches do, where these train what they try.

        Args:
            now: Seconds of the search that is under way.
            epochs: Its epochs.
        """
        trials = self.progress.trials
        again = [trial.seconds for trial in trials if trial.seed != self.job.trial_seed]
        if trials:
            best = sorted(trials, key=lambda trial: -trial.val)[:CLIMBERS]
            return statistics.fmean(again or [trial.seconds for trial in best])
        epochs += sum(cell.epochs for cell in self.progress.cells)
        if not self.job.strategy.trained_epochs or not epochs:
            return None
        return (now + sum(cell.seconds for cell in self.progress.cells)) / epochs

    def _candidate_share(self, training: float | None) -> float:
        """The part of a budget after which the choice is made.

        Args:
            training: Seconds of a training; none: not known yet.
        """
        job = self.job
        if job.tune or training is None:
            return CANDIDATE_SHARE
        # Final trainings have twice the patience, and one training may be under way.
        count = job.seeds * (1 + len(job.controls)) * (1 + job.recipe.teachers)
        final = min(self.progress.plan.final_seconds, 2 * training * count)
        share = 1 - (final + training) / self._usable
        return max(CANDIDATE_SHARE, min(LONGEST_CANDIDATES, share))

    def _search_share(self, training: float | None) -> float:
        """The part of a budget after which the searches end.

        Args:
            training: Seconds of a training, where they train what they try; none otherwise.
        """
        job = self.job
        if training is None:
            return SEARCH_SHARE
        count = job.candidates * len(self._problems) + job.mutations + FINALISTS * job.repeats
        return max(SEARCH_SHARE, self._share_before(1 + count, training))

    def _share_before(self, count: int, training: float) -> float:
        """The part of a budget that leaves time for so many trainings before the choice is made."""
        share = self._candidate_share(training) - count * training / self._usable
        return min(LONGEST_SEARCH, share)

    def _record(self, lines: Sequence[dict[str, Any]], **update: Any) -> None:
        """Write down what is finished: first its history, then the fact."""
        length = self.progress.history_bytes
        if self._run is not None:
            length = self._run.append_history(lines)
        self.progress = self.progress.model_copy(
            update={**update, "seconds": self._elapsed(), "history_bytes": length}
        )
        if self._run is not None:
            self._run.write_json(PIPELINE, self.progress)

    def _search(self, number: int) -> None:
        """Search one cell of the grid, from its last checkpoint if there is one."""
        problem = self._problems[number]
        strategy = self.job.strategy.lasting(self.progress.plan.epochs)
        part = (number + 1) / len(self._problems)
        with strategy.begin(problem) as search:
            self._live = search
            before, is_enough = self._restore(search, number)
            began = saved = time.monotonic()

            share, cost = self._search_share(self._training_seconds(before, search.epoch)), 0.0

            def is_late() -> bool:
                """Whether this search's part of the budget is spent."""
                return self._is_late(part * share)

            while not (search.is_over or is_enough or (search.epoch and is_late())):
                epoch = search.step(is_late)
                if not is_late():  # a training that was cut tells nothing
                    spent = before + time.monotonic() - began
                    share = self._search_share(self._training_seconds(spent, search.epoch))
                line = {"phase": "search", "cell": number, **_line(epoch)}
                length = self._append(line)
                self.watcher.searched(search, epoch)
                is_enough = agreed(self.watcher.is_enough(search, epoch))
                now = time.monotonic()
                is_due = is_enough or now - saved >= max(1.0, cost / CHECKPOINT_SHARE)
                if self._run is not None and is_due:
                    mark = Mark(
                        cell=number,
                        seconds=before + now - began,
                        elapsed=self._elapsed(),
                        history_bytes=length,
                        stopped=is_enough,
                    )
                    self._save(search, mark)
                    saved = time.monotonic()
                    cost = saved - now
            found = time.monotonic()
            self.watcher.rating(search)
            candidates = agreed(search.candidates(is_late))
            if self.progress.plan.refines:
                candidates = search.refine(candidates, is_late)
            cell = Cell(
                num_blocks=problem.num_blocks,
                hidden=problem.hidden,
                epochs=search.epoch,
                candidates=tuple(once(candidates)[: self.job.candidates]),
                warnings=tuple(search.warnings()),
                seconds=before + found - began,
                refine_seconds=time.monotonic() - found,
                stopped=is_enough,
            )
        self._record([], cells=(*self.progress.cells, cell))
        if self._run is not None:
            self._run.remove(SEARCH_STATE)

    def _append(self, line: dict[str, Any]) -> int:
        return 0 if self._run is None else self._run.append_history([line], durable=False)

    def _save(self, search: Search, mark: Mark) -> None:
        """Write a checkpoint; a disk that is full is reported and does not end the search."""
        assert self._run is not None
        try:
            self._run.append_history([])  # the checkpoint counts on what was written there
            self._run.write_state(SEARCH_STATE, search.state(), mark)
        except RunError as error:
            self.watcher.noted(f"{error} The search goes on; its checkpoint is an earlier one.")

    def _restore(self, search: Search, number: int) -> tuple[float, bool]:
        """Go on from the latest whole checkpoint: its seconds, and whether that was enough."""
        state = by_first(lambda: self._saved(number))
        if state is None:
            return 0.0, False
        tensors, mark = state
        try:
            search.restore(tensors)
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            assert self._run is not None
            raise RunError(
                f"The checkpoint '{self._run.path / SEARCH_STATE}' does not fit its search "
                f"({shown(' '.join(str(error).split()).rstrip('.'), 200)}); delete it to "
                "begin that search again, or start a new run."
            ) from None
        self._started = time.monotonic() - max(self._elapsed(), mark.elapsed)
        return mark.seconds, mark.stopped

    def _saved(self, number: int) -> tuple[dict[str, Tensor], Mark] | None:
        """The latest whole checkpoint of a search, if there is one; the history is cut to it."""
        if self._run is None:
            return None
        for state in self._run.read_states(SEARCH_STATE, Mark):
            if isinstance(state, str):
                self.watcher.noted(state)
                continue
            if state[1].cell == number:
                self._run.cut_history(state[1].history_bytes)
                return state
        self._run.cut_history(self.progress.history_bytes)
        return None

    def _try_candidates(self) -> None:
        """Train the candidates briefly, each only for as long as it keeps up with the others.

        What people have designed is trained to the end, and changes of the best of all these for a
        quarter at least. The best are then trained again.
        """
        contest = Contest(self.job, self._problems, self.progress.cells)
        while not self.progress.finals:
            trials = self.progress.trials
            share = self._candidate_share(self._training_seconds())
            if trials and (self._is_late(share) or self._is_tried_out()):
                return
            entry = contest.following(trials, has_time=self._has_time_to_climb())
            if entry is None:
                return
            self._try(entry)

    def _is_tried_out(self) -> bool:
        """Whether the budget of trials is spent."""
        return self.job.budget_trials is not None and self._tried() >= self.job.budget_trials

    def _tried(self) -> int:
        """Trainings so far, in the searches and of candidates."""
        searched = 0
        if self.job.strategy.trained_epochs:
            searched = sum(cell.epochs for cell in self.progress.cells)
        return searched + len(self.progress.trials)

    def _has_time_to_climb(self) -> bool:
        """Whether the strategy climbs and budgets leave room for that, and for the choice."""
        job, training = self.job, self._training_seconds()
        if job.budget_seconds is None or not job.strategy.climbs or not self.progress.trials:
            return False
        assert training is not None
        repeats = CLIMBERS * (SURE - 1)  # of networks that are new among the best
        if job.budget_trials is not None and self._tried() + repeats >= job.budget_trials:
            return False
        return not self._is_late(self._share_before(repeats, training))

    def _try(self, entry: Entry) -> None:
        """Train a candidate, and write down what came of it, unless the time ran out over it."""
        number = len(self.progress.trials)
        share = self._candidate_share(self._training_seconds())
        lines: list[dict[str, Any]] = []
        is_late = False

        def watch(epoch: Epoch) -> None:
            lines.append({"phase": "candidate", "number": number, **asdict(epoch)})
            self.watcher.trained(f"candidate {number + 1}", epoch)

        def stop(epoch: Epoch) -> bool:
            nonlocal is_late
            is_late = self._is_late(share)
            return entry.race.falls_behind(epoch) or is_late

        try:
            network, outcome = train_once(
                entry.architecture,
                self.task,
                hidden=entry.hidden,
                recipe=brief(self.job.recipe),
                seed=entry.seed,
                on_epoch=watch,
                stop=stop,
            )
        except DivergedError as error:
            self.watcher.noted(f"Candidate {number + 1} is given up: {error}")
            network, outcome = None, Fit(epoch=0, val=0.0, epochs=len(lines), seconds=0.0)
        if is_late and self.progress.trials:
            return  # a training cut short does not belong into a mean
        trial = Trial(
            architecture=entry.architecture,
            hidden=entry.hidden,
            seed=entry.seed,
            shared_val=entry.estimate,
            rungs=entry.race.rungs,
            **asdict(outcome),
        )
        best = max((other.val for other in self.progress.trials), default=-1.0)
        name = f"candidate-{number}" if network is not None and trial.val > best else None
        weights = {} if network is None else network.state_dict()
        self._finish(lines, name, weights, trials=(*self.progress.trials, trial))
        self.watcher.tried(trial)

    def _finish(
        self,
        lines: Sequence[dict[str, Any]],
        name: str | None,
        weights: dict[str, Tensor],
        **update: Any,
    ) -> None:
        """Write down a training; its weights too, under a name, if they are the best so far.

        They are written first and named in the record, and those that they replace are deleted
        last: whenever the job dies, the record and the weights fit each other.
        """
        old = self.progress.weights
        if name is not None:
            file = f"{name}.safetensors"
            self._kept[file] = {key: weight.detach().cpu() for key, weight in weights.items()}
            if self._run is not None:
                self._run.write_weights(FOLDER / file, self._kept[file])
            update["weights"] = file
        self._record(lines, **update)
        if name is not None and old is not None:
            self._kept.pop(old)
            if self._run is not None:
                self._run.remove(FOLDER / old)

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
            is_late=lambda: self._is_late(TUNE_SHARE),
            on_trial=self.watcher.tuned,
        )
        if self._run is not None:
            recipe.undecided.save(self._run.path / RECIPE)
        self._record([], recipe=recipe, tune_seconds=time.monotonic() - began)

    def _train_chosen(self) -> None:
        """Train the chosen network with every final seed, and read the test part."""
        done = {training.seed for training in self.progress.finals}
        for seed in self.job.final_seeds:
            key = f"seed {seed}"
            if seed in done or key in self.progress.lost:
                continue
            first = not self.progress.finals
            if self._is_late(1.0):
                return
            best = max((other.val for other in self.progress.finals), default=-1.0)
            architecture, hidden = self.chosen.architecture, self.chosen.hidden
            try:
                training, weights, lines = self._train(
                    "found", architecture, hidden, seed, {"phase": "final"}
                )
            except DivergedError as error:
                self._lose(key, f"The final training with {key} is left out: {error}")
                continue
            if self._is_late(1.0) and not first:
                return  # a training cut short does not belong into a mean
            name = f"final-{seed}" if training.val > best else None
            finals = (*self.progress.finals, training)
            self._finish(lines, name, weights, finals=finals, cut=self._is_late(1.0))

    def _train_controls(self) -> None:
        """Train what nobody searched for with the same recipe and seeds."""
        for name, architecture in self._controls().items():
            done = self.progress.controls.get(name, ())
            for seed in self.job.final_seeds[len(done) :]:
                if name in self.progress.lost:
                    break
                if self._is_late(1.0):
                    return
                place = {"phase": "control", "name": name}
                try:
                    training, _, lines = self._train(
                        name, architecture, self.chosen.hidden, seed, place
                    )
                except DivergedError as error:
                    self._lose(name, f"The control '{name}' is left out: {error}")
                    break
                if self._is_late(1.0):
                    return
                done = (*done, training)
                self._record(lines, controls={**self.progress.controls, name: done})

    def _lose(self, key: str, reason: str) -> None:
        """Write down what diverged: it is not tried again, and of a control nothing is shown."""
        self.watcher.noted(reason)
        controls = {name: done for name, done in self.progress.controls.items() if name != key}
        self._record([], controls=controls, lost={**self.progress.lost, key: reason})

    def _controls(self) -> dict[str, Design]:
        """A random architecture of the chosen shape, and the baselines."""
        problem = problem_of(self.chosen, self._problems)
        generator = torch.Generator().manual_seed(self.job.seed)
        return {
            name: problem.sample(generator) if name == "random" else BASELINES[name].design
            for name in self.job.controls
        }

    def _train(
        self, name: str, architecture: Design, hidden: int, seed: int, place: dict[str, Any]
    ) -> tuple[Training, dict[str, Tensor], list[dict[str, Any]]]:
        """One training with its test: what came out, the weights, and the history."""
        lines: list[dict[str, Any]] = []

        def watch(epoch: Epoch) -> None:
            lines.append({**place, "seed": seed, **asdict(epoch)})
            self.watcher.trained(f"{name}, seed {seed}", epoch)

        network, outcome = train_once(
            architecture,
            self.task,
            hidden=hidden,
            recipe=self.recipe,
            seed=seed,
            on_epoch=watch,
            stop=lambda _: self._is_late(1.0),
        )
        training = Training(
            split_seed=self.task.split.seed,
            seed=seed,
            epoch=outcome.epoch,
            val=outcome.val,
            test=read_test(network, self.task),
            epochs=outcome.epochs,
            seconds=outcome.seconds,
        )
        return training, network.state_dict(), lines

    def _result(self, stopped: Literal["budget", "interrupt"] | None) -> Result:
        """The best network so far: of the final trainings, or of the trials, or as searched."""
        weights = self._kept.get(self.progress.weights or "", {})
        if self.progress.finals:
            architecture, hidden = self.chosen.architecture, self.chosen.hidden
            trainings = list(self.progress.finals)
        elif weights:
            best = max(self.progress.trials, key=lambda trial: trial.val)
            architecture, hidden = best.architecture, best.hidden
            trainings = [self._of_trial(best, weights)]
        else:
            architecture, hidden, training, weights = self._of_search()
            trainings = [training]
        result = sum_up(
            architecture,
            [self.task],
            trainings,
            hidden=hidden,
            recipe=self.recipe,
            seeds=[training.seed for training in trainings],
        )
        cells = self.progress.cells
        rates = [training.seconds / max(training.epochs, 1) for training in trainings]
        report = SearchReport(
            settings=self.job.strategy.model_dump(mode="json"),
            seed=self.job.seed,
            epochs=next(
                (
                    c.epochs
                    for c in cells
                    if (c.num_blocks, c.hidden) == (architecture.num_blocks, hidden)
                ),
                self._live.epoch if self._live else 0,
            ),
            trials=self.progress.trials,
            controls=tuple(self._control(name) for name in self.progress.controls),
            rank_correlation=_rank_correlation(self.progress.trials),
            training_seconds=self.recipe.epochs * statistics.median(rates),
            candidate_seconds=sum(cell.refine_seconds for cell in cells)
            + sum(trial.seconds for trial in self.progress.trials),
            warnings=tuple(self._warnings(result.val, stopped)),
            stopped=stopped,
        )
        update = {
            "strategy": self.job.strategy.name,
            "space": self.job.space.name,
            "search_seconds": sum(cell.seconds for cell in cells),
            "search": report,
            "tune_seconds": self.progress.tune_seconds,
        }
        return result.model_copy(update=update).with_weights(weights)

    def _of_trial(self, trial: Trial, weights: dict[str, Tensor]) -> Training:
        """A trial as the result, where there was no time for more; its test is read here."""
        network = GraphNetwork(trial.architecture, self.task, trial.hidden)
        network.load_state_dict(weights)
        return Training(
            split_seed=self.task.split.seed,
            seed=trial.seed,
            epoch=trial.epoch,
            val=trial.val,
            test=read_test(network.to(self.task.graphs[0].y.device), self.task),
            epochs=trial.epochs,
            seconds=trial.seconds,
        )

    def _of_search(self) -> tuple[Architecture, int, Training, dict[str, Tensor]]:
        """What the search favors, with the weights that it shares, where nothing else is there."""
        if self._live is None:
            raise KeyboardInterrupt  # before the first epoch there is nothing to keep
        architecture = self._live.favored()
        network = self._live.network(architecture)
        _, val = evaluate(network, Batches(self.task, "val"), self.task)
        weights = {name: weight.detach().cpu() for name, weight in network.state_dict().items()}
        training = Training(
            split_seed=self.task.split.seed,
            seed=self.job.seed,
            epoch=self._live.epoch,
            val=round(float(val), DIGITS),
            test=read_test(network, self.task),
            epochs=0,
            seconds=0.0,
        )
        return architecture, self._live.problem.hidden, training, weights

    def _control(self, name: str) -> Control:
        trainings, architecture = self.progress.controls[name], self._controls()[name]
        return Control(
            name=name,
            architecture=architecture,
            hidden=self.chosen.hidden,
            parameters=architecture.parameters(self.task, self.chosen.hidden),
            val=Scores.of([training.val for training in trainings]),
            test=Scores.of([training.test for training in trainings]),
            seconds=sum(training.seconds for training in trainings),
        )

    def _warnings(
        self, val: Scores, stopped: Literal["budget", "interrupt"] | None
    ) -> Iterator[str]:
        """What the searches say of themselves, and whether they were worth anything.

        Args:
            val: Validation of the network found.
            stopped: Why the job ended early, if it did.
        """
        for cell in self.progress.cells:
            place = f"With {cell.num_blocks} block(s) and hidden size {cell.hidden}: "
            told = [*cell.warnings]
            if self._is_cut_short(cell):  # that is what it says of itself, in other words
                told = [
                    f"The budget left {cell.epochs} of {self.job.strategy.epochs} epochs to the "
                    "search, too few to learn much: raise --budget-seconds."
                ]
            if cell.stopped:
                told.append(
                    f"The search was ended by a callback after epoch {cell.epochs} of "
                    f"{self.progress.plan.epochs}."
                )
            for warning in told:
                yield warning if len(self.progress.cells) == 1 else place + warning
        yield from self.progress.lost.values()
        if stopped == "budget":
            yield from self._left_out()
        agreement = _rank_correlation(self.progress.trials)
        if agreement is not None and agreement < DISAGREEMENT:
            yield (
                f"The search's ranking of the candidates does not agree with their training (rank "
                f"correlation {agreement:.2f}): the choice rests on their validation; try more "
                "--candidates."
            )
        for control in map(self._control, self.progress.controls):
            if control.val.mean > val.mean:
                behind = Difference.between(control.val, val)
                many = f"{behind.pairs} training{'s' if behind.pairs > 1 else ''}"
                unsure = f", which {many} cannot tell apart"
                yield (
                    f"The control '{control.name}' has a better validation than the network found "
                    f"({control.val} against {val} %{unsure if behind.is_noise else ''}): this "
                    "space, shape or recipe may not suit the task; use the control, or search with "
                    "another --recipe, --space, --blocks or --hidden."
                )

    def _is_cut_short(self, cell: Cell) -> bool:
        """Whether a budget left a search with a schedule too little of it."""
        strategy = self.job.strategy
        is_scheduled = self.job.budget_seconds is not None and not strategy.trained_epochs
        return is_scheduled and not cell.stopped and cell.epochs < WORTH * strategy.epochs

    def _left_out(self) -> Iterator[str]:
        """What a budget left no time for."""
        job, progress = self.job, self.progress
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

    def _write_result(self, result: Result) -> Result:
        if self._run is not None:
            self._run.write_json(ARCHITECTURE, result.architecture)
            self._run.write_weights(WEIGHTS, result.model.state_dict())
            self._run.write_predictions(predict_task(result, self.task))
            self._run.write_json(RESULT, result)
        return result


def grid(job: Job, task: GraphTask, watcher: Watcher) -> list[Problem]:
    """Every depth with every hidden size, without what no network fits into."""
    problems, refused = [], []
    for num_blocks, hidden in itertools.product(job.blocks, job.hidden):
        try:
            problem = Problem(
                task, job.space, num_blocks, hidden, job.recipe, job.max_parameters, job.seed
            )
        except SearchError as error:
            refused.append(error)
        else:
            problems.append(problem)
    if not problems:
        raise refused[0]
    for reason in refused:
        watcher.noted(f"Left out: {reason}")
    return problems


def _check_incumbents(job: Job, problems: Sequence[Problem]) -> None:
    """Refuse a network that there is already but that is larger than one may be."""
    for architecture in job.incumbents:
        shaped = [p for p in problems if p.num_blocks == architecture.num_blocks]
        if not any(problem.fits(architecture) for problem in shaped):
            size = min(architecture.parameters(problems[0].task, hidden) for hidden in job.hidden)
            raise SearchError(
                f"An incumbent has {size:,} parameters with the smallest --hidden, but "
                f"--max-parameters is {job.max_parameters:,}; raise it, lower --hidden, or leave "
                "the incumbent out."
            )


def brief(recipe: Recipe) -> Recipe:
    """Of the trainings by which candidates are compared: half the patience, and no teachers."""
    return recipe.changed(patience=max(1, recipe.patience // 2), teachers=0)


def _measure(problem: Problem, job: Job) -> tuple[float, float]:
    """Seconds of an epoch of the search and of a training, from a few of each, thrown away.

    Medians: whatever is done for the first time takes longer than it ever will again. Where an
    epoch of the search is a training, it is as many epochs of that at most.
    """
    strategy, steps = job.strategy, [0.0]
    if not strategy.trained_epochs:
        with strategy.begin(problem) as search:
            steps = [_seconds(search.step) for _ in range(min(TIMED, search.epochs))]
    generator = torch.Generator().manual_seed(job.seed)
    # As many epochs as make it worth to record them, of which only the first are done.
    recipe = job.recipe.changed(epochs=max(TIMED, WORTHWHILE), teachers=0)
    clock: list[float] = []
    for _ in range(2):
        clock.append(time.perf_counter())
        with contextlib.suppress(DivergedError):  # it is the time that matters here
            train_once(
                problem.sample(generator),
                problem.task,
                hidden=problem.hidden,
                recipe=recipe,
                seed=job.seed,
                on_epoch=lambda _: clock.append(time.perf_counter()),
                stop=lambda epoch: epoch.epoch + 1 >= TIMED,
            )
    epochs = [after - before for before, after in itertools.pairwise(clock)]
    training = statistics.median(epochs)
    trained = min(strategy.trained_epochs, job.recipe.epochs)
    return statistics.median(steps) + trained * training, training


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def reserve(epoch_seconds: float) -> float:
    """Seconds kept for the last epoch, the test, the files and the way out."""
    return 2.0 + 3 * epoch_seconds


def _line(epoch: SearchEpoch) -> dict[str, Any]:
    """An epoch of a search as a line of the history."""
    figures = {key: value for key, value in vars(epoch).items() if key != "details"}
    return {**figures, **epoch.details}


def _rank_correlation(trials: Sequence[Trial]) -> float | None:
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
