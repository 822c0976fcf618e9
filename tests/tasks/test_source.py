import re

import pytest
import torch
from torch_geometric.data import Data

from pdnas.errors import TaskError, UnknownNameError
from pdnas.ops.features import SparseFeatures
from pdnas.tasks.labels import Known
from pdnas.tasks.source import source_from_data, source_from_graphs


def test_a_fingerprint_tells_data_apart_whatever_they_are_called(square: Data) -> None:
    known = source_from_data(square, "a").sha256
    assert source_from_data(square.clone(), "b").sha256 == known
    for name in ("x", "edge_index", "y"):
        other = square.clone()
        other[name] = other[name].flip(0)
        assert source_from_data(other, "a").sha256 != known, name
    sparse = square.clone()
    sparse.x = sparse.x.to_sparse_coo()
    assert len({source_from_data(sparse, "a").sha256 for _ in range(2)}) == 1


def test_a_column_of_labels_counts_as_one_label_per_node(square: Data) -> None:
    square.y = square.y.unsqueeze(1)
    assert source_from_data(square, "a").graphs[0].y.shape == (4,)


def test_normalized_features_sum_to_one(square: Data) -> None:
    x = source_from_data(square, "a", normalize=True).graphs[0].x
    assert isinstance(x, torch.Tensor)
    assert x.sum(1).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta:UserWarning")
def test_sparse_features_stay_sparse(square: Data, layout: torch.layout) -> None:
    dense = torch.eye(4)
    square.x = dense.to_sparse(layout=layout)
    for normalize in (False, True):
        x = source_from_data(square, "a", normalize=normalize).graphs[0].x
        assert isinstance(x, SparseFeatures)
        assert torch.equal(x.to_dense(), dense)


def test_whole_number_features_become_floats(square: Data) -> None:
    square.x = torch.eye(4, dtype=torch.long).to_sparse()
    x = source_from_data(square, "a").graphs[0].x
    assert isinstance(x, SparseFeatures)
    assert x.values.dtype == torch.float32


def test_undirected_adds_reverses_once(square: Data) -> None:
    square.edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])
    edges = source_from_data(square, "a", undirected=True).graphs[0].edge_index
    assert {tuple(pair) for pair in edges.t().tolist()} == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert edges.size(1) == 4


BROKEN = {
    "x_missing": ({"x": None}, "has no tensor 'x'"),
    "y_missing": ({"y": None}, "has no tensor 'y'"),
    "edges_missing": ({"edge_index": None}, "has no tensor 'edge_index'"),
    "x_flat": ({"x": torch.ones(4)}, "features of 'a' have shape [4]"),
    "x_empty": ({"x": torch.ones(4, 0)}, "features of 'a' have shape [4, 0]"),
    "x_nan": ({"x": torch.full((4, 2), torch.nan)}, "8 feature value(s) of 'a' are NaN"),
    "x_infinite": ({"x": torch.full((4, 1), torch.inf)}, "4 feature value(s)"),
    "y_short": ({"y": torch.tensor([0, 1])}, "has 4 nodes but 2 labels"),
    "y_empty": ({"y": torch.tensor([])}, "has no labels"),
    "y_scalar": ({"y": torch.tensor(1)}, "has 4 nodes but 1 labels"),
    "y_cube": ({"y": torch.zeros(4, 2, 2)}, "have shape [4, 2, 2]"),
    "y_real": ({"y": torch.tensor([0.5, 1, 0, 1])}, "not whole numbers"),
    "y_nan": ({"y": torch.tensor([torch.nan, 1, 0, 1])}, "not whole numbers"),
    "y_infinite": ({"y": torch.tensor([torch.inf, 1, 0, 1])}, "not whole numbers"),
    "y_negative": ({"y": torch.tensor([-2, 1, 0, 1])}, "A label of 'a' is -2"),
    "y_huge": ({"y": torch.tensor([10**12, 1, 0, 1])}, "A label of 'a' is 1000000000000"),
    "y_not_zero_or_one": ({"y": torch.full((4, 2), 2.0)}, "A label of 'a' is 2"),
    "edges_flat": ({"edge_index": torch.tensor([0, 1])}, "int64 of shape [2]"),
    "edges_turned": ({"edge_index": torch.zeros(3, 2).long()}, "int64 of shape [3, 2]"),
    "edges_real": ({"edge_index": torch.zeros(2, 2)}, "float32 of shape [2, 2]"),
    "edges_outside": ({"edge_index": torch.tensor([[0], [4]])}, "points to node 4"),
    "edges_negative": ({"edge_index": torch.tensor([[-1], [0]])}, "points to node -1"),
}


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_data_are_refused(
    square: Data, change: dict[str, object], message: str, undirected: bool
) -> None:
    for key, value in change.items():
        square[key] = value
    with pytest.raises(TaskError, match=re.escape(message)):
        source_from_data(square, "a", undirected=undirected)


@pytest.mark.parametrize("shape", [(3,), (4, 2, 1), ()])
def test_masks_must_fit_the_nodes(square: Data, shape: tuple[int, ...]) -> None:
    for part in ("train", "val", "test"):
        square[f"{part}_mask"] = torch.ones(shape, dtype=torch.bool)
    with pytest.raises(TaskError, match=r"The masks of the split 'own' of 'a' have shapes"):
        source_from_data(square, "a")


def test_two_masks_of_three_are_no_split(square: Data) -> None:
    square.train_mask = square.val_mask = torch.ones(4, dtype=torch.bool)
    assert source_from_data(square, "a").splits == {}


def test_unlabelled_nodes_are_in_no_split() -> None:
    known = torch.arange(20) % 4 != 0
    masks = tuple(torch.arange(20) % 3 == part for part in range(3))
    data = Data(x=torch.ones(20, 1), edge_index=torch.zeros(2, 0).long(), y=known.long() * 2 - 1)
    data.train_mask, data.val_mask, data.test_mask = masks
    source = source_from_data(data, "a")
    for name in ("own", "random"):
        split = source.split(name)
        used = torch.cat([split.train, split.val, split.test])
        assert torch.equal(used.sort().values, known.nonzero().flatten())


def test_the_default_split_is_the_datas_own_or_else_random(square: Data) -> None:
    square = Data(x=torch.ones(9, 1), edge_index=torch.zeros(2, 0).long(), y=torch.arange(9) % 3)
    assert source_from_data(square, "a").split().name == "random"
    square.train_mask, square.val_mask, square.test_mask = (
        torch.arange(9) % 3 == part for part in range(3)
    )
    assert source_from_data(square, "a").split().name == "own"


def test_unknown_splits_are_named_with_the_known_ones(square: Data) -> None:
    with pytest.raises(UnknownNameError, match="known are: random"):
        source_from_data(square, "a").split("public")


def test_several_graphs_share_classes_and_are_split_as_wholes(square: Data) -> None:
    other = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0], [2]]), y=torch.tensor([0, 1, 3]))
    splits = {"own": (torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))}
    source = source_from_graphs([square, other, square], "a", splits=splits)
    assert source.class_names == ("0", "1", "2", "3")
    assert source.split().unit == "graph"
    assert source.split("own").test.tolist() == [2]


def test_several_graphs_must_have_the_same_features_and_labels(square: Data) -> None:
    other = Data(x=torch.ones(3, 5), edge_index=torch.tensor([[0], [2]]), y=torch.tensor([0, 1, 3]))
    with pytest.raises(TaskError, match="'a', graph 1 has 5 features per node but graph 0 has 2"):
        source_from_graphs([square, other], "a")
    other.y = torch.ones(3, 4)
    with pytest.raises(TaskError, match="differ in their labels"):
        source_from_graphs([square, other], "a")


def test_a_node_without_a_label_among_several_graphs_is_refused(square: Data) -> None:
    other = square.clone()
    other.y = square.y.clone()
    other.y[0] = -1
    with pytest.raises(TaskError, match="several graphs and a node without a label"):
        source_from_graphs([square, other], "a")


@pytest.mark.parametrize("shape", [(4,), (4, 2)])
@pytest.mark.parametrize("known", [None, Known("single-label", ("a", "b"), 2)])
def test_complex_labels_are_refused(
    square: Data, shape: tuple[int, ...], known: Known | None
) -> None:
    square.y = torch.zeros(shape, dtype=torch.complex64)
    with pytest.raises(TaskError, match="labels of 'a' are complex numbers; give whole ones"):
        source_from_data(square, "a", known=known)


def test_complex_features_are_refused(square: Data) -> None:
    square.x = torch.ones(4, 2, dtype=torch.complex64)
    with pytest.raises(TaskError, match="complex numbers; give real ones"):
        source_from_data(square, "a")


def test_edges_that_are_no_numbers_are_refused(square: Data) -> None:
    square.edge_index = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(TaskError, match="are bool of shape"):
        source_from_data(square, "a")


def test_data_without_labels_can_be_shown_to_a_network_and_not_split() -> None:
    data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0], [1]]))
    source = source_from_data(data, "g", known=Known("binary", ("no", "yes"), 2))
    assert not source.labelled
    assert source.class_names == ("no", "yes")
    with pytest.raises(TaskError, match="'g' has no labels, so there is nothing to split"):
        source.split("random")


@pytest.mark.parametrize("flags", [(True, False), (False, True)])
def test_a_source_remembers_how_it_was_read(flags: tuple[bool, bool]) -> None:
    data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, 1]))
    source = source_from_data(data, "g", normalize=flags[0], undirected=flags[1])
    assert (source.normalize, source.undirected) == flags
