"""Run directories: nothing is ever half there, and what is read back is what was written."""

import errno
import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.runs.conftest import Note, files

from pdnas.errors import RunError
from pdnas.models import make_network
from pdnas.runs import (
    CHECKPOINT,
    CHECKPOINT_WEIGHTS,
    HISTORY,
    LOCK,
    RESULT,
    SEARCH_STATE,
    SETTINGS,
    WEIGHTS,
    AnySettings,
    Result,
    RunDirectory,
    load_run,
)
from pdnas.tasks import GraphTask


def test_a_new_run_is_an_empty_folder(run: RunDirectory) -> None:
    assert run.path.is_dir()
    assert files(run) == set()


def test_by_default_runs_lie_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (RunDirectory.create(None, "gcn-cora") for _ in range(2))
    assert first.path.parent == Path("runs")
    assert first.path.name.startswith("gcn-cora-")
    assert first.path != second.path


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_run_directory_that_exists_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run"
    path.mkdir() if kind == "folder" else path.write_text("mine")
    why = "exists already; give another --run-dir that" if kind == "folder" else "is a file; give"
    with pytest.raises(RunError, match=f"'.*run' {why}"):
        RunDirectory.create(path, "test")


def test_a_folder_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(RunError, match=r"cannot be made \(Permission denied\); give a --run-dir"):
        RunDirectory.create(tmp_path / "run", "test")


def test_a_run_that_no_folder_can_be_called_is_one_sentence(tmp_path: Path) -> None:
    for act in (RunDirectory.open, lambda path: RunDirectory.create(path, "test")):
        with pytest.raises(
            RunError, match=r"a b' cannot be a path: no file's name has a null byte"
        ):
            act(tmp_path / "a\0b")
    assert list(tmp_path.iterdir()) == []


def test_a_run_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be made"):
        RunDirectory.create(tmp_path / "file" / "run", "test")


def test_only_a_folder_with_settings_is_a_run(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"is not a run directory: it has no {SETTINGS}"):
        RunDirectory.open(run.path)
    run.write_json(SETTINGS, {"a": 1})
    assert RunDirectory.open(str(run.path)).path == run.path


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_file_and_no_draft(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run.write_json("note.json", Note(text="old"))

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(RunError, match=r"note\.json' cannot be written \(No space left on device"):
        run.write_json("note.json", Note(text="new"))
    assert run.read_record("note.json", Note) == Note(text="old")
    assert files(run) == {"note.json"}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupted_write_leaves_the_old_file_and_no_draft(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run.write_json("note.json", Note(text="old"))

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.write_json("note.json", Note(text="new"))
    assert run.read_record("note.json", Note) == Note(text="old")
    assert files(run) == {"note.json"}


def test_weights_come_back(run: RunDirectory) -> None:
    weights = {"a": torch.randn(3, 4).t(), "b": torch.nn.Parameter(torch.zeros(2))}
    run.write_weights(WEIGHTS, weights)
    read = run.read_weights(WEIGHTS)
    assert read.keys() == weights.keys()
    assert all(torch.equal(read[name], weights[name]) for name in weights)


class Hostile:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (self.path,))


def test_a_pickle_in_place_of_weights_is_refused_and_not_run(
    run: RunDirectory, tmp_path: Path
) -> None:
    (run.path / WEIGHTS).write_bytes(pickle.dumps(Hostile(tmp_path / "touched")))
    with pytest.raises(RunError, match=r"model\.safetensors' cannot be read"):
        run.read_weights(WEIGHTS)
    torch.save({"a": Hostile(tmp_path / "touched")}, run.path / WEIGHTS)
    with pytest.raises(RunError, match=r"model\.safetensors' cannot be read"):
        run.read_weights(WEIGHTS)
    assert not (tmp_path / "touched").exists()


def test_missing_and_truncated_weights_are_one_sentence(run: RunDirectory) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        run.read_weights(WEIGHTS)
    run.write_weights(WEIGHTS, {"a": torch.zeros(100)})
    content = (run.path / WEIGHTS).read_bytes()
    (run.path / WEIGHTS).write_bytes(content[:-10])
    with pytest.raises(RunError, match=r"\); have them written again with: pdnas resume") as caught:
        run.read_weights(WEIGHTS)
    assert "\n" not in str(caught.value)
    with pytest.raises(RunError, match=r"\); start the run again in another directory\.$"):
        run.read_weights(CHECKPOINT_WEIGHTS)


def test_history_is_added_line_by_line(run: RunDirectory) -> None:
    run.append_history([{"epoch": 0}, {"epoch": 1}])
    length = run.append_history([{"epoch": 2}])
    text = (run.path / HISTORY).read_text()
    assert [json.loads(line)["epoch"] for line in text.splitlines()] == [0, 1, 2]
    assert length == len(text)


def test_history_is_cut_to_what_is_certain(run: RunDirectory) -> None:
    length = run.append_history([{"epoch": 0}])
    run.append_history([{"epoch": 1}])
    run.cut_history(length)
    assert (run.path / HISTORY).read_text() == '{"epoch":0}\n'


def test_cutting_a_history_that_is_not_there_does_nothing(run: RunDirectory) -> None:
    run.cut_history(0)
    assert files(run) == set()


def test_a_history_shorter_than_recorded_is_not_filled_up(run: RunDirectory) -> None:
    length = run.append_history([{"epoch": 0}])
    try:
        run.cut_history(length + 10)
    except RunError:
        return
    assert b"\0" not in (run.path / HISTORY).read_bytes()


def test_a_history_that_cannot_be_written_is_one_sentence(run: RunDirectory) -> None:
    (run.path / HISTORY).mkdir()
    with pytest.raises(RunError, match=r"history\.jsonl' cannot be written \(Is a directory\)"):
        run.append_history([{"epoch": 0}])


def test_a_run_comes_back_with_the_same_result_and_logits(
    run: RunDirectory, result: Result, tiny_task: GraphTask
) -> None:
    network = make_network(result.architecture, tiny_task, result.hidden).eval()
    run.write_json(SETTINGS, {})
    run.write_json(RESULT, result)
    run.write_weights(WEIGHTS, network.state_dict())
    read = load_run(run.path)
    graph = tiny_task.graphs[0]
    assert read.model_dump() == result.model_dump()
    assert not read.model.training
    assert torch.equal(read.model(graph.x, graph.edge_index), network(graph.x, graph.edge_index))


def test_weights_that_do_not_fit_the_result_are_one_sentence(
    run: RunDirectory, result: Result
) -> None:
    run.write_json(SETTINGS, {})
    run.write_json(RESULT, result)
    run.write_weights(WEIGHTS, {"a": torch.zeros(2)})
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    assert "\n" not in str(caught.value)


def test_an_unfinished_run_has_no_result(run: RunDirectory) -> None:
    run.write_json(SETTINGS, {})
    with pytest.raises(RunError, match="finish it with: pdnas resume"):
        load_run(run.path)


def test_the_checkpoint_has_its_folder_from_the_start(run: RunDirectory) -> None:
    run.write_json(CHECKPOINT, {"a": 1})
    assert run.has(CHECKPOINT)


PREVIOUS = SEARCH_STATE.with_name("search.previous.safetensors")


def write(run: RunDirectory, number: int) -> None:
    """A state in which every number is that one."""
    tensors = {
        "weights": torch.full((3, 4), float(number)).t(),
        "parameter": torch.nn.Parameter(torch.full((2,), float(number))),
        "epoch": torch.tensor(number),
        "random": torch.full((16,), number, dtype=torch.uint8),
        "mask": torch.tensor([True, False]),
        "nothing": torch.zeros(0, 5),
    }
    run.write_state(SEARCH_STATE, tensors, Note(text=f"state {number}"))


def numbers(run: RunDirectory) -> list[int | str]:
    """What the states hold, the latest first, or the sentence in place of one."""
    found: list[int | str] = []
    for state in run.read_states(SEARCH_STATE, Note):
        if isinstance(state, str):
            found.append(state)
            continue
        tensors, about = state
        number = int(tensors["epoch"])
        assert about == Note(text=f"state {number}")
        assert torch.equal(tensors["weights"], torch.full((4, 3), float(number)))
        assert torch.equal(tensors["parameter"], torch.full((2,), float(number)))
        assert torch.equal(tensors["random"], torch.full((16,), number, dtype=torch.uint8))
        assert tensors["mask"].tolist() == [True, False]
        assert tensors["nothing"].shape == (0, 5)
        assert not any(tensor.requires_grad for tensor in tensors.values())
        found.append(number)
    return found


def test_without_states_there_is_nothing_to_read(run: RunDirectory) -> None:
    assert numbers(run) == []


def test_the_latest_state_and_the_one_before_it_come_back(run: RunDirectory) -> None:
    for number, kept in ((1, [1]), (2, [2, 1]), (3, [3, 2])):
        write(run, number)
        assert numbers(run) == kept
    assert files(run) == {str(SEARCH_STATE), str(PREVIOUS)}


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut at the end":
        path.write_bytes(content[:-10])
    elif how == "cut in the header":
        path.write_bytes(content[:20])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "not safetensors":
        path.write_bytes(b"a text that someone put here, long enough to be a header")
    elif how == "a pickle":
        torch.save({"a": Hostile(path.with_name("touched"))}, path)
    elif how == "without a note":
        save_file({"epoch": torch.tensor(1)}, path)
    elif how == "another note":
        save_file({"epoch": torch.tensor(1)}, path, {"about": '{"other": 1}'})
    elif how == "no note":
        save_file({"epoch": torch.tensor(1)}, path, {"more": "{}"})
    else:
        path.unlink()
        path.mkdir()


every_damage = pytest.mark.parametrize(
    "how",
    [
        "cut at the end",
        "cut in the header",
        "empty",
        "not safetensors",
        "a pickle",
        "without a note",
        "another note",
        "no note",
        "a folder",
    ],
)


def is_sentence(found: object, path: Path) -> bool:
    start = f"The checkpoint '{path}' is damaged and is not used: "
    return (
        isinstance(found, str)
        and found.startswith(start)
        and found.endswith(".")
        and "\n" not in found
        and len(found) > len(start) + 1
    )


@every_damage
def test_a_damaged_state_is_one_sentence_and_the_previous_one_is_read(
    run: RunDirectory, how: str
) -> None:
    write(run, 1)
    write(run, 2)
    damage(run.path / SEARCH_STATE, how)
    sentence, previous = numbers(run)
    assert is_sentence(sentence, run.path / SEARCH_STATE)
    assert previous == 1
    assert not (run.path / SEARCH_STATE).with_name("touched").exists()


@every_damage
def test_two_damaged_states_are_a_sentence_each(run: RunDirectory, how: str) -> None:
    write(run, 1)
    write(run, 2)
    for path in (SEARCH_STATE, PREVIOUS):
        damage(run.path / path, how)
    latest, previous = numbers(run)
    assert is_sentence(latest, run.path / SEARCH_STATE)
    assert is_sentence(previous, run.path / PREVIOUS)


def test_a_damaged_previous_state_does_not_hide_the_latest(run: RunDirectory) -> None:
    write(run, 1)
    write(run, 2)
    damage(run.path / PREVIOUS, "cut at the end")
    latest, sentence = numbers(run)
    assert latest == 2
    assert is_sentence(sentence, run.path / PREVIOUS)


def test_a_missing_latest_state_leaves_the_previous_one(run: RunDirectory) -> None:
    """As if the machine had died between the two steps of writing."""
    write(run, 1)
    write(run, 2)
    (run.path / SEARCH_STATE).unlink()
    assert numbers(run) == [1]
    write(run, 3)
    assert numbers(run) == [3, 1]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_earlier_state_readable(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write(run, 1)
    write(run, 2)

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(2):
        with monkeypatch.context() as full:
            full.setattr(os, step, fail)
            with pytest.raises(RunError, match=r"cannot be written \(No space left on device"):
                write(run, 3)
        assert numbers(run)[0] == 2
        assert not [name for name in files(run) if "/." in name]
    write(run, 4)
    assert numbers(run)[:1] == [4]
    assert 2 in numbers(run)


def test_an_interrupted_write_leaves_the_earlier_state_readable(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(run, 1)

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write(run, 2)
    assert numbers(run) == [1]


def test_a_removed_state_is_gone_with_all_that_was_kept_for_it_and_nothing_else_is(
    run: RunDirectory,
) -> None:
    run.remove(SEARCH_STATE)
    write(run, 1)
    write(run, 2)
    draft = (run.path / SEARCH_STATE).with_name(f".{SEARCH_STATE.name}.123")
    draft.touch()  # of a process that was killed
    run.write_json(CHECKPOINT, {"a": 1})
    run.remove(SEARCH_STATE)
    assert numbers(run) == []
    assert files(run) == {str(CHECKPOINT)}


def test_a_discarded_run_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    run = RunDirectory.create(tmp_path / "new" / "deep" / "run", "test")
    run.write_json(SETTINGS, {"a": 1})
    run.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_discarding_keeps_folders_that_were_there_before(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    RunDirectory.create(tmp_path / "runs" / "run", "test").discard()
    assert list((tmp_path / "runs").iterdir()) == []


def test_discarding_a_run_leaves_another_one_beside_it_alone(tmp_path: Path) -> None:
    first, second = (RunDirectory.create(tmp_path / "runs" / name, "test") for name in "ab")
    second.write_json(SETTINGS, {"a": 1})
    first.discard()
    assert not first.path.exists()
    assert second.has(SETTINGS)


@pytest.mark.parametrize("durable", [True, False])
def test_history_waits_for_the_disk_only_if_it_is_to_be_durable(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    lines = [{"epoch": 0}, {"epoch": 1}]
    lengths = [run.append_history([line], durable=durable) for line in lines]
    text = (run.path / HISTORY).read_text()
    assert text == '{"epoch":0}\n{"epoch":1}\n'
    assert lengths == [12, 24]
    assert len(waited) == (2 if durable else 0)


@pytest.mark.parametrize("command", ["train", "search", "tune"])
def test_the_command_of_a_run_is_read_whatever_else_its_settings_hold(
    run: RunDirectory, command: str
) -> None:
    run.write_json(SETTINGS, {"command": command, "recipe": {"lr": 1}, "job": None})
    assert run.read_record(SETTINGS, AnySettings).command == command


def test_a_history_that_cannot_be_cut_is_one_sentence(run: RunDirectory) -> None:
    (run.path / HISTORY).mkdir()
    with pytest.raises(RunError, match=r"history\.jsonl' cannot be written \(Is a directory\)"):
        run.cut_history(0)


@pytest.mark.parametrize("values", [{}, {"command": "tasks"}, {"command": None}])
def test_settings_of_no_known_command_are_one_sentence(
    run: RunDirectory, values: dict[str, Any]
) -> None:
    run.write_json(SETTINGS, values)
    with pytest.raises(
        RunError,
        match=r"settings\.json' is damaged, or of another .+: command: .+; run again\.$",
    ):
        run.read_record(SETTINGS, AnySettings)


def test_a_run_is_worked_on_by_one_at_a_time(run: RunDirectory) -> None:
    other, why = RunDirectory(run.path), "is worked on by another process; wait for it, or"
    with run.alone(), pytest.raises(RunError, match=why), other.alone():
        pytest.fail("two at once")
    with other.alone():
        pass


def test_whoever_looks_at_a_run_for_a_moment_is_waited_for(run: RunDirectory) -> None:
    held, look = threading.Event(), RunDirectory(run.path)

    def hold() -> None:
        with look.alone():
            held.set()
            time.sleep(0.1)

    looking = threading.Thread(target=hold)
    looking.start()
    assert held.wait(10)
    with run.alone():
        pass
    looking.join()


def test_a_run_that_cannot_be_kept_for_oneself_is_one_sentence(run: RunDirectory) -> None:
    (run.path / LOCK).mkdir()
    why = r"\.lock' cannot be written \(Is a directory\)"
    with pytest.raises(RunError, match=why), run.alone():
        pytest.fail("not alone")
