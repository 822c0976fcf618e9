import contextlib
import io
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdnas.errors import TaskError
from pdnas.ops.features import SparseFeatures
from pdnas.tasks import load_task
from pdnas.tasks.labels import Known
from pdnas.tasks.load import read_source
from pdnas.tasks.npz import read
from pdnas.tasks.source import ReadOptions, Source

Arrays = dict[str, NDArray[Any]]


def save(folder: Path, arrays: Arrays) -> Path:
    path = folder / "graph.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def sparse_parts(prefix: str, matrix: sp.csr_matrix) -> Arrays:
    return {
        f"{prefix}_data": matrix.data,
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }


def test_dense_arrays_are_read(tmp_path: Path, arrays: Arrays) -> None:
    source = read(save(tmp_path, arrays), ReadOptions())
    graph = source.graphs[0]
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.tolist() == arrays["x"].tolist()
    assert graph.edge_index.tolist() == arrays["edge_index"].tolist()
    assert graph.y.tolist() == [0, 1, 2, 1]
    assert source.class_names == ("0", "1", "2")
    assert source.splits == {}


@pytest.mark.parametrize("dtype", ["u1", ">i4", "u2", "<i8", "u4", "u8"])
def test_whole_numbers_of_every_type_are_read(tmp_path: Path, arrays: Arrays, dtype: str) -> None:
    arrays["y"] = arrays["y"].astype(dtype)
    arrays["edge_index"] = arrays["edge_index"].astype(dtype)
    assert read(save(tmp_path, arrays), ReadOptions()).graphs[0].y.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize(("prefix", "labels"), [("x", "y"), ("attr", "labels")])
def test_sparse_arrays_stay_sparse(
    tmp_path: Path, arrays: Arrays, prefix: str, labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = sp.csr_matrix(arrays["x"])
    adjacency = sp.csr_matrix((np.array([1, 1, 0]), ([0, 1, 2], [1, 2, 3])), shape=(4, 4))
    path = save(
        tmp_path,
        {
            **sparse_parts(prefix, features),
            **sparse_parts("adj", adjacency),
            labels: arrays["y"],
        },
    )
    monkeypatch.setattr(torch.Tensor, "to_dense", None)
    graph = read(path, ReadOptions(normalize=True)).graphs[0]
    assert isinstance(graph.x, SparseFeatures)
    assert graph.x.values.tolist() == [0.25, 0.75, 0.5, 0.5, 0.5, 0.5, 1]
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]


def test_optional_arrays_are_read(tmp_path: Path, arrays: Arrays) -> None:
    masks = {
        f"{part}_mask": np.eye(4, dtype=bool)[:, [i, 3]]
        for i, part in enumerate(("train", "val", "test"))
    }
    arrays |= {
        **masks,
        "class_names": np.array(["cat", "dog", "eel"]),
        "node_ids": np.array(["a", "b", "c", "d"]),
    }
    source = read(save(tmp_path, arrays), ReadOptions(undirected=True))
    assert source.class_names == ("cat", "dog", "eel")
    assert source.node_ids == ("a", "b", "c", "d")
    assert source.split("own", 0).val.tolist() == [1]
    assert source.graphs[0].edge_index.size(1) == 8


BROKEN: dict[str, tuple[Arrays, str]] = {
    "object": ({"y": np.array([{}, 1, 2, 1], dtype=object)}, "holds Python objects"),
    "text": ({"x": np.array([["a"]])}, "'x' in "),
    "complex": ({"x": np.ones((4, 2), dtype=complex)}, "complex128; give numbers"),
    "x_flat": ({"x": np.ones(4)}, "have shape [4]"),
    "x_nan": ({"x": np.full((4, 2), np.nan)}, "8 feature value(s)"),
    "x_long": ({"x": np.ones((5, 2))}, "5 nodes but 4 labels"),
    "edges_outside": ({"edge_index": np.array([[0], [9]])}, "points to node 9"),
    "edges_negative": ({"edge_index": np.array([[0], [-1]])}, "points to node -1"),
    "edges_turned": ({"edge_index": np.zeros((4, 3), dtype=int)}, "of shape [4, 3]"),
    "label_outside": ({"class_names": np.array(["a", "b"])}, "A label of"),
    "label_negative": ({"y": np.array([0, 1, 2, -7])}, "is -7"),
    "names_of_wrong_type": ({"class_names": np.array([0.5])}, "must be a list of texts"),
    "ids_too_few": ({"node_ids": np.array(["a"])}, "1 node_ids for 4 nodes"),
    "masks": (dict.fromkeys(("train_mask", "val_mask", "test_mask"), np.ones(3)), "have shapes"),
    "csr_columns": ({**sparse_parts("x", sp.eye(4, format="csr")), "x_shape": np.array([4, 3])},
                    "do not form a sparse matrix"),
    "csr_pointers": ({**sparse_parts("x", sp.eye(4, format="csr")),
                      "x_indptr": np.array([0, 3, 2, 1, 4])}, "do not form a sparse matrix"),
    "csr_shape": ({**sparse_parts("adj", sp.eye(4, format="csr")), "adj_shape": np.array(4)},
                  "do not form a sparse matrix"),
    "csr_nothing": ({**sparse_parts("adj", sp.eye(4, format="csr")), "adj_shape": np.array(4),
                     "adj_indptr": np.array([], dtype=int)}, "do not form a sparse matrix"),
    "csr_negative": ({**sparse_parts("adj", sp.eye(4, format="csr")),
                      "adj_shape": np.array([-1, 4]), "adj_indptr": np.array([], dtype=int)},
                     "do not form a sparse matrix"),
    "csr_empty": ({**sparse_parts("adj", sp.eye(4, format="csr")), "adj_indptr": np.array([])},
                  "do not form a sparse matrix"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_arrays_are_refused(
    tmp_path: Path, arrays: Arrays, change: Arrays, message: str
) -> None:
    with pytest.raises(TaskError, match=re.escape(message)) as info:
        read(save(tmp_path, arrays | change), ReadOptions())
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("name", ["x", "edge_index", "y"])
def test_missing_arrays_are_named_with_those_there(
    tmp_path: Path, arrays: Arrays, name: str
) -> None:
    del arrays[name]
    with pytest.raises(TaskError, match=f"has no '{name}'; it has {', '.join(arrays)}, and a task"):
        read(save(tmp_path, arrays), ReadOptions())


def test_missing_parts_of_a_sparse_matrix_are_named(tmp_path: Path, arrays: Arrays) -> None:
    parts = sparse_parts("x", sp.eye(4, format="csr"))
    del parts["x_shape"]
    with pytest.raises(TaskError, match="has no 'x_shape'"):
        read(save(tmp_path, arrays | parts), ReadOptions())


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_damaged_files_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "graph.npz").write_bytes(content)
    with pytest.raises(TaskError, match=r"graph.npz' is damaged or holds Python objects"):
        read(tmp_path / "graph.npz", ReadOptions())


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "graph.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(TaskError, match="holds a single array"):
        read(tmp_path / "graph.npz", ReadOptions())


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), byte=st.integers(0, 255), cut=st.booleans())
def test_any_damage_ends_in_a_source_or_one_sentence(
    tmp_path: Path, arrays: Arrays, place: float, byte: int, cut: bool
) -> None:
    path = save(tmp_path, arrays)
    content = bytearray(path.read_bytes())
    index = int(place * (len(content) - 1))
    content[index] = byte
    path.write_bytes(content[:index] if cut else content)
    try:
        outcome: object = read_source(str(path), ReadOptions())
    except TaskError as error:
        outcome = error
    assert isinstance(outcome, Source) or "\n" not in str(outcome)


@pytest.mark.data
def test_files_of_the_gnn_benchmark_load_directly(data_root: Path) -> None:
    path = data_root / "Amazon" / "Photo" / "raw" / "amazon_electronics_photo.npz"
    task = load_task(path)
    assert isinstance(task.graphs[0].x, SparseFeatures)
    assert tuple(task.graphs[0].x.shape) == (7650, 745)
    assert task.graphs[0].edge_index.size(1) == 143663
    assert load_task(path, undirected=True).graphs[0].edge_index.size(1) == 238163  # one self-loop


def bytes_of(arrays: Arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def refuses_or_reads(path: Path) -> None:
    """One sentence, or a source; no warning either, since these are errors here."""
    with contextlib.suppress(TaskError):
        read(path, ReadOptions())
    with contextlib.suppress(TaskError):
        read(path, ReadOptions(known=Known("multi-label", ("a", "b"), 2)))


NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1e300, np.nan, -np.inf])
KINDS = st.sampled_from(["f2", "f4", "f8", ">f8", "i1", "i8", "u8", "?", "c8", "M8[s]", "U3", "S2"])


@st.composite
def anything(draw: st.DrawFn) -> NDArray[Any]:
    shape = draw(st.lists(st.integers(0, 13), max_size=3))
    values = np.resize(np.array(draw(st.lists(NUMBERS, min_size=1, max_size=4)), object), shape)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(values.astype(draw(KINDS)))
        except (OverflowError, ValueError, TypeError):
            return np.zeros(shape)


NAMES = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask", "class_names", "node_ids")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.sampled_from(NAMES), anything(), min_size=1, max_size=3))
def test_whatever_arrays_there_are_are_read_or_refused(
    tmp_path: Path, arrays: Arrays, changes: Arrays
) -> None:
    refuses_or_reads(save(tmp_path, {**arrays, **changes}))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 2000), found=st.binary(max_size=12))
def test_whatever_bytes_there_are_are_read_or_refused(
    tmp_path: Path, arrays: Arrays, place: int, found: bytes
) -> None:
    whole = bytes_of(arrays)
    path = tmp_path / "graph.npz"
    path.write_bytes(whole[:place] + found + whole[place + len(found) :])
    refuses_or_reads(path)


def test_a_header_that_announces_terabytes_is_refused(tmp_path: Path, arrays: Arrays) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 4)}
    )
    path = tmp_path / "graph.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"\0" * 64)
    with pytest.raises(TaskError, match=r"graph.npz' is damaged or holds Python objects"):
        read(path, ReadOptions())


def test_features_without_dimensions_are_refused_where_a_network_asks(
    tmp_path: Path, arrays: Arrays
) -> None:
    path = save(tmp_path, {**arrays, "x": np.array(1.0)})
    with pytest.raises(TaskError, match=r"The features of .* have shape \[\]; give"):
        read(path, ReadOptions(known=Known("single-label", ("a", "b"), 2)))


def test_features_beyond_single_precision_are_refused(tmp_path: Path, arrays: Arrays) -> None:
    path = save(tmp_path, {**arrays, "x": np.full((4, 2), 1e300)})
    with pytest.raises(TaskError, match=r"8 feature value.* NaN or infinite"):
        read(path, ReadOptions())


@pytest.mark.parametrize("name", ["class_names", "node_ids"])
def test_names_that_are_no_text_are_refused(tmp_path: Path, arrays: Arrays, name: str) -> None:
    broken = np.array(["a", "b", "\ud800"][:3] + ["d"] * (name == "node_ids"))
    with pytest.raises(TaskError, match=f"'{name}' in .* holds what is no text"):
        read(save(tmp_path, {**arrays, name: broken}), ReadOptions())


def test_labels_with_fewer_columns_than_the_network_has_are_refused(
    tmp_path: Path, arrays: Arrays
) -> None:
    path = save(tmp_path, {**arrays, "y": np.zeros((4, 2))})
    with pytest.raises(TaskError, match="are not those of the network"):
        read(path, ReadOptions(known=Known("multi-label", ("a", "b", "c"), 2)))
