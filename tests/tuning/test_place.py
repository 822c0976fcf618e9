"""What was asked for becomes an executor, with all that was asked of it."""

import sys
from typing import Any

import pytest

from pdnas.errors import ExecutorError, PdnasError
from pdnas.settings import WorkerFlags
from pdnas.tasks import GraphTask
from pdnas.tuning import place
from pdnas.tuning import ray as on_ray
from pdnas.tuning.place import open_executor


def asked_of(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> dict[str, Any]:
    heard: dict[str, Any] = {}
    monkeypatch.setattr(module, name, lambda tasks, **settings: heard.update(settings))
    return heard


def test_processes_of_this_machine_are_the_default(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = asked_of(monkeypatch, place, "LocalExecutor")
    open_executor({"task": tiny_task}, WorkerFlags(), device="cpu")
    assert heard == {"workers": 1, "device": "cpu", "threads": 1, "timeout": None}
    open_executor({"task": tiny_task}, WorkerFlags(workers=3, trial_timeout=9.0), threads=2)
    assert heard == {"workers": 3, "device": "auto", "threads": 2, "timeout": 9.0}


def test_ray_is_told_what_each_trial_needs(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = asked_of(monkeypatch, on_ray, "RayExecutor")
    asked = WorkerFlags(executor="ray", ray_address="a:1", gpus_per_trial=0.5, trial_timeout=9.0)
    open_executor({"task": tiny_task}, asked, threads=2)
    assert heard == {"address": "a:1", "workers": None, "gpus": 0.5, "threads": 2, "timeout": 9.0}
    open_executor({"task": tiny_task}, WorkerFlags(executor="ray", workers=4))
    assert heard == {"address": "auto", "workers": 4, "gpus": 0.0, "threads": 1, "timeout": None}


def test_what_makes_no_sense_is_refused(tiny_task: GraphTask) -> None:
    with pytest.raises(PdnasError, match="number of workers is 0"):
        open_executor({"task": tiny_task}, WorkerFlags(workers=0))


def test_without_ray_it_is_one_sentence(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExecutorError, match=r"not installed; run pip install 'pdnas\[ray\]'"):
        open_executor({"task": tiny_task}, WorkerFlags(executor="ray"))
