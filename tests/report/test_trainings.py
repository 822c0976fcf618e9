"""Validation during training."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pdnas.report.reading import Run, read_run
from pdnas.report.trainings import CURVES, Curve, draw_curves, read_curves


def test_finals_and_controls_are_told_apart(searched: Run) -> None:
    curves = read_curves(searched)

    assert [(c.network, c.label) for c in curves] == [
        (network, f"seed {seed}") for network in ("found", "gcn") for seed in range(3)
    ]
    assert curves[0].epochs == tuple(range(len(curves[0].epochs)))


def test_a_training_has_the_name_of_its_network(made: dict[str, Path]) -> None:
    curves = read_curves(read_run(made["trained"]))

    assert {curve.network for curve in curves} == {"gcn"}
    assert len(curves) == 3


def test_a_tuned_network_has_its_own_name(made: dict[str, Path]) -> None:
    tuned = replace(read_run(made["trained"]), command="tune")

    assert {curve.network for curve in read_curves(tuned)} == {"gcn"}


def test_a_network_is_in_the_legend_once(searched: Run) -> None:
    figure = draw_curves(read_curves(searched), "accuracy")

    shown = [t["name"] for t in figure.plot["data"] if t["showlegend"]]
    assert shown == ["found", "gcn"]


def test_each_training_is_a_row() -> None:
    figure = draw_curves([Curve("a", "seed 0", (0, 1, 2), (0.5, 0.75, 0.6))], "accuracy")

    assert figure.table is not None
    assert figure.table.rows == (("a", "seed 0", "3", "75.00", "1"),)


def test_curves_beyond_the_most_are_left_out_and_that_is_said() -> None:
    curves = [Curve("a", f"seed {n}", (0,), (0.5,)) for n in range(CURVES + 3)]

    figure = draw_curves(curves, "accuracy")

    assert len(figure.plot["data"]) == CURVES
    assert f"{CURVES} of {CURVES + 3} trainings are shown" in figure.caption


@pytest.mark.parametrize("count", [2, 3, CURVES + 2])
def test_every_network_is_drawn_however_many_trainings_there_are(count: int) -> None:
    curves = [
        Curve(f"network {network}", f"seed {seed}", (0,), (0.5,))
        for network in range(count)
        for seed in range(CURVES if network else 5)
    ]

    figure = draw_curves(curves, "accuracy")

    drawn = Counter(trace["name"] for trace in figure.plot["data"])
    assert len(drawn) == count
    assert drawn["network 0"] == min(5, max(1, CURVES // count))
    assert sum(drawn.values()) == max(CURVES, count)
    assert sum(trace["showlegend"] for trace in figure.plot["data"]) == count
    assert f"{max(CURVES, count)} of {len(curves)} trainings are shown, the first" in figure.caption
    assert figure.table is not None
    assert len(figure.table.rows) == len(curves)
