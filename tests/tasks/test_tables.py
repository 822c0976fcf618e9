import contextlib
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from pdnas.errors import TaskError
from pdnas.tasks import load_task
from pdnas.tasks.labels import Known
from pdnas.tasks.source import ReadOptions, Source
from pdnas.tasks.tables import read

NODES = """\
id,label,split,fold,age,tall
007,dog,train,test,1.5,true
b,cat,valid,train,2,false
c,,,,3,true
d,dog,test,dev,4,true
"""
EDGES = "source,target,weight\n007,b,0.5\nb,c,1\nb,007,2\n"


def write(folder: Path, nodes: str = NODES, edges: str = EDGES) -> Path:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder


def pairs(source: Source) -> set[tuple[int, int]]:
    return {(a, b) for a, b in source.graphs[0].edge_index.t().tolist()}


def check(source: Source) -> None:
    graph = source.graphs[0]
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.tolist() == [[1.5, 1], [2, 0], [3, 1], [4, 1]]
    assert graph.y.tolist() == [1, 0, -1, 1]
    assert source.class_names == ("cat", "dog")
    assert source.kind == "binary"
    assert source.node_ids == ("007", "b", "c", "d")
    assert pairs(source) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert graph.edge_index.size(1) == 4


def test_a_folder_of_csv_is_read(tmp_path: Path) -> None:
    check(read(write(tmp_path), ReadOptions()))


@pytest.mark.parametrize("categories", [False, True])
def test_a_folder_of_parquet_is_read(tmp_path: Path, categories: bool) -> None:
    write(tmp_path)
    text = csv.ConvertOptions(column_types={"id": pa.string(), "source": pa.string()})
    for name in ("nodes", "edges"):
        table = csv.read_csv(tmp_path / f"{name}.csv", convert_options=text)
        if categories and name == "nodes":
            for column in ("label", "split", "fold"):
                place = table.column_names.index(column)
                table = table.set_column(place, column, table[column].dictionary_encode())
        parquet.write_table(table, tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.csv").unlink()
    source = read(tmp_path, ReadOptions())
    check(source)
    assert source.split("own").train.tolist() == [0]


def test_words_become_splits(tmp_path: Path) -> None:
    task = load_task(write(tmp_path))
    assert list(task.source.splits) == ["own", "column:fold"]
    assert task.split.name == "own"
    assert [part.tolist() for part in (task.split.train, task.split.val, task.split.test)] == [
        [0],
        [1],
        [3],
    ]
    assert load_task(tmp_path, split="column:fold").split.test.tolist() == [0]


def test_edges_keep_their_direction_on_request(tmp_path: Path) -> None:
    source = read(write(tmp_path), ReadOptions(undirected=False))
    assert pairs(source) == {(0, 1), (1, 2), (1, 0)}


def test_without_ids_rows_are_numbered(tmp_path: Path) -> None:
    write(tmp_path, "label,a\nx,1\ny,2\nz,3\n", "source,target\n0,2\n")
    source = read(tmp_path, ReadOptions())
    assert source.node_ids == ("0", "1", "2")
    assert pairs(source) == {(0, 2), (2, 0)}


def test_whole_number_ids_of_parquet_match(tmp_path: Path) -> None:
    nodes = pa.table({"id": [5, 7, 9], "label": [0, 1, None], "a": [1, 2, 3]})
    parquet.write_table(nodes, tmp_path / "nodes.parquet")
    parquet.write_table(
        pa.table({"source": pa.array([5], pa.int32()), "target": pa.array([9], pa.int16())}),
        tmp_path / "edges.parquet",
    )
    source = read(tmp_path, ReadOptions())
    assert source.graphs[0].y.tolist() == [0, 1, -1]
    assert pairs(source) == {(0, 2), (2, 0)}


@pytest.mark.parametrize(
    ("labels", "names", "y"),
    [
        (["10", "9", "-1", ""], ("9", "10"), [1, 0, -1, -1]),
        (["1.0", "0.0", "", "2.0"], ("0", "1", "2"), [1, 0, -1, 2]),
        (["b", "10", "a", "9"], ("10", "9", "a", "b"), [3, 0, 2, 1]),
        (["true", "false", "true", ""], ("false", "true"), [1, 0, 1, -1]),
    ],
    ids=["numbers", "numbers-as-pandas-writes-them", "names", "yes-or-no"],
)
def test_labels_become_classes(
    tmp_path: Path, labels: list[str], names: tuple[str, ...], y: list[int]
) -> None:
    rows = "".join(f"{label},1\n" for label in labels)
    source = read(write(tmp_path, f"label,a\n{rows}", "source,target\n0,1\n"), ReadOptions())
    assert source.class_names == names
    assert source.graphs[0].y.tolist() == y
    assert source.kind == ("binary" if len(names) == 2 else "single-label")


def test_missing_numbers_of_parquet_are_unknown_labels(tmp_path: Path) -> None:
    nodes = pa.table({"label": [0.0, 1.0, float("nan")], "a": [1, 2, 3]})
    parquet.write_table(nodes, tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n")
    assert read(tmp_path, ReadOptions()).graphs[0].y.tolist() == [0, 1, -1]


def test_columns_of_labels_make_a_multi_label_task(tmp_path: Path) -> None:
    write(tmp_path, "label:red,label:big,a\n1,0,5\n0,0,6\n1,1,7\n", "source,target\n0,1\n")
    source = read(tmp_path, ReadOptions())
    assert source.kind == "multi-label"
    assert source.class_names == ("red", "big")
    assert source.graphs[0].y.tolist() == [[1, 0], [0, 0], [1, 1]]


def test_a_single_column_of_labels_is_a_yes_or_no_question(tmp_path: Path) -> None:
    write(tmp_path, "label:red,a\n1,5\n0,6\n", "source,target\n0,1\n")
    source = read(tmp_path, ReadOptions())
    assert (source.kind, source.class_names) == ("binary", ("not red", "red"))


def test_a_graph_may_have_no_edges(tmp_path: Path) -> None:
    assert pairs(read(write(tmp_path, edges="source,target\n"), ReadOptions())) == set()


def test_a_column_may_turn_from_whole_to_real_numbers_late(tmp_path: Path) -> None:
    rows = "".join(f"{row % 3},{'1' * 30 if row % 2 else '7'}\n" for row in range(60_000))
    write(tmp_path, f"label,a\n{rows}0,0.5\n", "source,target\n0,1\n")
    x = read(tmp_path, ReadOptions()).graphs[0].x
    assert isinstance(x, torch.Tensor)
    assert float(x[-1]) == 0.5


WRONG_NODES = {
    "empty": ("", "nodes.csv' is empty; it needs a header such as id,label,...."),
    "no_rows": ("id,label,a\n", "have no rows"),
    "blank": ("\n \n", "nodes.csv' is empty; it needs a header"),
    "ragged": (
        "id,label,a\n1,x,2\n2,y\n",
        "nodes.csv' cannot be read (row 3, the header counted, has 2 cell(s), but the header has "
        "3); correct the row.",
    ),
    "long_row": ("id,label,a\n1,x,2,9\n", "(row 2, the header counted, has 4 cell(s), but the"),
    "no_label": (
        "id,a,b\n1,2,3\n",
        "no column 'label'; they have id, a, b, and need label; "
        "rename the column of classes to label.",
    ),
    "semicolons": (
        "id;label;a\n1;x;2,5\n",
        "nodes.csv' seems to be separated by ';'; save it with commas.",
    ),
    "tabs": ("id\tlabel\ta\n1\tx\t2\n", "nodes.csv' seems to be separated by tabs; save it"),
    "both_labels": ("id,label,label:a,b\n1,x,1,2\n", "have both 'label' and 'label:a'"),
    "duplicate_id": ("id,label,a\n1,x,2\n1,y,2\n", "The id '1' stands 2 times"),
    "empty_id": ("id,label,a\n1,x,2\n,y,2\n", "has no id"),
    "text_feature": ("label,name\nx,bob\ny,eve\n", "The column 'name' of the nodes"),
    "date_feature": (
        "label,day\nx,2020-01-01\ny,2020-01-02\n",
        "holds dates, but features are numbers; drop it or encode it as a number",
    ),
    "time_feature": ("label,a\nx,12:30:00\ny,12:31:00\n", "holds times, but features are"),
    "text_cell": (
        "id,label,a\np,x,1\nq,y,two\nr,y,3\n",
        "should hold numbers, but has 'two' at the node 'q'; correct the cell.",
    ),
    "text_cell_of_a_row": ("label,a\nx,\ny,2\nx,?\nx,1\n", "has '?' at the node '2'; correct"),
    "decimal_commas": (
        'id,label,a\np,x,1\nq,y,"12,5"\nr,y,"3,5"\n',
        "has '12,5' at the node 'q'; write decimals with a point, 12.5 and not 12,5.",
    ),
    "mostly_text": ("label,a\nx,red\ny,2\nx,blue\n", "or encode it as numbers, one column per"),
    "spaced_labels": (
        "id,label,a\np,dog,1\nq,dog ,2\nr,cat,3\n",
        "The labels 'dog' and 'dog ' of the nodes",
    ),
    "no_feature": ("id,label\n1,x\n2,y\n", "no column of numbers to learn from"),
    "gap": ("label,a\nx,1\ny,\n", "The column 'a' of the nodes"),
    "all_gaps": ("label,a\nx,\ny,\n", "has 2 empty or NaN value(s)"),
    "nan": ("label,a\nx,nan\ny,1\n", "has 1 empty or NaN value(s)"),
    "infinite": (
        "id,label,a\np,x,1\nq,y,inf\n",
        "has 1 infinite or too large value(s), the first at the node 'q'; correct them.",
    ),
    "too_large": ("label,a\nx,1e99\ny,1\n", "the first at the node '0'; correct them."),
    "gap_of_a_node": ("id,label,a\np,x,1\nq,y,\n", "NaN value(s), the first at the node 'q'; fill"),
    "label_cell": ("label:a,b\n1,1\n0,1\noops,2\n", "but has 'oops' at the node '2'"),
    "one_class": ("label,a\nx,1\nx,2\n", "have only the class 'x'"),
    "no_class": ("label,a\n,1\n,2\n", "have no labels"),
    "real_label": ("label,a\n0.5,1\n1,2\n", "is 0.5; pdnas classifies nodes"),
    "negative_label": ("label,a\n-5,1\n1,2\n", "is -5; number the classes from 0"),
    "split_word": ("label,split,a\nx,trian,1\ny,val,2\n", "'split' of the nodes"),
    "mask": ("label,train_mask,a\nx,1,1\ny,0,2\n", "which would pass for a feature"),
    "unnamed": (",label,a\n0,x,1\n1,y,2\n", "without a name or with the same one"),
    "repeated": ("label,a,a\nx,1,1\ny,1,2\n", "without a name or with the same one"),
    "label_two": ("label:a,label:b,c\n2,1,1\n0,1,1\n", "is 2; make every label 0 or 1"),
    "label_text": ("label:a,b\nx,1\ny,1\n", "The column 'label:a'"),
    "label_gap": ("label:a,b\n1,1\n,1\n", "The column 'label:a'"),
}


@pytest.mark.parametrize(("nodes", "message"), WRONG_NODES.values(), ids=WRONG_NODES)
def test_wrong_nodes_are_refused(tmp_path: Path, nodes: str, message: str) -> None:
    with pytest.raises(TaskError, match=re.escape(message)) as info:
        read(write(tmp_path, nodes, "source,target\n"), ReadOptions())
    assert "\n" not in str(info.value)


WRONG_EDGES = {
    "empty": ("", "edges.csv' is empty; it needs a header such as source,target."),
    "columns": (
        "from,to\n007,b\n",
        "have no column 'source'; they have from, to, and need source, target; rename the columns "
        "of an edge's two ends to source and target.",
    ),
    "spaces": (
        "source,target\n007, b\n",
        "has the end ' b', which is the id 'b' but for spaces around it; remove the spaces.",
    ),
    "tabs": ("source\ttarget\n007\tb\n", "edges.csv' seems to be separated by tabs"),
    "ragged": ("source,target\n007,b\nb\n", "edges.csv' cannot be read ("),
    "outside": ("source,target\n007,zoe\n", "points outside the graph: no node has the id 'zoe'"),
    "number": ("source,target\n7,b\n", "no node has the id '7'"),
    "gap": ("source,target\n007,\n", "no node has the id ''"),
}


@pytest.mark.parametrize(("edges", "message"), WRONG_EDGES.values(), ids=WRONG_EDGES)
def test_wrong_edges_are_refused(tmp_path: Path, edges: str, message: str) -> None:
    with pytest.raises(TaskError, match=re.escape(message)) as info:
        read(write(tmp_path, edges=edges), ReadOptions())
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("content", [b"", b"junk", b"PAR1junkPAR1"])
def test_damaged_parquet_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    write(tmp_path)
    (tmp_path / "nodes.csv").unlink()
    (tmp_path / "nodes.parquet").write_bytes(content)
    with pytest.raises(TaskError, match=r"nodes.parquet' cannot be read \(") as info:
        load_task(tmp_path)
    assert "\n" not in str(info.value)


def test_text_that_is_not_utf8_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "nodes.csv").write_bytes(NODES.encode() + b"\xff\xfe,dog,train,test,1,true\n")
    with pytest.raises(TaskError, match=r"nodes.csv' cannot be read \("):
        load_task(tmp_path)


def test_only_text_that_is_not_utf8_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"\(row 3, .*\); correct the row\.$"):
        read(write(tmp_path, "id,label,a\nä,x,2\n2,y\n"), ReadOptions())
    (tmp_path / "nodes.csv").unlink()
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1junkPAR1")
    with pytest.raises(TaskError, match=r"\); correct the file\.$"):
        read(tmp_path, ReadOptions())


@pytest.mark.parametrize("missing", ["nodes", "edges"])
def test_a_missing_table_is_named(tmp_path: Path, missing: str) -> None:
    (write(tmp_path) / f"{missing}.csv").unlink()
    with pytest.raises(TaskError, match=f"has neither {missing}.csv nor {missing}.parquet"):
        read(tmp_path, ReadOptions())


def test_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    (write(tmp_path) / "nodes.parquet").touch()
    with pytest.raises(
        TaskError, match=r"has both nodes.csv and nodes.parquet; a folder .* exactly one"
    ):
        read(tmp_path, ReadOptions())


def test_ids_of_other_types_are_refused(tmp_path: Path) -> None:
    nodes = pa.table({"id": [0.5, 1.5], "label": ["x", "y"], "a": [1, 2]})
    parquet.write_table(nodes, write(tmp_path) / "nodes.parquet")
    (tmp_path / "nodes.csv").unlink()
    with pytest.raises(TaskError, match=r"The column 'id' of the nodes of .* is of type double"):
        read(tmp_path, ReadOptions())


def test_lists_are_no_features(tmp_path: Path) -> None:
    nodes = pa.table({"label": ["x", "y"], "a": [[1.0, 2.0], [3.0, 4.0]]})
    parquet.write_table(nodes, write(tmp_path) / "nodes.parquet")
    (tmp_path / "nodes.csv").unlink()
    with pytest.raises(TaskError, match=r"The column 'a' of the nodes of .* is of type list"):
        read(tmp_path, ReadOptions())


def test_features_are_single_precision(tmp_path: Path) -> None:
    x = read(write(tmp_path), ReadOptions()).graphs[0].x
    assert isinstance(x, torch.Tensor)
    assert x.numpy().dtype == np.float32


ODD = st.sampled_from(
    ["", "\0", "nan", "1e999", "-1", "9" * 400, '"', ",", "\n", "\r\n", "é", "\ufeff", "train", "_"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["nodes.csv", "edges.csv"]),
    place=st.integers(0, 120),
    found=st.one_of(ODD.map(str.encode), st.binary(max_size=8)),
    left_out=st.integers(0, 9),
)
def test_whatever_a_table_says_is_read_or_refused(
    tmp_path: Path, name: str, place: int, found: bytes, left_out: int
) -> None:
    path = write(tmp_path) / name
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + found + whole[place + left_out :])
    for known in (None, Known("binary", ("cat", "dog"), 2)):
        with contextlib.suppress(TaskError):
            read(tmp_path, ReadOptions(known=known))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["id", "label", "split", "age", "label:a"]),
    values=st.sampled_from(
        [
            pa.array([2**63 - 1, -(2**63), 0, 1]),
            pa.array([float("nan"), None, 1e308, -0.0]),
            pa.array([b"\xff", b"", None, b"a"]),
            pa.array([[1], [], None, [2]]),
            pa.array([None] * 4),
            pa.array([True, False, None, True]),
            pa.array([10**30, 0, 1, 2], pa.decimal128(38, 0)),
            pa.array([1, 2, 3, None], pa.timestamp("ns")),
            pa.array(["a", "a", "", None]).dictionary_encode(),
            pa.array(["train", "val", "test", "\0"]),
        ]
    ),
)
def test_whatever_type_a_column_has_is_read_or_refused(
    tmp_path: Path, name: str, values: pa.Array
) -> None:
    write(tmp_path)
    table = csv.read_csv(tmp_path / "nodes.csv")
    (tmp_path / "nodes.csv").unlink()
    if name in table.column_names:
        table = table.drop_columns([name])
    parquet.write_table(table.append_column(name, values), tmp_path / "nodes.parquet")
    for known in (None, Known("binary", ("cat", "dog"), 2)):
        with contextlib.suppress(TaskError):
            read(tmp_path, ReadOptions(known=known))


def test_whole_numbers_beyond_a_float_are_features(tmp_path: Path) -> None:
    source = read(
        write(tmp_path, NODES.replace("1.5", "1").replace("2,", f"{2**60},")), ReadOptions()
    )
    x = source.graphs[0].x
    assert isinstance(x, torch.Tensor)
    assert x[1, 0] == 2.0**60


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    write(tmp_path)
    (tmp_path / "nodes.csv").write_bytes(NODES.replace("age", "älter").encode(encoding))
    with pytest.raises(TaskError, match=r"nodes\.csv' cannot be read .*save text as UTF-8"):
        read(tmp_path, ReadOptions())


def test_labels_that_are_times_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "nodes.csv").unlink()
    times = pa.array([1, 2, 3, None], pa.timestamp("ns"))
    table = pa.table({"id": ["007", "b", "c", "d"], "label": times, "age": [1, 2, 3, 4]})
    parquet.write_table(table, tmp_path / "nodes.parquet")
    with pytest.raises(TaskError, match=r"'label' .* is of type timestamp\[ns\]; give names or"):
        read(tmp_path, ReadOptions())


def test_a_mark_of_utf_8_is_no_part_of_a_name(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "nodes.csv").write_bytes(NODES.encode("utf-8-sig"))
    check(read(tmp_path, ReadOptions()))


def test_a_table_of_very_many_columns_is_read(tmp_path: Path) -> None:
    count = 20_000
    names = ",".join(f"f{number}" for number in range(count))
    rows = [f"{node},{label},{','.join('1' * count)}" for node, label in enumerate("abab")]
    source = read(
        write(tmp_path, "\n".join([f"id,label,{names}", *rows]), "source,target\n0,1\n"),
        ReadOptions(),
    )
    assert source.graphs[0].x.shape == (4, count)


def test_a_parquet_file_that_announces_terabytes_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "nodes.csv").unlink()
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1" + b"\xff" * 64 + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(TaskError, match="cannot be read"):
        load_task(tmp_path)
