"""Work that costs next to nothing, or a fixed time of one CPU: for what is around it."""

import time
from typing import Any

from pdnas.tasks import GraphTask
from pdnas.tuning.work import Report, Trained, TrainingOutcome, Work

ASKED = 25
"""The epoch at which work that costs nothing reports."""


class Tiny(Work):
    """A training that is over at once, and reports once as every training does.

    Args:
        val: What it comes to.
        seconds: Of a CPU that it takes beside that.
    """

    val: float
    seconds: float = 0.0

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        pruned = report(ASKED, self.val)
        began = time.process_time()
        while time.process_time() - began < self.seconds:
            pass
        training = Trained(
            seed=0, val=self.val, test=None, epoch=ASKED, epochs=ASKED, seconds=self.seconds
        )
        outcome = TrainingOutcome(trainings=(training,), parameters=1, pruned=pruned)
        return outcome.model_dump(mode="json")
