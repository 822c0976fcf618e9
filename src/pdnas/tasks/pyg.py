"""Any data set of PyG that poses node classification, as ``pyg:Class/name``."""

import contextlib
import difflib
import inspect
import io
import re
import shutil
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch import Tensor
from torch_geometric import datasets
from torch_geometric.data import Data, Dataset

from pdnas.errors import TaskError, UnknownNameError
from pdnas.registry import Registry, unknown
from pdnas.tasks.cache import cache_root, fingerprint, made_once
from pdnas.tasks.labels import Metric
from pdnas.tasks.source import SCHEMES, ReadOptions, Source, source_from_data, source_from_graphs
from pdnas.tasks.splits import PARTS

BINARY_METRICS: dict[str, Metric] = {"HeterophilousGraphDataset": "roc-auc"}
"""Classes whose authors do not judge their binary data sets by accuracy."""

_SILENCE = threading.Lock()

NOTES: Registry[str, Callable[[Path], str]] = Registry("class with a note")
"""For some classes: what must be said of data, given the folder with their raw files."""


@dataclass(frozen=True)
class PygName:
    """A data set of PyG.

    Args:
        cls: Its class in :mod:`torch_geometric.datasets`.
        name: What the class calls it; none where a class is one data set.
    """

    cls: type[Dataset]
    name: str | None

    @classmethod
    def parse(cls, text: str) -> "PygName":
        """From ``Class/name`` or ``Class``; upper and lower case do not matter in the name."""
        class_name, _, name = text.partition("/")
        if class_name not in datasets.__all__:
            close = difflib.get_close_matches(class_name, datasets.__all__, n=1)
            hint = f", perhaps '{close[0]}'" if close else ""
            raise UnknownNameError(
                f"PyG has no class of data sets '{class_name}'; write pyg:Class/name with a class "
                f"of torch_geometric.datasets{hint}."
            )
        dataset: type[Dataset] = getattr(datasets, class_name)
        return cls(dataset, _known_name(dataset, name))

    def __str__(self) -> str:
        return self.cls.__name__ + (f"/{self.name}" if self.name else "")


@SCHEMES.register("pyg")
def read(text: str, options: ReadOptions) -> Source:
    """Any node-classification data set of PyG, such as pyg:Amazon/Photo.

    Masks become the split ``own``; features stay as they are unless the options say otherwise.
    """
    return read_pyg(text, f"pyg:{text}", options)


def read_pyg(
    text: str,
    task: str,
    options: ReadOptions,
    *,
    split_name: str = "own",
    normalize: bool = False,
) -> Source:
    """Read a data set of PyG from the data root or, where it lies not there, from a download.

    Nothing is written to the data root: raw files are copied to the cache and processed there, and
    copied again when they change.

    Args:
        text: ``Class/name`` or ``Class``.
        task: What the user calls it.
        options: Where to look, and what to do to the graphs.
        split_name: What to call the split that the data bring.
        normalize: Whether to normalize features where the options leave it open.
    """
    named = PygName.parse(text)
    arguments = _arguments(named)
    if "root" not in arguments:
        parts, note = _construct(named.cls, arguments, task, None), ""
    else:
        raw = _find_raw(named, options.data_root)
        folder = cache_root() / "pyg" / f"{_slug(str(named))}-{_key(raw)}"

        def make(draft: Path) -> None:
            _construct(named.cls, {**arguments, "root": str(draft)}, task, _Fetch(task, raw))

        made_once(folder, make)
        here = {**arguments, "root": str(folder)}
        remedy = f"remove '{folder}' to have it made anew"
        parts = _construct(named.cls, here, task, _skip, remedy=remedy)
        note = _note(named, folder)
    normalize = normalize if options.normalize is None else options.normalize
    undirected = bool(options.undirected)
    graphs = [graph for part in parts for graph in part]
    for graph in graphs:
        _check_node_labels(graph, task)
    if len(graphs) == 1:
        source = source_from_data(
            graphs[0], task, split_name=split_name, normalize=normalize, undirected=undirected
        )
    else:
        splits = _graph_splits(parts, split_name)
        source = source_from_graphs(
            graphs, task, splits=splits, normalize=normalize, undirected=undirected
        )
    metric = BINARY_METRICS.get(named.cls.__name__) if source.kind == "binary" else None
    return replace(source, metric=metric, note=note)


def _known_name(cls: type[Dataset], name: str) -> str | None:
    """The name as the class spells it, or an error that lists those the class documents."""
    label, names = cls.__name__, _documented_names(cls)
    parameter = inspect.signature(cls).parameters.get("name")
    if parameter is None:
        if name:
            raise TaskError(f"{label} is a single data set without names; write pyg:{label}.")
        return None
    if not name and parameter.default is not inspect.Parameter.empty:
        return None
    if not name:
        examples = ", ".join(f"pyg:{label}/{one}" for one in names) or f"pyg:{label}/NAME"
        raise TaskError(f"{label} holds several data sets; name one of them: {examples}.")
    if re.fullmatch(r"[\w-][\w. -]*", name) is None:
        raise TaskError(
            f"'{name}' cannot name a data set of {label}; write pyg:{label}/NAME with letters, "
            "digits, '-', '_' and '.' in the name."
        )
    spelled = {_folded(one): one for one in names}
    if names and _folded(name) not in spelled:
        raise unknown(f"data set of {label}", name, names)
    return spelled.get(_folded(name), name)


def _documented_names(cls: type[Dataset]) -> list[str]:
    """The names that the docstring of a class lists for its argument ``name``."""
    text = inspect.getdoc(cls) or ""
    entry = re.search(
        r"^ *name\b[^\n:]*:(.*?)(?=^ *\w+ \(|^ *$|\Z)", text, re.DOTALL | re.MULTILINE
    )
    quoted = re.findall(r'`"([^"`]+)"`', entry.group(1)) if entry else []
    return list(dict.fromkeys(quoted))


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]", "-", text)


def _arguments(named: PygName) -> dict[str, Any]:
    """What the class is constructed with; ``root`` is filled in later."""
    arguments: dict[str, Any] = {}
    for key, parameter in inspect.signature(named.cls).parameters.items():
        if key == "root":
            arguments[key] = None
        elif key == "name" and named.name is not None:
            arguments[key] = named.name
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in (
            inspect.Parameter.VAR_KEYWORD,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            raise TaskError(
                f"{named.cls.__name__} also needs '{key}', which a task's name cannot say; save "
                "its Data with torch.save and give the path of that .pt file."
            )
    return arguments


def _find_raw(named: PygName, data_root: Path | None) -> Path | None:
    """The folder ``raw`` of a data set under the data root, or a zip of what would be in it."""
    if data_root is None:
        return None
    if not data_root.is_dir():
        raise TaskError(
            f"The data root '{data_root}' is not a folder; correct --data-root or PDNAS_DATA."
        )
    base = data_root / named.cls.__name__
    folders = [base]
    if named.name is not None:
        wanted = _folded(named.name)
        inside = sorted(base.iterdir()) if base.is_dir() else []
        folders = [folder for folder in inside if _folded(folder.name) == wanted]
    archive = base / f"{(named.name or named.cls.__name__).lower()}.zip"
    places = [*(folder / "raw" for folder in folders), archive]
    return next((place for place in places if place.exists()), None)


def _key(raw: Path | None) -> str:
    version = torch_geometric.__version__
    if raw is None:
        return fingerprint([], Path(), version)
    files = [raw] if raw.is_file() else [path for path in raw.rglob("*") if path.is_file()]
    return fingerprint(files, raw.parent, version)


@dataclass(frozen=True)
class _Fetch:
    """Brings the raw files of a data set to where its class wants them.

    Args:
        task: What the user calls the data.
        raw: Folder or zip with the files; without one they are downloaded.
    """

    task: str
    raw: Path | None

    def __call__(self, dataset: Dataset) -> None:
        if self.raw is None:
            self._download(dataset)
        else:
            self._copy(self.raw, dataset)

    def _copy(self, raw: Path, dataset: Dataset) -> None:
        try:
            if raw.is_dir():
                shutil.copytree(raw, dataset.raw_dir, copy_function=shutil.copyfile)
            else:
                with zipfile.ZipFile(raw) as archive:
                    archive.extractall(dataset.raw_dir)
        except (OSError, shutil.Error, zipfile.BadZipFile) as error:
            raise TaskError(f"'{raw}' cannot be read ({error}); restore or remove it.") from error
        missing = [Path(path).name for path in dataset.raw_paths if not Path(path).exists()]
        if missing:
            raise TaskError(
                f"'{raw}' lacks {', '.join(missing)}; add what is missing, or remove it to have "
                f"'{self.task}' downloaded."
            )

    def _download(self, dataset: Dataset) -> None:
        try:
            Dataset._download(dataset)
        except Exception as error:  # each class downloads in its own way
            raise TaskError(
                f"'{self.task}' is not under the data root and could not be downloaded "
                f"({_reason(error)}); set PDNAS_DATA or --data-root to a folder that holds it, "
                "or use the embedded task 'citeseer'."
            ) from error


def _skip(dataset: Dataset) -> None:
    """Fetches nothing: a folder of the cache is complete."""


def _construct(
    cls: type[Dataset],
    arguments: dict[str, Any],
    task: str,
    fetch: Callable[[Dataset], None] | None,
    *,
    remedy: str = "check its files, or give your own data as a path",
) -> list[list[Data]]:
    """The graphs of a data set; of its parts for training, validation and test where it has such.

    Args:
        cls: Class of the data set.
        arguments: What to construct it with.
        task: What the user calls it.
        fetch: What to do in place of the class's own download.
        remedy: What the user can do where that fails.
    """
    quiet = cls if fetch is None else type(cls.__name__, (cls,), {"_download": _method(fetch)})
    split = inspect.signature(cls).parameters.get("split")
    parts = PARTS if split is not None and split.default == PARTS[0] else ()
    variants = [{**arguments, "split": part} for part in parts] or [arguments]
    try:
        with _silence():
            return [list(quiet(**variant)) for variant in variants]
    except TaskError:
        raise
    except ImportError as error:
        raise TaskError(
            f"'{task}' is read with a package that is not installed ({error}); install it."
        ) from error
    except Exception as error:  # each class reads in its own way
        raise TaskError(f"PyG cannot read '{task}' ({_reason(error)}); {remedy}.") from error


def _method(fetch: Callable[[Dataset], None]) -> Callable[[Dataset], None]:
    """A plain function, which becomes a method of a class where an object would not."""
    return lambda dataset: fetch(dataset)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Hold back what PyG prints and warns of while it reads; one thread at a time."""
    sink = io.StringIO()
    with (
        _SILENCE,
        contextlib.redirect_stdout(sink),
        contextlib.redirect_stderr(sink),
        warnings.catch_warnings(action="ignore"),
    ):
        yield


def _reason(error: Exception) -> str:
    """The first line of an error, in the form that fits between brackets."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


def _check_node_labels(graph: object, task: str) -> None:
    """Refuse data sets that ask something else than the class of each node."""
    if not isinstance(graph, Data):
        raise TaskError(
            f"'{task}' holds {type(graph).__name__}, not graphs with one kind of node and edge; "
            "choose a data set for node classification."
        )
    if isinstance(graph.y, Tensor) and list(graph.y.shape[:1]) != [graph.num_nodes]:
        raise TaskError(
            f"'{task}' has labels of shape {list(graph.y.shape)} for {graph.num_nodes} nodes, so "
            "it is not node classification; choose a data set with one label per node."
        )


def _graph_splits(
    parts: list[list[Data]], split_name: str
) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """The split into graphs of a data set that is read part by part."""
    if len(parts) != len(PARTS):
        return {}
    train, val, test = torch.arange(sum(map(len, parts))).tensor_split(
        [len(parts[0]), len(parts[0]) + len(parts[1])]
    )
    return {split_name: (train, val, test)}


def _note(named: PygName, folder: Path) -> str:
    if named.cls.__name__ not in NOTES:
        return ""
    raw = next(path for path in sorted(folder.rglob("raw")) if path.is_dir())
    return NOTES[named.cls.__name__](raw)
