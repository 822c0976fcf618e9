import os
import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from pdnas.errors import TaskError, UnknownNameError
from pdnas.tasks import GraphTask, find_task, load_task
from pdnas.tasks.source import FORMATS, NAMED, SCHEMES


def test_every_source_is_registered() -> None:
    assert set(NAMED) == {"citeseer", "cora", "pubmed", "ppi"}
    assert set(SCHEMES) == {"pyg"}
    assert set(FORMATS) == {".pt", ".npz", "folder"}


def test_the_default_is_the_embedded_task() -> None:
    assert load_task().name == "citeseer"


@pytest.mark.parametrize("name", ["citeser", "Citeseer"])
def test_a_misspelled_name_is_answered_with_the_closest(name: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'citeseer'"):
        load_task(name)


@pytest.mark.parametrize("name", ["missing.npz", "missing.pt", "some/folder"])
def test_a_missing_path_is_named(name: str) -> None:
    with pytest.raises(TaskError, match=f"There is no file or folder '{name}'"):
        load_task(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("frim", "the folder './firm'"),
        ("fimr", "the folder './firm'"),
        ("graf.npz", "the file './graph.npz'"),
        ("inner/firma", "the folder 'inner/firm'"),
    ],
)
def test_what_is_called_nearly_so_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, near: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "firm").mkdir()
    (tmp_path / "inner" / "firm").mkdir(parents=True)
    for file in ("graph.npz", "frim.txt"):
        (tmp_path / file).touch()
    expected = f"There is no task, file or folder '{name}'; did you mean {near}?"
    with pytest.raises(TaskError, match=re.escape(expected)):
        load_task(name)


def test_a_task_is_proposed_where_it_is_nearer_than_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "citeserve").mkdir()
    said = r"a path \(there is no file or folder of this name\); did you mean 'citeseer'\?"
    with pytest.raises(UnknownNameError, match=said):
        load_task("citeser")


def test_an_unknown_ending_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "graph.gml"
    path.touch()
    with pytest.raises(UnknownNameError, match=r"Unknown file format '\.gml'; known are: .*\.npz"):
        load_task(path)


def test_the_ending_may_be_in_capitals(tmp_path: Path, square: Data) -> None:
    square.y = torch.tensor([0, 1, 2, -1])
    for part, node in (("train", 0), ("val", 1), ("test", 2)):
        square[f"{part}_mask"] = torch.arange(4) == node
    torch.save(square, tmp_path / "GRAPH.PT")
    assert load_task(tmp_path / "GRAPH.PT").split.name == "own"


@pytest.mark.parametrize("name", ["graph.npz", "graph.pt", "nodes.csv"])
def test_a_file_that_may_not_be_read_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text("id,label\n0,1\n")
    target = tmp_path if name == "nodes.csv" else tmp_path / name
    if name == "nodes.csv":
        (tmp_path / "edges.csv").write_text("source,target\n")
    if os.geteuid() == 0:  # the administrator may read everything

        def refuse(*args: object) -> None:
            raise PermissionError(13, "Permission denied")

        form = "folder" if name == "nodes.csv" else Path(name).suffix
        monkeypatch.setitem(FORMATS._entries, form, refuse)
    (tmp_path / name).chmod(0)
    with pytest.raises(TaskError, match=r"cannot be read \(.*Permission denied.*\)"):
        load_task(target)


def test_options_reach_the_source() -> None:
    x = load_task(normalize=False).graphs[0].x
    assert not isinstance(x, torch.Tensor)
    assert set(x.values.tolist()) == {1}


def test_a_single_table_is_answered_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label\n")
    with pytest.raises(TaskError, match=f"give the folder .* '{tmp_path}'"):
        load_task(tmp_path / "nodes.csv")


def test_a_task_is_found_from_whatever_names_it(tiny_task: GraphTask) -> None:
    assert find_task(tiny_task) is tiny_task
    assert find_task("citeseer").name == "citeseer"
    graph = tiny_task.graphs[0]
    data = Data(x=graph.x, edge_index=graph.edge_index, y=graph.y)
    assert find_task(data).source.sha256 == tiny_task.source.sha256


def test_anything_else_is_no_task() -> None:
    with pytest.raises(TaskError, match="A dict is no task; give a GraphTask, a PyG Data"):
        find_task({})


@pytest.mark.parametrize("name", ["a\0b", "a\0b/c.npz", "a/b\0", "a\ud800.npz"])
def test_what_no_file_can_be_called_is_one_sentence(name: str) -> None:
    said = "cannot be a path: no file's name has a null byte"
    with pytest.raises(TaskError, match=said):
        load_task(name)
    with pytest.raises(TaskError, match=said):
        load_task("cora", data_root=name)
