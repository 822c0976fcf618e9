"""How rivals stand, by hand."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from pdnas.compare.standing import Catch, Standing, Verdict, grouped
from pdnas.compare.work import Attempt

MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def first(attempt_of: MakeAttempt) -> list[Attempt]:
    """The first strategy with two seeds."""
    return [
        attempt_of("pdnas", 0, (2.0, 0.5), (4.0, 0.8)),
        attempt_of("pdnas", 1, (2.0, 0.6), (10.0, 0.7)),
    ]


def verdict_of(*standings: Standing, **about: Any) -> Verdict:
    return Verdict.model_validate(
        {
            "task": "tiny",
            "note": "",
            "metric": "accuracy",
            "split": "own",
            "split_sha256": "abcd",
            "space": "paper",
            "blocks": (2, 3),
            "hidden": (4,),
            "max_parameters": None,
            "recipe": "own",
            "budget_seconds": 20.0,
            "budget_trials": None,
            "seeds": (0, 1),
            "workers": 2,
            "threads": 1,
            "device": "cpu",
            "device_name": "abacus",
            "standings": standings,
            **about,
        }
    )


def catch(first: list[Attempt], rival: list[Attempt]) -> Catch:
    curves = [[one.curve for one in attempts] for attempts in (first, rival)]
    vals, ends = [one.val for one in rival], [one.seconds for one in rival]
    return Catch.of(curves[0], curves[1], vals, ends)


def test_the_first_is_as_good_after_some_seconds(
    first: list[Attempt], attempt_of: MakeAttempt
) -> None:
    rival = [
        attempt_of("random", 0, (1.0, 0.4), (16.0, 0.6), (30.0, 0.7), val=0.6),
        attempt_of("random", 1, (20.0, 0.65), (40.0, 0.65)),
    ]
    caught = catch(first, rival)
    assert caught == Catch(seconds=7.0, rival_seconds=35.0, rival_first=18.0, times=2, seeds=2)
    assert str(caught) == ("7.0 s, 5.0 times sooner than its answer; it had one after 18.0 s")


def test_a_rival_that_is_reached_with_some_seeds_only(
    first: list[Attempt], attempt_of: MakeAttempt
) -> None:
    rival = [attempt_of("random", 0, (8.0, 0.6)), attempt_of("random", 1, (8.0, 0.9))]
    caught = catch(first, rival)
    assert caught == Catch(seconds=4.0, rival_seconds=8.0, rival_first=8.0, times=1, seeds=2)
    assert str(caught) == (
        "4.0 s (1 of 2 seeds), 2.0 times sooner than its answer; it had one after 8.0 s"
    )


def test_a_rival_that_is_never_reached(first: list[Attempt], attempt_of: MakeAttempt) -> None:
    rival = [attempt_of("random", seed, (8.0, 0.9)) for seed in (0, 1)]
    caught = catch(first, rival)
    assert (caught.seconds, caught.times) == (None, 0)
    assert str(caught) == "never"


def test_a_rival_is_paired_with_the_first_by_seed(
    first: list[Attempt], attempt_of: MakeAttempt
) -> None:
    rival = [
        attempt_of("gcn", 0, (1.0, 0.79), parameters=2000, test=0.5),
        attempt_of("gcn", 1, (2.0, 0.66), parameters=3000, test=0.7),
    ]
    standing = Standing.of(rival, first, "baseline")
    assert (standing.rival, standing.kind) == ("gcn", "baseline")
    assert (standing.parameters, standing.trainings, standing.seconds) == (2500, 1, 1.5)
    assert (standing.val.mean, standing.test.mean) == pytest.approx((0.725, 0.6))
    # The differences are -1 and -4 points; t of one degree of freedom is 12.7062.
    assert standing.difference is not None
    assert standing.difference.mean == pytest.approx(-2.5)
    half = 12.7062 * (3 / math.sqrt(2)) / math.sqrt(2)
    assert standing.difference.interval == pytest.approx((-2.5 - half, -2.5 + half), abs=1e-3)
    assert standing.cells() == [
        "gcn",
        "72.50 ± 9.19",
        "60.00 ± 14.14",
        "2,500",
        "1",
        "1.5",
        "-2.50 (-21.56 to +16.56)",
        "7.0 s, 4.7 times later than its answer; it had one after 1.5 s",
    ]


def test_the_first_is_not_compared_with_itself(first: list[Attempt]) -> None:
    standing = Standing.of(first, first, "strategy")
    assert (standing.difference, standing.caught) == (None, None)
    assert standing.cells()[-2:] == ["-", "-"]


def test_one_seed_has_no_interval(first: list[Attempt], attempt_of: MakeAttempt) -> None:
    standing = Standing.of([attempt_of("gcn", 0, (1.0, 0.9))], first[:1], "baseline")
    assert standing.cells()[-2:] == ["+10.00", "never"]


def test_attempts_are_grouped_by_rival_and_sorted_by_seed(attempt_of: MakeAttempt) -> None:
    done = {
        f"{rival}-{seed}": attempt_of(rival, seed, (1.0, 0.5))
        for rival in ("b", "a", "c")
        for seed in (10, 9)
    }
    groups = grouped(done, ["a", "b"])
    assert {rival: [one.seed for one in group] for rival, group in groups.items()} == {
        "a": [9, 10],
        "b": [9, 10],
    }


def test_the_table_says_under_which_conditions(first: list[Attempt]) -> None:
    verdict = verdict_of(Standing.of(first, first, "strategy"), warnings=("pdnas: It rained.",))
    text = verdict.markdown()
    assert text.startswith(
        "tiny: accuracy in %, mean ± standard deviation over 2 seeds, 0 to 1\n\n| rival | "
    )
    assert "| validation minus pdnas's, 95 % interval | pdnas was as good after |\n|---|" in (
        text.replace("| --- ", "|---").replace("--- |", "---|")
    )
    for said in (
        "One split: own, sha256 abcd.",
        "a rival had 20 s in all.",
        "the space paper, 2, 3 blocks, hidden size 4;",
        "its own recipe where",
        "On cpu (abacus), 2 at a time with 1 thread(s) each.",
        "\nWarning: pdnas: It rained.\n",
    ):
        assert said in text
    assert text.count("\n| ") == 3


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"recipe": "shared"}, "Every rival was trained by the shared recipe."),
        ({"budget_trials": 9}, "had 20 s in all and 9 trainings for its choice."),
        ({"budget_seconds": None}, "had as long as it took."),
        ({"max_parameters": 12345}, "hidden size 4, 12,345 parameters at most;"),
    ],
)
def test_conditions_are_said_as_they_are(
    first: list[Attempt], about: dict[str, Any], said: str
) -> None:
    assert said in verdict_of(Standing.of(first, first, "strategy"), **about).conditions()


def test_a_note_on_the_task_is_kept(first: list[Attempt]) -> None:
    verdict = verdict_of(Standing.of(first, first, "strategy"), note="a part of it", seeds=(7,))
    assert verdict.title.startswith("tiny (a part of it): ")
    assert verdict.title.endswith("over one seed, 7")
