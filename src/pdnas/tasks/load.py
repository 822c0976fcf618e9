"""From what the user writes to a task."""

import difflib
import os
from pathlib import Path
from typing import TypeAlias

from torch_geometric.data import Data

from pdnas.errors import TaskError, shown
from pdnas.files import check_path
from pdnas.registry import unknown
from pdnas.tasks.source import FORMATS, NAMED, SCHEMES, ReadOptions, Source
from pdnas.tasks.standard import standardized, standardized_for
from pdnas.tasks.task import GraphTask

DATA_ROOT = "PDNAS_DATA"
"""Environment variable that names the folder with data sets."""

AnyTask: TypeAlias = GraphTask | Data | str | Path
"""Whatever :func:`find_task` makes a task of."""

NO_PATH = "a path (there is no file or folder of this name)"
"""What else a task may be, where the name that was given is none."""

TABLES = (".csv", ".parquet")
"""Files that are a part of a task and not one."""


def load_task(
    name: str | Path = "citeseer",
    *,
    split: str | None = None,
    split_seed: int | None = None,
    metric: str | None = None,
    data_root: str | Path | None = None,
    normalize: bool | None = None,
    undirected: bool | None = None,
    standardize: bool | None = None,
) -> GraphTask:
    """Load a task by name, such as ``citeseer`` or ``pyg:Amazon/Photo``, or from the user's files.

    Examples:
        >>> task = pdnas.load_task("citeseer", split="random", split_seed=3)
        >>> task.graphs[0].num_nodes
        3327

    Args:
        name: A known task, ``pyg:Class/name``, or a path to a ``.pt``, an ``.npz`` or a folder.
        split: ``random``, or a split that the data bring; by default the first of these.
        split_seed: Which of the splits of that name.
        metric: By default ``accuracy``, or ``micro-f1`` for many labels per node.
        data_root: Where to look for data sets before downloading; by default ``PDNAS_DATA``.
        normalize: Scale each node's features to sum to one; by default for citation graphs only.
        undirected: Add the reverse of every edge; by default for tables only.
        standardize: Scale every feature to mean 0 and standard deviation 1; by default for tables
            of dense features only.
    """
    options = ReadOptions(find_data_root(data_root), normalize, undirected, standardize)
    source = read_source(str(name), options)
    return GraphTask.from_source(source, split=split, split_seed=split_seed, metric=metric)


def find_data_root(given: str | Path | None) -> Path | None:
    """The folder with data sets: what is given, or else what the environment names."""
    root = given or os.environ.get(DATA_ROOT)
    if not root:
        return None
    check_path(root, TaskError)
    return Path(root)


def find_task(given: AnyTask) -> GraphTask:
    """A task as it is, from a PyG ``Data``, or by its name or path."""
    if isinstance(given, GraphTask):
        return given
    if isinstance(given, Data):
        return GraphTask.from_data(given)
    if isinstance(given, str | Path):
        return load_task(given)
    raise TaskError(
        f"A {type(given).__name__} is no task; give a GraphTask, a PyG Data with x, edge_index and "
        "y, or a task's name or path."
    )


def read_source(name: str, options: ReadOptions) -> Source:
    """The graphs and labels behind a name or a path, standardized where that is due."""
    source = _read(name, options)
    if options.known is not None:
        return standardized_for(source, options.known)
    return standardized(source, options.standardize)


def _read(name: str, options: ReadOptions) -> Source:
    """The graphs and labels as they are."""
    if name in NAMED:
        return NAMED[name].read(options)
    scheme, colon, rest = name.partition(":")
    if colon and scheme in SCHEMES:
        return SCHEMES[scheme](rest, options)
    if not name:
        raise TaskError("The task has no name; see pdnas tasks for those that there are.")
    check_path(name, TaskError)
    path = Path(name)
    try:
        form = "folder" if path.is_dir() else path.suffix.lower()
        if path.is_file() and form in TABLES:
            raise TaskError(
                f"'{name}' is a single table; give the folder that holds the tables nodes and "
                f"edges: '{path.parent}'."
            )
        if path.exists():
            return FORMATS[form](path, options)
    except OSError as error:
        reason = error.strerror or error
        raise TaskError(
            f"'{name}' cannot be read ({reason}); check the path and its rights."
        ) from error
    near = _near(path)
    if near is not None:
        raise TaskError(f"There is no task, file or folder '{name}'; did you mean {near}?")
    if form in FORMATS or path.parent != Path():
        raise TaskError(f"There is no file or folder '{name}'; check the path.")
    known = [*NAMED, *(f"{scheme}:..." for scheme in SCHEMES), NO_PATH]
    raise unknown("task", name, known)


def _near(path: Path) -> str | None:
    """What lies beside a path that is not there, and is called nearly so; none: nothing does."""
    beside = {} if path.parent != Path() else dict.fromkeys(NAMED)
    try:
        others = {one.name: one for one in path.parent.iterdir()}
    except OSError:
        others = {}
    kept = {n: p for n, p in others.items() if p.is_dir() or p.suffix.lower() in FORMATS}
    close = difflib.get_close_matches(path.name, [*beside, *kept], n=1)
    if not close or close[0] in beside:
        return None
    found = kept[close[0]]
    place = f"./{found}" if path.parent == Path() else str(found)
    return f"the {'folder' if found.is_dir() else 'file'} '{shown(place)}'"
