"""A graph as two tables, ``nodes`` and ``edges``, in CSV or Parquet."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from pyarrow import csv, parquet
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from pdnas.errors import TaskError, shown
from pdnas.tasks.labels import UNLABELLED, Known
from pdnas.tasks.source import FORMATS, ReadOptions, Source, source_from_data
from pdnas.tasks.splits import PARTS

PART_OF = {part: part for part in PARTS} | dict.fromkeys(("valid", "validation", "dev"), "val")
"""The words of a split column; an empty cell is in no part."""

MULTI_LABEL = "label:"
MASKS = tuple(f"{part}_mask" for part in PARTS)

DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")
EMPTY = frozenset(csv.ConvertOptions().null_values)
"""What counts as an empty cell in a column of numbers."""

HEADERS = {"nodes": "id,label,...", "edges": "source,target"}
RENAMES = {
    "label": "rename the column of classes to label",
    "source": "rename the columns of an edge's two ends to source and target",
    "target": "rename the columns of an edge's two ends to source and target",
}
"""What to do where a column that is needed is not there."""


@FORMATS.register("folder")
def read(folder: Path, options: ReadOptions) -> Source:
    """Tables: nodes.csv or nodes.parquet, edges.csv or edges.parquet.

    Nodes: ``id`` (the row's number where there is none); ``label``, a name or a whole number and
    empty where unknown, or for many labels per node a column ``label:NAME`` of zeros and ones for
    each (a single one is a yes-or-no question); ``split`` with ``train``, ``val`` and ``test``,
    which becomes the split ``own``; further columns of such words, which become ``column:NAME``;
    every other column is a feature and must hold numbers. Edges: ``source`` and ``target``, which
    are ids of nodes; other columns are ignored. Every edge also gets its reverse unless the options
    object.
    """
    nodes, edges = _read_table(folder, "nodes"), _read_table(folder, "edges")
    if nodes.num_rows == 0:
        raise TaskError(f"The nodes of '{folder}' have no rows; write one row per node.")
    ids = _ids(nodes, folder)
    known = options.known
    y, class_names = _labels(nodes, folder, known)
    splits: dict[str, tuple[Tensor, Tensor, Tensor]] = {}
    if known is not None and known.feature_names:
        features = _known_features(nodes, folder, known)
    else:
        splits, features = _splits_and_features(nodes, folder, known)
    data = Data(
        x=_feature_matrix(nodes, features, folder), edge_index=_edges(edges, ids, folder), y=y
    )
    source = source_from_data(
        data,
        str(folder),
        class_names=class_names,
        normalize=bool(options.normalize),
        undirected=options.undirected is not False,
        known=known,
    )
    unread = () if known is None else (name for name in nodes.column_names if _may_be_read(name))
    return replace(
        source,
        splits=splits,
        node_ids=tuple(ids.to_pylist()),
        feature_names=tuple(features),
        ignored=tuple(name for name in unread if name not in features and name not in splits),
    )


def _read_table(folder: Path, name: str) -> pa.Table:
    """The one file of that name, with names of nodes, classes and parts as text."""
    readers: dict[str, Callable[[Path], pa.Table]] = {
        ".csv": _read_csv,
        ".parquet": parquet.read_table,
    }
    paths = [path for ending in readers if (path := folder / f"{name}{ending}").exists()]
    if len(paths) != 1:
        found = "has both" if paths else "has neither"
        raise TaskError(
            f"The folder '{folder}' {found} {name}.csv {'and' if paths else 'nor'} "
            f"{name}.parquet; a folder of tables holds exactly one of them."
        )
    path = paths[0]
    if path.suffix == ".csv":
        _check_csv(path, HEADERS[name])
    try:
        table = readers[path.suffix](path)
        table.validate(full=True)  # a file may call text what is none
        names = table.column_names
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise TaskError(f"'{path}' cannot be read {_why(path, error)}") from error
    if "" in names or len(set(names)) < len(names):
        raise TaskError(
            f"'{path}' has columns without a name or with the same one; give each its own (from "
            "pandas, write with index=False)."
        )
    return table


def _check_csv(path: Path, header: str) -> None:
    """Refuse a file without a header, or with another sign than the comma between its cells."""
    with path.open("rb") as file:
        first = file.readline(1 << 20)
        is_empty = not first.strip() and not file.read().strip()
    if is_empty:
        raise TaskError(f"'{path}' is empty; it needs a header such as {header}.")
    for sign, called in ((b";", "';'"), (b"\t", "tabs")):
        if first.count(sign) > first.count(b","):
            raise TaskError(f"'{path}' seems to be separated by {called}; save it with commas.")


def _why(path: Path, error: Exception) -> str:
    """Why a table cannot be read, and what to do, as the end of a sentence."""
    reason = str(error)
    if path.suffix == ".csv":
        try:
            path.read_bytes().decode()
            one_by_one = csv.ReadOptions(use_threads=False)  # tells the number of the row
            csv.read_csv(path, read_options=one_by_one, convert_options=_conversion())
        except pa.ArrowException as again:
            reason = str(again)
        except UnicodeDecodeError as again:
            error = again
    found = re.search(r"(Row #(\d+): )?Expected (\d+) columns, got (\d+)", reason)
    if isinstance(error, UnicodeDecodeError) or "UTF8" in reason:
        advice = "correct the file, and save text as UTF-8."
    elif found:
        row = f"row {found[2]}, the header counted," if found[2] else "a row"
        return f"({row} has {found[4]} cell(s), but the header has {found[3]}); correct the row."
    else:
        advice = "correct the file."
    return f"({shown(reason.partition(chr(10))[0].rstrip('.'), 200)}); {advice}"


def _conversion() -> csv.ConvertOptions:
    # Ids are text even where they look like numbers: '007' is not '7'.
    text = dict.fromkeys(("id", "label", "split", "source", "target"), pa.string())
    return csv.ConvertOptions(column_types=text)


def _read_csv(path: Path) -> pa.Table:
    return csv.read_csv(path, convert_options=_conversion())


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _text(table: pa.Table, name: str, place: str) -> pa.Array:
    """A column of texts or whole numbers as text."""
    column = table.column(name).combine_chunks()
    if not (_is_text(column.type) or pa.types.is_integer(column.type)):
        raise TaskError(
            f"The column '{shown(name)}' of the {place} is of type {shown(column.type)}; "
            "give text or whole numbers."
        )
    return column.cast(pa.string())


def _require(table: pa.Table, place: str, *names: str) -> None:
    for name in names:
        if name not in table.column_names:
            raise TaskError(
                f"The {place} have no column '{shown(name)}'; they have "
                f"{_listed(table.column_names)}, and need {_listed(names)}; {RENAMES[name]}."
            )


def _listed(names: Iterable[str]) -> str:
    """The first few names."""
    every = list(names)
    return ", ".join(map(shown, every[:8])) + (
        f" and {len(every) - 8} more" if len(every) > 8 else ""
    )


def _ids(nodes: pa.Table, folder: Path) -> pa.Array:
    if "id" not in nodes.column_names:
        return pa.array([str(row) for row in range(nodes.num_rows)])
    place = f"nodes of '{folder}'"
    ids = _text(nodes, "id", place)
    if ids.null_count or pc.any(pc.equal(ids, "")).as_py():
        raise TaskError(f"A row of the {place} has no id; give each its own.")
    counts = ids.value_counts()
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise TaskError(
            f"The id '{shown(repeated[0]['values'])}' stands {repeated[0]['counts']} times "
            f"among the {place}; give each node one row and its own id."
        )
    return ids


def _edges(edges: pa.Table, ids: pa.Array, folder: Path) -> Tensor:
    place = f"edges of '{folder}'"
    _require(edges, place, "source", "target")
    ends = []
    for name in ("source", "target"):
        column = _text(edges, name, place) if edges.num_rows else pa.array([], pa.string())
        index = pc.index_in(column, value_set=ids)
        if index.null_count:
            lost = column.filter(pc.is_null(index))[0].as_py()
            trimmed = pc.equal(pc.utf8_trim_whitespace(ids), (lost or "").strip())
            if lost and len(near := ids.filter(trimmed)):
                raise TaskError(
                    f"Among the {place} an edge has the end '{shown(lost)}', which is the id "
                    f"'{shown(near[0])}' but for spaces around it; remove the spaces."
                )
            raise TaskError(
                f"Among the {place} an edge points outside the graph: no node has the id "
                f"'{shown(lost or '')}'; add the node or remove the edge."
            )
        ends.append(torch.from_numpy(index.to_numpy(zero_copy_only=False).astype(np.int64)))
    merged: Tensor = coalesce(torch.stack(ends), num_nodes=len(ids))
    return merged


def _labels(
    nodes: pa.Table, folder: Path, known: Known | None
) -> tuple[Tensor | None, tuple[str, ...] | None]:
    """Labels and their names; a trained network needs none."""
    several = [name for name in nodes.column_names if name.startswith(MULTI_LABEL)]
    if several and "label" in nodes.column_names:
        raise TaskError(
            f"The nodes of '{folder}' have both 'label' and '{shown(several[0])}'; keep "
            "'label' for one class per node or 'label:NAME' for many labels."
        )
    if several:
        names = tuple(name.removeprefix(MULTI_LABEL) for name in several)
        names = names if len(names) > 1 else (f"not {names[0]}", names[0])
        return _feature_matrix(nodes, several, folder), names
    if known is not None and "label" not in nodes.column_names:
        return None, None
    _require(nodes, f"nodes of '{folder}'", "label")
    y, class_names = _classes(nodes, folder)
    if known is not None:
        return (y, class_names) if class_names else (None, None)
    if len(class_names) < 2:
        found = f"only the class '{shown(class_names[0])}'" if class_names else "no labels"
        raise TaskError(
            f"The nodes of '{folder}' have {found}; a task needs nodes of at least two classes."
        )
    return y, class_names


def _classes(nodes: pa.Table, folder: Path) -> tuple[Tensor, tuple[str, ...]]:
    """One class per node: names in the order of the alphabet, or numbers in their own order."""
    column = nodes.column("label").combine_chunks()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or _is_number(kind) or pa.types.is_null(kind)):
        raise TaskError(
            f"The column 'label' of the nodes of '{folder}' is of type {shown(kind)}; give names "
            "or whole numbers."
        )
    if _is_number(column.type):
        column = column.cast(pa.float64() if pa.types.is_decimal(column.type) else column.type)
    unknown = (None, "")
    entries = [
        "" if entry in unknown or entry != entry else str(entry)  # NaN differs from itself
        for entry in column.to_pylist()
    ]
    numbers = _whole_numbers({entry for entry in entries if entry}, folder)
    if numbers is None:
        _check_spaces(set(entries), folder)
    if numbers is not None:
        entries = [str(numbers[entry]) if entry else "" for entry in entries]
        entries = ["" if entry == str(UNLABELLED) else entry for entry in entries]
    names = sorted(set(entries) - {""}, key=int if numbers is not None else str)
    if names and numbers is not None and int(names[0]) < UNLABELLED:
        raise TaskError(
            f"A label of the nodes of '{folder}' is {shown(names[0])}; number the classes "
            f"from 0, and leave the cell empty or write {UNLABELLED} where the class is unknown."
        )
    number = {name: index for index, name in enumerate(names)} | {"": UNLABELLED}
    return torch.tensor([number[entry] for entry in entries]), tuple(names)


def _check_spaces(names: set[str], folder: Path) -> None:
    """Refuse labels that are the same but for spaces around them."""
    trimmed: dict[str, str] = {}
    for name in sorted(names):
        other = trimmed.setdefault(name.strip(), name)
        if other != name and other:
            raise TaskError(
                f"The labels '{shown(other)}' and '{shown(name)}' of the nodes of '{folder}' "
                "differ only by spaces around them; write both in the same way."
            )


def _whole_numbers(entries: set[str], folder: Path) -> dict[str, int] | None:
    """The labels as whole numbers, or nothing if some are names."""
    try:
        values = {entry: float(entry) for entry in entries}
    except ValueError:
        return None
    broken = next((entry for entry, value in values.items() if not value.is_integer()), None)
    if broken is not None:
        raise TaskError(
            f"A label of the nodes of '{folder}' is {shown(broken)}; pdnas classifies "
            "nodes, so give names or whole numbers."
        )
    return {entry: int(value) for entry, value in values.items()}


def _may_be_read(name: str) -> bool:
    """Whether a column could be a feature, by its name."""
    return name not in ("id", "label", "split") and not name.startswith(MULTI_LABEL)


def _known_features(nodes: pa.Table, folder: Path, known: Known) -> list[str]:
    """The columns that a network was trained on, in its order."""
    missing = [f"'{name}'" for name in known.feature_names if name not in nodes.column_names]
    if missing:
        raise TaskError(
            f"The nodes of '{folder}' lack {len(missing)} of the {known.in_channels} columns that "
            f"the network was trained on: {_listed(missing)}; add them."
        )
    return list(known.feature_names)


def _splits_and_features(
    nodes: pa.Table, folder: Path, known: Known | None
) -> tuple[dict[str, tuple[Tensor, Tensor, Tensor]], list[str]]:
    """The splits that columns describe, and the names of the columns with features."""
    splits: dict[str, tuple[Tensor, Tensor, Tensor]] = {}
    features: list[str] = []
    if "split" in nodes.column_names:
        splits["own"] = _split(nodes, "split", folder)
    for name in nodes.column_names:
        if not _may_be_read(name):
            continue
        if name in MASKS:
            raise TaskError(
                f"The nodes of '{folder}' have a column '{shown(name)}', which would pass "
                "for a feature; write one column 'split' with train, val and test instead."
            )
        kind = nodes.schema.field(name).type
        if _is_number(kind) or pa.types.is_null(kind):
            features.append(name)
        elif _is_text(kind) and _words(nodes, name) <= PART_OF.keys():
            splits[f"column:{name}"] = _split(nodes, name, folder)
        else:
            _check_cells(nodes, name, folder)
            raise TaskError(
                f"The column '{shown(name)}' of the nodes of '{folder}' is of type "
                f"{shown(kind)}, but features are numbers; drop it or encode it as numbers, one "
                "column per category"
                + ("." if "id" in nodes.column_names else ", or call it id if it names the nodes.")
            )
    if not features and known is None:
        raise TaskError(
            f"The nodes of '{folder}' have no column of numbers to learn from; add one per feature."
        )
    return splits, features


def _check_cells(nodes: pa.Table, name: str, folder: Path) -> None:
    """Refuse dates, and name the first cell that is no number where most of a column are."""
    kind = nodes.schema.field(name).type
    place = f"The column '{shown(name)}' of the nodes of '{folder}'"
    if pa.types.is_temporal(kind):
        what = "dates" if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else "times"
        raise TaskError(
            f"{place} holds {what}, but features are numbers; drop it or encode it as a number, "
            "such as days since the first."
        )
    if not _is_text(kind):
        return
    cells = [
        (row, cell)
        for row, cell in enumerate(nodes.column(name).to_pylist())
        if cell is not None and cell.strip() not in EMPTY
    ]
    odd = [(row, cell) for row, cell in cells if not _is_spelled_number(cell)]
    commas = [cell for _, cell in odd if DECIMAL_COMMA.fullmatch(cell)]
    if not odd or 2 * (len(cells) - len(odd) + len(commas)) <= len(cells):
        return
    row, cell = odd[0]
    is_comma = DECIMAL_COMMA.fullmatch(cell)
    advice = "write decimals with a point, 12.5 and not 12,5" if is_comma else "correct the cell"
    raise TaskError(
        f"{place} should hold numbers, but has '{shown(cell)}' at the node "
        f"'{_node(nodes, row)}'; {advice}."
    )


def _is_spelled_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _node(nodes: pa.Table, row: int) -> str:
    """What a node is called: its id, or else the number of its row."""
    return shown(nodes.column("id")[row] if "id" in nodes.column_names else row)


def _cleaned(nodes: pa.Table, name: str) -> pa.Array:
    column = nodes.column(name).combine_chunks().cast(pa.string())
    return pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(column, "")))


def _words(nodes: pa.Table, name: str) -> set[str]:
    return set(_cleaned(nodes, name).unique().to_pylist()) - {""}


def _split(nodes: pa.Table, name: str, folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """The masks that a column of words describes."""
    kind = nodes.schema.field(name).type
    if not (_is_text(kind) or _is_number(kind) or pa.types.is_null(kind)):
        raise TaskError(
            f"The column '{shown(name)}' of the nodes of '{folder}' is of type {shown(kind)}; "
            "write train, val or test, or leave the cell empty."
        )
    strange = sorted(_words(nodes, name) - PART_OF.keys())
    if strange:
        raise TaskError(
            f"The column '{shown(name)}' of the nodes of '{folder}' holds "
            f"'{shown(strange[0])}'; write train, val or test, or leave the cell empty."
        )
    parts = [PART_OF.get(word) for word in _cleaned(nodes, name).to_pylist()]
    train, val, test = (torch.tensor([part == wanted for part in parts]) for wanted in PARTS)
    return train, val, test


def _feature_matrix(nodes: pa.Table, names: list[str], folder: Path) -> Tensor:
    """Columns of numbers side by side, ``[N, F]``."""
    matrix = np.empty((nodes.num_rows, len(names)), dtype=np.float32)
    for index, name in enumerate(names):
        column = nodes.column(name)
        if not (_is_number(column.type) or pa.types.is_null(column.type)):
            _check_cells(nodes, name, folder)
            raise TaskError(
                f"The column '{shown(name)}' of the nodes of '{folder}' is of type "
                f"{shown(column.type)}; give numbers."
            )
        with np.errstate(over="ignore"):  # becomes infinite, which is refused
            matrix[:, index] = column.cast(pa.float64(), safe=False).to_numpy()
        for wrong, what, advice in (
            (np.isnan(matrix[:, index]), "empty or NaN", "fill them or drop the column"),
            (np.isinf(matrix[:, index]), "infinite or too large", "correct them"),
        ):
            if wrong.any():
                raise TaskError(
                    f"The column '{shown(name)}' of the nodes of '{folder}' has {wrong.sum()} "
                    f"{what} value(s), the first at the node "
                    f"'{_node(nodes, int(wrong.argmax()))}'; {advice}."
                )
    return torch.from_numpy(matrix)
