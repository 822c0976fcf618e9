import re
import shutil
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric import datasets

from pdnas.errors import TaskError, UnknownNameError
from pdnas.tasks import load_task
from pdnas.tasks.pyg import PygName


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with a small graph under the name of a known one."""
    raw = tmp_path / "data" / "HeterophilousGraphDataset" / "minesweeper" / "raw"
    raw.mkdir(parents=True)
    write_minesweeper(raw / "minesweeper.npz", nodes=9)
    return tmp_path / "data"


def write_minesweeper(path: Path, nodes: int) -> None:
    index = np.arange(nodes)
    masks = {
        f"{part}_masks": np.stack([(index + shift) % 3 == number for shift in range(2)])
        for number, part in enumerate(("train", "val", "test"))
    }
    np.savez(
        path,
        node_features=np.ones((nodes, 2), dtype=np.float32),
        node_labels=index % 2,
        edges=np.stack([index, (index + 1) % nodes], axis=1),
        **masks,  # type: ignore[arg-type]
    )


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }


MINESWEEPER = "pyg:HeterophilousGraphDataset/Minesweeper"


def test_masks_of_several_splits_become_the_split_own(root: Path) -> None:
    first = load_task(MINESWEEPER, data_root=root)
    second = load_task(MINESWEEPER, data_root=root, split="own", split_seed=1)
    assert first.split.train.tolist() == [0, 3, 6]
    assert second.split.train.tolist() == [2, 5, 8]
    assert first.graphs[0].edge_index.size(1) == 18


def test_binary_heterophilous_graphs_are_judged_by_roc_auc(root: Path) -> None:
    task = load_task(MINESWEEPER, data_root=root)
    assert (task.kind, task.metric) == ("binary", "roc-auc")
    assert load_task(MINESWEEPER, data_root=root, metric="accuracy").metric == "accuracy"


@pytest.mark.parametrize("name", ["Minesweeper", "minesweeper", "MINESWEEPER"])
def test_the_case_of_the_name_does_not_matter(root: Path, name: str) -> None:
    assert len(load_task(f"pyg:HeterophilousGraphDataset/{name}", data_root=root).graphs) == 1


def test_nothing_is_written_under_the_data_root(root: Path) -> None:
    before = tree(root)
    load_task(MINESWEEPER, data_root=root)
    assert tree(root) == before


def test_a_second_reading_uses_the_cache(root: Path, cache: Path) -> None:
    load_task(MINESWEEPER, data_root=root)
    before = tree(cache)
    load_task(MINESWEEPER, data_root=root)
    assert tree(cache) == before


def test_changed_files_are_read_again(root: Path) -> None:
    assert load_task(MINESWEEPER, data_root=root).graphs[0].num_nodes == 9
    raw = root / "HeterophilousGraphDataset" / "minesweeper" / "raw" / "minesweeper.npz"
    write_minesweeper(raw, nodes=12)
    assert load_task(MINESWEEPER, data_root=root).graphs[0].num_nodes == 12


def test_readers_at_the_same_time_agree(root: Path, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        tasks = list(pool.map(lambda _: load_task(MINESWEEPER, data_root=root), range(4)))
    assert len({task.split.sha256 for task in tasks}) == 1
    assert len(list((cache / "pyg").iterdir())) == 1


def test_reading_is_silent(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # PyG is silent where this is set
    load_task(MINESWEEPER, data_root=root)
    assert capsys.readouterr() == ("", "")


def test_files_that_lack_are_named(root: Path) -> None:
    raw = root / "HeterophilousGraphDataset" / "minesweeper" / "raw"
    (raw / "minesweeper.npz").rename(raw / "other.npz")
    with pytest.raises(TaskError, match=r"raw' lacks minesweeper.npz; add what is missing"):
        load_task(MINESWEEPER, data_root=root)


def test_damaged_files_are_one_sentence(root: Path, cache: Path) -> None:
    raw = root / "HeterophilousGraphDataset" / "minesweeper" / "raw" / "minesweeper.npz"
    raw.write_bytes(raw.read_bytes()[:100])
    with pytest.raises(TaskError, match=r"^PyG cannot read 'pyg:Het.*; check its files") as info:
        load_task(MINESWEEPER, data_root=root)
    assert "\n" not in str(info.value)
    assert list((cache / "pyg").iterdir()) == []


def test_a_damaged_cache_names_the_folder_to_remove(root: Path, cache: Path) -> None:
    load_task(MINESWEEPER, data_root=root)
    (folder,) = (cache / "pyg").iterdir()
    (folder / "minesweeper" / "processed" / "data.pt").write_bytes(b"junk")
    with pytest.raises(TaskError, match=f"remove '{re.escape(str(folder))}' to have it made anew"):
        load_task(MINESWEEPER, data_root=root)


def test_data_that_are_made_on_the_spot_need_no_root() -> None:
    task = load_task("pyg:KarateClub")
    assert (task.graphs[0].num_nodes, len(task.source.class_names)) == (34, 4)
    assert task.split.name == "random"


WRONG = {
    "pyg:Amazn/Photo": (UnknownNameError, "no class of data sets 'Amazn'; .* perhaps 'Amazon'"),
    "pyg:amazon/Photo": (UnknownNameError, "perhaps 'Amazon'"),
    "pyg:": (UnknownNameError, "write pyg:Class/name"),
    "pyg:Amazon": (TaskError, "name one of them: pyg:Amazon/Computers, pyg:Amazon/Photo"),
    "pyg:Amazon/": (TaskError, "name one of them"),
    "pyg:TUDataset": (TaskError, "name one of them: pyg:TUDataset/NAME"),
    "pyg:Amazon/Fotos": (UnknownNameError, "known are: Computers, Photo; did you mean 'Photo'"),
    "pyg:Planetoid/../Cora": (TaskError, "cannot name a data set of Planetoid"),
    "pyg:KarateClub/big": (TaskError, "without names; write pyg:KarateClub"),
    "pyg:GraphLandDataset/web-topics": (TaskError, "also needs 'split'"),
    "pyg:FakeHeteroDataset": (TaskError, "holds HeteroData"),
    "pyg:BA2MotifDataset": (TaskError, "could not be downloaded"),
}


@pytest.mark.usefixtures("no_data_root")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_names_are_answered_in_one_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    error, message = WRONG[name]
    with pytest.raises(error, match=message) as info:
        load_task(name)
    assert "\n" not in str(info.value)


def unreachable(*args: object, **kwargs: object) -> None:
    raise urllib.error.URLError("Name or service not known")


@pytest.mark.parametrize("name", datasets.__all__)
def test_every_class_has_a_name_or_asks_for_one(name: str) -> None:
    try:
        outcome = str(PygName.parse(name))
    except TaskError as error:
        outcome = str(error)
    assert outcome == name or outcome.startswith(f"{name} holds several data sets; name one of")


def test_graph_classification_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class GraphLabels(datasets.FakeDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(num_graphs=3, task="graph")

    monkeypatch.setattr(datasets, "FakeDataset", GraphLabels)
    with pytest.raises(TaskError, match=r"shape \[1\] for \d+ nodes, so it is not node"):
        load_task("pyg:FakeDataset")


def test_several_graphs_without_parts_are_split_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    class Several(datasets.FakeDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(num_graphs=10, avg_num_nodes=20, task="node")

    monkeypatch.setattr(datasets, "FakeDataset", Several)
    task = load_task("pyg:FakeDataset")
    assert (task.split.name, task.split.unit, len(task.split.train)) == ("random", "graph", 6)


def test_a_data_root_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="nowhere' is not a folder; correct --data-root"):
        load_task("cora", data_root=tmp_path / "nowhere")


@pytest.mark.usefixtures("no_data_root")
def test_an_unreachable_download_names_the_embedded_task(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(
        TaskError,
        match=r"^'pyg:Amazon/Photo' is not under the data root and could not be downloaded "
        r"\(URLError: .*\); set PDNAS_DATA or --data-root to a folder that holds it, "
        r"or use the embedded task 'citeseer'\.$",
    ):
        load_task("pyg:Amazon/Photo")
    assert list((cache / "pyg").iterdir()) == []


@pytest.mark.usefixtures("no_data_root")
@pytest.mark.parametrize("name", ["cora", "pyg:Amazon/Photo"])
def test_without_a_network_the_same_is_said_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_name(*args: object, **kwargs: object) -> None:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", no_name)
    started = time.monotonic()
    with pytest.raises(TaskError, match=r"could not be downloaded \(.*\); set PDNAS_DATA"):
        load_task(name)
    assert time.monotonic() - started < 10


@pytest.mark.usefixtures("no_data_root")
def test_a_download_is_kept(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    raw = root / "HeterophilousGraphDataset" / "minesweeper" / "raw" / "minesweeper.npz"

    def download(dataset: datasets.HeterophilousGraphDataset) -> None:
        shutil.copy(raw, dataset.raw_dir)

    monkeypatch.setattr(datasets.HeterophilousGraphDataset, "download", download)
    first = load_task(MINESWEEPER)
    monkeypatch.setattr(datasets.HeterophilousGraphDataset, "download", unreachable)
    assert load_task(MINESWEEPER).split.sha256 == first.split.sha256


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "shape", "edges"),
    [
        ("Amazon/Photo", (7650, 745), 238162),
        ("HeterophilousGraphDataset/Minesweeper", (10000, 7), 78804),
    ],
)
def test_real_data_sets_have_their_known_sizes(
    name: str, shape: tuple[int, int], edges: int, data_root: Path
) -> None:
    graph = load_task(f"pyg:{name}", data_root=data_root).graphs[0]
    assert tuple(graph.x.shape) == shape
    assert graph.edge_index.size(1) == edges


@pytest.mark.data
def test_normalizing_is_off_by_default(data_root: Path) -> None:
    x = load_task("pyg:Planetoid/Cora", data_root=data_root).graphs[0].x
    assert not isinstance(x, torch.Tensor)
    assert bool((x.values == 1).all())
