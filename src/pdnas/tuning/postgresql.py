"""Studies in PostgreSQL, for many drivers at once."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pdnas.errors import PdnasError, RunError
from pdnas.tuning.storage import Journal, LostError, check_url, without_password

PATIENCE = 300.0
"""Seconds after which a database that went away is no longer waited for."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two tries to reach it; each pause is twice as long as that before."""

BEATS = 4
"""Signs of life that a driver gives in the time that it may be silent."""

CONNECTION = {
    "application_name": "pdnas",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""Unless the URL says otherwise: a server that vanished without a word is missed soon."""

PASSING = ("08", "57P0", "25P03", "40")
"""How the codes of errors begin after which the same may succeed: connections, shutdowns, turns."""

IDLE = "60s"
"""When the server takes its turn from a driver that stands still in the middle of it."""

TABLES = """
create table pdnas_studies (
    id integer generated always as identity primary key,
    name text unique not null,
    about text not null
);
create table pdnas_entries (
    study integer not null references pdnas_studies on delete cascade,
    place integer not null,
    batch uuid not null,
    entry text not null,
    primary key (study, place)
);
create table pdnas_drivers (
    study integer not null references pdnas_studies on delete cascade,
    driver uuid not null,
    beat timestamptz not null,
    grace double precision not null,
    primary key (study, driver)
);
"""

TABLES_LOCK = 0x70646E6173
"""Of the server, so that two drivers do not make the tables at the same time."""

REFUSALS = {
    "password authentication failed": (
        "refuses the password, or knows no such user; check both, and mind that PGPASSWORD and "
        "~/.pgpass are asked where the URL has no password"
    ),
    "no password supplied": "wants a password; set PGPASSWORD, or write it into ~/.pgpass",
    "permission denied for database": "does not let this user in; grant connect on the database",
}
"""What a server says to those that it does not let in, and the ends of our sentences."""

T = TypeVar("T")

Connection = psycopg.Connection[tuple[Any, ...]]


class Database(Journal):
    """A study in a PostgreSQL database; to be used as a context.

    A turn is a transaction that begins with a lock on the study's row: who has it reads what is
    there, and adds to it. If the connection breaks, the server undoes the turn, and it is taken
    again; each has a number of its own, by which it is found where only the answer was lost.

    A driver gives signs of life, by the server's clock. One that is silent for longer than it
    said it would be is dead, unless this driver could not have heard it.

    Args:
        url: ``postgresql://USER@HOST:PORT/DATABASE``.
        study: Its name.
        driver: Which driver this is; one that is begun again has the same.
        grace: Seconds for which this driver may be silent.
        patience: Seconds for which a database that went away is waited for; by default
            :data:`PATIENCE`.
    """

    def __init__(
        self,
        url: str,
        study: str,
        driver: str,
        *,
        grace: float = 60.0,
        patience: float | None = None,
    ) -> None:
        super().__init__()
        check_url(url)
        self._url, self._name, self.driver = url, study, driver
        self._grace, self._patience = grace, PATIENCE if patience is None else patience
        self._place = f"The database '{without_password(url)}'"
        try:
            self._options: dict[str, Any] = {**CONNECTION, **conninfo_to_dict(url)}
        except psycopg.ProgrammingError:  # its words may be a part of the password
            raise PdnasError(
                "The URL of --storage has a parameter that PostgreSQL does not know, or a % that "
                "begins no sign; leave out the one, and write the other as %25."
            ) from None
        self._id = 0
        self._connection: Connection | None = None
        self._heart: _Heart | None = None
        self._turns: _Patience | None = None
        try:
            self._make_tables(self._reach())
        except psycopg.Error as error:
            self._leave()
            raise self._refusal(error) from None

    @property
    def about(self) -> str | None:
        """What decides the study, as its first driver wrote it; none if there was no driver."""
        found = self._patiently(
            lambda line: line.execute(
                "select about from pdnas_studies where name = %s", [self._name]
            ).fetchone()
        )
        return None if found is None else str(found[0])

    def join(self, about: str) -> str:
        """Become a driver of the study; what decides it, as its first driver wrote it.

        Args:
            about: What this driver takes it to be.
        """

        def register(line: Connection) -> str:
            line.execute(
                "insert into pdnas_studies (name, about) values (%s, %s) on conflict do nothing",
                [self._name, about],
            )
            row = line.execute(
                "select id, about from pdnas_studies where name = %s", [self._name]
            ).fetchone()
            assert row is not None
            self._id = row[0]
            self._beat(line)
            return str(row[1])

        found = self._patiently(register)
        self._heart = _Heart(self._connect, self._beat, self._grace / BEATS)
        self._heart.start()
        return found

    def others(self) -> frozenset[str]:
        rows = self._line.execute(
            "select driver from pdnas_drivers where study = %s and driver <> %s and "
            "clock_timestamp() < greatest(beat, %s) + grace * interval '1 second'",
            [self._id, self.driver, self._since],
        )
        return frozenset(str(driver) for (driver,) in rows)

    def damage(self, reason: str) -> RunError:
        return RunError(
            f"The study '{self._name}' in the database is damaged ({reason}); give another --study."
        )

    def close(self) -> None:
        """Say farewell, so that others need not wait for this driver."""
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
            with suppress(psycopg.Error):  # if it is away, the others notice the silence
                self._reach().execute(
                    "delete from pdnas_drivers where study = %s and driver = %s",
                    [self._id, self.driver],
                )
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._batch = uuid4()
        try:
            self._patiently(self._take_turn)
            yield
        except psycopg.Error as error:
            self._lose(error)
            raise self._lost_turn(error) from None
        except BaseException:
            self._leave()
            raise
        try:
            self._line.execute("commit")
        except psycopg.Error as error:
            self._lose(error)
            if not self._patiently(self._has_arrived):
                raise self._lost_turn(error) from None
        if self._turns is not None:
            self._turns.end()
            self._turns = None

    def _lost_turn(self, error: psycopg.Error) -> LostError:
        """What is said of a turn that is lost, after a pause if those before it were lost too."""
        self._turns = self._turns or _Patience(self._patience, self._place, self.tell)
        self._turns.bear(error)
        return LostError()

    def _take_turn(self, line: Connection) -> None:
        line.execute("begin isolation level read committed")
        line.execute("select from pdnas_studies where id = %s for update", [self._id])

    def _has_arrived(self, line: Connection) -> bool:
        found = line.execute(
            "select from pdnas_entries where study = %s and batch = %s limit 1",
            [self._id, self._batch],
        )
        return found.fetchone() is not None

    def _read(self, begin: int) -> list[dict[str, Any]]:
        def read(line: Connection) -> list[dict[str, Any]]:
            rows = line.execute(
                "select entry from pdnas_entries where study = %s and place >= %s order by place",
                [self._id, begin],
            )
            return [json.loads(entry) for (entry,) in rows]

        return self._patiently(read) if self._draft is None else read(self._line)

    def _write(self, entries: list[str], place: int) -> None:
        self._line.execute(
            "insert into pdnas_entries (study, place, batch, entry) "
            "select %s, %s + number - 1, %s, entry "
            "from unnest(%s::text[]) with ordinality as new (entry, number)",
            [self._id, place, self._batch, entries],
        )

    def _beat(self, line: Connection) -> None:
        line.execute(
            "insert into pdnas_drivers values (%s, %s, clock_timestamp(), %s) "
            "on conflict (study, driver) "
            "do update set beat = excluded.beat, grace = excluded.grace",
            [self._id, self.driver, self._grace],
        )

    def _make_tables(self, line: Connection) -> None:
        """Make the tables if they are not there; whoever may only use them does not try."""
        with line.transaction():
            line.execute("select pg_advisory_xact_lock(%s)", [TABLES_LOCK])
            found = line.execute("select to_regclass('pdnas_drivers')").fetchone()
            if found == (None,):
                line.execute(TABLES)

    @property
    def _line(self) -> Connection:
        """The connection, in the middle of a turn."""
        assert self._connection is not None
        return self._connection

    def _connect(self) -> Connection:
        line: Connection = psycopg.connect(**self._options, autocommit=True, prepare_threshold=None)
        try:
            line.execute(f"set idle_in_transaction_session_timeout = '{IDLE}'")
        except psycopg.Error:
            line.close()
            raise
        return line

    def _reach(self) -> Connection:
        """The connection, made anew if there is none, and then nobody was heard before."""
        if self._connection is None:
            self._connection = self._connect()
            row = self._connection.execute("select clock_timestamp()").fetchone()
            assert row is not None
            self._since = row[0]
        return self._connection

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _lose(self, error: psycopg.Error) -> None:
        """Leave a connection that had an error; what would have it again is refused."""
        lost = _is_lost(error, self._connection)
        self._leave()
        if not lost:
            raise self._refusal(error) from None

    def _patiently(self, act: Callable[[Connection], T]) -> T:
        """Do something that may be done twice; again and again while the database is away."""
        patience = _Patience(self._patience, self._place, self.tell)
        while True:
            try:
                answer = act(self._reach())
            except psycopg.Error as error:
                self._lose(error)
                patience.bear(error)
            else:
                patience.end()
                return answer

    def _refusal(self, error: psycopg.Error) -> PdnasError:
        """Why the database cannot be used, as a sentence."""
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return PdnasError(
                f"{self._place} does not let this user do what is needed ({_words(error)}); grant "
                "usage and create on its schema, and all rights on the tables pdnas_*."
            )
        said = str(error)
        for words, end in REFUSALS.items():
            if words in said:
                return PdnasError(f"{self._place} {end}.")
        if re.search('database ".*" does not exist', said):
            return PdnasError(
                f"{self._place} is not there, but its server is; make it with createdb, or name "
                "another."
            )
        if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
            return PdnasError(
                f"{self._place} cannot be reached ({_words(error)}); check that its server runs, "
                "and the host, the port and the user."
            )
        return RunError(
            f"{self._place} refused what was asked of it ({_words(error)}); mend that and give the "
            "same command again, what was finished is kept."
        )


class _Patience:
    """With a database that is away: pauses between tries that grow, for so long and no longer.

    Args:
        seconds: How long, from when it was first missed.
        place: The database, as the beginning of a sentence.
        tell: Told when it is waited for and when it is back.
    """

    def __init__(self, seconds: float, place: str, tell: Callable[[str], None]) -> None:
        self._seconds, self._place, self._tell = seconds, place, tell
        self._began = 0.0
        self._tries, self._pause = 0, FIRST_PAUSE

    def bear(self, error: psycopg.Error) -> None:
        """Wait before the next try, but for the first one that failed."""
        now = time.monotonic()
        self._began = self._began if self._tries else now
        self._tries += 1
        if now - self._began > self._seconds:
            raise RunError(
                f"{self._place} has been away for {_minutes(self._seconds)} ({_words(error)}); "
                "nothing that was finished is lost: when it is back, go on with pdnas resume."
            ) from None
        if self._tries == 2:  # a connection that broke while nobody needed it is no news
            self._tell(
                f"{self._place} is away ({_words(error)}); it is waited for, "
                f"{_minutes(self._seconds)} at most."
            )
        if self._tries > 1:
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def end(self) -> None:
        """It answered."""
        if self._tries > 1:
            away = time.monotonic() - self._began
            self._tell(f"{self._place} is back after {away:.0f} seconds.")


class _Heart:
    """A thread that gives signs of life, over a connection of its own.

    Args:
        connect: Makes the connection.
        beat: Gives a sign.
        interval: Seconds between two of them.
    """

    def __init__(
        self, connect: Callable[[], Connection], beat: Callable[[Connection], None], interval: float
    ) -> None:
        self._connect, self._beat, self._interval = connect, beat, interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, name="pdnas-heart", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _live(self) -> None:
        line: Connection | None = None
        while not self._stopped.wait(self._interval):
            try:
                line = line or self._connect()
                self._beat(line)
            except psycopg.Error:  # whoever needs the database says that it is away
                if line is not None:
                    line.close()
                line = None
        if line is not None:
            line.close()


def _is_lost(error: psycopg.Error, line: Connection | None) -> bool:
    """Whether the same may succeed later, over another connection."""
    kinds = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
    is_over = line is None or line.closed or error.sqlstate is None
    return isinstance(error, kinds) and (is_over or str(error.sqlstate).startswith(PASSING))


def _words(error: psycopg.Error) -> str:
    """What went wrong, in a few words of the server or of its library."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line.rpartition("failed: ")[2].rpartition("FATAL:")[2].strip().rstrip(".")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
