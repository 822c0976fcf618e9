"""What came out of a run: the network, how well it does, and how the search for it went."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal, Self

import torch
from pydantic import PositiveFloat, PrivateAttr, model_validator
from torch import Tensor

from pdnas import __version__
from pdnas.answers import Names, check_logits, names_of, numbers_of
from pdnas.architecture import Architecture, check_hidden
from pdnas.diagram import draw_svg
from pdnas.errors import RunError, shown
from pdnas.models import AnyDesign, Network, make_network
from pdnas.notebook import figures, headings, html_table, noted
from pdnas.runs.record import Count, Figure, Record, Seconds, Share
from pdnas.runs.scores import Scores
from pdnas.tasks.labels import Kind, Metric

MOST_CHANNELS = 1 << 40
"""More features than any graph has."""


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
    hidden: Count
    seed: Count
    shared_val: Figure | None
    val: Share
    epoch: Count
    epochs: Count
    rungs: tuple[Share, ...]
    seconds: Seconds


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
        seeds: Of its trainings; none in runs of early versions, which had those of the network
            found, and as many of them as there was time for.
    """

    name: str
    architecture: AnyDesign
    hidden: int
    parameters: int
    val: Scores
    test: Scores
    seconds: float
    seeds: tuple[int, ...] = ()

    def paired(self, seeds: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The places of each seed that is among these and among the control's own."""
        count = min(len(self.val.values), len(self.test.values))
        own = (self.seeds or tuple(seeds))[:count]
        return tuple((place, own.index(seed)) for place, seed in enumerate(seeds) if seed in own)


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
        means: What was subtracted from each feature; empty where nothing was.
        deviations: What each feature was then divided by.
    """

    kind: Kind
    sha256: str
    normalize: bool
    undirected: bool
    feature_names: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    deviations: tuple[PositiveFloat, ...] = ()


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
        if self.data is not None:
            scales = {len(self.data.means), len(self.data.deviations)}
            if scales not in ({0}, {self.in_channels}):
                raise RunError(
                    f"The result has scales of {sorted(scales)} features, but {self.in_channels} "
                    "features per node; run again."
                )
        return self

    @property
    def spent(self) -> dict[str, float]:
        """The seconds that the network took, by what they were spent on: not on controls."""
        return {
            "search": self.search_seconds,
            "choice": self.search.candidate_seconds if self.search else 0.0,
            "tuning": self.tune_seconds,
            "its own trainings": self.train_seconds,
        }

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
        fill(network, weights)
        result = self.model_copy()
        result._model = network.eval()
        return result

    @property
    def over(self) -> str:
        """What intervals are over: with several splits their means, else the seeds of one."""
        return "splits" if len(self.split.members) > 1 else "seeds"

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
            ["network", *headings(self.over)],
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
        sure = ""
        if self.test.interval is not None:
            low, high = (f"{100 * end:.2f}" for end in self.test.interval)
            sure = f", 95 % interval over {self.over} {low} to {high}"
        return (
            f"{task}, split {self.split.name}: test {self.metric} {self.test} %{sure} "
            f"({count} run{'s' if count > 1 else ''}, validation {self.val} %)\n"
            f"{self.architecture}\n"
            f"hidden {self.hidden}, {self.parameters:,} parameters, "
            f"{sum(self.spent.values()):.1f} s on {self.device}"
        )


def fill(network: Network, weights: Mapping[str, Tensor]) -> None:
    """Give a network its weights, or say why they are not its own.

    Args:
        network: Whose own weights are replaced; it need not have any memory for them.
        weights: By name.
    """
    kinds = {name: weight.dtype for name, weight in network.state_dict().items()}
    other = next((n for n, w in weights.items() if w.dtype != kinds.get(n, w.dtype)), None)
    try:
        if other is not None:
            raise RuntimeError(f"{other} is of {weights[other].dtype}, not of {kinds[other]}")
        network.load_state_dict(dict(weights), assign=True)
    except RuntimeError as error:
        reason = shown(" ".join(str(error).split()).rstrip("."), 400)
        raise RunError(
            f"The weights do not fit the architecture ({reason}); train again."
        ) from None
