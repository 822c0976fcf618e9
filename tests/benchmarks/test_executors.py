"""The benchmark of executors: what it measures, what it says of it, and that it comes to an end."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.conftest import Here

from pdnas.tasks import GraphTask


@pytest.fixture
def executors(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/executors.py")


@pytest.mark.parametrize("way", ["bare", "local"])
def test_a_study_is_timed_trial_by_trial(
    executors: ModuleType, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(executors, "LocalExecutor", Here)
    record = executors.trials(way, 12, 3)
    assert (record["way"], record["trials"]) == (way, 12)
    for name in ("trial_seconds", "first_trial_seconds", "last_trial_seconds", "start_seconds"):
        assert 0 < record[name] < 60
    assert record["last_bytes"] > 10**6


def test_equal_pieces_take_their_time_of_a_cpu(executors: ModuleType, tiny_task: GraphTask) -> None:
    import time

    began = time.process_time()
    executors._do(Here({"task": tiny_task}), 3, 0.02)
    assert time.process_time() - began >= 0.06


def test_everything_has_a_row_and_is_written(executors: ModuleType, tmp_path: Path) -> None:
    trial: dict[str, Any] = {
        "trials": 1000,
        "start_seconds": 4.0,
        "median_trial_seconds": 0.01,
        "first_trial_seconds": 0.01,
        "last_trial_seconds": 0.02,
        "first_bytes": 5 * 10**8,
        "last_bytes": 6 * 10**8,
        "environment": {"cores": 8},
    }
    records = [
        {"nodes": 2, "pieces": 16, "piece_seconds": 5.0, "seconds": 41.0, **trial},
        {"nodes": 1, "pieces": 16, "piece_seconds": 5.0, "seconds": 82.0, **trial},
        *(
            {"way": way, "trial_seconds": seconds, **trial}
            for way, seconds in (("ray", 0.03), ("bare", 0.01), ("local", 0.0125))
        ),
    ]
    output = tmp_path / "executors" / "executors-cpu.json"
    executors.write(argparse.Namespace(output=output, trials=1000, seconds=5.0), records)
    ordered = json.loads(output.read_text())["records"]
    assert [executors._unit(record) for record in ordered] == [
        "trials/bare",
        "trials/local",
        "trials/ray",
        "nodes/1",
        "nodes/2",
    ]
    said = output.with_suffix(".md").read_text()
    assert "| local | 1,000 | 12.5 | 10.0 | 2.5 | 10.0 | 20.0 | 500 | 600 | 4.0 |" in said
    assert "| ray | 1,000 | 30.0 | 10.0 | 20.0 |" in said
    assert "on 2 node(s) of one CPU, of 8 core(s) in all: 41.0 s, 2.00 times as fast" in said
