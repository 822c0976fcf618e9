"""What a study keeps is read strictly."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from pdnas.errors import RunError
from pdnas.models.baselines import BASELINES
from pdnas.training import RECIPES
from pdnas.tuning.entries import INTERRUPTED, read_entries, reason_of
from pdnas.tuning.storage import JournalFile
from pdnas.tuning.study import TRIALS, GridStudy, RecipeStudy

Change = Callable[[dict[str, Any]], object]


def recipes(journal: Path) -> RecipeStudy:
    return RecipeStudy(
        BASELINES["gcn"].architecture,
        RECIPES["gcn"],
        fields=("lr",),
        trials=2,
        seeds=1,
        storage=JournalFile(journal),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The study of two recipes, of which one was tried."""
    path = tmp_path / "study.journal"
    study = recipes(path)
    asked = study.ask()
    assert asked is not None
    study.report(asked.number, 3, 0.25)
    study.done(asked.number, 0.5)
    return path


def edit(journal: Path, change: Change) -> None:
    """Change every entry."""
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    for entry in entries:
        change(entry)
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def ended_with(value: object) -> Change:
    return lambda entry: entry.update(values=[value]) if "values" in entry else None


def said(name: str, value: object) -> Change:
    def change(entry: dict[str, Any]) -> None:
        if name in entry.get("user_attr", {}):
            entry["user_attr"][name] = value

    return change


def test_trials_are_read_as_they_were_told() -> None:
    study = optuna.create_study()
    study.set_user_attr(INTERRUPTED, [0])
    study.ask()
    trial = study.ask({"hidden": optuna.distributions.CategoricalDistribution([8])})
    trial.set_user_attr("round", 7)
    trial.report(0.25, 3)
    study.tell(trial, 0.5)
    (entry,) = read_entries(study)
    assert (entry.number, entry.state, entry.val) == (1, "done", 0.5)
    assert (entry.vals, entry.params) == ({3: 0.25}, {"hidden": 8})
    assert (entry.about.round, entry.about.recipe, entry.about.driver) == (7, None, "")


@pytest.mark.parametrize(
    "change",
    [
        ended_with("a"),
        ended_with(None),
        ended_with([]),
        lambda entry: entry.update(op_code="x"),
        lambda entry: entry.update(intermediate_value="a") if "step" in entry else None,
        said("recipe", {"lr": -1}),
        said("recipe", "gcn"),
        said("recipe", None),
        said("place", "first"),
    ],
)
def test_a_damaged_trial_is_one_sentence(journal: Path, change: Change) -> None:
    recipes(journal)  # as it is, it is read
    edit(journal, change)
    with pytest.raises(RunError, match=r"study\.journal' is damaged \(.+\); without the file its "):
        recipes(journal)


@pytest.mark.parametrize(("name", "value"), [(INTERRUPTED, 5), (INTERRUPTED, ["a"]), (TRIALS, "a")])
def test_what_a_study_says_of_itself_is_read_strictly_too(
    journal: Path, name: str, value: object
) -> None:
    storage = JournalFile(journal)
    with storage.at_once():
        optuna.load_study(study_name="recipe", storage=storage.open()).set_user_attr(name, value)
    with pytest.raises(RunError, match="is damaged"):
        recipes(journal)


def test_a_cell_is_made_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    GridStudy([{"hidden": 8}], JournalFile(path)).ask()
    edit(path, lambda entry: entry.update(distribution=words) if "distribution" in entry else None)
    with pytest.raises(RunError, match="is damaged"):
        GridStudy([{"hidden": 8}], JournalFile(path))


words = '{"name": "CategoricalDistribution", "attributes": {"choices": ["a"]}}'


def test_reasons_are_short_and_in_one_line() -> None:
    assert reason_of(ValueError("a\nb")) == "a b"
    assert reason_of(TypeError()) == "TypeError"
    assert len(reason_of(ValueError("long" * 100))) == 200
