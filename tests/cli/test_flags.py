"""Flags that mean the same in every command."""

from pdnas.cli.flags import RecipeChanges
from pdnas.training.recipe import Recipe


def test_there_is_a_flag_for_every_field_of_a_recipe() -> None:
    changes = vars(RecipeChanges())
    assert changes.keys() == Recipe.model_fields.keys()
    assert set(changes.values()) == {None}
