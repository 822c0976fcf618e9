"""What a result says of the network, of the search, and of what there was no time for."""

from typing import Any

import pytest
import torch
from tests.pipeline.conftest import (
    LEAST,
    Clock,
    Events,
    Whole,
    diverging,
    lean,
    lines,
    outcome,
    pretend,
    short,
    validation,
)
from torch_geometric.data import Data

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines import BASELINES
from pdnas.pipeline import search
from pdnas.pipeline.outcome import _coarse, rank_correlation
from pdnas.runs import RESULT, Result, RunDirectory, Scores, Trial, load_run
from pdnas.search import Candidate
from pdnas.search.pdnas import PRESETS, PdnasSearch
from pdnas.tasks import GraphTask


def test_a_result_says_what_was_done(undisturbed: Whole, tiny_task: GraphTask) -> None:
    job = short(controls=("random", "gcn"))
    result = load_run(undisturbed(job).path)
    report = result.search
    assert report is not None
    assert (result.task, result.strategy, result.space) == ("tiny", "pdnas", "paper")
    assert result.architecture in job.space
    assert isinstance(result.architecture, Architecture)
    assert (result.hidden, result.architecture.num_blocks) == (4, 2)
    assert result.parameters == sum(weight.numel() for weight in result.model.parameters())
    assert result.recipe == job.recipe.model_dump()
    assert result.seeds == job.final_seeds == (0, 1)
    assert result.split.sha256 == tiny_task.split.sha256
    assert min(result.search_seconds, result.train_seconds, report.training_seconds) > 0
    assert (report.settings, report.seed, report.epochs) == (job.strategy.model_dump(), 0, 6)
    assert [trial.seed for trial in report.trials] == [2**32] * 3 + [2**32 + 1] * 3
    assert report.stopped is None
    assert [control.name for control in report.controls] == ["random", "gcn"]
    for control in report.controls:
        assert len(control.val.values) == len(control.test.values) == 2
        assert control.parameters == control.architecture.parameters(tiny_task, control.hidden)
    random, gcn = report.controls
    assert random.architecture in job.space
    assert gcn.architecture == BASELINES["gcn"].architecture


def test_figures_of_a_result_are_those_of_its_history(whole: RunDirectory) -> None:
    result, history = load_run(whole.path), lines(whole)
    assert result.search is not None
    best = [
        max(line["val"] for line in history if (line["phase"], line.get("seed")) == ("final", seed))
        for seed in (0, 1)
    ]
    assert best == list(result.val.values)
    for number, trial in enumerate(result.search.trials):
        assert trial.val == max(line["val"] for line in history if line.get("number") == number)


def test_the_model_is_the_one_with_the_best_validation(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    search(tiny_task, short(candidates=1, mutations=0, seeds=6, controls=()), run=run)
    result = load_run(run.path)
    first, *_, last = result.val.values
    assert max(result.val.values) > max(first, last), "one that is neither the first nor the last"
    assert validation(result, tiny_task) == pytest.approx(max(result.val.values), abs=1e-6)


def test_ctrl_c_while_all_candidates_diverge_keeps_what_the_search_favors(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(99))

    def when(_architecture: Architecture, seed: int) -> bool:
        if seed >= 2**32 and next(calls) == 1:
            raise KeyboardInterrupt
        return seed >= 2**32

    diverging(monkeypatch, when)
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, short(), run=run)
    assert run.read_record(RESULT, Result).search is not None


@pytest.mark.parametrize(("budget", "is_told"), [(LEAST, True), (10_000, False)])
def test_a_search_that_is_cut_short_says_so(
    tiny_task: GraphTask, clock: Clock, budget: float, is_told: bool
) -> None:
    strategy = PRESETS["paper"].changed(epochs=100)
    result = search(tiny_task, lean(strategy=strategy, budget_seconds=budget))
    assert result.search is not None
    told = [text for text in result.search.warnings if "of 100 epochs to the search" in text]
    assert len(told) == is_told
    assert not (told and "sharpened" in " ".join(result.search.warnings))


def test_before_the_first_epoch_there_is_nothing_to_keep(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("planned"))
    assert not run.has(RESULT)
    search(tiny_task, lean(), run=run)
    assert outcome(run) == outcome(undisturbed(lean()))


def test_an_interrupted_job_has_the_best_candidate_so_far(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, short(), run=run, watcher=Events("candidate 5 epoch 1"))
    result = load_run(run.path)
    assert result.search is not None
    assert len(result.search.trials) == 4
    best = max(result.search.trials, key=lambda trial: trial.val)
    assert result.architecture == best.architecture
    assert (result.val.values, result.seeds) == ((best.val,), (best.seed,))


def trials(*figures: tuple[float | None, float]) -> list[Trial]:
    return [
        Trial(
            architecture=Architecture(blocks=(BlockSpec(),)),
            hidden=4,
            seed=7,
            shared_val=shared,
            val=val,
            epoch=0,
            epochs=1,
            rungs=(),
            seconds=0.0,
        )
        for shared, val in figures
    ]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([(0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.9)], 1.0),
        ([(0.1, 0.9), (0.2, 0.5), (0.3, 0.4), (0.4, 0.3), (0.5, 0.2)], -1.0),
        # Places differ by 1, 1, 0, 0, 0: 1 - 6 * 2 / (5 * 24).
        ([(0.1, 0.2), (0.2, 0.1), (0.3, 0.3), (0.4, 0.4), (0.5, 0.5)], 0.9),
        ([(0.1, 0.9), (0.2, 0.5), (0.3, 0.4), (0.4, 0.3)], None),
        ([(0.1, 0.9), (0.2, 0.5), (0.3, 0.4), (0.4, 0.3), (None, 0.2)], None),
        ([(0.1, 0.2), (None, 0.0), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.9)], 1.0),
        ([(0.5, 0.1), (0.5, 0.2), (0.5, 0.3), (0.5, 0.4), (0.5, 0.5)], None),
        ([(0.1, 0.5), (0.2, 0.5), (0.3, 0.5), (0.4, 0.5), (0.5, 0.5)], None),
        ([], None),
    ],
)
def test_agreement_is_the_correlation_of_ranks(
    figures: list[tuple[float | None, float]], expected: float | None
) -> None:
    assert rank_correlation(trials(*figures)) == expected


def test_second_trainings_do_not_count_in_the_agreement() -> None:
    first = trials((0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.9))
    again = [trial.model_copy(update={"seed": 8, "val": 0.0}) for trial in first[3:]]
    assert rank_correlation([*first, *again]) == 1.0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_ranking_that_training_contradicts_is_warned_of(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    rated: dict[Architecture, float] = {}
    refine = PdnasSearch.refine

    def spy(self: PdnasSearch, *arguments: Any) -> list[Candidate]:
        found = refine(self, *arguments)
        rated.update({entry.architecture: entry.val for entry in found})
        return found

    monkeypatch.setattr(PdnasSearch, "refine", spy)
    pretend(monkeypatch, lambda architecture, _: 0.5 + 0.4 * sign * rated.get(architecture, 0.0))
    result = search(tiny_task, short(candidates=6, seeds=1, controls=()))
    assert result.search is not None
    assert result.search.rank_correlation == sign
    said = [text for text in result.search.warnings if "rank correlation -1.00" in text]
    assert len(said) == (sign < 0)


@pytest.mark.parametrize("better", [True, False])
def test_a_control_that_is_better_is_warned_of(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, better: bool
) -> None:
    gcn = BASELINES["gcn"].architecture
    pretend(monkeypatch, lambda architecture, _: 0.75 if (architecture == gcn) == better else 0.5)
    result = search(tiny_task, short())
    assert result.search is not None
    said = [text for text in result.search.warnings if "The control 'gcn' has a better" in text]
    assert len(said) == better


def test_a_control_that_trainings_cannot_tell_from_the_network_is_level(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcn = BASELINES["gcn"].architecture
    ahead = {
        0: 0.75,
        1: 0.5,
    }  # of the control by 25 points with one seed, behind by 5 with the other
    pretend(monkeypatch, lambda one, seed: ahead.get(seed, 0.5) if one == gcn else 0.55)
    result = search(tiny_task, short())
    assert result.search is not None
    assert any(
        text == "The control 'gcn' is level with the network found (62.50 ± 17.68 against "
        "55.00 ± 0.00 %, which 2 trainings cannot tell apart): take the smaller of the two, or "
        "give more --seeds."
        for text in result.search.warnings
    )
    assert not any("a better validation" in text for text in result.search.warnings)


@pytest.mark.parametrize(
    ("val", "nodes", "expected"),
    [
        (214 / 300, 50, "12.5"),
        (0.5, 384, "5.0"),
        (0.5, 385, None),
        (0.8, 500, None),
        (1.0, 5, None),
    ],
)
def test_a_small_validation_part_is_warned_of(val: float, nodes: int, expected: str | None) -> None:
    number = torch.arange(nodes + 2)
    data = Data(x=torch.ones(nodes + 2, 1), edge_index=torch.zeros(2, 0).long(), y=number % 2)
    data.train_mask, data.val_mask, data.test_mask = number == 0, number > 1, number == 1
    said = list(_coarse(GraphTask.from_data(data), Scores.of([val])))
    assert len(said) == (expected is not None)
    if expected:
        share = f"an accuracy of {100 * val:.2f} % is known to ± {expected} points: "
        assert said[0].startswith(f"Validation is on {nodes} nodes, on which {share}")
        assert said[0].endswith("pdnas train RUN TASK --split random --split-seeds 0..9.")


def test_other_metrics_than_accuracy_are_no_shares_of_nodes(rings: GraphTask) -> None:
    assert list(_coarse(rings, Scores.of([0.5]))) == []


def test_what_a_search_says_of_itself_is_passed_on(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PdnasSearch, "warnings", lambda self: ["It rained."])
    result = search(tiny_task, lean())
    assert result.search is not None
    assert "It rained." in result.search.warnings
