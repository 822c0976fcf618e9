"""``pdnas reproduce``: the effect of each of its flags, what it says, and how it stops."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
from tests.cli.conftest import WORKER_FLAGS, every_worker_flag

from pdnas.architecture import Architecture, BlockSpec
from pdnas.cli import reproduce as command
from pdnas.errors import RunError
from pdnas.reproduce.base import Watcher
from pdnas.reproduce.work import Leg
from pdnas.settings import WorkerFlags
from pdnas.training import Recipe

Pdnas = Callable[..., CompletedProcess[str]]
Asked = dict[str, Any]

FLAGS = {
    "--quick",
    "--only",
    "--searches",
    "--seeds",
    *WORKER_FLAGS,
    "--device",
    "--threads",
    "--data-root",
    "--output",
    "--json",
    "--quiet",
}
"""Each of them has a test below."""

LEG = Leg(
    task="cora",
    split="public",
    split_seed=None,
    split_sha256="ab",
    seed=0,
    row="mine",
    architecture=Architecture(blocks=(BlockSpec(),)),
    hidden=4,
    parameters=10,
    recipe=Recipe(),
    val=(0.5, 0.7),
    test=(0.1, 0.2),
    seeds=(0, 1),
    train_seconds=1.0,
    environment={},
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """What tables were asked for; they are written at once."""
    heard: list[Asked] = []

    def make(name: str, folder: Path, *, on_done: Watcher, **settings: Any) -> None:
        heard.append({"name": name, "folder": folder, **settings})
        (folder / "runs").mkdir(parents=True)
        (folder / "table.md").write_text("| a ± b |\n")
        (folder / "picture.svg").write_text("<svg/>")
        on_done.done("cora-0", LEG)
        on_done.failed("cora-1", "It rained.")

    monkeypatch.setattr(command, "reproduce", make)
    return heard


def one_sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("pdnas: ")
    return done.stderr.removeprefix("pdnas: ").strip()


def test_every_flag_of_the_help_is_tested_here(pdnas: Pdnas) -> None:
    said = pdnas("reproduce", "--help").stdout
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", said)) - {"--help"} == FLAGS
    for name in ("citation-public", "citation-split", "ppi", "search-time"):
        assert name in said


def test_without_flags_it_is_the_whole_table(pdnas: Pdnas, asked: list[Asked]) -> None:
    assert pdnas("reproduce", "search-time").returncode == 0
    assert asked == [
        {
            "name": "search-time",
            "folder": Path("runs/reproduce-search-time"),
            "quick": False,
            "workers": WorkerFlags(),
            "threads": 1,
            "device": "auto",
            "data_root": None,
            "searches": 3,
            "seeds": None,
            "only": None,
        }
    ]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--quick"], {"quick": True, "folder": Path("runs/reproduce-search-time-quick")}),
        (["--only", "pubmed", "cora"], {"only": ("pubmed", "cora")}),
        (["--searches", "5"], {"searches": 5}),
        (["--seeds", "4"], {"seeds": 4}),
        (["--device", "cpu"], {"device": "cpu"}),
        (["--threads", "2"], {"threads": 2}),
        (["--data-root", "there"], {"data_root": Path("there")}),
        (["--output", "mine"], {"folder": Path("mine")}),
        (["-o", "mine"], {"folder": Path("mine")}),
        (["-o", "mine", "--quick"], {"folder": Path("mine"), "quick": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags_reach_the_table(
    pdnas: Pdnas, asked: list[Asked], flags: list[str], expected: Asked
) -> None:
    pdnas("reproduce", "search-time", "--output", "plain")
    plain = {**asked.pop(), "folder": Path("runs/reproduce-search-time")}
    assert pdnas("reproduce", "search-time", *flags).returncode == 0
    assert asked == [{**plain, **expected}]


@every_worker_flag
def test_flags_say_who_does_the_work(
    pdnas: Pdnas, asked: list[Asked], words: list[str], workers: WorkerFlags
) -> None:
    assert pdnas("reproduce", "search-time", *words).returncode == 0
    assert asked[0]["workers"] == workers


def test_threads_are_set(pdnas: Pdnas, asked: list[Asked]) -> None:
    pdnas("reproduce", "search-time", "--threads", "2")
    assert torch.get_num_threads() == 2


def test_progress_goes_to_stderr_and_the_table_to_stdout(pdnas: Pdnas, asked: list[Asked]) -> None:
    done = pdnas("reproduce", "search-time", "-o", "mine")
    assert done.stdout == "| a ± b |\n\noutput: mine (table.md, picture.svg, runs/)\n"
    assert done.stderr == ("cora-0: validation 60.00 ± 14.14 %\ncora-1 failed: It rained.\n")


def test_json_is_all_there_is_on_stdout(pdnas: Pdnas, asked: list[Asked]) -> None:
    done = pdnas("reproduce", "search-time", "-o", "mine", "--json")
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout) == {
        "table": "search-time",
        "output": "mine",
        "files": ["mine/picture.svg", "mine/table.md"],
    }


def test_quiet_says_nothing(pdnas: Pdnas, asked: list[Asked]) -> None:
    done = pdnas("reproduce", "search-time", "-o", "mine", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = pdnas("reproduce", "search-time", "-o", "other", "--quiet", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["output"] == "other"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], r"TABLE"),
        (["serach-time"], r"Unknown table 'serach-time'; .* did you mean 'search-time'\?"),
        (["ppi", "--only", "cora"], r"no task 'cora'; it has ppi\."),
        (["ppi", "--seeds", "0"], r"--seeds is 0; give 1 to 10000\."),
        (["search-time", "--seeds", "2"], r"has its own numbers of seeds; leave out --seeds\."),
        (["search-time", "--only", "ppi"], r"no task 'ppi'; it has cora, citeseer, pubmed\."),
        (["search-time", "--searches", "0"], r"--searches is 0; give 1 to 10000\."),
        (["search-time", "--searches", "10001"], r"--searches is 10001; give 1 to 10000\."),
        (["search-time", "--searches", "many"], r"--searches: .*'many'"),
        (["search-time", "--threads", "0"], r"The number of threads is 0; give 1 to 1024"),
        (["search-time", "--quik"], r"--quik"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(
    pdnas: Pdnas, place: Path, arguments: list[str], expected: str
) -> None:
    assert re.search(expected, one_sentence(pdnas("reproduce", *arguments)))
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--workers", "0"], r"The number of workers is 0; give 1 to 1024\."),
        (["--device", "cuda:99"], r"The device 'cuda:99' is not there"),
        (["--data-root", "nowhere"], r"nowhere"),
        (["--output", "file"], r"The folder 'file' cannot be made"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch, flags: list[str], expected: str
) -> None:
    def load(name: str, *, data_root: Path | None, **_: object) -> None:
        if data_root is not None:
            raise RunError(f"There is no {name} under {data_root}.")

    monkeypatch.setattr("pdnas.reproduce.base.load_task", load)
    Path("file").touch()
    assert re.search(
        expected, one_sentence(pdnas("reproduce", "search-time", "--only", "cora", *flags))
    )


def test_a_part_that_failed_is_one_sentence(pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError("1 part(s) of the table failed.")

    monkeypatch.setattr(command, "reproduce", fail)
    assert one_sentence(pdnas("reproduce", "search-time")) == "1 part(s) of the table failed."


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_ctrl_c_ends_with_130_and_tells_how_to_go_on(
    pdnas: Pdnas, monkeypatch: pytest.MonkeyPatch, quiet: list[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "reproduce", stop)
    done = pdnas("reproduce", "search-time", *quiet)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "pdnas: stopped; the same command goes on where it stopped.\n"


@pytest.mark.parametrize(
    ("leg", "said"),
    [
        (LEG, "validation 60.00 ± 14.14 %"),
        (LEG.model_copy(update={"note": "rebuilt"}), "validation 60.00 ± 14.14 % (rebuilt)"),
        (
            LEG.model_copy(update={"val": (), "test": (), "choice_val": 0.25, "note": "rebuilt"}),
            "chosen by validation 25.00 % (rebuilt)",
        ),
    ],
)
def test_what_is_told_of_a_piece_has_its_note(leg: Leg, said: str) -> None:
    assert command._told(leg) == said
