"""Run directories as reports see them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pdnas.errors import RunError
from pdnas.report.reading import Run, is_at_work, read_history, read_run, with_labels
from pdnas.runs import LOCK, RunDirectory


def test_a_finished_search_is_read_whole(searched: Run) -> None:
    assert searched.command == "search"
    assert searched.result is not None
    assert searched.result.search is not None
    assert searched.predictions is not None
    assert searched.cells == ((2, 4), (2, 8))
    assert {line["cell"] for line in searched.phase("search")} == {0, 1}
    assert searched.space is not None
    assert searched.space.name == "extended"


def test_lines_of_a_training_are_final(made: dict[str, Path]) -> None:
    run = read_run(made["trained"])

    assert len({line["seed"] for line in run.phase("final")}) == 3
    assert run.space is None


def test_a_run_that_is_being_written_has_what_is_whole(unfinished: Path) -> None:
    run = read_run(unfinished)

    assert run.result is None
    assert len(run.history) == 9


def test_a_run_is_at_work_while_its_lock_is_held(unfinished: Path) -> None:
    assert not read_run(unfinished).at_work

    with RunDirectory.open(unfinished).alone():
        assert read_run(unfinished).at_work
    assert not read_run(unfinished).at_work


def test_a_look_at_a_run_leaves_no_lock(unfinished: Path) -> None:
    (unfinished / LOCK).unlink(missing_ok=True)

    assert not is_at_work(unfinished)
    assert not (unfinished / LOCK).exists()


def test_runs_of_one_name_are_told_apart_by_their_paths(searched: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("one")
    places = ("one", "a/run", "b/run", "a/x/deep", "b/x/deep", "../one", "link")
    runs = [replace(searched, path=tmp_path / place) for place in places]

    assert [run.name for run in with_labels(runs[:5])] == [
        *("one", "a/run", "b/run", "a/x/deep", "b/x/deep")
    ]
    assert [run.name for run in with_labels([runs[0], runs[5]])] == [
        *(f"{tmp_path.name}/one", f"{tmp_path.parent.name}/one")
    ]
    assert [run.name for run in with_labels([runs[0], runs[6]])] == [
        *(str(tmp_path / "one"), str(tmp_path / "link"))
    ]


def test_how_a_run_goes_on_is_said(unfinished: Path) -> None:
    run = read_run(unfinished)

    assert run.way_on == f"go on with: pdnas resume {unfinished}"
    assert "repeat the call in Python" in replace(run, settings={"task": None}).way_on


def test_validation_has_the_name_of_its_metric_as_far_as_it_is_known(
    searched: Run, unfinished: Path
) -> None:
    run = read_run(unfinished)

    assert searched.validation == "validation accuracy"
    assert run.validation == "validation"
    asked = {"task": {"metric": "macro-f1"}}
    assert replace(run, settings=asked).validation == "validation macro-f1"


def test_no_history_is_no_lines(tmp_path: Path) -> None:
    assert read_history(tmp_path / "history.jsonl") == ()


def test_a_damaged_line_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"epoch": 0}\n{"epo\n{"epoch": 2}\n')

    with pytest.raises(RunError, match="is damaged"):
        read_history(path)


@pytest.mark.parametrize("command", ["compare", "reproduce"])
def test_folders_of_other_commands_are_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(f'{{"command": "{command}"}}')

    with pytest.raises(RunError, match=f"pdnas {command} wrote"):
        read_run(tmp_path)


def test_a_tuning_without_a_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"command": "tune"}')

    with pytest.raises(RunError, match="pdnas resume"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        *((command, {"task": "citeseer"}) for command in ("tune", "train")),
        *((command, {"task": {"metric": ["f1"]}}) for command in ("tune", "train")),
        *((command, {"task_name": 1}) for command in ("tune", "train")),
        ("tune", {"tuning": None}),
        ("tune", {"tuning": {}}),
        ("tune", {"tuning": {"fields": 5}}),
        ("tune", {"tuning": {"fields": "lr"}}),
        ("tune", {"tuning": {"fields": [1]}}),
    ],
)
def test_settings_that_say_something_else_are_one_sentence(
    tuned: Path, tmp_path: Path, command: str, changes: dict[str, object]
) -> None:
    path = shutil.copytree(tuned, tmp_path / "tuned")
    settings = json.loads((path / "settings.json").read_text())
    (path / "settings.json").write_text(json.dumps({**settings, "command": command, **changes}))

    with pytest.raises(
        RunError, match=r"settings\.json' is damaged, or of another version[^\n]+\.$"
    ):
        read_run(path)


def test_a_tuning_that_does_not_say_what_it_tuned_is_one_sentence(
    tuned: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(tuned, tmp_path / "tuned")
    (path / "settings.json").write_text('{"command": "tune"}')

    with pytest.raises(RunError, match="tuning: Field required"):
        read_run(path)


EPOCH: dict[str, object] = {"epoch": 0, "train_loss": 1.0, "val_loss": 1.0, "val": 0.5}
LINES: dict[str, dict[str, object]] = {
    "search": {**EPOCH, "phase": "search", "cell": 0},
    "candidate": {**EPOCH, "phase": "candidate", "number": 0},
    "control": {**EPOCH, "phase": "control", "seed": 0, "name": "gcn"},
    "final": {**EPOCH, "seed": 0},
}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *((kind, {"epoch": None}) for kind in LINES),
        *((kind, {"val": "0.5 "}) for kind in LINES),
        *((kind, {"val": 1e308}) for kind in LINES),
        *((kind, {"train_loss": []}) for kind in LINES),
        *((kind, {"epoch": -1}) for kind in LINES),
        ("search", {"cell": "one"}),
        ("search", {"op_probs": [1]}),
        ("search", {"gate_probs": {}}),
        ("search", {"phase": "seek"}),
        ("candidate", {"number": []}),
        ("control", {"name": 1}),
        ("final", {"seed": {}}),
    ],
)
def test_a_line_that_says_something_else_is_one_sentence(
    tmp_path: Path, kind: str, changes: dict[str, object]
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(LINES[kind]) + "\n")
    assert len(read_history(path)) == 1
    path.write_text(json.dumps({**LINES[kind], **changes}) + "\n")
    with pytest.raises(RunError, match=r"is damaged in line 1: .+; run again\.$"):
        read_history(path)


@pytest.mark.parametrize(
    "line", ["null", "[]", "1", '"a"', "[" * 100_000, '{"epoch": NaN}', "{}", "\0"]
)
def test_a_line_that_is_no_line_is_one_sentence(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(RunError, match="is damaged in line 1"):
        read_history(path)


@pytest.mark.parametrize(
    "changes", [{"cell": 9}, {"op_probs": [[[1000]]]}, {"gate_probs": [1] * 99}]
)
def test_a_search_that_the_settings_do_not_know_is_one_sentence(
    unfinished: Path, changes: dict[str, object]
) -> None:
    line = {**LINES["search"], **changes}
    (unfinished / "history.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(RunError, match=r"The history of .* tells of"):
        read_run(unfinished)


@pytest.mark.parametrize("name", ["settings.json", "environment.json"])
@pytest.mark.parametrize("text", ["[]", "null", "[" * 100_000, '{"command": "search", "job": 1}'])
def test_settings_that_are_none_are_one_sentence(unfinished: Path, name: str, text: str) -> None:
    if name == "environment.json" and "job" in text:
        pytest.skip("an environment may say anything")
    (unfinished / name).write_text(text)
    with pytest.raises(RunError, match=name):
        read_run(unfinished)


def test_a_history_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").mkdir()
    with pytest.raises(RunError, match=r"history\.jsonl' cannot be read \(Is a directory\)"):
        read_history(tmp_path / "history.jsonl")
