"""The tree as DESIGN.md draws it: imports point one way, and every module has a test."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pdnas"
TESTS = ROOT / "tests"

ORDER = (
    {"errors"},
    {"files"},
    {"registry", "toml", "picture", "notebook"},
    {"ops"},
    {"architecture", "tasks"},
    {"space", "models", "diagram", "answers"},
    {"runs"},
    {"supernet", "training"},
    {"search"},
    {"job"},
    {"watcher"},
    {"pipeline", "settings", "progress", "tensorboard"},
    {"tuning"},
    {"compare"},
    {"reproduce", "named", "output"},
    {"report", "export", "prediction", "again"},
    {"page"},
    {"api"},
    {"cli"},
    {"__main__"},
)
"""Each part of the package may import itself and the parts of the rows above it."""

RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}

MODULES = sorted(PACKAGE.rglob("*.py"))


def over(paths: list[Path]) -> pytest.MarkDecorator:
    names = [str(path.relative_to(PACKAGE)) for path in paths]
    return pytest.mark.parametrize("path", paths, ids=names)


every_module = over(MODULES)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    """The part of the package that a module belongs to: ``tasks`` for ``tasks/load.py``."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> Iterator[str]:
    """The full names that a module imports from this package."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import in line {node.lineno}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "pdnas")


def imported_parts(path: Path) -> set[str]:
    parts = {name.split(".")[1] for name in imported(path) if "." in name}
    return parts - {"__version__"}


def test_every_part_has_its_place_in_the_order() -> None:
    parts = {part_of(path) for path in MODULES} - {"__init__"}
    assert parts <= RANK.keys()


@over([path for path in MODULES if path != PACKAGE / "__init__.py"])
def test_imports_point_one_way(path: Path) -> None:
    here = part_of(path)
    wrong = {part for part in imported_parts(path) if part != here and RANK[part] >= RANK[here]}
    assert not wrong, f"{here} must not import {sorted(wrong)}"


@every_module
def test_nothing_is_imported_with_a_star(path: Path) -> None:
    imports = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom)]
    assert not [node.lineno for node in imports if any(name.name == "*" for name in node.names)]


@over([path for path in MODULES if part_of(path) != "cli"])
def test_only_the_command_line_prints(path: Path) -> None:
    calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    names = [call.func for call in calls]
    assert not [node.lineno for node in names if isinstance(node, ast.Name) and node.id == "print"]


@every_module
def test_every_module_opens_with_a_sentence(path: Path) -> None:
    assert ast.get_docstring(tree(path))


def test_no_module_is_called_utils() -> None:
    assert not [path for path in PACKAGE.rglob("*") if "util" in path.stem.lower()]


@over([path for path in MODULES if path.name != "__init__.py"])
def test_every_module_has_a_test_file(path: Path) -> None:
    place = path.relative_to(PACKAGE)
    assert (TESTS / place.parent / f"test_{place.name}").is_file()


def test_the_entry_of_the_command_line_has_a_test_file() -> None:
    assert (TESTS / "cli" / "test_main.py").is_file()


def test_every_test_file_is_collected() -> None:
    strays = [
        path
        for path in TESTS.rglob("*.py")
        if not path.name.startswith("test_") and path.name != "conftest.py"
    ]
    assert not strays
