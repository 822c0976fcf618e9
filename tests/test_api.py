"""The functions of the package: what they take, what they leave behind, and what they refuse."""

import inspect
import io
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import pdnas
from pdnas import api, pipeline
from pdnas.architecture import Architecture
from pdnas.cli import main
from pdnas.errors import PdnasError, RunError, SearchError, TaskError
from pdnas.job import Job, JobSettings
from pdnas.models.baselines import BASELINES
from pdnas.runs import ENVIRONMENT, HISTORY, RESULT, SETTINGS, WEIGHTS, Result
from pdnas.search import Search, SearchEpoch
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES, Recipe

SHORT: Any = {
    "strategy": PRESETS["default"].changed(epochs=4, pool=4, adapted=1, adapt_epochs=1),
    "recipe": Recipe(epochs=2),
    "hidden": 4,
    "seeds": 1,
    "candidates": 1,
    "designs": "off",
    "controls": (),
}


@pytest.fixture(autouse=True)
def _measured_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)


@pytest.fixture
def data(tiny_task: GraphTask) -> Data:
    """The tiny task as its user has it."""
    graph, split = tiny_task.graphs[0], tiny_task.split
    masks = {}
    for part in ("train", "val", "test"):
        masks[f"{part}_mask"] = torch.zeros(20, dtype=torch.bool)
        masks[f"{part}_mask"][getattr(split, part)] = True
    return Data(x=graph.x, edge_index=graph.edge_index, y=graph.y, **masks)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that are asked for; none is done."""
    asked: list[Job] = []
    monkeypatch.setattr(pipeline, "search", lambda task, job, **_: asked.append(job))
    return asked


def test_the_settings_that_editors_show_are_the_fields_of_a_job() -> None:
    assert typing.get_type_hints(JobSettings).keys() == Job.model_fields.keys()
    assert JobSettings.__optional_keys__ == Job.model_fields.keys()


def test_names_stand_for_spaces_strategies_and_recipes(data: Data, jobs: list[Job]) -> None:
    pdnas.search(data, space="extended", strategy="pdnas", recipe="gcn", blocks=3, hidden=(8, 16))
    (job,) = jobs
    assert job.space == SPACES["extended"]
    assert job.strategy == PRESETS["default"]
    assert job.recipe == RECIPES["gcn"]
    assert (job.blocks, job.hidden) == ((3,), (8, 16))


@pytest.mark.parametrize("kind", [str, Path])
def test_a_space_may_be_a_file(
    kind: Callable[[Path], Any], data: Data, jobs: list[Job], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'expansion = [1]\nattention = ["gcn"]\nheads = [1]\naggregation = ["sum"]\n'
        'combine = ["add"]\nactivation = ["relu"]\n'
    )
    pdnas.search(data, space=kind(path))
    assert jobs[0].space.attention == ("gcn",)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"space": "papre"}, r"Unknown space 'papre'.*did you mean 'paper'\?"),
        ({"strategy": "dart"}, r"Unknown strategy 'dart'.*did you mean 'darts'\?"),
        ({"recipe": "gnc"}, r"Unknown recipe 'gnc'"),
        ({"sed": 3}, r"cannot be set so: Unknown setting 'sed'; known are: space, .*'seeds?'\?"),
        ({"seed": "three"}, r"cannot be set so: seed: .*, but got 'three'\.$"),
        ({"recipe": {"lr": -1.0}}, r"The recipe is not valid: lr: .* greater than 0, but got -1"),
        ({"job": Job(), "seeds": 3}, r"Both a job and settings \(seeds\) were given"),
        ({"callback": 3}, r"The callback is a int; give a function of an epoch"),
        ({"tensorboard": True}, r"there is none; give a run_dir\.$"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    data: Data, settings: dict[str, Any], expected: str
) -> None:
    with pytest.raises(PdnasError, match=expected) as caught:
        pdnas.search(data, **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [None, 3, [1, 2]])
def test_no_task_is_one_sentence_for_every_function(given: Any, tmp_path: Path) -> None:
    expected = (
        r"is no task; give a GraphTask, a PyG Data with x, edge_index and y, or a task's name"
    )
    for call in (
        lambda: pdnas.search(given, **SHORT),
        lambda: pdnas.train(BASELINES["gcn"].design, given),
        lambda: pdnas.compare(given, tmp_path / "folder"),
    ):
        with pytest.raises(TaskError, match=expected):
            call()
    assert not (tmp_path / "folder").exists()


def test_data_a_task_and_a_path_come_to_the_same(
    data: Data, tiny_task: GraphTask, tmp_path: Path
) -> None:
    torch.save(data, tmp_path / "tiny.pt")
    given: list[Any] = [data, tiny_task, tmp_path / "tiny.pt", str(tmp_path / "tiny.pt")]
    found = [pdnas.search(task, **SHORT) for task in given]
    assert {result.architecture for result in found} == {found[0].architecture}
    assert {result.test for result in found} == {found[0].test}


def test_a_run_is_written_whole_and_read_back(data: Data, tmp_path: Path) -> None:
    result = pdnas.search(data, run_dir=tmp_path / "run", tensorboard=True, **SHORT)
    for name in (SETTINGS, ENVIRONMENT, HISTORY, WEIGHTS, RESULT):
        assert (tmp_path / "run" / name).is_file()
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    again = pdnas.load_run(tmp_path / "run")
    assert again.model_dump() == result.model_dump()
    logits = result.model(data.x, data.edge_index)
    assert torch.equal(again.model(data.x, data.edge_index), logits)


def test_resume_says_that_data_were_in_memory(
    data: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pdnas.search(data, run_dir=tmp_path / "run", **SHORT)
    assert main(["resume", str(tmp_path / "run")]) == 2
    assert "is on data that were in memory and cannot be read again" in capsys.readouterr().err


class Dies(pdnas.Watcher):
    """Dies with the second epoch of a search."""

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        if epoch.epoch == 1:
            raise KeyboardInterrupt


def test_the_same_call_goes_on_with_a_run(data: Data, tmp_path: Path) -> None:
    whole = pdnas.search(data, **SHORT)
    with pytest.raises(KeyboardInterrupt):
        pdnas.search(data, run_dir=tmp_path / "run", callback=Dies(), **SHORT)
    result = pdnas.search(data, run_dir=tmp_path / "run", **SHORT)
    assert (result.architecture, result.test) == (whole.architecture, whole.test)
    other = {**SHORT, "seeds": 2}
    with pytest.raises(RunError, match=r"holds a run with another job; repeat its settings"):
        pdnas.search(data, run_dir=tmp_path / "run", **other)
    with pytest.raises(RunError, match=r"holds a run with another search; repeat its settings"):
        pdnas.train(BASELINES["gcn"].design, data, run_dir=tmp_path / "run")


def test_a_run_on_a_file_is_gone_on_with_from_the_command_line(
    data: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(data, tmp_path / "tiny.pt")
    whole = pdnas.search(tmp_path / "tiny.pt", **SHORT)
    with pytest.raises(KeyboardInterrupt):
        pdnas.search(tmp_path / "tiny.pt", run_dir=tmp_path / "run", callback=Dies(), **SHORT)
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    result = pdnas.load_run(tmp_path / "run")
    assert (result.architecture, result.test) == (whole.architecture, whole.test)


def test_a_run_that_cannot_begin_leaves_nothing(data: Data, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="parameters"):
        pdnas.search(data, run_dir=tmp_path / "some" / "run", **SHORT, max_parameters=1)
    assert not (tmp_path / "some").exists()


def test_a_callback_sees_every_epoch_and_ends_the_search(data: Data) -> None:
    seen: list[int] = []

    def enough(epoch: SearchEpoch) -> bool:
        seen.append(epoch.epoch)
        return epoch.epoch == 1

    result = pdnas.search(data, callback=enough, **SHORT)
    assert seen == [0, 1]
    assert result.search is not None
    assert result.search.epochs == 2


def test_progress_is_shown_where_it_is_asked_for(
    data: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    pdnas.search(data, **SHORT)
    pdnas.train(BASELINES["gcn"].design, data, recipe=SHORT["recipe"])
    assert capsys.readouterr() == ("", "")
    pdnas.search(data, progress=True, **SHORT)
    assert "search, 2 blocks, hidden 4: epoch 4/4" in capsys.readouterr().err


def test_trainings_show_their_progress_in_a_terminal(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    pdnas.train(BASELINES["gcn"].design, data, recipe=SHORT["recipe"], seeds=2)
    assert "training 2/2" in terminal.getvalue()


def test_a_training_writes_a_run_that_is_gone_on_with(
    data: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(data, tmp_path / "tiny.pt")
    settings: Any = {"hidden": 4, "recipe": SHORT["recipe"], "seeds": (3, 1)}
    design, folder = BASELINES["gcn"].design, tmp_path / "run"
    result = pdnas.train(design, tmp_path / "tiny.pt", run_dir=folder, tensorboard=True, **settings)
    assert list((folder / "tensorboard").iterdir())
    again = pdnas.train(design, tmp_path / "tiny.pt", run_dir=folder, **settings)
    assert again.model_dump() == result.model_dump() == pdnas.load_run(folder).model_dump()
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert pdnas.load_run(folder).test == result.test


def test_a_training_takes_what_the_command_takes(data: Data, tmp_path: Path) -> None:
    design, brief = BASELINES["gcn"].design, Recipe(epochs=2)
    assert isinstance(design, Architecture)
    design.save(tmp_path / "mine.json")
    pdnas.train(design, data, hidden=4, recipe=brief, run_dir=tmp_path / "run")
    for given in ("gcn", tmp_path / "mine.json", str(tmp_path / "mine.json"), tmp_path / "run"):
        result = pdnas.train(given, data, hidden=5, recipe=brief)
        assert (result.architecture, result.hidden) == (design, 5)
    assert pdnas.train(tmp_path / "run", data).recipe == brief.model_dump()
    assert pdnas.train(str(tmp_path / "run"), data).hidden == 4
    assert pdnas.train(tmp_path / "mine.json", data, recipe=brief).hidden == 64


def test_a_baseline_is_trained_as_the_command_trains_it(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = RECIPES["gat"].changed(epochs=2)
    monkeypatch.setitem(RECIPES._entries, "gat", own)
    torch.save(data, tmp_path / "tiny.pt")
    result = pdnas.train("gat", tmp_path / "tiny.pt", run_dir=tmp_path / "here")
    assert (result.hidden, result.recipe) == (BASELINES["gat"].hidden, own.model_dump())
    words = ["train", "gat", str(tmp_path / "tiny.pt"), "--run-dir", str(tmp_path / "there")]
    assert main([*words, "--quiet"]) == 0
    assert pdnas.load_run(tmp_path / "there").test == result.test
    assert "pdnas train gat " in (tmp_path / "here" / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"blocks": []}, r"A dict is no network that can be trained; give a baseline's name"),
        (None, r"A NoneType is no network"),
        ("nope", r"Unknown baseline 'nope'; known are: appnp, "),
        ("my.json", r"The architecture 'my\.json' cannot be read \(No such file"),
        (".", r"'\.' is not a run directory"),
    ],
)
def test_what_is_no_network_is_one_sentence(given: Any, expected: str, data: Data) -> None:
    with pytest.raises(PdnasError, match=expected) as caught:
        pdnas.train(given, data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"seeds": "3"}, "seeds is '3'; give a number or whole numbers, such as (0, 1, 2)."),
        ({"seeds": 2.5}, "seeds is 2.5; give a number or whole numbers, such as (0, 1, 2)."),
        ({"split_seeds": 3}, "split_seeds is 3; give whole numbers, such as (0, 1, 2)."),
        ({"recipe": 3}, "The recipe is a int; give a pdnas.Recipe"),
    ],
)
def test_what_is_no_number_and_no_recipe_is_one_sentence(
    given: dict[str, Any], expected: str, data: Data
) -> None:
    with pytest.raises(PdnasError, match=re.escape(expected)):
        pdnas.train("gcn", data, **given)


def test_a_run_leaves_its_page(data: Data, tmp_path: Path) -> None:
    pdnas.search(data, run_dir=tmp_path / "search", **SHORT)
    pdnas.train("gcn", data, recipe=SHORT["recipe"], run_dir=tmp_path / "train")
    assert "How it was found" in (tmp_path / "search" / "report.html").read_text()
    assert "Trainings" in (tmp_path / "train" / "report.html").read_text()


def test_a_page_that_cannot_be_written_is_a_warning(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Path:
        raise RunError("The report 'x' cannot be written.")

    monkeypatch.setattr("pdnas.page.write_report", full)
    with pytest.warns(RuntimeWarning, match="The report 'x' cannot be written"):
        result = pdnas.train("gcn", data, recipe=SHORT["recipe"], run_dir=tmp_path / "run")
    assert pdnas.load_run(tmp_path / "run").test == result.test


def test_a_recipe_is_tuned_where_that_is_asked_for(data: Data, tmp_path: Path) -> None:
    result = pdnas.search(data, run_dir=tmp_path / "run", tune=1, **SHORT)
    assert result.tune_seconds > 0
    assert (tmp_path / "run" / "recipe.toml").is_file()


@pytest.mark.parametrize("function", [api.search, api.train])
def test_every_argument_is_documented(function: Callable[..., Result]) -> None:
    documented = inspect.getdoc(function) or ""
    for name in inspect.signature(function).parameters:
        assert f"    {name}: " in documented
