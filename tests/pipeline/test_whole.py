"""The whole job: what it does, what it may look at, and how it ends when it is cut short."""

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.pipeline.conftest import (
    SHORT,
    Events,
    Tuned,
    Whole,
    lean,
    lines,
    outcome,
    short,
    timeless,
)

import pdnas
from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import PdnasError, SearchError, UnknownNameError
from pdnas.models.baselines import BASELINES
from pdnas.pipeline import search
from pdnas.runs import HISTORY, Result, RunDirectory
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import memory
from pdnas.watcher import Watcher


def test_a_job_searches_then_tries_then_trains_then_compares(undisturbed: Whole) -> None:
    history = lines(undisturbed(short(controls=("random", "gcn"))))
    assert list(dict.fromkeys(line["phase"] for line in history)) == [
        "search",
        "candidate",
        "final",
        "control",
    ]
    places = [
        (line["phase"], line.get("number", line.get("name")), line.get("seed"), line["epoch"])
        for line in history
        if line["phase"] != "search"
    ]
    expected: list[tuple[Any, ...]] = [("candidate", number, None) for number in range(6)]
    expected += [("final", None, seed) for seed in (0, 1)]
    expected += [("control", name, seed) for name in ("random", "gcn") for seed in (0, 1)]
    assert places == [(*place, epoch) for place in expected for epoch in range(2)]
    epochs = [(line["cell"], line["epoch"]) for line in history if line["phase"] == "search"]
    assert epochs == [(0, epoch) for epoch in range(6)]


def test_a_line_of_the_history_takes_two_kilobytes_at_most(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    search(tiny_task, lean(blocks=(7,)), run=run)
    assert max(map(len, (run.path / HISTORY).read_bytes().splitlines())) <= 2048


def test_the_job_of_some_settings_is_what_the_public_function_does(tiny_task: GraphTask) -> None:
    result = pdnas.search(tiny_task, **SHORT)
    same = search(tiny_task, short())
    assert isinstance(result, Result)
    assert timeless(result.model_dump(mode="json")) == timeless(same.model_dump(mode="json"))
    graph = tiny_task.graphs[0]
    logits = result.model(graph.x, graph.edge_index)
    assert logits.shape == (20, 3)
    assert torch.equal(logits, same.model(graph.x, graph.edge_index))
    assert "tiny, split own: test accuracy" in result.summary()
    assert str(result.architecture) in result.summary()


def test_the_public_name_is_still_the_package_of_strategies() -> None:
    assert dir(pdnas.search) == dir(importlib.import_module("pdnas.search"))


def test_nothing_is_written_without_a_run(
    tiny_task: GraphTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search(tiny_task, lean())
    assert list(tmp_path.iterdir()) == []


def test_the_random_state_outside_is_untouched(tiny_task: GraphTask) -> None:
    before = torch.get_rng_state()
    search(tiny_task, lean())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_seed_gives_the_same_result_twice(
    whole: RunDirectory, run: RunDirectory, tiny_task: GraphTask
) -> None:
    torch.rand(3)  # what happened before does not matter
    search(tiny_task, short(), run=run)
    assert outcome(run) == outcome(whole)


def test_another_seed_takes_another_path(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask
) -> None:
    search(tiny_task, lean(seed=1), run=run)
    paths = [
        [line["path"] for line in lines(each) if line["phase"] == "search"]
        for each in (undisturbed(lean()), run)
    ]
    assert paths[0] != paths[1]


def test_a_job_without_tuning_asks_nobody(tiny_task: GraphTask) -> None:
    tuner = Tuned()
    result = search(tiny_task, lean(), tuner=tuner)
    assert tuner.asked == []
    assert result.recipe == SHORT["recipe"].model_dump()
    assert result.tune_seconds == 0.0


def test_a_tuning_that_is_done_is_not_done_again(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask
) -> None:
    job, whole, run, tuner = short(tune=2), new_run(), new_run(), Tuned()
    search(tiny_task, job, run=whole, tuner=Tuned())
    for place in ("tuned 1 of 2", "found, seed 0 epoch 2", "gcn, seed 1 epoch 0"):
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, job, run=run, tuner=tuner, watcher=Events(place))
    search(tiny_task, job, run=run, tuner=tuner)
    assert len(tuner.asked) == 2, "the first was interrupted"
    assert outcome(run) == outcome(whole)


def test_a_tuning_without_a_tuner_is_refused(tiny_task: GraphTask) -> None:
    with pytest.raises(SearchError, match=r"asks for 2 trials of a tuning, but there is no tuner"):
        search(tiny_task, short(tune=2))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"blocks": ()}, r"--blocks has the values \[\]; give at least one"),
        ({"blocks": (2, 3, 2)}, r"--blocks has the values \[2, 3, 2\]; .* each of them once"),
        ({"hidden": ()}, r"--hidden has the values \[\]"),
        ({"hidden": (4, 4)}, r"--hidden has the values \[4, 4\]"),
        ({"blocks": (2, 0)}, "The number of blocks is 0; give 1 to 100"),
        ({"blocks": (101,)}, "The number of blocks is 101; give 1 to 100"),
        ({"hidden": (4, 0)}, "The hidden size is 0; give a whole number"),
        ({"hidden": (-4,)}, "The hidden size is -4; give a whole number"),
        ({"seeds": 0}, "--seeds is 0; give 1 to 10000"),
        ({"seeds": 10_001}, "--seeds is 10001; give 1 to 10000"),
        ({"candidates": 0}, "--candidates is 0; give 1 to 10000"),
        ({"candidates": -1}, "--candidates is -1; give 1 to 10000"),
        ({"mutations": -1}, "--mutations is -1; give 0 to 10000"),
        ({"mutations": 10_001}, "--mutations is 10001; give 0 to 10000"),
        ({"repeats": 0}, "--repeats is 0; give 1 to 10000"),
        ({"repeats": 10_001}, "--repeats is 10001; give 1 to 10000"),
        (
            {"incumbents": (Architecture(blocks=(BlockSpec(),)),)},
            r"An incumbent has 1 block\(s\), but --blocks is \[2\]; add its depth",
        ),
        (
            {"incumbents": (BASELINES["gcn"].architecture,)},
            "An incumbent is not a member of the space 'paper'; search in another --space",
        ),
        ({"tune": -1}, "--tune is -1; give 0 to 10000"),
        ({"tune": 10_001}, "--tune is 10001; give 0 to 10000"),
        ({"seed": -1}, "The seed -1 is out of range"),
        ({"seed": 2**62}, f"The seed {2**62} is out of range; give 0 to {2**62 - 1}"),
        ({"budget_seconds": 0.0}, "The budget is 0.0 seconds; give a number above 0"),
        ({"budget_seconds": -1.0}, "The budget is -1.0 seconds"),
        ({"budget_seconds": math.nan}, "The budget is nan seconds"),
        ({"budget_seconds": math.inf}, "The budget is inf seconds"),
        ({"max_parameters": 0}, "has at most 0 parameters on tiny; the smallest has"),
    ],
)
def test_a_job_without_sense_is_refused_before_anything_is_computed(
    tiny_task: GraphTask, changes: dict[str, Any], expected: str
) -> None:
    events = Events()
    with pytest.raises(PdnasError, match=expected) as caught:
        search(tiny_task, short(**changes), watcher=events)
    assert "\n" not in str(caught.value)
    assert events.seen == []


def test_an_unknown_control_is_answered_with_the_closest(tiny_task: GraphTask) -> None:
    with pytest.raises(UnknownNameError, match=r"'randm'; known are: random, .*mean 'random'\?"):
        search(tiny_task, short(controls=("randm",)))


def test_a_device_that_is_not_there_is_refused(tiny_task: GraphTask) -> None:
    with pytest.raises(PdnasError, match="cuda:99"):
        search(tiny_task, short(), device="cuda:99")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_does_the_whole_job(tiny_task: GraphTask, preset: str) -> None:
    strategy = PRESETS[preset].changed(epochs=6, pool=3, adapt_epochs=1)
    result = search(tiny_task, lean(strategy=strategy))
    assert result.architecture in SPACES["paper"]
    assert result.search is not None
    assert result.search.settings == strategy.model_dump()


# Strategies that train what they try.


def test_what_a_step_sees_is_decided_once_and_told(
    run: RunDirectory, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noting(Watcher):
        def __init__(self) -> None:
            self.sentences: list[str] = []

        def noted(self, sentence: str) -> None:
            self.sentences.append(sentence)

    monkeypatch.setattr(memory, "free_bytes", lambda _: 10_000)
    monkeypatch.setattr(memory, "has_pymetis", lambda: True)
    first, again, insisting = Noting(), Noting(), Noting()
    result = search(tiny_task, short(), run=run, watcher=first)
    assert [sentence[:30] for sentence in first.sentences] == ["A step on the whole graph woul"]
    assert result.recipe["batching"] == "clusters"
    assert 1 <= result.recipe["batch_nodes"] < 20
    monkeypatch.setattr(memory, "free_bytes", lambda _: 2**60)
    resumed = search(tiny_task, short(), run=run, watcher=again)
    assert (resumed.recipe, again.sentences) == (result.recipe, [])
    monkeypatch.setattr(memory, "free_bytes", lambda _: 0)
    full = short(recipe=short().recipe.changed(batching="full"))
    assert search(tiny_task, full, watcher=insisting).recipe["batching"] is None
    assert insisting.sentences == []
