"""The searches of a job: every depth with every hidden size."""

import itertools
from collections.abc import Sequence

from pdnas.errors import RunError, SearchError
from pdnas.job import Job, Progress
from pdnas.runs import Trial
from pdnas.search import Problem
from pdnas.tasks import GraphTask
from pdnas.watcher import Watcher


def grid(job: Job, task: GraphTask, watcher: Watcher) -> list[Problem]:
    """Every depth with every hidden size, without what no network fits into."""
    problems, refused = [], []
    for num_blocks, hidden in itertools.product(job.blocks, job.hidden):
        try:
            problem = Problem(
                task, job.space, num_blocks, hidden, job.recipe, job.max_parameters, job.seed
            )
        except SearchError as error:
            refused.append(error)
        else:
            problems.append(problem)
    if not problems:
        raise refused[0]
    for reason in refused:
        watcher.noted(f"Left out: {reason}")
    return problems


def check_incumbents(job: Job, problems: Sequence[Problem]) -> None:
    """Refuse a network that there is already but that is larger than one may be."""
    for architecture in job.incumbents:
        shaped = [p for p in problems if p.num_blocks == architecture.num_blocks]
        if not any(problem.fits(architecture) for problem in shaped):
            size = min(architecture.parameters(problems[0].task, hidden) for hidden in job.hidden)
            raise SearchError(
                f"An incumbent has {size:,} parameters with the smallest --hidden, but "
                f"--max-parameters is {job.max_parameters:,}; raise it, lower --hidden, or leave "
                "the incumbent out."
            )


def check_recorded(progress: Progress, job: Job, problems: Sequence[Problem]) -> None:
    """Refuse to go on from what is of another job: the file that says so is damaged.

    Args:
        progress: What was recorded.
        job: What is to be done.
        problems: The cells of its grid.
    """
    shapes = [(problem.num_blocks, problem.hidden) for problem in problems]
    searched = [(cell.num_blocks, cell.hidden) for cell in progress.cells]
    proposed = [
        (one.architecture, cell.hidden) for cell in progress.cells for one in cell.candidates
    ]
    tried = [*proposed, *((trial.architecture, trial.hidden) for trial in progress.trials)]
    what = None
    if searched != shapes[: len(searched)]:
        what = "a search of another shape"
    elif any(
        (net.num_blocks, hidden) not in shapes or net not in job.space for net, hidden in tried
    ):
        what = "a candidate of another shape or space"
    elif not progress.controls.keys() <= set(job.controls):
        what = "another control"
    if what is not None:
        raise RunError(
            f"The checkpoint of the run is damaged: it tells of {what} than its settings; start "
            "the run again in another directory."
        )


def problem_of(trial: Trial, problems: Sequence[Problem]) -> Problem:
    """The cell of the grid that a trial is of."""
    shape = trial.architecture.num_blocks, trial.hidden
    return next(problem for problem in problems if (problem.num_blocks, problem.hidden) == shape)
