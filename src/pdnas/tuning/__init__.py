"""Many jobs: recipes tuned, grids searched, side by side in processes."""

from pdnas.tuning.executor import Executor
from pdnas.tuning.inline import RecipeTuner
from pdnas.tuning.local import LocalExecutor
from pdnas.tuning.study import RecipeStudy
from pdnas.tuning.tune import Tuning, tune

__all__ = ["Executor", "LocalExecutor", "RecipeStudy", "RecipeTuner", "Tuning", "tune"]
