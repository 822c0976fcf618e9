"""What a network said of its own nodes comes back, or is refused in a sentence."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from pdnas.errors import RunError
from pdnas.runs import PREDICTIONS, Predictions, RunDirectory


@pytest.fixture
def predictions() -> Predictions:
    return Predictions(
        logits=torch.tensor([[0.5, -1.0], [2.0, 0.25]]),
        labels=torch.tensor([1, -1]),
        part=torch.tensor([3, 0], dtype=torch.uint8),
        graph=torch.tensor([0, 0]),
        node_ids=("Zoë, \n2", "\ud800"),
    )


def test_predictions_come_back(run: RunDirectory, predictions: Predictions) -> None:
    run.write_predictions(predictions)
    read = run.read_predictions()
    for name in ("logits", "labels", "part", "graph"):
        assert torch.equal(getattr(read, name), getattr(predictions, name))
    assert read.node_ids == predictions.node_ids


def test_predictions_that_are_not_there_are_one_sentence(run: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"holds no predictions: .+ give the data to pdnas predict"):
        run.read_predictions()


@pytest.mark.parametrize("how", ["cut", "other tensors", "other ids", "other counts"])
def test_damaged_predictions_are_one_sentence(
    run: RunDirectory, predictions: Predictions, how: str
) -> None:
    run.write_predictions(predictions)
    path = run.path / PREDICTIONS
    tensors = load_file(path)
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    elif how == "other tensors":
        save_file({**tensors, "more": torch.zeros(1)}, path)
    elif how == "other ids":
        save_file({**tensors, "node_ids": torch.tensor([91], dtype=torch.uint8)}, path)
    else:
        save_file({**tensors, "part": torch.zeros(3, dtype=torch.uint8)}, path)
    with pytest.raises(RunError, match=r"cannot be read \(.+\); give the data to pdnas predict"):
        run.read_predictions()
