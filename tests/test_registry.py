import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel, Field, ValidationError

from pdnas.errors import UnknownNameError
from pdnas.registry import Registry, discover, make_callable, refusal, unknown


@pytest.fixture
def animals() -> Registry[str, int]:
    registry: Registry[str, int] = Registry("animal")
    for legs, name in enumerate(["worm", "zebra", "ant"]):
        registry.register(name)(legs)
    return registry


def test_names_come_in_the_order_of_registration(animals: Registry[str, int]) -> None:
    assert list(animals) == ["worm", "zebra", "ant"]
    assert [animals[name] for name in animals] == [0, 1, 2]
    assert len(animals) == 3
    assert "ant" in animals
    assert "bee" not in animals


def test_the_decorator_gives_back_what_it_files() -> None:
    registry: Registry[str, type] = Registry("thing")

    @registry.register("a", "b")
    class Thing:
        pass

    assert isinstance(Thing, type)
    assert registry["a"] is registry["b"] is Thing


def test_a_name_is_filed_once(animals: Registry[str, int]) -> None:
    with pytest.raises(ValueError, match=r"^The animal 'ant' is registered already\.$"):
        animals.register("ant")(7)
    assert animals["ant"] == 2


def test_an_unknown_name_lists_the_known_ones(animals: Registry[str, int]) -> None:
    with pytest.raises(UnknownNameError) as info:
        animals["qqq"]
    assert str(info.value) == "Unknown animal 'qqq'; known are: worm, zebra, ant."
    assert info.value.__suppress_context__


@pytest.mark.parametrize(("slip", "meant"), [("zebr", "zebra"), ("wrom", "worm"), ("aunt", "ant")])
def test_an_unknown_name_suggests_the_nearest(
    animals: Registry[str, int], slip: str, meant: str
) -> None:
    with pytest.raises(UnknownNameError, match=rf"did you mean '{meant}'\?$"):
        animals[slip]


def test_numbers_may_be_names() -> None:
    registry: Registry[int, str] = Registry("number of heads")
    registry.register(1, 2, 16)("heads")
    assert registry[16] == "heads"
    with pytest.raises(UnknownNameError, match="Unknown number of heads '3'; known are: 1, 2, 16"):
        registry[3]


def test_the_error_for_other_lists_reads_the_same() -> None:
    error = unknown("task", "coar", ["cora", "pubmed"])
    assert str(error) == "Unknown task 'coar'; known are: cora, pubmed; did you mean 'cora'?"


def test_discover_imports_every_module_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pdnas_test_plugins"
    package.mkdir()
    for name in ("__init__", "first", "second"):
        (package / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    try:
        discover(package.name)
        assert {f"{package.name}.first", f"{package.name}.second"} <= set(sys.modules)
    finally:
        for name in [name for name in sys.modules if name.startswith(package.name)]:
            del sys.modules[name]


def test_a_package_that_is_called_does_what_its_function_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = ModuleType("tried")
    monkeypatch.setitem(sys.modules, "tried", package)
    make_callable("tried", "math", "pow")
    assert package(2, 3) == 8.0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rat": 1}, "Unknown flag 'rat'; known are: rate; did you mean 'rate'?"),
        ({"rate": -1}, "rate: Input should be greater than 0, but got -1."),
    ],
)
def test_what_pydantic_refuses_is_said_in_words(values: dict[str, int], expected: str) -> None:
    class Settings(BaseModel, extra="forbid"):
        rate: int = Field(1, gt=0)

    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(values)
    assert refusal(caught.value, "flag", Settings.model_fields) == expected
