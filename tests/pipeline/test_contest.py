"""Which candidates are trained next: in a queue, again, changed, and which one is chosen."""

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.job import Cell, Job, make_job
from pdnas.pipeline import grid
from pdnas.pipeline.contest import CLIMBERS, SURE, Contest, Entry, best_of, ranked, trained
from pdnas.runs import Trial
from pdnas.search import Candidate
from pdnas.search.effects import Effects
from pdnas.tasks import GraphTask
from pdnas.watcher import Watcher

ACTIVATIONS = ("none", "sigmoid", "tanh", "softplus", "relu", "leaky-relu", "relu6", "elu")


def architecture_of(activation: str, expansion: int = 1) -> Architecture:
    spec = BlockSpec(expansion=expansion, attention="const", activation=activation)
    return Architecture(blocks=(spec, BlockSpec(expansion=1, attention="const")))


def job_of(**changes: object) -> Job:
    settings = {"space": "paper", "hidden": (4,), "designs": "off", "candidates": 8, "controls": ()}
    return make_job(**settings, **changes)


def contest_of(task: GraphTask, candidates: int, job: Job) -> Contest:
    found = tuple(
        Candidate(architecture=architecture_of(name), val=0.5, loss=1.0)
        for name in ACTIVATIONS[:candidates]
    )
    about = {"num_blocks": 2, "hidden": 4, "epochs": 1, "warnings": ()}
    cell = Cell(**about, candidates=found, seconds=0.0, refine_seconds=0.0)
    return Contest(job, grid(job, task, Watcher()), [cell])


def trial_of(entry: Entry, val: float) -> Trial:
    return Trial(
        architecture=entry.architecture,
        hidden=entry.hidden,
        seed=entry.seed,
        shared_val=entry.estimate,
        rungs=(),
        epoch=0,
        val=val,
        epochs=1,
        seconds=1.0,
    )


def play(
    contest: Contest, vals: list[float], *, has_time: bool = True
) -> tuple[list[Trial], Entry | None]:
    """Trainings that come to these values, and what is wanted then."""
    trials: list[Trial] = []
    for val in vals:
        entry = contest.following(trials, has_time=has_time)
        assert entry is not None
        trials.append(trial_of(entry, val))
    return trials, contest.following(trials, has_time=has_time)


def changed_slots(one: Architecture, other: Architecture) -> int:
    return sum(a != b for a, b in zip(one.blocks, other.blocks, strict=True)) + len(
        set(one.gates) ^ set(other.gates)
    )


def test_the_queue_comes_first_then_the_best_three_again(tiny_task: GraphTask) -> None:
    job = job_of()
    trials, following = play(
        contest_of(tiny_task, 4, job), [0.1, 0.4, 0.3, 0.2, 0.5, 0.5, 0.5], has_time=False
    )
    assert following is None
    names = [trial.architecture.blocks[0].activation for trial in trials]
    assert names == ["none", "sigmoid", "tanh", "softplus", "sigmoid", "tanh", "softplus"]
    assert [trial.seed - job.trial_seed for trial in trials] == [0] * 4 + [1] * 3


def test_with_time_others_are_proposed_before_anything_is_trained_again(
    tiny_task: GraphTask,
) -> None:
    job = job_of()
    trials, following = play(contest_of(tiny_task, 2, job), [0.6, 0.7])
    assert following is not None
    assert following.seed == job.trial_seed
    assert following.estimate is None
    assert following.architecture not in [trial.architecture for trial in trials]


def test_what_made_networks_good_is_tried_more_and_more_and_nothing_twice(
    tiny_task: GraphTask,
) -> None:
    contest = contest_of(tiny_task, 8, job_of())
    trials: list[Trial] = []
    for _ in range(80):
        entry = contest.following(trials, has_time=True)
        assert entry is not None
        is_good = entry.architecture.blocks[0].attention == "gat"
        trials.append(trial_of(entry, 0.8 if is_good else 0.6))
    networks = [(trial.architecture, trial.hidden) for trial in trials]
    assert len(set(networks)) == len(networks)
    good = [architecture.blocks[0].attention == "gat" for architecture, _ in networks]
    assert sum(good[-30:]) >= 27, "by chance one in seven is"


def test_once_the_best_are_trained_again_the_climb_is_over(tiny_task: GraphTask) -> None:
    job = job_of()
    contest = contest_of(tiny_task, 6, job)
    # The third is the best but falls behind in its second training; the proposal was poor.
    trials, _ = play(contest, [0.50, 0.51, 0.90, 0.52, 0.53, 0.54, 0.10])
    entry = contest.following(trials, has_time=False)
    assert entry is not None
    assert (entry.architecture, entry.seed) == (trials[2].architecture, job.trial_seed + 1)
    trials.append(trial_of(entry, 0.05))  # its mean, 0.475, is behind all but the proposal's
    for again in range(1, SURE):
        for number in (5, 4, 3, 1, 0):
            entry = contest.following(trials, has_time=again % 2 == 0)  # whatever the clock says
            assert entry is not None
            assert entry.architecture == trials[number].architecture
            assert entry.seed == job.trial_seed + again
            trials.append(trial_of(entry, trials[number].val))
    assert contest.following(trials, has_time=True) is None


def test_of_several_shapes_those_of_the_best_are_tried(tiny_task: GraphTask) -> None:
    job = job_of().model_copy(update={"hidden": (4, 8)})
    about = {"num_blocks": 2, "epochs": 1, "warnings": (), "seconds": 0.0, "refine_seconds": 0.0}
    found = tuple(
        Candidate(architecture=architecture_of(name), val=0.5, loss=1.0) for name in ACTIVATIONS
    )
    cells = [Cell(**about, hidden=hidden, candidates=found) for hidden in job.hidden]
    contest = Contest(job, grid(job, tiny_task, Watcher()), cells)
    trials: list[Trial] = []
    for _ in range(16 + 20):
        entry = contest.following(trials, has_time=True)
        assert entry is not None
        trials.append(trial_of(entry, 0.8 if entry.hidden == 8 else 0.6))
    assert {trial.hidden for trial in trials[16:]} == {8}


@pytest.mark.parametrize("changes", [0, 2])
def test_where_draws_are_old_the_best_are_changed_and_then_trained_until_it_is_sure(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    contest = contest_of(tiny_task, 6, job_of())
    own, left = Contest._change, iter(range(changes))

    def change(self: Contest, trial: Trial, trials: list[Trial]) -> Entry | None:
        return own(self, trial, trials) if next(left, None) is not None else None

    monkeypatch.setattr(Contest, "_change", change)
    monkeypatch.setattr(Effects, "propose", lambda *_: None)
    trials: list[Trial] = []
    while (entry := contest.following(trials, has_time=True)) is not None:
        trials.append(trial_of(entry, 0.5))
    networks = trained(trials)
    assert len(networks) == 6 + changes
    for number in range(6, 6 + changes):
        one = networks[number][0].architecture
        known = [own[0].architecture for own in networks[:number]]
        assert any(changed_slots(one, other) == 1 for other in known)
    most = [SURE] * CLIMBERS if changes else [1, 1, 2, 2, 2]
    assert sorted(len(own) for own in networks)[-CLIMBERS:] == most


def test_incumbents_are_trained_until_it_is_sure_however_poor(tiny_task: GraphTask) -> None:
    mine = architecture_of("elu", expansion=2)
    job = job_of(incumbents=(mine,))
    contest = contest_of(tiny_task, 6, job)
    trials, _ = play(contest, [0.9] * 6 + [0.1] + [0.05])  # the last one was proposed
    again = []
    while (entry := contest.following(trials, has_time=False)) is not None:
        again.append(entry.architecture)
        trials.append(trial_of(entry, 0.9))
    assert again.count(mine) == SURE - 1


def test_the_best_mean_of_those_trained_again_is_chosen(tiny_task: GraphTask) -> None:
    small, large = architecture_of("relu"), architecture_of("relu", expansion=8)
    lucky = architecture_of("tanh")

    def trials_of(architecture: Architecture, *vals: float) -> list[Trial]:
        race = Contest(job_of(), [], [])._race([])
        entries = [Entry(architecture, 4, None, seed, race) for seed in range(len(vals))]
        return [trial_of(entry, val) for entry, val in zip(entries, vals, strict=True)]

    trials = [
        *trials_of(large, 0.80, 0.82, 0.81),
        *trials_of(small, 0.70, 0.72, 0.71),
        *trials_of(lucky, 0.99),
    ]
    assert best_of(trials, tiny_task).architecture == large, "one training tells nothing"
    assert best_of([*trials, *trials_of(lucky, 0.75)], tiny_task).architecture == lucky
    near = [*trials[:3], *trials_of(small, 0.80, 0.82, 0.80)]
    assert best_of(near, tiny_task).architecture == small, "within one standard error"
    assert best_of(trials[6:] + trials[:1], tiny_task).architecture == lucky
    assert [own[0].architecture for own in ranked(trials)] == [lucky, large, small]
