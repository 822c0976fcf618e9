import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from pdnas.errors import TaskError
from pdnas.tasks import GraphTask, load_task
from pdnas.tasks.labels import Known
from pdnas.tasks.load import read_source
from pdnas.tasks.source import ReadOptions, Source, source_from_data, source_from_graphs
from pdnas.tasks.standard import moments, standardized, standardized_for

ROWS = [[1.0, 40_000.0, 7.0], [2.0, 50_000.0, 7.0], [2.0, 50_000.0, 7.0], [3.0, 60_000.0, 7.0]]
ROOT = math.sqrt(2)


def data(rows: list[list[float]], y: tuple[int, ...] = (0, 1, 2, 0)) -> Data:
    edges = torch.tensor([[0], [1]])
    return Data(x=torch.tensor(rows), edge_index=edges, y=torch.tensor(y))


def dense(source: Source, number: int = 0) -> Tensor:
    x = source.graphs[number].x
    assert isinstance(x, Tensor)
    return x


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{row},{'xy'[row % 2]},{','.join(map(str, ROWS[row]))}" for row in range(4)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,a,b,c", *rows]))
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    return tmp_path


def test_every_feature_has_mean_0_and_deviation_1() -> None:
    source = standardized(source_from_data(data(ROWS), "a"), wanted=True)
    expected = [[-ROOT, -ROOT, 0], [0, 0, 0], [0, 0, 0], [ROOT, ROOT, 0]]
    torch.testing.assert_close(dense(source), torch.tensor(expected))
    assert dense(source).dtype == torch.float32
    assert source.means == (2, 50_000, 7)
    assert source.deviations[0] == float(torch.tensor(0.5).sqrt())
    assert source.deviations[2] == 1


def test_a_column_that_does_not_vary_becomes_0_whatever_it_is() -> None:
    means, deviations = moments([torch.full((1000, 1), 0.1)])
    assert (means, deviations) == ((float(torch.tensor(0.1)),), (1,))
    assert moments([torch.tensor([[3.0]])]) == ((3,), (1,))


def test_large_and_tiny_columns_stay_finite() -> None:
    x = torch.tensor([[3e38, 1e-45, 1.0], [-3e38, 0, 1 + 2**-23], [0, 0, 1.0]])
    source = standardized(source_from_data(data(x.tolist(), (0, 1, 0)), "a"), wanted=True)
    assert bool(dense(source).abs().max() < 3)
    assert min(source.deviations) > 0


def test_means_and_deviations_are_numbers_of_single_precision() -> None:
    x = torch.rand(50, 3)
    for row in moments([x]):
        assert torch.tensor(row, dtype=torch.float64).float().tolist() == list(row)


def test_tables_are_standardized_by_default_and_nothing_else_is(folder: Path) -> None:
    auto, on, off = (load_task(folder, standardize=how) for how in (None, True, False))
    assert auto.source.sha256 == on.source.sha256 != off.source.sha256
    assert off.source.means == ()
    assert dense(off.source).tolist() == ROWS
    torch.save(data(ROWS), folder / "a.pt")
    assert load_task(folder / "a.pt").source.means == ()
    assert load_task(folder / "a.pt", standardize=True).source.means == (2, 50_000, 7)
    assert load_task("citeseer").source.means == ()


def test_tables_with_normalized_or_sparse_features_are_not(folder: Path) -> None:
    assert load_task(folder, normalize=True).source.means == ()
    rows = "".join(f"{row},{'xy'[row % 2]},{int(row == 0)},0,0,0,0\n" for row in range(4))
    (folder / "nodes.csv").write_text(f"id,label,a,b,c,d,e\n{rows}")
    assert load_task(folder).source.means == ()


def test_sparse_features_are_refused() -> None:
    with pytest.raises(TaskError, match="'citeseer' are sparse, and standardizing would make them"):
        load_task("citeseer", standardize=True, normalize=False)


def test_normalized_features_are_refused(folder: Path) -> None:
    with pytest.raises(TaskError, match="cannot be both normalized and standardized; give --norm"):
        load_task(folder, standardize=True, normalize=True)


def test_data_in_memory_are_standardized_on_request() -> None:
    assert GraphTask.from_data(data(ROWS)).source.means == ()
    task = GraphTask.from_data(data(ROWS), standardize=True)
    assert task.source.means == (2, 50_000, 7)
    assert task.named("b").source.means == task.source.means


@pytest.mark.parametrize(("split", "mean"), [(True, 2), (False, 5)])
def test_several_graphs_are_scaled_by_those_of_the_training(split: bool, mean: int) -> None:
    graphs = [data([[1.0], [3.0]], (0, 1)), data([[8.0], [8.0]], (0, 1))]
    parts = tuple(torch.tensor([number]) for number in (0, 1, 1))
    splits = {"own": (parts[0], parts[1], parts[2])} if split else {}
    source = standardized(source_from_graphs(graphs, "a", splits=splits), wanted=True)
    assert source.means == (mean,)
    if split:
        assert dense(source).tolist() == [[-1], [1]]
        assert dense(source, 1).tolist() == [[6], [6]]


def known(source: Source) -> Known:
    return Known("binary", ("x", "y"), 3, source.feature_names, source.means, source.deviations)


def test_other_data_are_scaled_as_the_network_knows_them(folder: Path) -> None:
    own = load_task(folder).source
    again = read_source(str(folder), ReadOptions(known=known(own)))
    assert again.sha256 == own.sha256
    lines = (folder / "nodes.csv").read_text().splitlines()
    (folder / "nodes.csv").write_text("\n".join(lines[:2]))
    (folder / "edges.csv").write_text("source,target\n")
    other = read_source(str(folder), ReadOptions(known=known(own)))
    assert dense(other).tolist() == dense(own)[:1].tolist()


def test_sparse_data_are_made_dense_for_a_network_of_scaled_ones(folder: Path) -> None:
    own = load_task(folder).source
    zeros = source_from_data(data([[0.0] * 3] * 4), "zeros")
    assert not isinstance(zeros.graphs[0].x, Tensor)
    torch.testing.assert_close(
        dense(standardized_for(zeros, known(own)))[0],
        torch.tensor([-2 * ROOT, -5 * ROOT, -7]),
    )


def test_a_network_of_plain_data_reads_tables_as_they_stand(folder: Path) -> None:
    plain = load_task(folder, standardize=False).source
    found = read_source(str(folder), ReadOptions(known=known(plain), standardize=None))
    assert dense(found).tolist() == ROWS


def test_another_number_of_features_is_refused(folder: Path) -> None:
    own = load_task(folder).source
    with pytest.raises(TaskError, match="'b' has 2 feature"):
        standardized_for(source_from_data(data([[1.0, 2.0]] * 4), "b"), known(own))
