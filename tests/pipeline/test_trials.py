"""Which candidates are trained, how far, how often, and which is chosen."""

from typing import Any

import pytest
import torch
from tests.pipeline.conftest import (
    ROOM,
    SHORT,
    Clock,
    Events,
    Whole,
    diverging,
    lean,
    outcome,
    pretend,
    short,
    size,
    train_with,
)

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import SearchError
from pdnas.models import Network
from pdnas.models.baselines import block_designs
from pdnas.ops import SLOTS
from pdnas.pipeline import race, search
from pdnas.pipeline.race import Race
from pdnas.runs import RunDirectory
from pdnas.search import STRATEGIES, Candidate
from pdnas.search.pdnas import PdnasSearch
from pdnas.space import SPACES, SearchSpace
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.epochs import WORTHWHILE
from pdnas.training.fit import Epoch, Fit
from pdnas.training.seeds import train_once


def test_the_best_three_are_trained_again_and_the_best_mean_is_chosen(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = iter([0.5, 0.9, 0.8, 0.7]), iter([0.1, 0.6, 0.9])
    job = short(candidates=4, mutations=0, seeds=1, controls=())
    calls = {2**32: first, 2**32 + 1: second}
    pretend(monkeypatch, lambda _, seed: next(calls[seed]) if seed in calls else 0.0)
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    assert [trial.seed - 2**32 for trial in trials] == [0, 0, 0, 0, 1, 1, 1]
    again = [trials[place].architecture for place in (1, 2, 3)]
    assert [trial.architecture for trial in trials[4:]] == again
    # The means are 0.5, 0.7 and 0.8.
    assert result.architecture == trials[3].architecture


@pytest.mark.parametrize(
    ("vals", "expected"),
    [
        # Variances 0.01, 0.01 and 0.04, their mean 0.02: the standard error is sqrt(0.02 / 3) =
        # 0.0816, and a mean of 0.72 is near enough to 0.8, one of 0.71 is not.
        (
            {"large": (0.7, 0.8, 0.9), "medium": (0.61, 0.71, 0.81), "small": (0.1, 0.3, 0.5)},
            "large",
        ),
        (
            {"large": (0.7, 0.8, 0.9), "medium": (0.62, 0.72, 0.82), "small": (0.1, 0.3, 0.5)},
            "medium",
        ),
        (
            {"large": (0.7, 0.8, 0.9), "medium": (0.62, 0.72, 0.82), "small": (0.52, 0.72, 0.92)},
            "small",
        ),
        ({"large": (0.7, 0.8), "medium": (0.69, 0.79), "small": (0.69, 0.79)}, "large"),
    ],
)
def test_of_those_within_a_standard_error_of_the_best_the_smallest_is_chosen(
    tiny_task: GraphTask,
    monkeypatch: pytest.MonkeyPatch,
    vals: dict[str, tuple[float, ...]],
    expected: str,
) -> None:
    expansions = {"small": 1, "medium": 2, "large": 8}
    rivals = {
        name: Architecture(blocks=(BlockSpec(expansion=expansions[name]), BlockSpec()))
        for name in vals
    }
    figures = {rivals[name]: values for name, values in vals.items()}

    def value(architecture: Architecture, seed: int) -> float:
        own = figures.get(architecture)
        return 0.01 if own is None or seed < 2**32 else own[seed - 2**32]

    pretend(monkeypatch, value)
    repeats = len(vals["large"]) - 1
    result = search(tiny_task, lean(incumbents=tuple(rivals.values()), repeats=repeats))
    assert result.architecture == rivals[expected]


def test_candidates_that_all_diverge_are_one_sentence(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverging(monkeypatch, lambda _, seed: seed >= 2**32)
    for _ in range(2):  # a resumed run says the same
        with pytest.raises(SearchError, match=r"all candidates .* lower the learning rate, now"):
            search(tiny_task, short(), run=run)


def changed_choices(space: SearchSpace, one: Architecture, other: Architecture) -> int:
    """How many choices it takes to come from a plain architecture to another."""
    turned = len(set(one.gates) ^ set(other.gates))
    ops = 0
    for number, (spec, target) in enumerate(zip(one.blocks, other.blocks, strict=True)):
        blocks = list(other.blocks)
        if spec != target:
            slots = [slot for slot in SLOTS if getattr(spec, slot) != getattr(target, slot)]
            made = []
            for slot in slots:
                blocks[number] = spec.model_copy(update={slot: getattr(target, slot)})
                plain = space.plain(other.model_copy(update={"blocks": tuple(blocks)}))
                made.append(plain.blocks[number])
            ops += 1 if target in made else len(slots)
    return turned + ops


@pytest.mark.parametrize("space", ["paper", "extended"])
def test_a_mutation_differs_in_one_choice_from_the_best_so_far(
    tiny_task: GraphTask, space: str
) -> None:
    job = short(space=SPACES[space], mutations=8, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    tried = trials[: 2 + 8]
    assert [trial.seed - job.trial_seed for trial in trials] == [0] * 10 + [1] * 3
    assert [trial.shared_val is None for trial in tried] == [False] * 2 + [True] * 8
    assert len({(trial.architecture, trial.hidden) for trial in tried}) == 10, "none is tried twice"
    for number, trial in enumerate(tried[2:], start=2):
        best = max(tried[:number], key=lambda other: other.val)
        assert trial.hidden == best.hidden
        assert trial.architecture in job.space
        plain = job.space.plain(best.architecture)
        assert changed_choices(job.space, plain, trial.architecture) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"budget_seconds": None},
        {"strategy": SHORT["strategy"].changed(climb="off")},
        {"strategy": STRATEGIES["random"].model_validate({"name": "random", "epochs": 2})},
        {"recipe": Recipe(epochs=30, patience=1), "seeds": 4},  # it may not end early in the end
    ],
    ids=["no budget", "not asked for", "another strategy", "no time"],
)
def test_no_change_is_trained_that_nobody_asked_for(
    tiny_task: GraphTask, clock: Clock, changes: dict[str, Any]
) -> None:
    given = {"mutations": 0, "seeds": 1, "controls": (), "budget_seconds": ROOM, **changes}
    result = search(tiny_task, short(**given))
    assert result.search is not None
    assert len({trial.architecture for trial in result.search.trials}) <= 2


def test_a_mutation_may_be_the_network_found(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    vals = iter([0.5, 0.6, 0.7, 0.8, 0.8, 0.7, 0.6])
    pretend(monkeypatch, lambda _, seed: next(vals) if seed >= 2**32 else 0.0)
    job = short(mutations=2, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    assert [trials.index(trial) for trial in trials if trial.shared_val is None] == [2, 3, 4, 5]
    first, second = (trials[number].architecture for number in (2, 3))
    assert changed_choices(job.space, first, second) == 1, "the second is a change of the first"
    assert [trial.architecture for trial in trials[4:6]] == [second, first]
    assert result.architecture == second


def test_the_best_three_are_trained_again_as_often_as_is_asked_for(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    vals = iter([0.6, 0.9, 0.8, 0.7, *(0.1, 0.6, 0.9), *(0.2, 0.7, 0.3), *(0.3, 0.8, 0.4)])
    pretend(monkeypatch, lambda _, seed: next(vals) if seed >= 2**32 else 0.0)
    result = search(tiny_task, short(candidates=4, mutations=0, repeats=3, seeds=1, controls=()))
    assert result.search is not None
    trials = result.search.trials
    assert [trial.seed - 2**32 for trial in trials] == [0] * 4 + [1] * 3 + [2] * 3 + [3] * 3
    order = [[other.architecture for other in trials[:4]].index(t.architecture) for t in trials]
    assert order == [0, 1, 2, 3, *[1, 2, 3] * 3]
    # The means of four trainings: 0.375, 0.725 and 0.575.
    assert result.architecture == trials[2].architecture


def test_a_mutation_has_the_shape_of_the_best_of_a_grid(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda architecture, _: 0.9 if architecture.num_blocks == 1 else 0.5)
    job = short(blocks=(2, 1), hidden=(2, 4), candidates=1, mutations=3, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    shapes = [(t.architecture.num_blocks, t.hidden) for t in result.search.trials]
    assert shapes[:7] == [(2, 2), (2, 4), (1, 2), (1, 4), (1, 2), (1, 2), (1, 2)]


def test_without_mutations_only_candidates_are_trained(tiny_task: GraphTask) -> None:
    result = search(tiny_task, short(mutations=0, seeds=1, controls=()))
    assert result.search is not None
    assert [trial.shared_val is None for trial in result.search.trials] == [False] * 4


def test_a_space_of_one_network_has_no_mutations(tiny_task: GraphTask) -> None:
    paper = SPACES["paper"]
    update = {slot: paper.candidates(slot)[:1] for slot in SLOTS}
    only = SearchSpace.model_validate(paper.model_dump() | update | {"shortcuts": "none"})
    result = search(tiny_task, short(space=only, mutations=5, seeds=1, controls=()))
    assert result.search is not None
    assert only.count(2) == len(result.search.trials) == 1


def test_mutations_end_when_all_were_tried(tiny_task: GraphTask) -> None:
    paper = SPACES["paper"]
    update = {slot: paper.candidates(slot)[:1] for slot in SLOTS}
    few = SearchSpace.model_validate(
        paper.model_dump() | update | {"aggregation": ("sum", "max"), "shortcuts": "none"}
    )
    result = search(
        tiny_task, short(space=few, blocks=(1,), candidates=1, mutations=5, seeds=1, controls=())
    )
    assert result.search is not None
    assert few.count(1) == 2
    assert [trial.seed - 2**32 for trial in result.search.trials] == [0, 0, 1, 1]


@pytest.mark.parametrize("place", ["candidate 3 epoch 1", "candidate 5 epoch 0"])
def test_a_resumed_job_mutates_in_the_same_way(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask, place: str
) -> None:
    job = short(mutations=4, seeds=1, controls=())
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events(place))
    search(tiny_task, job, run=run)
    assert outcome(run) == outcome(undisturbed(job))


def test_another_seed_mutates_in_another_way(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SPACES["paper"].sample(2, torch.Generator().manual_seed(0))
    monkeypatch.setattr(
        PdnasSearch, "refine", lambda *_: [Candidate(architecture=first, val=0.5, loss=1.0)]
    )
    pretend(monkeypatch, lambda *_: 0.5)
    results = [
        search(tiny_task, short(candidates=1, mutations=3, seeds=1, controls=(), seed=seed))
        for seed in (0, 1)
    ]
    tried = [[t.architecture for t in r.search.trials[:4]] for r in results if r.search]
    assert tried[0][0] == tried[1][0]
    assert tried[0] != tried[1]


def test_designs_of_the_space_are_trained_after_the_candidates(tiny_task: GraphTask) -> None:
    space = SPACES["extended"]
    job = short(space=space, designs="on", mutations=0, blocks=(2, 1), seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    first = [trial for trial in result.search.trials if trial.seed == job.trial_seed]
    known = [space.plain(design) for design in block_designs() if design in space]
    expected = [architecture for architecture in known if architecture.num_blocks in (1, 2)]
    assert expected
    found = {trial.architecture for trial in first[:4]}
    assert [trial.architecture for trial in first[4:]] == [a for a in expected if a not in found]
    assert {(trial.hidden, trial.shared_val) for trial in first[4:]} == {(4, None)}


def test_incumbents_are_trained_after_the_candidates_and_each_once(tiny_task: GraphTask) -> None:
    mine = Architecture(blocks=(BlockSpec(attention="gat", heads=4), BlockSpec()))
    same = mine.model_copy(update={"blocks": (mine.blocks[0], BlockSpec(heads=16))})
    other = Architecture(blocks=(BlockSpec(),))
    job = short(incumbents=(mine, same, other), blocks=(2, 1), mutations=0, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    first = [trial for trial in result.search.trials if trial.seed == job.trial_seed]
    assert [trial.architecture for trial in first[4:]] == [mine, other], (
        "heads of gcn are no choice"
    )
    assert {(trial.hidden, trial.shared_val) for trial in first[4:]} == {(4, None)}


def test_an_incumbent_is_trained_again_even_if_it_was_not_among_the_best(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Architecture(blocks=(BlockSpec(attention="cos"), BlockSpec(expansion=8)))
    vals = iter([0.9, 0.8, 0.7, 0.6, 0.1, *(0.2, 0.2, 0.2, 0.9), *(0.2, 0.2, 0.2, 0.9)])
    pretend(monkeypatch, lambda _, seed: next(vals) if seed >= 2**32 else 0.0)
    job = short(candidates=4, incumbents=(mine,), mutations=0, repeats=2, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    assert [trial.seed - 2**32 for trial in trials] == [0] * 5 + [1] * 4 + [2] * 4
    assert [trials.index(trial) for trial in trials if trial.architecture == mine] == [4, 8, 12]
    # The means are 0.43, 0.40, 0.37 and 0.63.
    assert result.architecture == mine


def test_a_single_candidate_is_trained_once(tiny_task: GraphTask) -> None:
    result = search(tiny_task, lean())
    assert result.search is not None
    assert len(result.search.trials) == 1
    assert result.architecture == result.search.trials[0].architecture


def test_of_equal_candidates_the_first_of_the_smallest_is_chosen(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda *_: 0.5)
    known = tuple(
        Architecture(blocks=(BlockSpec(expansion=expansion, activation=activation), BlockSpec()))
        for expansion, activation in ((2, "relu"), (1, "elu"), (1, "tanh"))
    )
    result = search(tiny_task, lean(incumbents=known))
    assert result.search is not None
    found, *others = (size(trial, tiny_task) for trial in result.search.trials[:4])
    assert min(found, others[0]) > others[1] == others[2]
    assert result.architecture == known[1]


def test_the_seed_of_the_trials_is_none_of_the_final_ones(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds, train = [], train_once

    def spy(*arguments: Any, **settings: Any) -> tuple[Network, Fit]:
        if settings["recipe"].epochs != WORTHWHILE:  # not timed and thrown away
            seeds.append(settings["seed"])
        return train(*arguments, **settings)

    train_with(monkeypatch, spy)
    search(tiny_task, short(seed=7, controls=("gcn",)))
    assert seeds[6:] == [7, 8, 7, 8]
    assert not set(seeds[:6]) & set(seeds[6:])


def test_a_candidate_that_falls_behind_is_not_trained_to_the_end(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "RUNG", 1 / 3)
    monkeypatch.setattr(race, "KEEP_UP", 1)
    job = short(recipe=Recipe(epochs=3), candidates=6, mutations=0, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials, again = result.search.trials[:6], result.search.trials[6:]
    assert min(trial.epochs for trial in trials) < 3, "somebody falls behind"
    for number, trial in enumerate(trials):
        (rung,) = trial.rungs
        before = [other.rungs[0] for other in trials[:number]]
        assert trial.epochs == (1 if rung < max(before, default=0.0) else 3)
    assert [trial.epochs for trial in again] == [3, 3, 3], "the second time nobody is raced"


def test_designs_are_not_raced_and_changes_are_after_a_quarter(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals, falls_behind = [], Race.falls_behind

    def spy(self: Race, epoch: Epoch) -> bool:
        if epoch.epoch == 0:
            rivals.append(len(self._others))
        return falls_behind(self, epoch)

    monkeypatch.setattr(Race, "falls_behind", spy)
    monkeypatch.setattr(race, "KEEP_UP", 1)
    job = short(
        space=SPACES["extended"],
        designs="on",
        recipe=Recipe(epochs=16),
        candidates=2,
        mutations=4,
        seeds=1,
        controls=(),
    )
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    # Two candidates, three designs, four changes, and three again.
    assert rivals == [0, 1, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0]
    assert [trial.epochs for trial in trials[2:5]] == [16, 16, 16]
    assert min(trial.epochs for trial in trials[5:9]) >= 4
