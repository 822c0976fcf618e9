"""How exactly products of matrices are computed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pdnas.training.recipe import Recipe

PRECISIONS = {None: "highest", "single": "highest", "tf32": "high"}
"""What torch calls the precisions of recipes."""


@contextmanager
def precision_of(recipe: Recipe) -> Iterator[None]:
    """Inside, dense products are as exact as a recipe says; outside, as before.

    With ``tf32`` a GPU rounds the factors to ten bits after the point and adds in single precision.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[recipe.precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
