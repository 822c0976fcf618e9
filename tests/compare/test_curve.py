"""Curves of made-up events, point by point."""

from collections.abc import Callable, Iterator

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.compare.curve import Curve, CurveWatcher, reached, value_at
from pdnas.runs import Trial
from pdnas.search import Problem, SearchEpoch
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

POINTS = [(1.0, 0.5), (3.0, 0.7), (8.0, 0.75)]


def ticking(*times: float) -> Callable[[], float]:
    clock: Iterator[float] = iter(times)
    return lambda: next(clock)


def trial(val: float) -> Trial:
    return Trial(
        architecture=Architecture(blocks=(BlockSpec(),)),
        hidden=4,
        seed=0,
        shared_val=0.9,
        val=val,
        epoch=0,
        epochs=1,
        rungs=(),
        seconds=1.0,
    )


def test_only_what_is_better_is_a_point() -> None:
    curve = Curve(ticking(100.0, 101.0, 103.0, 108.0))
    for val in (0.5, 0.4, 0.7, 0.7, 0.75):
        curve.note(val)
    assert curve.points == POINTS


def test_a_network_that_learned_nothing_is_a_point_too() -> None:
    curve = Curve(ticking(0.0, 2.0))
    curve.note(0.0)
    assert curve.points == [(2.0, 0.0)]


def test_shared_weights_are_no_training(tiny_task: GraphTask) -> None:
    problem = Problem(tiny_task, SPACES["paper"], 1, 4, Recipe(), None, 0)
    watcher = CurveWatcher(Curve(ticking(0.0, 1.0, 2.0, 3.0)))
    with PRESETS["default"].begin(problem) as search:
        watcher.searched(search, SearchEpoch(0, 1.0, 1.0, 0.9, {}))
        watcher.searched(search, SearchEpoch(1, 1.0, 1.0, 0.3, {}, alone=True))
    watcher.tried(trial(0.4))
    watcher.finished(0.6)
    assert watcher.curve.points == [(1.0, 0.3), (2.0, 0.4), (3.0, 0.6)]
    assert watcher.trainings == 3


@pytest.mark.parametrize(
    ("val", "seconds"), [(0.0, 1.0), (0.5, 1.0), (0.6, 3.0), (0.75, 8.0), (0.76, None)]
)
def test_when_a_curve_is_as_good(val: float, seconds: float | None) -> None:
    assert reached(POINTS, val) == seconds


@pytest.mark.parametrize(
    ("seconds", "val"), [(0.9, None), (1.0, 0.5), (2.9, 0.5), (3.0, 0.7), (99.0, 0.75)]
)
def test_how_good_a_curve_is(seconds: float, val: float | None) -> None:
    assert value_at(POINTS, seconds) == val
