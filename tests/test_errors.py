import inspect

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from pdnas import errors
from pdnas.errors import PdnasError, first_complaint, shown

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__
]


class Inner(BaseModel):
    size: int = Field(gt=0)


class Outer(BaseModel):
    parts: list[Inner]
    name: str = "a"

    @field_validator("name")
    @classmethod
    def _is_short(cls, name: str) -> str:
        if len(name) > 3:
            raise ValueError("it is too long")
        return name

    @model_validator(mode="after")
    def _has_parts(self) -> "Outer":
        if not self.parts:
            raise ValueError("there are no parts")
        return self


def complaint(**values: object) -> str:
    with pytest.raises(ValidationError) as info:
        Outer.model_validate(values)
    return first_complaint(info.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_pdnas_error_with_a_meaning(kind: type[Exception]) -> None:
    assert issubclass(kind, PdnasError)
    assert not issubclass(kind, ValueError)  # which pydantic would wrap
    assert kind.__doc__


def test_there_is_an_error_for_each_part() -> None:
    names = {kind.__name__.removesuffix("Error") for kind in KINDS}
    assert names >= {"Architecture", "Device", "Pdnas", "Recipe", "Run", "Task", "UnknownName"}


def test_a_complaint_names_the_place() -> None:
    assert complaint(parts=[{"size": 1}, {"size": 0}]) == (
        "parts.1.size: Input should be greater than 0"
    )


def test_only_the_first_complaint_counts() -> None:
    assert complaint(parts=[{"size": -1}, {"size": 0}]).startswith("parts.0.size: ")


def test_a_complaint_of_ours_loses_pydantics_preface() -> None:
    assert complaint(parts=[], name="long name") == "name: it is too long"


def test_a_complaint_about_the_whole_has_no_place() -> None:
    assert complaint(parts=[]) == "there are no parts"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a\nb\x1b[2J", "a b [2J"), ("x" * 200, "x" * 97 + "..."), (3, "3"), ("Zoë", "Zoë")],
)
def test_a_value_is_shown_in_one_line_that_is_not_long(value: object, expected: str) -> None:
    assert shown(value) == expected


def test_a_complaint_about_a_long_name_is_short() -> None:
    class Strict(BaseModel, extra="forbid"):
        pass

    with pytest.raises(ValidationError) as caught:
        Strict.model_validate({"a" * 100_000: 1})
    assert len(first_complaint(caught.value)) < 200
