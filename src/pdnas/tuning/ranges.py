"""Which fields of a recipe are tuned, and between which values."""

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from optuna.trial import BaseTrial, FixedTrial

from pdnas.architecture import Architecture
from pdnas.errors import PdnasError
from pdnas.models import Design
from pdnas.ops import ATTENTIONS
from pdnas.registry import Registry
from pdnas.training import Recipe

Value: TypeAlias = float | int | str
Suggest = Callable[[BaseTrial], Value]

RANGES: Registry[str, Suggest] = Registry("field to tune")
"""How a trial draws a value for each field that can be tuned."""

RANGES.register("lr")(lambda trial: trial.suggest_float("lr", 1e-3, 0.2, log=True))
RANGES.register("weight_decay")(
    lambda trial: trial.suggest_float("weight_decay", 1e-5, 1e-2, log=True)
)
RANGES.register("input_dropout")(lambda trial: trial.suggest_float("input_dropout", 0.0, 0.9))
RANGES.register("dropout")(lambda trial: trial.suggest_float("dropout", 0.0, 0.9))
RANGES.register("attention_dropout")(
    lambda trial: trial.suggest_float("attention_dropout", 0.0, 0.8)
)
RANGES.register("feature_weights")(
    lambda trial: trial.suggest_categorical("feature_weights", ["off", "on"])
)
RANGES.register("copies")(lambda trial: trial.suggest_categorical("copies", [1, 2, 4]))
RANGES.register("node_dropout")(lambda trial: trial.suggest_float("node_dropout", 0.0, 0.7))
RANGES.register("consistency")(lambda trial: trial.suggest_float("consistency", 0.2, 2.0))
RANGES.register("sharpening")(lambda trial: trial.suggest_float("sharpening", 0.1, 0.6))

BETWEEN_COPIES = ("consistency", "sharpening")
"""What plays no part where there is a single copy."""


def check_fields(fields: Sequence[str]) -> None:
    """Refuse fields that cannot be tuned, and such as are named twice."""
    for name in fields:
        RANGES[name]
    if len(set(fields)) < len(fields):
        raise PdnasError(f"--fields has {list(fields)}; name each of them once.")


def within_ranges(recipe: Recipe, fields: Collection[str]) -> dict[str, Value]:
    """The values of a recipe's fields that a trial could draw."""
    values = recipe.model_dump()
    return {name: values[name] for name in fields if _can_draw(name, values[name])}


def _can_draw(name: str, value: Value) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what lies outside is refused, or warned of
        try:
            RANGES[name](FixedTrial({name: value}))
        except (ValueError, UserWarning):
            return False
    return True


def suggest(
    trial: BaseTrial, base: Recipe, fields: Collection[str], architecture: Design
) -> Recipe:
    """The recipe of a trial: a base with the tuned fields drawn, those that play a part.

    Args:
        trial: What draws.
        base: Whose other fields are kept.
        fields: What to tune.
        architecture: What the recipe is for; without learned attention, no dropout of it.
    """
    values: dict[str, Value] = {}
    blocks = architecture.blocks if isinstance(architecture, Architecture) else ()
    attends = any(spec.attends and ATTENTIONS[spec.attention].learned for spec in blocks)
    for name in RANGES:
        copies = values.get("copies", base.copies)
        idle = (name == "attention_dropout" and not attends) or (
            name in BETWEEN_COPIES and copies == 1
        )
        if name in fields and not idle:
            values[name] = RANGES[name](trial)
    return base.changed(**values)
