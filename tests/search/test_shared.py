"""Weights that all architectures share: what is trained, what is asked, and what is left alone."""

from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pdnas.architecture import Architecture
from pdnas.search import Candidate, Problem
from pdnas.search.shared import HOPELESS, SharedWeights, once, per_mille, per_mille_of_ops, ranked
from pdnas.space import SPACES
from pdnas.supernet import candidate_mask
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.batching import Batch, Batches
from pdnas.training.epochs import evaluate
from pdnas.training.fit import seeded


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(dropout=0.0, input_dropout=0.0))


def weights(problem: Problem) -> SharedWeights:
    with seeded(0):
        return SharedWeights(problem, 0.01)


def some(problem: Problem, seed: int = 0) -> Architecture:
    return problem.sample(torch.Generator().manual_seed(seed))


def test_a_step_lowers_the_loss_of_its_path_and_leaves_the_others_alone(problem: Problem) -> None:
    shared, architecture = weights(problem), some(problem)
    network = shared.network(architecture)
    own = {id(weight) for weight in network.parameters()}
    others = [one for one in shared.supernet.parameters() if id(one) not in own]
    before = [weight.clone() for weight in others]
    losses = [float(shared.step(network, epoch)) for epoch in range(20)]
    assert losses[-1] < losses[0]
    assert all(map(torch.equal, others, before))
    assert all(weight.grad is None for weight in network.parameters())


def test_two_architectures_with_the_same_op_share_its_weights(problem: Problem) -> None:
    shared, first = weights(problem), some(problem)
    last = first.blocks[1].model_copy(update={"aggregation": "max", "attention": "const"})
    second = first.model_copy(update={"blocks": (first.blocks[0], last)})
    pairs = [shared.network(one).blocks[0].transform for one in (first, second)]
    assert pairs[0] is pairs[1]


def test_a_rating_is_what_validation_says(problem: Problem) -> None:
    shared, architecture = weights(problem), some(problem)
    rated = shared.rate(architecture)
    loss, val = evaluate(shared.network(architecture), Batches(problem.task, "val"), problem.task)
    assert rated.architecture == architecture
    assert rated.val == pytest.approx(float(val), abs=1e-6)
    assert rated.loss == pytest.approx(float(loss), abs=1e-5)


def test_a_network_whose_logits_are_no_numbers_is_rated_hopeless(problem: Problem) -> None:
    shared, architecture = weights(problem), some(problem)
    with torch.no_grad():
        for weight in shared.supernet.parameters():
            weight.fill_(torch.nan)
    rated = shared.rate(architecture)
    assert (rated.val, rated.loss) == (0.0, HOPELESS)


def test_adapting_is_never_worse_and_leaves_the_weights_as_they_were(problem: Problem) -> None:
    shared, architecture = weights(problem), some(problem, 3)
    before = {name: value.clone() for name, value in shared.tensors().items()}
    rated = shared.rate(architecture)
    adapted = shared.adapt(architecture, 15)
    assert (adapted.val, -adapted.loss) > (rated.val, -rated.loss)
    after = shared.tensors()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_loaded_weights_go_on_as_the_first_ones(problem: Problem) -> None:
    first, architecture = weights(problem), some(problem)
    first.step(first.network(architecture), 0)
    saved = {name: value.clone() for name, value in first.tensors().items()}
    second = SharedWeights(problem, 0.01)
    second.load(saved)
    losses = [one.step(one.network(architecture), 1) for one in (first, second)]
    assert torch.equal(*losses)
    assert all(torch.equal(first.tensors()[n], second.tensors()[n]) for n in first.tensors())


def test_slopes_are_the_gradients_of_the_validation_loss_and_leave_the_weights_alone(
    problem: Problem,
) -> None:
    shared, architecture = weights(problem), some(problem)
    network = shared.network(architecture).train()
    scale, idle = torch.tensor(1.5, requires_grad=True), torch.zeros(3, requires_grad=True)

    def forward(batch: Batch) -> Tensor:
        logits: Tensor = scale * network(batch.x, batch.adjacency)
        return logits

    (slope, none), judged = shared.slopes(network, [scale, idle], forward)

    (batch,) = shared.val.in_order()
    logits = batch.select(network.eval()(batch.x, batch.adjacency)).detach()
    value = cross_entropy(scale * logits, batch.y)
    torch.testing.assert_close(slope, torch.autograd.grad(value, scale)[0])
    assert none.tolist() == [0.0] * 3
    assert judged.loss.item() == pytest.approx(value.item(), rel=1e-6)
    assert judged.val == (logits.argmax(dim=1) == batch.y).float().mean()
    assert all(weight.grad is None and weight.requires_grad for weight in network.parameters())


@pytest.mark.usefixtures("sampler")
@pytest.mark.parametrize("batching", ["clusters", "neighbors"])
def test_slopes_are_those_of_batches_where_steps_do_not_see_the_whole_graph(
    tiny_task: GraphTask, batching: Literal["clusters", "neighbors"]
) -> None:
    recipe = Recipe(dropout=0.0, input_dropout=0.0, batching=batching, batch_nodes=2)
    problem = Problem(tiny_task, SPACES["paper"], 2, 4, recipe)
    shared, architecture = weights(problem), some(problem)
    network = shared.network(architecture)
    scale = torch.tensor(1.5, requires_grad=True)
    with_gradients: list[Batch] = []

    def forward(batch: Batch) -> Tensor:
        if torch.is_grad_enabled():
            with_gradients.append(batch)
        logits: Tensor = scale * network(batch.x, batch.adjacency)
        return logits

    (slope,), judged = shared.slopes(network, [scale], forward)
    assert len(with_gradients) > 1
    assert sum(len(batch.y) for batch in with_gradients) == len(tiny_task.split.val)
    total = torch.zeros(())
    for batch in with_gradients:
        assert batch.adjacency.num_nodes < 20
        logits = batch.select(network.eval()(batch.x, batch.adjacency)).detach()
        total = total + cross_entropy(scale * logits, batch.y, reduction="sum")
    (expected,) = torch.autograd.grad(total / len(tiny_task.split.val), scale)
    torch.testing.assert_close(slope, expected)
    (whole,) = shared.val.in_order()
    exact = scale.detach() * whole.select(network(whole.x, whole.adjacency)).detach()
    torch.testing.assert_close(judged.loss, cross_entropy(exact, whole.y))


def test_what_is_drawn_begins_with_the_likeliest_and_is_all_different(problem: Problem) -> None:
    shared, generator = weights(problem), torch.Generator().manual_seed(0)
    mask = candidate_mask(problem.space, 2)
    op_probs = torch.rand(mask.shape, generator=generator).masked_fill(~mask, 0.0)
    gate_probs = torch.tensor([[0.9, 0.2], [0.0, 0.6]])
    drawn = shared.draw(op_probs, gate_probs, 12, generator, lambda: False)
    assert drawn[0] == shared.likeliest(op_probs, gate_probs)
    assert drawn[0].gates == ((0, 0), (1, 1))
    assert len(set(drawn)) == len(drawn) == 12
    assert shared.draw(op_probs, gate_probs, 0, generator, lambda: False) == []
    assert shared.draw(op_probs, gate_probs, 12, generator, lambda: True) == drawn[:1]


def test_probabilities_are_told_per_mille_and_without_what_is_no_candidate() -> None:
    mask = torch.tensor([[[True, True, False], [True, True, True]]])
    op_probs = torch.tensor([[[0.25, 0.75, 0.0], [0.5, 0.4996, 0.0004]]])
    assert per_mille_of_ops(op_probs, mask) == [[[250, 750], [500, 500, 0]]]
    assert per_mille(torch.tensor([0.1234, 1.0])) == [123, 1000]


def test_candidates_are_ranked_by_the_metric_and_then_by_the_loss(problem: Problem) -> None:
    figures = [(0.5, 1.0), (0.7, 2.0), (0.5, 0.5), (0.7, 1.5)]
    rated = [Candidate(architecture=some(problem), val=val, loss=loss) for val, loss in figures]
    assert [(one.val, one.loss) for one in ranked(rated)] == [
        (0.7, 1.5),
        (0.7, 2.0),
        (0.5, 0.5),
        (0.5, 1.0),
    ]


def test_several_are_rated_while_there_is_time(problem: Problem) -> None:
    shared, asked = weights(problem), [some(problem, number) for number in range(4)]
    answers = iter([False, True])
    rated = shared.rate_all(asked, lambda: next(answers))
    assert [one.architecture for one in rated] == asked[:2]
    assert [one.architecture for one in shared.rate_all(asked, lambda: True)] == asked[:1]


def test_every_architecture_stands_once_where_it_is_first(problem: Problem) -> None:
    first, second = some(problem, 0), some(problem, 1)
    rated = [
        Candidate(architecture=architecture, val=val, loss=1.0)
        for architecture, val in [(first, 0.3), (second, 0.9), (first, 0.7)]
    ]
    assert once(rated) == rated[:2]
