"""What jobs show of themselves while at work: in a terminal, a notebook, elsewhere, quietly."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pdnas import progress as live
from pdnas.job import Plan, make_job
from pdnas.pipeline import search as do_search
from pdnas.progress import SearchProgress, TrainingProgress, is_wanted
from pdnas.runs import HISTORY, RunDirectory
from pdnas.search import Problem, Search, SearchEpoch
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Epoch

PLAN = Plan(
    epochs=10,
    search_seconds=4,
    candidate_seconds=20,
    tune_seconds=0,
    final_seconds=300,
    epoch_seconds=0.1,
)
EPOCH = Epoch(epoch=6, train_loss=1.25, val_loss=0.5, val=0.625)

JOB = make_job(
    strategy=PRESETS["default"].changed(epochs=10, pool=4, adapted=1, adapt_epochs=1),
    recipe=Recipe(epochs=40),
    hidden=(4,),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def in_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Makes stderr a terminal; pytest would undo that between a fixture and its test."""

    def make() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
        return terminal

    return make


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, JOB.recipe)


@pytest.fixture
def begun(problem: Problem) -> Iterator[Search]:
    """A search of ten epochs that has not begun."""
    with JOB.strategy.begin(problem) as begun:
        yield begun


def watch(progress: SearchProgress, search: Search) -> list[SearchEpoch]:
    """All epochs of a search, each shown."""
    epochs = []
    while not search.is_over:
        epochs.append(search.step())
        progress.searched(search, epochs[-1])
    return epochs


def figures(epoch: SearchEpoch) -> list[str]:
    """What is to be seen of an epoch."""
    return [
        f"epoch {epoch.epoch + 1}/10",
        f"temperature {epoch.details['temperature']:.2f}",
        f"loss {epoch.train_loss:.3f} / {epoch.val_loss:.3f}",
        f"validation {100 * epoch.val:.1f} %",
    ]


def test_elsewhere_a_search_writes_a_few_lines_with_all_there_is_to_know(
    begun: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    with SearchProgress(JOB, quiet=False) as progress:
        epochs = watch(progress, begun)
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert said.out == ""
    assert len(lines) == live.LINES
    for line, epoch in zip(lines, epochs[1::2], strict=True):
        assert line.startswith("search, 2 blocks, hidden 4: ")
        assert all(figure in line for figure in figures(epoch))
    assert lines[-1].endswith(f"favored: {begun.favored()}")


def test_elsewhere_a_training_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with SearchProgress(JOB, quiet=False) as progress:
        for what in ("candidate 1", "candidate 1", "candidate 2", "found, seed 0"):
            progress.trained(what, EPOCH)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "training candidate 1",
        "training candidate 2",
        "training found, seed 0",
    ]


@pytest.mark.parametrize(("budget", "limit"), [(None, ""), (90.5, ", limited to 90.5 s")])
def test_the_estimate_is_told_in_parts(
    problem: Problem, capsys: pytest.CaptureFixture[str], budget: float | None, limit: str
) -> None:
    job = JOB.model_copy(update={"budget_seconds": budget})
    with SearchProgress(job, quiet=False) as progress:
        progress.planned(PLAN, [problem, problem])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"estimated: about 324 s{limit}: search 4 s (2 x 10 epochs), candidates 20 s, final "
        "trainings and controls 300 s\n"
    )


def test_a_tuning_is_a_part_of_the_estimate(
    problem: Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    with SearchProgress(JOB, quiet=False) as progress:
        progress.planned(PLAN.model_copy(update={"tune_seconds": 50.0}), [problem])
    assert capsys.readouterr().err == (
        "estimated: about 374 s: search 4 s (1 x 10 epochs), candidates 20 s, tuning at most 50 s, "
        "final trainings and controls 300 s\n"
    )


def test_elsewhere_every_trial_of_a_tuning_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with SearchProgress(JOB, quiet=False) as progress:
        for trial in (1, 2):
            progress.tuned(trial, 5)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "tuning the recipe: trial 1/5\ntuning the recipe: trial 2/5\n"


def test_a_terminal_sees_the_trials_of_a_tuning(in_terminal: Callable[[], Terminal]) -> None:
    terminal = in_terminal()
    with SearchProgress(JOB, quiet=False) as progress:
        progress.trained("candidate 1", EPOCH)
        progress.tuned(2, 5)
        progress._live.refresh()
    shown = terminal.getvalue()
    assert "tuning the recipe" in shown
    assert "trial 2/5" in shown


def test_a_terminal_sees_the_epoch_and_the_path_now_favored(
    begun: Search, in_terminal: Callable[[], Terminal], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = in_terminal()
    with SearchProgress(JOB, quiet=False) as progress:
        epochs = watch(progress, begun)
        last = f"favored: {begun.favored()}"
    shown = terminal.getvalue()
    assert "search, 2 blocks, hidden 4" in shown
    assert all(figure in shown for figure in figures(epochs[-1]))
    assert last in shown
    assert capsys.readouterr().out == ""


def test_a_terminal_sees_the_time_left(
    begun: Search, in_terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = in_terminal()
    monkeypatch.setattr(live, "REFRESH", 0.0)
    clock = 0.0
    with SearchProgress(JOB, quiet=False) as progress:
        progress._bar.get_time = lambda: clock
        for _ in range(5):
            clock += 2
            progress.searched(begun, begun.step())
        progress._live.refresh()
    # Two seconds an epoch; five of ten are left.
    assert "0:00:10" in terminal.getvalue()


def test_a_terminal_sees_a_training(
    in_terminal: Callable[[], Terminal], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = in_terminal()
    with SearchProgress(JOB, quiet=False) as progress:
        progress.trained("candidate 3", EPOCH)
    shown = terminal.getvalue()
    for part in ("training candidate 3", "epoch 7/40", "loss 1.250 / 0.500", "validation 62.5 %"):
        assert part in shown
    assert capsys.readouterr().out == ""


def test_a_training_forgets_the_path_of_the_search(
    begun: Search, in_terminal: Callable[[], Terminal]
) -> None:
    terminal = in_terminal()
    with SearchProgress(JOB, quiet=False) as progress:
        watch(progress, begun)
        progress._shown = 0.0
        progress.trained("candidate 1", EPOCH)
        terminal.truncate(0)
        progress._live.refresh()
        shown = terminal.getvalue()
    assert "training candidate 1" in shown
    assert "favored" not in shown


def test_a_terminal_is_told_the_estimate(
    problem: Problem, in_terminal: Callable[[], Terminal]
) -> None:
    terminal = in_terminal()
    with SearchProgress(JOB, quiet=False) as progress:
        progress.planned(PLAN, [problem])
    assert "estimated: about 324 s: search 4 s (1 x 10 epochs)" in terminal.getvalue()


def test_a_picture_is_drawn_now_and_then_and_at_the_end(
    begun: Search, in_terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_terminal()
    drawn: list[int] = []
    show = SearchProgress._show

    def spy(self: SearchProgress, what: str, figures: str, done: int, total: int) -> None:
        drawn.append(done)
        show(self, what, figures, done, total)

    monkeypatch.setattr(SearchProgress, "_show", spy)
    monkeypatch.setattr(live, "REFRESH", 1e9)
    with SearchProgress(JOB, quiet=False) as progress:
        progress._shown = -2e9
        watch(progress, begun)
    assert drawn == [1, 10]


@pytest.mark.parametrize("where", ["terminal", "elsewhere"])
def test_quiet_shows_nothing(
    problem: Problem,
    begun: Search,
    in_terminal: Callable[[], Terminal],
    capsys: pytest.CaptureFixture[str],
    where: str,
) -> None:
    terminal = in_terminal() if where == "terminal" else Terminal()
    with SearchProgress(JOB, quiet=True) as progress:
        progress.planned(PLAN, [problem])
        watch(progress, begun)
        progress.trained("candidate 1", EPOCH)
        progress.tuned(1, 2)
    assert terminal.getvalue() == ""
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("where", ["terminal", "elsewhere"])
def test_a_note_is_always_said(
    in_terminal: Callable[[], Terminal],
    capsys: pytest.CaptureFixture[str],
    where: str,
    quiet: bool,
) -> None:
    stream = in_terminal() if where == "terminal" else None
    with SearchProgress(JOB, quiet=quiet) as progress:
        progress.noted("The disk [is] full.")
    said = capsys.readouterr()
    shown = said.err if stream is None else stream.getvalue()
    assert said.out == ""
    assert "pdnas: The disk [is] full.\n" in shown.replace("\r\n", "\n")


def test_a_terminal_gets_its_cursor_back_after_ctrl_c(in_terminal: Callable[[], Terminal]) -> None:
    terminal = in_terminal()

    def interrupt() -> None:
        with SearchProgress(JOB, quiet=False) as progress:
            progress.trained("candidate 1", EPOCH)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    shown = terminal.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert sys.stderr is terminal


def test_watching_changes_nothing(
    tiny_task: GraphTask, in_terminal: Callable[[], Terminal], tmp_path: Path
) -> None:
    terminal = in_terminal()
    job = make_job(**{**dict(JOB), "recipe": Recipe(epochs=2), "candidates": 1, "controls": ()})
    runs = [RunDirectory.create(tmp_path / name, "test") for name in ("alone", "watched")]
    do_search(tiny_task, job, run=runs[0])
    with SearchProgress(job, quiet=False) as progress:
        do_search(tiny_task, job, run=runs[1], watcher=progress)
    assert "favored: " in terminal.getvalue()
    alone, watched = ((run.path / HISTORY).read_bytes() for run in runs)
    assert alone == watched


def test_no_bar_is_shown_where_stderr_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(2, 10, quiet=False) as progress:
        progress.show(0, EPOCH)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_sees_the_bar_unless_quiet(
    in_terminal: Callable[[], Terminal], quiet: bool
) -> None:
    terminal = in_terminal()
    with TrainingProgress(2, 10, quiet=quiet) as progress:
        progress.show(1, EPOCH)
    shown = terminal.getvalue()
    assert ("training 2/2" in shown) == (not quiet)
    assert ("loss 1.250  validation 62.50 %" in shown) == (not quiet)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process a notebook's kernel, as IPython tells it."""
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


@pytest.mark.usefixtures("notebook")
def test_a_notebook_sees_a_line_for_every_training(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(2, 10, quiet=False) as progress:
        for number in (0, 0, 1):
            progress.show(number, EPOCH)
    assert capsys.readouterr() == ("", "training 1/2\ntraining 2/2\n")


@pytest.mark.usefixtures("notebook")
def test_a_notebook_sees_a_search_in_lines(
    begun: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    with SearchProgress(JOB, quiet=False) as progress:
        watch(progress, begun)
    assert len(capsys.readouterr().err.splitlines()) == live.LINES


def test_progress_is_shown_where_somebody_looks(request: pytest.FixtureRequest) -> None:
    assert not is_wanted(None)
    assert is_wanted(True)
    request.getfixturevalue("notebook")
    assert is_wanted(None)
    assert not is_wanted(False)


def test_progress_is_shown_in_a_terminal(in_terminal: Callable[[], Terminal]) -> None:
    in_terminal()
    assert is_wanted(None)
