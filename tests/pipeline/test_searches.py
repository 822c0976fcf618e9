"""Each search of the grid, its checkpoints, and how a watcher ends it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.pipeline.conftest import RIVALS, Clock, Counter, lean, short, timeless

from pdnas.pipeline import search
from pdnas.runs import HISTORY, RunDirectory
from pdnas.search import Search, SearchEpoch
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.watcher import Callback, Watcher, Watchers


@pytest.mark.parametrize(("cost", "expected"), [(0.0, 6), (0.04, 3), (10.0, 1)])
def test_checkpoints_take_a_fiftieth_of_the_time(
    run: RunDirectory,
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    cost: float,
    expected: int,
) -> None:
    write, count = RunDirectory.write_state, 0

    def slow(self: RunDirectory, *arguments: Any) -> None:
        nonlocal count
        count += 1
        clock.now += cost
        write(self, *arguments)

    monkeypatch.setattr(RunDirectory, "write_state", slow)
    search(tiny_task, lean(), run=run)
    assert count == expected


@pytest.mark.parametrize("name", RIVALS)
def test_a_strategy_that_trains_what_it_tries_does_the_whole_job(
    tiny_task: GraphTask, name: str
) -> None:
    counter = Counter()
    result = search(
        tiny_task,
        short(strategy=RIVALS[name], recipe=Recipe(epochs=4), candidates=2, designs="off"),
        watcher=counter,
    )
    assert result.strategy == name
    assert result.search is not None
    assert counter.alone == 5
    assert counter.trials == len(result.search.trials) > 0
    tried = {trial.architecture for trial in result.search.trials}
    assert result.architecture in tried


def epochs_of(run: RunDirectory) -> list[int]:
    """The epochs of its searches that the history of a run tells of."""
    lines = map(json.loads, (run.path / HISTORY).read_text().splitlines())
    return [line["epoch"] for line in lines if line["phase"] == "search"]


def test_a_callback_ends_the_search_and_the_job_goes_on(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    asked: list[int] = []

    def enough(epoch: SearchEpoch) -> bool:
        asked.append(epoch.epoch)
        return epoch.epoch == 2

    result = search(tiny_task, short(), run=run, watcher=Callback(enough))
    assert asked == epochs_of(run) == [0, 1, 2]
    assert result.search is not None
    assert (result.search.epochs, result.search.stopped) == (3, None)
    assert "The search was ended by a callback after epoch 3 of 6." in result.search.warnings
    assert len(result.test.values) == 2
    assert [control.name for control in result.search.controls] == ["gcn"]


def test_a_callback_ends_every_search_of_a_grid_on_its_own(tiny_task: GraphTask) -> None:
    asked: list[int] = []

    def enough(epoch: SearchEpoch) -> bool:
        asked.append(epoch.epoch)
        return len(asked) == 2

    result = search(tiny_task, lean(hidden=(2, 4)), watcher=Callback(enough))
    assert asked == [0, 1, 0, 1, 2, 3, 4, 5]
    assert result.search is not None
    told = [warning for warning in result.search.warnings if "callback" in warning]
    assert told == [
        "With 2 block(s) and hidden size 2: The search was ended by a callback after epoch 2 of 6."
    ]


def test_a_run_that_dies_after_its_callback_does_not_search_on(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask
) -> None:
    class Enough(Watcher):
        def is_enough(self, search: Search, epoch: SearchEpoch) -> bool:
            return epoch.epoch == 3

    class Dies(Watcher):
        def rating(self, search: Search) -> None:
            raise RuntimeError("the process died")

    whole, cut = new_run(), new_run()
    expected = search(tiny_task, lean(), run=whole, watcher=Enough())
    with pytest.raises(RuntimeError, match="died"):
        search(tiny_task, lean(), run=cut, watcher=Watchers(Enough(), Dies()))
    resumed = search(tiny_task, lean(), run=cut)
    assert epochs_of(cut) == [0, 1, 2, 3]
    assert timeless(resumed.model_dump(mode="json")) == timeless(expected.model_dump(mode="json"))
