"""One architecture, trained over seeds and splits, and what a reader needs to trust the figure."""

import hashlib
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from pdnas.architecture import check_hidden
from pdnas.errors import PdnasError
from pdnas.models import Design, Network, make_network
from pdnas.runs import (
    ARCHITECTURE,
    CHECKPOINT,
    CHECKPOINT_WEIGHTS,
    RESULT,
    WEIGHTS,
    Count,
    Record,
    Result,
    RunDirectory,
    Scores,
    Seconds,
    Share,
    SplitRecord,
)
from pdnas.tasks import AnyTask, GraphTask, Split, find_task
from pdnas.training.device import find_device
from pdnas.training.fit import Epoch, Fit, fit, read_test, seeded
from pdnas.training.memory import load_of, settle
from pdnas.training.parallel import by_first
from pdnas.training.predictions import predict_task, record_of
from pdnas.training.recipe import Recipe, find_recipe
from pdnas.training.teaching import mean_answers, teacher_seeds


class Training(Record):
    """One finished training of several.

    Args:
        split_seed: Which split of the name it was on; none where there is only one.
        seed: Of the weights and the dropout.
        epoch: The chosen one.
        val: Validation there.
        test: Test there.
        epochs: How many were run; 0 in runs of the first version.
        seconds: How long they took.
    """

    split_seed: Count | None
    seed: Count
    epoch: Count
    val: Share
    test: Share
    epochs: Count = 0
    seconds: Seconds


class TrainingRecord(Record):
    """The trainings of a run that are finished, and where its history then ended.

    Args:
        data: Fingerprint of the graphs and their labels; early versions wrote none.
        splits: Fingerprints of the splits that the run is on.
        trainings: In the order of the splits and, on each, of the seeds.
        history_bytes: Length of the history when the last of them ended.
    """

    data: str = ""
    splits: tuple[str, ...]
    trainings: tuple[Training, ...]
    history_bytes: Count


Watcher = Callable[[int, Epoch], None]
"""Told the number of the training, from 0, and each of its epochs."""


def train(
    architecture: Design,
    task: AnyTask,
    *,
    hidden: int = 64,
    recipe: Recipe | Mapping[str, Any] | str = "default",
    seeds: int | Sequence[int] = 1,
    split_seeds: Sequence[int] = (),
    device: str | torch.device = "auto",
    run: RunDirectory | None = None,
    on_epoch: Watcher | None = None,
) -> Result:
    """Train an architecture once for every seed, and on every split, and sum up.

    Args:
        architecture: What to train: blocks, or a published network.
        task: On what: a task, a PyG ``Data``, or a task's name or path.
        hidden: Channels between blocks.
        recipe: How: a recipe, the name of one, a TOML file, or what a result holds.
        seeds: The seeds, or how many, from 0.
        split_seeds: Which splits of the task's split's name; by default the task's split alone.
        device: Where.
        run: Where to write the history, the result and the weights. Trainings that are recorded
            there as finished are not repeated. Of several ranks the first alone has one.
        on_epoch: Told of every epoch.
    """
    recipe = find_recipe(recipe)
    seeds = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    check_seeds(seeds)
    device = find_device(str(device))
    check_hidden(hidden)
    task = find_task(task).to(device)
    if not recipe.is_decided:
        load = load_of(architecture, task, hidden, recipe, device)
        open_recipe = recipe
        recipe = by_first(lambda: settle(open_recipe, task, load, device=device, tell=_warn))
    tasks = [task.with_split(task.split.name, seed) for seed in split_seeds] or [task]
    splits = tuple(split_task.split.sha256 for split_task in tasks)
    ledger = _Ledger(run, task.source.sha256, splits)
    for number, (split_task, seed) in enumerate(itertools.product(tasks, seeds)):
        if number < len(ledger.trainings):
            continue
        epochs: list[Epoch] = []

        def watch(epoch: Epoch, number: int = number, epochs: list[Epoch] = epochs) -> None:
            epochs.append(epoch)
            if on_epoch is not None:
                on_epoch(number, epoch)

        network, outcome = train_once(
            architecture, split_task, hidden=hidden, recipe=recipe, seed=seed, on_epoch=watch
        )
        training = Training(
            split_seed=split_task.split.seed,
            seed=seed,
            epoch=outcome.epoch,
            val=outcome.val,
            test=read_test(network, split_task),
            epochs=outcome.epochs,
            seconds=outcome.seconds,
        )
        ledger.add(training, epochs, network.state_dict())
    result = sum_up(
        architecture,
        tasks,
        ledger.trainings,
        hidden=hidden,
        recipe=recipe,
        seeds=seeds,
    )
    result = result.with_weights(ledger.best_weights)
    if run is not None:
        run.write_json(ARCHITECTURE, architecture)
        run.write_weights(WEIGHTS, ledger.best_weights)
        run.write_predictions(predict_task(result, tasks[ledger.best // len(seeds)]))
        run.write_json(RESULT, result)
    return result


def train_once(
    architecture: Design,
    task: GraphTask,
    *,
    hidden: int,
    recipe: Recipe,
    seed: int,
    on_epoch: Callable[[Epoch], None] | None = None,
    stop: Callable[[Epoch], bool] | None = None,
    prepare: Callable[[Network], None] | None = None,
) -> tuple[Network, Fit]:
    """Train an architecture with one seed: the network with its best weights, and how it went.

    Teachers, where the recipe has any, are trained first, each with a seed of its own that follows
    from this one; their time counts.

    Args:
        architecture: What to train: blocks, or a published network.
        task: On what, and where: the network goes to the task's device.
        hidden: Channels between blocks.
        recipe: How.
        seed: Of the weights and the dropout.
        on_epoch: Told of every epoch.
        stop: Asked after every epoch whether to end there.
        prepare: Given the network before it is trained.
    """
    device = task.graphs[0].y.device
    answers, before = None, 0.0
    if recipe.teachers:
        alone = recipe.changed(teachers=0)
        trained = [
            train_once(architecture, task, hidden=hidden, recipe=alone, seed=other, stop=stop)
            for other in teacher_seeds(seed, recipe.teachers)
        ]
        answers = mean_answers([network for network, _ in trained], task)
        before = sum(outcome.seconds for _, outcome in trained)
        recipe = alone.changed(copies=1)  # the teachers agree already
    with seeded(seed, device):
        network = make_network(
            architecture,
            task,
            hidden,
            input_dropout=recipe.input_dropout,
            dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
            feature_weights=recipe.feature_weights == "on",
        ).to(device)
        if prepare is not None:
            prepare(network)
        outcome = fit(network, task, recipe, answers=answers, on_epoch=on_epoch, stop=stop)
    network.fold_feature_weights()
    return network, replace(outcome, seconds=before + outcome.seconds)


def sum_up(
    architecture: Design,
    tasks: Sequence[GraphTask],
    trainings: Sequence[Training],
    *,
    hidden: int,
    recipe: Recipe,
    seeds: Sequence[int],
) -> Result:
    """The result of the trainings of one architecture, as many on each split; no weights yet.

    Args:
        architecture: What was trained.
        tasks: The task on each of the splits.
        trainings: Split by split, in the order of the seeds.
        hidden: Channels between blocks.
        recipe: How it was trained.
        seeds: The same on every split.
    """
    task = tasks[0]
    return Result(
        task=task.name,
        note=task.source.note,
        split=_split_record([split_task.split for split_task in tasks]),
        architecture=architecture,
        hidden=hidden,
        in_channels=task.in_channels,
        out_channels=task.out_channels,
        class_names=task.source.class_names,
        parameters=architecture.parameters(task, hidden),
        recipe=recipe.undecided.model_dump(),
        metric=task.metric,
        val=Scores.of([training.val for training in trainings], len(tasks)),
        test=Scores.of([training.test for training in trainings], len(tasks)),
        epochs=tuple(training.epoch for training in trainings),
        seeds=tuple(seeds),
        train_seconds=sum(training.seconds for training in trainings),
        device=str(task.graphs[0].y.device),
        data=record_of(task.source),
    )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=4)


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse what cannot be a list of seeds."""
    if not seeds or len(set(seeds)) < len(seeds):
        raise PdnasError(
            f"The seeds {list(seeds)} are none or hold one twice; give each of at least one once."
        )
    for seed in seeds:
        if not 0 <= seed < 2**63:
            raise PdnasError(f"The seed {seed} is out of range; give 0 to {2**63 - 1}.")


class _Ledger:
    """The finished trainings and the best weights among them, kept in the run where there is one.

    The weights are written before the training is recorded: a run that dies in between does the
    training again, with the same seed, and comes to the same weights.
    """

    def __init__(self, run: RunDirectory | None, data: str, splits: tuple[str, ...]) -> None:
        self._run, self._data, self._splits = run, data, splits
        self.trainings, self.best_weights = by_first(self._recorded)

    def _recorded(self) -> tuple[list[Training], dict[str, Tensor]]:
        """What the run has already; the history is cut to that."""
        run = self._run
        if run is None or not run.has(CHECKPOINT):
            if run is not None:
                run.cut_history(0)
            return [], {}
        record = run.read_record(CHECKPOINT, TrainingRecord)
        if record.splits != self._splits:
            raise run.other_data("on another split")
        if record.data not in ("", self._data):
            raise run.other_data("with other features, edges or labels")
        weights = run.read_weights(CHECKPOINT_WEIGHTS)
        run.cut_history(record.history_bytes)
        return list(record.trainings), weights

    @property
    def best(self) -> int:
        """The number of the training that the weights are of: the first of the best."""
        values = [training.val for training in self.trainings]
        return values.index(max(values))

    def add(self, training: Training, epochs: Sequence[Epoch], weights: dict[str, Tensor]) -> None:
        best = max((other.val for other in self.trainings), default=-math.inf)
        self.trainings.append(training)
        if training.val > best:
            self.best_weights = {name: weight.detach().cpu() for name, weight in weights.items()}
        if self._run is None:
            return
        if training.val > best:
            self._run.write_weights(CHECKPOINT_WEIGHTS, self.best_weights)
        place = {"split_seed": training.split_seed, "seed": training.seed}
        length = self._run.append_history([{**place, **asdict(epoch)} for epoch in epochs])
        record = TrainingRecord(
            data=self._data,
            splits=self._splits,
            trainings=tuple(self.trainings),
            history_bytes=length,
        )
        self._run.write_json(CHECKPOINT, record)


def _split_record(splits: Sequence[Split]) -> SplitRecord:
    members = tuple(split.sha256 for split in splits)
    joined = hashlib.sha256("".join(members).encode()).hexdigest()
    return SplitRecord(
        name=splits[0].name,
        sha256=members[0] if len(members) == 1 else joined,
        seeds=tuple(split.seed for split in splits if split.seed is not None),
        members=members,
    )
