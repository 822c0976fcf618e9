"""What is drawn for a recipe, and what is left alone because it plays no part."""

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FixedTrial

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import UnknownNameError
from pdnas.job import TUNED_COPIES
from pdnas.ops import ATTENTIONS
from pdnas.training import RECIPES, Recipe
from pdnas.tuning.ranges import RANGES, check_fields, suggest, within_ranges
from pdnas.tuning.study import KNOWN

LEARNED = Architecture(blocks=(BlockSpec(), BlockSpec(attention="gat")))
PLAIN = Architecture(blocks=(BlockSpec(), BlockSpec()))
FAR = Architecture(blocks=(BlockSpec(propagation=4, attention="gat"),))
"""Its messages travel by powers of the adjacency: the attention plays no part."""

MIDDLE: dict[str, float | str] = {
    "lr": 0.1,
    "weight_decay": 1e-3,
    "input_dropout": 0.25,
    "dropout": 0.75,
    "attention_dropout": 0.125,
    "feature_weights": "on",
    "copies": 2,
    "node_dropout": 0.375,
    "consistency": 1.5,
    "sharpening": 0.25,
}
"""A value of each range, none of them a recipe's default."""


def test_every_range_is_of_a_field_of_the_recipe() -> None:
    assert list(MIDDLE) == list(RANGES)
    assert set(RANGES) < Recipe.model_fields.keys()


def test_what_is_drawn_replaces_the_base_and_nothing_else_changes() -> None:
    base = Recipe(epochs=77, optimizer="adamw", patience=5)
    recipe = suggest(FixedTrial(MIDDLE), base, tuple(RANGES), LEARNED)
    assert recipe == base.changed(**MIDDLE)


@pytest.mark.parametrize("name", RANGES)
def test_a_single_field_is_tuned_alone(name: str) -> None:
    base = Recipe(copies=4)
    recipe = suggest(FixedTrial(MIDDLE), base, [name], LEARNED)
    assert recipe == base.changed(**{name: MIDDLE[name]})


@pytest.mark.parametrize(("architecture", "drawn"), [(LEARNED, True), (PLAIN, False), (FAR, False)])
def test_dropout_of_attention_is_drawn_only_where_it_is_learned(
    architecture: Architecture, drawn: bool
) -> None:
    trial = FixedTrial(MIDDLE)
    suggest(trial, Recipe(), tuple(RANGES), architecture)
    assert ("attention_dropout" in trial.params) == drawn


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_an_attention_says_itself_whether_it_is_learned(attention: str) -> None:
    trial = FixedTrial(MIDDLE)
    network = Architecture(blocks=(BlockSpec(attention=attention),))
    suggest(trial, Recipe(), tuple(RANGES), network)
    assert ("attention_dropout" in trial.params) == ATTENTIONS[attention].learned


@pytest.mark.parametrize(
    ("copies", "fields", "drawn"),
    [
        (1, ("copies", "consistency", "sharpening"), False),
        (4, ("copies", "consistency", "sharpening"), True),
        (1, ("consistency", "sharpening"), False),
        (4, ("consistency", "sharpening"), True),
    ],
)
def test_what_is_between_copies_is_drawn_only_where_there_are_several(
    copies: int, fields: tuple[str, ...], drawn: bool
) -> None:
    """The number of copies that is drawn decides; where none is drawn, the base's."""
    trial = FixedTrial({**MIDDLE, "copies": copies})
    base = Recipe(copies=copies if "copies" not in fields else 5 - copies)
    recipe = suggest(trial, base, fields, PLAIN)
    assert (recipe.consistency, recipe.sharpening) == ((1.5, 0.25) if drawn else (1.0, 0.5))
    assert trial.params.keys() == {n for n in fields if n == "copies" or drawn}


@given(
    seed=st.integers(0, 2**32 - 1),
    fields=st.sets(st.sampled_from(tuple(RANGES)), min_size=1),
    architecture=st.sampled_from([LEARNED, PLAIN]),
)
def test_whatever_is_drawn_is_a_recipe(
    seed: int, fields: set[str], architecture: Architecture
) -> None:
    """Each value is within what a recipe allows, and the others stay as they are."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    trial = study.ask()
    recipe = suggest(trial, Recipe(), fields, architecture)
    assert trial.params.keys() <= fields
    assert recipe == Recipe().changed(**trial.params)


@pytest.mark.parametrize("name", KNOWN)
def test_known_recipes_are_within_the_ranges(name: str) -> None:
    """Optuna would warn of a value outside, and warnings are errors."""
    known = {field: value for field, value in RECIPES[name].model_dump().items() if field in RANGES}
    study = optuna.create_study()
    study.enqueue_trial(known)
    trial = study.ask()
    assert suggest(trial, RECIPES[name], tuple(RANGES), LEARNED) == RECIPES[name]
    assert trial.params == known


def test_a_field_that_cannot_be_tuned_is_refused() -> None:
    check_fields(tuple(RANGES))
    with pytest.raises(UnknownNameError, match=r"field to tune 'epochs'.*sharpening"):
        check_fields(["lr", "epochs"])


def test_memory_is_reckoned_for_the_most_copies_that_are_tried() -> None:
    fitting = [
        copies for copies in range(1, 65) if within_ranges(Recipe(copies=copies), ["copies"])
    ]
    assert max(fitting) == TUNED_COPIES
