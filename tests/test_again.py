"""Commands that make a run again: given to the parser, they have the run's settings."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdnas.again import commands_of, search_command, train_command
from pdnas.cli import _parse, search, train
from pdnas.runs import SETTINGS, RunDirectory
from pdnas.settings import SearchSettings, TaskFlags, TrainSettings
from pdnas.space import PAPER


def asked(words: list[str]) -> SearchSettings:
    """The settings that a command of a search has."""
    command: search.Command = _parse(words[1], words[2:])
    task = command.task
    return SearchSettings(job=command._job(), task=task, task_name=task.task, device=command.device)


FLAGS: dict[str, st.SearchStrategy[Any]] = {
    "--space": st.sampled_from(["paper", "extended"]),
    "--epochs": st.integers(10, 900),
    "--blocks": st.sampled_from(["1", "2 3", "4"]),
    "--hidden": st.sampled_from(["16", "32 64"]),
    "--max-parameters": st.integers(100_000, 900_000),
    "--controls": st.sampled_from(["", "gcn", "random gcn"]),
    "--recipe": st.sampled_from(["default", "gat", "gcn"]),
    "--seed": st.integers(0, 9),
    "--seeds": st.integers(1, 5),
    "--lr": st.floats(0.001, 0.1),
    "--dropout": st.sampled_from([0.0, 0.25, 0.6]),
    "--budget-seconds": st.floats(1, 1000),
    "--split": st.sampled_from(["random", "public"]),
    "--normalize": st.sampled_from(["on", "off"]),
    "--threads": st.integers(1, 4),
}
STRATEGY: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "pdnas": {
        "--preset": st.sampled_from(["default", "paper", "straight-through"]),
        "--weight-lr": st.floats(0.001, 0.1),
        "--pool": st.integers(10, 200),
    },
    "random": {"--sharing": st.sampled_from(["off", "on"])},
    "darts": {"--weight-lr": st.floats(0.001, 0.1)},
}


@st.composite
def searches(draw: st.DrawFn) -> list[str]:
    strategy = draw(st.sampled_from(sorted(STRATEGY)))
    words = ["pdnas", "search", "citeseer", "--strategy", strategy]
    for flag, values in {**FLAGS, **STRATEGY[strategy]}.items():
        if draw(st.booleans()):
            value: Any = draw(values)
            words += [flag, *str(value).split()]
    return words


@settings(max_examples=25)
@given(searches())
def test_the_command_of_a_search_has_its_settings(words: list[str]) -> None:
    wanted = asked(words)

    command = search_command(wanted)

    assert command is not None
    assert asked(command) == wanted
    assert len(command) <= len(words)


def test_defaults_are_not_written_down() -> None:
    assert search_command(asked(["pdnas", "search"])) == ["pdnas", "search", "citeseer"]


def test_what_files_said_cannot_be_said_by_flags() -> None:
    wanted = asked(["pdnas", "search"])
    space = PAPER.model_copy(update={"name": "mine"})
    job = wanted.job.model_copy(update={"space": space})

    assert search_command(wanted.model_copy(update={"job": job})) is None


@pytest.mark.parametrize(
    "words",
    [
        "gcn citeseer",
        "gat cora --seeds 3 --seed 4 --hidden 12 --lr 0.02 --device cpu",
        "gcnii citeseer --recipe gat --epochs 7",
    ],
)
def test_the_command_of_a_training_has_its_settings(words: str, tmp_path: Path) -> None:
    wanted = trained(words.split())

    command = train_command(wanted, tmp_path)

    assert trained(command[2:]) == wanted
    assert len(command[2:]) <= len(words.split())


def trained(words: list[str]) -> TrainSettings:
    command: train.Command = _parse("train", words)
    architecture, hidden, recipe = command._find()
    return TrainSettings(
        name=command.architecture,
        architecture=architecture,
        hidden=hidden,
        recipe=recipe,
        seeds=tuple(range(command.seed, command.seed + command.seeds)),
        task=command.task,
        task_name=command.task.task,
        device=command.device,
    )


def test_paths_are_quoted_and_as_they_were_given(tmp_path: Path) -> None:
    wanted = asked(["pdnas", "search", "my data/graph.npz"])
    task = TaskFlags(task="/home/someone/my data/graph.npz", data_root=Path("/elsewhere"))
    run = RunDirectory.create(tmp_path / "a run", "x")
    run.write_json(SETTINGS, wanted.model_copy(update={"task": task}))

    told = dict(commands_of(run.path))

    assert shlex.split(told["Search again"]) == ["pdnas", "search", "my data/graph.npz"]
    assert all("/home/someone" not in command for command in told.values())
    assert shlex.split(told["This page again"])[-1] == str(run.path)


def test_what_an_unfinished_run_refuses_is_not_proposed(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "a run", "x")
    run.write_json(SETTINGS, asked(["pdnas", "search", "citeseer"]))

    told = dict(commands_of(run.path))

    assert list(told) == ["Go on where it stopped", "Search again", "This page again"]
    assert shlex.split(told["Go on where it stopped"]) == ["pdnas", "resume", str(run.path)]


def test_a_graph_in_memory_has_no_command_that_reads_it(tmp_path: Path) -> None:
    wanted = asked(["pdnas", "search", "citeseer"])
    run = RunDirectory.create(tmp_path / "run", "x")
    run.write_json(SETTINGS, wanted.model_copy(update={"task": None}))
    told = dict(commands_of(run.path))
    assert told["Search again"].startswith("# flags alone cannot say it")
    assert "Go on where it stopped" not in told
    assert "Train the network over more seeds" not in told


@pytest.mark.parametrize(
    ("task", "choice", "words"),
    [
        ("citeseer", "off", []),
        ("/data/people", "on", []),
        ("/data/people", "off", ["--standardize", "off"]),
        ("/data/graph.npz", "off", []),
        ("/data/graph.npz", "on", ["--standardize", "on"]),
        ("pyg:Amazon/Photo", "on", ["--standardize", "on"]),
        ("pyg:Amazon/Photo", "off", []),
    ],
)
def test_what_is_usual_for_the_data_is_not_written_down(
    task: str, choice: Any, words: list[str]
) -> None:
    wanted = asked(["pdnas", "search", task])
    recorded = TaskFlags(task=task, standardize=choice)
    told = search_command(wanted.model_copy(update={"task": recorded}))
    assert told == ["pdnas", "search", task, *words]
