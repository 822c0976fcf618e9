"""The public names of the package."""

import subprocess
import sys

import pytest

import pdnas


@pytest.mark.parametrize("name", pdnas.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(pdnas, name) is not None


def test_the_public_names_are_those_of_the_design() -> None:
    promised = {"Architecture", "GraphTask", "Result", "SearchSpace", "load_task", "train"}
    assert promised <= set(pdnas.__all__)
    assert dir(pdnas) == sorted(pdnas.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        getattr(pdnas, "serch")  # noqa: B009


def test_importing_the_package_does_not_wait_for_torch() -> None:
    code = "import sys, pdnas; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_has_three_numbers() -> None:
    assert [part.isdigit() for part in pdnas.__version__.split(".")] == [True] * 3
