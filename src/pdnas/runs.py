"""The run directory: what a run leaves behind, written so that nothing is ever half there."""

import json
import math
import os
import platform
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import torch
from filelock import FileLock, Timeout
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from scipy.special import stdtrit
from torch import Tensor

from pdnas import __version__
from pdnas.answers import Names, check_logits, names_of, numbers_of
from pdnas.architecture import Architecture, check_hidden
from pdnas.diagram import draw_svg
from pdnas.errors import PdnasError, RunError, UnknownNameError, first_complaint, shown
from pdnas.models import AnyDesign, Network, make_network
from pdnas.notebook import FIGURES, figures, html_table, noted
from pdnas.tasks.source import UNLABELLED, Kind, Metric

SETTINGS = "settings.json"
ENVIRONMENT = "environment.json"
HISTORY = "history.jsonl"
ARCHITECTURE = "architecture.json"
WEIGHTS = "model.safetensors"
PREDICTIONS = "predictions.safetensors"
RESULT = "result.json"
FOLDER = Path("checkpoint")
CHECKPOINT = FOLDER / "trainings.json"
CHECKPOINT_WEIGHTS = FOLDER / WEIGHTS
PIPELINE = FOLDER / "pipeline.json"
JOURNAL = Path("study.journal")
RECIPE = "recipe.toml"
LOCK = ".lock"
SEARCH_STATE = FOLDER / "search.safetensors"


MOST_CHANNELS = 1 << 40
"""More features than any graph has."""

R = TypeVar("R", bound="Record")

Figure = Annotated[float, Field(ge=-1e9, le=1e9)]
"""Any number that a metric may be or an estimate of it: it can be written in percent."""

_NAMES = TypeAdapter(tuple[str, ...])


class Record(BaseModel):
    """A frozen value that is written as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Scores(Record):
    """A metric over several trainings.

    Args:
        mean: Of the values.
        std: Sample standard deviation; 0 for a single value.
        interval: 95 % confidence interval of the mean, Student's t; none for a single value. With
            several splits it is that of the splits' means: seeds on one split are not independent.
        values: One per training, split by split, in the order of the seeds.
    """

    mean: Figure
    std: Figure
    interval: tuple[Figure, Figure] | None
    values: tuple[Figure, ...]

    @classmethod
    def of(cls, values: Sequence[float], splits: int = 1) -> "Scores":
        """Summarize the values, between 0 and 1, of as many trainings on each of some splits."""
        mean, each = statistics.fmean(values), len(values) // splits
        if len(values) == 1:
            return cls(mean=mean, std=0.0, interval=None, values=tuple(values))
        sample = list(values)
        if splits > 1:
            sample = [statistics.fmean(values[i : i + each]) for i in range(0, len(values), each)]
        half = half_width(sample)
        return cls(
            mean=mean,
            std=statistics.stdev(values),
            interval=(max(mean - half, 0.0), min(mean + half, 1.0)),
            values=tuple(values),
        )

    def __str__(self) -> str:
        """In percent."""
        spread = f" ± {100 * self.std:.2f}" if self.interval else ""
        return f"{100 * self.mean:.2f}{spread}"


class Difference(Record):
    """By how much one is ahead of another, pair by pair: the same split, or the same seed.

    Args:
        mean: Of the differences.
        interval: 95 % confidence interval of the mean, Student's t; none for a single pair.
        pairs: How many there are.
    """

    mean: float
    interval: tuple[float, float] | None
    pairs: int

    @classmethod
    def of(cls, differences: Sequence[float]) -> "Difference":
        """Sum up what each pair differs by."""
        mean, pairs = statistics.fmean(differences), len(differences)
        if pairs == 1:
            return cls(mean=mean, interval=None, pairs=pairs)
        half = half_width(differences)
        return cls(mean=mean, interval=(mean - half, mean + half), pairs=pairs)

    @classmethod
    def between(cls, one: Scores, other: Scores) -> "Difference":
        """How far one is ahead, in points of a hundred; trainings with the same seed are a pair."""
        pairs = zip(one.values, other.values, strict=False)  # a control may have been cut short
        return cls.of([100 * (first - second) for first, second in pairs])

    @property
    def is_noise(self) -> bool:
        """Whether so few pairs cannot tell who is ahead: the interval holds 0, or there is none."""
        return self.interval is None or self.interval[0] <= 0.0 <= self.interval[1]


def half_width(sample: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of a mean, Student's t."""
    error = statistics.stdev(sample) / math.sqrt(len(sample))
    return float(stdtrit(len(sample) - 1, 0.975)) * error


class SplitRecord(Record):
    """Which split, or which splits, a result was measured on.

    Args:
        name: ``public``, ``random`` and so on.
        sha256: Of the split; of all the fingerprints together where there are several.
        seeds: Which of the splits of that name, if there is a choice.
        members: The fingerprint of each split.
    """

    name: str
    sha256: str
    seeds: tuple[int, ...]
    members: tuple[str, ...]


class Trial(Record):
    """A candidate that was trained briefly, to choose among them by validation.

    Args:
        architecture: What was trained.
        hidden: Its hidden size.
        seed: Of the training; the best are trained with a second one.
        shared_val: What the search had estimated of it; none if it is a change of another.
        val: Validation at its best epoch.
        epoch: That epoch.
        epochs: How many it was trained for.
        rungs: The best validation until the epoch at which candidates are compared; nothing where
            it ended before, and several in runs of early versions.
        seconds: How long it took.
    """

    architecture: Architecture
    hidden: int
    seed: int
    shared_val: Figure | None
    val: Figure
    epoch: int
    epochs: int
    rungs: tuple[float, ...]
    seconds: float


class Control(Record):
    """What a network that nobody searched for comes to, with the same recipe and seeds.

    Args:
        name: ``random``, or a baseline's.
        architecture: What was trained: blocks, or a published network.
        hidden: Its hidden size.
        parameters: Its number of weights.
        val: Validation at the chosen epoch of each training.
        test: Test there.
        seconds: Time of its trainings.
    """

    name: str
    architecture: AnyDesign
    hidden: int
    parameters: int
    val: Scores
    test: Scores
    seconds: float


class SearchReport(Record):
    """How a search went, for those who want to know whether to trust it.

    Args:
        settings: Of the strategy.
        seed: Of the search.
        epochs: Of the search that found the network.
        trials: The candidates that were trained, in that order.
        controls: What other networks come to.
        rank_correlation: Spearman's, of what the search had estimated of the candidates and what
            their training came to; none with fewer than five.
        training_seconds: Time of one training of the network found of all the recipe's epochs.
        candidate_seconds: Time that it took to choose among the candidates.
        warnings: What went wrong, a sentence each.
        stopped: Why the job ended early, if it did.
    """

    settings: dict[str, Any]
    seed: int
    epochs: int
    trials: tuple[Trial, ...]
    controls: tuple[Control, ...]
    rank_correlation: float | None
    training_seconds: float
    candidate_seconds: float
    warnings: tuple[str, ...]
    stopped: Literal["budget", "interrupt"] | None = None


class DataRecord(Record):
    """What a network was trained on, as far as it must know it of other data.

    Args:
        kind: One class per node, several labels per node, or a yes-or-no question.
        sha256: Of the graphs and their labels.
        normalize: Whether each node's features were scaled to sum to one.
        undirected: Whether the reverse of every edge was added.
        feature_names: The columns of a table in order; empty where there was none.
    """

    kind: Kind
    sha256: str
    normalize: bool
    undirected: bool
    feature_names: tuple[str, ...] = ()


class Result(Record):
    """What came out: an architecture and how well it does; ``result.json`` of a run.

    Examples:
        >>> task = pdnas.load_task("citeseer")
        >>> result = pdnas.train("gcn", task, seeds=2, recipe={"epochs": 5})
        >>> logits = result.model(task.graphs[0].x, task.graphs[0].edge_index)
        >>> names = result.classes(logits)
        >>> len(result.test.values), len(names)
        (2, 3327)

    Args:
        task: Name of the task.
        note: What must be said beside every figure on it.
        split: What was trained, chosen and tested on.
        strategy: How the architecture was searched for; none if it was given.
        space: Where it was searched for; none if it was given.
        architecture: The network's choices, or those of a published one.
        hidden: Its hidden size.
        in_channels: Features that it reads.
        out_channels: Logits that it gives.
        class_names: What the logits stand for; the two answers for a single one.
        parameters: Its number of weights, shortcuts included.
        recipe: How it was trained.
        metric: What the scores mean.
        val: Validation at the chosen epoch of each training.
        test: Test at the same epochs, read once each.
        epochs: The chosen epoch of each training.
        seeds: The seeds of the trainings, the same for each split.
        search_seconds: Time of the search.
        search: How the search went; none if there was none.
        tune_seconds: Time that the recipe's tuning took; 0 if it was not tuned.
        train_seconds: Time of all trainings.
        device: Where they ran.
        data: What the network was trained on; none in runs of early versions.
        version: Of pdnas.
    """

    task: str
    note: str = ""
    split: SplitRecord
    strategy: str | None = None
    space: str | None = None
    architecture: AnyDesign
    hidden: int
    in_channels: int
    out_channels: int
    class_names: tuple[str, ...]
    parameters: int
    recipe: dict[str, Any]
    metric: Metric
    val: Scores
    test: Scores
    epochs: tuple[int, ...]
    seeds: tuple[int, ...]
    search_seconds: float = 0.0
    search: SearchReport | None = None
    tune_seconds: float = 0.0
    train_seconds: float
    device: str
    data: DataRecord | None = None
    version: str = __version__

    _model: Network | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        check_hidden(self.hidden)
        trainings = max(1, len(self.split.members)) * len(self.seeds)
        counts = {len(self.val.values), len(self.test.values), len(self.epochs)}
        if not trainings or counts != {trainings}:
            raise RunError(
                f"The result of {trainings} training(s) has {sorted(counts)} values; run again."
            )
        if len(self.class_names) != max(2, self.out_channels):
            raise RunError(
                f"The result has {len(self.class_names)} class names for {self.out_channels} "
                "logit(s); run again."
            )
        if not 1 <= self.in_channels <= MOST_CHANNELS:
            raise RunError(f"The result has {self.in_channels} features per node; run again.")
        return self

    @property
    def model(self) -> Network:
        """The trained network, ``model(x, edge_index)``: the one with the best validation."""
        if self._model is None:
            raise RunError("This result has no weights; read it with pdnas.load_run, or train.")
        return self._model

    @property
    def kind(self) -> Kind:
        """One class per node, several labels per node, or a yes-or-no question."""
        if self.data is not None:
            return self.data.kind
        if self.out_channels == 1:
            return "binary"
        kinds: dict[str, Kind] = {"accuracy": "single-label", "micro-f1": "multi-label"}
        if self.metric not in kinds:
            raise RunError(
                f"The run on '{self.task}' is of an early version that does not say what kind of "
                "task it was on; train again."
            )
        return kinds[self.metric]

    def classes(self, logits: Tensor) -> Names:
        """The name of each node's class; for several labels per node a tuple of names each.

        Args:
            logits: What :attr:`model` returns, ``[N, C]``; of two classes it gives a single one,
                above 0 for the second.
        """
        check_logits(logits, self.out_channels)
        return names_of(numbers_of(logits, self.kind), self.kind, self.class_names)

    def with_weights(self, weights: Mapping[str, Tensor]) -> "Result":
        """This result with its network."""
        with torch.device("meta"):  # no memory and no random numbers for weights to be replaced
            network = make_network(self.architecture, self, self.hidden)
        try:
            network.load_state_dict(dict(weights), assign=True)
        except RuntimeError as error:
            reason = shown(" ".join(str(error).split()).rstrip("."), 400)
            raise RunError(
                f"The weights do not fit the architecture ({reason}); train again."
            ) from None
        result = self.model_copy()
        result._model = network.eval()
        return result

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        """In a line; :meth:`model_dump` has all of it."""
        return (
            f"Result({self.task}: test {self.metric} {self.test} %, validation {self.val} %, "
            f"{self.parameters:,} parameters)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the network, how well it does, and what it is compared with."""
        name, found = "found" if self.search else "trained", self.architecture
        controls = self.search.controls if self.search else ()
        rows = [
            ["network", *FIGURES],
            [name, *figures(self.val, self.test, self.parameters, self.train_seconds)],
            *([c.name, *figures(c.val, c.test, c.parameters, c.seconds)] for c in controls),
        ]
        title = f"{self.task}{noted(self.note)}, split {self.split.name}: {self.metric} in %"
        picture = draw_svg(found, self, self.hidden) if isinstance(found, Architecture) else ""
        lines = [f"hidden size {self.hidden}, on {self.device}"]
        lines += self.search.warnings if self.search else ()
        return (
            f"<div><p><b>{escape(title)}</b></p>{html_table(rows)}"
            + "".join(f"<p>{escape(line)}</p>" for line in lines)
            + f"{picture}</div>"
        )

    def summary(self) -> str:
        """The result in a few lines."""
        count = len(self.test.values)
        task = f"{self.task} ({self.note})" if self.note else self.task
        low, high = self.test.interval or (math.nan, math.nan)
        sure = f", 95 % interval {100 * low:.2f} to {100 * high:.2f}" if self.test.interval else ""
        return (
            f"{task}, split {self.split.name}: test {self.metric} {self.test} %{sure} "
            f"({count} run{'s' if count > 1 else ''}, validation {self.val} %)\n"
            f"{self.architecture}\n"
            f"hidden {self.hidden}, {self.parameters:,} parameters, "
            f"{self.search_seconds + self.train_seconds:.1f} s on {self.device}"
        )


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the trained network says of every node of the graphs that it was trained on.

    Args:
        logits: ``[N, C]``, graph after graph.
        labels: Classes ``[N]``, -1 where unknown, or zeros and ones ``[N, K]``.
        part: ``[N]``, 0 for none, 1 train, 2 val, 3 test.
        graph: ``[N]``, the number of each node's graph.
        node_ids: The user's own names of the nodes; empty where there are none.
    """

    logits: Tensor
    labels: Tensor
    part: Tensor
    graph: Tensor
    node_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        nodes = self.logits.size(0)
        counts = {len(field) for field in (self.labels, self.part, self.graph)}
        if self.logits.dim() != 2 or counts != {nodes} or len(self.node_ids) not in (0, nodes):
            raise RunError(f"The predictions of {nodes} nodes do not fit together.")

    def check(self, result: Result) -> None:
        """Refuse what no network of a result can have said, of no nodes that there can be."""
        classes, nodes = len(result.class_names), self.logits.size(0)
        is_many = self.labels.dim() == 2
        highest = 1 if is_many else classes - 1
        fields = {"labels": (self.labels, UNLABELLED, highest), "part": (self.part, 0, 3)}
        fields["graph"] = (self.graph, 0, nodes - 1)
        if (
            not nodes
            or not self.logits.is_floating_point()
            or self.logits.size(1) != result.out_channels
            or self.labels.shape != ((nodes, classes) if is_many else (nodes,))
        ):
            raise RunError(
                f"Logits {list(self.logits.shape)} and labels {list(self.labels.shape)} are not "
                f"those of a network of {classes} classes."
            )
        for name, (field, least, most) in fields.items():
            if (
                field.is_floating_point()
                or not least <= int(field.min()) <= int(field.max()) <= most
            ):
                raise RunError(f"The field '{name}' is not made of whole numbers to {most}.")


class AnySettings(Record):
    """Which command a run is of; the rest of its settings is that command's own."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    command: Literal["train", "search", "tune", "compare", "reproduce"]


class RunDirectory:
    """A folder with one run in it; every file is written whole or not at all.

    Args:
        path: The folder, which exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made = path

    @classmethod
    def create(cls, path: str | Path | None, label: str) -> "RunDirectory":
        """A new run directory.

        Args:
            path: Where; by default ``runs/LABEL-DATE-TIME``.
            label: What the run is about.
        """
        stamp = f"{datetime.now():%Y%m%d-%H%M%S-%f}"
        folder = Path(path) if path is not None else Path("runs") / f"{label}-{stamp}"
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        try:
            folder.mkdir(parents=True)
            (folder / CHECKPOINT.parent).mkdir()
        except FileExistsError:
            if not folder.is_dir():
                raise RunError(
                    f"The run directory '{folder}' is a file; give another --run-dir."
                ) from None
            advice = f", or go on with it: pdnas resume {folder}"
            if not (folder / SETTINGS).is_file():
                advice = " that is not there yet; it holds no run"
            raise RunError(
                f"The run directory '{folder}' exists already; give another --run-dir{advice}."
            ) from None
        except OSError as error:
            raise RunError(
                f"The run directory '{folder}' cannot be made ({error.strerror}); give a "
                "--run-dir that you may write to."
            ) from None
        run = cls(folder)
        run._made = missing[-1]
        return run

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        """An existing run directory."""
        if not (Path(path) / SETTINGS).is_file():
            raise RunError(
                f"'{path}' is not a run directory: it has no {SETTINGS}; give the path that a "
                "command printed after 'run:'."
            )
        return cls(Path(path))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out while a run is worked on; one that dies lets go of it."""
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise RunError(
                f"The run '{self.path}' is worked on by another process; wait for it, or give "
                "another directory."
            ) from None
        except OSError as error:
            raise self._cannot_write(LOCK, error) from None
        try:
            yield
        finally:
            lock.release()

    def discard(self) -> None:
        """Delete the run, of which nothing was computed yet, and the folders made for it alone."""
        shutil.rmtree(self.path)
        for place in self.path.parents:
            if not place.is_relative_to(self._made) or any(place.iterdir()):
                break
            place.rmdir()

    def write_json(self, name: str | Path, value: BaseModel | Mapping[str, Any]) -> None:
        """Write a value; non-finite numbers are an error."""
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        text = json.dumps(plain, indent=2, allow_nan=False) + "\n"
        self._write(name, text.encode())

    def has(self, name: str | Path) -> bool:
        return (self.path / name).is_file()

    def read_record(self, name: str | Path, kind: type[R]) -> R:
        """Read a record that :meth:`write_json` wrote."""
        path = self.path / name
        try:
            return kind.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise RunError(
                f"The run '{self.path}' has no {name}; finish it with: pdnas resume {self.path}."
            ) from None
        except OSError as error:
            raise RunError(
                f"'{path}' cannot be read ({error.strerror}); check its permissions."
            ) from None
        except ValidationError as error:
            raise RunError(
                f"'{path}' is damaged, or of another version of pdnas: "
                f"{first_complaint(error).rstrip('.')}; run again."
            ) from None
        except UnknownNameError as error:
            raise RunError(
                f"'{path}' has a name that is not registered here; if it is of your own, import "
                f"the module that registers it first ({str(error).rstrip('.')})."
            ) from None
        except PdnasError as error:
            raise RunError(f"'{path}' is damaged: {error}") from None

    def write_weights(self, name: str | Path, weights: Mapping[str, Tensor]) -> None:
        """Write the weights of a network."""
        plain = {key: weight.detach().cpu().contiguous() for key, weight in weights.items()}
        self._write(name, save(plain))

    def read_weights(self, name: str | Path) -> dict[str, Tensor]:
        """Read what :meth:`write_weights` wrote; no code is run by it."""
        path = self.path / name
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            reason = shown(" ".join(str(error).split()).rstrip("."), 200)
            remedy = f"have them written again with: pdnas resume {self.path}"
            if name != WEIGHTS:  # what resume goes on from
                remedy = "start the run again in another directory"
            raise RunError(f"The weights '{path}' cannot be read ({reason}); {remedy}.") from None

    def write_predictions(self, predictions: Predictions) -> None:
        """Write what the trained network says of the graphs that it was trained on."""
        ids = json.dumps(predictions.node_ids).encode()
        tensors = {
            "logits": predictions.logits.float(),
            "labels": predictions.labels.long(),
            "part": predictions.part.to(torch.uint8),
            "graph": predictions.graph.long(),
            "node_ids": torch.frombuffer(bytearray(ids), dtype=torch.uint8),
        }
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        self._write(PREDICTIONS, save(plain))

    def read_predictions(self, result: Result | None = None) -> Predictions:
        """Read what :meth:`write_predictions` wrote.

        Args:
            result: What they must fit; none: they are taken as they are.
        """
        path = self.path / PREDICTIONS
        if not path.is_file():
            raise RunError(
                f"The run '{self.path}' holds no predictions: it is not finished, or of an early "
                "version; finish it with pdnas resume, or give the data to pdnas predict."
            )
        try:
            tensors = load_file(path)
            ids = json.loads(tensors.pop("node_ids").numpy().tobytes())
            found = Predictions(**tensors, node_ids=_NAMES.validate_python(ids, strict=False))
            if result is not None:
                found.check(result)
        except (
            *(OSError, SafetensorError, RunError, RecursionError),
            *(KeyError, IndexError, TypeError, ValueError),
        ) as error:
            reason = shown(" ".join(str(error).split()).rstrip("."), 300)
            raise RunError(
                f"The predictions '{path}' cannot be read ({reason}); give the data to pdnas "
                "predict, or run again."
            ) from None
        return found

    def write_state(self, name: Path, tensors: Mapping[str, Tensor], about: BaseModel) -> None:
        """Write the state of something that goes on; the state before it is kept beside it.

        Args:
            name: Of the file.
            tensors: The state.
            about: What belongs to it.
        """
        plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        path, before = self.path / name, self.path / _before(name)
        try:
            if path.exists():
                path.replace(before)
        except OSError as error:
            raise self._cannot_write(name, error) from None
        self._write(name, save(plain, {"about": about.model_dump_json()}))

    def read_states(self, name: Path, kind: type[R]) -> Iterator[tuple[dict[str, Tensor], R] | str]:
        """What :meth:`write_state` wrote, the latest first; a sentence for a damaged one."""
        for path in (self.path / name, self.path / _before(name)):
            if not path.exists():
                continue
            try:
                with safe_open(path, framework="pt") as file:
                    note = (file.metadata() or {}).get("about", "{}")
                    about = kind.model_validate_json(note)
                    tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            except (OSError, SafetensorError, ValidationError) as error:
                reason = shown(" ".join(str(error).split()).rstrip("."), 200)
                if isinstance(error, ValidationError):
                    reason = first_complaint(error)
                if not isinstance(error, OSError):
                    path.unlink()  # it must not take the place of the state before it
                yield f"The checkpoint '{path}' is damaged and is not used: {reason}."
            else:
                yield tensors, about

    def remove(self, name: Path) -> None:
        """Delete a file, what :meth:`write_state` kept beside it, and drafts that were left."""
        for path in (self.path / name, self.path / _before(name)):
            path.unlink(missing_ok=True)
        for draft in (self.path / name).parent.glob(f".{name.name}.*"):
            draft.unlink(missing_ok=True)

    def append_history(self, lines: Sequence[Mapping[str, Any]], *, durable: bool = True) -> int:
        """Add lines to the history; its length in bytes afterwards.

        Args:
            lines: One dictionary each.
            durable: Wait until the disk has them.
        """
        text = "".join(
            json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines
        )
        try:
            with (self.path / HISTORY).open("ab") as file:
                file.write(text.encode())
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                return file.tell()
        except OSError as error:
            raise self._cannot_write(HISTORY, error) from None

    def cut_history(self, length: int) -> None:
        """Forget what was added to the history after it had that many bytes."""
        path = self.path / HISTORY
        there = path.stat().st_size if path.exists() else 0
        if there < length:
            raise RunError(
                f"'{path}' is damaged: it has {there} bytes of the {length} that were recorded; "
                "start the run again in another directory."
            )
        if there > length:
            os.truncate(path, length)

    def result(self) -> Result:
        """The result of a finished run, with its network."""
        return self.read_record(RESULT, Result).with_weights(self.read_weights(WEIGHTS))

    def _write(self, name: str | Path, content: bytes) -> None:
        try:
            write_whole(self.path / name, content)
        except OSError as error:
            raise self._cannot_write(name, error) from None

    def other_data(self, how: str) -> RunError:
        """What is said of a run that cannot go on, since its data are no longer the same.

        Args:
            how: In what they differ.
        """
        return RunError(
            f"The run '{self.path}' was begun {how}: its data have changed; start a new run, or "
            "bring back the data."
        )

    def _cannot_write(self, name: str | Path, error: OSError) -> RunError:
        return RunError(
            f"'{self.path / name}' cannot be written ({error.strerror}); make room for it or "
            "check its permissions."
        )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole or, after an error, as it was before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _before(name: Path) -> Path:
    """Where the state before the latest is kept."""
    return name.with_name(f"{name.stem}.previous{name.suffix}")


def environment(device: torch.device, threads: int) -> dict[str, Any]:
    """What a result may depend on beside its settings."""
    packages = ("torch", "torch-geometric", "torchmetrics", "numpy", "scipy", "pydantic")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "pdnas": __version__,
        "python": platform.python_version(),
        "packages": {package: version(package) for package in packages},
        "system": platform.system(),
        "device": str(device),
        "device_name": name,
        "threads": threads,
    }


def load_run(path: str | Path) -> Result:
    """The result of a finished run, with its trained network.

    Examples:
        >>> trained = pdnas.train("gcn", "citeseer", recipe={"epochs": 5}, run_dir="run")
        >>> pdnas.load_run("run").test == trained.test
        True

    Args:
        path: The run directory.
    """
    return RunDirectory.open(path).result()
