"""What a study keeps of its trials, read strictly: Optuna itself trusts whatever it is given."""

from typing import Any, Self

import optuna
from optuna.trial import FrozenTrial, TrialState
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from pdnas.errors import first_complaint, shown
from pdnas.runs import Figure

INTERRUPTED = "interrupted"
"""Where a study keeps the numbers of trials that died with their driver."""

STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "stopped early",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}

_LOST = TypeAdapter(list[int], config=ConfigDict(strict=True))


class About(BaseModel):
    """What a trial says of itself.

    Args:
        recipe: What it tried, if that is a recipe.
        shape: What it came to, if that is a network.
        round: Which trial it repeats.
        place: Which of the recipes of the first round it is.
        driver: Who does it.
        reason: Why it failed.
    """

    model_config = ConfigDict(strict=True)

    recipe: dict[str, Any] | None = None
    shape: dict[str, Any] | None = None
    round: int | None = None
    place: int | None = None
    driver: str = ""
    reason: str = ""


class Entry(BaseModel):
    """A trial.

    Args:
        number: In its study.
        state: What became of it.
        val: What came of it.
        vals: Validation at the epochs that were told.
        params: What it tried, if that is a shape.
        about: What it says of itself.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    number: int
    state: str
    val: Figure | None
    vals: dict[int, Figure]
    params: dict[str, Any]
    about: About

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.state == STATES[TrialState.COMPLETE] and self.val is None:
            raise ValueError(f"trial {self.number} was done, but nothing came of it")
        return self


def read_entries(study: optuna.Study) -> list[Entry]:
    """The trials that count, in their order.

    Raises:
        Exception: Of any kind where they are damaged, see :func:`reason_of`.
    """
    lost = _LOST.validate_python(study.user_attrs.get(INTERRUPTED, []))
    trials = study.get_trials(deepcopy=False)
    return [_entry(trial) for trial in trials if trial.number not in lost]


def _entry(trial: FrozenTrial) -> Entry:
    state = STATES[trial.state]
    return Entry(
        number=trial.number,
        state=state,
        val=trial.value if trial.state == TrialState.COMPLETE else None,
        vals=trial.intermediate_values,
        params=trial.params,
        about=About.model_validate(trial.user_attrs),
    )


def reason_of(error: Exception) -> str:
    """What is wrong with damaged entries, for a sentence."""
    reason = first_complaint(error) if isinstance(error, ValidationError) else str(error)
    reason = " ".join(reason.split()).removesuffix(".")
    return shown(reason or type(error).__name__, 200)
