"""Right and wrong answers, class by class."""

import pytest
import torch

from pdnas.report.classes import LARGEST, class_table, draw_classes, read_classes, wilson
from pdnas.runs import Predictions


def predictions(logits: list[list[float]], labels: object, part: list[int]) -> Predictions:
    count = len(logits)
    return Predictions(
        logits=torch.tensor(logits),
        labels=torch.tensor(labels),
        part=torch.tensor(part, dtype=torch.uint8),
        graph=torch.zeros(count, dtype=torch.long),
    )


A, B = [1.0, 0.0], [0.0, 1.0]


def test_only_labeled_nodes_of_the_test_part_count() -> None:
    record = read_classes(
        predictions([A, A, B, B, A, A], [0, 1, 1, 1, -1, 1], [3, 3, 3, 3, 3, 1]), ("a", "b")
    )

    assert record.matrix == ((1, 0), (1, 2))
    assert record.nodes == 4
    first, second = record.scores
    assert (first.precision, first.recall, first.support) == (0.5, 1.0, 1)
    assert (second.precision, second.recall) == pytest.approx((1.0, 2 / 3))
    assert second.f1 == pytest.approx(0.8)


def test_a_binary_task_has_a_matrix_of_two() -> None:
    record = read_classes(predictions([[2.0], [-1.0], [3.0]], [1, 0, 0], [3, 3, 3]), ("no", "yes"))

    assert record.matrix == ((1, 1), (0, 1))


def test_several_labels_have_scores_and_no_matrix() -> None:
    record = read_classes(
        predictions([[1.0, -1.0], [1.0, 1.0]], [[1, 0], [0, 1]], [3, 3]), ("x", "y")
    )

    assert record.matrix == ()
    assert [score.f1 for score in record.scores] == pytest.approx([2 / 3, 1.0])
    assert [figure.name for figure in draw_classes(record)] == ["classes"]
    assert class_table(record).header[0] == "label"


def test_what_a_class_without_nodes_came_to_is_not_known() -> None:
    record = read_classes(predictions([A, B], [0, 0], [3, 3]), ("a", "b"))

    bars, _ = draw_classes(record)

    assert (record.scores[1].precision, record.scores[1].recall) == (0.0, None)
    assert "The hardest class is a with 66.7 %." in bars.caption
    assert "1 without nodes in the test part cannot be judged" in bars.caption


def test_a_class_that_is_neither_met_nor_said_has_no_figures() -> None:
    record = read_classes(predictions([A], [0], [3]), ("a", "b"))

    assert class_table(record).rows[1] == ("b", "-", "-", "-", "0")
    assert draw_classes(record)[0].plot["data"][0]["y"] == [100.0, None]


def test_a_test_part_without_labels_is_said_to_be_so() -> None:
    record = read_classes(predictions([A], [-1], [3]), ("a", "b"))

    assert draw_classes(record)[0].caption == "No class has nodes in the test part."


def test_wilsons_interval_is_that_of_the_books() -> None:
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert wilson(50, 50) == pytest.approx((0.9286, 1.0), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_right_nodes_have_an_interval_over_nodes() -> None:
    record = read_classes(predictions([A] * 50, [0] * 50, [3] * 50), ("a", "b"))

    assert record.right == 50
    assert record.certainty == "95 % interval over nodes 92.87 to 100.00"


def test_counts_are_written_and_names_are_text() -> None:
    record = read_classes(predictions([A, B], [0, 1], [3, 3]), ("<b>a</b>", "b"))

    bars, matrix = draw_classes(record)

    assert bars.plot["data"][0]["x"] == ["&lt;b&gt;a&lt;/b&gt;", "b"]
    assert matrix.plot["data"][0]["text"] == [[1, 0], [0, 1]]
    assert matrix.table is not None
    assert matrix.table.rows[0] == ("<b>a</b>", "1", "0")
    assert "2 of them are on the diagonal" in matrix.caption


def test_names_that_begin_alike_stay_apart() -> None:
    names = tuple("a very long name of a class indeed, " + end for end in "xy")

    bars, _ = draw_classes(read_classes(predictions([A, B], [0, 1], [3, 3]), names))

    assert len(set(bars.plot["data"][0]["x"])) == 2
    assert bars.plot["narrow"]["xaxis"]["ticktext"] == ["0 a very l…", "1 a very l…"]


def test_a_caption_has_no_endless_names() -> None:
    bars, _ = draw_classes(read_classes(predictions([B, B], [0, 1], [3, 3]), ("a" * 99, "b")))

    assert len(bars.caption) < 60


def test_matrices_beyond_any_reading_are_left_out() -> None:
    count = LARGEST + 1
    logits = torch.eye(count).tolist()
    names = tuple(map(str, range(count)))

    record = read_classes(predictions(logits, list(range(count)), [3] * count), names)

    assert [figure.name for figure in draw_classes(record)] == ["classes"]
