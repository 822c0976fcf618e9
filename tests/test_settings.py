"""What was asked of a run, and whether it can be read again."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from pdnas.errors import PdnasError, RunError
from pdnas.job import Job
from pdnas.runs import ENVIRONMENT, SETTINGS, RunDirectory
from pdnas.settings import DeviceFlags, SearchSettings, TaskFlags, WorkerFlags, new_run


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        (None, ()),
        ("3", (3,)),
        ("0..9", tuple(range(10))),
        ("4..4", (4,)),
        ("0,2,5", (0, 2, 5)),
        ("5,0", (5, 0)),
        ("007", (7,)),
    ],
)
def test_split_seeds_are_a_number_a_span_or_a_list(
    text: str | None, seeds: tuple[int, ...]
) -> None:
    assert TaskFlags(split_seeds=text).chosen_splits() == seeds


@pytest.mark.parametrize("text", ["9" * 5000, f"0..{'9' * 5000}", f"1,{'9' * 5000}"])
def test_a_split_seed_beyond_all_measure_is_one_sentence(text: str) -> None:
    with pytest.raises(PdnasError, match="cannot be read; write one number, a span"):
        TaskFlags(split_seeds=text).chosen_splits()


@pytest.mark.parametrize(
    "text", ["", "a", "-1", "1.5", "9..0", "0..", "..3", "0...3", "1,", ",1", "1,,2", "1,1", "0 1"]
)
def test_other_split_seeds_are_one_sentence(text: str) -> None:
    expected = re.escape(f"The split seeds '{text}' cannot be read; write one number, a span")
    with pytest.raises(PdnasError, match=expected):
        TaskFlags(split_seeds=text).chosen_splits()


def test_the_task_is_loaded_on_the_first_of_the_splits() -> None:
    task = TaskFlags(split="random", split_seeds="4,1").load()
    assert (task.name, task.split.name, task.split.seed) == ("citeseer", "random", 4)


@pytest.mark.parametrize("threads", [0, -1])
def test_no_thread_at_all_is_one_sentence(threads: int) -> None:
    with pytest.raises(PdnasError, match=f"number of threads is {threads}; give 1 to 1024"):
        DeviceFlags(threads=threads).apply()


@pytest.fixture
def settings() -> SearchSettings:
    task = TaskFlags(split="random", split_seeds="3")
    return SearchSettings(job=Job(), task=task, task_name="mine", device=DeviceFlags())


def test_a_new_run_knows_what_it_is_for(settings: SearchSettings, tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", "label", settings, torch.device("cpu"), 1)
    assert run.has(ENVIRONMENT)
    assert run.read_record(SETTINGS, SearchSettings) == settings


def test_the_task_of_a_run_is_read_again_under_its_name(settings: SearchSettings) -> None:
    task = settings.load_task(RunDirectory(Path("run")))
    assert (task.name, task.split.name, task.split.seed) == ("mine", "random", 3)
    assert settings.split_seeds == (3,)


def test_data_in_memory_cannot_be_read_again(settings: SearchSettings) -> None:
    in_memory = settings.model_copy(update={"task": None})
    again = SearchSettings.model_validate_json(in_memory.model_dump_json())
    assert (again.task, again.split_seeds) == (None, ())
    with pytest.raises(RunError, match="'run' is on data that were in memory"):
        again.load_task(RunDirectory(Path("run")))


@pytest.mark.parametrize(
    ("given", "device", "reason"),
    [
        ({"workers": 0}, "auto", "The number of workers is 0; give 1 to 1024"),
        ({"trial_timeout": 0.0}, "auto", "--trial-timeout is 0; give more than 0 seconds"),
        ({"trial_timeout": math.inf}, "auto", "--trial-timeout is inf"),
        ({"trial_timeout": math.nan}, "auto", "--trial-timeout is nan"),
        ({"ray_address": "auto"}, "auto", "--ray-address is for trials on Ray; leave it out"),
        ({"gpus_per_trial": 0.5}, "auto", "--gpus-per-trial is for trials on Ray; leave it out"),
        ({"executor": "ray", "gpus_per_trial": 0.0}, "auto", "--gpus-per-trial is 0; give a part"),
        ({"executor": "ray", "gpus_per_trial": 1.5}, "auto", "or a whole number from 1; without"),
        ({"executor": "ray", "gpus_per_trial": math.nan}, "auto", "--gpus-per-trial is nan"),
        ({"executor": "ray", "gpus_per_trial": 0.5}, "cpu", "--device is cpu, but --gpus-per-tri"),
        ({"executor": "ray"}, "cuda:0", "--device is cuda:0, but trials on Ray compute on GPUs"),
    ],
)
def test_who_does_trials_is_refused_where_it_makes_no_sense(
    given: dict[str, Any], device: str, reason: str
) -> None:
    with pytest.raises(PdnasError, match=re.escape(reason)):
        WorkerFlags(**given).check(device)


def test_trials_compute_where_their_place_says() -> None:
    assert WorkerFlags().device("cpu") == "cpu"
    assert WorkerFlags(executor="ray").device("auto") == "cpu"
    assert WorkerFlags(executor="ray", gpus_per_trial=0.5).device("auto") == "cuda"


def test_trials_share_the_memory_of_a_device() -> None:
    assert WorkerFlags().sharers == 1
    assert WorkerFlags(workers=3).sharers == 3
    assert WorkerFlags(executor="ray", workers=40, gpus_per_trial=0.1).sharers == 10
    assert WorkerFlags(executor="ray", gpus_per_trial=2).sharers == 1


def test_a_number_of_workers_means_processes_of_this_machine() -> None:
    assert WorkerFlags.of(3) == WorkerFlags(workers=3)
    assert WorkerFlags.of(WorkerFlags(executor="ray")) == WorkerFlags(executor="ray")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tables."""
    path = tmp_path / "tables"
    path.mkdir()
    (path / "nodes.csv").write_text("label,a\nx,1\ny,2\nx,3\n")
    (path / "edges.csv").write_text("source,target\n0,1\n")
    return path


@pytest.mark.parametrize(("asked", "recorded"), [("auto", "on"), ("on", "on"), ("off", "off")])
def test_whether_data_are_standardized_is_recorded(folder: Path, asked: Any, recorded: str) -> None:
    flags = TaskFlags(task=str(folder), standardize=asked)
    assert flags.resolved(flags.load()).standardize == recorded
    assert TaskFlags().resolved(TaskFlags().load()).standardize == "off"


def begun(settings: SearchSettings, path: Path, **task: Any) -> Path:
    """A run whose settings say this of its task."""
    run = RunDirectory.create(path, "x")
    values = settings.model_dump(mode="json") | task
    (run.path / SETTINGS).write_text(json.dumps(values))
    return run.path


def test_a_run_that_says_nothing_of_it_was_not_standardized(
    settings: SearchSettings, folder: Path, tmp_path: Path
) -> None:
    path = begun(settings, tmp_path / "run", task={"task": str(folder)})
    read = RunDirectory.open(path).read_record(SETTINGS, SearchSettings)
    assert read.task is not None
    assert read.task.standardize == "off"
    assert read.load_task(RunDirectory(path)).source.means == ()
    assert TaskFlags(task=str(folder)).as_begun(path).standardize == "off"
    assert TaskFlags(task=str(folder), standardize="on").as_begun(path).standardize == "on"


@pytest.mark.parametrize(
    ("task", "choice"),
    [
        ({"task": {"task": "a", "standardize": "on"}}, "on"),
        ({"task": {"task": "a", "standardize": []}}, "auto"),
        ({"task": None}, "auto"),
        ({"task": "GraphTask(...)", "asked": {"task": "a"}}, "off"),
        ({"task": "GraphTask(...)", "asked": {}}, "auto"),
    ],
)
def test_a_run_goes_on_as_it_was_begun(
    settings: SearchSettings, tmp_path: Path, task: dict[str, Any], choice: str
) -> None:
    path = begun(settings, tmp_path / "run", **task)
    assert TaskFlags().as_begun(path).standardize == choice


def test_where_no_run_is_nothing_was_begun(tmp_path: Path) -> None:
    assert TaskFlags().as_begun(None) == TaskFlags().as_begun(tmp_path) == TaskFlags()
    (tmp_path / SETTINGS).write_text("damaged")
    assert TaskFlags().as_begun(tmp_path) == TaskFlags()
