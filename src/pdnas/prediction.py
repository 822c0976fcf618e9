"""Predictions of a trained run: for the graphs that it was trained on, or for another graph."""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from pyarrow import csv, parquet
from torch import Tensor
from torch_geometric.data import Data

from pdnas.answers import Names, names_of, numbers_of
from pdnas.errors import PdnasError, RunError
from pdnas.files import check_path, write_whole
from pdnas.ops.norm import BatchNorm
from pdnas.output import check_file
from pdnas.registry import Registry
from pdnas.runs import SETTINGS, AnySettings, Result, RunDirectory
from pdnas.tasks import GraphTask
from pdnas.tasks.labels import UNLABELLED, Kind, Known
from pdnas.tasks.load import find_data_root, read_source
from pdnas.tasks.source import ReadOptions, Source, source_from_data
from pdnas.tasks.standard import standardized_for
from pdnas.training.device import find_device
from pdnas.training.metrics import score
from pdnas.training.predictions import logits_of

SHOWN = 8
"""How many columns, or labels, a sentence names."""

WITHOUT_NETWORK = {"compare": "a comparison", "reproduce": "a table of the paper"}
"""Commands whose folders hold many networks and no trained one."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a trained network says of every node, graph after graph.

    Args:
        kind: One class per node, several labels per node, or a yes-or-no question.
        class_names: What the probabilities stand for.
        logits: ``[N, C]``; a single one per node for a yes-or-no question.
        graph: ``[N]``, the number of each node's graph.
        node_ids: Of every node: the user's own, or else its number in its graph.
        labels: As given, by number: ``[N]``, -1 where unknown, or ``[N, K]``; none if no node has
            one.
        notes: What must be said beside it, a sentence each.
    """

    kind: Kind
    class_names: tuple[str, ...]
    logits: Tensor
    graph: Tensor
    node_ids: tuple[str, ...]
    labels: Tensor | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.node_ids)

    def __repr__(self) -> str:
        return f"Prediction({len(self)} nodes, {self.kind}, {self.counts})"

    @cached_property
    def probabilities(self) -> Tensor:
        """``[N, classes]``; each row sums to one unless a node may have several labels."""
        if self.kind == "single-label":
            return self.logits.softmax(dim=1)
        if self.kind == "binary":  # 1 - sigmoid would lose all digits of the unlikely answer
            return torch.cat([-self.logits, self.logits], dim=1).sigmoid()
        return self.logits.sigmoid()

    @cached_property
    def numbers(self) -> Tensor:
        """Numbers of the classes, ``[N]``, or zeros and ones, ``[N, K]``, for several labels."""
        return numbers_of(self.logits, self.kind)

    @cached_property
    def classes(self) -> Names:
        """The name of each node's class; for several labels per node a tuple of names each."""
        return names_of(self.numbers, self.kind, self.class_names)

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes each class, or label, was given to."""
        counts = (
            self.numbers.sum(dim=0)
            if self.kind == "multi-label"
            else self.numbers.bincount(minlength=len(self.class_names))
        )
        return dict(zip(distinct(self.class_names), counts.tolist(), strict=True))

    def save(self, path: str | Path) -> Path:
        """Write a table, ``.csv`` or ``.parquet``, or arrays, ``.npz``; whole or not at all.

        A table has the columns ``node``; ``graph`` where there are several; ``class``, and
        ``label`` where labels were given, or for several labels per node ``class:NAME`` and
        ``label:NAME`` of zeros and ones; and ``probability:NAME`` for every class. The arrays are
        ``node``, ``graph``, ``class``, ``label``, ``probabilities``, ``class_names`` and
        ``logits``.

        Args:
            path: Where, with one of these endings.
        """
        path = Path(path)
        check_path(path)
        content = writer(path)(self)
        try:
            write_whole(path, content)
        except OSError as error:
            raise PdnasError(
                f"'{path}' cannot be written ({error.strerror}); give an --output that you may "
                "write to."
            ) from None
        return path

    def table(self) -> pa.Table:
        """One row per node; see :meth:`save` for its columns."""
        columns: dict[str, Any] = {"node": pa.array(self.node_ids, pa.string())}
        if self._has_graphs:
            columns["graph"] = self.graph.numpy()
        columns |= dict(self._named("class", self.numbers))
        if self.labels is not None:
            columns |= dict(self._named("label", self.labels))
        for name, column in zip(distinct(self.class_names), self.probabilities.T, strict=True):
            columns[f"probability:{name}"] = column.numpy()
        return pa.table(columns)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by name; see :meth:`save`."""
        arrays = {
            "node": np.array(self.node_ids, dtype=str),
            "class": self._spelled(self.numbers),
            "probabilities": self.probabilities.numpy(),
            "class_names": np.array(self.class_names, dtype=str),
            "logits": self.logits.numpy(),
        }
        if self._has_graphs:
            arrays["graph"] = self.graph.numpy()
        if self.labels is not None:
            arrays["label"] = self._spelled(self.labels)
        return arrays

    @property
    def _has_graphs(self) -> bool:
        return bool((self.graph > 0).any())

    def _named(self, what: str, numbers: Tensor) -> Iterator[tuple[str, Any]]:
        """One column of names, or one of zeros and ones for each label."""
        if self.kind != "multi-label":
            names = (*self.class_names, None)  # -1, unknown, is the last
            yield what, pa.array([names[number] for number in numbers.tolist()], pa.string())
            return
        for name, column in zip(distinct(self.class_names), numbers.T, strict=True):
            yield f"{what}:{name}", column.to(torch.int8).numpy()

    def _spelled(self, numbers: Tensor) -> NDArray[Any]:
        if self.kind == "multi-label":
            return numbers.to(torch.int8).numpy()
        names = np.array([*self.class_names, ""], dtype=str)  # -1, unknown, is the last
        return np.take(names, numbers.numpy(), mode="wrap")


WRITERS: Registry[str, Callable[[Prediction], bytes]] = Registry("format of predictions")
"""How predictions are written, by the ending of the file."""


@WRITERS.register(".csv")
def _write_csv(prediction: Prediction) -> bytes:
    stream = io.BytesIO()
    csv.write_csv(prediction.table(), stream)
    return stream.getvalue()


@WRITERS.register(".parquet")
def _write_parquet(prediction: Prediction) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(prediction.table(), stream)
    return stream.getvalue()


@WRITERS.register(".npz")
def _write_npz(prediction: Prediction) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **prediction.arrays())  # type: ignore[arg-type]
    return stream.getvalue()


def writer(path: Path) -> Callable[[Prediction], bytes]:
    """What writes a file of that ending, after a look whether the file can be there."""
    check_file(path)
    if path.suffix.lower() not in WRITERS:
        raise PdnasError(
            f"The output '{path}' has the ending '{path.suffix}'; give one of {', '.join(WRITERS)}."
        )
    return WRITERS[path.suffix.lower()]


def predict(
    run: str | Path | Result,
    data: str | Path | Data | GraphTask | None = None,
    *,
    device: str | torch.device = "auto",
    data_root: str | Path | None = None,
) -> Prediction:
    """What the network of a run says of the graphs that it was trained on, or of another graph.

    Examples:
        >>> trained = pdnas.train("gcn", "citeseer", recipe={"epochs": 5}, run_dir="run")
        >>> prediction = pdnas.predict("run")
        >>> prediction.save("classes.csv")
        PosixPath('classes.csv')
        >>> prediction.probabilities.shape
        torch.Size([3327, 6])

    Args:
        run: A run directory; or a result with its network, which needs data.
        data: Another graph, which needs no labels: a path or the name of a task, read as the run's
            own data were (columns of a table are found by their names), a PyG ``Data``, which is
            treated likewise, or a task, taken as it stands. By default what the run keeps of its
            own graphs: nothing is computed, and the data need not be there.
        device: Where to compute.
        data_root: Where data sets are looked for; by default ``PDNAS_DATA``.
    """
    if isinstance(run, Result):
        if data is None:
            raise PdnasError(
                "A result alone does not keep what its network says of its graphs; give the data, "
                "or the run directory in place of the result."
            )
        return _ask(run, data, find_device(str(device)), data_root)
    folder = RunDirectory.open(run)
    command = folder.read_record(SETTINGS, AnySettings).command
    if command in WITHOUT_NETWORK:
        raise RunError(
            f"'{run}' holds {WITHOUT_NETWORK[command]}, not a trained network; give the run "
            "directory of a search, a training or a tuning."
        )
    result = folder.result()
    if data is None:
        return _stored(folder, result)
    return _ask(result, data, find_device(str(device)), data_root)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with their numbers behind those that stand for several classes."""
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name} #{number}" for number, name in enumerate(names)]


def _stored(run: RunDirectory, result: Result) -> Prediction:
    """What the run keeps."""
    kept = run.read_predictions(result)
    return Prediction(
        kind=_known(result).kind,
        class_names=result.class_names,
        logits=kept.logits,
        graph=kept.graph,
        node_ids=kept.node_ids or _numbered(kept.graph),
        labels=kept.labels if bool((kept.labels != UNLABELLED).any()) else None,
    )


def _ask(
    result: Result,
    data: str | Path | Data | GraphTask,
    device: torch.device,
    data_root: str | Path | None,
) -> Prediction:
    """Show other data to the network."""
    known = _known(result)
    source = _read(result, data, known, data_root)
    known.check(source.graphs[0].x.shape[1], f"'{source.name}'")
    weights = {name: weight.to(device) for name, weight in result.model.state_dict().items()}
    network = result.with_weights(weights).model
    logits = logits_of(network, [graph.to(device) for graph in source.graphs]).float().cpu()
    counts = torch.tensor([graph.num_nodes for graph in source.graphs])
    graph = torch.arange(len(counts)).repeat_interleave(counts)
    is_same = (source.kind, source.class_names) == (known.kind, known.class_names)
    labels = None
    if source.labelled and is_same:
        labels = torch.cat([graph.y for graph in source.graphs]).long().cpu()
    return Prediction(
        kind=known.kind,
        class_names=known.class_names,
        logits=logits,
        graph=graph,
        node_ids=source.node_ids or _numbered(graph),
        labels=labels,
        notes=tuple(_notes(result, source, logits, labels)),
    )


def _read(
    result: Result,
    data: str | Path | Data | GraphTask,
    known: Known,
    data_root: str | Path | None,
) -> Source:
    """Other data, prepared as the run's own were."""
    if isinstance(data, GraphTask):
        return data.source
    record = result.data
    normalize = None if record is None else record.normalize
    undirected = None if record is None else record.undirected
    if isinstance(data, Data):
        source = source_from_data(
            data, "data", normalize=bool(normalize), undirected=bool(undirected), known=known
        )
        return standardized_for(source, known)
    root = find_data_root(data_root)
    return read_source(str(data), ReadOptions(root, normalize, undirected, known=known))


def _known(result: Result) -> Known:
    """What the network of a result reads and tells."""
    record = result.data
    return Known(
        kind=result.kind,
        class_names=result.class_names,
        in_channels=result.in_channels,
        feature_names=() if record is None else record.feature_names,
        means=() if record is None else record.means,
        deviations=() if record is None else record.deviations,
    )


def _numbered(graph: Tensor) -> tuple[str, ...]:
    """The number of each node in its graph."""
    counts = graph.bincount().tolist()
    return tuple(str(number) for count in counts for number in range(count))


def _notes(result: Result, source: Source, logits: Tensor, labels: Tensor | None) -> Iterator[str]:
    """What the user should know of the data that were given."""
    if source.ignored:
        yield (
            f"Ignored, since the network was not trained on them: the column(s) "
            f"{_listed(source.ignored)} of '{source.name}'."
        )
    if source.strangers:
        names = sorted(source.strangers, key=lambda name: -source.strangers[name])
        yield (
            f"{sum(source.strangers.values())} node(s) of '{source.name}' have labels that the "
            f"network does not know: {_listed(names)}; these count as unlabelled."
        )
    if result.data is None:
        yield (
            "The run is of an early version that does not say how its data were prepared: these "
            "were read by default, see --normalize and --undirected of pdnas train."
        )
    if labels is None and source.labelled:
        yield (
            f"The labels of '{source.name}' ({_listed(source.class_names)}) are not those of the "
            f"network ({_listed(result.class_names)}), and are left out."
        )
    is_own = result.data is not None and result.data.sha256 == source.sha256
    if not is_own and any(isinstance(part, BatchNorm) for part in result.model.modules()):
        yield (
            "The network has batch norms: what it says of a node depends on which other nodes are "
            "there too; give graphs as whole as in training."
        )
    if labels is None or is_own:  # a figure on what was trained on would flatter
        return
    is_known = (labels != UNLABELLED).reshape(len(labels), -1).all(dim=1)
    logits, y, metric = logits[is_known], labels[is_known], result.metric
    if metric == "roc-auc" and y.unique().numel() < 2:
        return
    figure = float(score(logits, y, source.kind, metric))
    yield f"{metric} on the {len(y)} node(s) with a known label: {100 * figure:.2f} %."


def _listed(names: Sequence[str]) -> str:
    """The first few names."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
