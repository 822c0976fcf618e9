"""The files that users take home: never written over their data, a run, or anything unasked."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdnas.errors import PdnasError, RunError
from pdnas.files import check_path
from pdnas.runs import (
    ARCHITECTURE,
    ENVIRONMENT,
    FOLDER,
    HISTORY,
    JOURNAL,
    LOCK,
    PREDICTIONS,
    RECIPE,
    RESULT,
    SETTINGS,
    WEIGHTS,
    AnySettings,
    RunDirectory,
)

OF_A_RUN = frozenset(
    {
        *(ARCHITECTURE, ENVIRONMENT, HISTORY, str(JOURNAL), LOCK, PREDICTIONS, RECIPE, RESULT),
        *(SETTINGS, WEIGHTS),
    }
)
"""What a run directory holds beside its page and what its user put there."""

TABLES = ("nodes.csv", "nodes.parquet", "edges.csv", "edges.parquet")
"""What a folder of data holds."""


class AnyTaskSettings(AnySettings):
    """Which data a run is on, where they have a name or a path."""

    task: Any = None


def data_of(run: Path) -> str | None:
    """The data that a run is on; none: they were in memory, or there are several."""
    task = RunDirectory.open(run).read_record(SETTINGS, AnyTaskSettings).task
    name = task.get("task") if isinstance(task, dict) else None
    if not isinstance(name, str):
        return None
    check_path(name, RunError)
    return name


def check_output(
    path: Path,
    *data: str | None,
    force: bool = False,
    renews: Callable[[Path], bool] | None = None,
) -> None:
    """Refuse to write where something else would be lost, or nothing would be kept.

    Args:
        path: The file that is to be written.
        data: What is read, or was: paths, or names of tasks.
        force: Whether a file that is there already is replaced.
        renews: Tells of a file that is there already whether it may be replaced unasked.
    """
    check_file(path)
    with _readable(path):
        if any(name is not None and _belongs(path, Path(name)) for name in data):
            raise PdnasError(
                f"The output '{path}' belongs to the data of the run or of this command; give the "
                "path of another file."
            )
        if _is_of_a_run(path):
            raise PdnasError(
                f"The output '{path}' belongs to a run; give the path of another file."
            )
        if not os.path.lexists(path) or force or (renews is not None and renews(path)):
            return
    remedy = "" if renews is not None else ", or --force to replace it"
    raise PdnasError(f"The output '{path}' exists already; give the path of another file{remedy}.")


def check_file(path: Path) -> None:
    """Refuse folders, devices, links to such, and files in folders that are not there."""
    check_path(path)
    with _readable(path):
        if path.is_dir():
            raise PdnasError(f"The output '{path}' is a folder; give the path of a file.")
        if path.exists() and not path.is_file():
            raise PdnasError(f"The output '{path}' is a device or a pipe; give the path of a file.")
        if not path.parent.is_dir():
            raise PdnasError(f"There is no folder '{path.parent}' for the output; make it first.")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Whatever cannot be looked at cannot be written either."""
    try:
        yield
    except OSError as error:
        raise PdnasError(
            f"The output '{path}' cannot be written ({error.strerror}); give the path of a file "
            "that you may write to."
        ) from None


def _belongs(path: Path, data: Path) -> bool:
    """Whether a file is one of those of some data, by whatever way it is called."""
    files = [data / name for name in TABLES] if data.is_dir() else [data]
    return any(_is_same(path, file) for file in files)


def _is_same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _is_of_a_run(path: Path) -> bool:
    """Whether a run needs a file of that name there."""
    folder = path.resolve().parent
    if folder.name == FOLDER.name and (folder.parent / SETTINGS).is_file():
        return True
    return path.name in OF_A_RUN and (folder / SETTINGS).is_file()
