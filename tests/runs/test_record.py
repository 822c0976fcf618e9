"""What is written as JSON comes back, and what is not a record is refused."""

import json
import math

import pytest
from tests.runs.conftest import Note, files

from pdnas.errors import RunError
from pdnas.runs import RESULT, RunDirectory


def test_a_record_comes_back(run: RunDirectory) -> None:
    run.write_json("note.json", Note(text="ü"))
    assert run.has("note.json")
    assert run.read_record("note.json", Note) == Note(text="ü")
    assert json.loads((run.path / "note.json").read_text()) == {"text": "ü"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_not_written(run: RunDirectory, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write_json("note.json", {"a": {"b": [value]}})
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.append_history([{"a": value}])
    assert files(run) == set()


def test_a_missing_record_tells_to_finish_the_run(run: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"has no result\.json; finish it with: pdnas resume "):
        run.read_record(RESULT, Note)


@pytest.mark.parametrize(
    "content", ["", '{"text": ', "[]", "{}", '{"text": 1}', '{"text": "a", "more": 1}']
)
def test_a_record_that_is_not_valid_is_one_sentence(run: RunDirectory, content: str) -> None:
    (run.path / "note.json").write_text(content)
    with pytest.raises(
        RunError, match=r"note\.json' is damaged, or of another version of pdnas: .+; run again\.$"
    ) as caught:
        run.read_record("note.json", Note)
    assert "\n" not in str(caught.value)


def test_a_record_that_cannot_be_read_is_one_sentence(run: RunDirectory) -> None:
    (run.path / "note.json").mkdir()
    with pytest.raises(RunError, match=r"cannot be read \(Is a directory\)"):
        run.read_record("note.json", Note)
