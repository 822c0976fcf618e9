"""Jobs at work, told to TensorBoard: scalars, probabilities and the final hyper-parameters."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from pdnas.errors import PdnasError
from pdnas.ops import SLOTS
from pdnas.runs import Record, Result, RunDirectory
from pdnas.search import Search, SearchEpoch
from pdnas.search.shared import fitting_gates
from pdnas.training.fit import Epoch
from pdnas.watcher import Watcher

FOLDER = "tensorboard"
"""Where in a run directory the events lie."""


def check_tensorboard() -> None:
    """Refuse to begin what is to be told to TensorBoard where that is not installed."""
    if find_spec("tensorboard") is None:
        raise PdnasError(
            "--tensorboard needs the package tensorboard, which is not installed; install it with: "
            "pip install 'pdnas[tensorboard]'."
        )


class TensorBoard(Watcher):
    """Writes what happens as events; look at them with ``tensorboard --logdir RUN``.

    A search is told as ``search 2x32/...`` (blocks x hidden size), its choices as
    ``probabilities 2x32/block 0/attention/gat`` and ``gates 2x32/0-1``, trainings as
    ``found, seed 0/val``.

    Args:
        folder: Where to; in a run directory ``tensorboard``.
        settings: What the final figures are the result of; nested values get dotted names.
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]) -> None:
        check_tensorboard()
        from torch.utils.tensorboard import SummaryWriter  # it takes a second to import

        self._settings = dict(plain(settings))
        self._writer = SummaryWriter(str(folder), flush_secs=5)

    @classmethod
    def of_run(cls, run: RunDirectory, settings: Record) -> "TensorBoard":
        """One that writes to a run directory what it was asked for and what comes of it."""
        return cls(run.path / FOLDER, settings.model_dump(mode="json"))

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        problem, details = search.problem, epoch.details
        shape = f"{problem.num_blocks}x{problem.hidden}"
        self._add(f"search {shape}", epoch.epoch, _figures(epoch))
        if "temperature" in details:
            self._add(f"search {shape}", epoch.epoch, {"temperature": details["temperature"]})
        for block, slots in enumerate(details.get("op_probs", ())):
            last = block == problem.num_blocks - 1
            for slot, probs in zip(SLOTS, slots, strict=True):
                names = map(str, problem.space.candidates(slot, last=last))
                shares = dict(zip(names, (prob / 1000 for prob in probs), strict=True))
                if len(shares) > 1:
                    self._add(f"probabilities {shape}/block {block}/{slot}", epoch.epoch, shares)
        if "gate_probs" in details:
            gates = [f"{i}-{j}" for i, j in fitting_gates(problem).nonzero().tolist()]
            shares = dict(zip(gates, (p / 1000 for p in details["gate_probs"]), strict=True))
            self._add(f"gates {shape}", epoch.epoch, shares)

    def trained(self, what: str, epoch: Epoch) -> None:
        self._add(what, epoch.epoch, _figures(epoch))

    def shown(self, number: int, epoch: Epoch) -> None:
        """Tell of an epoch of the training of that number."""
        self.trained(f"training {number + 1}", epoch)

    def noted(self, sentence: str) -> None:
        self._writer.add_text("notes", sentence)

    def ended(self, result: Result) -> None:
        figures = {
            "final/test": result.test.mean,
            "final/val": result.val.mean,
            "final/parameters": float(result.parameters),
            "final/search_seconds": result.search_seconds,
            "final/train_seconds": result.train_seconds,
        }
        self._writer.add_text("architecture", str(result.architecture))
        # By default the figures would go to a folder named after the time.
        self._writer.add_hparams(self._settings, figures, run_name=".")

    def _add(self, group: str, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)


def plain(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as names with dots and values that TensorBoard can show."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from plain(value, f"{prefix}{name}.")
        else:
            keeps = isinstance(value, bool | int | float | str)
            yield prefix + name, value if keeps else str(value)


def _figures(epoch: Epoch | SearchEpoch) -> dict[str, float]:
    return {"train_loss": epoch.train_loss, "val_loss": epoch.val_loss, "val": epoch.val}
