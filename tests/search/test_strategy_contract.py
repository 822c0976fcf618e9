"""What every strategy must keep in every space, with its defaults and with every preset."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.models import GraphNetwork
from pdnas.search import STRATEGIES, Problem, Search, SearchEpoch, Strategy
from pdnas.search.pdnas import PRESETS
from pdnas.search.rated import Rated
from pdnas.space import SPACES, SearchSpace
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

EPOCHS = 4

DEFAULTS = {name: STRATEGIES[name].model_validate({"name": name}) for name in STRATEGIES}
SHARING = {
    f"{name}-sharing": defaults.changed(sharing="on")
    for name, defaults in DEFAULTS.items()
    if isinstance(defaults, Rated)
}
PRESET = {f"pdnas-{name}": PRESETS[name] for name in PRESETS}
SETTINGS: dict[str, Strategy] = {
    **DEFAULTS,
    **SHARING,
    **{name: preset for name, preset in PRESET.items() if preset not in DEFAULTS.values()},
}


CASES = {
    f"{name}-{space}": (settings, SPACES[space])
    for name, settings in SETTINGS.items()
    for space in SPACES
    if name not in SHARING or space == "extended"  # what is shared is the same in all
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[Strategy, SearchSpace]:
    given: tuple[Strategy, SearchSpace] = request.param
    return given


@pytest.fixture
def strategy(case: tuple[Strategy, SearchSpace]) -> Strategy:
    settings, _ = case
    # A few candidates and short trainings where there are such settings.
    few = {"pool": 5, "adapted": 2, "adapt_epochs": 2, "train_epochs": 3, "inherited_epochs": 2}
    few |= {"population": 3, "tournament": 2}
    changes = {name: count for name, count in few.items() if getattr(settings, name, 0) > count}
    return settings.lasting(EPOCHS).changed(**changes)


@pytest.fixture
def space(case: tuple[Strategy, SearchSpace]) -> SearchSpace:
    return case[1]


def problem(task: GraphTask, space: SearchSpace, **values: Any) -> Problem:
    return Problem(task, space, 2, 4, Recipe(), **values)


def whole() -> bool:
    """There is time for everything."""
    return False


def finish(search: Search) -> list[SearchEpoch]:
    epochs = []
    while not search.is_over:
        epochs.append(search.step())
    return epochs


def outcome(search: Search) -> tuple[object, ...]:
    """All that a search tells, to be compared."""
    epochs, candidates = finish(search), search.candidates(whole)
    refined = search.refine(candidates, whole)
    return epochs, search.favored(), candidates, refined, search.warnings()


def saved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As they come back from a file."""
    return load(save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}))


def test_a_search_ends_after_its_epochs(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        assert (search.epoch, search.is_over) == (0, False)
        epochs = finish(search)
    assert [epoch.epoch for epoch in epochs] == list(range(EPOCHS))
    assert search.epoch == search.epochs == EPOCHS


def test_what_is_found_lies_in_the_space(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        finish(search)
        favored, candidates = search.favored(), search.candidates(whole)
    found = [candidate.architecture for candidate in candidates]
    assert favored in found
    assert len(set(found)) == len(found)
    for architecture in found:
        assert architecture in space
        assert architecture.num_blocks == 2


def test_a_search_can_be_asked_before_its_first_epoch(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        assert search.favored() in space
        assert search.warnings() == []


def test_the_same_seed_gives_the_same_search(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    outcomes = []
    for seed in (3, 3, 4):
        torch.rand(seed)  # whatever happened before
        with strategy.begin(problem(tiny_task, space, seed=seed)) as search:
            outcomes.append(outcome(search))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != outcomes[2]


@pytest.mark.parametrize("slack", [0, 30])
def test_the_number_of_parameters_is_kept(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace, slack: int
) -> None:
    free = problem(tiny_task, space)
    given = problem(tiny_task, space, max_parameters=free.parameters(free.smallest) + slack)
    with strategy.begin(given) as search:
        finish(search)
        found = [search.favored(), *(one.architecture for one in search.candidates(whole))]
    assert all(given.fits(architecture) for architecture in found)


@pytest.mark.parametrize("stop", [0, 2])
def test_a_saved_search_goes_on_exactly(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace, stop: int
) -> None:
    with strategy.begin(problem(tiny_task, space)) as first:
        for _ in range(stop):
            first.step()
        state = saved(first.state())
        expected = outcome(first)
    with strategy.begin(problem(tiny_task, space, seed=9)) as second:
        second.step()
        second.restore(state)
        assert second.epoch == stop
        assert outcome(second) == expected


def test_a_restored_search_has_the_state_that_was_saved(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as first:
        for _ in range(3):
            first.step()
        state = saved(first.state())
    with strategy.begin(problem(tiny_task, space)) as second:
        second.restore(state)
        again = saved(second.state())
    assert again.keys() == state.keys()
    assert [name for name in state if not torch.equal(again[name], state[name])] == []


@pytest.mark.parametrize(
    ("end", "value"),
    [
        ("epoch", torch.tensor(-1)),
        ("epoch", torch.tensor(EPOCHS + 1)),
        ("search/entropies", torch.zeros(0)),
        ("search/entropies", torch.zeros(EPOCHS, dtype=torch.int64)),
        ("search/model/values", torch.zeros(7)),
        ("search/model/choices", torch.zeros(3, 1)),
    ],
    ids=str,
)
def test_a_state_of_another_search_is_refused(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace, end: str, value: torch.Tensor
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        state = search.state()
        if end in state:
            with pytest.raises(ValueError, match=r"is none|is not as"):
                search.restore({**state, end: value})


def is_plain(value: object) -> bool:
    """Whether JSON knows the type itself, without a subclass or a tuple in its place."""
    if type(value) is dict:
        return all(type(key) is str and is_plain(entry) for key, entry in value.items())
    if type(value) is list:
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def test_what_an_epoch_shows_is_plain_json(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        for epoch in finish(search):
            line = asdict(epoch)
            assert is_plain(line)
            assert json.loads(json.dumps(line, allow_nan=False)) == line
            assert 0 <= epoch.val <= 1


def test_networks_have_the_shape_of_the_task(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    graph = tiny_task.graphs[0]
    with strategy.begin(problem(tiny_task, space)) as search:
        search.step()
        generator = torch.Generator().manual_seed(0)
        wanted: list[Architecture] = [search.favored(), space.sample(2, generator)]
        for architecture in wanted:
            network = search.network(architecture)
            assert isinstance(network, GraphNetwork)
            assert network.architecture == architecture
            assert network(graph.x, graph.edge_index).shape == (20, 3)
            count = sum(weight.numel() for weight in network.parameters())
            assert count == architecture.parameters(tiny_task, 4)


def test_the_random_state_outside_is_left_alone(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    outside = torch.get_rng_state()
    with strategy.begin(problem(tiny_task, space)) as search:
        outcome(search)
        search.restore(saved(search.state()))
    assert torch.equal(torch.get_rng_state(), outside)


def test_a_search_without_time_still_proposes_what_it_favors(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        search.step()
        favored, candidates = search.favored(), search.candidates(lambda: True)
    assert favored in [candidate.architecture for candidate in candidates]


def test_refining_loses_no_candidate_and_adds_none(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        finish(search)
        candidates = search.candidates(whole)
        for stop in (whole, lambda: True):
            refined = search.refine(candidates, stop)
            assert len(refined) == len(candidates)
            assert {one.architecture for one in refined} == {one.architecture for one in candidates}


def test_candidates_tell_what_validation_was_estimated(
    strategy: Strategy, tiny_task: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(tiny_task, space)) as search:
        finish(search)
        candidates = search.candidates(whole)
    assert candidates
    for candidate in candidates:
        assert 0 <= candidate.val <= 1
        assert candidate.loss > 0


def test_whole_graphs_with_many_labels_are_searched_too(
    strategy: Strategy, rings: GraphTask, space: SearchSpace
) -> None:
    with strategy.begin(problem(rings, space)) as search:
        epochs, candidates = finish(search), search.candidates(whole)
        logits = search.network(search.favored())(rings.graphs[0].x, rings.graphs[0].adjacency)
    assert logits.shape == rings.graphs[0].y.shape
    for val in [*(epoch.val for epoch in epochs), *(candidate.val for candidate in candidates)]:
        assert 0 <= val <= 1
    assert all(math.isfinite(epoch.train_loss + epoch.val_loss) for epoch in epochs)
    assert all(candidate.architecture in space for candidate in candidates)
