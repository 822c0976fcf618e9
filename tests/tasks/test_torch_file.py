import os
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from pdnas.errors import TaskError
from pdnas.tasks.load import read_source
from pdnas.tasks.source import ReadOptions, Source
from pdnas.tasks.torch_file import read


def test_a_saved_data_is_read_back(tmp_path: Path, square: Data) -> None:
    for part, node in (("train", 0), ("val", 1), ("test", 2)):
        square[f"{part}_mask"] = torch.arange(4) == node
    torch.save(square, tmp_path / "a.pt")
    source = read(tmp_path / "a.pt", ReadOptions())
    assert source.name == str(tmp_path / "a.pt")
    assert torch.equal(source.graphs[0].edge_index, square.edge_index)
    assert torch.equal(source.graphs[0].y, square.y)
    assert source.split().name == "own"


def test_options_reverse_edges_and_normalize(tmp_path: Path, square: Data) -> None:
    torch.save(square, tmp_path / "a.pt")
    source = read(tmp_path / "a.pt", ReadOptions(normalize=True, undirected=True))
    assert source.graphs[0].edge_index.size(1) == 8
    x = source.graphs[0].x
    assert isinstance(x, torch.Tensor)
    assert x[0].tolist() == [0.25, 0.75]


class Touch:
    """What an attacker would save."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("legacy", [False, True], ids=["torch.save", "pickle"])
def test_a_file_that_would_run_code_is_refused_and_not_run(tmp_path: Path, legacy: bool) -> None:
    path, victim = tmp_path / "a.pt", tmp_path / "touched"
    if legacy:
        path.write_bytes(pickle.dumps(Touch(victim)))
    else:
        torch.save(Touch(victim), path)
    with pytest.raises(TaskError, match=r"a.pt' .*") as info:
        read(path, ReadOptions())
    assert not victim.exists()
    assert "\n" not in str(info.value)
    if not legacy:
        assert "holds posix.mkdir, which pdnas does not load" in str(info.value)


def test_code_inside_a_data_is_refused_and_not_run(tmp_path: Path, square: Data) -> None:
    square.extra = Touch(tmp_path / "touched")
    torch.save(square, tmp_path / "a.pt")
    with pytest.raises(TaskError, match=r"holds posix.mkdir, which pdnas does not load"):
        read(tmp_path / "a.pt", ReadOptions())
    assert not (tmp_path / "touched").exists()


def test_reading_leaves_the_classes_that_pyg_allows(tmp_path: Path, square: Data) -> None:
    before = set(torch.serialization.get_safe_globals())
    torch.save(square, tmp_path / "a.pt")
    read(tmp_path / "a.pt", ReadOptions())
    assert set(torch.serialization.get_safe_globals()) == before


def test_graphs_of_several_kinds_are_refused(tmp_path: Path) -> None:
    torch.save(HeteroData(), tmp_path / "a.pt")
    with pytest.raises(TaskError, match=r"a.pt' holds .*; save a torch_geometric Data of tensors"):
        read(tmp_path / "a.pt", ReadOptions())


@pytest.mark.parametrize("content", [{"x": 1}, [1]], ids=["dict", "list"])
def test_other_contents_are_named(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(TaskError, match=f"holds {type(content).__name__}, not a torch_geometric"):
        read(tmp_path / "a.pt", ReadOptions())


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04", b"\x80\x02."])
def test_damaged_files_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(TaskError, match=r"is damaged or not a file of torch.save"):
        read(tmp_path / "a.pt", ReadOptions())


def test_a_data_that_lacks_a_part_of_itself_is_damaged(tmp_path: Path, square: Data) -> None:
    torch.save(square, tmp_path / "a.pt")
    content = (tmp_path / "a.pt").read_bytes()
    assert b"_store" in content
    (tmp_path / "a.pt").write_bytes(content.replace(b"_store", b"xstore"))
    with pytest.raises(TaskError, match=r"is damaged or not a file of torch.save"):
        read(tmp_path / "a.pt", ReadOptions())


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), byte=st.integers(0, 255), cut=st.booleans())
def test_any_damage_ends_in_a_source_or_one_sentence(
    tmp_path: Path, square: Data, place: float, byte: int, cut: bool
) -> None:
    path = tmp_path / "a.pt"
    torch.save(square, path)
    content = bytearray(path.read_bytes())
    index = int(place * (len(content) - 1))
    content[index] = byte
    path.write_bytes(content[:index] if cut else content)
    try:
        outcome: object = read_source(str(path), ReadOptions())
    except TaskError as error:
        outcome = error
    assert isinstance(outcome, Source) or "\n" not in str(outcome)
