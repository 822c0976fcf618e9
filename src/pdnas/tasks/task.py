"""What there is to learn: graphs, labels, a split and a metric."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from pdnas.errors import TaskError
from pdnas.notebook import html_table, noted
from pdnas.registry import unknown
from pdnas.tasks.labels import Kind, Metric
from pdnas.tasks.source import Graph, Source, source_from_data
from pdnas.tasks.splits import PARTS, Split
from pdnas.tasks.standard import standardized

DEFAULT_METRIC: dict[Kind, Metric] = {
    "single-label": "accuracy",
    "multi-label": "micro-f1",
    "binary": "accuracy",
}

METRICS_OF: dict[Kind, tuple[Metric, ...]] = {
    "single-label": ("accuracy", "macro-f1"),
    "multi-label": ("micro-f1", "macro-f1"),
    "binary": ("accuracy", "roc-auc"),
}
"""The metrics that make sense for each kind of task."""


@dataclass(frozen=True, eq=False)
class GraphTask:
    """Graphs, a split and a metric: all that a search or a training needs to know.

    Examples:
        >>> from torch_geometric.data import Data
        >>> x, y = torch.randn(60, 4), torch.arange(60) % 3
        >>> data = Data(x=x, edge_index=torch.randint(60, (2, 200)), y=y)  # yours
        >>> task = pdnas.GraphTask.from_data(data, name="mine")
        >>> task.split.name, task.in_channels, task.out_channels
        ('random', 4, 3)

    Args:
        source: The graphs and their labels.
        split: What is for training, validation and test.
        metric: What counts as good; higher is better.
    """

    source: Source
    split: Split
    metric: Metric

    def __post_init__(self) -> None:
        if self.metric != "roc-auc":
            return
        for part in ("val", "test"):
            if self.labels(part).unique().numel() < 2:
                raise TaskError(
                    f"ROC-AUC is not defined on the {part} part of the split '{self.split.name}', "
                    "where all labels are the same; use --metric accuracy or another split."
                )

    @classmethod
    def from_source(
        cls,
        source: Source,
        *,
        split: str | None = None,
        split_seed: int | None = None,
        metric: str | None = None,
    ) -> "GraphTask":
        """A task from data and the names of a split and a metric, or their defaults."""
        chosen = metric or source.metric or DEFAULT_METRIC[source.kind]
        allowed = METRICS_OF[source.kind]
        if chosen not in allowed:
            raise unknown(f"{source.kind} metric", chosen, allowed)
        return cls(source, source.split(split, split_seed), chosen)

    @classmethod
    def from_data(
        cls,
        data: Data,
        *,
        name: str = "data",
        split: str | None = None,
        split_seed: int | None = None,
        metric: str | None = None,
        standardize: bool = False,
    ) -> "GraphTask":
        """A task from a PyG ``Data`` with ``x``, ``edge_index``, ``y`` and possibly masks.

        Args:
            data: The graph.
            name: What messages and results call it.
            split: ``random``, or ``own``, that of the masks; by default this one if there is one.
            split_seed: Which of the splits of that name.
            metric: By default ``accuracy``, or ``micro-f1`` for many labels per node.
            standardize: Scale every feature to mean 0 and standard deviation 1.
        """
        source = standardized(source_from_data(data, name), standardize)
        return cls.from_source(source, split=split, split_seed=split_seed, metric=metric)

    def __repr__(self) -> str:
        nodes = sum(graph.num_nodes for graph in self.graphs)
        edges = sum(graph.edge_index.size(1) for graph in self.graphs)
        return (
            f"GraphTask({self.name!r}, {self.kind}, {len(self.graphs)} graph(s), {nodes} nodes, "
            f"{edges} edges, {self.in_channels} features, {len(self.source.class_names)} classes, "
            f"split {self.split.name!r}, metric {self.metric!r})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        parts = ", ".join(f"{getattr(self.split, part).numel()} {part}" for part in PARTS)
        rows = [
            ["task", self.name + noted(self.source.note)],
            ["kind", f"{self.kind}, {len(self.source.class_names)} classes"],
            ["graphs", f"{len(self.graphs):,}"],
            ["nodes", f"{sum(graph.num_nodes for graph in self.graphs):,}"],
            ["edges", f"{sum(graph.edge_index.size(1) for graph in self.graphs):,}"],
            ["features", f"{self.in_channels:,}"],
            ["split", f"{self.split.name}: {parts}"],
            ["metric", self.metric],
        ]
        return html_table(rows)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def kind(self) -> Kind:
        return self.source.kind

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return self.source.graphs

    @property
    def in_channels(self) -> int:
        """Features per node."""
        return self.graphs[0].x.shape[1]

    @property
    def out_channels(self) -> int:
        """Logits per node: one per class or label, a single one for a binary task."""
        return 1 if self.kind == "binary" else len(self.source.class_names)

    def labels(self, part: str) -> Tensor:
        """The labels of a part: of its nodes, or of all nodes of its graphs."""
        index: Tensor = getattr(self.split, part)
        if self.split.unit == "graph":
            return torch.cat([self.graphs[int(number)].y for number in index])
        y = self.graphs[0].y
        return y[index.to(y.device)]

    def with_split(self, name: str | None, seed: int | None) -> "GraphTask":
        """The same data and metric on another split."""
        return replace(self, split=self.source.split(name, seed))

    def named(self, name: str) -> "GraphTask":
        """The same task under another name."""
        return replace(self, source=replace(self.source, name=name))

    def to(self, device: torch.device | str) -> "GraphTask":
        if self.graphs[0].y.device == torch.device(device):
            return self
        graphs = tuple(graph.to(device) for graph in self.graphs)
        moved = replace(self.source, graphs=graphs)
        return replace(self, source=moved)
