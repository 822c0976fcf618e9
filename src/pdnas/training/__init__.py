"""How weights are learnt."""

from pdnas.training.fit import fit
from pdnas.training.recipe import RECIPES, Recipe, find_recipe
from pdnas.training.seeds import train

__all__ = ["RECIPES", "Recipe", "find_recipe", "fit", "train"]
