"""Run directories: nothing is ever half there, and what is read back is what was written."""

import errno
import json
import math
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RunError
from pdnas.models import GraphNetwork
from pdnas.runs import (
    CHECKPOINT,
    HISTORY,
    RESULT,
    SETTINGS,
    WEIGHTS,
    Record,
    Result,
    RunDirectory,
    Scores,
    SplitRecord,
    environment,
    load_run,
)
from pdnas.tasks import GraphTask


class Note(Record):
    text: str


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", "test")


@pytest.fixture
def architecture() -> Architecture:
    blocks = (BlockSpec(attention="gat", heads=2, activation="relu"), BlockSpec())
    return Architecture(blocks=blocks, gates=((0, 1),))


@pytest.fixture
def result(architecture: Architecture, tiny_task: GraphTask) -> Result:
    return Result(
        task="tiny",
        split=SplitRecord(name="own", sha256="ab", seeds=(), members=("ab",)),
        architecture=architecture,
        hidden=4,
        in_channels=tiny_task.in_channels,
        out_channels=tiny_task.out_channels,
        class_names=("a", "b", "c"),
        parameters=architecture.parameters(tiny_task, 4),
        recipe={"lr": 0.01},
        metric="accuracy",
        val=Scores.of([0.5, 0.75]),
        test=Scores.of([0.25, 0.5]),
        epochs=(3, 4),
        seeds=(0, 1),
        train_seconds=1.5,
        device="cpu",
    )


def files(run: RunDirectory) -> set[str]:
    return {str(path.relative_to(run.path)) for path in run.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("values", "mean", "std", "half"),
    [
        # Student's t at 97.5 %: 4.302653 with two degrees of freedom, 12.706205 with one.
        ([0.48, 0.5, 0.52], 0.5, 0.02, 4.302652729911275 * 0.02 / math.sqrt(3)),
        ([0.49, 0.51], 0.5, math.sqrt(2e-4), 12.706204736174698 * math.sqrt(2e-4) / math.sqrt(2)),
        ([0.5, 0.5, 0.5, 0.5], 0.5, 0.0, 0.0),
    ],
)
def test_scores_are_mean_std_and_t_interval(
    values: list[float], mean: float, std: float, half: float
) -> None:
    scores = Scores.of(values)
    assert scores.mean == pytest.approx(mean)
    assert scores.std == pytest.approx(std)
    assert scores.interval == pytest.approx((mean - half, mean + half))
    assert scores.values == tuple(values)


def test_an_interval_stays_between_0_and_1() -> None:
    assert Scores.of([0.1, 0.9]).interval == (0.0, 1.0)


def test_a_single_score_has_no_interval() -> None:
    assert Scores.of([0.5]) == Scores(mean=0.5, std=0.0, interval=None, values=(0.5,))


def test_scores_are_shown_in_percent() -> None:
    assert str(Scores.of([0.8125])) == "81.25"
    assert str(Scores.of([0.7, 0.8, 0.9])) == "80.00 ± 10.00"


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
    with pytest.raises(RunError, match=r"'.*run' exists already; give another --run-dir, or .*"):
        RunDirectory.create(path, "test")


def test_a_folder_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(RunError, match=r"cannot be made \(Permission denied\); give a --run-dir"):
        RunDirectory.create(tmp_path / "run", "test")


def test_a_run_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be made"):
        RunDirectory.create(tmp_path / "file" / "run", "test")


def test_only_a_folder_with_settings_is_a_run(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"is not a run directory: it has no {SETTINGS}"):
        RunDirectory.open(run.path)
    run.write_json(SETTINGS, {"a": 1})
    assert RunDirectory.open(str(run.path)).path == run.path


def test_a_record_comes_back(run: RunDirectory) -> None:
    run.write_json("note.json", Note(text="ü"))
    assert run.has("note.json")
    assert run.read_record("note.json", Note) == Note(text="ü")
    assert json.loads((run.path / "note.json").read_text()) == {"text": "ü"}


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


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_not_written(run: RunDirectory, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write_json("note.json", {"a": {"b": [value]}})
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.append_history([{"a": value}])
    assert files(run) == set()


def test_a_missing_record_tells_to_finish_the_run(run: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"has no result\.json; finish it with: pdnas resume "):
        run.read_record(RESULT, Note)


@pytest.mark.parametrize(
    "content", ["", '{"text": ', "[]", "{}", '{"text": 1}', '{"text": "a", "more": 1}']
)
def test_a_record_that_is_not_valid_is_one_sentence(run: RunDirectory, content: str) -> None:
    (run.path / "note.json").write_text(content)
    with pytest.raises(RunError, match=r"note\.json' is damaged: .+; run again\.$") as caught:
        run.read_record("note.json", Note)
    assert "\n" not in str(caught.value)


def test_a_record_that_cannot_be_read_is_one_sentence(run: RunDirectory) -> None:
    (run.path / "note.json").mkdir()
    with pytest.raises(RunError, match=r"cannot be read \(Is a directory\)"):
        run.read_record("note.json", Note)


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
    with pytest.raises(RunError, match="cannot be read") as caught:
        run.read_weights(WEIGHTS)
    assert "\n" not in str(caught.value)


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
    assert (run.path / HISTORY).read_text() == '{"epoch": 0}\n'


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


def test_a_result_without_weights_says_so(result: Result) -> None:
    with pytest.raises(RunError, match=r"no weights; read it with pdnas\.load_run"):
        _ = result.model


def test_a_result_is_frozen(result: Result) -> None:
    with pytest.raises(ValidationError):
        setattr(result, "hidden", 5)  # noqa: B010


def test_a_run_comes_back_with_the_same_result_and_logits(
    run: RunDirectory, result: Result, tiny_task: GraphTask
) -> None:
    network = GraphNetwork(result.architecture, tiny_task, result.hidden).eval()
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


def test_the_summary_names_what_a_reader_needs(result: Result) -> None:
    text = result.summary()
    assert "tiny, split own: test accuracy 37.50" in text
    assert "2 runs, validation 62.50" in text
    assert "95 % interval" in text
    assert str(result.architecture) in text
    assert f"{result.parameters:,} parameters, 1.5 s on cpu" in text


def test_the_summary_carries_the_note(result: Result) -> None:
    noted = result.model_copy(update={"note": "mended", "test": Scores.of([0.5])})
    assert noted.summary().startswith("tiny (mended), split own")
    assert "interval" not in noted.summary()
    assert "1 run," in noted.summary()


def test_the_environment_says_what_a_result_may_depend_on() -> None:
    found = environment(torch.device("cpu"), threads=3)
    assert found["device"] == "cpu"
    assert found["threads"] == 3
    assert found["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    json.dumps(found)


def test_the_checkpoint_has_its_folder_from_the_start(run: RunDirectory) -> None:
    run.write_json(CHECKPOINT, {"a": 1})
    assert run.has(CHECKPOINT)


def test_the_interval_over_splits_is_that_of_their_means() -> None:
    means = Scores.of([0.70, 0.75, 0.80])
    repeated = Scores.of([0.70] * 10 + [0.75] * 10 + [0.80] * 10, splits=3)
    assert repeated.interval == pytest.approx(means.interval)
    assert repeated.mean == pytest.approx(means.mean)
