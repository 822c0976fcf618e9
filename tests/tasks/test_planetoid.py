from pathlib import Path

import pytest
import torch

from pdnas.errors import TaskError
from pdnas.ops.features import SparseFeatures
from pdnas.tasks import load_task

SIZES = {"cora": (2708, 1433, 10556, 7, 140), "pubmed": (19717, 500, 88648, 3, 60)}


@pytest.mark.data
@pytest.mark.parametrize("name", SIZES)
def test_citation_graphs_have_their_known_sizes(name: str, data_root: Path) -> None:
    task = load_task(name, data_root=data_root)
    graph = task.graphs[0]
    nodes, features, edges, classes, train = SIZES[name]
    assert tuple(graph.x.shape) == (nodes, features)
    assert graph.edge_index.size(1) == edges
    assert len(task.source.class_names) == classes
    assert (task.name, task.split.name, task.metric) == (name, "public", "accuracy")
    assert [len(task.split.train), len(task.split.val), len(task.split.test)] == [train, 500, 1000]


@pytest.mark.data
def test_features_sum_to_one_unless_switched_off(data_root: Path) -> None:
    x = load_task("cora", data_root=data_root).graphs[0].x
    plain = load_task("cora", data_root=data_root, normalize=False).graphs[0].x
    assert isinstance(x, SparseFeatures)
    assert isinstance(plain, SparseFeatures)
    assert torch.allclose(x.to_dense().sum(1), torch.ones(2708))
    assert set(plain.values.tolist()) == {1}


@pytest.mark.usefixtures("no_data_root")
@pytest.mark.parametrize("name", SIZES)
def test_an_unreachable_download_names_task_and_remedies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("torch_geometric.io.fs.cp", refuse)
    with pytest.raises(TaskError, match=f"^'{name}' is not under .*no route.*'citeseer'.$") as info:
        load_task(name)
    assert "PDNAS_DATA or --data-root" in str(info.value)
