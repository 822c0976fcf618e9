"""Means, spreads and intervals are those of the textbook, and pairs are compared."""

import math

import pytest

from pdnas.runs import Difference, Scores


@pytest.mark.parametrize(
    ("values", "mean", "std", "half"),
    [
        # Student's t at 97.5 %: 4.302653 with two degrees of freedom, 12.706205 with one.
        ([0.48, 0.5, 0.52], 0.5, 0.02, 4.302652729911275 * 0.02 / math.sqrt(3)),
        ([0.49, 0.51], 0.5, math.sqrt(2e-4), 12.706204736174698 * math.sqrt(2e-4) / math.sqrt(2)),
        ([0.5, 0.5, 0.5, 0.5], 0.5, 0.0, 0.0),
    ],
)
def test_scores_are_mean_std_and_t_interval(
    values: list[float], mean: float, std: float, half: float
) -> None:
    scores = Scores.of(values)
    assert scores.mean == pytest.approx(mean)
    assert scores.std == pytest.approx(std)
    assert scores.interval == pytest.approx((mean - half, mean + half))
    assert scores.values == tuple(values)


def test_an_interval_stays_between_0_and_1() -> None:
    assert Scores.of([0.1, 0.9]).interval == (0.0, 1.0)


def test_a_single_score_has_no_interval() -> None:
    assert Scores.of([0.5]) == Scores(mean=0.5, std=0.0, interval=None, values=(0.5,))


def test_a_difference_is_that_of_pairs_with_a_t_interval() -> None:
    # Mean 2, standard deviation 1; t of two degrees of freedom is 4.302653.
    ahead = Difference.of([1.0, 2.0, 3.0])
    half = 4.302653 / math.sqrt(3)
    assert (ahead.mean, ahead.pairs) == (2.0, 3)
    assert ahead.interval == pytest.approx((2 - half, 2 + half), abs=1e-5)
    assert Difference.of([-0.5]) == Difference(mean=-0.5, interval=None, pairs=1)


def test_trainings_with_the_same_seed_are_a_pair() -> None:
    one, other = Scores.of([0.5, 0.6, 0.7]), Scores.of([0.1, 0.5])
    ahead = Difference.between(one, other, [(1, 1), (2, 0)])
    assert ahead.mean == pytest.approx((10 + 60) / 2)
    assert ahead.pairs == 2


@pytest.mark.parametrize(
    ("differences", "is_noise"),
    [([1.0], True), ([1.0, -1.0], True), ([1.0, 1.1, 1.2], False), ([-1.0, -1.1, -1.2], False)],
)
def test_an_interval_that_holds_zero_tells_nobody_apart(
    differences: list[float], is_noise: bool
) -> None:
    assert Difference.of(differences).is_noise == is_noise


def test_scores_are_shown_in_percent() -> None:
    assert str(Scores.of([0.8125])) == "81.25"
    assert str(Scores.of([0.7, 0.8, 0.9])) == "80.00 ± 10.00"


def test_the_interval_over_splits_is_that_of_their_means() -> None:
    means = Scores.of([0.70, 0.75, 0.80])
    repeated = Scores.of([0.70] * 10 + [0.75] * 10 + [0.80] * 10, splits=3)
    assert repeated.interval == pytest.approx(means.interval)
    assert repeated.mean == pytest.approx(means.mean)
