"""What was asked of a run, and whether it can be read again."""

import re
from pathlib import Path

import pytest
import torch

from pdnas.errors import PdnasError, RunError
from pdnas.job import Job
from pdnas.runs import ENVIRONMENT, SETTINGS, RunDirectory
from pdnas.settings import DeviceFlags, SearchSettings, TaskFlags, new_run


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
