"""Shortcuts over epochs."""

import torch

from pdnas.report.gates import draw_gates, read_gates
from pdnas.space import PAPER


def test_gates_stand_in_the_order_of_the_history() -> None:
    possible = torch.zeros(3, 3, dtype=torch.bool)
    for gate in PAPER.possible_gates(3):
        possible[gate] = True
    order = [f"{i}→{j}" for i, j in possible.nonzero().tolist()]  # as the strategies write them

    record = read_gates([{"epoch": 0, "gate_probs": list(range(6))}], PAPER, 3)

    assert record is not None
    assert list(record.names) == order


def test_likely_ones_are_named() -> None:
    lines = [{"epoch": 0, "gate_probs": [500] * 3}, {"epoch": 1, "gate_probs": [900, 100, 600]}]
    record = read_gates(lines, PAPER, 2)

    assert record is not None
    figure = draw_gates(record, "p")
    assert record.probs[0] == (0.5, 0.9)
    assert "at the end: 0→0, 1→1." in figure.caption
    assert figure.plot["data"][0]["z"] == [[0.5, 0.9], [0.5, 0.1], [0.5, 0.6]]


def test_gates_that_are_neither_open_nor_closed_taught_nothing() -> None:
    record = read_gates([{"epoch": 0, "gate_probs": [500] * 3}], PAPER, 2)

    assert record is not None
    assert "as likely open as closed: nothing was learned" in draw_gates(record, "p").caption


def test_nothing_to_choose_is_no_figure() -> None:
    assert read_gates([{"epoch": 0, "gate_probs": []}], PAPER, 2) is None
    assert read_gates([{"epoch": 0}], PAPER, 2) is None


def test_gates_that_a_limit_left_are_numbered() -> None:
    record = read_gates([{"epoch": 0, "gate_probs": [100, 900]}], PAPER, 2)

    assert record is not None
    assert record.names == ("number 0", "number 1")
