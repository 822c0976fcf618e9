"""``pdnas search`` from end to end, and the effect of each of its flags."""

import io
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
from tests.cli.conftest import PROMISED, WORKER_FLAGS, every_worker_flag
from tests.conftest import Here

import pdnas as package
from pdnas.architecture import Architecture, BlockSpec
from pdnas.cli import STARTED
from pdnas.errors import SearchError
from pdnas.job import Job
from pdnas.models.baselines import BASELINES, block_designs
from pdnas.pipeline import plan
from pdnas.progress import SearchProgress
from pdnas.runs import LOCK, load_run
from pdnas.search import STRATEGIES
from pdnas.search.pdnas import PRESETS
from pdnas.search.rated import SHARED_EPOCHS
from pdnas.settings import SearchSettings, WorkerFlags
from pdnas.space import SPACES, SearchSpace
from pdnas.tasks import GraphTask, load_task
from pdnas.tasks.source import NAMED, NamedTask, ReadOptions, Source
from pdnas.training import RECIPES, Recipe, memory, train
from pdnas.tuning.cells import CellWork
from pdnas.tuning.ranges import RANGES

Program = Callable[..., CompletedProcess[str]]
Run = Callable[..., dict[str, Any]]

BASIC = ["--epochs=6", "--hidden=4", "--seeds=1", "--candidates=1", "--designs=off"]
SMALL = [*BASIC, "--adapt-epochs=1", "--pool", "4", "--controls"]
"""A search of a moment; the second one ends with a flag that takes any number of words."""

PAPER = ["--preset", "paper", "--anneal-start", "0"]
STRATEGY_FLAGS = {
    "--train-steps": ("3", PAPER),
    "--weight-lr": ("0.1", PAPER),
    "--architecture-lr": ("0.3", PAPER),
    "--anneal-start": ("2", PAPER),
    "--anneal-rate": ("9.0", PAPER),
    "--warm-up": ("3", PAPER),
    "--estimator": ("straight-through", PAPER),
    "--controller": ("logits", PAPER),
    "--gating": ("hard", PAPER),
    "--gate-noise": ("logistic", PAPER),
    "--graph-summary": ("on", PAPER),
    "--pool": ("9", [*PAPER, "--candidates", "3"]),
    "--adapted": ("4", ["--space", "paper", "--pool", "8"]),
    "--adapt-epochs": ("9", ["--pool", "8", "--adapted", "4"]),
}
"""A value for each, and the flags beside which it matters."""

RECIPE_FLAGS = {
    "--optimizer": "sgd",
    "--lr": "0.5",
    "--weight-decay": "0.5",
    "--input-dropout": "0.1",
    "--dropout": "0.1",
    "--attention-dropout": "0.1",
    "--node-dropout": "0.1",
    "--feature-weights": "on",
    "--copies": "2",
    "--consistency": "0.5",
    "--consistency-warm-up": "7",
    "--sharpening": "0.25",
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
RIVAL_FLAGS = {
    "--climb": ("off", "pdnas"),
    "--architecture-decay": ("0.5", "darts"),
    "--sharing": ("on", "random"),
    "--train-epochs": ("3", "evolution"),
    "--population": ("7", "evolution"),
    "--tournament": ("2", "evolution"),
    "--policy-lr": ("0.5", "graphnas"),
    "--baseline-decay": ("0.5", "graphnas"),
    "--entropy-weight": ("0.5", "agnn"),
    "--inherited-epochs": ("3", "agnn"),
}
"""A value for each, and a strategy that has it."""

OTHER_FLAGS = {
    *WORKER_FLAGS,
    "--tensorboard",
    "--space",
    "--strategy",
    "--preset",
    "--epochs",
    "--blocks",
    "--hidden",
    "--max-parameters",
    "--candidates",
    "--designs",
    "--incumbents",
    "--mutations",
    "--repeats",
    "--tune",
    "--controls",
    "--recipe",
    "--seed",
    "--seeds",
    "--budget-seconds",
    "--budget-trials",
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


TIMED = plan.TIMED


@pytest.fixture(autouse=True)
def _measured_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)


@pytest.fixture
def search(pdnas: Program, tiny: Path) -> Run:
    """Searches for a moment; what the run holds, and beside it the history."""
    number = 0

    def run(*flags: str | Path, task: str | Path = tiny) -> dict[str, Any]:
        nonlocal number
        number += 1
        folder = Path(f"run{number}")
        done = pdnas("search", task, *SMALL, *flags, "--run-dir", folder, "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        lines = (folder / "history.jsonl").read_text().splitlines()
        result["history"] = [json.loads(line) for line in lines]
        result["environment"] = json.loads((folder / "environment.json").read_text())
        return result

    return run


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, ...], dict[str, Any]]:
    """Searches that several tests compare with."""
    return {}


@pytest.fixture
def plain(search: Run, known: dict[tuple[str, ...], dict[str, Any]]) -> Run:
    """The same as ``search``, but done once only for the same flags."""

    def run(*flags: str) -> dict[str, Any]:
        if flags not in known:
            known[flags] = search(*flags)
        return json.loads(json.dumps(known[flags]))  # type: ignore[no-any-return]

    return run


@dataclass
class Asked:
    """What a command would have done."""

    job: Job
    settings: SearchSettings
    task: GraphTask


@pytest.fixture
def asked(pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """What some flags ask for, without doing it."""

    def run(*flags: str | Path) -> Asked:
        heard: list[Asked] = []

        def execute(settings: SearchSettings, task: GraphTask, *_: object) -> int:
            heard.append(Asked(settings.job, settings, task))
            return 0

        with monkeypatch.context() as patch:
            patch.setattr("pdnas.cli.search.execute", execute)
            done = pdnas("search", *flags)
        assert (done.returncode, done.stderr) == (0, "")
        return heard[0]

    return run


@pytest.fixture
def refused(pdnas: Program, tiny: Path, place: Path) -> Callable[..., str]:
    """What a failing ``pdnas search`` says, after checking that it says it properly."""

    def run(*arguments: str | Path) -> str:
        before = sorted(place.rglob("*"))
        done = pdnas("search", tiny, *arguments)
        sentence = one_sentence(done)
        assert sorted(place.rglob("*")) == before, "something was written"
        return sentence

    return run


def one_sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    *progress, last = done.stderr.splitlines()
    assert not [line for line in progress if line.startswith("pdnas: ")]
    assert last.startswith("pdnas: ")
    return last.removeprefix("pdnas: ")


def test_every_flag_of_the_help_is_tested_here(pdnas: Program) -> None:
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", pdnas("search", "--help").stdout))
    tested = STRATEGY_FLAGS.keys() | RECIPE_FLAGS.keys() | RIVAL_FLAGS.keys() | OTHER_FLAGS
    assert flags - {"--help"} == tested


def test_tensorboard_gets_events_of_the_search(pdnas: Program, tiny: Path) -> None:
    assert pdnas("search", tiny, *BASIC, "--tensorboard", "--run-dir", "run").returncode == 0
    assert list(Path("run/tensorboard").glob("events.out.tfevents.*"))


def test_a_search_ends_with_a_drawing_a_table_the_cost_and_the_files(
    pdnas: Program, tiny: Path
) -> None:
    done = pdnas("search", tiny, *BASIC)
    assert done.returncode == 0
    said = done.stdout
    assert said.startswith(f"The network found for {tiny}, split own:\n\nfeatures 5")
    for part in ("├─ block 0: mlp x", "├─ block 1: mlp x", "hidden 4", "logits 3"):
        assert part in said
    header = ["network", "runs", "validation", "test", "parameters", "seconds"]
    assert re.search(r"\s+".join(header[:3]), said)
    assert all(word in said for word in header)
    rows = re.findall(r"^(\S+) +1 +\d+\.\d\d +\d+\.\d\d ", said, flags=re.M)
    assert rows == ["found", "random", "gcn", "gat"]
    assert re.search(
        r"^The search took \d+\.\d s, \d+\.\d times one training of the network found of 6 epochs "
        r"\(\d+\.\d s\)",
        said,
        flags=re.M,
    )
    run = Path(said.partition("\nrun: ")[2].splitlines()[0])
    assert run.parent == Path("runs")
    assert run.name.startswith("search-tiny-")
    listed = re.findall(r"^  (\S+\.\S+) ", said.partition("\nrun: ")[2], flags=re.M)
    assert set(listed) == {path.name for path in run.iterdir() if path.is_file()} - {LOCK}
    assert load_run(run).task == str(tiny)


def test_progress_goes_to_stderr_only(pdnas: Program, tiny: Path) -> None:
    done = pdnas("search", tiny, *SMALL, "gcn")
    for part in ("estimated: about", "favored: ", "training candidate 1", "training gcn, seed 0"):
        assert part in done.stderr
        assert part not in done.stdout


def test_a_run_directory_holds_what_the_design_says(search: Run, tiny: Path) -> None:
    result = search("gcn")
    folder = Path("run1")
    assert {path.name for path in folder.iterdir()} - {LOCK} == {
        "settings.json",
        "environment.json",
        "history.jsonl",
        "architecture.json",
        "model.safetensors",
        "predictions.safetensors",
        "result.json",
        "report.html",
        "checkpoint",
    }
    assert result.keys() >= PROMISED
    assert result["split"].keys() >= {"name", "sha256"}
    assert all(result[part].keys() >= {"mean", "std", "values"} for part in ("val", "test"))
    assert (result["task"], result["strategy"], result["space"]) == (str(tiny), "pdnas", "extended")
    assert result["architecture"] == json.loads((folder / "architecture.json").read_text())
    assert result["search_seconds"] > 0
    assert result["version"] == package.__version__
    settings = SearchSettings.model_validate_json((folder / "settings.json").read_text())
    assert settings.job.recipe.batching == "full", "that is decided before anything is done"
    assert settings.job.recipe.undecided.model_dump() == result["recipe"]
    assert settings.job.strategy.model_dump() == result["search"]["settings"]


def test_json_is_all_there_is_on_stdout(pdnas: Program, tiny: Path) -> None:
    done = pdnas("search", tiny, *SMALL, "--json", "--run-dir", "run")
    lines = done.stdout.splitlines()
    said = json.loads(lines[-1])
    assert len(lines) == 1
    assert said.keys() >= PROMISED
    assert (said.pop("run"), said.pop("report")) == ("run", "run/report.html")
    assert said == json.loads(Path("run/result.json").read_text())


def test_quiet_says_nothing(pdnas: Program, tiny: Path) -> None:
    done = pdnas("search", tiny, *SMALL, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = pdnas("search", tiny, *SMALL, "--quiet", "--json")
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    json.loads(done.stdout)


def test_a_terminal_without_unicode_gets_the_drawing_too(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="ascii"))
    done = pdnas("search", tiny, *SMALL, "--run-dir", "run")
    sys.stdout.flush()
    assert done.returncode == 0
    assert b"block 0: mlp x" in content.getvalue()


def test_without_an_argument_it_is_citeseer_and_the_defaults(
    asked: Callable[..., Asked],
) -> None:
    heard = asked()
    assert heard.task.name == "citeseer"
    assert heard.job == Job()
    assert heard.settings.device.device == "auto"


def test_what_is_found_depends_on_nothing_but_the_command(search: Run, plain: Run) -> None:
    first, second = plain(), search()
    assert first["history"] == second["history"]
    assert first["architecture"] == second["architecture"]
    assert first["test"] == second["test"]


@pytest.mark.parametrize("flag", STRATEGY_FLAGS)
def test_flags_of_the_strategy_are_recorded_and_change_the_search(
    search: Run, plain: Run, flag: str
) -> None:
    value, beside = STRATEGY_FLAGS[flag]
    before, after = plain(*beside), search(*beside, flag, value)
    field = flag.removeprefix("--").replace("-", "_")
    settings = after["search"]["settings"]
    assert str(settings.pop(field)) == value
    assert str(before["search"]["settings"].pop(field)) != value
    assert settings == before["search"]["settings"], "nothing else is changed"
    rated = [[trial["shared_val"] for trial in run["search"]["trials"]] for run in (before, after)]
    assert (before["history"], rated[0]) != (after["history"], rated[1])


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--estimator", "scaled"),
        ("--controller", "mlp"),
        ("--gating", "soft"),
        ("--gate-noise", "gumbel"),
        ("--graph-summary", "on"),
    ],
)
def test_every_choice_of_the_help_is_done_or_refused_in_a_sentence(
    pdnas: Program, tiny: Path, flag: str, value: str
) -> None:
    done = pdnas("search", tiny, *SMALL, "--epochs", "12", flag, value)
    if done.returncode:
        one_sentence(done)


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_sets_all_of_the_strategy(asked: Callable[..., Asked], preset: str) -> None:
    assert asked("--preset", preset).job.strategy == PRESETS[preset]


def test_flags_go_before_the_preset(asked: Callable[..., Asked]) -> None:
    job = asked("--preset", "paper", "--pool", "7").job
    assert job.strategy == PRESETS["paper"].changed(pool=7)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "default"])
def test_another_preset_searches_in_another_way(search: Run, plain: Run, preset: str) -> None:
    assert search("--preset", preset)["history"] != plain()["history"]


@pytest.mark.parametrize(("flag", "value"), RECIPE_FLAGS.items())
def test_flags_of_the_recipe_change_the_recipe_alone(
    asked: Callable[..., Asked], flag: str, value: str
) -> None:
    job = asked(flag, value).job
    field = flag.removeprefix("--").replace("-", "_")
    assert str(getattr(job.recipe, field)) == value
    assert job.recipe.model_dump(exclude={field}) == Recipe().model_dump(exclude={field})
    assert job.model_copy(update={"recipe": Recipe()}) == Job()


def test_trainings_follow_the_recipe(search: Run, plain: Run) -> None:
    def trainings(result: dict[str, Any]) -> list[dict[str, Any]]:
        return [line for line in result["history"] if line["phase"] == "final"]

    assert trainings(plain()) != trainings(search("--lr", "0.5"))


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_may_be_a_name(asked: Callable[..., Asked], name: str) -> None:
    assert asked("--recipe", name).job.recipe == RECIPES[name]


def test_recipe_may_be_a_file(asked: Callable[..., Asked]) -> None:
    Path("mine.toml").write_text('optimizer = "adamw"\nlr = 0.5\n')
    assert asked("--recipe", "mine.toml").job.recipe == Recipe(optimizer="adamw", lr=0.5)


def test_epochs_are_those_of_the_search_and_of_the_trainings(search: Run) -> None:
    result = search("--epochs", "7")
    phases = [line["phase"] for line in result["history"]]
    assert phases == ["search"] * 7 + ["candidate"] * 7 + ["final"] * 7
    assert (result["search"]["epochs"], result["recipe"]["epochs"]) == (7, 7)


def test_one_epoch_is_enough(search: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", TIMED)
    assert search("--epochs", "1")["search"]["epochs"] == 1


def test_blocks_and_hidden_make_a_grid(search: Run) -> None:
    result = search("--blocks", "1", "2", "--hidden", "3", "5")
    trials = result["search"]["trials"]
    shapes = [(len(trial["architecture"]["blocks"]), trial["hidden"]) for trial in trials]
    assert shapes[:4] == [(1, 3), (1, 5), (2, 3), (2, 5)]
    assert (len(result["architecture"]["blocks"]), result["hidden"]) in shapes
    assert {line["cell"] for line in result["history"] if line["phase"] == "search"} == {0, 1, 2, 3}


def test_max_parameters_is_kept(search: Run, tiny: Path) -> None:
    free, limited = search("--candidates", "3"), search("--candidates", "3", "--max-parameters=80")
    task = load_task(tiny)
    assert limited["parameters"] <= 80
    sizes = [
        [
            Architecture.model_validate(trial["architecture"]).parameters(task, 4)
            for trial in result["search"]["trials"]
        ]
        for result in (free, limited)
    ]
    assert max(sizes[0]) > 80 >= max(sizes[1])


def test_candidates_are_so_many(search: Run, plain: Run) -> None:
    different = {json.dumps(t["architecture"]) for t in plain()["search"]["trials"]}
    assert len(different) == 1
    trials = search("--candidates", "3")["search"]["trials"]
    assert len({json.dumps(trial["architecture"]) for trial in trials}) == 3


def test_designs_are_baselines_of_the_space_that_are_trained_too(search: Run, plain: Run) -> None:
    trials = search("--space", "extended", "--designs", "on")["search"]["trials"]
    first = [trial for trial in trials if trial["seed"] == 2**32]
    known = {
        SPACES["extended"].plain(design)
        for design in block_designs()
        if design in SPACES["extended"] and design.num_blocks == 2
    }
    designs = {Architecture.model_validate(trial["architecture"]) for trial in first[1:]}
    assert known
    assert designs == known
    assert {trial["shared_val"] for trial in first[1:]} == {None}
    assert len(plain()["search"]["trials"]) == 1


def test_incumbents_are_networks_that_are_trained_too(search: Run, tmp_path: Path) -> None:
    mine = Architecture(blocks=(BlockSpec(attention="cos"), BlockSpec(expansion=4)))
    mine.save(tmp_path / "mine.json")
    trials = search("--incumbents", tmp_path / "mine.json", "--space", "paper")["search"]["trials"]
    first = [trial for trial in trials if trial["seed"] == 2**32]
    assert [trial["shared_val"] is None for trial in first] == [False, True]
    assert Architecture.model_validate(first[1]["architecture"]) == mine


def test_mutations_are_changes_that_are_trained_too(search: Run, plain: Run) -> None:
    result = search("--mutations", "2")
    trials, alone = result["search"]["trials"], plain()["search"]["trials"]
    assert [trial["seed"] - 2**32 for trial in trials] == [0, 0, 0, 1, 1, 1]
    assert [trial["shared_val"] is None for trial in trials[:3]] == [False, True, True]
    assert len({json.dumps(trial["architecture"]) for trial in trials}) == 3
    assert trials[0]["architecture"] == alone[0]["architecture"]


def test_repeats_train_the_best_again(search: Run) -> None:
    trials = search("--mutations", "2", "--repeats", "2")["search"]["trials"]
    assert [trial["seed"] - 2**32 for trial in trials] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_tune_finds_a_recipe_that_the_final_trainings_and_the_controls_follow(
    pdnas: Program, tiny: Path
) -> None:
    poor = ["--lr", "1e-12"]
    done = pdnas("search", tiny, *SMALL, "gcn", *poor, "--tune", "2", "--run-dir", "run")
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if line.startswith("tuning the recipe: ")]
    assert said == [f"tuning the recipe: trial {number}/4" for number in (1, 2, 3, 4)]
    assert ", tuning at most " in done.stderr
    result = load_run("run")
    settings = SearchSettings.model_validate_json(Path("run/settings.json").read_text())
    base, tuned = settings.job.recipe.undecided, Recipe.model_validate(result.recipe)
    assert settings.job.tune == 2
    assert tuned == base.changed(**RECIPES["consistency"].model_dump(include=set(RANGES)))
    assert result.tune_seconds > 0
    assert result.search is not None
    control = train(
        BASELINES["gcn"].architecture, load_task(tiny), hidden=4, recipe=tuned, seeds=(0,)
    )
    assert result.search.controls[0].test == control.test
    assert pdnas("train", "run", tiny, "--run-dir", "again", "--quiet").returncode == 0
    again = load_run("again")
    assert (again.recipe, again.val, again.test) == (result.recipe, result.val, result.test)


def test_a_tuned_search_goes_on_where_it_stopped(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: SearchProgress, trial: int, __: int) -> None:
        if trial == 3:
            raise KeyboardInterrupt

    command: list[str | Path] = ["search", tiny, *SMALL, "--tune", "2", "--quiet", "--run-dir"]
    assert pdnas(*command, "whole").returncode == 0
    with monkeypatch.context() as patch:
        patch.setattr(SearchProgress, "tuned", stop)
        assert pdnas(*command, "run").returncode == 130
    done = pdnas("resume", "run")
    assert done.returncode == 0
    assert "training candidate" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("tuning the recipe: ")]
    assert said == [f"tuning the recipe: trial {number}/4" for number in (3, 4)]
    one, other = load_run("whole"), load_run("run")
    assert (other.recipe, other.val, other.test) == (one.recipe, one.val, one.test)


def in_time(pdnas: Program, *command: object) -> tuple[int, CompletedProcess[str], Path]:
    """A job with a few seconds, or with more where the machine is too busy: these, and its run."""
    for seconds in (4, 8, 16, 32):
        run = Path(f"run-{seconds}")
        done = pdnas("search", *command, "--budget-seconds", str(seconds), "--run-dir", run)
        if "is too small for this job" not in done.stderr:
            break
    assert done.returncode == 0
    return seconds, done, run


def test_the_budget_limits_the_tuning(pdnas: Program, tiny: Path) -> None:
    command = ["--hidden=4", "--seeds=1", "--candidates=1", "--designs=off", "--pool=4"]
    began = time.monotonic()
    seconds, _, run = in_time(pdnas, tiny, *command, "--tune", "9999", "--controls")
    assert time.monotonic() - began < 2 * seconds
    result = load_run(run)
    assert 0 < result.tune_seconds < seconds
    assert len(result.val.values) == 1, "the final training is not given up for it"


def test_controls_are_those_named(search: Run, plain: Run) -> None:
    controls = search("sage", "random", "appnp")["search"]["controls"]
    assert [control["name"] for control in controls] == ["sage", "random", "appnp"]
    assert controls[2]["architecture"] == BASELINES["appnp"].design.model_dump()
    assert plain()["search"]["controls"] == []


def test_seed_is_the_first_and_seeds_counts(search: Run, plain: Run) -> None:
    result = search("--seed", "3", "--seeds", "2")
    assert (result["seeds"], result["search"]["seed"]) == ([3, 4], 3)
    assert len(result["test"]["values"]) == 2
    paths = [
        [line["path"] for line in run["history"] if line["phase"] == "search"]
        for run in (result, plain())
    ]
    assert paths[0] != paths[1]


def test_space_is_where_it_looks(search: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    values = SPACES["paper"].model_dump()
    narrow = SearchSpace(**{**values, "name": "narrow", "attention": ("cos",), "expansion": (2,)})
    monkeypatch.setitem(SPACES._entries, "narrow", narrow)
    result = search("--space", "narrow")
    assert result["space"] == "narrow"
    assert Architecture.model_validate(result["architecture"]) in narrow


def test_space_may_be_a_file(asked: Callable[..., Asked]) -> None:
    Path("mine.toml").write_text('attention = ["cos"]\n')
    expected = SPACES["paper"].model_copy(update={"name": "mine", "attention": ("cos",)})
    assert asked("--space", "mine.toml").job.space == expected


def test_strategy_is_how_it_looks(asked: Callable[..., Asked], plain: Run) -> None:
    for name in STRATEGIES:
        assert isinstance(asked("--strategy", name).job.strategy, STRATEGIES[name])
    assert plain()["strategy"] == "pdnas"


@pytest.mark.parametrize("flag", RIVAL_FLAGS)
def test_flags_of_other_strategies_are_recorded(asked: Callable[..., Asked], flag: str) -> None:
    value, name = RIVAL_FLAGS[flag]
    field = flag.removeprefix("--").replace("-", "_")
    beside = ["--sharing", "on"] if flag == "--inherited-epochs" else []
    before = asked("--strategy", name, *beside).job.strategy
    after = asked("--strategy", name, *beside, flag, value).job.strategy
    assert str(getattr(after, field)) == value != str(getattr(before, field))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--strategy", "random", "--pool", "9"],
            "--pool changes nothing for the strategy 'random' with --sharing off; leave it out, "
            "or change that.",
        ),
        (
            ["--strategy", "graphnas", "--sharing", "on", "--train-epochs", "9"],
            "--train-epochs changes nothing for the strategy 'graphnas' with --sharing on; leave "
            "it out, or change that.",
        ),
        (
            ["--strategy", "agnn", "--inherited-epochs", "9"],
            "--inherited-epochs changes nothing for the strategy 'agnn' with --sharing off; leave "
            "it out, or change that.",
        ),
    ],
)
def test_a_flag_that_changes_nothing_is_refused(
    refused: Callable[..., str], flags: list[str], sentence: str
) -> None:
    assert refused(*flags) == sentence


def test_sharing_makes_a_search_longer_unless_epochs_are_given(
    asked: Callable[..., Asked],
) -> None:
    shared = ["--strategy", "graphnas", "--sharing", "on"]
    assert asked(*shared).job.strategy.epochs == SHARED_EPOCHS
    assert asked(*shared, "--epochs", "9").job.strategy.epochs == 9


@pytest.mark.parametrize("sharing", ["off", "on"])
@pytest.mark.parametrize("name", ["random", "evolution", "graphnas", "agnn"])
def test_every_strategy_finds_a_network(
    pdnas: Program, tiny: Path, name: str, sharing: str
) -> None:
    flags = ["--strategy", name, "--sharing", sharing, *BASIC, "--controls", "--json"]
    done = pdnas("search", tiny, *flags)
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert (result["strategy"], result["search"]["epochs"]) == (name, 6)


GRID = ["--blocks", "1", "2"]


@every_worker_flag
def test_flags_say_who_searches_the_grid(
    asked: Callable[..., Asked], words: list[str], workers: WorkerFlags
) -> None:
    settings = asked(*GRID, *words).settings
    assert settings.workers == workers
    assert SearchSettings.model_validate_json(settings.model_dump_json()) == settings


def test_a_grid_that_others_search_comes_to_the_same(
    search: Run, pdnas: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and where it was stopped and goes on."""
    monkeypatch.setattr("pdnas.tuning.place.LocalExecutor", Here)
    expected, found = search(*GRID), search(*GRID, "--workers", "2")
    names = ("architecture", "hidden", "val", "test")
    assert [found[name] for name in names] == [expected[name] for name in names]
    assert len(found["history"]) == len(expected["history"])
    do = CellWork.do

    def stop(self: CellWork, *arguments: Any) -> dict[str, Any]:
        if self.job.blocks == (2,):
            raise KeyboardInterrupt
        return do(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CellWork, "do", stop)
        done = pdnas("search", "citeseer", *SMALL, *GRID, "--workers", "2", "--run-dir", "run")
    assert done.returncode == 130
    assert done.stderr.endswith("pdnas: stopped; go on with: pdnas resume run.\n")
    done = pdnas("resume", "run")
    assert done.returncode == 0
    assert re.findall(r"^searched, (\d) blocks, hidden 4: 6 epochs", done.stderr, re.M) == [
        "1",
        "2",
    ]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--workers", "2"], "--workers, --executor, --trial-timeout and the like are for the "),
        (["--executor", "ray", *GRID, "--budget-seconds", "60"], "--budget-seconds is for searche"),
        (["--workers", "2", *GRID, "--tensorboard"], "--tensorboard is for searches of this proc"),
        (["--workers", "0", *GRID], "The number of workers is 0; give 1 to"),
        (["--gpus-per-trial", "1", *GRID], "--gpus-per-trial is for trials on Ray; leave it out"),
    ],
)
def test_other_processes_are_refused_for_what_they_cannot_do(
    refused: Callable[..., str], flags: list[str], said: str
) -> None:
    assert refused(*flags).startswith(said)


def test_a_flag_that_the_strategy_has_not_is_refused(refused: Callable[..., str]) -> None:
    sentence = refused("--strategy", "random", "--population", "9")
    assert sentence == (
        "The strategy 'random' has no setting 'population'; it has: epochs, sharing, "
        "train_epochs, weight_lr, pool."
    )


def test_a_preset_of_another_strategy_is_refused(refused: Callable[..., str]) -> None:
    sentence = refused("--strategy", "random", "--preset", "paper")
    assert sentence == (
        "--preset is 'paper', but only the strategy 'pdnas' has presets, not 'random'; leave it "
        "out."
    )


def test_the_budget_of_trials_limits_the_trainings(search: Run, plain: Run) -> None:
    few = ["--candidates", "4", "--repeats", "2"]
    assert len(search(*few, "--budget-trials", "3")["search"]["trials"]) == 3
    assert len(plain(*few)["search"]["trials"]) > 3


@pytest.mark.parametrize("count", ["1", "10001"])
def test_a_budget_of_too_few_or_too_many_trials_is_refused(
    refused: Callable[..., str], count: str
) -> None:
    assert refused("--budget-trials", count) == f"--budget-trials is {count}; give 2 to 10000."


def test_the_budget_limits_the_job(pdnas: Program, tiny: Path) -> None:
    long = ["--hidden", "4", "--seeds", "40", "--pool", "4", "--adapted", "1"]
    seconds, done, run = in_time(pdnas, tiny, *long)
    assert f"limited to {seconds} s" in done.stderr
    assert "The job ended early, because the budget was spent" in done.stdout
    result = load_run(run)
    assert result.search is not None
    assert result.search.stopped == "budget"


def test_the_budget_runs_from_the_start_of_the_command(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that it took to read the data is gone."""

    def slow(name: str, **_: object) -> GraphTask:
        STARTED.set(STARTED.get() - 100)
        return load_task(name)

    monkeypatch.setattr("pdnas.settings.load_task", slow)
    done = pdnas("search", tiny, *SMALL, "--budget-seconds", "50")
    assert "The budget of 50 seconds is too small for this job" in one_sentence(done)


def test_split_is_chosen_by_name_and_number(asked: Callable[..., Asked], tiny: Path) -> None:
    assert asked(tiny).task.split.name == "own"
    heard = asked(tiny, "--split", "random", "--split-seeds", "4")
    assert (heard.task.split.name, heard.task.split.seed) == ("random", 4)
    assert heard.task.split.sha256 == load_task(tiny, split="random", split_seed=4).split.sha256


def test_metric_is_what_is_measured(search: Run) -> None:
    assert search("--metric", "macro-f1")["metric"] == "macro-f1"


def test_data_root_reaches_the_source(
    asked: Callable[..., Asked], tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots: list[Path | None] = []

    def read(options: ReadOptions) -> Source:
        roots.append(options.data_root)
        return tiny_task.source

    monkeypatch.setitem(NAMED._entries, "herd", NamedTask(read, "a test"))
    asked("herd")
    heard = asked("herd", "--data-root", "there")
    assert roots == [None, Path("there")]
    assert heard.settings.task is not None
    assert heard.settings.task.data_root == Path("there").resolve()


@pytest.mark.parametrize("flag", ["--normalize", "--undirected", "--standardize"])
def test_changes_to_the_graph_reach_it(asked: Callable[..., Asked], tiny: Path, flag: str) -> None:
    def graph(how: str) -> tuple[torch.Tensor, torch.Tensor]:
        first = asked(tiny, flag, how).task.graphs[0]
        assert isinstance(first.x, torch.Tensor)
        return first.x, first.edge_index

    on, off, auto = graph("on"), graph("off"), graph("auto")
    assert [torch.equal(a, b) for a, b in zip(on, off, strict=True)] == (
        [True, False] if flag == "--undirected" else [False, True]
    )
    assert all(torch.equal(a, b) for a, b in zip(auto, off, strict=True))


def test_device_and_threads_are_set_and_recorded(
    pdnas: Program, tiny: Path, plain: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    assert plain()["environment"]["threads"] == 1
    monkeypatch.setattr("pdnas.cli.search.search", stop)
    pdnas("search", tiny, "--device", "cpu", "--threads", "2", "--run-dir", "two")
    environment = json.loads(Path("two/environment.json").read_text())
    assert (environment["device"], environment["threads"]) == ("cpu", 2)
    assert torch.get_num_threads() == 2


def test_a_run_directory_that_exists_is_refused(refused: Callable[..., str], place: Path) -> None:
    (place / "run").mkdir()
    assert "The run directory 'run' exists already" in refused(*SMALL, "--run-dir", "run")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--blocks", "0"], r"The number of blocks is 0; give 1 to 100\."),
        (["--blocks"], r"--blocks has the values \[\]; give at least one"),
        (["--blocks", "2", "2"], r"--blocks has the values \[2, 2\]"),
        (["--hidden", "0"], r"The hidden size is 0; give a whole number"),
        (["--hidden", "4", "4"], r"--hidden has the values \[4, 4\]"),
        (["--candidates", "0"], r"--candidates is 0; give 1 to 10000\."),
        (["--seeds", "0"], r"--seeds is 0; give 1 to 10000\."),
        (["--mutations=-1"], r"--mutations is -1; give 0 to 10000\."),
        (["--repeats=0"], r"--repeats is 0; give 1 to 10000\."),
        (
            ["--space", "paper", "--incumbents", "gcn"],
            r"An incumbent is not a member of the space 'paper'; search in",
        ),
        (
            ["--incumbents", "appnp"],
            r"The incumbent 'appnp' is not made of blocks.*among --controls",
        ),
        (["--incumbents", "mine"], r"Unknown baseline 'mine'; known are: .*a \.json file"),
        (["--tune=-1"], r"--tune is -1; give 0 to 10000\."),
        (["--tune", "10001"], r"--tune is 10001; give 0 to 10000\."),
        (["--seed", "-1"], r"The seed -1 is out of range"),
        (["--epochs", "0"], r"epochs: Input should be greater than or equal to 1, but got 0"),
        (["--pool", "0"], r"pool: Input should be greater than or equal to 1, but got 0"),
        (["--lr", "0"], r"lr: Input should be greater than 0, but got 0"),
        (["--budget-seconds", "0"], r"The budget is 0.0 seconds; give a number above 0\."),
        (["--budget-seconds=-1"], r"The budget is -1.0 seconds; give a number above 0\."),
        (["--budget-seconds", "nan"], r"The budget is nan seconds; give a number above 0\."),
        (["--controls", "nonsense"], r"Unknown control 'nonsense'; known are: random, "),
        (["--controls", "gnc"], r"Unknown control 'gnc'; .* did you mean 'gcn'\?"),
        (["--space", "papr"], r"Unknown space 'papr'; .* did you mean 'paper'\?"),
        (["--strategy", "pdans"], r"Unknown strategy 'pdans'; .* did you mean 'pdnas'\?"),
        (["--preset", "papre"], r"Unknown preset 'papre'; .* did you mean 'paper'\?"),
        (["--recipe", "gatt"], r"Unknown recipe 'gatt'; .* did you mean 'gat'\?"),
        (["--estimator", "foo"], r"'foo'.* '--estimator'.*'scaled', 'straight-through'"),
        (["--split-seeds", "0..2"], r"on one split, but --split-seeds is 0\.\.2; give one number"),
        (["--split-seeds", "0,2"], r"on one split, but --split-seeds is 0,2; give one number"),
        (["--device", "cuda:99"], r"The device 'cuda:99' is not there"),
        (["--threads", "0"], r"The number of threads is 0; give 1 to 1024"),
    ],
)
def test_bad_values_are_one_sentence_and_leave_nothing_behind(
    refused: Callable[..., str], arguments: list[str], expected: str
) -> None:
    assert re.search(expected, refused(*arguments))


def test_too_few_parameters_leave_nothing_behind(refused: Callable[..., str]) -> None:
    sentence = refused("--max-parameters", "1")
    assert re.search(r"at most 1 parameters on .*; the smallest has [\d,]+: raise", sentence)


def test_too_little_time_leaves_nothing_behind(refused: Callable[..., str]) -> None:
    sentence = refused("--budget-seconds", "0.2")
    assert re.search(r"The budget of 0\.2 seconds is too small for this job; the least", sentence)


def test_a_refusal_leaves_the_runs_of_others_alone(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else begins a run in the same new folder while this one is measured."""

    def refuse(*_: object, **__: object) -> None:
        Path("runs/other").mkdir()
        Path("runs/other/result.json").write_text("{}")
        raise SearchError("The budget is too small.")

    monkeypatch.setattr("pdnas.cli.search.search", refuse)
    one_sentence(pdnas("search", tiny, *SMALL))
    assert [path.name for path in Path("runs").iterdir()] == ["other"]
    assert Path("runs/other/result.json").read_text() == "{}"


def test_a_run_directory_with_a_run_in_it_survives_a_refusal(
    pdnas: Program, tiny: Path, search: Run
) -> None:
    search()
    before = {path: path.read_bytes() for path in Path("run1").rglob("*") if path.is_file()}
    pdnas("search", tiny, "--max-parameters", "1", "--run-dir", "run1")
    assert before == {p: p.read_bytes() for p in Path("run1").rglob("*") if p.is_file()}


def test_a_search_that_diverges_is_one_sentence(pdnas: Program, tiny: Path) -> None:
    assert "finite" in one_sentence(pdnas("search", tiny, *SMALL, "--weight-lr", "1e30"))


def test_candidates_that_diverge_are_given_up_one_by_one(pdnas: Program, tiny: Path) -> None:
    done = pdnas("search", tiny, *SMALL, "--lr", "1e30")
    said = [line for line in done.stderr.splitlines() if line.startswith("pdnas: ")]
    assert done.returncode == 2
    assert said[0].startswith("pdnas: Candidate 1 is given up: The loss is no longer finite")
    assert said[-1].startswith(
        "pdnas: The losses of all candidates were no longer finite; lower the"
    )
    assert "Traceback" not in done.stderr


def test_a_search_that_does_not_fit_into_memory_is_one_sentence(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    monkeypatch.setattr("pdnas.cli.search.search", exhausted)
    sentence = one_sentence(pdnas("search", tiny, "--hidden", "8", "999"))
    assert "hidden size 999 does not fit into the memory of cpu; give a smaller" in sentence


@pytest.mark.parametrize(
    ("when", "kept"), [("planned", False), ("searched", True), ("trained", True)]
)
def test_ctrl_c_tells_how_to_go_on_and_what_is_kept(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch, when: str, kept: bool
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SearchProgress, when, stop)
        done = pdnas("search", tiny, *SMALL, "--run-dir", "run", "--quiet")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("pdnas: stopped; go on with: pdnas resume run.")
    assert done.stderr.count("\n") == 1
    assert ("The best network so far is kept there: validation " in done.stderr) == kept
    assert Path("run/result.json").exists() == kept
    assert Path("run/report.html").exists() == kept
    if kept:
        result = load_run("run")
        assert result.search is not None
        assert result.search.stopped == "interrupt"
        assert f"validation {result.val} %" in done.stderr


def test_train_takes_what_a_search_found(pdnas: Program, tiny: Path, search: Run) -> None:
    found = search("--seeds", "2", "--lr", "0.05")
    command = ["train", "run1", tiny, "--seeds", "2", "--run-dir", "again", "--quiet"]
    assert pdnas(*command).returncode == 0
    again = json.loads(Path("again/result.json").read_text())
    for key in ("architecture", "hidden", "recipe", "val", "test", "seeds"):
        assert again[key] == found[key]


def test_train_says_of_a_search_without_a_result_that_it_is_to_be_finished(
    pdnas: Program, tiny: Path, search: Run
) -> None:
    search()
    Path("run1/result.json").unlink()
    assert "finish it with: pdnas resume run1" in one_sentence(pdnas("train", "run1", tiny))


def test_a_graph_that_does_not_fit_is_cut_and_the_user_is_told_once(
    pdnas: Program, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: 10_000)
    monkeypatch.setattr(memory, "has_pymetis", lambda: False)
    done = pdnas("search", tiny, *SMALL, "gcn", "--run-dir", "run", "--quiet")
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert first.startswith("pdnas: A step on the whole graph would need about ")
    assert first.endswith("; --batching full takes the whole graph all the same.")
    assert second.startswith("pdnas: pymetis is not installed")
    recipe = load_run("run").recipe
    assert recipe["batching"] == "clusters"
    assert f"--batch-nodes {recipe['batch_nodes']})" in first
    settings = SearchSettings.model_validate_json(Path("run/settings.json").read_text())
    assert settings.job.recipe.batch_nodes == recipe["batch_nodes"]
