"""Events for TensorBoard, read back with its own reader."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pdnas import pipeline
from pdnas import tensorboard as module
from pdnas.errors import PdnasError
from pdnas.job import Job, make_job
from pdnas.runs import HISTORY, RunDirectory
from pdnas.search.pdnas import PRESETS
from pdnas.tasks import GraphTask
from pdnas.tensorboard import FOLDER, TensorBoard, check_tensorboard, plain
from pdnas.training import Recipe

JOB = make_job(
    strategy=PRESETS["default"].changed(epochs=6, pool=6, adapted=1, adapt_epochs=1),
    recipe=Recipe(epochs=2),
    hidden=4,
    seeds=1,
    candidates=1,
    designs="off",
    controls=("gcn",),
)


@pytest.fixture(autouse=True)
def _measured_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)


def watched(task: GraphTask, folder: Path, job: Job = JOB) -> tuple[Any, list[dict[str, Any]]]:
    """The events of a search, and its history."""
    run = RunDirectory.create(folder, "test")
    with TensorBoard.of_run(run, job) as board:
        pipeline.search(task, job, run=run, watcher=board)
    events = EventAccumulator(str(folder / FOLDER), size_guidance={"scalars": 0})
    events.Reload()
    lines = (folder / HISTORY).read_text().splitlines()
    return events, [json.loads(line) for line in lines]


def series(events: Any, tag: str) -> dict[int, Any]:
    return {event.step: pytest.approx(event.value, abs=1e-4) for event in events.Scalars(tag)}


def test_a_search_and_its_trainings_are_told_as_the_history_tells_them(
    tiny_task: GraphTask, tmp_path: Path
) -> None:
    events, history = watched(tiny_task, tmp_path / "run")
    searched = [line for line in history if line["phase"] == "search"]
    assert len(searched) == 6
    for name in ("train_loss", "val_loss", "val", "temperature"):
        expected = {line["epoch"]: line[name] for line in searched}
        assert series(events, f"search 2x4/{name}") == expected
    for what, phase in {"found, seed 0": "final", "gcn, seed 0": "control"}.items():
        trained = {line["epoch"]: line["val"] for line in history if line["phase"] == phase}
        assert series(events, f"{what}/val") == trained
    assert series(events, "candidate 1/train_loss").keys() == {0, 1}


def test_the_probability_of_every_op_and_gate_is_told(tiny_task: GraphTask, tmp_path: Path) -> None:
    events, history = watched(tiny_task, tmp_path / "run")
    told = [line for line in history if "op_probs" in line]
    attentions = JOB.space.candidates("attention")
    for block in (0, 1):
        for number, op in enumerate(attentions):
            expected = {line["epoch"]: line["op_probs"][block][2][number] / 1000 for line in told}
            assert series(events, f"probabilities 2x4/block {block}/attention/{op}") == expected
    for number, gate in enumerate(["0-0", "0-1", "1-1"]):
        expected = {line["epoch"]: line["gate_probs"][number] / 1000 for line in told}
        assert series(events, f"gates 2x4/{gate}") == expected
    tags = events.Tags()["scalars"]
    assert not [tag for tag in tags if "/norm/" in tag], "there is nothing to choose"


def test_the_final_figures_belong_to_the_settings(tiny_task: GraphTask, tmp_path: Path) -> None:
    events, _ = watched(tiny_task, tmp_path / "run")
    assert {"final/test", "final/val", "final/parameters"} <= set(events.Tags()["scalars"])
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"recipe.lr" in content
    assert b"strategy.epochs" in content


def test_gates_that_do_not_fit_are_not_there(tiny_task: GraphTask, tmp_path: Path) -> None:
    smallest = 130
    events, history = watched(
        tiny_task, tmp_path / "run", JOB.model_copy(update={"max_parameters": smallest})
    )
    gates = [tag for tag in events.Tags()["scalars"] if tag.startswith("gates")]
    assert len(gates) == len(history[0]["gate_probs"])


def test_settings_become_plain_values_under_dotted_names() -> None:
    settings = {"job": {"seed": 1, "blocks": [2, 3], "budget": None}, "quiet": True}
    assert dict(plain(settings)) == {
        "job.seed": 1,
        "job.blocks": "[2, 3]",
        "job.budget": "None",
        "quiet": True,
    }


def test_without_the_package_one_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(PdnasError, match=r"install it with: pip install 'pdnas\[tensorboard\]'\.$"):
        check_tensorboard()
    with pytest.raises(PdnasError):
        TensorBoard(tmp_path / "events", {})
    assert not (tmp_path / "events").exists()


def test_whoever_does_not_use_it_does_not_wait_for_it() -> None:
    code = "import sys, pdnas.tensorboard; sys.exit('tensorboard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
