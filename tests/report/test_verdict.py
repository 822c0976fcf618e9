"""What came out, in a sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

from pdnas.models.baselines import BASELINES
from pdnas.report.reading import Run, read_run
from pdnas.report.verdict import against, read_verdict, trainings
from pdnas.runs import Result, Scores
from pdnas.space import EXTENDED


def told(run: Run, *, own: tuple[float, ...], control: tuple[float, ...]) -> Result:
    """The result of a search, with other figures."""
    assert run.result is not None
    assert run.result.search is not None
    first = run.result.search.controls[0]
    changed = first.model_copy(update={"val": Scores.of(control)})
    search = run.result.search.model_copy(update={"controls": (changed,)})
    return run.result.model_copy(update={"val": Scores.of(own), "search": search})


@pytest.mark.parametrize(
    ("own", "control", "words"),
    [
        (
            (0.8, 0.8, 0.8),
            (0.7, 0.7, 0.69),
            "it is 10.33 points ahead of gcn, the best of the controls gcn (80.00 against 69.67 %",
        ),
        (
            (0.7, 0.7, 0.7),
            (0.8, 0.8, 0.79),
            "the control gcn, which nobody searched for, is 9.67 points ahead of it (70.00 against",
        ),
    ],
)
def test_controls_are_compared_honestly(
    searched: Run, own: tuple[float, ...], control: tuple[float, ...], words: str
) -> None:
    sentence = against(told(searched, own=own, control=control))

    assert words in sentence
    assert "cannot tell apart" not in sentence


@pytest.mark.parametrize(
    ("own", "control"), [((0.8,), (0.7,)), ((0.7,), (0.8,)), ((0.7, 0.9, 0.8), (0.8, 0.7, 0.8))]
)
def test_what_trainings_cannot_tell_apart_is_said_to_be_so(
    searched: Run, own: tuple[float, ...], control: tuple[float, ...]
) -> None:
    sentence = against(told(searched, own=own, control=control))

    assert f"{trainings(len(own))} cannot tell apart" in sentence


def test_a_control_that_was_cut_is_compared_on_what_both_have(searched: Run) -> None:
    sentence = against(told(searched, own=(0.8, 0.9, 0.9), control=(0.7,)))

    assert sentence.startswith("By validation, over the 1 training that both have, it is 10.00")
    assert "(80.00 against 70.00 %" in sentence


def test_trainings_are_compared_with_those_of_the_same_seed(searched: Run) -> None:
    result = told(searched, own=(0.8, 0.9), control=(0.7, 0.1, 0.7))

    sentence = against(result.model_copy(update={"seeds": (0, 2)}))  # that with seed 1 diverged

    assert sentence.startswith("By validation it is 15.00 points ahead of gcn")
    assert "(85.00 against 70.00 %" in sentence


def test_without_a_seed_in_common_nothing_is_compared(searched: Run) -> None:
    result = told(searched, own=(0.8,), control=(0.7, 0.1, 0.7))

    assert against(result.model_copy(update={"seeds": (2**32,)})) == (
        "No seed is in its trainings and in those of gcn, the best of the controls."
    )


def test_the_sentence_has_every_figure(searched: Run) -> None:
    result, verdict = searched.result, read_verdict(searched)
    assert result is not None
    assert result.test.interval is not None

    for figure in (
        f"accuracy {100 * result.test.mean:.2f} %",
        f"95 % interval over seeds {100 * result.test.interval[0]:.2f} to",
        "s of search, choice and its own trainings",
        f"{result.parameters:,} parameters",
        "over 3 trainings",
    ):
        assert figure in verdict.sentence
    assert verdict.table is not None
    assert [row[0] for row in verdict.table.rows] == ["found", "gcn"]
    assert [row[verdict.table.header.index("trainings")] for row in verdict.table.rows] == [
        "3",
        "3",
    ]
    assert verdict.notes == ()


def test_test_nodes_have_a_tile_with_an_interval_of_their_own(searched: Run) -> None:
    tiles = {name: (value, about) for name, value, about in read_verdict(searched).tiles}

    assert tiles["test nodes"][0] == "6"
    assert tiles["test nodes"][1].startswith("95 % interval over nodes")
    assert tiles["test accuracy, %"][1].startswith("95 % interval over seeds")


def test_other_metrics_have_no_interval_over_nodes(searched: Run) -> None:
    assert searched.result is not None
    other = searched.result.model_copy(update={"metric": "macro-f1"})

    tiles = {name: about for name, _, about in read_verdict(replace(searched, result=other)).tiles}

    assert "interval" not in tiles["test nodes"]


def test_intervals_over_splits_say_so(searched: Run) -> None:
    assert searched.result is not None
    split = searched.result.split.model_copy(update={"members": ("a", "b", "c")})
    other = searched.result.model_copy(update={"split": split})

    assert "interval over splits" in read_verdict(replace(searched, result=other)).sentence


def test_what_the_budget_left_out_is_said(searched: Run) -> None:
    assert searched.result is not None
    assert searched.result.search is not None
    control = searched.result.search.controls[0].model_copy(update={"val": Scores.of((0.7,))})
    search = searched.result.search.model_copy(
        update={"stopped": "budget", "controls": (control,), "epochs": 7}
    )
    result = searched.result.model_copy(update={"search": search, "seeds": (0, 1)})
    assert searched.job is not None
    job = searched.job.model_copy(update={"budget_seconds": 20.0, "controls": ("gcn", "gat")})

    (note,) = read_verdict(replace(searched, result=result, job=job, settings={"job": {}})).notes

    assert note == (
        "The budget of 20 s ended the job early: the search had 7 of 12 epochs; the network found "
        "has 2 of 3 trainings; the control gcn has 1 of 3 trainings; the control gat is missing."
    )


def test_an_interrupted_run_says_how_to_go_on(searched: Run) -> None:
    assert searched.result is not None
    assert searched.result.search is not None
    search = searched.result.search.model_copy(update={"stopped": "interrupt"})
    run = replace(searched, result=searched.result.model_copy(update={"search": search}))

    (note,) = read_verdict(run).notes

    assert note.startswith("An interruption ended the job early: a training was cut short.")
    assert f"pdnas resume {run.path}" in note


def level(run: Run, parameters: int, own: float = 0.8) -> str:
    """How a network stands to two controls that are as good, of 900 and that many parameters."""
    assert run.result is not None
    result = told(run, own=(own,) * 3, control=(0.8, 0.8, 0.8))
    assert result.search is not None
    large = result.search.controls[0].model_copy(update={"name": "large", "parameters": 900})
    small = large.model_copy(update={"name": "small", "parameters": parameters})
    search = result.search.model_copy(update={"controls": (large, small)})
    return against(result.model_copy(update={"search": search, "parameters": 1000}))


def test_of_controls_that_are_level_the_smaller_is_named(searched: Run) -> None:
    assert "it is level with small, the best of the controls large, small" in level(searched, 800)
    assert "the control small, which nobody" in level(searched, 800, own=0.7)
    assert "ahead of large" in level(searched, 901, own=0.9)


def test_a_control_with_far_fewer_parameters_is_pointed_at(searched: Run) -> None:
    assert level(searched, 400).endswith("small has less than half the parameters: 400.")
    assert "half the parameters" not in level(searched, 500)


def test_a_network_with_the_blocks_of_a_known_one_is_said_to_have_them(searched: Run) -> None:
    result, space = searched.result, searched.space
    assert result is not None
    assert space is not None
    assert "which has the blocks of" not in read_verdict(searched).sentence

    known = EXTENDED.plain(BASELINES["grand"].architecture)
    job = searched.job.model_copy(update={"space": EXTENDED}) if searched.job else None
    changed = result.model_copy(update={"architecture": known})
    sentence = read_verdict(replace(searched, job=job, result=changed)).sentence

    assert ", which has the blocks of grand, reaches accuracy" in sentence


def test_a_training_has_no_controls(made: dict[str, Path]) -> None:
    verdict = read_verdict(read_run(made["trained"]))

    assert verdict.sentence.startswith("The gcn network on tables reaches accuracy")
    assert verdict.table is None


def test_an_unfinished_run_says_so(unfinished: Path) -> None:
    verdict = read_verdict(read_run(unfinished))

    assert "is not finished: there are 9 epochs of search" in verdict.sentence
    assert verdict.tiles[0] == ("epochs so far", "9", "of searches and of trainings")


def test_a_run_that_nobody_works_on_says_how_it_goes_on(unfinished: Path) -> None:
    run = read_run(unfinished)

    (stopped,) = read_verdict(run).notes
    (going,) = read_verdict(replace(run, at_work=True)).notes

    assert stopped == f"This run was stopped; go on with: pdnas resume {unfinished}"
    assert going.startswith("The run goes on.")
