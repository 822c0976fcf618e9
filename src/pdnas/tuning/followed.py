"""What a sampler follows of a long study: a trial costs the same however many there were."""

from collections.abc import Container, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

LONG = 200
"""Finished trials up to which all of them are followed."""

BEST = 50
"""Of a longer study, how many of the best are; TPE itself takes 25 at most for good ones."""


def followed(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those under way, and of many that ended the best and the last, in their order."""
    ended = [trial for trial in trials if trial.state.is_finished()]
    if len(ended) <= LONG:
        return [*trials]
    done = [trial for trial in ended if trial.state == TrialState.COMPLETE]
    best = sorted(done, key=lambda trial: -(trial.value or 0.0))[:BEST]
    kept = {trial.number for trial in [*best, *ended[BEST - LONG :]]}
    return [t for t in trials if t.number in kept or not t.state.is_finished()]


class Followed(BaseSampler):
    """A sampler that is shown no more of a study than :func:`followed` says, for one trial.

    Args:
        sampler: Which.
    """

    def __init__(self, sampler: BaseSampler) -> None:
        self._sampler = sampler
        self._part: optuna.Study | None = None

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._sampler.infer_relative_search_space(self._of(study), trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler.sample_relative(self._of(study), trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._sampler.sample_independent(
            self._of(study), trial, param_name, param_distribution
        )

    def _of(self, study: optuna.Study) -> optuna.Study:
        """The part of a study that is shown, as it is when it is first asked for."""
        if self._part is None:
            part: Any = _Part(study._storage, followed(study.get_trials(deepcopy=False)))
            self._part = optuna.Study(study.study_name, part)
        return self._part


class _Part:
    """A storage with some of its trials; everything else is the storage's."""

    def __init__(self, storage: Any, trials: Sequence[FrozenTrial]) -> None:
        self._storage, self._trials = storage, trials

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get_all_trials(
        self,
        study_id: int,  # noqa: ARG002
        deepcopy: bool = True,  # noqa: ARG002
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """None of them is changed by a sampler, so that none is copied."""
        return [trial for trial in self._trials if states is None or trial.state in states]
