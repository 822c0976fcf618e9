"""How architectures are rated: trained on their own, with shared or with inherited weights."""

from typing import Any

import pytest
import torch

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import DivergedError, SearchError
from pdnas.models import GraphNetwork
from pdnas.search import Problem, rating
from pdnas.search.base import never
from pdnas.search.rating import (
    HOPELESS_RATING,
    SEED,
    SharedRater,
    TrainingRater,
    inherit,
)
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Epoch, Fit
from pdnas.training.seeds import train_once


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=30), seed=5)


def some(problem: Problem, seed: int = 0) -> Architecture:
    return problem.space.plain(problem.sample(torch.Generator().manual_seed(seed)))


def test_a_trained_rating_is_that_of_a_training_of_its_own(problem: Problem) -> None:
    architecture = some(problem)
    rater = TrainingRater(problem, epochs=6)
    rated = rater.rate(architecture, 0, never)
    network, outcome = train_once(
        architecture, problem.task, hidden=4, recipe=Recipe(epochs=6), seed=5 + SEED
    )
    assert rated.val == outcome.val
    kept = rater.network(architecture).state_dict()
    assert all(torch.equal(kept[name], value) for name, value in network.state_dict().items())


def test_a_recipe_of_fewer_epochs_is_not_made_longer(problem: Problem) -> None:
    assert TrainingRater(problem, epochs=200).recipe.epochs == 30


def test_a_training_ends_when_the_time_is_over(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def watched(*given: Any, **settings: Any) -> Any:
        network, outcome = train_once(*given, **settings)
        seen.append(outcome.epochs)
        return network, outcome

    monkeypatch.setattr(rating, "train_once", watched)
    TrainingRater(problem, epochs=20).rate(some(problem), 0, lambda: True)
    assert seen == [1]


def test_the_best_keeps_its_weights_and_others_have_fresh_ones(problem: Problem) -> None:
    rater = TrainingRater(problem, epochs=8)
    tried = {one: rater.rate(one, 0, never).val for one in (some(problem, n) for n in range(4))}
    best = max(tried, key=lambda one: tried[one])
    fresh = TrainingRater(problem, epochs=8)
    for architecture in tried:
        kept, new = (one.network(architecture).state_dict() for one in (rater, fresh))
        same = all(torch.equal(kept[name], new[name]) for name in kept)
        assert same == (architecture != best)


def test_what_diverges_is_rated_hopeless(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_: Any, **__: Any) -> Any:
        raise DivergedError("The loss is no longer finite.")

    monkeypatch.setattr(rating, "train_once", diverge)
    rater = TrainingRater(problem, epochs=3)
    assert rater.rate(some(problem), 0, never) == HOPELESS_RATING


def test_shared_weights_that_diverge_end_the_search(problem: Problem) -> None:
    rater = SharedRater(problem, 0.25)
    with torch.no_grad():
        for weight in rater.shared.supernet.parameters():
            weight.fill_(torch.nan)
    with pytest.raises(SearchError, match=r"at epoch 7 of the search; lower --weight-lr, now 0.25"):
        rater.rate(some(problem), 7, never)


def test_of_equal_validations_the_one_with_the_lower_loss_keeps_its_weights(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([0.9, 0.4, 0.6])

    def fake(architecture: Architecture, *_: Any, **settings: Any) -> Any:
        settings["on_epoch"](Epoch(0, 1.0, next(losses), 0.5))
        network = GraphNetwork(architecture, problem.task, 4)
        return network, Fit(epoch=0, val=0.5, epochs=1, seconds=0.0)

    monkeypatch.setattr(rating, "train_once", fake)
    rater = TrainingRater(problem, epochs=3)
    tried = [some(problem, number) for number in range(3)]
    for architecture in tried:
        rater.rate(architecture, 0, never)
    assert problem.made(rater.tensors()["choices"].tolist()) == tried[1]


def test_shared_weights_learn_while_they_rate(problem: Problem) -> None:
    rater, architecture = SharedRater(problem, 0.01), some(problem)
    ratings = [rater.rate(architecture, epoch, never) for epoch in range(15)]
    assert ratings[-1].train_loss < ratings[0].train_loss
    assert not any(rated.alone for rated in ratings)
    assert rater.lasting is False


GCN = BlockSpec(attention="gcn", activation="relu")
GAT = BlockSpec(attention="gat", activation="relu")
LAST = BlockSpec(attention="const")


def architecture(*blocks: BlockSpec, gates: tuple[tuple[int, int], ...] = ()) -> Architecture:
    return Architecture(blocks=blocks, gates=gates)


@pytest.mark.parametrize(
    ("child", "inherits"),
    [
        (architecture(GCN, LAST), [0, 1]),
        (architecture(GAT, LAST), [1]),  # another attention
        (architecture(GCN.model_copy(update={"activation": "elu"}), LAST), [1]),
        (architecture(GCN.model_copy(update={"aggregation": "max"}), LAST), [0, 1]),
        (architecture(GCN.model_copy(update={"expansion": 2}), LAST), [1]),  # other shapes
        (architecture(GAT, LAST.model_copy(update={"attention": "cos"})), []),
    ],
)
def test_a_block_inherits_where_attention_activation_and_shapes_agree(
    problem: Problem, child: Architecture, inherits: list[int]
) -> None:
    ancestor = architecture(GCN, LAST, gates=((0, 1),))
    parent = GraphNetwork(ancestor, problem.task, 4)
    network = GraphNetwork(child, problem.task, 4)
    before = {name: weight.clone() for name, weight in network.named_parameters()}
    names = inherit(network, ancestor, parent.state_dict())
    assert {int(name.split(".")[1]) for name in names} == set(inherits)
    for name, weight in network.named_parameters():
        expected = parent.state_dict()[name] if name in names else before[name]
        assert torch.equal(weight, expected)


def test_norms_and_shortcuts_begin_anew(problem: Problem) -> None:
    normed = architecture(GCN.model_copy(update={"norm": "layer"}), LAST, gates=((0, 1),))
    parent, network = (GraphNetwork(normed, problem.task, 4) for _ in range(2))
    with torch.no_grad():
        for weight in parent.parameters():
            weight.add_(1.0)
    names = inherit(network, normed, parent.state_dict())
    assert names
    assert not [name for name in names if "norm" in name or "shortcut" in name]


def test_later_architectures_inherit_and_are_trained_for_less(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, bool]] = []

    def watched(*given: Any, **settings: Any) -> Any:
        seen.append((settings["recipe"].epochs, settings["prepare"] is not None))
        return train_once(*given, **settings)

    monkeypatch.setattr(rating, "train_once", watched)
    rater = TrainingRater(problem, epochs=9, inherited_epochs=2)
    ratings = [rater.rate(some(problem, number), number, never) for number in range(3)]
    assert [rated.alone for rated in ratings] == [True, False, False]
    assert seen == [(9, False), (2, True), (2, True)]


@pytest.mark.parametrize("inherited", [0, 2])
def test_a_loaded_rater_goes_on_as_the_first_one(problem: Problem, inherited: int) -> None:
    first = TrainingRater(problem, epochs=5, inherited_epochs=inherited)
    first.rate(some(problem, 1), 0, never)
    second = TrainingRater(problem, epochs=5, inherited_epochs=inherited)
    second.load(first.tensors())
    ratings = [one.rate(some(problem, 2), 1, never) for one in (first, second)]
    assert ratings[0] == ratings[1]
    empty = TrainingRater(problem, epochs=5)
    empty.rate(some(problem, 1), 0, never)
    empty.load(TrainingRater(problem, epochs=5).tensors())
    assert set(empty.tensors()) == {"seed"}
