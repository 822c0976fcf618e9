"""A graph as the arrays of an ``.npz`` file, read without executing anything in it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from pdnas.errors import TaskError, shown
from pdnas.ops.csr import Csr
from pdnas.tasks.source import FORMATS, ReadOptions, Source, source_from_data
from pdnas.tasks.splits import PARTS

Arrays = dict[str, NDArray[Any]]

NEEDED = "x (or x_data, x_indices, x_indptr, x_shape), edge_index (or adj_...) and y"
LABELS = ("y", "labels")
CSR_PARTS = ("data", "indices", "indptr", "shape")


@FORMATS.register(".npz")
def read(path: Path, options: ReadOptions) -> Source:
    """Arrays: x, edge_index, y, and masks if there are any.

    A file may use either spelling of these arrays.

    ``x`` ``[N, F]``, or the sparse rows ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape`` (also
    ``attr_...``), which stay sparse; ``edge_index`` ``[2, E]``, or the sparse adjacency
    ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape``; ``y`` (also ``labels``), -1 where
    unknown; and, if wanted, ``train_mask``, ``val_mask`` and ``test_mask``, ``[N]`` or ``[N, S]``,
    ``class_names`` and ``node_ids``. Edges are taken as they stand unless the options ask for the
    reverse ones too.
    """
    arrays = _load(path)
    is_task = options.known is None
    data = Data(edge_index=_edges(arrays, path))
    if is_task or any(name in arrays for name in ("x", "x_indptr", "attr_indptr")):
        data.x = _features(arrays, path)
    if is_task or any(name in arrays for name in LABELS):
        data.y = _find(arrays, path, *LABELS)
    for part in PARTS:
        if f"{part}_mask" in arrays:
            data[f"{part}_mask"] = _tensor(arrays, f"{part}_mask", path)
    source = source_from_data(
        data,
        str(path),
        class_names=_names(arrays, "class_names", path) or None,
        normalize=bool(options.normalize),
        undirected=bool(options.undirected),
        known=options.known,
    )
    node_ids = _names(arrays, "node_ids", path)
    if node_ids and len(node_ids) != source.graphs[0].num_nodes:
        raise TaskError(
            f"'{path}' has {len(node_ids)} node_ids for {source.graphs[0].num_nodes} nodes; "
            "give one each."
        )
    return replace(source, node_ids=node_ids)


def _load(path: Path) -> Arrays:
    with path.open("rb") as stream:
        try:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                return {name: loaded[name] for name in loaded.files}
        except Exception as error:  # a broken file fails in as many ways as there are bytes
            reason = (
                str(error).splitlines()[0].split(". ")[0] if str(error) else type(error).__name__
            )
            raise TaskError(
                f"'{path}' is damaged or holds Python objects ({shown(reason)}); write it anew "
                "with numpy.savez and arrays of numbers or text."
            ) from error
    raise TaskError(f"'{path}' holds a single array; write several by name with numpy.savez.")


def _tensor(arrays: Arrays, name: str, path: Path) -> Tensor:
    array = arrays[name]
    if array.dtype.kind not in "biuf":
        raise TaskError(f"'{name}' in '{path}' is of type {shown(array.dtype)}; give numbers.")
    # torch knows neither all unsigned types nor the other byte order.
    target = np.float32 if array.dtype.kind == "f" else np.int64
    with np.errstate(over="ignore"):  # becomes infinite, which is refused later
        return torch.from_numpy(array if array.dtype == bool else array.astype(target))


def _find(arrays: Arrays, path: Path, *names: str) -> Tensor:
    for name in names:
        if name in arrays:
            return _tensor(arrays, name, path)
    raise TaskError(
        f"'{path}' has no '{names[0]}'; it has {shown(', '.join(arrays)) or 'nothing'}, and "
        f"a task needs {NEEDED}."
    )


def _features(arrays: Arrays, path: Path) -> Tensor:
    for prefix in ("x", "attr"):
        if f"{prefix}_indptr" in arrays:
            pattern, values = _csr(arrays, prefix, path)
            return pattern.with_values(values.float())
    return _find(arrays, path, "x")


def _edges(arrays: Arrays, path: Path) -> Tensor:
    if "adj_indptr" in arrays:
        pattern, values = _csr(arrays, "adj", path)
        edges = torch.stack([pattern.rows, pattern.cols.long()])
        return edges[:, values != 0]
    return _find(arrays, path, "edge_index")


def _csr(arrays: Arrays, prefix: str, path: Path) -> tuple[Csr, Tensor]:
    """The pattern and the values of a sparse matrix, after checking that they make one."""
    values, cols, rowptr, shape = (
        _find(arrays, path, f"{prefix}_{part}").flatten() for part in CSR_PARTS
    )
    rows, num_cols = shape.tolist() if shape.numel() == 2 else (-1, -1)
    if (
        any(part.is_floating_point() for part in (cols, rowptr, shape))
        or rows < 0
        or rowptr.numel() != rows + 1
        or int(rowptr[0]) != 0
        or int(rowptr[-1]) != cols.numel()
        or cols.numel() != values.numel()
        or bool((rowptr.diff() < 0).any())
        or (cols.numel() > 0 and not 0 <= int(cols.min()) <= int(cols.max()) < num_cols)
    ):
        raise TaskError(
            f"The arrays {prefix}_... in '{path}' do not form a sparse matrix; write "
            f"data, indices, indptr and shape of a scipy.sparse.csr_matrix."
        )
    return Csr.from_pointers(rowptr, cols, num_cols), values


def _names(arrays: Arrays, name: str, path: Path) -> tuple[str, ...]:
    """An array of text or of whole numbers, or nothing where there is none."""
    if name not in arrays:
        return ()
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise TaskError(
            f"'{name}' in '{path}' must be a list of texts; it is {shown(array.dtype)}."
        )
    try:
        texts = tuple(str(entry) for entry in array)
        "".join(texts).encode()
    except ValueError:
        raise TaskError(
            f"'{name}' in '{path}' holds what is no text; write it anew as an array of texts."
        ) from None
    return texts
