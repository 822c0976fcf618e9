"""A sampler follows all of a short study, and of a long one the best trials and the last."""

import warnings

import optuna
import pytest
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from pdnas.tuning.followed import BEST, LONG, Followed, followed

LINE = optuna.distributions.FloatDistribution(0.0, 1.0)


def ended(number: int, val: float | None) -> FrozenTrial:
    state = TrialState.RUNNING if val is None else TrialState.COMPLETE
    trial = create_trial(
        state=state, value=val, params={"x": (number % 97) / 97}, distributions={"x": LINE}
    )
    trial.number = number
    return trial


def test_a_short_study_is_followed_as_a_whole() -> None:
    trials = [ended(number, number / 1000) for number in range(LONG)] + [ended(LONG, None)]
    assert followed(trials) == trials


def test_of_a_long_study_the_best_and_the_last_are_followed_and_those_under_way() -> None:
    running, count = 7, 3 * LONG
    trials = [ended(n, None if n == running else 1 - n / 1000) for n in range(count)]
    numbers = [trial.number for trial in followed(trials)]
    best = [n for n in range(BEST + 1) if n != running]
    last = [*range(count - LONG + BEST, count)]
    assert numbers == sorted([running, *best, *last])


def sampled(sampler: optuna.samplers.BaseSampler, count: int) -> list[float]:
    """What a sampler draws for the next trials of a study of so many."""
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.add_trials([ended(n, -(((n % 97) / 97 - 0.25) ** 2)) for n in range(count)])
    return [study.ask().suggest_float("x", 0.0, 1.0)]


def tpe() -> TPESampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(multivariate=True, group=True, constant_liar=True, seed=3)


@pytest.mark.parametrize("count", [0, 5, 50, LONG])
def test_nothing_changes_for_a_short_study(count: int) -> None:
    assert sampled(Followed(tpe()), count) == sampled(tpe(), count)


def test_what_was_good_is_followed_in_a_long_study() -> None:
    (x,) = sampled(Followed(tpe()), 5 * LONG)
    assert abs(x - 0.25) < 0.1
