"""A result says what came out, to people and to programs."""

import html
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from pdnas.architecture import Architecture
from pdnas.errors import PdnasError, RunError
from pdnas.models.baselines import BASELINES
from pdnas.runs import RESULT, Control, Record, Result, RunDirectory, Scores, SearchReport, Trial


def test_a_result_names_the_classes_of_its_logits(result: Result) -> None:
    logits = torch.tensor([[0.0, 1.0, 0.5], [2.0, 1.0, 0.5]])
    assert result.classes(logits) == ("b", "a")
    yes = result.model_copy(update={"out_channels": 1, "class_names": ("no", "yes")})
    assert yes.classes(torch.tensor([[0.1], [-3.0]], requires_grad=True)) == ("yes", "no")
    several = result.model_copy(update={"metric": "micro-f1"})
    assert several.classes(logits) == (("b", "c"), ("a", "b", "c"))
    with pytest.raises(PdnasError, match=r"Logits of shape \[2, 3\] are not those of this network"):
        yes.classes(logits)


def test_a_result_is_a_line_where_it_is_shown_as_a_value(result: Result) -> None:
    assert repr(result) == (
        f"Result(tiny: test accuracy {result.test} %, validation {result.val} %, "
        f"{result.parameters:,} parameters)"
    )


def test_a_result_without_weights_says_so(result: Result) -> None:
    with pytest.raises(RunError, match=r"no weights; read it with pdnas\.load_run"):
        _ = result.model


def test_a_result_is_frozen(result: Result) -> None:
    with pytest.raises(ValidationError):
        setattr(result, "hidden", 5)  # noqa: B010


def test_the_summary_names_what_a_reader_needs(result: Result) -> None:
    text = result.summary()
    assert "tiny, split own: test accuracy 37.50" in text
    assert "2 runs, validation 62.50" in text
    assert "95 % interval over seeds" in text
    assert str(result.architecture) in text
    assert f"{result.parameters:,} parameters, 1.5 s on cpu" in text


def test_the_summary_carries_the_note(result: Result) -> None:
    noted = result.model_copy(update={"note": "mended", "test": Scores.of([0.5])})
    assert noted.summary().startswith("tiny (mended), split own")
    assert "interval" not in noted.summary()
    assert "1 run," in noted.summary()


@pytest.fixture
def trial(architecture: Architecture) -> Trial:
    return Trial(
        architecture=architecture,
        hidden=4,
        seed=2**32,
        shared_val=0.5,
        val=0.75,
        epoch=3,
        epochs=25,
        rungs=(0.5, 0.625),
        seconds=0.1,
    )


@pytest.fixture
def control(architecture: Architecture) -> Control:
    return Control(
        name="random",
        architecture=architecture,
        hidden=4,
        parameters=99,
        val=Scores.of([0.5, 0.75]),
        test=Scores.of([0.25]),
        seconds=1.25,
    )


@pytest.mark.parametrize(
    ("own", "seeds", "places"),
    [
        ((0, 1, 2), (0, 2), ((0, 0), (1, 2))),  # a training of the network found diverged
        ((0, 1), (0, 1, 2), ((0, 0), (1, 1))),  # the control was cut short
        ((3,), (0, 1), ()),
        ((), (5, 6, 7), ((0, 0), (1, 1))),  # an early version did not say
    ],
)
def test_trainings_of_a_control_are_paired_by_their_seeds(
    control: Control,
    own: tuple[int, ...],
    seeds: tuple[int, ...],
    places: tuple[tuple[int, int], ...],
) -> None:
    scores = Scores.of([0.5] * (len(own) or 2))
    assert (
        control.model_copy(update={"seeds": own, "val": scores, "test": scores}).paired(seeds)
        == places
    )


@pytest.fixture
def report(trial: Trial, control: Control) -> SearchReport:
    return SearchReport(
        settings={"name": "pdnas", "epochs": 400, "nested": {"a": [1, None]}},
        seed=7,
        epochs=400,
        trials=(trial, trial.model_copy(update={"val": 0.5})),
        controls=(control,),
        rank_correlation=-0.25,
        training_seconds=2.5,
        candidate_seconds=1.5,
        warnings=("One.", "Two."),
        stopped="budget",
    )


@pytest.mark.parametrize("name", ["trial", "control", "report"])
def test_records_of_a_search_come_back(
    run: RunDirectory, name: str, request: pytest.FixtureRequest
) -> None:
    record: Record = request.getfixturevalue(name)
    run.write_json("record.json", record)
    assert run.read_record("record.json", type(record)) == record


def test_a_result_comes_back_with_the_report_of_its_search(
    run: RunDirectory, result: Result, report: SearchReport
) -> None:
    searched = result.model_copy(
        update={"strategy": "pdnas", "space": "paper", "search": report, "search_seconds": 3.5}
    )
    run.write_json(RESULT, searched)
    read = run.read_record(RESULT, Result)
    assert read == searched
    assert read.search == report
    assert "6.5 s on cpu" in read.summary()  # search 3.5, choice 1.5, its own trainings 1.5


@pytest.mark.parametrize("stopped", ["fire", ""])
def test_a_job_stops_for_a_known_reason(report: SearchReport, stopped: str) -> None:
    with pytest.raises(ValidationError, match="stopped"):
        SearchReport.model_validate({**report.model_dump(), "stopped": stopped})


def test_a_result_of_an_early_version_knows_nothing_of_its_data(
    run: RunDirectory, result: Result
) -> None:
    plain = result.model_dump(mode="json")
    del plain["data"]
    run.write_json(RESULT, plain)
    assert run.read_record(RESULT, Result) == result
    assert result.data is None


def test_a_notebook_sees_the_network_and_its_figures(result: Result) -> None:
    shown = result._repr_html_()
    assert shown.count("<svg") == 1
    # The interval is wide: two values.
    spreads = ("37.50 ± 17.68", "62.50 ± 17.68", "0.00 to 100.00")
    for text in ("tiny, split own: accuracy in %", *spreads):
        assert text in shown
    assert f"{result.parameters:,}" in shown


def test_a_notebook_sees_only_text_where_names_are_markup(result: Result) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    named = result.model_copy(update={"task": hostile, "note": hostile, "metric": hostile})
    assert hostile not in named._repr_html_()
    assert named._repr_html_().count(html.escape(hostile)) == 3


def test_a_notebook_sees_a_published_network_in_figures_alone(result: Result) -> None:
    published = result.model_copy(update={"architecture": BASELINES["gcnii"].design})
    assert "<svg" not in published._repr_html_()
    assert "<table" in published._repr_html_()


def test_a_name_that_is_not_registered_here_says_what_to_import(
    result: Result, tmp_path: Path
) -> None:
    run = RunDirectory.create(tmp_path / "run", "test")
    values = result.model_dump(mode="json")
    values["architecture"]["blocks"][0]["attention"] = "mine"
    run.write_json(RESULT, values)
    with pytest.raises(RunError, match=r"import the module that registers it first") as caught:
        run.read_record(RESULT, Result)
    assert "Unknown attention 'mine'" in str(caught.value)
    assert "\n" not in str(caught.value)
