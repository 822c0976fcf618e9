"""What a study asks for and in which order, what it keeps, and what it makes of it."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RunError
from pdnas.training import RECIPES, Recipe
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.storage import JournalFile
from pdnas.tuning.study import FINALISTS, FIRST, KNOWN, UNPRUNED, Ask, GridStudy, RecipeStudy

ARCHITECTURE = Architecture(blocks=(BlockSpec(attention="gat"),))
BASE = Recipe(epochs=9, lr=0.7, copies=3)
"""Two of its values are outside of what is drawn."""

CELLS = [{"blocks": blocks, "hidden": hidden} for blocks in (1, 2) for hidden in (4, 8, 16)]


def make(
    trials: int = 6,
    *,
    journal: Path | None = None,
    seed: int = 0,
    seeds: int = 2,
    fields: Sequence[str] = tuple(RANGES),
    base: Recipe = BASE,
) -> RecipeStudy:
    return RecipeStudy(
        ARCHITECTURE,
        base,
        fields=fields,
        trials=trials,
        seeds=seeds,
        seed=seed,
        storage=None if journal is None else JournalFile(journal),
    )


def by_rate(asked: Ask) -> float:
    """A made-up validation: the lower the learning rate, the better."""
    return 1 - asked.recipe.lr


def finish(
    study: RecipeStudy, score: Callable[[Ask], float] = by_rate, failing: int | None = None
) -> list[Ask]:
    """Do all that is left of a study, one trial after the other; one of them may fail."""
    done = []
    while (asked := study.ask()) is not None:
        if asked.number == failing:
            study.failed(asked.number, "no luck")
        else:
            study.done(asked.number, score(asked))
        done.append(asked)
    return done


def test_the_first_trial_is_the_recipe_that_there_is() -> None:
    asked = make().ask()
    assert asked == Ask(0, BASE, (0, 1))


@pytest.mark.parametrize("base", [BASE, Recipe(), RECIPES["consistency"]])
def test_what_is_learned_from_is_what_was_trained(base: Recipe) -> None:
    study = make(base=base)
    finish(study)
    for trial in study.trials:
        values = {name: trial.user_attrs["recipe"][name] for name in trial.params}
        assert trial.params == values
    assert bool(study.trials[0].params) == (base != BASE)


def test_what_is_remembered_of_the_first_trial_is_what_it_tried() -> None:
    """The later ones are drawn by it."""
    study = RecipeStudy(ARCHITECTURE, Recipe(), fields=("lr", "dropout"), trials=1, seeds=1)
    study.ask()
    assert study.trials[0].params == {"lr": 0.01, "dropout": 0.5}


def test_known_recipes_come_next() -> None:
    asked = finish(make(trials=6))
    for name, trial in zip(KNOWN, asked[1:], strict=False):
        values = {field: getattr(RECIPES[name], field) for field in RANGES}
        assert trial.recipe == BASE.changed(**values)
    drawn = [trial.recipe for trial in asked[1 + len(KNOWN) : 6]]
    assert len({BASE, *(RECIPES[name] for name in KNOWN), *drawn}) == 1 + len(KNOWN) + len(drawn)


def test_of_known_recipes_only_the_tuned_fields_are_taken() -> None:
    asked = finish(make(trials=4, fields=("dropout",)))
    known = [BASE, *(BASE.changed(dropout=RECIPES[name].dropout) for name in KNOWN)]
    different = [recipe for place, recipe in enumerate(known) if recipe not in known[:place]]
    assert 1 < len(different) < len(known), "one of them has the dropout that there is"
    assert [trial.recipe for trial in asked[: len(different)]] == different


def test_no_recipe_is_tried_twice_in_a_round() -> None:
    asked = finish(make(trials=12, base=RECIPES["consistency"]))
    recipes = [trial.recipe for trial in asked[:12]]
    assert all(recipe not in recipes[:place] for place, recipe in enumerate(recipes))
    again = [trial.recipe for trial in asked[12:]]
    assert len(again) == FINALISTS
    assert all(recipe not in again[:place] for place, recipe in enumerate(again))


def test_a_damaged_journal_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "study.journal").write_text("garbage\n")
    with pytest.raises(RunError, match=r"study\.journal' is damaged \(.*\); without the file its "):
        make(journal=tmp_path / "study.journal")


@pytest.mark.parametrize("fields", [("lr",), ("lr", "dropout"), tuple(RANGES)])
def test_what_is_not_tuned_stays_as_it_is(fields: tuple[str, ...]) -> None:
    for asked in finish(make(trials=12, fields=fields)):
        assert asked.recipe.model_dump(exclude=set(fields)) == BASE.model_dump(exclude=set(fields))


def test_what_was_shown_is_followed() -> None:
    """Learning rates after the random beginning are lower where those did better."""
    asked = finish(make(trials=60, fields=("lr",)))
    random, guided = asked[4:FIRST], asked[30:60]
    mean = [sum(trial.recipe.lr for trial in part) / len(part) for part in (random, guided)]
    assert mean[1] < mean[0]


@given(trials=st.integers(1, 9), seeds=st.integers(1, 3), seed=st.integers(0, 2**40))
@settings(max_examples=15)
def test_the_best_and_the_first_are_tried_again_with_more_seeds(
    trials: int, seeds: int, seed: int
) -> None:
    study = make(trials, seeds=seeds, seed=seed)
    asked = finish(study)
    first, second = asked[:trials], asked[trials:]
    assert study.wanted == len(asked) == trials + min(FINALISTS, trials)
    assert {trial.seeds for trial in first} == {tuple(range(seed, seed + seeds))}
    assert {trial.seeds for trial in second} == {tuple(range(seed + seeds, seed + 3 * seeds))}
    leaders = [trial.recipe for trial in sorted(first, key=lambda trial: -by_rate(trial))]
    if BASE not in leaders[:FINALISTS]:
        leaders[FINALISTS - 1] = BASE
    assert [trial.recipe for trial in second] == leaders[:FINALISTS]
    assert study.ask() is None


@pytest.mark.parametrize(
    ("again", "winner"),
    [([0.5, 0.7, 0.68, 0.4], 2), ([0.5, 0.6, 0.61, 0.4], 4), ([0.5, 0.6, 0.61, 0.62], 0)],
)
def test_the_best_of_the_second_round_wins(again: list[float], winner: int) -> None:
    first = [0.1, 0.9, 0.8, 0.7, 0.75, 0.2]  # the trials 1, 2, 4 and 0 are done again
    study = make(trials=6)
    asked = finish(study, lambda trial: (first + again)[trial.number])
    assert [trial.recipe for trial in asked[6:]] == [asked[n].recipe for n in (1, 2, 4, 0)]
    assert study.best == asked[winner].recipe


def test_where_the_first_recipe_failed_another_takes_its_place() -> None:
    study = make(trials=6)
    scores = [0.0, 0.9, 0.8, 0.7, 0.75, 0.2, *[0.5] * FINALISTS]
    asked = finish(study, lambda trial: scores[trial.number], failing=0)
    assert [trial.recipe for trial in asked[6:]] == [asked[n].recipe for n in (1, 2, 4, 3)]


def test_one_lucky_trial_does_not_win() -> None:
    """The trial 0 is the best single one, but its second try failed; trial 1 was tried twice."""
    study = make(trials=2)
    scores = {0: 1.0, 1: 0.5, 3: 0.4}
    asked = finish(study, lambda trial: scores[trial.number], failing=2)
    assert len(asked) == 4
    assert study.best == asked[1].recipe


def test_before_anything_is_done_the_best_is_what_there_is() -> None:
    study = make()
    study.ask()
    assert study.best == BASE


def test_a_trial_that_failed_is_kept_with_its_reason_and_the_others_go_on() -> None:
    study = make(trials=3)
    for number in range(3):
        asked = study.ask()
        assert asked is not None
        if number == 1:
            study.failed(1, "It threw.")
        else:
            study.done(number, 0.5)
    repeated = finish(study)
    assert [trial.number for trial in repeated] == [3, 4]
    row = study.rows()[1]
    assert (row.number, row.state, row.val, row.reason) == (1, "failed", None, "It threw.")
    assert [other.state for other in study.rows()] == ["done", "failed", "done", "done", "done"]


def test_where_all_failed_the_recipe_stays() -> None:
    study = make(trials=3)
    for number in range(3):
        study.ask()
        study.failed(number, "It threw.")
    assert study.ask() is None
    assert study.best == BASE


def race(study: RecipeStudy, vals: Sequence[float]) -> list[bool]:
    """Trials that report one value at epoch 25 each; which of them are told to stop."""
    told = []
    for val in vals:
        asked = study.ask()
        assert asked is not None
        told.append(study.report(asked.number, 25, val))
        if told[-1]:
            study.stopped(asked.number)
        else:
            study.done(asked.number, val)
    return told


def test_whoever_is_below_the_median_stops() -> None:
    """The median of 0.1, 0.2, 0.3, 0.4, 0.5 is 0.3, and with 0.35 it is 0.325."""
    study = make(trials=8)
    told = race(study, [0.1, 0.2, 0.3, 0.4, 0.5, 0.29, 0.35, 0.32])
    assert told == [False] * 5 + [True, False, True]
    states = [row.state for row in study.rows()]
    assert states == ["done"] * 5 + ["stopped early", "done", "stopped early"]


def test_the_first_few_are_never_stopped() -> None:
    told = race(make(trials=8), [0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    assert told == [False] * UNPRUNED + [True]


def test_second_tries_are_never_stopped() -> None:
    study = make(trials=6)
    race(study, [0.5, 0.6, 0.7, 0.8, 0.9, 0.85])
    for _ in range(FINALISTS):
        asked = study.ask()
        assert asked is not None
        assert not study.report(asked.number, 25, 0.0)
        study.done(asked.number, 0.0)
    assert study.ask() is None


def test_one_that_was_stopped_is_not_tried_again() -> None:
    study = make(trials=6)
    told = race(study, [0.5, 0.6, 0.7, 0.8, 0.9, 0.1])
    assert told[5]
    assert [trial.number for trial in finish(study)] == [6, 7, 8, 9]
    assert study.rows()[5].val is None


def test_the_second_round_waits_for_the_first() -> None:
    study = make(trials=3)
    asked = [study.ask() for _ in range(3)]
    assert study.ask() is None
    for trial in asked[:2]:
        assert trial is not None
        study.done(trial.number, 0.5)
    assert study.ask() is None
    study.done(2, 0.9)
    following = study.ask()
    assert following is not None
    assert asked[2] is not None
    assert following.recipe == asked[2].recipe


def test_side_by_side_no_recipe_is_drawn_twice() -> None:
    study = make(trials=8)
    asked = [study.ask() for _ in range(8)]
    assert len({trial.recipe for trial in asked if trial is not None}) == 8


def test_a_study_depends_on_nothing_but_its_seed() -> None:
    one, same, other = (finish(make(trials=14, seed=seed)) for seed in (3, 3, 4))
    assert one == same
    assert [trial.recipe for trial in one[5:14]] != [trial.recipe for trial in other[5:14]]


@given(deaths=st.sets(st.integers(0, 16), max_size=4))
@settings(max_examples=4)
def test_an_interrupted_study_comes_to_the_same_end(deaths: set[int]) -> None:
    """Whoever asks dies in the trials of these places, and each of them is begun again."""
    whole = make(trials=14)
    expected = [(trial.recipe, trial.seeds) for trial in finish(whole)]
    with tempfile.TemporaryDirectory() as folder:
        journal, left = Path(folder) / "journal", set(deaths)
        done: list[tuple[Recipe, tuple[int, ...]]] = []
        study = make(trials=14, journal=journal)
        while (asked := study.ask()) is not None:
            if len(done) in left:
                left.remove(len(done))
                study = make(trials=14, journal=journal)
                continue
            study.done(asked.number, by_rate(asked))
            done.append((asked.recipe, asked.seeds))
        assert done == expected
        assert study.best == whole.best
        assert len(study.trials) == study.wanted


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_of_trials_side_by_side_the_lost_one_is_done_again(tmp_path: Path, lost: int) -> None:
    """The others were finished, also those that were begun after it."""
    expected = {asked.recipe for asked in finish(make(trials=4))[:4]}
    journal = tmp_path / "journal"
    study = make(trials=4, journal=journal)
    asked = [trial for _ in range(4) if (trial := study.ask()) is not None]
    for trial in asked:
        if trial.number != lost:
            study.done(trial.number, by_rate(trial))
    again = make(trials=4, journal=journal).ask()
    assert again is not None
    assert again.recipe == asked[lost].recipe
    assert {trial.recipe for trial in asked} == expected


def test_what_is_finished_is_kept(tmp_path: Path) -> None:
    before = make(trials=4, journal=tmp_path / "journal")
    finish(before)
    after = make(trials=4, journal=tmp_path / "journal")
    assert after.ask() is None
    assert after.rows() == before.rows()
    assert after.best == before.best


def test_a_trial_under_way_at_the_end_does_not_count(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    make(journal=journal).ask()
    for _ in range(2):  # it is remembered, also by whoever comes later
        study = make(journal=journal)
        assert (study.trials, study.rows()) == ([], [])
    assert study.ask() == Ask(1, BASE, (0, 1))


@pytest.mark.parametrize("place", [1, 2, 3, 6, 7, 8])
def test_one_who_dies_before_a_trial_is_begun_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Known recipes and second tries are queued before they are asked for."""
    expected = [(trial.recipe, trial.seeds) for trial in finish(make(trials=6))]
    journal = tmp_path / "journal"
    study = make(trials=6, journal=journal)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for _ in range(place):
        asked = study.ask()
        assert asked is not None
        study.done(asked.number, by_rate(asked))
    with monkeypatch.context() as patch:
        patch.setattr(RecipeStudy, "_ask", die)
        with pytest.raises(KeyboardInterrupt):
            study.ask()
    again = finish(make(trials=6, journal=journal))
    assert [(trial.recipe, trial.seeds) for trial in again] == expected[place:]


def test_more_trials_are_added_to_what_is_there(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    before = finish(make(trials=4, journal=journal))
    study = make(trials=6, journal=journal)
    added = finish(study, lambda trial: 2.0)  # better than all before
    assert [trial.number for trial in added[:2]] == [8, 9]
    assert [trial.recipe for trial in added[2:]] == [trial.recipe for trial in added[:2]]
    assert len({trial.recipe for trial in before[:4] + added[:2]}) == 6
    assert study.best in [trial.recipe for trial in added]


def test_fewer_trials_than_there_are_ask_for_none(tmp_path: Path) -> None:
    finish(make(trials=5, journal=tmp_path / "journal"))
    assert make(trials=4, journal=tmp_path / "journal").ask() is None


def test_a_table_shows_what_was_tried() -> None:
    study = make(fields=("lr", "dropout"))
    study.ask()
    (row,) = study.rows()
    assert (row.number, row.state, row.val, row.reason) == (0, "running", None, "")
    assert row.values == {"lr": 0.7, "dropout": 0.5}
    study.done(0, 0.25)
    (row,) = study.rows()
    assert (row.state, row.val) == ("done", 0.25)


def test_a_file_may_hold_both_studies(tmp_path: Path) -> None:
    grid, recipes = (
        GridStudy(CELLS, JournalFile(tmp_path / "journal")),
        make(journal=tmp_path / "journal"),
    )
    assert grid.ask() == (0, CELLS[0])
    asked = recipes.ask()
    assert asked is not None
    assert asked.number == 0
    grid.done(0, 0.5)
    assert [row.state for row in grid.rows()] == ["done"]
    assert [row.state for row in recipes.rows()] == ["running"]


def test_a_grid_is_tried_cell_by_cell_each_once() -> None:
    study = GridStudy(CELLS)
    asked = []
    while (following := study.ask()) is not None:
        asked.append(following)
        study.done(following[0], 0.5)
    assert asked == list(enumerate(CELLS))
    assert study.wanted == len(CELLS)
    assert [row.values for row in study.rows()] == CELLS


def test_cells_are_asked_for_side_by_side_each_once() -> None:
    study = GridStudy(CELLS)
    assert [study.ask() for _ in range(7)] == [*enumerate(CELLS), None]


def test_the_best_cell_is_that_with_the_best_validation() -> None:
    study = GridStudy(CELLS)
    vals = [0.5, 0.8, 0.6, 0.0, 0.7, 0.1]
    for number, val in enumerate(vals):
        study.ask()
        if number == 3:
            study.failed(3, "It threw.")
        else:
            study.done(number, val, shape=number)
    assert study.best.params == CELLS[1]
    assert study.best.user_attrs["shape"] == 1
    assert [trial.number for trial in study.complete] == [0, 1, 2, 4, 5]
    assert study.ask() is None, "a cell that failed is not tried again"


@pytest.mark.parametrize("place", range(len(CELLS)))
def test_an_interrupted_grid_tries_every_cell_once(tmp_path: Path, place: int) -> None:
    """Whoever asks dies in a cell; that one is begun again, and no other."""
    journal = tmp_path / "journal"
    study = GridStudy(CELLS, JournalFile(journal))
    for number in range(place):
        assert study.ask() == (number, CELLS[number])
        study.done(number, 0.5)
    study.ask()
    study = GridStudy(CELLS, JournalFile(journal))
    while (asked := study.ask()) is not None:
        study.done(asked[0], 0.5)
    assert [study.values(trial) for trial in study.complete] == CELLS


def test_teachers_are_left_for_the_final_trainings() -> None:
    study = make(trials=6, base=BASE.changed(teachers=3))
    asked = finish(study)
    assert {trial.recipe.teachers for trial in asked} == {0}
    assert study.best.teachers == 3
    assert make(base=BASE.changed(teachers=3)).best == BASE.changed(teachers=3)
