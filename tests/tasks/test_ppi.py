import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from pdnas.errors import TaskError
from pdnas.tasks import load_task, ppi
from pdnas.tasks.ppi import NOTE


@pytest.mark.data
@pytest.mark.slow
def test_ppi_has_its_graphs_and_says_that_its_labels_are_rebuilt(data_root: Path) -> None:
    task = load_task("ppi", data_root=data_root)
    assert (task.kind, task.metric, task.split.unit) == ("multi-label", "micro-f1", "graph")
    assert [len(task.split.train), len(task.split.val), len(task.split.test)] == [20, 2, 2]
    assert task.split.test.tolist() == [22, 23]
    assert sum(graph.num_nodes for graph in task.graphs) == 56944
    assert (task.in_channels, task.out_channels) == (50, 121)
    assert task.source.note == NOTE == "reconstructed labels"


def tiny_ppi(root: Path) -> Path:
    """Two graphs for training and one each for validation and test, as PyG's class wants them."""
    (root / "PPI").mkdir(parents=True)
    path = root / "PPI" / "ppi.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for part, graphs in (("train", 2), ("valid", 1), ("test", 1)):
            nodes = [{"id": node} for node in range(3 * graphs)]
            links = [{"source": 3 * g, "target": 3 * g + 1} for g in range(graphs)]
            graph = {"directed": False, "multigraph": False, "graph": {}}
            archive.writestr(
                f"{part}_graph.json", json.dumps({**graph, "nodes": nodes, "links": links})
            )
            arrays = {
                "feats": np.ones((3 * graphs, 2)),
                "labels": np.tile([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1]], (graphs, 1)),
                "graph_id": np.repeat(np.arange(1, graphs + 1), 3),
            }
            for name, array in arrays.items():
                with archive.open(f"{part}_{name}.npy", "w") as file:
                    np.lib.format.write_array(file, array)
    return path


@pytest.mark.parametrize("name", ["ppi", "pyg:PPI"])
def test_the_archive_is_read_as_pygs_class_reads_its_files(name: str, tmp_path: Path) -> None:
    tiny_ppi(tmp_path / "data")
    task = load_task(name, data_root=tmp_path / "data")
    assert len(task.graphs) == 4
    assert [part.tolist() for part in (task.split.train, task.split.val, task.split.test)] == [
        [0, 1],
        [2],
        [3],
    ]
    assert task.graphs[3].y.tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1]]
    assert torch.equal(task.graphs[1].edge_index, torch.tensor([[0, 1], [1, 0]]))
    assert sorted(path.name for path in (tmp_path / "data" / "PPI").iterdir()) == ["ppi.zip"]


def test_the_note_depends_on_the_labels_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_ppi(tmp_path / "data")
    assert load_task("ppi", data_root=tmp_path / "data").source.note == ""
    with zipfile.ZipFile(path) as archive:
        monkeypatch.setattr(ppi, "RECONSTRUCTED", archive.getinfo("train_labels.npy").CRC)
    assert load_task("ppi", data_root=tmp_path / "data").source.note == NOTE
    assert load_task("pyg:PPI", data_root=tmp_path / "data").source.note == NOTE


def test_a_broken_archive_is_one_sentence(tmp_path: Path) -> None:
    path = tiny_ppi(tmp_path / "data")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(TaskError, match=r"ppi.zip' cannot be read \(.*\); restore or remove it"):
        load_task("ppi", data_root=tmp_path / "data")


def test_an_incomplete_archive_names_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "data" / "PPI").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "data" / "PPI" / "ppi.zip", "w") as archive:
        archive.writestr("train_feats.npy", b"")
    with pytest.raises(TaskError, match=r"ppi.zip' lacks train_graph_id.npy, .*; add what is"):
        load_task("ppi", data_root=tmp_path / "data")
