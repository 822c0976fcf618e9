"""How far a job has come, and the best weights so far: in memory, and in its run."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from pdnas.errors import RunError, shown
from pdnas.job import Mark, Progress
from pdnas.runs import (
    ARCHITECTURE,
    FOLDER,
    PIPELINE,
    RESULT,
    SEARCH_STATE,
    WEIGHTS,
    Result,
    RunDirectory,
)
from pdnas.search import Search
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.parallel import by_first
from pdnas.training.predictions import predict_task


class Ledger:
    """How far a job has come, and the best weights so far; what is finished is not done again.

    Args:
        run: Where it is written down as well. Of several ranks the first alone has one.
        started: When the budget began to run, by ``time.monotonic``.
        tell: Told what the user should know.
    """

    progress: Progress

    def __init__(
        self, run: RunDirectory | None, started: float, tell: Callable[[str], None]
    ) -> None:
        self.run, self._started, self._tell = run, started, tell
        self._kept: dict[str, dict[str, Tensor]] = {}

    @property
    def job_recipe(self) -> Recipe | None:
        """The recipe of the job as the run says, with what a step sees decided."""
        if self.run is None or not self.run.has(PIPELINE):
            return None
        return self.run.read_record(PIPELINE, Progress).job_recipe

    @property
    def weights(self) -> dict[str, Tensor]:
        """The best so far; nothing before the first training."""
        return self._kept.get(self.progress.weights or "", {})

    def begin(self, progress: Progress) -> None:
        """Start with a new plan."""
        self.progress = progress
        if self.run is not None:
            self.run.cut_history(0)
            self.run.write_json(PIPELINE, progress)

    def forget_unfinished(self) -> None:
        """Cut the history to what is finished."""
        if self.run is not None:
            self.run.cut_history(self.progress.history_bytes)

    def resume(self, task: GraphTask, cells: int) -> bool:
        """Go on where the run ended; false: it is a new one.

        Args:
            task: What the job is on; it must be what the run was begun on.
            cells: How many the grid has.
        """
        recorded = by_first(lambda: self._recorded(task, cells))
        if recorded is None:
            return False
        self.progress, self._kept = recorded
        self._started = time.monotonic() - self.progress.seconds
        return True

    def _recorded(
        self, task: GraphTask, cells: int
    ) -> tuple[Progress, dict[str, dict[str, Tensor]]] | None:
        """How far the run has come, and the weights that it keeps; none: it is a new one."""
        if self.run is None or not self.run.has(PIPELINE):
            return None
        progress, kept = self.run.read_record(PIPELINE, Progress), {}
        if progress.split != task.split.sha256:
            raise self.run.other_data("on another split")
        if progress.data not in ("", task.source.sha256):
            raise self.run.other_data("with other features, edges or labels")
        if progress.weights is not None:
            kept[progress.weights] = self.run.read_weights(FOLDER / progress.weights)
        if len(progress.cells) == cells:
            self.run.cut_history(progress.history_bytes)
        return progress, kept

    def elapsed(self) -> float:
        """Seconds of the job, those before it was resumed included."""
        return time.monotonic() - self._started

    def note_time(self) -> None:
        """Write down the time spent, so that a budget does not begin again with a resumed run."""
        self.progress = self.progress.model_copy(update={"seconds": self.elapsed()})
        if self.run is not None:
            self.run.write_json(PIPELINE, self.progress)

    def record(self, lines: Sequence[dict[str, Any]], **update: Any) -> None:
        """Write down what is finished: first its history, then the fact."""
        length = self.progress.history_bytes
        if self.run is not None:
            length = self.run.append_history(lines)
        self.progress = self.progress.model_copy(
            update={**update, "seconds": self.elapsed(), "history_bytes": length}
        )
        if self.run is not None:
            self.run.write_json(PIPELINE, self.progress)

    def finish(
        self,
        lines: Sequence[dict[str, Any]],
        name: str | None,
        weights: dict[str, Tensor],
        **update: Any,
    ) -> None:
        """Write down a training; its weights too, under a name, if they are the best so far.

        They are written first and named in the record, and those that they replace are deleted
        last: whenever the job dies, the record and the weights fit each other.
        """
        old = self.progress.weights
        if name is not None:
            file = f"{name}.safetensors"
            self._kept[file] = {key: weight.detach().cpu() for key, weight in weights.items()}
            if self.run is not None:
                self.run.write_weights(FOLDER / file, self._kept[file])
            update["weights"] = file
        self.record(lines, **update)
        if name is not None and old is not None:
            self._kept.pop(old)
            if self.run is not None:
                self.run.remove(FOLDER / old)

    def lose(self, key: str, reason: str) -> None:
        """Write down what diverged: it is not tried again, and of a control nothing is shown."""
        self._tell(reason)
        controls = {name: done for name, done in self.progress.controls.items() if name != key}
        self.record([], controls=controls, lost={**self.progress.lost, key: reason})

    def append(self, line: dict[str, Any]) -> int:
        """Add an epoch of a search to the history; its length in bytes afterwards."""
        return 0 if self.run is None else self.run.append_history([line], durable=False)

    def save(self, search: Search, mark: Mark) -> None:
        """Write a checkpoint; a disk that is full is reported and does not end the search."""
        assert self.run is not None
        try:
            self.run.append_history([])  # the checkpoint counts on what was written there
            self.run.write_state(SEARCH_STATE, search.state(), mark)
        except RunError as error:
            self._tell(f"{error} The search goes on; its checkpoint is an earlier one.")

    def restore(self, search: Search, number: int) -> tuple[float, bool]:
        """Go on from the latest whole checkpoint: its seconds, and whether that was enough."""
        state = by_first(lambda: self._saved(number))
        if state is None:
            return 0.0, False
        tensors, mark = state
        try:
            search.restore(tensors)
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            assert self.run is not None
            raise RunError(
                f"The checkpoint '{self.run.path / SEARCH_STATE}' does not fit its search "
                f"({shown(' '.join(str(error).split()).rstrip('.'), 200)}); delete it to "
                "begin that search again, or start a new run."
            ) from None
        self._started = time.monotonic() - max(self.elapsed(), mark.elapsed)
        return mark.seconds, mark.stopped

    def _saved(self, number: int) -> tuple[dict[str, Tensor], Mark] | None:
        """The latest whole checkpoint of a search, if there is one; the history is cut to it."""
        if self.run is None:
            return None
        for state in self.run.read_states(SEARCH_STATE, Mark):
            if isinstance(state, str):
                self._tell(state)
                continue
            if state[1].cell == number:
                self.run.cut_history(state[1].history_bytes)
                return state
        self.run.cut_history(self.progress.history_bytes)
        return None

    def forget_checkpoint(self) -> None:
        """Delete the checkpoint of a search that is over."""
        if self.run is not None:
            self.run.remove(SEARCH_STATE)

    def write_result(self, result: Result, task: GraphTask) -> Result:
        """Write down what came out, with what it says of the graphs of its task."""
        if self.run is not None:
            self.run.write_json(ARCHITECTURE, result.architecture)
            self.run.write_weights(WEIGHTS, result.model.state_dict())
            self.run.write_predictions(predict_task(result, task))
            self.run.write_json(RESULT, result)
        return result
