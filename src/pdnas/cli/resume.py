"""``pdnas resume``: go on where a run stopped."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from pdnas.cli.flags import OutputFlags
from pdnas.cli.train import TrainSettings, execute
from pdnas.runs import SETTINGS, RunDirectory


@dataclass(frozen=True)
class Command:
    """Go on where a run stopped; what is finished is not done again, and nothing is lost."""

    run_dir: tyro.conf.Positional[Path]
    """the run directory"""
    json: bool = False
    """print the result as one line of JSON instead of tables"""
    quiet: bool = False
    """no progress and no table"""

    def run(self) -> int:
        """Finish the run and show its result."""
        run = RunDirectory.open(self.run_dir)
        settings = run.read_record(SETTINGS, TrainSettings)
        task = settings.task.load().named(settings.task_name)
        return execute(settings, task, OutputFlags(json=self.json, quiet=self.quiet), run)
