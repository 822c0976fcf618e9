"""Losses of a search."""

from typing import Any

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


def test_long_histories_are_thinned_and_the_caption_says_so() -> None:
    record = read_losses(epochs(1000))
    assert record is not None

    _, val = draw_losses(record, "p", "accuracy")

    x = val.plot["data"][0]["x"]
    assert len(x) == 150
    assert (x[0], x[-1]) == (0, 999)
    assert "150 of 1,000 points are shown." in val.caption
    assert "The best, 99.90 %, was tried at epoch 999." in val.caption
