"""The grid: every depth with every size, but for what no network fits into."""

import pytest
from tests.pipeline.conftest import Events, lean, lines, short, size

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RunError, SearchError
from pdnas.models import GraphNetwork
from pdnas.models.baselines import block_designs
from pdnas.pipeline import search
from pdnas.runs import RunDirectory
from pdnas.search.pdnas import PdnasSearch
from pdnas.space import SPACES
from pdnas.tasks import GraphTask


def test_an_incumbent_that_is_too_large_is_refused(tiny_task: GraphTask) -> None:
    mine = Architecture(blocks=(BlockSpec(expansion=8), BlockSpec()))
    limit = mine.parameters(tiny_task, 4) - 1
    with pytest.raises(
        SearchError, match=f"incumbent has {limit + 1} .*--max-parameters is {limit};"
    ):
        search(tiny_task, lean(incumbents=(mine,), hidden=(8, 4), max_parameters=limit))
    search(tiny_task, lean(incumbents=(mine,), hidden=(8, 4), max_parameters=limit + 1))


def test_designs_that_are_too_large_are_left_out(tiny_task: GraphTask) -> None:
    space = SPACES["extended"]
    known = [space.plain(design) for design in block_designs() if design in space]
    sizes = [a.parameters(tiny_task, 4) for a in known if a.num_blocks == 2]
    job = lean(space=space).model_copy(update={"designs": "on", "max_parameters": min(sizes)})
    result = search(tiny_task, job)
    assert result.search is not None
    first = [trial for trial in result.search.trials if trial.seed == job.trial_seed]
    assert max(size(trial, tiny_task) for trial in first) <= min(sizes)
    assert {size(trial, tiny_task) for trial in first[1:]} == {min(sizes)}


def test_every_cell_of_a_grid_is_searched_and_validation_chooses(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    events = Events()
    job = short(blocks=(1, 2), hidden=(2, 4), mutations=0, seeds=1, controls=("random",))
    result = search(tiny_task, job, run=run, watcher=events)
    cells = ["1x2", "1x4", "2x2", "2x4"]
    searched = [event.split()[1] for event in events.seen if event.startswith("search")]
    assert searched == [cell for cell in cells for _ in range(6)]
    assert {line["cell"] for line in lines(run) if line["phase"] == "search"} == {0, 1, 2, 3}
    assert result.search is not None
    trials = result.search.trials
    shapes = [f"{trial.architecture.num_blocks}x{trial.hidden}" for trial in trials]
    assert shapes[:8] == cells + cells, "the first of each cell, then the second of each"
    means = {
        (trial.architecture, trial.hidden): (trial.val + again.val) / 2
        for trial in trials[:8]
        for again in trials[8:]
        if (trial.architecture, trial.hidden) == (again.architecture, again.hidden)
    }
    assert isinstance(result.architecture, Architecture)
    assert means[result.architecture, result.hidden] == max(means.values())
    random = result.search.controls[0]
    assert random.hidden == result.hidden
    assert isinstance(random.architecture, Architecture)
    assert random.architecture.num_blocks == result.architecture.num_blocks


def test_no_network_exceeds_the_number_of_parameters(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    limit, settings = 90, {"candidates": 4, "mutations": 3, "seeds": 1, "controls": ("random",)}
    free = search(tiny_task, short(**settings))
    result = search(tiny_task, short(max_parameters=limit, **settings), run=run)
    assert free.search is not None
    assert result.search is not None
    assert max(size(trial, tiny_task) for trial in free.search.trials) > limit
    assert max(size(trial, tiny_task) for trial in result.search.trials) <= limit
    assert sum(weight.numel() for weight in result.model.parameters()) <= limit
    assert result.search.controls[0].parameters <= limit


def test_no_path_of_the_search_exceeds_the_number_of_parameters(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, lend = [], PdnasSearch._lend

    def spy(self: PdnasSearch, architecture: Architecture) -> GraphNetwork:
        sizes.append(architecture.parameters(tiny_task, 4))
        return lend(self, architecture)

    monkeypatch.setattr(PdnasSearch, "_lend", spy)
    search(tiny_task, lean(max_parameters=90))
    assert len(sizes) >= 6
    assert max(sizes) <= 90


def test_cells_that_no_network_fits_into_are_left_out_with_a_note(tiny_task: GraphTask) -> None:
    events = Events()
    job = lean(hidden=(64, 2), max_parameters=100)
    result = search(tiny_task, job, watcher=events)
    assert result.hidden == 2
    assert [note.partition(":")[0] for note in events.notes] == ["Left out"]
    assert "2 block(s) and hidden size 64 has at most 100 parameters" in events.notes[0]
    assert not [event for event in events.seen if event.startswith("search 2x64")]


def test_an_impossible_number_of_parameters_names_the_smallest_possible_one(
    tiny_task: GraphTask,
) -> None:
    with pytest.raises(SearchError, match=r"at most 1 parameters .*; the smallest has ") as caught:
        search(tiny_task, short(max_parameters=1))
    smallest = int(str(caught.value).partition("the smallest has ")[2].partition(":")[0])
    with pytest.raises(SearchError):
        search(tiny_task, short(max_parameters=smallest - 1))
    result = search(tiny_task, lean(max_parameters=smallest))
    assert result.parameters == smallest


def test_what_is_of_another_job_is_refused(run: RunDirectory, tiny_task: GraphTask) -> None:
    search(tiny_task, lean(blocks=(1,), hidden=(4,)), run=run)
    for other in (lean(blocks=(2,), hidden=(4,)), lean(blocks=(1,), hidden=(2,))):
        with pytest.raises(RunError, match="tells of a search of another shape than its settings"):
            search(tiny_task, other, run=run)
