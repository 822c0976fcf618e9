"""Labels tell the kind of task, and those of a trained network keep its numbers."""

import pytest
import torch
from torch_geometric.data import Data

from pdnas.errors import TaskError
from pdnas.tasks.labels import Known, kind_of
from pdnas.tasks.source import Graph, Source, source_from_data


def test_labels_tell_the_kind(square: Data) -> None:
    assert source_from_data(square, "a").kind == "single-label"
    square.y = torch.tensor([0, 1, 1, -1])
    assert source_from_data(square, "a").kind == "binary"
    square.y = torch.tensor([[0, 1], [1, 1], [0, 0], [1, 0]])
    assert source_from_data(square, "a").kind == "multi-label"


def test_two_of_three_named_classes_are_not_a_binary_task(square: Data) -> None:
    square.y = torch.tensor([0, 1, 1, 0])
    source = source_from_data(square, "a", class_names=("x", "y", "z"))
    assert source.kind == "single-label"


def test_labels_must_fit_the_class_names() -> None:
    graph = Graph(torch.ones(2, 1), torch.zeros(2, 0).long(), torch.tensor([0, 2]))
    with pytest.raises(TaskError, match="A label of 'a' is 2, but its classes are 0 to 1"):
        Source("a", (graph,), ("x", "y"), "single-label")


def test_kind_of_unlabelled_nodes_is_binary() -> None:
    assert kind_of(torch.tensor([-1, -1]), "a") == "binary"


def test_labels_are_numbered_as_a_trained_network_numbers_them() -> None:
    known = Known("single-label", ("a", "b", "c"), 2)
    y = torch.tensor([0, 1, -1, 7])
    assert known.labels(None, None, 3, "g").tolist() == [-1] * 3
    assert known.labels(y, None, 4, "g").tolist() == [0, 1, -1, -1]
    assert known.labels(y, ("c", "x"), 4, "g").tolist() == [2, -1, -1, -1]


def test_labels_that_a_trained_network_does_not_know_are_counted() -> None:
    known = Known("single-label", ("a", "b"), 2)
    y = torch.tensor([0.0, 1.0, -1.0, 2.0, 2.0, 1e30])
    assert known.labels(y, None, 6, "g").tolist() == [0, 1, -1, -1, -1, -1]
    assert known.strangers(y, None) == {"2": 2, f"{y[-1]:.0f}": 1}
    assert known.strangers(y.long()[:5], ("b", "c")) == {"c": 1, "2": 2}
    assert known.strangers(None, None) == {}


def test_several_labels_are_put_in_the_order_of_a_trained_network() -> None:
    known = Known("multi-label", ("a", "b"), 2)
    y = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    assert known.labels(None, None, 2, "g").tolist() == [[-1, -1]] * 2
    assert known.labels(y, ("b", "a"), 2, "g").tolist() == [[1, 0], [1, 1]]
    with pytest.raises(TaskError, match=r"are not those of the network \(multi-label: a, b\)"):
        known.labels(y, ("a", "c"), 2, "g")


def test_labels_that_are_too_few_for_the_nodes_are_one_sentence() -> None:
    data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1]))
    with pytest.raises(TaskError, match="'g' has 3 nodes but 2 labels; give one each, or none"):
        source_from_data(data, "g", known=Known("binary", ("no", "yes"), 2))
