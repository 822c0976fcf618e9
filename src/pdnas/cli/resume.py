"""``pdnas resume``: go on where a run stopped."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from pdnas.cli import search, train
from pdnas.cli.flags import OutputFlags, WorkerChanges
from pdnas.errors import DeviceError, RunError, TaskError
from pdnas.runs import SETTINGS, AnySettings, RunDirectory
from pdnas.settings import SearchSettings, TrainSettings, check_data_root


@dataclass(frozen=True)
class Command:
    """Go on where a run stopped; what is finished is not done again, and nothing is lost."""

    run_dir: tyro.conf.Positional[Path]
    """the run directory"""
    workers: WorkerChanges = WorkerChanges()
    json: bool = False
    """print the result as one line of JSON instead of tables"""
    quiet: bool = False
    """no progress and no table"""

    def run(self) -> int:
        """Finish the run and show its result."""
        run = RunDirectory.open(self.run_dir)
        try:
            return self._go_on(run)
        except (TaskError, DeviceError) as error:
            raise RunError(
                f"The run '{run.path}' cannot go on as it was begun: {error} No flag changes "
                "that: put back what it needs, or start a new run."
            ) from None

    def _go_on(self, run: RunDirectory) -> int:
        output = OutputFlags(json=self.json, quiet=self.quiet)
        command = run.read_record(SETTINGS, AnySettings).command
        if command == "reproduce":
            raise RunError(
                f"'{run.path}' holds a table of the paper; go on with the command that it is of: "
                f"pdnas reproduce TABLE --output {run.path}."
            )
        if command == "compare":
            raise RunError(
                f"'{run.path}' holds a comparison; go on with the command that it is of: pdnas "
                f"compare TASK --output {run.path}."
            )
        if command == "tune":
            from pdnas.cli import tune

            tuned = run.read_record(SETTINGS, tune.TuneSettings)
            tuned = tuned.model_copy(update={"workers": self.workers.of(tuned.workers)})
            tuned.workers.check(tuned.device.device)
            check_data_root(tuned.task, run)
            task = tuned.task.load().named(tuned.task_name)
            return tune.execute(tuned, task, output, run)
        if command == "search":
            searched = run.read_record(SETTINGS, SearchSettings)
            searched = self._done_by_others(searched)
            return search.execute(searched, searched.load_task(run), output, run)
        if self.workers != WorkerChanges():
            raise RunError(
                f"'{run.path}' holds trainings, which are done one after the other; --workers, "
                "--executor and the like say who does the trials of tune and the searches of a "
                "grid, so leave them out."
            )
        trained = run.read_record(SETTINGS, TrainSettings)
        return train.execute(trained, trained.load_task(run), output, run)

    def _done_by_others(self, settings: SearchSettings) -> SearchSettings:
        """The settings of a search, with who does it from now on."""
        if self.workers == WorkerChanges():
            return settings
        settings = settings.model_copy(update={"workers": self.workers.of(settings.workers)})
        search.check_workers(
            settings.workers,
            settings.job,
            device=settings.device.device,
            tensorboard=settings.tensorboard,
            begun=True,
        )
        return settings
