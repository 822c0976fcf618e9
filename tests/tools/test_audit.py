"""The bill of what is installed, and what is made of pip-audit's answers."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any

import pytest

MENDED = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": []}
NOT_FOUND = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited"}


@pytest.fixture
def audit(script: Callable[[str], ModuleType]) -> ModuleType:
    pytest.importorskip("packaging")
    return script("tools/audit.py")


def answer(*told: dict[str, Any], code: int = 0) -> CompletedProcess[str]:
    return CompletedProcess(["pip-audit"], code, json.dumps({"dependencies": told}), "")


def test_the_pins_of_the_project_are_read(audit: ModuleType) -> None:
    pins = audit.pinned(Path(__file__).parents[2] / "constraints.txt")
    assert pins["torch-geometric"]
    assert pins["pip-audit"] == "2.10.1"


def test_what_is_installed_and_pinned_must_stand_in_the_bill(audit: ModuleType) -> None:
    bill = {"components": [{"name": "Torch_Geometric", "version": "2.8"}, {"name": "no-version"}]}
    pins = {"torch-geometric": "2.8", "numpy": "2.0", "absent": "1.0"}
    assert audit.missing(bill, pins, {"torch-geometric": "2.8", "numpy": "2.0"}) == ["numpy 2.0"]
    assert audit.missing(bill, pins, {"torch-geometric": "2.9"}) == ["torch-geometric 2.9"]


def test_a_clean_audit_says_how_much_it_saw(audit: ModuleType) -> None:
    code, said = audit.verdict(answer({"name": "a", "version": "1", "vulns": []}), 1)
    assert (code, said) == (0, "1 distributions were audited: no vulnerability is known.")


def test_a_known_vulnerability_fails_and_is_named(audit: ModuleType) -> None:
    told = {"name": "a", "version": "1", "vulns": [MENDED]}
    code, said = audit.verdict(answer(told, NOT_FOUND, code=1), 2)
    assert code == 1
    assert said == "Known to be vulnerable:\na 1: PYSEC-1; mended in 2.0"


def test_what_could_not_be_looked_up_beside_others_fails(audit: ModuleType) -> None:
    code, said = audit.verdict(answer({"name": "a", "version": "1", "vulns": []}, NOT_FOUND), 2)
    assert (code, said) == (1, "1 of 2 could not be looked up: b")


@pytest.mark.parametrize(
    "silence",
    [
        None,
        answer(NOT_FOUND),
        CompletedProcess([], 1, "", "ERROR:x:Could not connect to PyPI's vulnerability feed"),
    ],
)
def test_a_database_that_does_not_answer_is_said_plainly(audit: ModuleType, silence: Any) -> None:
    code, said = audit.verdict(silence, 1)
    assert code == 0
    assert said.startswith("NOTHING WAS AUDITED: no database of vulnerabilities could be reached")


def test_whatever_else_goes_wrong_fails(audit: ModuleType) -> None:
    code, said = audit.verdict(CompletedProcess([], 2, "", "usage: pip-audit\nno such flag"), 1)
    assert (code, said) == (1, "pip-audit failed: no such flag")
