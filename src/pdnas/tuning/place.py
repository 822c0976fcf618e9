"""Where trials run: what was asked for becomes an executor."""

from collections.abc import Mapping

from pdnas.settings import WorkerFlags
from pdnas.tasks import GraphTask
from pdnas.tuning.executor import Executor
from pdnas.tuning.local import LocalExecutor


def open_executor(
    tasks: Mapping[str, GraphTask],
    asked: WorkerFlags,
    *,
    device: str = "auto",
    threads: int = 1,
) -> Executor:
    """A place to do work, to be used as a context.

    Args:
        tasks: What the work is on, by name.
        asked: Which place, and how much of it.
        device: Where processes of this machine compute; on Ray, GPUs say that.
        threads: CPU threads of each piece of work.
    """
    asked.check()
    if asked.executor == "local":
        return LocalExecutor(
            tasks,
            workers=asked.workers or 1,
            device=device,
            threads=threads,
            timeout=asked.trial_timeout,
        )
    from pdnas.tuning.ray import RayExecutor

    return RayExecutor(
        tasks,
        address=asked.ray_address or "auto",
        workers=asked.workers,
        gpus=asked.gpus_per_trial or 0.0,
        threads=threads,
        timeout=asked.trial_timeout,
    )
