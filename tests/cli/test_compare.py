"""``pdnas compare``: the effect of each of its flags, what it says, and how it stops."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
from tests.cli.conftest import WORKER_FLAGS, every_worker_flag
from tests.conftest import Here

from pdnas.cli import compare as command
from pdnas.compare import Comparison, Standing, Verdict, base
from pdnas.compare.work import Attempt
from pdnas.errors import RunError
from pdnas.job import Job
from pdnas.runs import Scores
from pdnas.settings import WorkerFlags
from pdnas.space import SPACES
from pdnas.tasks import GraphTask, load_task
from pdnas.training import RECIPES, Recipe
from pdnas.tuning.pieces import PieceWatcher

Pdnas = Callable[..., CompletedProcess[str]]
Asked = dict[str, Any]

TASK_FLAGS = {
    "--split": "random",
    "--split-seeds": "3",
    "--metric": "macro-f1",
    "--normalize": "on",
    "--undirected": "on",
    "--standardize": "on",
}
FLAGS = {
    "--data-root",
    "--strategies",
    "--baselines",
    "--recipe",
    "--shared-recipe",
    "--epochs",
    "--space",
    "--blocks",
    "--hidden",
    "--max-parameters",
    "--candidates",
    "--budget-seconds",
    "--budget-trials",
    "--seed",
    "--seeds",
    *WORKER_FLAGS,
    "--device",
    "--threads",
    "--output",
    "--json",
    "--quiet",
    *TASK_FLAGS,
}
"""Each of them has a test below."""

LEAN = [
    "--epochs=2",
    "--blocks=1",
    "--hidden=4",
    "--candidates=1",
    "--seeds=2",
    "--budget-trials=4",
]

VERDICT = Verdict(
    task="tiny",
    note="",
    metric="accuracy",
    split="own",
    split_sha256="abcd",
    space="paper",
    blocks=(2,),
    hidden=(32,),
    max_parameters=None,
    recipe="own",
    budget_seconds=60.0,
    budget_trials=None,
    seeds=(0, 1),
    workers=1,
    threads=1,
    device="cpu",
    device_name="abacus",
    standings=(
        Standing(
            rival="pdnas",
            kind="strategy",
            val=Scores.of([0.5, 0.7]),
            test=Scores.of([0.4, 0.4]),
            parameters=1000,
            trainings=2.5,
            seconds=9.0,
        ),
    ),
    warnings=("pdnas, seed 0: It rained.",),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """What comparisons were asked for; they are made at once."""
    heard: list[Asked] = []

    def make(
        task: GraphTask,
        folder: Path,
        comparison: Comparison,
        *,
        watcher: PieceWatcher[Attempt],
        **settings: Any,
    ) -> Verdict:
        split = (task.split.name, task.split.seed)
        heard.append(
            {
                "folder": folder,
                "comparison": comparison,
                "split": split,
                "metric": task.metric,
                "watched": type(watcher) is not PieceWatcher,
                **settings,
            }
        )
        watcher.began("pdnas-0")
        watcher.failed("pdnas-1", "It rained.")
        return VERDICT

    monkeypatch.setattr(command, "compare", make)
    return heard


def one_sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("pdnas: ")
    return done.stderr.removeprefix("pdnas: ").strip()


def test_every_flag_of_the_help_is_tested_here(pdnas: Pdnas) -> None:
    said = pdnas("compare", "--help").stdout
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", said)) - {"--help"} == FLAGS
    for name in ("pdnas", "random", "gcn", "gat", "consistency", "extended"):
        assert name in said


def test_without_flags_it_is_the_default_comparison(
    pdnas: Pdnas, tiny: Path, asked: list[Asked]
) -> None:
    assert pdnas("compare", tiny).returncode == 0
    (given,) = asked
    assert given["comparison"] == Comparison()
    assert given["folder"] == Path("runs/compare-tiny")
    assert (given["workers"], given["threads"], given["device"]) == (WorkerFlags(), 1, "auto")
    assert given["asked"]["task"] == str(tiny.resolve())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--strategies", "random", "agnn"], {"strategies": ("random", "agnn")}),
        (["--baselines", "sage"], {"baselines": ("sage",)}),
        (["--baselines"], {"baselines": ()}),
        (["--recipe", "shared"], {"recipe": "shared"}),
        (["--epochs", "9"], {"epochs": 9}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags_reach_the_comparison(
    pdnas: Pdnas, tiny: Path, asked: list[Asked], flags: list[str], expected: Asked
) -> None:
    assert pdnas("compare", tiny, *flags).returncode == 0
    usual = {name: getattr(Comparison(), name) for name in Comparison.model_fields}
    assert asked[0]["comparison"] == Comparison.model_validate({**usual, **expected})


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--shared-recipe", "gat"], {"recipe": RECIPES["gat"]}),
        (["--space", "extended"], {"space": SPACES["extended"]}),
        (["--blocks", "1", "3"], {"blocks": (1, 3)}),
        (["--hidden", "8"], {"hidden": (8,)}),
        (["--max-parameters", "9000"], {"max_parameters": 9000}),
        (["--candidates", "2"], {"candidates": 2}),
        (["--budget-seconds", "7.5"], {"budget_seconds": 7.5}),
        (["--budget-trials", "5"], {"budget_trials": 5}),
        (["--seed", "4"], {"seed": 4}),
        (["--seeds", "5"], {"seeds": 5}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags_reach_the_job(
    pdnas: Pdnas, tiny: Path, asked: list[Asked], flags: list[str], expected: Asked
) -> None:
    assert pdnas("compare", tiny, *flags).returncode == 0
    assert asked[0]["comparison"].job == Job(**{"budget_seconds": base.BUDGET, **expected})


def test_a_recipe_may_be_a_file(pdnas: Pdnas, tiny: Path, asked: list[Asked]) -> None:
    Recipe(lr=0.5).save("mine.toml")
    pdnas("compare", tiny, "--shared-recipe", "mine.toml")
    assert asked[0]["comparison"].job.recipe == Recipe(lr=0.5)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--output", "mine"], {"folder": Path("mine")}),
        (["-o", "mine"], {"folder": Path("mine")}),
        (["--device", "cpu"], {"device": "cpu"}),
        (["--threads", "2"], {"threads": 2}),
        (["--split", "random", "--split-seeds", "3"], {"split": ("random", 3)}),
        (["--metric", "macro-f1"], {"metric": "macro-f1"}),
        (["--quiet"], {"watched": False}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags_reach_whoever_compares(
    pdnas: Pdnas, tiny: Path, asked: list[Asked], flags: list[str], expected: Asked
) -> None:
    assert pdnas("compare", tiny, *flags).returncode == 0
    assert {name: asked[0][name] for name in expected} == expected


@every_worker_flag
def test_flags_say_who_does_the_attempts(
    pdnas: Pdnas, tiny: Path, asked: list[Asked], words: list[str], workers: WorkerFlags
) -> None:
    assert pdnas("compare", tiny, *words).returncode == 0
    assert asked[0]["workers"] == workers


@pytest.mark.parametrize("flag", TASK_FLAGS)
def test_how_the_task_was_asked_for_is_remembered(
    pdnas: Pdnas, tiny: Path, asked: list[Asked], flag: str
) -> None:
    extra = ["--split", "random"] if flag == "--split-seeds" else []
    assert pdnas("compare", tiny, flag, TASK_FLAGS[flag], *extra).returncode == 0
    assert asked[0]["asked"][flag.removeprefix("--").replace("-", "_")] == TASK_FLAGS[flag]
    json.dumps(asked[0]["asked"])


def test_the_data_may_be_moved(
    pdnas: Pdnas, tiny: Path, asked: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []

    def load(name: str, **options: object) -> GraphTask:
        heard.append(options["data_root"])
        return load_task(name)

    monkeypatch.setattr("pdnas.settings.load_task", load)
    assert pdnas("compare", tiny, "--data-root", "elsewhere").returncode == 0
    assert heard == [Path("elsewhere")]
    assert "data_root" not in asked[0]["asked"]


def test_threads_are_set(pdnas: Pdnas, tiny: Path, asked: list[Asked]) -> None:
    pdnas("compare", tiny, "--threads", "2")
    assert torch.get_num_threads() == 2


def test_progress_goes_to_stderr_and_the_table_to_stdout(
    pdnas: Pdnas, tiny: Path, asked: list[Asked]
) -> None:
    done = pdnas("compare", tiny, "-o", "mine")
    assert done.stderr == "pdnas-0 begins\npdnas-1 failed: It rained.\n"
    assert "60.00 ± 14.14" in done.stdout
    assert "One split: own, sha256 abcd." in done.stdout
    assert "warning: pdnas, seed 0: It rained.\n" in done.stdout
    assert done.stdout.endswith("\noutput: mine (table.md, picture.svg, result.json, runs/)\n")


def test_json_is_all_there_is_on_stdout(pdnas: Pdnas, tiny: Path, asked: list[Asked]) -> None:
    done = pdnas("compare", tiny, "-o", "mine", "--json")
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout) == {**VERDICT.model_dump(mode="json"), "output": "mine"}


def test_quiet_says_nothing(pdnas: Pdnas, tiny: Path, asked: list[Asked]) -> None:
    done = pdnas("compare", tiny, "-o", "mine", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = pdnas("compare", tiny, "-o", "mine", "--quiet", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["output"] == "mine"


def test_more_workers_than_cores_are_warned_of(
    pdnas: Pdnas, tiny: Path, asked: list[Asked]
) -> None:
    cores = len(os.sched_getaffinity(0))
    done = pdnas("compare", tiny, "--quiet", "--device", "cpu", "--workers", str(cores + 1))
    assert done.returncode == 0
    assert done.stderr == (
        f"pdnas: {cores + 1} worker(s) with 1 thread(s) each share {cores} core(s), but seconds "
        "are compared; give fewer --workers to trust them.\n"
    )
    assert pdnas("compare", tiny, "--quiet", "--workers", str(cores)).stderr == ""


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--strategies", "rendom"], r"Unknown strategy 'rendom'; .* did you mean 'random'\?"),
        (["--strategies"], r"--strategies names none; give at least one of: .*pdnas"),
        (["--strategies", "pdnas", "pdnas"], r"'pdnas' is named twice; name each of them once\."),
        (["--baselines", "gnc"], r"Unknown baseline 'gnc'; .* did you mean 'gcn'\?"),
        (["--recipe", "mine"], r"--recipe.*'own', 'shared'"),
        (["--shared-recipe", "mine"], r"Unknown recipe 'mine'"),
        (["--space", "mine"], r"'mine'"),
        (["--blocks", "0"], r"blocks?.* 0"),
        (["--hidden", "0"], r"hidden.* 0"),
        (["--max-parameters", "1"], r"parameters"),
        (["--candidates", "0"], r"--candidates is 0; give 1 to"),
        (["--budget-seconds", "0"], r"The budget is 0\.0 seconds; give a number above 0"),
        (["--budget-seconds", "soon"], r"--budget-seconds: .*'soon'"),
        (["--budget-trials", "1"], r"--budget-trials is 1; give 2 to"),
        (["--epochs", "0"], r"epochs"),
        (["--seed", "-1"], r"The seed -1 is out of range"),
        (["--seeds", "0"], r"--seeds is 0; give 1 to 10000\."),
        (["--workers", "0"], r"The number of workers is 0; give 1 to 1024\."),
        (["--threads", "0"], r"The number of threads is 0; give 1 to 1024"),
        (["--device", "cuda:99"], r"The device 'cuda:99' is not there"),
        (["--split-seeds", "0..9"], r"A comparison is on one split, but --split-seeds is 0\.\.9"),
        (["--strateges", "pdnas"], r"--strateges"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(
    pdnas: Pdnas, tiny: Path, place: Path, flags: list[str], expected: str
) -> None:
    assert re.search(expected, one_sentence(pdnas("compare", tiny, *flags)))
    assert list(place.iterdir()) == []


def test_an_unknown_task_is_one_sentence(pdnas: Pdnas, place: Path) -> None:
    assert "'nowhere'" in one_sentence(pdnas("compare", "nowhere"))
    assert list(place.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_sentence(pdnas: Pdnas, tiny: Path) -> None:
    Path("file").touch()
    assert "The folder 'file' cannot be made" in one_sentence(pdnas("compare", tiny, "-o", "file"))


def test_a_part_that_failed_is_one_sentence(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError("1 part(s) of the comparison failed.")

    monkeypatch.setattr(command, "compare", fail)
    assert one_sentence(pdnas("compare", tiny)) == "1 part(s) of the comparison failed."


def test_from_end_to_end_stopped_and_gone_on_with(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdnas.tuning.place.LocalExecutor", Here)
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    given = ["compare", tiny, *LEAN, "--baselines", "gcn", "--device", "cpu", "-o", "mine"]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pdnas.compare.work.BaselineWork.attempt", stop)
        done = pdnas(*given)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("\npdnas: stopped; the same command goes on where it stopped.\n")
    done = pdnas(*given)
    assert done.returncode == 0
    began = re.findall(r"^(\S+) begins$", done.stderr, re.MULTILINE)
    assert began == ["gcn-0", "pdnas-1", "random-1", "gcn-1"]
    assert re.search(r"^gcn-0: validation \d+\.\d\d % after .* s, 1 training\(s\)$", done.stderr, 8)
    names = {path.name for path in Path("mine").iterdir()} - {".lock"}
    assert names == {"settings.json", "result.json", "table.md", "picture.svg", "runs"}
    again = pdnas(*given, "--json", "--quiet")
    assert again.stderr == ""
    assert [one["rival"] for one in json.loads(again.stdout)["standings"]] == [
        "pdnas",
        "random",
        "gcn",
    ]
    sentence = one_sentence(pdnas(*given, "--budget-seconds", "9"))
    assert "other settings: budget_seconds was 60.0 and is 9.0; repeat them" in sentence
