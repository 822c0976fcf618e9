"""Losses of a search."""

from typing import Any

import pytest

from pdnas.report.losses import draw_losses, read_losses


def epochs(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"epoch": n, "train_loss": 2.0 - n / count, "val_loss": 2.1, "val": n / count, **more}
        for n in range(count)
    ]


def test_no_epochs_are_no_record() -> None:
    assert read_losses([]) is None


def test_temperature_has_an_axis_of_its_own() -> None:
    record = read_losses(epochs(3, temperature=1.0))
    assert record is not None

    losses, _ = draw_losses(record, "p", "accuracy")

    assert [trace["name"] for trace in losses.plot["data"]][-1] == "temperature"
    assert losses.plot["data"][-1]["yaxis"] == "y2"


def test_strategies_without_temperature_have_no_such_line() -> None:
    record = read_losses(epochs(3))
    assert record is not None

    losses, _ = draw_losses(record, "p", "accuracy")

    assert "yaxis2" not in losses.plot["layout"]
    assert len(losses.plot["data"]) == 2


def test_figures_have_tables_of_the_first_the_best_and_the_last() -> None:
    lines = epochs(3, temperature=0.5)
    lines[1] |= {"train_loss": 0.25, "val": 0.9}
    record = read_losses(lines)
    assert record is not None

    losses, val = draw_losses(record, "p", "validation accuracy")

    assert losses.table is not None
    assert losses.table.rows == (
        ("training loss", "2.000", "0.250", "1", "1.333"),
        ("validation loss", "2.100", "2.100", "0", "2.100"),
        ("temperature", "0.500", "-", "-", "0.500"),
    )
    assert val.table is not None
    assert val.table.rows == (("validation accuracy, %", "0.00", "90.00", "1", "66.67"),)
    assert val.table.header == ("line", "first", "best", "at epoch", "last")


def test_long_histories_are_thinned_and_the_caption_says_so() -> None:
    record = read_losses(epochs(5000))
    assert record is not None

    _, val = draw_losses(record, "p", "accuracy")

    x = val.plot["data"][0]["x"]
    assert len(x) <= 1000
    assert (x[0], x[-1]) == (0, 4999)
    assert "Of 5,000 points 1,000 at most are shown" in val.caption
    assert "The best, 99.98 %, was tried at epoch 4999." in val.caption


@pytest.mark.parametrize("count", [400, 5000])
def test_the_best_that_the_caption_names_is_shown(count: int) -> None:
    lines = epochs(count)
    lines[283]["val"] = 1.0
    lines[285]["val"] = -1.0
    record = read_losses(lines)
    assert record is not None

    _, val = draw_losses(record, "p", "validation accuracy")

    points = dict(zip(val.plot["data"][0]["x"], val.plot["data"][0]["y"], strict=True))
    assert "tried at epoch 283." in val.caption
    assert (points[283], points[285]) == (100.0, -100.0)


@pytest.mark.parametrize(
    ("largest", "least", "expected"),
    [(80_000.0, 1.0, "log"), (80.0, 0.0, "log"), (20.0, 1.0, None)],
)
def test_spikes_have_a_logarithmic_axis_and_the_caption_says_so(
    largest: float, least: float, expected: str | None
) -> None:
    lines = [{"epoch": n, "train_loss": 2.1, "val_loss": 2.1, "val": 0.5} for n in range(20)]
    lines[7]["train_loss"], lines[9]["val_loss"] = largest, least
    record = read_losses(lines)
    assert record is not None

    losses, _ = draw_losses(record, "p", "accuracy")

    assert losses.plot["layout"]["yaxis"].get("type") == expected
    said = f"logarithmic, since the largest is {largest / 2.1:,.0f} times their median."
    assert (said in losses.caption) == (expected is not None)
    assert ("Losses of 0 have no place on it." in losses.caption) == (least == 0.0)


def test_a_single_epoch_is_seen() -> None:
    record = read_losses(epochs(1))
    assert record is not None

    losses, _ = draw_losses(record, "p", "validation accuracy")

    assert {trace["mode"] for trace in losses.plot["data"]} == {"lines+markers"}
    assert losses.plot["layout"]["xaxis"]["range"] == [-0.5, 0.5]
