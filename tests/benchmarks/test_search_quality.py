"""The benchmark of the search's quality: fair to the control, and fresh in what it reports."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from pdnas.architecture import Architecture
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training.fit import Fit
from pdnas.training.seeds import train_once

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "search_quality.py"


@pytest.fixture
def search_quality(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/search_quality.py")


def arguments(**values: Any) -> argparse.Namespace:
    given = {"device": "cpu", "blocks": 2, "hidden": 4, "seeds": 3, "workers": 1}
    return argparse.Namespace(**{**given, "search_seeds": 1, "output": None, **values})


def record(row: str, task: str, split: str, *, val: list[float], **values: Any) -> dict[str, Any]:
    given = {"row": row, "task": task, "split": split, "val": val, "search_seed": 0}
    return {**given, "candidates": 6, **values}


RECORDS = [
    record("default", "cora", "public", val=[0.80, 0.82]),
    record("default", "cora", "public", val=[0.83, 0.83], search_seed=1),
    record("random", "cora", "public", val=[0.5], candidates=3),
    record("random", "cora", "public", val=[0.7], candidates=4, search_seed=1),
    record("default", "pubmed", "random", val=[0.9, 0.9, 0.9]),
]


def test_the_table_has_mean_and_deviation_over_searches_and_the_number_of_candidates(
    search_quality: ModuleType,
) -> None:
    # 81 and 83, 50 and 70: deviations are the differences over the root of two.
    assert search_quality.table(RECORDS, ["random", "default", "paper"]) == (
        "| validation in % | pubmed, random | cora, public |\n"
        "|---|---|---|\n"
        "| random | - | 60.00 ± 14.14 (3.5) |\n"
        "| default | 90.00 ± 0.00 (6.0) | 82.00 ± 1.41 (6.0) |\n"
        "| paper | - | - |\n"
    )


def test_figures_and_table_are_written_side_by_side(
    search_quality: ModuleType, tmp_path: Path
) -> None:
    output, rows = tmp_path / "new" / "figures.json", ["default", "random"]
    search_quality.write(arguments(output=output, rows=rows), RECORDS[::-1])
    written = json.loads(output.read_text())
    places = [(one["task"], one["row"], one["search_seed"]) for one in written["records"]]
    assert places == [
        ("cora", "default", 0),
        ("cora", "default", 1),
        ("cora", "random", 0),
        ("cora", "random", 1),
        ("pubmed", "default", 0),
    ]
    assert written["strategies"]["default"]["name"] == "pdnas"
    assert written["environment"]["device"] == "cpu"
    assert "--seeds 3" in written["command"]
    assert output.with_suffix(".md").read_text() == search_quality.table(RECORDS, rows)


class Trainings:
    """In place of trainings: each takes a second and comes to a validation of its own."""

    def __init__(self, vals: list[float]) -> None:
        self.vals = iter(vals)
        self.trained: list[Architecture] = []
        self.seeds: list[int] = []

    def __call__(
        self, architecture: Architecture, task: GraphTask, *, seed: int, **_: Any
    ) -> tuple[None, Fit]:
        self.trained.append(architecture)
        self.seeds.append(seed)
        return None, Fit(epoch=1, val=next(self.vals), epochs=2, seconds=1.0)


@pytest.mark.parametrize(("seconds", "count"), [(0.5, 1), (1.0, 1), (2.5, 2), (3.0, 3)])
def test_random_networks_take_no_more_than_the_time_allowed_but_one_is_trained(
    search_quality: ModuleType,
    tiny_task: GraphTask,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    count: int,
) -> None:
    trainings = Trainings([0.2, 0.6, 0.4, 0.9, 0.9])
    monkeypatch.setattr(search_quality, "train_once", trainings)
    found = search_quality.random_control(seconds, tiny_task, arguments(), 5)
    assert found["candidates"] == count
    assert found["seconds"] == count <= max(seconds, 1.0)
    best = 0 if count == 1 else 1
    assert found["selection_val"] == [0.2, 0.6][best]
    assert found["architecture"] == trainings.trained[best]
    assert found["architecture"] in SPACES["paper"]


def test_a_random_network_is_no_worse_than_none(
    search_quality: ModuleType, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = Trainings([0.0, 0.0, 0.0])
    monkeypatch.setattr(search_quality, "train_once", trainings)
    found = search_quality.random_control(2.0, tiny_task, arguments(), 5)
    assert found["architecture"] == trainings.trained[0]


def test_the_seed_decides_the_random_networks(
    search_quality: ModuleType, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    for seed in (5, 5, 6):
        trainings = Trainings([0.5] * 4)
        monkeypatch.setattr(search_quality, "train_once", trainings)
        search_quality.random_control(3.0, tiny_task, arguments(), seed)
        drawn.append(trainings.trained)
    assert drawn[0] == drawn[1] != drawn[2]


Training = Callable[..., Any]


def briefly(seeds: list[int]) -> Training:
    """A training of two epochs that writes its seed down."""

    def train(*given: Any, recipe: Any, seed: int, **settings: Any) -> Any:
        seeds.append(seed)
        return train_once(*given, recipe=recipe.changed(epochs=2), seed=seed, **settings)

    return train


def test_the_final_trainings_are_one_for_each_seed(
    search_quality: ModuleType, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(search_quality, "train_once", briefly(seeds))
    architecture = SPACES["paper"].sample(2, torch.Generator().manual_seed(0))
    found = search_quality.final(architecture, tiny_task, 4, range(7, 10))
    assert seeds == found["seeds"] == [7, 8, 9]
    assert len(found["val"]) == len(found["test"]) == 3
    assert all(0 <= value <= 1 for value in found["val"] + found["test"])


@pytest.mark.parametrize("search_seed", [0, 2])
def test_what_is_reported_comes_from_seeds_that_chose_nothing(
    search_quality: ModuleType,
    tiny_task: GraphTask,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    search_seed: int,
) -> None:
    choosing: list[int] = []
    reporting: list[int] = []
    final = search_quality.final

    def report(*given: Any) -> Any:
        with monkeypatch.context() as reported:
            reported.setattr(search_quality, "train_once", briefly(reporting))
            return final(*given)

    brief = PRESETS["default"].lasting(5).changed(pool=4, adapted=1, adapt_epochs=1)
    monkeypatch.setattr(search_quality, "STRATEGIES", {"default": (brief, 2)})
    monkeypatch.setattr(
        search_quality, "load", lambda _: (tiny_task, search_seed, ["default", "random"])
    )
    monkeypatch.setattr(search_quality, "final", report)
    monkeypatch.setattr(search_quality, "train_once", briefly(choosing))
    for place in ("plan", "trials", "finals"):
        monkeypatch.setattr(f"pdnas.pipeline.{place}.train_once", briefly(choosing))
    search_quality.work(arguments())

    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["row"] for one in records] == ["default", "random"]
    assert reporting == records[0]["seeds"] + records[1]["seeds"]
    assert records[0]["seeds"] == records[1]["seeds"]
    assert set(reporting) == {1000 * (search_seed + 1) + number for number in range(3)}
    assert choosing
    assert not set(reporting) & set(choosing)
    for one in records:
        assert one["search_seed"] == search_seed
        assert one["split_sha256"] == tiny_task.split.sha256
        architecture = Architecture.model_validate(one["architecture"])
        assert architecture in SPACES["paper"]
        assert one["parameters"] == architecture.parameters(tiny_task, 4)
        assert len(one["val"]) == len(one["test"]) == 3
    searched, control = records
    assert control["seconds"] <= searched["seconds"] or control["candidates"] == 1
    assert searched["candidates"] >= 2
