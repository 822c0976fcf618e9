"""Drivers on a real server: turns, signs of life, patience, and what is refused."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from tests.conftest import Server, until

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import PdnasError, RunError
from pdnas.training import Recipe
from pdnas.tuning import postgresql
from pdnas.tuning.postgresql import Database
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.storage import LostError
from pdnas.tuning.study import FINALISTS, Ask, GridStudy, RecipeStudy

pytestmark = pytest.mark.postgresql

CELLS = [{"blocks": blocks, "hidden": hidden} for blocks in (1, 2) for hidden in (4, 8, 16)]

Join = Callable[..., Database]


@pytest.fixture
def study() -> str:
    """A study that nobody has begun."""
    return f"study-{uuid4()}"


@pytest.fixture
def join(server: Server, study: str) -> Iterator[Join]:
    """Makes drivers of a study, and ends them."""
    with ExitStack() as stack:

        def make(driver: str | None = None, *, grace: float = 60, patience: float = 20) -> Database:
            made = Database(
                server.url(), study, driver or str(uuid4()), grace=grace, patience=patience
            )
            stack.enter_context(made)
            made.join("{}")
            return made

        yield make


def recipes(storage: Database, trials: int = 6) -> RecipeStudy:
    return RecipeStudy(
        Architecture(blocks=(BlockSpec(attention="gat"),)),
        Recipe(epochs=9),
        fields=tuple(RANGES),
        trials=trials,
        seeds=1,
        storage=storage,
    )


def cut(server: Server) -> None:
    """End all connections, as a server does that is shut down."""
    server.do(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pdnas'"
    )


def hearts() -> int:
    return sum(thread.name == "pdnas-heart" for thread in threading.enumerate())


def test_what_is_finished_is_kept(join: Join) -> None:
    first = join()
    study = recipes(first)
    while (asked := study.ask()) is not None:
        study.done(asked.number, 1 - asked.recipe.lr)
    first.close()
    again = recipes(join())
    assert again.ask() is None
    assert again.rows() == study.rows()
    assert again.best == study.best
    assert len(again.rows()) == 6 + FINALISTS


def test_two_drivers_see_one_study_and_draw_nothing_twice(join: Join) -> None:
    both = [recipes(join()) for _ in range(2)]
    first: list[Ask] = []
    for place in range(6):
        asked = both[place % 2].ask()
        assert asked is not None
        first.append(asked)
    assert [asked.number for asked in first] == list(range(6))
    assert len({asked.recipe for asked in first}) == 6
    assert [study.ask() for study in both] == [None, None]
    assert all(study.is_under_way for study in both)
    for place, asked in enumerate(first):
        both[place % 2].done(asked.number, 1 - asked.recipe.lr)
    again = [both[place % 2].ask() for place in range(FINALISTS + 1)]
    assert again.pop() is None
    assert len({asked.recipe for asked in again if asked}) == FINALISTS
    for place, last in enumerate(again):
        assert last is not None
        both[place % 2].done(last.number, place)
    assert both[0].rows() == both[1].rows()
    assert both[0].best == both[1].best
    assert both[0].ask() is None
    assert not both[0].is_under_way


def test_drivers_that_ask_at_the_same_time_get_each_cell_once(join: Join) -> None:
    cells = [{"hidden": hidden} for hidden in range(1, 25)]
    studies = [GridStudy(cells, join()) for _ in range(4)]

    def work(study: GridStudy) -> list[dict[str, int]]:
        done = []
        while (asked := study.ask()) is not None:
            study.done(asked[0], 0.5)
            done.append(asked[1])
        return done

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(work, studies))
    assert sorted(cell["hidden"] for part in done for cell in part) == list(range(1, 25))
    assert sum(map(bool, done)) > 1, "not one of them alone"
    assert [row.number for row in studies[0].rows()] == list(range(24))


def test_more_trials_are_for_all_drivers(join: Join) -> None:
    few, many = recipes(join(), trials=1), recipes(join(), trials=3)
    assert few.wanted == many.wanted == 6
    assert [few.ask() is not None for _ in range(4)] == [True, True, True, False]


def test_a_driver_that_is_begun_again_does_its_own_trials_again_at_once(join: Join) -> None:
    other, dead = GridStudy(CELLS, join()), join()
    assert GridStudy(CELLS, dead).ask() == (0, CELLS[0])
    assert other.ask() == (1, CELLS[1])
    again = GridStudy(CELLS, join(dead.driver))
    assert again.ask() == (2, CELLS[0])
    assert [row.number for row in other.rows()] == [1, 2]


def test_one_that_said_farewell_is_not_waited_for(join: Join) -> None:
    gone = join()
    GridStudy(CELLS, gone).ask()
    other = GridStudy(CELLS, join())
    gone.close()
    assert other.ask() == (1, CELLS[0])


def silent_one(join: Join, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A driver that gives no sign of life after it joined."""
    with monkeypatch.context() as patch:
        patch.setattr(postgresql._Heart, "_live", lambda self: self._stopped.wait())
        return join()


def later(server: Server, seconds: float, silent: Database, other: Database) -> None:
    """As if so much time had passed since the one gave a sign of life and the other could hear."""
    server.do(
        "update pdnas_drivers set beat = beat - %s * interval '1 second' where driver = %s",
        *(seconds, silent.driver),
    )
    other._since -= timedelta(seconds=seconds)


def silence(server: Server, driver: Database) -> float:
    """Seconds since its last sign of life."""
    ((seconds,),) = server.do(
        "select extract(epoch from clock_timestamp() - beat)::float from pdnas_drivers "
        "where driver = %s",
        driver.driver,
    )
    return float(seconds)


def test_one_that_is_silent_is_dead_after_its_grace_and_no_sooner(
    join: Join, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    silent, storage = silent_one(join, monkeypatch), join()
    silent.tell = told.append
    before, other = GridStudy(CELLS, silent), GridStudy(CELLS, storage)
    assert before.ask() == (0, CELLS[0])
    later(server, 20, silent, storage)
    assert other.ask() == (1, CELLS[1])
    later(server, 41, silent, storage)
    assert other.ask() == (2, CELLS[0])
    assert before.report(0, 25, 0.5), "it may as well stop"
    before.done(0, 0.9)
    other.done(2, 0.5)
    assert [row.val for row in other.rows() if row.number == 2] == [0.5]
    assert len(told) == 2
    assert told[0].startswith("Trial 0 was taken over by another driver, which had heard nothing")


def test_one_that_gives_signs_of_life_is_not_dead(
    join: Join, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "BEATS", 600)
    living, storage = join(), join()
    GridStudy(CELLS, living).ask()
    other = GridStudy(CELLS, storage)
    later(server, 61, living, storage)
    until(lambda: silence(server, living) < 30, what="to give a sign of life")
    assert other.ask() == (1, CELLS[1])


def test_whoever_could_hear_nothing_waits_before_it_takes_over(
    join: Join, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the server was away all others have been silent for long."""
    silent, storage = silent_one(join, monkeypatch), join()
    GridStudy(CELLS, silent).ask()
    grid = GridStudy(CELLS, storage)
    later(server, 61, silent, storage)
    cut(server)
    assert grid.ask() == (1, CELLS[1])
    later(server, 61, silent, storage)
    assert grid.ask() == (2, CELLS[0])


def test_whatever_breaks_in_a_turn_is_taken_again_from_the_start(
    join: Join, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = join()
    grid = GridStudy(CELLS, storage)
    ask, calls = GridStudy._ask, 0

    def broken(self: GridStudy, sampler: object) -> object:
        nonlocal calls
        calls += 1
        trial = ask(self, sampler)  # type: ignore[arg-type]
        if calls == 1:
            cut(server)
        return trial

    monkeypatch.setattr(GridStudy, "_ask", broken)
    assert grid.ask() == (0, CELLS[0])
    assert calls == 2
    assert [row.number for row in GridStudy(CELLS, join()).rows()] == [0]


@pytest.mark.parametrize("arrived", [True, False])
def test_an_answer_that_is_lost_counts_nothing_twice(
    join: Join, server: Server, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    storage = join()
    grid = GridStudy(CELLS, storage)
    execute, lost = psycopg.Connection.execute, 0

    def lose(self: psycopg.Connection, query: str, *rest: object) -> object:
        nonlocal lost
        if query == "commit" and not lost:
            lost += 1
            if arrived:
                execute(self, query)
            self.close()
        return execute(self, query, *rest)  # type: ignore[call-overload]

    def patiently(act: Callable[[], object]) -> object:
        nonlocal lost
        lost = 0
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", lose)
            answer = act()
        assert lost == 1
        return answer

    assert patiently(grid.ask) == (0, CELLS[0])
    patiently(lambda: grid.done(0, 0.5))
    assert [(row.number, row.val) for row in grid.rows()] == [(0, 0.5)]
    assert GridStudy(CELLS, join()).rows() == grid.rows()


def test_an_error_in_a_turn_leaves_nothing_and_lets_the_others_go_on(join: Join) -> None:
    one, other = join(), join()

    def fail() -> None:
        with one.at_once():
            one.append_logs([{"some": "thing"}])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with other.at_once():
        assert other.read_logs(0) == []
    with one.at_once():
        assert one.read_logs(0) == []


def test_one_that_stands_still_in_its_turn_does_not_stop_the_others(
    server: Server, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "IDLE", "1s")
    still = Database(server.url(), study, str(uuid4()))
    other = Database(server.url(), study, str(uuid4()))
    with still, other:
        still.join("{}")
        other.join("{}")

        def stand_still() -> None:
            with still.at_once():
                assert still.read_logs(0) == []
                still.append_logs([{"some": "thing"}])
                with other.at_once():
                    assert other.read_logs(0) == []

        with pytest.raises(LostError):
            stand_still()
        assert still.read_logs(0) == []


def test_a_server_that_is_away_is_waited_for(join: Join, server: Server) -> None:
    told: list[str] = []
    storage = join()
    storage.tell = told.append
    grid = GridStudy(CELLS, storage)
    assert grid.ask() == (0, CELLS[0])
    server.stop()

    def start() -> None:
        try:
            until(lambda: told, what="to miss the server")
        finally:
            server.start()

    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(start)
        grid.done(0, 0.5)
        started.result()
    assert grid.ask() == (1, CELLS[1])
    assert [row.val for row in grid.rows()] == [0.5, None]
    away, back = told
    place = f"The database '{server.url(password=None)}'"
    assert away.startswith(f"{place} is away (")
    assert away.endswith("); it is waited for, 20 seconds at most.")
    assert back.startswith(f"{place} is back after ")


def test_a_connection_that_nobody_missed_is_no_news(join: Join, server: Server) -> None:
    told: list[str] = []
    storage = join()
    storage.tell = told.append
    grid = GridStudy(CELLS, storage)
    cut(server)
    assert grid.ask() == (0, CELLS[0])
    assert told == []


def test_a_server_that_stays_away_is_one_sentence_and_nothing_is_lost(
    join: Join, server: Server
) -> None:
    storage = join(patience=0.5)
    grid = GridStudy(CELLS, storage)
    grid.ask()
    grid.done(0, 0.5)
    server.stop()
    try:
        with pytest.raises(RunError) as caught:
            grid.ask()
        storage.close()
    finally:
        server.start()
    said = str(caught.value)
    assert said.startswith(f"The database '{server.url(password=None)}' has been away for 0.5 s")
    assert said.endswith("when it is back, go on with pdnas resume.")
    assert GridStudy(CELLS, join(storage.driver)).ask() == (1, CELLS[1])


def test_signs_of_life_go_on_after_the_server_was_away(
    join: Join, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "BEATS", 600)
    living, other = join(), join()
    later(server, 61, living, other)
    until(lambda: silence(server, living) < 30, what="to give a sign of life")
    server.stop()
    server.start()
    later(server, 61, living, other)
    until(lambda: silence(server, living) < 30, what="to give a sign of life again")


def test_no_thread_and_no_connection_is_left_behind(join: Join, server: Server) -> None:
    before = hearts()
    storage = join()
    GridStudy(CELLS, storage).ask()
    assert hearts() == before + 1
    storage.close()
    storage.close()
    assert hearts() == before
    left = "select from pg_stat_activity where application_name = 'pdnas'"
    until(lambda: not server.do(left), what="to end the connections")
    assert server.do("select from pdnas_drivers where driver = %s", storage.driver) == []


def test_what_decides_a_study_is_what_its_first_driver_wrote(server: Server, study: str) -> None:
    with (
        Database(server.url(), study, str(uuid4())) as first,
        Database(server.url(), study, str(uuid4())) as second,
    ):
        assert first.about is None
        assert first.join("one") == "one"
        assert second.about == "one"
        assert second.join("two") == "one"


def test_tables_are_made_once_by_drivers_that_begin_together(server: Server) -> None:
    server.do("create database fresh", database="postgres")
    url = server.url("fresh")

    def begin(_: int) -> str | None:
        with Database(url, "study", str(uuid4())) as storage:
            return storage.join("{}")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(begin, range(4))) == ["{}"] * 4


def test_whoever_may_use_the_tables_need_not_be_allowed_to_make_them(
    server: Server, study: str, join: Join
) -> None:
    join()
    with pytest.raises(PdnasError, match="does not let this user do what is needed"):
        Database(server.url(user="guest"), study, str(uuid4())).about  # noqa: B018
    for name in ("studies", "entries", "drivers"):
        rights = "select, insert, update, delete"
        server.do(f"grant {rights} on pdnas_{name} to guest")
    with Database(server.url(user="guest"), study, str(uuid4())) as guest:
        guest.join("{}")
        assert GridStudy(CELLS, guest).ask() == (0, CELLS[0])


def test_a_full_garbled_journal_is_one_sentence(join: Join, server: Server, study: str) -> None:
    server.do(
        "insert into pdnas_entries select id, 0, gen_random_uuid(), 'garbage' from pdnas_studies "
        "where name = %s",
        (join(), study)[1],
    )
    with pytest.raises(RunError, match=r"The study 'study-.*' in the database is damaged \(.*\);"):
        GridStudy(CELLS, join())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wrong"}, "refuses the password, or knows no such user; check both"),
        ({"user": "nobody"}, "refuses the password, or knows no such user; check both"),
        ({"password": None}, "wants a password; set PGPASSWORD, or write it into ~/.pgpass."),
        ({"database": "nowhere"}, "is not there, but its server is; make it with createdb"),
        (
            {"database": "closed", "user": "guest"},
            "does not let this user in; grant connect on the database.",
        ),
        (
            {"database": "postgres", "user": "guest"},
            "does not let this user do what is needed (permission denied for schema public)",
        ),
    ],
)
def test_whoever_is_not_let_in_reads_one_sentence(
    server: Server, change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    with pytest.raises(PdnasError) as caught:
        Database(server.url(**change), "mine", str(uuid4()))
    message = str(caught.value)
    place = {name: value for name, value in change.items() if name != "password"}
    assert message.startswith(f"The database '{server.url(**place, password=None)}' ")
    assert said in message
    assert "\n" not in message
    assert server.password not in message


def test_a_server_that_is_not_there_is_one_sentence_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(PdnasError) as caught:
        Database("postgresql://me:secret@127.0.0.1:1/db", "mine", str(uuid4()))
    assert time.monotonic() - begun < 5
    assert str(caught.value) == (
        "The database 'postgresql://me@127.0.0.1:1/db' cannot be reached (Connection refused); "
        "check that its server runs, and the host, the port and the user."
    )


@pytest.mark.parametrize("end", ["?weather=secret", "%zzsecret"])
def test_a_url_that_postgresql_cannot_read_is_not_repeated(end: str) -> None:
    with pytest.raises(PdnasError, match="The URL of --storage has a parameter that") as caught:
        Database(f"postgresql://me@host/db{end}", "mine", str(uuid4()))
    assert "secret" not in str(caught.value)


def test_the_password_may_come_from_elsewhere(
    server: Server, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", server.password)
    with Database(server.url(password=None), study, str(uuid4())) as storage:
        assert storage.join("{}") == "{}"


def test_it_costs_as_many_round_trips_late_as_early(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = GridStudy([{"hidden": hidden} for hidden in range(40)], join())
    execute, counts, here = psycopg.Connection.execute, 0, threading.get_ident()

    def counted(self: psycopg.Connection, *arguments: object) -> object:
        nonlocal counts
        counts += threading.get_ident() == here  # signs of life come when they come
        return execute(self, *arguments)  # type: ignore[call-overload]

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    taken = []
    for number in range(40):
        counts = 0
        grid.ask()
        grid.report(number, 25, 0.5)
        grid.done(number, 0.5)
        taken.append(counts)
    assert set(taken) == {15}, "begin, lock, read, write and commit, for each of three turns"


@pytest.fixture
def spoil(server: Server, study: str) -> Iterator[Callable[[str], None]]:
    """Lets something happen on the server whenever an entry of the study is added."""

    def spoil(deed: str) -> None:
        server.do(
            "create function pdnas_spoil() returns trigger language plpgsql as "
            f"$$ begin {deed}; return new; end $$"
        )
        server.do(
            "create trigger spoil before insert on pdnas_entries for each row when (new.study = "
            f"{server.do('select id from pdnas_studies where name = %s', study)[0][0]}) "
            "execute function pdnas_spoil()"
        )

    yield spoil
    server.do("drop function if exists pdnas_spoil() cascade")


SPOILED = {
    "a full disk": ("raise 'No space left on device' using errcode = 'disk_full'", "No space left"),
    "a limit of time": ("perform pg_sleep(60)", "canceling statement due to statement timeout"),
    "a broken index": ("raise 'broken' using errcode = 'index_corrupted'", "broken"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_what_the_server_refuses_again_and_again_is_one_sentence_at_once(
    server: Server, study: str, spoil: Callable[[str], None], what: str
) -> None:
    deed, said = SPOILED[what]
    limited = server.url() + "?options=-c%20statement_timeout%3D500"
    with Database(limited, study, str(uuid4())) as storage:
        storage.join("{}")
        grid = GridStudy(CELLS, storage)
        assert grid.ask() == (0, CELLS[0])
        spoil(deed)
        begun = time.monotonic()
        with pytest.raises(RunError) as caught:
            grid.done(0, 0.5)
        assert time.monotonic() - begun < 5
        place = f"The database '{server.url(password=None)}?options=-c%20statement_timeout%3D500'"
        assert str(caught.value).startswith(f"{place} refused what was asked of it ({said}")
        assert str(caught.value).endswith(
            "); mend that and give the same command again, what was finished is kept."
        )
        server.do("drop function pdnas_spoil() cascade")
        grid.done(0, 0.5)
        assert [(row.number, row.val) for row in grid.rows()] == [(0, 0.5)]


@pytest.mark.parametrize(
    "deed",
    [
        "raise 'deadlock' using errcode = 'deadlock_detected'",
        "perform pg_terminate_backend(pg_backend_pid())",
    ],
)
def test_turns_that_are_lost_one_after_the_other_are_not_taken_for_ever(
    join: Join, spoil: Callable[[str], None], deed: str
) -> None:
    told: list[str] = []
    storage = join(patience=0.5)
    storage.tell = told.append
    grid = GridStudy(CELLS, storage)
    assert grid.ask() == (0, CELLS[0])
    spoil(deed)
    execute, turns = storage._take_turn, 0

    def counted(line: object) -> None:
        nonlocal turns
        turns += 1
        execute(line)  # type: ignore[arg-type]

    storage._take_turn = counted  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"has been away for 0\.5 seconds \(.*\); nothing that was"):
        grid.done(0, 0.5)
    assert 3 <= turns <= 6, "with pauses of 0.1, 0.2 and 0.4 seconds"
    assert len(told) == 1


def test_a_turn_that_is_lost_now_and_then_is_no_news(
    join: Join, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patience begins anew after each turn that came to its end."""
    told: list[str] = []
    storage = join(patience=0.3)
    storage.tell = told.append
    grid = GridStudy(CELLS, storage)
    write, turns = Database._write, 0

    def every_other(self: Database, entries: list[str], place: int) -> None:
        nonlocal turns
        turns += 1
        if turns % 2:
            cut(server)
        write(self, entries, place)

    monkeypatch.setattr(Database, "_write", every_other)
    for number in range(3):
        assert grid.ask() == (number, CELLS[number])
        time.sleep(0.2)
    assert turns == 6
    assert told == []
