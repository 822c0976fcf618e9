"""Outputs: what is never written over, and what is only if that is asked for."""

import os
from pathlib import Path

import pytest

from pdnas.errors import PdnasError
from pdnas.output import OF_A_RUN, TABLES, check_file, check_output, data_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of tables."""
    folder = tmp_path / "wine"
    folder.mkdir()
    for name in ("nodes.csv", "edges.csv"):
        (folder / name).write_text("a\n")
    return folder


@pytest.fixture
def run(tmp_path: Path, data: Path) -> Path:
    """A run on these tables."""
    folder = tmp_path / "run"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "settings.json").write_text(
        f'{{"command": "train", "name": "gcn", "task": {{"task": "{data}"}}}}'
    )
    return folder


def refused(expected: str, path: Path, *data: str, force: bool = False) -> None:
    with pytest.raises(PdnasError, match=expected) as caught:
        check_output(path, *data, force=force)
    assert "\n" not in str(caught.value)


def test_a_new_file_may_be_written(data: Path, run: Path) -> None:
    check_output(data / "classes.csv", str(data))
    check_output(run / "predictions.csv", str(data))


def test_a_file_that_is_there_is_replaced_only_if_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    refused(r"a\.csv' exists already; give the path of another file, or --force to", path)
    check_output(path, force=True)


def test_a_file_of_its_own_is_renewed_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("mine")
    check_output(path, renews=lambda path: path.read_text() == "mine")
    with pytest.raises(PdnasError, match=r"exists already; give the path of another file\.$"):
        check_output(path, renews=lambda _: False)


def test_a_link_to_nothing_is_there_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.symlink_to(tmp_path / "none.csv")
    refused("exists already", path)


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_the_data_are_never_written(name: str, data: Path, tmp_path: Path) -> None:
    refused("belongs to the data", data / name, str(data), force=True)
    (tmp_path / "link").symlink_to(data)
    refused("belongs to the data", tmp_path / "link" / name, "none", str(data), force=True)


def test_another_name_of_the_data_is_no_way_around(data: Path, tmp_path: Path) -> None:
    (tmp_path / "soft.csv").symlink_to(data / "nodes.csv")
    os.link(data / "nodes.csv", tmp_path / "hard.csv")
    for name in ("soft.csv", "hard.csv"):
        refused("belongs to the data", tmp_path / name, str(data), force=True)


def test_a_file_of_data_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    path.touch()
    refused("belongs to the data", path, str(path), force=True)


@pytest.mark.parametrize("name", [*sorted(OF_A_RUN), "checkpoint/model.safetensors"])
def test_what_a_run_needs_is_never_written(name: str, run: Path) -> None:
    refused("belongs to a run", run / name, force=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("folder", "is a folder; give the path of a file"),
        ("to-folder", "is a folder"),
        ("pipe", "is a device or a pipe"),
        ("to-device", "is a device or a pipe"),
        ("no/a.csv", "There is no folder '.*no' for the output"),
        ("x" * 5000, r"cannot be a path: it is too long"),
    ],
)
def test_what_is_no_file_is_refused(name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-folder").symlink_to(tmp_path / "folder")
    (tmp_path / "to-device").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    refused(expected, tmp_path / name, force=True)
    with pytest.raises(PdnasError, match=expected):
        check_file(tmp_path / name)


@pytest.mark.parametrize("name", ["a\\u0000b", "x" * 300])
def test_data_that_no_file_can_be_called_are_one_sentence(run: Path, name: str) -> None:
    (run / "settings.json").write_text(f'{{"command": "train", "task": {{"task": "{name}"}}}}')
    with pytest.raises(PdnasError, match="cannot be a path"):
        data_of(run)


def test_a_run_says_which_data_it_is_on(run: Path, data: Path) -> None:
    assert data_of(run) == str(data)
    for task in ("null", '{"task": ["damaged"]}'):
        (run / "settings.json").write_text(f'{{"command": "compare", "task": {task}}}')
        assert data_of(run) is None
