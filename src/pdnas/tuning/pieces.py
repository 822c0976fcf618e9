"""Pieces of work whose outcomes are kept in a folder, so that none of them is done twice."""

import hashlib
import json
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, ValidationError

from pdnas.errors import RunError, first_complaint
from pdnas.files import check_path
from pdnas.runs import SETTINGS, Record, RunDirectory
from pdnas.tuning.executor import Done, Executor, Failed
from pdnas.tuning.work import Work

RUNS = Path("runs")

SHORT = 40
"""Characters of a value that a sentence has room for."""

R = TypeVar("R", bound=Record)


class Piece(Work):
    """A piece of work that can be told from any other.

    What comes of it is a record with a field ``work_sha256``.
    """

    @property
    def sha256(self) -> str:
        """What tells this work from any other: all of its settings that are set to something."""
        return hashlib.sha256(self.model_dump_json(exclude_none=True).encode()).hexdigest()


class Fingerprint(Record):
    """Which work a record came of; the rest of it is the record's own."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    work_sha256: str = ""


class PieceWatcher(Generic[R]):
    """Whoever wants to see pieces of work come in overrides these."""

    def began(self, key: str) -> None:
        """A piece of work begins."""

    def done(self, key: str, outcome: R) -> None:
        """A piece of work is done."""

    def failed(self, key: str, reason: str) -> None:
        """A piece of work failed."""


class Pieces(Generic[R]):
    """What is done, by key, and what is still to do.

    Args:
        run: The folder that keeps the outcomes.
        kind: What comes of a piece.
        whole: What the pieces are pieces of, as a sentence would call it.
    """

    def __init__(self, run: RunDirectory, kind: type[R], whole: str) -> None:
        self._run, self._kind, self._whole = run, kind, whole
        self.done: dict[str, R] = {}
        self._sums: dict[str, str] = {}
        for path in sorted((run.path / RUNS).glob("*.json")):
            try:
                stored = path.read_bytes()
                self.done[path.stem] = kind.model_validate_json(stored)
                self._sums[path.stem] = Fingerprint.model_validate_json(stored).work_sha256
            except OSError as error:
                raise RunError(
                    f"'{path}' cannot be read ({error.strerror}); check its permissions."
                ) from None
            except ValidationError as error:
                raise RunError(
                    f"'{path}' is damaged: {first_complaint(error)}; delete it and run again."
                ) from None

    def finish(
        self,
        works: Callable[[Mapping[str, R]], Mapping[str, Piece]],
        executor: Executor,
        *,
        tasks: Container[str],
        watcher: PieceWatcher[R],
    ) -> None:
        """Do what is not done yet; what other settings than today's came to is refused.

        Args:
            works: What there is to do, by key, as far as what is done allows; all of it every time.
            executor: Where.
            tasks: Whose works are done now.
            watcher: Told of what happens.
        """
        running: set[str] = set()
        failures: dict[str, str] = {}
        checked: set[str] = set()
        begun: list[tuple[str, Piece]] = []

        def supply() -> tuple[int, Piece] | None:
            for key, work in works(self.done).items():
                if key in self.done and key not in checked:
                    self._check_same(key, work)
                    checked.add(key)
                if work.task in tasks and key not in {*self.done, *running, *failures}:
                    running.add(key)
                    begun.append((key, work))
                    watcher.began(key)
                    return len(begun) - 1, work
            return None

        def finished(event: Done | Failed) -> None:
            key, work = begun[event.number]
            running.discard(key)
            if isinstance(event, Failed):
                failures[key] = event.reason
                watcher.failed(key, event.reason)
                return
            outcome = self._kind.model_validate({**event.outcome, "work_sha256": work.sha256})
            self.done[key] = outcome
            checked.add(key)
            self._run.write_json(RUNS / f"{key}.json", outcome)
            watcher.done(key, outcome)

        executor.drive(supply, reported=lambda _: False, finished=finished)
        if failures:
            key, reason = next(iter(failures.items()))
            raise RunError(
                f"{len(failures)} part(s) of the {self._whole} failed, the first of them '{key}': "
                f"{reason.removesuffix('.')}; what is done is kept: run the same command again, or "
                "leave out what always fails."
            )

    def _check_same(self, key: str, work: Piece) -> None:
        if self._sums[key] != work.sha256:
            raise RunError(
                f"'{self._run.path / RUNS / key}.json' is of other settings than the "
                f"{self._whole} has now; delete it, and what was built on it, to do it again, or "
                "give another --output."
            )


def open_folder(
    folder: Path, settings: Mapping[str, Any], refusal: Callable[[bytes], str | None]
) -> RunDirectory:
    """A folder for pieces of work, new or with the same settings.

    Args:
        folder: Where.
        settings: What decides the pieces.
        refusal: Why settings that are there and are others are not accepted, as the end of a
            sentence about the folder; none: they are.
    """
    check_path(folder, RunError)
    place = folder / SETTINGS
    if place.is_file():
        try:
            there = place.read_bytes()
        except OSError as error:
            raise RunError(
                f"'{place}' cannot be read ({error.strerror}); check its permissions."
            ) from None
        if there != (json.dumps(settings, indent=2) + "\n").encode():
            reason = refusal(there)
            if reason is not None:
                raise RunError(f"The folder '{folder}' {reason}")
    else:
        if folder.is_dir() and any(folder.iterdir()):
            raise RunError(
                f"The folder '{folder}' holds something else already; give an --output that is not "
                "there yet, or an empty folder."
            )
        try:
            (folder / RUNS).mkdir(parents=True)
        except OSError as error:
            raise RunError(
                f"The folder '{folder}' cannot be made ({error.strerror}); give an --output that "
                "is not there yet and that you may write to."
            ) from None
        RunDirectory(folder).write_json(SETTINGS, settings)
    return RunDirectory(folder)


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first setting that is another now than before, with both values where they are short."""
    for name in {**before, **now}:
        both = [part.get(name) for part in (before, now)]
        if both[0] != both[1]:
            values = ["not given" if value is None else str(value) for value in both]
            short = max(map(len, values)) <= SHORT
            return f"{name} was {values[0]} and is {values[1]}" if short else f"another {name}"
    return None
