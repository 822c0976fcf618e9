"""Where studies are kept: in memory, in a file, or where many drivers share them."""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import BaseJournalBackend

from pdnas.errors import PdnasError, RunError

HOST = r"(\[[^\]]*\]|[^:,/?#@\[\]]*)(:\d*)?"
URL = re.compile(
    r"(?P<scheme>postgres(ql)?://)((?P<user>[^:@/?#]*)(:[^@/?#]*)?@)?"
    rf"(?P<hosts>{HOST}(,{HOST})*)(?P<name>/[^@?#]*)?(\?(?P<query>[^@#]*))?"
)
"""What libpq reads as its users mean it, so that no part of a password is taken for another."""

SECRETS = ("password", "sslpassword")
"""Parameters of a URL that nobody else is to read."""


class LostError(Exception):
    """Nothing of what was to be written at once is there; it may be done again from the start."""


class Storage(ABC):
    """Where studies are kept.

    Whoever asks for trials and tells what came of them is a driver. Each thing that it does is
    done inside of :meth:`at_once`, and there no other driver is at work on the study.
    """

    driver = ""
    """Which driver this is, as its trials remember it; empty: there is no other."""

    tell: Callable[[str], None] = staticmethod(lambda _: None)
    """Told what the user should know."""

    @abstractmethod
    def open(self) -> BaseStorage:
        """What Optuna reads and writes; it is of no use any more after an error."""

    @abstractmethod
    def at_once(self) -> AbstractContextManager[None]:
        """What is written inside is there as a whole or, after an error, not at all.

        Raises:
            LostError: It is not there, through no fault of what was done inside.
        """

    def others(self) -> frozenset[str]:
        """The other drivers that are at work; to be asked inside of :meth:`at_once`."""
        return frozenset()

    @abstractmethod
    def damage(self, reason: str) -> RunError:
        """The error that what is kept cannot be read."""


class Memory(Storage):
    """Nothing is kept."""

    def __init__(self) -> None:
        self._kept = InMemoryStorage()

    def open(self) -> BaseStorage:
        return self._kept

    def at_once(self) -> AbstractContextManager[None]:
        return nullcontext()

    def damage(self, reason: str) -> RunError:
        return RunError(f"The study in memory is damaged ({reason}); begin it again.")


class Journal(Storage, BaseJournalBackend):
    """A list of entries that only grows, from which Optuna knows all that happened.

    What is written at once is a draft first, so that however many entries it has, it is one
    write, and while it is written nobody else's entries come in between.
    """

    def __init__(self) -> None:
        self._draft: list[str] | None = None
        self._length: int | None = None

    def open(self) -> BaseStorage:
        return JournalStorage(self)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        self._draft, self._length = [], None
        try:
            with self._alone():
                yield
                if self._draft:
                    assert self._length is not None  # Optuna reads after it has written
                    self._write(self._draft, self._length)
        finally:
            self._draft = None

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """The entries from a number on, those of the draft after all others."""
        if self._draft is None:
            return self._read(log_number_from)
        stored: list[dict[str, Any]] = []
        if self._length is None:
            stored = self._read(log_number_from)
            self._length = log_number_from + len(stored)
        begin = log_number_from + len(stored) - self._length
        return [*stored, *(json.loads(entry) for entry in self._draft[begin:])]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Add entries to the draft."""
        assert self._draft is not None, "what is written is written at once"
        self._draft += [json.dumps(entry, separators=(",", ":")) for entry in logs]

    def _alone(self) -> AbstractContextManager[None]:
        """Keep all others out."""
        return nullcontext()

    @abstractmethod
    def _read(self, begin: int) -> list[dict[str, Any]]:
        """The entries from a number on."""

    @abstractmethod
    def _write(self, entries: list[str], place: int) -> None:
        """Add entries; the first of them is to have that number."""


class JournalFile(Journal):
    """A file for one driver; whoever opens it sees to it that there is no other.

    Args:
        path: Of the file, which is made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._begins = [0]
        with self._within_reach("written"):
            path.touch()
            self._mend()

    def _mend(self) -> None:
        """Cut off an entry that was being written when its driver died."""
        whole, newline, _ = self._path.read_bytes().rpartition(b"\n")
        os.truncate(self._path, len(whole) + len(newline))

    def _read(self, begin: int) -> list[dict[str, Any]]:
        number = min(begin, len(self._begins) - 1)
        entries: list[dict[str, Any]] = []
        with self._within_reach("read"), self._path.open("rb") as file:
            file.seek(self._begins[number])
            for line in file:
                if number >= begin:
                    entries.append(json.loads(line))
                number += 1
                if number == len(self._begins):
                    self._begins.append(self._begins[-1] + len(line))
        return entries

    def _write(self, entries: list[str], place: int) -> None:  # noqa: ARG002
        with self._within_reach("written"):
            length = self._path.stat().st_size
            try:
                with self._path.open("ab") as file:
                    file.write("".join(f"{entry}\n" for entry in entries).encode())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:  # of a disk that is full: half an entry would make the file unreadable
                with suppress(OSError):  # one that is broken; what is cut is mended when it is read
                    os.truncate(self._path, length)
                raise

    @contextmanager
    def _within_reach(self, what: str) -> Iterator[None]:
        """Whatever the disk does not do becomes one sentence."""
        try:
            yield
        except OSError as error:
            raise RunError(
                f"The study '{self._path}' cannot be {what} ({error.strerror}); make room for it "
                "or check its permissions, and go on with pdnas resume."
            ) from None

    def damage(self, reason: str) -> RunError:
        return RunError(
            f"The study '{self._path}' is damaged ({reason}); without the file its trials are done "
            "again."
        )


def check_url(url: str) -> None:
    """Refuse what is no URL of a PostgreSQL database; it is not repeated, as it may be a secret."""
    if not URL.fullmatch(url):
        raise PdnasError(
            "--storage is no PostgreSQL URL; write it as postgresql://USER@HOST:PORT/DATABASE, and "
            "signs such as @, /, # and % in a name or a password as %40, %2F, %23 and %25."
        )


def without_password(url: str) -> str:
    """A URL of a PostgreSQL database that everyone may read."""
    found = URL.fullmatch(url)
    assert found is not None
    scheme, user, hosts, database, query = found.group("scheme", "user", "hosts", "name", "query")
    kept = [pair for pair in (query or "").split("&") if pair.partition("=")[0] not in SECRETS]
    place = hosts if user is None else f"{user}@{hosts}"
    return f"{scheme}{place}{database or ''}" + (f"?{'&'.join(kept)}" if any(kept) else "")
