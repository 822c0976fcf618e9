import contextlib
import errno
import json
import os
import re
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pdnas.errors import RecipeError, UnknownNameError
from pdnas.models.baselines import BASELINES
from pdnas.training.recipe import RECIPES, Recipe, find_recipe


def test_the_defaults_are_those_of_the_gcn_paper_but_for_patience_and_length() -> None:
    assert Recipe().model_dump() == {
        "optimizer": "adam",
        "lr": 0.01,
        "weight_decay": 5e-4,
        "input_dropout": 0.5,
        "dropout": 0.5,
        "attention_dropout": 0.0,
        "node_dropout": 0.0,
        "feature_weights": "off",
        "copies": 1,
        "consistency": 1.0,
        "consistency_warm_up": 100,
        "sharpening": 0.5,
        "teachers": 0,
        "epochs": 400,
        "patience": 100,
        "selection": "metric",
        "batch_graphs": 2,
        "batching": None,
        "batch_nodes": None,
        "neighbors": None,
        "schedule": None,
        "precision": None,
    }


def test_every_baseline_has_the_recipe_of_its_paper() -> None:
    assert set(BASELINES) <= set(RECIPES)
    assert "default" in RECIPES


def test_every_field_is_explained() -> None:
    assert all(field.description for field in Recipe.model_fields.values())


@pytest.mark.parametrize("schedule", [None, "constant"])
def test_the_learning_rate_stays_unless_it_is_said_to_fall(
    schedule: Literal["constant"] | None,
) -> None:
    recipe = Recipe(lr=0.25, epochs=8, schedule=schedule)
    assert {recipe.lr_at(epoch) for epoch in range(8)} == {0.25}


def test_along_a_cosine_the_learning_rate_falls_to_zero_after_the_last_epoch() -> None:
    recipe = Recipe(lr=0.25, epochs=4, schedule="cosine")
    half = 0.125 * 2**0.5 / 2
    expected = [0.25, 0.125 + half, 0.125, 0.125 - half, 0.0]
    assert [recipe.lr_at(epoch) for epoch in range(5)] == pytest.approx(expected)


def test_what_is_not_scheduled_is_not_spoken_of_in_fingerprints() -> None:
    assert "schedule" not in Recipe().model_dump_json(exclude_none=True)


def test_a_recipe_is_frozen() -> None:
    with pytest.raises(ValidationError):
        setattr(Recipe(), "lr", 1.0)  # noqa: B010


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("optimizer", "adamm"),
        ("lr", 0),
        ("lr", -1),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("lr", "fast"),
        ("weight_decay", -1e-4),
        ("weight_decay", float("inf")),
        ("input_dropout", 1),
        ("dropout", -0.1),
        ("dropout", 1.0),
        ("attention_dropout", 2),
        ("node_dropout", 1.0),
        ("node_dropout", -0.1),
        ("copies", 0),
        ("copies", 65),
        ("copies", 1.5),
        ("consistency", -1),
        ("consistency", float("inf")),
        ("consistency_warm_up", -1),
        ("sharpening", 0),
        ("sharpening", 1.5),
        ("epochs", 0),
        ("epochs", 2.5),
        ("patience", 0),
        ("selection", "luck"),
        ("batch_graphs", 0),
        ("lr", True),
        ("lr", "0.01"),
        ("copies", True),
        ("copies", 2.0),
    ],
)
def test_a_bad_value_is_one_sentence(field: str, value: object) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe().changed(**{field: value})
    sentence = str(caught.value)
    assert sentence.startswith(f"The recipe is not valid: {field}: ")
    assert sentence.endswith(f"but got {value!r}.")
    assert "\n" not in sentence


def test_a_field_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(
        RecipeError, match=r"not valid: Unknown field 'lrr'; known are: .*; did you mean 'lr'\?$"
    ):
        Recipe().changed(lrr=0.9)
    with pytest.raises(RecipeError, match=r"Unknown field 'lrr'.*did you mean 'lr'"):
        Recipe.model_validate({"lrr": 0.9})
    with pytest.raises(RecipeError, match=r"^The recipe is not valid: lr: .*, but got -1\.$"):
        Recipe(lr=-1)


@pytest.mark.parametrize("given", ["gat", RECIPES["gat"], RECIPES["gat"].model_dump()])
def test_a_recipe_is_found_by_name_and_by_value(given: Any) -> None:
    assert find_recipe(given) == RECIPES["gat"]


def test_changes_leave_the_rest() -> None:
    changed = RECIPES["gat"].changed(lr=0.1)
    assert changed.lr == 0.1
    assert changed.model_copy(update={"lr": RECIPES["gat"].lr}) == RECIPES["gat"]


def test_a_toml_file_changes_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('optimizer = "sgd"\nlr = 0.5\nepochs = 3\n')
    assert find_recipe(str(path)) == Recipe(optimizer="sgd", lr=0.5, epochs=3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lr = ", "is not valid TOML: .*; correct it, for example: "),
        ("lr = 0", "is not valid: lr: Input should be greater than 0, but got 0"),
        ("rate = 1", "is not valid: Unknown field 'rate'; known are: optimizer, lr, "),
        ("[adam]\nlr = 1", "is not valid: Unknown field 'adam'"),
        ('lr = "ä"', "is not valid: lr: "),
    ],
)
def test_a_toml_file_that_is_not_a_recipe_is_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(
        RecipeError, match=rf"^The recipe '{re.escape(str(path))}' .+[.?]$"
    ) as caught:
        Recipe.load(path)
    assert "\n" not in str(caught.value)
    if "ä" not in text:
        assert re.search(sentence, str(caught.value))


positive = st.floats(0, exclude_min=True, allow_infinity=False)
rates = st.floats(0, 1, exclude_max=True)
counts = st.integers(1, 10**9)
recipes = st.builds(
    Recipe,
    optimizer=st.sampled_from(["adam", "adamw", "sgd"]),
    lr=positive,
    weight_decay=st.floats(0, allow_infinity=False),
    input_dropout=rates,
    dropout=rates,
    attention_dropout=rates,
    node_dropout=rates,
    copies=st.integers(1, 64),
    consistency=st.floats(0, allow_infinity=False),
    consistency_warm_up=st.integers(0, 10**9),
    sharpening=st.floats(0.01, 1),
    epochs=counts,
    patience=counts,
    selection=st.sampled_from(["metric", "loss"]),
    batch_graphs=counts,
    batching=st.sampled_from([None, "auto", "clusters", "neighbors"]),
    batch_nodes=st.none() | counts,
    schedule=st.sampled_from([None, "constant", "cosine"]),
    precision=st.sampled_from([None, "single", "tf32"]),
)


@given(recipe=recipes)
def test_a_file_keeps_everything(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "kept.toml"
    recipe.save(path)
    assert Recipe.load(path) == recipe


@pytest.mark.parametrize("name", RECIPES)
def test_a_named_recipe_is_found_again_in_its_file(name: str, tmp_path: Path) -> None:
    RECIPES[name].save(str(tmp_path / "mine.toml"))
    assert find_recipe(str(tmp_path / "mine.toml")) == RECIPES[name]


def test_a_file_has_a_line_for_every_field(tmp_path: Path) -> None:
    mine = Recipe(lr=1e-05, epochs=3, batching="neighbors", batch_nodes=7, neighbors=5)
    mine = mine.changed(schedule="cosine", precision="tf32")
    mine.save(tmp_path / "mine.toml")
    lines = (tmp_path / "mine.toml").read_text().splitlines()
    assert [line.split(" = ")[0] for line in lines] == list(Recipe.model_fields)
    assert lines[:2] == ['optimizer = "adam"', "lr = 1e-05"]
    assert lines[-3:] == ["neighbors = 5", 'schedule = "cosine"', 'precision = "tf32"']
    Recipe().save(tmp_path / "mine.toml")
    assert "batch_nodes" not in (tmp_path / "mine.toml").read_text(), "there is none"


@pytest.mark.parametrize("place", [".", "none/mine.toml"])
def test_a_path_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    pattern = (
        rf"^The recipe cannot be written to '{re.escape(str(path))}' \([\w ]+\); "
        r"give a path that you may write to\.$"
    )
    with pytest.raises(RecipeError, match=pattern):
        Recipe().save(path)


def test_what_no_file_can_be_called_is_one_sentence() -> None:
    with pytest.raises(
        RecipeError, match=r"'a b\.toml' cannot be a path: no file's name has a null"
    ):
        Recipe().save("a\0b.toml")
    with pytest.raises(
        RecipeError, match=r"'a b\.toml' cannot be a path: no file's name has a null"
    ):
        find_recipe("a\0b.toml")


def test_a_recipe_that_cannot_be_written_whole_is_as_it_was_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.toml"
    Recipe(lr=0.5).save(path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecipeError, match=r"cannot be written to .* \(No space left on device\)"):
        Recipe(lr=0.1).save(path)
    assert Recipe.load(path).lr == 0.5
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name", ["epochs", "patience", "consistency_warm_up", "batch_graphs", "batch_nodes"]
)
def test_a_number_beyond_all_measure_is_one_sentence(name: str) -> None:
    with pytest.raises(RecipeError, match=f"{name}: Input should be less than or equal to 10000"):
        find_recipe({name: 10**400})


def test_recipes_for_consistency_compare_copies_of_which_nodes_are_dropped() -> None:
    named = {name for name in RECIPES if name.startswith(("consistency", "grand"))}
    assert "consistency" in named
    for name in named:
        recipe = find_recipe(name)
        assert recipe.copies > 1
        assert recipe.consistency > 0
        assert recipe.node_dropout > 0
    assert {RECIPES[name].copies for name in set(RECIPES) - named} == {1}


@pytest.mark.parametrize(
    ("copies", "warm_up", "weights"),
    [
        (2, 4, [0.5, 1.0, 1.5, 2.0, 2.0]),
        (2, 1, [2.0] * 5),
        (2, 0, [2.0] * 5),
        (1, 4, [0.0] * 5),
    ],
    ids=["grows", "in one epoch", "at once", "nothing to compare"],
)
def test_the_weight_of_consistency_grows_to_its_value(
    copies: int, warm_up: int, weights: list[float]
) -> None:
    recipe = Recipe(copies=copies, consistency=2.0, consistency_warm_up=warm_up)
    assert [recipe.consistency_at(epoch) for epoch in range(5)] == weights


def test_a_missing_file_is_named() -> None:
    with pytest.raises(RecipeError, match=r"The recipe 'none\.toml' cannot be read"):
        find_recipe("none.toml")


def test_an_unknown_recipe_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown recipe 'gcm'.* did you mean 'gcn'\?"):
        find_recipe("gcm")


@pytest.mark.parametrize(
    ("selection", "better", "worse"),
    [
        ("metric", (0.8, 9.0), (0.7, 0.1)),
        ("metric", (0.8, 0.1), (0.8, 0.2)),
        ("loss", (0.1, 0.5), (0.9, 0.6)),
        ("loss", (0.9, 0.5), (0.8, 0.5)),
    ],
    ids=["metric", "metric-tie", "loss", "loss-tie"],
)
def test_the_other_figure_breaks_ties(
    selection: str, better: tuple[float, float], worse: tuple[float, float]
) -> None:
    recipe = Recipe().changed(selection=selection)

    def score(pair: tuple[float, float]) -> tuple[float, float]:
        return recipe.score(metric=pair[0], loss=pair[1])

    assert score(better) > score(worse)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)],
)
def test_the_optimizer_has_the_recipes_rates(name: str, kind: type[torch.optim.Optimizer]) -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    recipe = Recipe().changed(optimizer=name, lr=0.125, weight_decay=0.25)
    optimizer = recipe.make_optimizer([weight])
    assert type(optimizer) is kind
    assert optimizer.defaults["lr"] == 0.125
    assert optimizer.defaults["weight_decay"] == 0.25


@pytest.mark.parametrize(
    ("values", "way", "is_decided"),
    [
        ({}, "auto", False),
        ({"batching": "auto"}, "auto", False),
        ({"batching": "full"}, "full", True),
        ({"batch_nodes": 9}, "clusters", True),
        ({"batching": "clusters"}, "clusters", False),
        ({"batching": "auto", "batch_nodes": 9}, "clusters", True),
        ({"batching": "neighbors", "batch_nodes": 9}, "neighbors", True),
        ({"neighbors": 3}, "neighbors", False),
        ({"neighbors": 3, "batch_nodes": 9}, "neighbors", True),
    ],
)
def test_what_a_step_sees_follows_from_what_is_given(
    values: dict[str, Any], way: str, is_decided: bool
) -> None:
    recipe = Recipe(**values)
    assert (recipe.way, recipe.is_decided) == (way, is_decided)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"batching": "full", "batch_nodes": 100}, "--batching is full, but --batch-nodes is 100"),
        ({"batching": "full", "neighbors": 3}, "--batching is full, but --neighbors is 3"),
        ({"batching": "clusters", "neighbors": 3}, "--batching is clusters, but --neighbors is 3"),
    ],
)
def test_batchings_that_contradict_themselves_are_refused(
    values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RecipeError, match=f"^{sentence}; leave out one of them, or give "):
        Recipe(**values)
    with pytest.raises(RecipeError, match=sentence):
        Recipe().changed(**values)


def test_for_another_graph_a_recipe_does_not_say_that_it_fits() -> None:
    assert Recipe(batching="full", lr=0.5).undecided == Recipe(lr=0.5)
    cut = Recipe(batching="clusters", batch_nodes=9)
    assert cut.undecided is cut


def test_what_is_not_set_leaves_no_trace_in_fingerprints() -> None:
    written = Recipe().model_dump_json(exclude_none=True)
    assert not {"batching", "batch_nodes", "neighbors"} & set(json.loads(written))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"lr": -1}, "The recipe is not valid: lr: Input should be greater than 0, but got -1."),
        ({"lrr": 1}, "The recipe is not valid: Unknown field 'lrr'; known are: "),
        ({"epochs": 2**70, "lr": "x"}, "The recipe is not valid: lr: "),
        ({"dropout": float("nan")}, "The recipe is not valid: dropout: "),
    ],
)
def test_a_recipe_made_in_python_explains_itself(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe(**values)
    assert str(caught.value).startswith(expected)


@given(
    values=st.dictionaries(
        st.sampled_from([*Recipe.model_fields, "lrr", "a" * 5000]),
        st.sampled_from([None, True, -1, 2**70, 1e308, float("inf"), "x" * 5000, [], {"a": 1}]),
    )
)
def test_whatever_values_there_are_make_a_recipe_or_a_sentence(values: dict[str, Any]) -> None:
    with contextlib.suppress(RecipeError):
        find_recipe(values)
