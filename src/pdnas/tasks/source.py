"""Graphs with labels, as a data source reads them, and the registries of such sources."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from pdnas.errors import TaskError
from pdnas.ops.adjacency import Adjacency, check_edges
from pdnas.ops.features import Features, SparseFeatures, compact
from pdnas.registry import Registry, unknown
from pdnas.tasks.labels import UNLABELLED, Kind, Known, Metric, check_labels, kind_and_classes
from pdnas.tasks.splits import PARTS, Split, check_split_seed, mask_split, random_split


@dataclass(frozen=True, eq=False)
class Graph:
    """One graph with the labels of its nodes.

    Args:
        x: Features, ``[N, F]``.
        edge_index: Sources and targets, ``[2, E]``; an undirected edge stands in both directions.
        y: Classes ``[N]``, -1 where unknown, or for many labels per node zeros and ones ``[N, K]``.
    """

    x: Features
    edge_index: Tensor
    y: Tensor

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @cached_property
    def adjacency(self) -> Adjacency:
        """The sorted edges, made at first use."""
        return Adjacency.from_edge_index(self.edge_index, self.num_nodes)

    def to(self, device: torch.device | str) -> "Graph":
        if self.y.device == torch.device(device):
            return self
        return Graph(self.x.to(device), self.edge_index.to(device), self.y.to(device))


@dataclass(frozen=True, eq=False)
class Source:
    """What a data source reads: everything of a task but the choice of split and metric.

    Args:
        name: How the user named it.
        graphs: One graph, or several.
        class_names: One per class or label.
        kind: One class per node, several labels per node, or a yes-or-no question.
        splits: The splits that come with the data, by name: masks over nodes, ``[N]`` or
            ``[N, S]``, or for several graphs the graphs' indices.
        metric: The metric that the data's authors use, where it is not the kind's default.
        node_ids: The user's own names of the nodes of a single graph, if there are any.
        note: What must be said wherever a figure on these data is printed.
        normalize: Whether each node's features were scaled to sum to one.
        undirected: Whether the reverse of every edge was added.
        means: What was subtracted from each feature; empty where nothing was.
        deviations: What each feature was then divided by.
        feature_names: The columns of a table that became features, in order, if it was one.
        ignored: The columns of a table that a trained network has no use for.
        labelled: Whether any label is known; without, a trained network can be asked, no more.
        strangers: Labels that a trained network does not know, and how many nodes have each.
    """

    name: str
    graphs: tuple[Graph, ...]
    class_names: tuple[str, ...]
    kind: Kind
    splits: dict[str, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)
    metric: Metric | None = None
    node_ids: tuple[str, ...] = ()
    note: str = ""
    normalize: bool = False
    undirected: bool = False
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()
    feature_names: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    labelled: bool = True
    strangers: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        several = self.labelled and len(self.graphs) > 1
        if several and any((graph.y == UNLABELLED).any() for graph in self.graphs):
            raise TaskError(
                f"'{self.name}' has several graphs and a node without a label; with several graphs "
                "every node needs one."
            )
        for number, graph in enumerate(self.graphs):
            place = f"'{self.name}'" + (f", graph {number}" if len(self.graphs) > 1 else "")
            _check_graph(graph, place)
            if self.labelled:
                check_labels(graph.y, place, self.kind, len(self.class_names))
            if graph.x.shape[1] != self.graphs[0].x.shape[1]:
                raise TaskError(
                    f"{place} has {graph.x.shape[1]} features per node but graph 0 has "
                    f"{self.graphs[0].x.shape[1]}; give every graph the same features."
                )
        if self._unit == "node":
            for name, masks in self.splits.items():
                _check_masks(
                    masks, f"the split '{name}' of '{self.name}'", self.graphs[0].num_nodes
                )

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of the graphs and their labels, whatever they are called."""
        digest = hashlib.sha256()
        for graph in self.graphs:
            x = graph.x
            values = [x] if isinstance(x, Tensor) else [x.pattern.rowptr, x.pattern.cols, x.values]
            for tensor in (*values, graph.edge_index, graph.y):
                digest.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
                digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def split(self, name: str | None = None, seed: int | None = None) -> Split:
        """The split of that name; by default the data's own, or ``random`` where there is none.

        Args:
            name: ``random``, or one that comes with the data.
            seed: Which of the splits of that name.
        """
        if not self.labelled:
            raise TaskError(f"'{self.name}' has no labels, so there is nothing to split.")
        if name is None:
            name = next(iter(self.splits), "random")
        if name == "random":
            return random_split(self._labelled, 0 if seed is None else seed, unit=self._unit)
        if name == "own" and name not in self.splits:
            raise TaskError(
                f"'{self.name}' brings no split of its own; give it train_mask, val_mask and "
                "test_mask, or a table of nodes the column 'split', or use another split: "
                f"{', '.join([*self.splits, 'random'])}."
            )
        if name not in self.splits:
            raise unknown("split", name, [*self.splits, "random"])
        train, val, test = self.splits[name]
        if self._unit == "graph":
            check_split_seed(name, seed, 1)
            return Split(name, train, val, test, unit="graph")
        known = self._labelled_mask
        masks = (_only(train, known), _only(val, known), _only(test, known))
        return mask_split(name, masks, seed)

    @property
    def _unit(self) -> Literal["node", "graph"]:
        return "node" if len(self.graphs) == 1 else "graph"

    @property
    def _labelled_mask(self) -> Tensor:
        y = self.graphs[0].y
        known = y != UNLABELLED if y.dim() == 1 else torch.ones(y.size(0), dtype=torch.bool)
        return known.cpu()

    @property
    def _labelled(self) -> Tensor:
        if self._unit == "graph":
            return torch.arange(len(self.graphs))
        return self._labelled_mask.nonzero().flatten()


@dataclass(frozen=True)
class ReadOptions:
    """How to read data, beside where they are.

    Args:
        data_root: Folder that holds data sets for PyG's classes, before anything is downloaded.
        normalize: Scale each node's features to sum to one; ``None`` leaves it to the source.
        undirected: Add the reverse of every edge; ``None`` leaves it to the source.
        standardize: Scale every feature to mean 0 and standard deviation 1, after the source is
            read; ``None`` leaves it to the data.
        known: What a trained network reads, where the user's own data are to be shown to one.
    """

    data_root: Path | None = None
    normalize: bool | None = None
    undirected: bool | None = None
    standardize: bool | None = None
    known: Known | None = None


@dataclass(frozen=True)
class NamedTask:
    """A task that is called by its name alone.

    Args:
        read: Reads it.
        about: One line for the list of tasks.
    """

    read: Callable[[ReadOptions], Source]
    about: str


NAMED: Registry[str, NamedTask] = Registry("task")
"""Tasks by name: ``citeseer``."""

SCHEMES: Registry[str, Callable[[str, ReadOptions], Source]] = Registry("kind of task")
"""Families of tasks by prefix: ``pyg`` reads ``pyg:Amazon/Photo``, given ``Amazon/Photo``."""

FORMATS: Registry[str, Callable[[Path, ReadOptions], Source]] = Registry("file format")
"""The user's own data by the ending of the path, ``.npz``, or ``folder``."""


def source_from_data(
    data: Data,
    name: str,
    *,
    class_names: tuple[str, ...] | None = None,
    metric: Metric | None = None,
    split_name: str = "own",
    normalize: bool = False,
    undirected: bool = False,
    known: Known | None = None,
) -> Source:
    """Read a PyG ``Data``; sparse features stay sparse and labels tell the kind of task.

    Args:
        data: With ``x``, ``edge_index`` and ``y``; ``train_mask``, ``val_mask`` and ``test_mask``
            of shape ``[N]`` or ``[N, S]`` become the split ``split_name``.
        name: What messages and results call it.
        class_names: By default the numbers of the classes.
        metric: See :class:`Source`.
        split_name: What to call the split of the masks.
        normalize: Scale each node's features to sum to one.
        undirected: Add the reverse of every edge.
        known: What a trained network reads, where there is one: then labels may be missing.
    """
    splits = {}
    masks = [getattr(data, f"{part}_mask", None) for part in PARTS]
    if all(isinstance(mask, Tensor) for mask in masks):
        train, val, test = (torch.as_tensor(mask).bool() for mask in masks)
        splits[split_name] = (train, val, test)
    return source_from_graphs(
        [data],
        name,
        class_names=class_names,
        metric=metric,
        splits=splits,
        normalize=normalize,
        undirected=undirected,
        known=known,
    )


def source_from_graphs(
    graphs: Sequence[Data],
    name: str,
    *,
    class_names: tuple[str, ...] | None = None,
    metric: Metric | None = None,
    splits: dict[str, tuple[Tensor, Tensor, Tensor]] | None = None,
    normalize: bool = False,
    undirected: bool = False,
    known: Known | None = None,
) -> Source:
    """Read one or several PyG ``Data`` that share features and labels.

    Args:
        graphs: Each with ``x``, ``edge_index`` and ``y``.
        name: What messages and results call them.
        class_names: By default the numbers of the classes.
        metric: See :class:`Source`.
        splits: See :class:`Source`.
        normalize: Scale each node's features to sum to one.
        undirected: Add the reverse of every edge.
        known: What a trained network reads, where there is one: then labels may be missing.
    """
    strangers = Counter[str]()
    if known is not None:
        labels = [_known_labels(data, name, class_names, known) for data in graphs]
        for data in graphs:
            strangers += known.strangers(_given_labels(data, name), class_names)
        kind, class_names = known.kind, known.class_names
    else:
        labels = [_labels(data, name) for data in graphs]
        kind, class_names = kind_and_classes(labels, name, class_names)
    read = tuple(
        Graph(
            _features(data, name, normalize, known),
            _edges(data, name, undirected),
            y.float() if kind == "multi-label" else y.long(),
        )
        for data, y in zip(graphs, labels, strict=True)
    )
    return Source(
        name,
        read,
        class_names,
        kind,
        splits or {},
        metric,
        normalize=normalize,
        undirected=undirected,
        labelled=known is None or any(bool((y != UNLABELLED).any()) for y in labels),
        strangers=strangers,
    )


def _tensor(data: Data, field_name: str, name: str) -> Tensor:
    """A tensor that every graph must have."""
    value = getattr(data, field_name, None)
    if not isinstance(value, Tensor):
        raise TaskError(f"'{name}' has no tensor '{field_name}'; a task needs x, edge_index and y.")
    return value


def _rows(data: Data, name: str) -> Tensor:
    """The features, a row for each node."""
    x = _tensor(data, "x", name)
    if x.dim() != 2 or x.size(1) == 0:
        raise TaskError(
            f"The features of '{name}' have shape {list(x.shape)}; give [nodes, features] with at "
            "least one feature."
        )
    return x


def _known_labels(
    data: Data, name: str, class_names: tuple[str, ...] | None, known: Known
) -> Tensor:
    """Labels as a trained network numbers them, where there are any."""
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor):
        known.check(0, f"'{name}'")
    nodes = _rows(data, name).size(0)
    if not nodes:
        raise TaskError(f"'{name}' has no nodes; give at least one.")
    y = _given_labels(data, name)
    if y is not None and len(y) != nodes:
        raise TaskError(f"'{name}' has {nodes} nodes but {len(y)} labels; give one each, or none.")
    return known.labels(y, class_names, nodes, name)


def _given_labels(data: Data, name: str) -> Tensor | None:
    return _labels(data, name) if isinstance(getattr(data, "y", None), Tensor) else None


def _labels(data: Data, name: str) -> Tensor:
    y = _tensor(data, "y", name)
    if y.is_complex():
        raise TaskError(f"The labels of '{name}' are complex numbers; give whole ones.")
    y = y.reshape(1) if y.dim() == 0 else y
    return y.squeeze(-1) if y.dim() == 2 and y.size(1) == 1 else y


def _edges(data: Data, name: str, undirected: bool) -> Tensor:
    edges, nodes = _tensor(data, "edge_index", name), _rows(data, name).size(0)
    check_edges(edges, f"'{name}'", nodes)
    edges = edges.long()
    return to_undirected(edges, num_nodes=nodes) if undirected else edges


def _features(data: Data, name: str, normalize: bool, known: Known | None) -> Features:
    x = _rows(data, name)
    if known is not None:
        known.check(x.size(1), f"'{name}'")
    if x.is_complex():
        raise TaskError(f"The features of '{name}' are complex numbers; give real ones.")
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
    features = compact(x.float())
    _check_finite(features, f"'{name}'")
    if not normalize:
        return features
    if isinstance(features, Tensor):
        return features / _divisors(features.sum(1, keepdim=True))
    rows = features.pattern.rows
    sums = features.values.new_zeros(features.shape[0]).index_add_(0, rows, features.values)
    return SparseFeatures(features.pattern, features.values / _divisors(sums)[rows])


def _divisors(sums: Tensor) -> Tensor:
    """The sums, and 1 where a sum is 0."""
    return torch.where(sums == 0, 1.0, sums)


def _check_graph(graph: Graph, place: str) -> None:
    """Refuse what would fail later, or worse, would not."""
    nodes = graph.num_nodes
    check_edges(graph.edge_index, place, nodes)
    _check_finite(graph.x, place)
    if graph.y.size(0) != nodes:
        raise TaskError(f"{place} has {nodes} nodes but {graph.y.size(0)} labels; give one each.")


def _check_masks(masks: tuple[Tensor, ...], place: str, nodes: int) -> None:
    """Refuse masks that do not fit the nodes, or not each other."""
    if any(mask.dim() not in (1, 2) or mask.size(0) != nodes for mask in masks) or (
        len({mask.size(1) for mask in masks if mask.dim() == 2}) > 1
    ):
        shapes = ", ".join(str(list(mask.shape)) for mask in masks)
        raise TaskError(
            f"The masks of {place} have shapes {shapes}; give [{nodes}] or, for several splits, "
            f"[{nodes}, splits]."
        )


def _check_finite(x: Features, place: str) -> None:
    values = x.values if isinstance(x, SparseFeatures) else x
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        raise TaskError(
            f"{bad} feature value(s) of {place} are NaN or infinite; fill or remove them first."
        )


def _only(mask: Tensor, known: Tensor) -> Tensor:
    """The mask without nodes whose class is not known."""
    return mask & (known if mask.dim() == 1 else known.unsqueeze(1))
