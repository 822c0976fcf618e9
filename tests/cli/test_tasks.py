import json
from collections.abc import Callable
from subprocess import CompletedProcess

from pdnas.tasks.source import FORMATS, NAMED, SCHEMES

Pdnas = Callable[..., CompletedProcess[str]]


def test_every_way_to_name_a_task_is_listed(pdnas: Pdnas) -> None:
    done = pdnas("tasks", "--json")
    tasks = json.loads(done.stdout)["tasks"]
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert set(NAMED) <= tasks.keys()
    assert len(tasks) == len(NAMED) + len(SCHEMES) + len(FORMATS)
    assert {"pyg:...", "PATH.npz", "PATH.pt", "a folder"} <= tasks.keys()


def test_each_of_them_is_explained_in_one_line(pdnas: Pdnas) -> None:
    tasks = json.loads(pdnas("tasks", "--json").stdout)["tasks"]
    assert all(about and "\n" not in about for about in tasks.values())


def test_the_table_says_the_same(pdnas: Pdnas) -> None:
    done = pdnas("tasks")
    tasks = json.loads(pdnas("tasks", "--json").stdout)["tasks"]
    assert all(name in done.stdout and about in done.stdout for name, about in tasks.items())
    assert done.stderr == ""
