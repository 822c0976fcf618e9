"""The network found and its controls: trained alike, and tested once, after the choice."""

from dataclasses import replace
from typing import Any

import pytest
from tests.pipeline.conftest import (
    Events,
    Tuned,
    diverging,
    lines,
    outcome,
    short,
    train_with,
    validation,
)

from pdnas.models import Network
from pdnas.models.baselines import BASELINES
from pdnas.pipeline import search
from pdnas.runs import RESULT, RunDirectory
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.batching import Batches
from pdnas.training.epochs import WORTHWHILE
from pdnas.training.fit import Fit, read_test
from pdnas.training.seeds import train_once


def test_a_control_that_diverges_is_left_out_and_nothing_else(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcn = BASELINES["gcn"].architecture
    diverging(monkeypatch, lambda architecture, seed: architecture == gcn and seed == 1)
    job, events = short(controls=("gcn", "gat"), seeds=3), Events()
    result = search(tiny_task, job, run=run, watcher=events)
    assert len(result.val.values) == 3
    assert result.search is not None
    assert [control.name for control in result.search.controls] == ["gat"]
    said = "The control 'gcn' is left out: The loss is no longer finite."
    assert said in result.search.warnings
    assert events.notes.count(said) == 1
    assert result.search.stopped is None
    again = Events()
    assert search(tiny_task, job, run=run, watcher=again).model_dump() == result.model_dump()
    assert not [event for event in again.seen if event.startswith("gcn")], "it is not tried again"


@pytest.mark.parametrize("lost", [(1,), (0, 1, 2)])
def test_a_final_training_that_diverges_is_left_out(
    tiny_task: GraphTask,
    run: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    lost: tuple[int, ...],
) -> None:
    diverging(monkeypatch, lambda _, seed: seed in lost)
    result = search(tiny_task, short(seeds=3, controls=()), run=run)
    assert result.search is not None
    left = tuple(seed for seed in range(3) if seed not in lost)
    assert result.seeds == (left or (2**32,)), "without any the best candidate is what there is"
    for seed in lost:
        said = f"The final training with seed {seed} is left out: The loss is no longer finite."
        assert said in result.search.warnings
    assert result.search.stopped is None
    assert validation(result, tiny_task) == pytest.approx(max(result.val.values), abs=1e-6)
    assert run.has(RESULT)


def test_a_control_is_paired_with_what_is_left_of_the_final_trainings(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcn = BASELINES["gcn"].architecture
    diverging(monkeypatch, lambda architecture, seed: architecture != gcn and seed == 1)
    result = search(tiny_task, short(seeds=3, controls=("gcn",)))
    assert result.search is not None
    (control,) = result.search.controls
    assert (result.seeds, control.seeds) == ((0, 2), (0, 1, 2))
    assert control.paired(result.seeds) == ((0, 0), (1, 2))


def test_only_final_trainings_have_teachers(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: dict[str, set[int]] = {"timed": set(), "candidates": set(), "final": set()}

    def trained(*arguments: Any, **rest: Any) -> tuple[Network, Fit]:
        final = "candidates" if rest["seed"] >= 2**32 else "final"
        what = "timed" if rest["recipe"].epochs == WORTHWHILE else final
        counts[what].add(rest["recipe"].teachers)
        return train_once(*arguments, **rest)

    train_with(monkeypatch, trained)
    search(tiny_task, short(recipe=Recipe(epochs=2, teachers=2)))
    assert counts == {"timed": {0}, "candidates": {0}, "final": {2}}


def test_final_trainings_and_controls_follow_the_tuned_recipe(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    job, tuner, events = short(tune=2), Tuned(), Events()
    result = search(tiny_task, job, run=run, tuner=tuner, watcher=events)
    assert result.recipe == Tuned.FOUND.model_dump()
    assert result.search is not None
    assert tuner.asked == [
        {
            "architecture": result.architecture,
            "hidden": result.hidden,
            "base": job.recipe.changed(batching="full"),
            "seed": job.trial_seed,
        }
    ]
    epochs = {"search": 6, "candidate": 2, "final": 3, "control": 3}
    for phase, count in epochs.items():
        own = [line["epoch"] for line in lines(run) if line["phase"] == phase]
        assert max(own) + 1 == count
    where = events.seen.index("tuned 1 of 2")
    assert events.seen[where - 1] == "candidate 6 epoch 1"
    assert events.seen[where + 1] == "found, seed 0 epoch 0"
    network, fit = train_once(
        BASELINES["gcn"].architecture, tiny_task, hidden=4, recipe=Tuned.FOUND, seed=1
    )
    control = result.search.controls[0]
    assert (control.val.values[1], control.test.values[1]) == (
        fit.val,
        read_test(network, tiny_task),
    )


def test_no_label_of_the_test_part_changes_a_choice(
    whole: RunDirectory, run: RunDirectory, tiny_task: GraphTask
) -> None:
    graph = tiny_task.graphs[0]
    y = graph.y.clone()
    y[tiny_task.split.test] = (y[tiny_task.split.test] + 1) % 3
    source = replace(tiny_task.source, graphs=(replace(graph, y=y),))
    search(replace(tiny_task, source=source), short(), run=run)
    *one, expected = outcome(whole)
    *other, result = outcome(run)
    assert other == one, "history, architecture and weights"
    assert result["test"]["values"] != expected["test"]["values"]


def test_the_test_part_is_read_once_for_each_training_after_the_choice(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, make = Events(), Batches.__init__

    def spy(self: Batches, task: GraphTask, part: Any, *more: Any, **others: Any) -> None:
        make(self, task, part, *more, **others)
        events.seen.append(f"reads {part}")

    monkeypatch.setattr(Batches, "__init__", spy)
    search(tiny_task, short(), watcher=events)
    reads = [number for number, event in enumerate(events.seen) if event == "reads test"]
    chosen = events.seen.index("candidate 6 epoch 1")
    assert len(reads) == 2 * 2
    assert min(reads) > chosen
    names = [f"{name}, seed {seed}" for name in ("found", "gcn") for seed in (0, 1)]
    assert [events.seen[number - 1] for number in reads] == [f"{n} epoch 1" for n in names]
