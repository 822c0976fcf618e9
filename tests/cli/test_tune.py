"""``pdnas tune`` from end to end, what each of its flags does, and how it goes on."""

import io
import itertools
import json
import multiprocessing
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.cli.conftest import WORKER_FLAGS, every_worker_flag
from tests.conftest import Here

from pdnas.architecture import Architecture
from pdnas.cli.trials import TuningProgress
from pdnas.cli.tune import StorageSettings, TuneSettings
from pdnas.errors import DivergedError
from pdnas.job import Job
from pdnas.models.baselines import BASELINES
from pdnas.runs import JOURNAL, LOCK, SETTINGS, RunDirectory, load_run
from pdnas.search.pdnas import PRESETS, PdnasSearch
from pdnas.settings import WorkerFlags
from pdnas.space import SPACES
from pdnas.tasks import GraphTask, load_task
from pdnas.tasks.source import NAMED, NamedTask, ReadOptions, Source
from pdnas.training import RECIPES, Recipe, memory
from pdnas.tuning import Tuning, local
from pdnas.tuning.agreement import Agreement
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.storage import JournalFile, Memory
from pdnas.tuning.study import RecipeStudy, Row
from pdnas.tuning.work import TrainingWork

Program = Callable[..., CompletedProcess[str]]

LEAN = ["--hidden", "4", "--epochs", "4", "--seeds", "2", "--trial-seeds", "1"]
GIVEN = ["--architecture", "gcn", *LEAN, "--trials", "2"]
"""Two recipes for a network that there is, and their second tries."""

SEARCHED = [*LEAN, "--blocks", "1", "--candidates", "1", "--mutations", "0", "--trials", "1"]

RECIPE_FLAGS = {
    "--optimizer": "sgd",
    "--lr": "0.5",
    "--weight-decay": "0.5",
    "--input-dropout": "0.1",
    "--dropout": "0.1",
    "--attention-dropout": "0.1",
    "--node-dropout": "0.1",
    "--feature-weights": "on",
    "--copies": "3",
    "--consistency": "0.3",
    "--consistency-warm-up": "7",
    "--sharpening": "0.3",
    "--teachers": "2",
    "--patience": "1",
    "--selection": "loss",
    "--batch-graphs": "3",
    "--batching": "clusters",
    "--batch-nodes": "9",
    "--neighbors": "3",
    "--schedule": "cosine",
    "--precision": "tf32",
}
JOB_FLAGS: dict[str, tuple[list[str], Any]] = {
    "--blocks": (["1", "3"], (1, 3)),
    "--hidden": (["8", "4"], (8, 4)),
    "--max-parameters": (["999"], 999),
    "--candidates": (["2"], 2),
    "--designs": (["off"], "off"),
    "--mutations": (["3"], 3),
    "--repeats": (["4"], 4),
    "--seed": (["5"], 5),
    "--seeds": (["7"], 7),
}
"""Flags that are fields of the searches, and what they become."""

NOWHERE = "postgresql://me:secret@127.0.0.1:1/db"

OTHER_FLAGS = {
    "--architecture",
    "--space",
    "--preset",
    "--trials",
    "--trial-seeds",
    "--fields",
    "--recipe",
    "--epochs",
    *WORKER_FLAGS,
    "--storage",
    "--study",
    "--grace",
    "--split",
    "--split-seeds",
    "--metric",
    "--data-root",
    "--normalize",
    "--undirected",
    "--standardize",
    "--device",
    "--threads",
    "--run-dir",
    "--json",
    "--quiet",
}
"""Each of them has a test below."""


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    monkeypatch.setattr("pdnas.tuning.place.LocalExecutor", Here)


@pytest.fixture
def asked(pdnas: Program, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TuneSettings]:
    """What some flags ask for, without doing it."""

    def run(*flags: str | Path) -> TuneSettings:
        heard: list[TuneSettings] = []

        def execute(settings: TuneSettings, *_: object) -> int:
            heard.append(settings)
            return 0

        with monkeypatch.context() as patch:
            patch.setattr("pdnas.cli.tune.execute", execute)
            done = pdnas("tune", *flags)
        assert (done.returncode, done.stderr) == (0, "")
        return heard[0]

    return run


def one_sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("pdnas: ")
    return done.stderr.removeprefix("pdnas: ").strip()


def rows(run: str = "run") -> list[Row]:
    """The recipes that a run has tried."""
    settings = TuneSettings.model_validate_json(Path(run, "settings.json").read_text())
    return RecipeStudy(
        Architecture(blocks=BASELINES["gcn"].architecture.blocks),
        settings.tuning.search.recipe,
        fields=settings.tuning.fields,
        trials=settings.tuning.trials,
        seeds=settings.tuning.trial_seeds,
        storage=JournalFile(Path(run) / JOURNAL),
    ).rows()


def test_every_flag_of_the_help_is_tested_here(pdnas: Program) -> None:
    said = pdnas("tune", "--help").stdout
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", said))
    assert flags - {"--help"} == RECIPE_FLAGS.keys() | JOB_FLAGS.keys() | OTHER_FLAGS


def test_without_an_argument_it_is_citeseer_and_the_defaults(
    asked: Callable[..., TuneSettings],
) -> None:
    settings = asked()
    tuning = settings.tuning
    assert settings.task_name == "citeseer"
    assert tuning.architecture is None
    assert (tuning.trials, tuning.trial_seeds, tuning.fields) == (30, 2, tuple(RANGES))
    assert (tuning.search.space, tuning.search.strategy) == (
        SPACES["extended"],
        PRESETS["default"],
    )
    assert (tuning.search.blocks, tuning.search.hidden) == ((2,), (32,))
    assert (settings.workers, settings.device.device) == (WorkerFlags(), "auto")


@pytest.mark.parametrize("flag", RECIPE_FLAGS)
def test_flags_of_the_recipe_change_the_recipe_alone(
    asked: Callable[..., TuneSettings], tiny: Path, flag: str
) -> None:
    field, value = flag.removeprefix("--").replace("-", "_"), RECIPE_FLAGS[flag]
    recipe = asked(tiny, flag, value).tuning.search.recipe
    assert str(getattr(recipe, field)) == value
    assert recipe.model_dump(exclude={field}) == Recipe().model_dump(exclude={field})


@pytest.mark.parametrize("flag", JOB_FLAGS)
def test_flags_of_the_searches_change_them_alone(
    asked: Callable[..., TuneSettings], tiny: Path, flag: str
) -> None:
    field, (words, value) = flag.removeprefix("--").replace("-", "_"), JOB_FLAGS[flag]
    before, after = asked(tiny).tuning.search, asked(tiny, flag, *words).tuning.search
    assert getattr(before, field) != value
    assert after == Job.model_validate({**before.model_dump(), field: value})


@pytest.mark.parametrize(
    ("flag", "words", "field", "value"),
    [
        ("--trials", ["7"], "trials", 7),
        ("--trial-seeds", ["3"], "trial_seeds", 3),
        ("--fields", ["lr", "dropout"], "fields", ("lr", "dropout")),
    ],
)
def test_flags_of_the_study_change_it_alone(
    asked: Callable[..., TuneSettings],
    tiny: Path,
    flag: str,
    words: list[str],
    field: str,
    value: Any,
) -> None:
    before, after = asked(tiny).tuning, asked(tiny, flag, *words).tuning
    assert after == before.model_copy(update={field: value})


def test_architecture_brings_its_hidden_size_and_its_recipe(
    asked: Callable[..., TuneSettings], tiny: Path
) -> None:
    tuning = asked(tiny, "--architecture", "gat").tuning
    assert tuning.architecture == BASELINES["gat"].architecture
    assert tuning.search.hidden == (BASELINES["gat"].hidden,)
    assert tuning.search.recipe == RECIPES["gat"]
    other = asked(tiny, "--architecture", "gat", "--recipe", "gcn", "--hidden", "3").tuning
    assert (other.search.recipe, other.search.hidden) == (RECIPES["gcn"], (3,))


@pytest.mark.usefixtures("_here")
def test_a_network_that_is_not_made_of_blocks_is_tuned_too(pdnas: Program, tiny: Path) -> None:
    given = ["--architecture", "appnp", *LEAN, "--trials", "2"]
    done = pdnas("tune", tiny, *given, "--run-dir", "run")
    assert "run: run\nreport: run/report.html\n" in done.stdout
    assert "pdnas report run" in Path("run/report.html").read_text()
    assert load_run("run").architecture == BASELINES["appnp"].design
    assert pdnas("train", "run", tiny, "--run-dir", "again", "--quiet").returncode == 0
    assert load_run("again").recipe == load_run("run").recipe


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_sets_the_strategy(
    asked: Callable[..., TuneSettings], tiny: Path, preset: str
) -> None:
    assert asked(tiny, "--preset", preset).tuning.search.strategy == PRESETS[preset]


def test_space_and_recipe_may_be_names_or_files(
    asked: Callable[..., TuneSettings], tiny: Path
) -> None:
    job = asked(tiny, "--space", "paper", "--recipe", "consistency").tuning.search
    assert (job.space, job.recipe) == (SPACES["paper"], RECIPES["consistency"])
    Path("space.toml").write_text('attention = ["cos"]\n')
    Path("recipe.toml").write_text("lr = 0.5\n")
    job = asked(tiny, "--space", "space.toml", "--recipe", "recipe.toml").tuning.search
    assert (job.space.attention, job.recipe) == (("cos",), Recipe(lr=0.5))


def test_epochs_are_those_of_the_searches_and_of_the_trainings(
    asked: Callable[..., TuneSettings], tiny: Path
) -> None:
    job = asked(tiny, "--epochs", "7").tuning.search
    assert (job.strategy, job.recipe) == (PRESETS["default"].lasting(7), Recipe(epochs=7))


def test_split_metric_and_device_are_recorded(
    asked: Callable[..., TuneSettings], tiny: Path
) -> None:
    split = ["--split", "random", "--split-seeds", "4", "--metric", "macro-f1"]
    settings = asked(tiny, *split, "--device", "cpu", "--threads", "2")
    task = settings.task.load()
    assert task.split.sha256 == load_task(tiny, split="random", split_seed=4).split.sha256
    assert task.metric == "macro-f1"
    assert (settings.device.device, settings.device.threads) == ("cpu", 2)


@every_worker_flag
def test_flags_say_who_does_the_trials(
    asked: Callable[..., TuneSettings], tiny: Path, words: list[str], workers: WorkerFlags
) -> None:
    settings = asked(tiny, *words)
    assert settings.workers == workers
    assert TuneSettings.model_validate_json(settings.model_dump_json()) == settings


def test_a_number_of_workers_is_read_as_early_versions_recorded_it(
    asked: Callable[..., TuneSettings], tiny: Path
) -> None:
    recorded = {**asked(tiny).model_dump(mode="json"), "workers": 3}
    assert TuneSettings.model_validate_json(json.dumps(recorded)).workers == WorkerFlags(workers=3)


@pytest.mark.parametrize("flag", ["--normalize", "--undirected", "--standardize"])
def test_changes_to_the_graph_reach_it(
    asked: Callable[..., TuneSettings], tiny: Path, flag: str
) -> None:
    on, off = (asked(tiny, flag, how).task.load().graphs[0] for how in ("on", "off"))
    assert isinstance(on.x, torch.Tensor)
    assert isinstance(off.x, torch.Tensor)
    same = [torch.equal(on.x, off.x), torch.equal(on.edge_index, off.edge_index)]
    assert same == ([True, False] if flag == "--undirected" else [False, True])


def test_data_root_reaches_the_source(
    asked: Callable[..., TuneSettings], tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots: list[Path | None] = []

    def read(options: ReadOptions) -> Source:
        roots.append(options.data_root)
        return tiny_task.source

    monkeypatch.setitem(NAMED._entries, "herd", NamedTask(read, "a test"))
    settings = asked("herd", "--data-root", "there")
    assert roots == [Path("there")]
    assert settings.task.data_root == Path("there").resolve()


@pytest.mark.usefixtures("_here")
def test_a_tuning_ends_with_a_table_and_the_recipe(pdnas: Program, tiny: Path) -> None:
    done = pdnas("tune", tiny, *GIVEN)
    assert done.returncode == 0
    run = Path(done.stdout.partition("\nrun: ")[2].splitlines()[0])
    assert run.parent == Path("runs")
    assert run.name.startswith("tune-tiny-")
    last = done.stdout.splitlines()[-1]
    assert last == f"recipe: {run / 'recipe.toml'}; use it with --recipe in search and train"
    assert done.stdout.splitlines()[-2] == "recipes tried: 4 done"
    told = re.findall(r"^recipes (\d)/4: (\d) done \d+\.\d\d %", done.stderr, flags=re.M)
    assert told == [("1", "0"), ("2", "1"), ("3", "2"), ("4", "3")]
    assert {path.name for path in run.iterdir()} - {LOCK} == {
        "settings.json",
        "environment.json",
        "study.journal",
        "recipe.toml",
        "history.jsonl",
        "architecture.json",
        "model.safetensors",
        "predictions.safetensors",
        "result.json",
        "checkpoint",
        "report.html",
    }


@pytest.mark.usefixtures("_here")
def test_json_is_one_line_and_quiet_says_nothing(pdnas: Program, tiny: Path) -> None:
    done = pdnas("tune", tiny, *GIVEN, "--json", "--quiet", "--run-dir", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    said = json.loads(done.stdout)
    assert (said.pop("run"), said.pop("report")) == ("run", "run/report.html")
    assert said == json.loads(Path("run/result.json").read_text())
    done = pdnas("tune", tiny, *GIVEN, "--quiet", "--run-dir", "other")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.usefixtures("_here")
def test_a_terminal_gets_a_table_of_the_trials(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("pdnas.cli.trials.REFRESH", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert pdnas("tune", tiny, *GIVEN).returncode == 0
    said = re.sub(r"\x1b\[[0-9;?]*\w", "", terminal.getvalue())
    assert "recipes: 0 of 4 tried, 1 under way" in said
    assert "recipes: 4 of 4 tried, 0 under way" in said
    assert re.search(r"trial +state +validation +values", said)


@pytest.mark.usefixtures("_here")
def test_what_is_found_depends_on_nothing_but_the_command(pdnas: Program, tiny: Path) -> None:
    for name in ("one", "two"):
        assert pdnas("tune", tiny, *SEARCHED, "--run-dir", name, "--quiet").returncode == 0
    one, two = load_run("one"), load_run("two")
    assert (one.strategy, one.space) == ("pdnas", "extended")
    for name in ("architecture", "hidden", "recipe", "val", "test"):
        assert getattr(one, name) == getattr(two, name)


@pytest.mark.usefixtures("_here")
def test_the_recipe_is_for_search_and_train_and_the_run_for_train(
    pdnas: Program, tiny: Path
) -> None:
    assert pdnas("tune", tiny, *GIVEN, "--run-dir", "run", "--quiet").returncode == 0
    found, file = load_run("run"), Path("run/recipe.toml")
    assert Recipe.load(file).model_dump() == found.recipe
    train = ["train", tiny, "--seeds", "2", "--quiet", "--run-dir"]
    for words in (["again", "run"], ["named", "gcn", "--hidden", "4", "--recipe", file]):
        name, architecture, *flags = words
        command = [train[0], architecture, *train[1:], name, *flags]
        assert pdnas(*command).returncode == 0
        result = load_run(str(name))
        for field in ("architecture", "hidden", "recipe", "val", "test"):
            assert getattr(result, field) == getattr(found, field)
    lean = ["--candidates", "1", "--pool", "4", "--blocks", "1", "--hidden", "4", "--controls"]
    command = ["search", tiny, "--recipe", file, "--epochs", "4", "--run-dir", "searched"]
    assert pdnas(*command, "--quiet", *lean).returncode == 0
    assert load_run("searched").recipe == found.recipe


@pytest.mark.usefixtures("_here")
def test_the_same_command_goes_on_where_it_stopped(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["tune", tiny, *GIVEN, "--run-dir", "run"]
    assert pdnas("tune", tiny, *GIVEN, "--run-dir", "whole", "--quiet").returncode == 0
    changed, count = TuningProgress.changed, 0

    def stop(self: TuningProgress, study: Any) -> None:
        nonlocal count
        count += 1
        if count == 4:  # two trials are done
            raise KeyboardInterrupt
        changed(self, study)

    with monkeypatch.context() as patch:
        patch.setattr(TuningProgress, "changed", stop)
        done = pdnas(*command, "--quiet")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "pdnas: stopped; go on with: pdnas resume run\n"
    before = rows()
    assert [row.state for row in before] == ["done", "done"]
    done = pdnas(*command)
    assert done.returncode == 0
    assert "recipes: 2 trials are there already" in done.stderr
    assert re.findall(r"^recipes (\d)/4: (\d) done", done.stderr, flags=re.M) == [
        ("3", "2"),
        ("4", "3"),
    ]
    assert rows()[:2] == before
    assert rows() == rows("whole")
    assert load_run("run").test == load_run("whole").test


@pytest.mark.usefixtures("_here")
def test_a_failed_trial_is_spoken_of_at_the_end(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do, calls = TrainingWork.do, itertools.count()

    def fail_once(self: TrainingWork, *arguments: Any) -> dict[str, Any]:
        if next(calls) == 1:
            raise DivergedError("The loss is no longer finite.")
        return do(self, *arguments)

    monkeypatch.setattr(TrainingWork, "do", fail_once)
    done = pdnas("tune", tiny, *GIVEN)
    assert done.returncode == 0
    said = done.stdout.splitlines()[-2]
    assert said == "recipes tried: 2 done, 1 failed (The loss is no longer finite.)"


@pytest.mark.usefixtures("_here")
def test_more_trials_are_added_and_a_finished_tuning_says_the_same_again(
    pdnas: Program, tiny: Path
) -> None:
    command = ["tune", tiny, *GIVEN, "--run-dir", "run", "--quiet"]
    assert pdnas(*command).returncode == 0
    before, result = rows(), load_run("run")
    assert pdnas(*command).returncode == 0
    assert rows() == before
    assert load_run("run").val == result.val
    assert pdnas(*command, "--trials", "5").returncode == 0
    assert rows()[:4] == before
    assert {row.number for row in rows()} == set(range(len(rows())))
    assert 4 + 3 + 1 <= len(rows()) <= 4 + 3 + 3, "three drawn, and new ones of the best three"
    recipe = Recipe.load("run/recipe.toml").model_dump()
    assert load_run("run").recipe == recipe, "what is trained is what was chosen last"


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("flags", [[], ["--batch-nodes", "9"], ["--batching", "clusters"]])
def test_what_a_step_sees_stays_as_it_was_decided(
    pdnas: Program, tiny: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["tune", tiny, *GIVEN, "--run-dir", "run", "--quiet", *flags]
    assert pdnas(*command).returncode == 0
    decided = load_run("run").recipe
    monkeypatch.setattr(memory, "free_bytes", lambda _: 0)
    done = pdnas(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert load_run("run").recipe == decided
    assert (decided["batch_nodes"] is None) == (not flags)


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    ("flags", "other"),
    [
        (["--seeds", "3"], "seeds was 2 and is 3"),
        (["--batch-nodes", "9"], "batching was full and is not given"),
        (["--lr", "0.5"], "lr was 0.01 and is 0.5"),
        (["--fields", "lr"], "another fields"),
        (["--architecture", "gat"], "another architecture"),
        (["--device", "cpu"], "device was auto and is cpu"),
        (["--split", "random"], "split was not given and is random"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_other_settings_in_the_same_run_are_refused(
    pdnas: Program, tiny: Path, flags: list[str], other: str
) -> None:
    command = ["tune", tiny, *GIVEN, "--trials", "0", "--run-dir", "run"]
    assert pdnas(*command, "--quiet").returncode == 0
    files = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    said = one_sentence(pdnas(*command, *flags))
    assert said.startswith(f"The run 'run' was begun with other settings: {other}; repeat them, ")
    assert files == {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}


@pytest.mark.usefixtures("_here")
def test_the_run_of_another_command_is_refused(pdnas: Program, tiny: Path) -> None:
    train = ["train", "gcn", tiny, "--epochs", "1", "--run-dir", "run", "--quiet"]
    assert pdnas(*train).returncode == 0
    said = one_sentence(pdnas("tune", tiny, *GIVEN, "--run-dir", "run"))
    assert "is of another command, pdnas train; give another --run-dir." in said


@pytest.mark.usefixtures("_here")
def test_workers_and_threads_may_differ_when_it_goes_on(pdnas: Program, tiny: Path) -> None:
    command = ["tune", tiny, *GIVEN, "--trials", "0", "--run-dir", "run", "--quiet"]
    assert pdnas(*command).returncode == 0
    assert pdnas(*command, "--workers", "2", "--threads", "2").returncode == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--trials", "-1"], "--trials is -1; give 0 to"),
        (["--trials", "many"], "trials"),
        (["--trial-seeds", "0"], "--trial-seeds is 0; give 1 to"),
        (["--seeds", "0"], "--seeds is 0; give 1 to"),
        (["--candidates", "0"], "--candidates is 0"),
        (["--mutations", "-1"], "--mutations is -1"),
        (["--seed", "-1"], "The seed -1 is out of range"),
        (["--fields", "epochs"], "field to tune 'epochs'"),
        (["--fields"], "There is nothing to tune"),
        (["--fields", "lr", "lr"], "--fields has ['lr', 'lr']; name each of them once."),
        (["--preset", "best"], "'best'"),
        (["--space", "nowhere.toml"], "nowhere.toml"),
        (["--space", "wide"], "'wide'"),
        (["--recipe", "nowhere.toml"], "nowhere.toml"),
        (["--architecture", "gnc"], "baseline 'gnc'"),
        (["--hidden", "0"], "hidden size is 0"),
        (["--hidden", "4", "4"], "--hidden has the values [4, 4]"),
        (["--blocks", "0"], "number of blocks is 0"),
        (["--lr", "-1"], "lr"),
        (["--epochs", "0"], "epochs"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--threads", "0"], "number of threads is 0"),
        (["--split-seeds", "0..3"], "A tuning is on one split"),
        (["--wrokers", "2"], "--wrokers"),
        (["--workers", "0"], "number of workers is 0; give 1 to"),
        (["--study", "mine"], "--study and --grace are for a study in a database; give its"),
        (["--grace", "9"], "--study and --grace are for a study in a database; give its"),
        (["--storage", "mysql://me@host/db"], "--storage is no PostgreSQL URL; write it as"),
        (["--storage", NOWHERE, "--grace", "0"], "--grace is 0; give 1 to 86400 seconds."),
        (["--storage", NOWHERE, "--study", ""], "The name of --study is empty; give one"),
        (["--storage", NOWHERE], "'postgresql://me@127.0.0.1:1/db' cannot be reached (Connection"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_values_are_one_sentence_and_leave_nothing_behind(
    pdnas: Program, tiny: Path, place: Path, flags: list[str], said: str
) -> None:
    assert said in one_sentence(pdnas("tune", tiny, *flags))
    assert list(place.iterdir()) == []


def test_without_psycopg_a_database_is_refused(
    pdnas: Program, tiny: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pdnas.tuning.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = one_sentence(pdnas("tune", tiny, "--storage", NOWHERE))
    assert said.endswith("install it with: pip install 'pdnas[postgresql]'.")
    assert list(place.iterdir()) == []


def test_the_storage_is_recorded_without_its_password(
    asked: Callable[..., TuneSettings], tiny: Path
) -> None:
    flags = ["--storage", NOWHERE, "--device", "cpu"]
    settings = asked(tiny, *flags, "--study", "mine", "--grace", "9")
    assert settings.storage is not None
    assert settings.storage.url == "postgresql://me@127.0.0.1:1/db"
    assert (settings.storage.study, settings.storage.grace) == ("mine", 9)
    unnamed = [asked(tiny, *flags, *more).storage for more in ([], ["--trials=3"], ["--lr=0.5"])]
    names = [storage.study for storage in unnamed if storage is not None]
    assert names[0] == names[1] != names[2]
    assert asked(tiny).storage is None


@pytest.mark.parametrize("workers", ["0", "-1", "9999"])
def test_a_number_of_workers_without_sense_is_one_sentence(
    pdnas: Program, tiny: Path, workers: str
) -> None:
    said = one_sentence(pdnas("tune", tiny, *GIVEN, "--workers", workers))
    assert said == f"The number of workers is {workers}; give 1 to 1024."


@pytest.mark.parametrize(
    "flag",
    [
        "--space=paper",
        "--preset=paper",
        "--blocks=3",
        "--max-parameters=10",
        "--candidates=2",
        "--designs=off",
        "--mutations=4",
    ],
)
def test_a_given_network_is_not_searched_for(
    pdnas: Program, tiny: Path, place: Path, flag: str
) -> None:
    said = one_sentence(pdnas("tune", tiny, *GIVEN, flag))
    name = flag.partition("=")[0]
    assert said == (
        f"{name} is for a search, but --architecture names the network; leave out one of them."
    )
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_what_searches_noticed_about_themselves_is_said(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch, quiet: tuple[str, ...]
) -> None:
    monkeypatch.setattr(PdnasSearch, "warnings", lambda _: ["[It] rained."])
    done = pdnas("tune", tiny, *SEARCHED, *quiet, "--run-dir", "run")
    said = "With 1 block(s) and hidden size 4: [It] rained.\n"
    assert (done.returncode, said in done.stderr) == (0, not quiet)


@pytest.mark.usefixtures("_here")
def test_a_run_that_another_process_works_on_is_refused(pdnas: Program, tiny: Path) -> None:
    command = ["tune", tiny, *GIVEN, "--trials", "0", "--run-dir", "run", "--quiet"]
    assert pdnas(*command).returncode == 0
    settings = Path("run", SETTINGS).read_bytes()
    more = [*command[:-1], "--trials", "3"]
    with RunDirectory.open("run").alone():
        for again in (command, more, ["resume", "run"]):
            assert one_sentence(pdnas(*again)).startswith("The run 'run' is worked on by another")
        assert Path("run", SETTINGS).read_bytes() == settings
    assert pdnas(*command).returncode == 0


def test_a_task_that_is_not_there_is_one_sentence(pdnas: Program) -> None:
    assert "nowhere.npz" in one_sentence(pdnas("tune", "nowhere.npz", *GIVEN))


def test_two_workers_come_to_a_result(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that begin with everything imported, which takes seconds otherwise."""
    server: ForkServerContext = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["pdnas.tuning.local"])
    here = SimpleNamespace(
        get_context=lambda _: server, parent_process=multiprocessing.parent_process
    )
    monkeypatch.setattr(local, "multiprocessing", here)
    command = ["tune", tiny, *GIVEN, "--workers", "2", "--run-dir", "run", "--quiet"]
    done = pdnas(*command, "--trials", "4", "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert [row.state for row in rows()] == ["done"] * 8
    assert len(load_run("run").test.values) == 2
    assert multiprocessing.active_children() == []


def test_settings_hold_all_that_decides_a_tuning(
    asked: Callable[..., TuneSettings], tiny: Path
) -> None:
    settings = asked(tiny, *GIVEN)
    assert TuneSettings.model_validate_json(settings.model_dump_json()) == settings
    assert isinstance(settings.tuning, Tuning)
    assert Path(settings.task.task) == tiny.resolve()


@pytest.mark.parametrize(
    ("flags", "device"),
    [
        (["--device=cpu"], "cpu"),
        (["--executor=ray"], "cpu"),
        (["--executor=ray", "--gpus-per-trial=0.5"], "cuda"),
    ],
)
def test_drivers_agree_on_where_trials_compute_and_not_on_where_they_do(
    pdnas: Program,
    asked: Callable[..., TuneSettings],
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    device: str,
) -> None:
    """On Ray, a driver without a GPU and one with it may share a study."""
    named = asked(tiny, "--storage", NOWHERE, *flags)
    agreed = Agreement.of(named.tuning, load_task(str(tiny)), torch.device(device))
    assert named.storage is not None
    assert named.storage.study == f"tiny-{agreed.fingerprint}"
    told: list[str] = []

    class Kept(Memory):
        about = None

        def join(self, about: str) -> str:
            told.append(about)
            raise KeyboardInterrupt

    monkeypatch.setattr(StorageSettings, "open", lambda *_: nullcontext(Kept()))
    assert pdnas("tune", tiny, "--storage", NOWHERE, *flags).returncode == 130
    assert Agreement.model_validate_json(told[0]).device == device
