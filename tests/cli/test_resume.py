"""``pdnas resume``: runs that can be finished, and those that cannot."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Pdnas = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run(pdnas: Pdnas, tiny: Path) -> Path:
    """A finished run of two trainings."""
    command = ["train", "gcn", tiny, "--epochs", "4", "--seeds", "2", "--hidden", "5"]
    assert pdnas(*command, "--run-dir", "run", "--quiet").returncode == 0
    return Path("run")


def one_sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("pdnas: ")
    return done.stderr.removeprefix("pdnas: ").strip()


def test_a_finished_run_stays_as_it_is(pdnas: Pdnas, run: Path) -> None:
    files = [path for path in run.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    done = pdnas("resume", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("run: run\n")
    assert {path: path.read_bytes() for path in before} == before


def test_json_and_quiet_mean_the_same_as_in_train(pdnas: Pdnas, run: Path) -> None:
    done = pdnas("resume", run, "--json", "--quiet")
    said = json.loads(done.stdout)
    assert said.pop("run") == "run"
    assert said == json.loads((run / "result.json").read_text())
    assert pdnas("resume", run, "--quiet").stdout == ""


@pytest.mark.parametrize("lost", ["result.json", "model.safetensors", "architecture.json"])
def test_a_lost_file_is_written_again(pdnas: Pdnas, run: Path, lost: str) -> None:
    before = (run / lost).read_bytes()
    (run / lost).unlink()
    assert pdnas("resume", run, "--quiet").returncode == 0
    assert (run / lost).read_bytes() == before


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_another_folder_is_no_run(pdnas: Pdnas, name: str) -> None:
    sentence = one_sentence(pdnas("resume", name))
    assert sentence.startswith(f"'{name}' is not a run directory: it has no settings.json; ")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", '{"command": "train", '),
        ("settings.json", '{"command": "search"}'),
        ("settings.json", ""),
        ("settings.json", "\x00\xff"),
        ("checkpoint/trainings.json", "{"),
        ("checkpoint/trainings.json", '{"trainings": 1}'),
        ("checkpoint/model.safetensors", "PK"),
    ],
)
def test_a_damaged_run_is_one_sentence(pdnas: Pdnas, run: Path, name: str, content: str) -> None:
    (run / name).write_text(content, encoding="latin-1")
    assert name in one_sentence(pdnas("resume", run))


def test_a_damaged_architecture_in_the_settings_is_one_sentence(pdnas: Pdnas, run: Path) -> None:
    settings = json.loads((run / "settings.json").read_text())
    settings["architecture"]["blocks"][0]["attention"] = "gatt"
    (run / "settings.json").write_text(json.dumps(settings))
    assert "gatt" in one_sentence(pdnas("resume", run))


def test_data_that_are_gone_are_one_sentence(pdnas: Pdnas, run: Path, tiny: Path) -> None:
    tiny.unlink()
    assert f"There is no file or folder '{tiny}'" in one_sentence(pdnas("resume", run))


def test_a_run_is_resumed_from_another_folder(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny.rename("here.npz")
    run = tmp_path / "run"
    command = ["train", "gcn", "here.npz", "--epochs", "2", "--quiet", "--run-dir"]
    assert pdnas(*command, run).returncode == 0
    monkeypatch.chdir(tmp_path)
    assert pdnas("resume", run, "--quiet").returncode == 0
