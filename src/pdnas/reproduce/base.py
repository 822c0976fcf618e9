"""What every table of the paper has: work to do, the paper's figures, a table and a picture."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pdnas.errors import RunError
from pdnas.files import write_whole
from pdnas.registry import Registry
from pdnas.reproduce.work import Leg, SearchedWork, TableWork, controls
from pdnas.runs import Record, Scores
from pdnas.settings import WorkerFlags
from pdnas.tasks import GraphTask, load_task
from pdnas.tuning.pieces import RUNS, Pieces, PieceWatcher, open_folder
from pdnas.tuning.place import open_executor

TASKS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
"""The citation graphs, and how they are written."""

ANOTHER = (
    "holds something else: another table, a quick one beside a whole one, or a run; give another "
    "--output."
)
"""Why a folder with other settings is refused."""


class Figure(Record):
    """What stands in a cell of a table.

    Args:
        scores: Test of all final trainings.
        val: Validation of them.
        parameters: Mean number of weights.
        choose_seconds: Mean time of the search.
        tune_seconds: Mean time of the tuning.
        train_seconds: Mean time of one final training.
    """

    scores: Scores
    val: Scores
    parameters: float
    choose_seconds: float
    tune_seconds: float
    train_seconds: float

    @classmethod
    def of(cls, legs: Sequence[Leg]) -> "Figure":
        """Sum up the same network, or the same search, over searches or splits."""
        test = [value for leg in legs for value in leg.test]
        val = [value for leg in legs for value in leg.val]
        count = len(legs)
        return cls(
            scores=Scores.of(test, count),
            val=Scores.of(val, count),
            parameters=sum(leg.parameters for leg in legs) / count,
            choose_seconds=sum(leg.search_seconds for leg in legs) / count,
            tune_seconds=sum(leg.tune_seconds for leg in legs) / count,
            train_seconds=sum(leg.train_seconds for leg in legs) / len(test),
        )

    def __str__(self) -> str:
        interval = self.scores.interval
        span = f" [{100 * interval[0]:.2f}, {100 * interval[1]:.2f}]" if interval else ""
        return f"{self.scores}{span} ({self.parameters / 1000:.1f}K)"


Records = Mapping[str, Leg]
"""What is done, by the key of the work."""

Watcher = PieceWatcher[Leg]
"""Whoever wants to see a table grow."""


class Table(ABC):
    """A table of the paper."""

    name: ClassVar[str]
    tasks: ClassVar[Mapping[str, str]] = TASKS
    """What it is on, and how that is written."""
    split: ClassVar[str]
    """Which split its tasks are on."""
    seeds: int | None = None
    """Final trainings of every network, where that may be chosen."""

    @abstractmethod
    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        """What there is to do, by key, as far as what is done allows; all of it every time.

        Args:
            done: What is done.
            quick: Whether a look is enough.
            searches: How many searches of each kind.
        """

    @abstractmethod
    def markdown(self, done: Records) -> str:
        """Ours and the paper's figures."""

    @abstractmethod
    def draw(self, done: Records, path: Path) -> None:
        """Write a picture of it."""


TABLES: Registry[str, type[Table]] = Registry("table")


def reproduce(
    name: str,
    folder: Path,
    *,
    quick: bool = False,
    workers: int | WorkerFlags = 1,
    threads: int = 1,
    device: str = "auto",
    data_root: str | Path | None = None,
    searches: int = 3,
    seeds: int | None = None,
    only: Sequence[str] | None = None,
    on_done: Watcher | None = None,
) -> Table:
    """Do what a table needs and is not done yet, and write the table and the picture.

    Args:
        name: Of the table.
        folder: Where everything is written; what is there is not done again.
        quick: A small version of it, for a look.
        workers: How many processes work side by side, or another place for the work.
        threads: CPU threads of each.
        device: Where.
        data_root: Where the data sets are.
        searches: How many searches of each kind, with seeds from 0; one where it is quick.
        seeds: How many final trainings of each network, where the table leaves that open; by
            default as many as the paper has.
        only: Tasks to take; by default all of the table's.
        on_done: Told of what is done.
    """
    table, watcher = TABLES[name](), on_done or Watcher()
    only = tuple(table.tasks) if only is None else only
    for task in only:
        if task not in table.tasks:
            raise RunError(f"The table has no task '{task}'; it has {', '.join(table.tasks)}.")
    if not only or len(set(only)) < len(only):
        raise RunError(f"--only has {list(only)}; name at least one task, each of them once.")
    if seeds is not None and table.seeds is None:
        raise RunError(f"The table '{name}' has its own numbers of seeds; leave out --seeds.")
    table.seeds = table.seeds if seeds is None else seeds
    who = WorkerFlags.of(workers)
    who.check(device)
    settings = {"command": "reproduce", "table": name, "quick": quick}
    run = open_folder(folder, settings, lambda _: ANOTHER)
    chosen = [task for task in table.tasks if task in only]
    tasks: dict[str, GraphTask] = {
        task: load_task(
            task, split=table.split, split_seed=_first(table.split), data_root=data_root
        )
        for task in chosen
    }
    pieces, count = Pieces(run, Leg, "table"), 1 if quick else searches

    def works(done: Records) -> dict[str, TableWork]:
        made = table.works(done, quick=quick, searches=count)
        return {k: work.model_copy(update={"sharers": who.sharers}) for k, work in made.items()}

    with (
        run.alone(),
        open_executor(tasks, who, device=device, threads=threads) as executor,
    ):
        pieces.finish(works, executor, tasks=tasks, watcher=watcher)
    done = pieces.done
    for key, work in works(done).items():
        if key in done:
            _check_is_of(done[key], work, folder / RUNS / f"{key}.json")
    note = "\n\n**Quick**: a small version of the table, for a look only.\n" if quick else "\n"
    text = table.markdown(done) + note
    write_whole(folder / "table.md", text.encode())
    table.draw(done, folder / "picture.svg")
    return table


def _check_is_of(leg: Leg, work: TableWork, path: Path) -> None:
    """Refuse what cannot have come of a work, of which a table would be made."""
    came = (leg.task, leg.row, leg.seed, bool(leg.val), bool(leg.test))
    if came != (work.task, work.row, work.seed, work.is_tested, work.is_tested):
        raise RunError(
            f"'{path}' is damaged: it is of other work than its name says, or of no training; "
            "delete it and run again."
        )


def group(done: Records, task: str, row: str) -> list[Leg]:
    """All networks of a row on a task, in the order of their splits and seeds."""
    legs = (leg for leg in done.values() if (leg.task, leg.row) == (task, row))
    return sorted(legs, key=lambda leg: (leg.split_seed or 0, leg.seed))


def compared(
    done: Records, key: str, work: SearchedWork, names: Sequence[str]
) -> dict[str, TableWork]:
    """What a search is compared with, by key, as soon as it is done."""
    if key not in done:
        return {}
    made = controls(work, done[key], names)
    return {f"{key}-{name}": control for name, control in made.items()}


def rows_of(done: Records, rows: Iterable[str], cell: Callable[[Figure], str]) -> list[str]:
    """A line of a Markdown table for each row of which something is done, a cell for each task."""
    lines = []
    for row in rows:
        groups = [group(done, task, row) for task in TASKS]
        if any(groups):
            cells = [cell(Figure.of(legs)) if legs else "-" for legs in groups]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines


def heading(what: str) -> list[str]:
    """The first two lines of a Markdown table with a column for each task."""
    return [f"| {what} | " + " | ".join(TASKS.values()) + " |", "|---" * (len(TASKS) + 1) + "|"]


def validation(done: Records, rows: Iterable[str]) -> list[str]:
    """A table of what was reached on validation, by which everything is chosen."""
    return [*heading("validation in %"), *rows_of(done, rows, lambda figure: str(figure.val))]


def _first(split: str) -> int | None:
    return 0 if split == "random" else None
