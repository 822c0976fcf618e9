"""What names stand for: networks with how they are trained, strategies with their settings."""

from pathlib import Path
from typing import Any

from pdnas.architecture import Architecture
from pdnas.compare.work import read_attempt
from pdnas.errors import ArchitectureError, SearchError
from pdnas.files import check_path
from pdnas.models import Design, Published, load_design
from pdnas.models.baselines import BASELINES
from pdnas.registry import unknown
from pdnas.runs import RESULT, SETTINGS, AnySettings, Result, RunDirectory
from pdnas.search import STRATEGIES, Strategy
from pdnas.search.pdnas import PRESETS, Pdnas
from pdnas.search.rated import Rated
from pdnas.settings import TrainSettings
from pdnas.training import RECIPES, Recipe

HIDDEN = 64
"""Channels between blocks where nothing else says how many."""


def find_architecture(given: Design | str | Path) -> tuple[Design, int, Recipe]:
    """A network with its hidden size and its recipe.

    Args:
        given: A baseline's name, the path of a JSON file or of a run directory, or a design, which
            has no hidden size and no recipe of its own.
    """
    if isinstance(given, Architecture | Published):
        return given, HIDDEN, RECIPES["default"]
    if not isinstance(given, str | Path):
        raise ArchitectureError(
            f"A {type(given).__name__} is no network that can be trained; give a baseline's name, "
            "the path of an architecture's .json file or of a run directory, or a "
            "pdnas.Architecture."
        )
    name, path = str(given), Path(given)
    if name in BASELINES:
        baseline = BASELINES[name]
        recipe = RECIPES[name if name in RECIPES else "default"]
        return baseline.design, baseline.hidden, recipe
    if _is_folder(path):
        return _of_run(RunDirectory.open(path))
    if path.suffix == ".json":
        check_path(path, ArchitectureError)
        attempt = read_attempt(path)
        if attempt is None:
            return load_design(path), HIDDEN, RECIPES["default"]
        design = attempt.architecture or BASELINES[attempt.rival].design
        return design, attempt.hidden, attempt.recipe
    raise unknown("baseline", name, [*BASELINES, "a .json file", "a run directory"])


def find_strategy(
    name: str, preset: str = "default", *, epochs: int | None = None, changes: dict[str, Any]
) -> Strategy:
    """A strategy with the settings of a preset, where it has any, and some of them changed.

    Args:
        name: Of the strategy.
        preset: Of pdnas.
        epochs: Of the search; all that belongs to its schedule shrinks or grows with it.
        changes: Fields of the strategy.
    """
    kind = STRATEGIES[name]
    if kind is not Pdnas and preset != "default":
        raise SearchError(
            f"--preset is '{preset}', but only the strategy 'pdnas' has presets, not '{name}'; "
            "leave it out."
        )
    named = PRESETS[preset] if kind is Pdnas else kind.model_validate({"name": name})
    if issubclass(kind, Rated) and "sharing" in changes:  # it decides what else is the default
        named = kind.model_validate({"name": name, "sharing": changes["sharing"]})
    if epochs is not None:
        named = named.lasting(epochs)
    found = named.changed(**changes)
    for setting in found.idle:
        if setting in changes:
            raise SearchError(
                f"--{setting.replace('_', '-')} changes nothing for the strategy '{name}' with "
                f"--sharing {changes.get('sharing', 'off')}; leave it out, or change that."
            )
    return found


def _of_run(run: RunDirectory) -> tuple[Design, int, Recipe]:
    """What a run trained, or found."""
    if run.read_record(SETTINGS, AnySettings).command in ("search", "tune"):
        found = run.read_record(RESULT, Result)
        return found.architecture, found.hidden, Recipe.model_validate(found.recipe)
    earlier = run.read_record(SETTINGS, TrainSettings)
    return earlier.architecture, earlier.hidden, earlier.recipe.undecided


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that no file can have
        return False
