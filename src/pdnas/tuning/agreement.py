"""What the drivers of a study must have in common, and how one joins the others."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from pydantic import ValidationError

from pdnas.errors import RunError, first_complaint
from pdnas.runs import Record
from pdnas.tasks import GraphTask
from pdnas.tuning.pieces import difference
from pdnas.tuning.tune import Tuning


class Agreement(Record):
    """All that decides the trials of a study, wherever they are done.

    Args:
        tuning: What is done; how many trials is each driver's own matter.
        data: Fingerprint of the graphs and their labels.
        split: Fingerprint of the split.
        metric: By which trials are compared.
        device: On what kind of device they are done, whatever the driver has.
    """

    tuning: Tuning
    data: str
    split: str
    metric: str
    device: str

    @classmethod
    def of(cls, tuning: Tuning, task: GraphTask, device: torch.device) -> "Agreement":
        """What a driver with a tuning on a task has to agree on, whose trials are on a device."""
        return cls(
            tuning=tuning.model_copy(update={"trials": 0}),
            data=task.source.sha256,
            split=task.split.sha256,
            metric=task.metric,
            device=device.type,
        )

    @property
    def fingerprint(self) -> str:
        """A few signs that tell it from any other."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:8]

    def difference(self, now: "Agreement") -> str | None:
        """The first thing that another does not agree on."""
        if (other := different(self.tuning, now.tuning)) is not None:
            return other
        return difference(*(part.model_dump(exclude={"tuning"}) for part in (self, now)))


def join(
    study: str,
    tuning: Tuning,
    task: GraphTask,
    device: torch.device,
    *,
    known: str | None,
    register: Callable[[str], str],
    settle: Callable[[], Tuning],
) -> Tuning:
    """The tuning of a driver that joins a study; what a step sees is as the first decided it.

    Args:
        study: Its name.
        tuning: What this driver is to do.
        task: On what.
        device: Where its trials are done.
        known: What decides the study; none: there was no driver yet.
        register: Told what decides it; what does, if another driver was faster.
        settle: The tuning that says what a step sees.
    """
    about = known or Agreement.of(settle(), task, device).model_dump_json()
    try:
        before = Agreement.model_validate_json(register(about))
    except ValidationError as error:
        raise RunError(
            f"The study '{study}' was begun by another version of pdnas "
            f"({first_complaint(error)}); use that one, or give another --study."
        ) from None
    tuning = decided_as(before.tuning, tuning)
    other = before.difference(Agreement.of(tuning, task, device))
    if other is not None:
        raise RunError(
            f"The study '{study}' was begun with other settings: {other}; repeat them, or give "
            "another --study."
        )
    return tuning


def decided_as(before: Tuning, now: Tuning) -> Tuning:
    """What a step sees, where it is left open now, as it was decided before."""
    job, known = now.search, before.search.recipe
    same = job.recipe.way == known.way and job.recipe.batch_nodes in (None, known.batch_nodes)
    if job.recipe.way != "auto" and not same:
        return now
    recipe = job.recipe.changed(batching=known.batching, batch_nodes=known.batch_nodes)
    return now.model_copy(update={"search": job.model_copy(update={"recipe": recipe})})


def different(before: Tuning, now: Tuning) -> str | None:
    """The first setting by which the trials of one do not belong to the other."""
    pairs = zip(_decisive(before), _decisive(now), strict=True)
    return next((other for old, new in pairs if (other := difference(old, new))), None)


def _decisive(tuning: Tuning) -> Iterator[dict[str, Any]]:
    """What decides the trials, part by part; more trials are welcome."""
    values = tuning.model_dump(mode="json")
    job = values.pop("search")
    del values["trials"]
    yield values
    yield job.pop("recipe")
    yield job
