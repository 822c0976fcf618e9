import pytest
import torch
from torch_geometric.data import Data

from pdnas.errors import TaskError, UnknownNameError
from pdnas.tasks.source import Source, source_from_graphs
from pdnas.tasks.task import GraphTask


@pytest.fixture
def ring() -> Data:
    index = torch.arange(10)
    return Data(x=torch.ones(10, 3), edge_index=torch.stack([index, (index + 1) % 10]), y=index % 3)


@pytest.mark.parametrize(
    ("y", "metric", "channels"),
    [
        (torch.arange(10) % 3, "accuracy", 3),
        (torch.arange(10) % 2, "accuracy", 1),
        (torch.ones(10, 5), "micro-f1", 5),
    ],
    ids=["single-label", "binary", "multi-label"],
)
def test_the_kind_sets_metric_and_channels(
    ring: Data, y: torch.Tensor, metric: str, channels: int
) -> None:
    ring.y = y
    task = GraphTask.from_data(ring)
    assert (task.metric, task.out_channels, task.in_channels) == (metric, channels, 3)


def test_a_metric_that_does_not_fit_the_kind_is_refused(ring: Data) -> None:
    with pytest.raises(UnknownNameError, match="single-label metric 'roc-auc'"):
        GraphTask.from_data(ring, metric="roc-auc")


def test_with_split_changes_nothing_else(ring: Data) -> None:
    task = GraphTask.from_data(ring, name="ring", split_seed=0, metric="macro-f1")
    other = task.with_split("random", 1)
    assert (other.name, other.metric, other.graphs) == ("ring", "macro-f1", task.graphs)
    assert other.split.sha256 != task.split.sha256


def test_to_keeps_the_data(ring: Data) -> None:
    task = GraphTask.from_data(ring)
    assert torch.equal(task.to("cpu").graphs[0].y, task.graphs[0].y)


def _pairs(*labels: list[int]) -> Source:
    graphs = [
        Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor(y)) for y in labels
    ]
    splits = {"own": (torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))}
    return source_from_graphs(graphs, "pairs", splits=splits)


def test_roc_auc_looks_at_the_labels_of_all_nodes_of_a_part() -> None:
    task = GraphTask.from_source(_pairs([0, 1], [1, 0], [0, 1]), metric="roc-auc")
    assert task.labels("val").tolist() == [1, 0]


def test_roc_auc_of_a_single_class_is_refused() -> None:
    with pytest.raises(TaskError, match="not defined on the test part"):
        GraphTask.from_source(_pairs([0, 1], [1, 0], [1, 1]), metric="roc-auc")


def test_a_task_prints_as_one_line() -> None:
    task = GraphTask.from_source(_pairs([0, 1], [1, 0], [0, 1]))
    assert repr(task).startswith("GraphTask('pairs', binary, 3 graph(s), 6 nodes, 3 edges")


def test_a_notebook_sees_what_there_is_to_learn(tiny_task: GraphTask) -> None:
    shown = tiny_task.named("<b>mine</b>")._repr_html_()
    for text in ("&lt;b&gt;mine&lt;/b&gt;", "own: 9 train, 5 val, 6 test", "3 classes", "accuracy"):
        assert text in shown
    assert "<b>" not in shown
