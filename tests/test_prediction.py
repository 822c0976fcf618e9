"""Predictions: from the run alone, or for other data, prepared and named as the run's own were."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow import csv, parquet
from torch import Tensor
from torch_geometric.data import Data

import pdnas
from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import PdnasError, RunError, TaskError
from pdnas.ops import SparseFeatures
from pdnas.prediction import Prediction, distinct, predict
from pdnas.runs import PREDICTIONS, RESULT, SETTINGS, Result, RunDirectory
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, train

SMALL = Architecture(blocks=(BlockSpec(activation="relu"), BlockSpec()))
BRIEF = Recipe(epochs=5, patience=5)

Trained = Callable[[GraphTask], Path]


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    """Trains a small network on a task, in a run."""

    def make(task: GraphTask) -> Path:
        run = RunDirectory.create(tmp_path / "run", "test")
        run.write_json(SETTINGS, {"command": "train"})
        train(SMALL, task, hidden=4, recipe=BRIEF, run=run, device="cpu")
        return run.path

    return make


def dense(task: GraphTask) -> Tensor:
    x = task.graphs[0].x
    assert not isinstance(x, SparseFeatures)
    return x


def bare(task: GraphTask, **fields: Any) -> Data:
    """The only graph of a task, without labels."""
    return Data(x=dense(task), edge_index=task.graphs[0].edge_index, **fields)


def single(logits: list[list[float]], **fields: Any) -> Prediction:
    ids = tuple(f"n{number}" for number in range(len(logits)))
    every: dict[str, Any] = {
        "kind": "single-label",
        "class_names": ("a", "b"),
        "graph": torch.zeros(len(logits), dtype=torch.long),
        "node_ids": ids,
    }
    return Prediction(**{**every, "logits": torch.tensor(logits).float(), **fields})


def yes_or_no(task: GraphTask) -> GraphTask:
    y = (task.graphs[0].y > 0).long()
    masks = {
        f"{part}_mask": torch.isin(torch.arange(20), getattr(task.split, part))
        for part in ("train", "val", "test")
    }
    return GraphTask.from_data(bare(task, y=y, **masks), name="yes or no")


def test_one_class_per_node_is_the_most_probable_by_softmax() -> None:
    found = single([[0.0, np.log(3)], [np.log(4), 0.0]])
    assert found.classes == ("b", "a")
    torch.testing.assert_close(found.probabilities, torch.tensor([[0.25, 0.75], [0.8, 0.2]]))
    assert found.counts == {"a": 1, "b": 1}
    assert len(found) == 2
    assert repr(found) == "Prediction(2 nodes, single-label, {'a': 1, 'b': 1})"


def test_a_yes_or_no_question_has_two_probabilities_by_sigmoid() -> None:
    found = single([[np.log(3)], [-50.0], [0.0]], kind="binary", class_names=("no", "yes"))
    assert found.classes == ("yes", "no", "no")
    expected = torch.tensor([[0.25, 0.75], [1.0, np.exp(-50)], [0.5, 0.5]]).float()
    torch.testing.assert_close(found.probabilities, expected, rtol=1e-5, atol=0)


def test_several_labels_per_node_are_those_more_likely_than_not() -> None:
    found = single([[np.log(3), -1.0], [1.0, 2.0], [-1.0, 0.0]], kind="multi-label")
    assert found.classes == (("a",), ("a", "b"), ())
    torch.testing.assert_close(found.probabilities[0, 0], torch.tensor(0.75))
    assert found.counts == {"a": 2, "b": 1}


def test_a_table_of_one_class_per_node_is_read_back(tmp_path: Path) -> None:
    odd = ('a,"b"', "c\nd")
    found = single(
        [[0.0, np.log(3)], [1.0, 0.0]],
        class_names=odd,
        node_ids=("007", "x, y"),
        labels=torch.tensor([0, -1]),
    )
    names = ["node", "class", "label", *(f"probability:{name}" for name in odd)]
    options = csv.ConvertOptions(column_types={"node": "string"}, strings_can_be_null=True)
    parsing = csv.ParseOptions(newlines_in_values=True)
    for table in (
        csv.read_csv(found.save(tmp_path / "a.csv"), None, parsing, options),
        parquet.read_table(found.save(tmp_path / "a.PARQUET")),
    ):
        assert table.column_names == names
        assert table["node"].to_pylist() == ["007", "x, y"]
        assert table["class"].to_pylist() == [odd[1], odd[0]]
        assert table["label"].to_pylist() == [odd[0], None]
        np.testing.assert_allclose(table[names[-1]].to_numpy()[0], 0.75, rtol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.PARQUET", "a.csv"]


def test_a_table_of_several_labels_per_node_has_a_column_for_each(tmp_path: Path) -> None:
    found = single(
        [[1.0, -1.0], [1.0, 2.0]],
        kind="multi-label",
        graph=torch.tensor([0, 1]),
        labels=torch.tensor([[0, 1], [1, 1]]),
    )
    table = parquet.read_table(found.save(tmp_path / "a.parquet"))
    assert table.column_names == [
        *("node", "graph", "class:a", "class:b", "label:a", "label:b"),
        *("probability:a", "probability:b"),
    ]
    assert table["graph"].to_pylist() == [0, 1]
    assert table["class:b"].to_pylist() == [0, 1]
    assert table["label:a"].to_pylist() == [0, 1]
    with np.load(found.save(tmp_path / "a.npz")) as arrays:
        assert arrays["class"].tolist() == [[1, 0], [1, 1]]
        assert arrays["label"].tolist() == [[0, 1], [1, 1]]
        assert arrays["graph"].tolist() == [0, 1]


def test_arrays_are_read_back(tmp_path: Path) -> None:
    found = single([[0.0, 1.0], [1.0, 0.0]], labels=torch.tensor([1, -1]))
    with np.load(found.save(tmp_path / "a.npz"), allow_pickle=False) as arrays:
        assert set(arrays.files) == {
            *("node", "class", "label", "probabilities", "class_names", "logits")
        }
        assert arrays["node"].tolist() == ["n0", "n1"]
        assert arrays["class"].tolist() == ["b", "a"]
        assert arrays["label"].tolist() == ["b", ""]
        assert arrays["class_names"].tolist() == ["a", "b"]
        assert np.array_equal(arrays["logits"], found.logits.numpy())
        assert np.array_equal(arrays["probabilities"], found.probabilities.numpy())


def test_classes_of_the_same_name_have_columns_of_their_own() -> None:
    assert distinct(["a", "b", "a"]) == ["a #0", "b", "a #2"]
    names = single([[0.0, 1.0]], class_names=("a", "a")).table().column_names
    assert names == ["node", "class", "probability:a #0", "probability:a #1"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("a.txt", r"has the ending '\.txt'; give one of \.csv, \.parquet, \.npz"),
        ("a", r"has the ending ''; give one of"),
        ("folder.csv", r"folder\.csv' is a folder; give the path of a file"),
        ("none/a.csv", r"There is no folder '.*none' for the output"),
        ("file/a.csv", r"There is no folder '.*file' for the output"),
    ],
)
def test_an_output_that_cannot_be_is_one_sentence(
    tmp_path: Path, output: str, expected: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(PdnasError, match=expected):
        single([[0.0, 1.0]]).save(tmp_path / output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.csv"]


def test_an_output_that_may_not_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("earlier")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(PdnasError, match=r"a\.csv' cannot be written \(Permission denied\)"):
            single([[0.0, 1.0]]).save(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "earlier"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_run_alone_tells_what_its_network_says_of_its_graphs(
    trained: Trained, tiny_task: GraphTask
) -> None:
    path = trained(tiny_task)
    found, graph = pdnas.predict(path), tiny_task.graphs[0]
    with torch.no_grad():
        logits = pdnas.load_run(path).model(graph.x, graph.edge_index)
    assert torch.equal(found.logits, logits)
    assert found.classes == tuple(str(number) for number in logits.argmax(1).tolist())
    assert found.node_ids == tuple(map(str, range(20)))
    assert found.labels is not None
    assert torch.equal(found.labels, graph.y)
    assert found.notes == ()


def test_several_graphs_number_their_nodes_each(trained: Trained, rings: GraphTask) -> None:
    path = trained(rings)
    for found in (predict(path), predict(path, rings)):
        assert found.kind == "multi-label"
        assert found.node_ids[:7] == ("0", "1", "2", "3", "4", "0", "1")
        assert found.graph[:7].tolist() == [0] * 5 + [1] * 2
        assert torch.equal(found.logits, predict(path).logits)


@pytest.mark.parametrize("how", ["data", "task", "npz", "pt", "result"])
def test_the_same_graph_as_data_gives_what_the_run_keeps(
    trained: Trained, tiny_task: GraphTask, tmp_path: Path, how: str
) -> None:
    path, data = trained(tiny_task), bare(tiny_task)
    torch.save(data, tmp_path / "a.pt")
    np.savez(tmp_path / "a.npz", x=data.x.numpy(), edge_index=data.edge_index.numpy())
    given: Any = {
        "data": data,
        "task": tiny_task,
        "npz": tmp_path / "a.npz",
        "pt": str(tmp_path / "a.pt"),
        "result": data,
    }[how]
    run: Any = pdnas.load_run(path) if how == "result" else path
    found = predict(run, given, device="cpu")
    assert torch.equal(found.logits, predict(path).logits)
    assert (found.labels is None) == (how != "task")


def test_a_new_graph_is_prepared_as_the_own_one_was(trained: Trained, tiny_task: GraphTask) -> None:
    forth = tiny_task.graphs[0].edge_index[:, :40]
    source = pdnas.tasks.source.source_from_data(
        bare(tiny_task, y=tiny_task.graphs[0].y),
        "scaled",
        normalize=True,
        undirected=True,
    )
    path = trained(GraphTask.from_source(source))
    found = predict(path, Data(x=7 * dense(tiny_task), edge_index=forth))
    torch.testing.assert_close(found.logits, predict(path).logits)


@pytest.mark.parametrize("how", ["data", "npz"])
def test_a_new_graph_is_scaled_as_the_own_one_was(
    trained: Trained, tiny_task: GraphTask, tmp_path: Path, how: str
) -> None:
    graph = bare(tiny_task, y=tiny_task.graphs[0].y)
    path = trained(GraphTask.from_data(graph, standardize=True))
    one = Data(x=dense(tiny_task)[:1], edge_index=torch.empty(2, 0, dtype=torch.long))
    np.savez(tmp_path / "a.npz", x=one.x, edge_index=one.edge_index)
    found = predict(path, one if how == "data" else tmp_path / "a.npz")
    data = pdnas.load_run(path).data
    assert data is not None
    scaled = (one.x.double() - torch.tensor(data.means)) / torch.tensor(data.deviations)
    with torch.no_grad():
        expected = pdnas.load_run(path).model(scaled.float(), one.edge_index)
    torch.testing.assert_close(found.logits, expected)
    again = predict(path, graph)
    assert torch.equal(again.logits, predict(path).logits)
    assert not any("accuracy" in note for note in again.notes)  # it is its own graph


def test_a_network_is_asked_about_a_graph_it_has_never_seen(
    trained: Trained, tiny_task: GraphTask
) -> None:
    path = trained(tiny_task)
    alone = Data(x=dense(tiny_task)[:1], edge_index=torch.empty(2, 0, dtype=torch.long))
    found = predict(path, alone)
    network = pdnas.load_run(path).model
    with torch.no_grad():
        assert torch.equal(found.logits, network(alone.x, alone.edge_index))


def test_a_yes_or_no_question_is_answered_anew(trained: Trained, tiny_task: GraphTask) -> None:
    path = trained(yes_or_no(tiny_task))
    found = predict(path, bare(tiny_task))
    assert found.kind == "binary"
    assert found.probabilities.shape == (20, 2)
    assert torch.equal(found.logits, predict(path).logits)


def test_labels_of_other_data_are_kept_and_tell_the_metric(
    trained: Trained, tiny_task: GraphTask
) -> None:
    path = trained(tiny_task)
    y = predict(path).numbers.clone()
    y[:2], y[2:4] = -1, 99  # not known, and no class of the run
    y[4] = (y[4] + 1) % 3
    found = predict(path, bare(tiny_task, y=y))
    assert found.labels is not None
    assert found.labels.tolist() == [-1] * 4 + y[4:].tolist()
    assert found.notes == (
        "2 node(s) of 'data' have labels that the network does not know: 99; these count as "
        "unlabelled.",
        "accuracy on the 16 node(s) with a known label: 93.75 %.",
    )


def test_of_many_unknown_labels_the_commonest_are_named(
    trained: Trained, tiny_task: GraphTask
) -> None:
    y = torch.cat([torch.arange(3), torch.arange(10, 26), torch.tensor([25])])
    (said, _) = predict(trained(tiny_task), bare(tiny_task, y=y)).notes
    assert "17 node(s) of 'data' have labels" in said
    assert "does not know: 25, 10, 11, 12, 13, 14, 15, 16 and 8 more; these count" in said


def test_labels_of_a_task_with_other_classes_are_left_out_with_a_word(
    trained: Trained, tiny_task: GraphTask
) -> None:
    other = replace(tiny_task.source, class_names=("x", "y", "z"), name="other")
    found = predict(trained(tiny_task), replace(tiny_task, source=other))
    assert found.labels is None
    assert found.notes == (
        "The labels of 'other' (x, y, z) are not those of the network (0, 1, 2), and are left out.",
    )


def test_the_figure_on_what_was_trained_on_is_not_told(
    trained: Trained, tiny_task: GraphTask
) -> None:
    assert predict(trained(tiny_task), tiny_task).notes == ()


def test_labels_of_another_shape_are_one_sentence(trained: Trained, tiny_task: GraphTask) -> None:
    path = trained(tiny_task)
    with pytest.raises(TaskError, match=r"shape \[20, 2\], are not those of the network"):
        predict(path, bare(tiny_task, y=torch.ones(20, 2)))


@pytest.mark.parametrize("features", [4, 6])
def test_another_number_of_features_is_one_sentence_with_both(
    trained: Trained, tiny_task: GraphTask, tmp_path: Path, features: int
) -> None:
    path = trained(tiny_task)
    edges = tiny_task.graphs[0].edge_index
    data = Data(x=torch.rand(20, features), edge_index=edges)
    torch.save(data, tmp_path / "a.pt")
    np.savez(tmp_path / "a.npz", x=data.x.numpy(), edge_index=edges.numpy())
    for given in (data, tmp_path / "a.pt", tmp_path / "a.npz"):
        why = rf"has {features} feature\(s\) per node, but the network was trained on 5; give"
        with pytest.raises(TaskError, match=why):
            predict(path, given)


def test_a_table_without_features_is_one_sentence(trained: Trained, tiny_task: GraphTask) -> None:
    data = Data(x=torch.rand(20, 0), edge_index=tiny_task.graphs[0].edge_index)
    with pytest.raises(TaskError, match=r"have shape \[20, 0\]; give \[nodes, features\] with at"):
        predict(trained(tiny_task), data)


def test_no_features_are_none_of_the_features(
    trained: Trained, tiny_task: GraphTask, tmp_path: Path
) -> None:
    path, edges = trained(tiny_task), tiny_task.graphs[0].edge_index
    np.savez(tmp_path / "a.npz", edge_index=edges.numpy())
    for given in (Data(edge_index=edges), tmp_path / "a.npz"):
        with pytest.raises(TaskError, match=r"has 0 feature\(s\) per node, but .* on 5"):
            predict(path, given)


def test_a_task_of_other_features_or_classes(
    trained: Trained, tiny_task: GraphTask, rings: GraphTask
) -> None:
    path = trained(tiny_task)
    with pytest.raises(TaskError, match=r"'rings' has 4 feature\(s\) per node, but .* on 5"):
        predict(path, rings)
    other = replace(tiny_task.source, class_names=("x", "y", "z"))
    assert predict(path, replace(tiny_task, source=other)).labels is None


def test_data_without_nodes_are_one_sentence(trained: Trained, tiny_task: GraphTask) -> None:
    empty = Data(x=torch.empty(0, 5), edge_index=torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(TaskError, match="'data' has no nodes; give at least one"):
        predict(trained(tiny_task), empty)


def test_a_result_alone_needs_data(trained: Trained, tiny_task: GraphTask) -> None:
    result = pdnas.load_run(trained(tiny_task))
    with pytest.raises(PdnasError, match="give the data, or the run directory"):
        predict(result)


@pytest.mark.parametrize("command", ["compare", "reproduce"])
def test_folders_without_a_trained_network_are_one_sentence(tmp_path: Path, command: str) -> None:
    RunDirectory(tmp_path).write_json(SETTINGS, {"command": command})
    with pytest.raises(RunError, match=r"not a trained network; give the run directory of"):
        predict(tmp_path)


def test_an_unfinished_run_is_one_sentence(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write_json(SETTINGS, {"command": "search"})
    with pytest.raises(RunError, match=r"has no result\.json; finish it with: pdnas resume"):
        predict(tmp_path)


def of_early_version(path: Path, **changes: Any) -> None:
    run = RunDirectory(path)
    (path / PREDICTIONS).unlink()
    plain = run.read_record(RESULT, Result).model_dump(mode="json")
    del plain["data"]
    run.write_json(RESULT, {**plain, **changes})


def test_a_run_of_an_early_version_answers_of_data_alone(
    trained: Trained, tiny_task: GraphTask
) -> None:
    path = trained(tiny_task)
    kept = predict(path).logits
    of_early_version(path)
    with pytest.raises(RunError, match=r"holds no predictions: .*give the data to pdnas predict"):
        predict(path)
    found = predict(path, bare(tiny_task))
    assert torch.equal(found.logits, kept)
    assert len(found.notes) == 1
    assert "early version" in found.notes[0]


@pytest.mark.parametrize(
    ("metric", "kind"), [("accuracy", "binary"), ("micro-f1", "multi-label"), ("macro-f1", None)]
)
def test_the_kind_of_an_early_run_follows_from_its_metric_or_is_asked_for(
    trained: Trained, tiny_task: GraphTask, metric: str, kind: str | None
) -> None:
    path = trained(yes_or_no(tiny_task) if kind == "binary" else tiny_task)
    of_early_version(path, metric=metric)
    if kind is None:
        with pytest.raises(RunError, match=r"does not say what kind of task .*; train again"):
            predict(path, bare(tiny_task))
    else:
        assert predict(path, bare(tiny_task)).kind == kind
