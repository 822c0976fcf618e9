"""What teachers say, how it is learned, and who has any."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pdnas.architecture import Architecture
from pdnas.models import GraphNetwork
from pdnas.ops import Adjacency
from pdnas.tasks import GraphTask
from pdnas.tasks.labels import Kind
from pdnas.training import seeds as trainings
from pdnas.training.batching import Batches
from pdnas.training.epochs import training_loss
from pdnas.training.fit import fit
from pdnas.training.recipe import Recipe
from pdnas.training.seeds import train_once
from pdnas.training.teaching import mean_answers, teacher_seeds, teaching_loss


class Says(nn.Module):
    """A network that says the same of every node."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, x: Tensor, _: Adjacency) -> Tensor:
        assert not self.training
        return self.logits.expand(x.shape[0], -1)


def test_the_mean_answer_is_the_mean_of_probabilities(tiny_task: GraphTask) -> None:
    sure, unsure = Says(torch.inf, 0.0, 0.0), Says(0.0, 0.0, 0.0)
    sure.logits = torch.tensor([200.0, 0.0, 0.0])
    (answers,) = mean_answers([sure, unsure], tiny_task)
    expected = torch.tensor([(1 + 1 / 3) / 2, 1 / 6, 1 / 6]).expand(20, 3)
    torch.testing.assert_close(answers, expected)


def test_every_graph_has_its_answers_and_every_label_its_own(many_graphs: GraphTask) -> None:
    answers = mean_answers([Says(0.0, 200.0), Says(0.0, -200.0)], many_graphs)
    assert [len(answer) for answer in answers] == list(range(5, 12))
    assert all(torch.equal(answer, torch.full_like(answer, 0.5)) for answer in answers)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # -(0.75 log 0.5 + 0.25 log 0.5) for one node of two classes, and for each of two labels.
        ("single-label", 0.693147),
        ("multi-label", 0.693147),
    ],
)
def test_the_loss_is_a_cross_entropy(kind: Kind, expected: float) -> None:
    logits, answers = torch.zeros(1, 2), torch.tensor([[0.75, 0.25]])
    assert teaching_loss(logits, answers, kind).item() == pytest.approx(expected, abs=1e-6)


@given(logits=st.lists(st.floats(-5, 5), min_size=3, max_size=3))
@pytest.mark.parametrize("kind", ["single-label", "multi-label", "binary"])
def test_whoever_answers_as_the_teachers_has_nothing_to_learn(
    kind: Kind, logits: list[float]
) -> None:
    own = torch.tensor([logits], dtype=torch.float64)
    own = own[:, :1] if kind == "binary" else own
    answers = own.softmax(1) if kind == "single-label" else own.sigmoid()
    own.requires_grad_()
    (grad,) = torch.autograd.grad(teaching_loss(own, answers, kind), own)
    torch.testing.assert_close(grad, torch.zeros_like(grad))


@given(seed=st.integers(0, 2**63 - 1), count=st.integers(1, 64))
def test_teachers_have_seeds_of_their_own(seed: int, count: int) -> None:
    seeds = teacher_seeds(seed, count)
    assert len({seed, *seeds}) == count + 1
    assert all(0 <= other < 2**63 for other in seeds)
    assert seeds == teacher_seeds(seed, count)
    assert not {*seeds} & {*teacher_seeds((seed + 1) % 2**63, count)}


def test_answers_follow_their_graphs(many_graphs: GraphTask) -> None:
    answers = [
        torch.full((graph.num_nodes, 2), float(n)) for n, graph in enumerate(many_graphs.graphs)
    ]
    two, one = Batches(many_graphs, "test", 2, answers), Batches(many_graphs, "val", 1, answers)
    (both,), (single,) = two.in_order(), one.in_order()
    assert both.answers is not None
    assert both.answers[:, 0].tolist() == [5.0] * 10 + [6.0] * 11
    assert single.answers is not None
    assert single.answers[:, 0].tolist() == [4.0] * 9
    assert all(batch.answers is None for batch in Batches(many_graphs, "test").in_order())


def test_copies_have_the_same_answers(tiny_task: GraphTask) -> None:
    answers = torch.rand(20, 3)
    (batch,) = Batches(tiny_task, "train", answers=[answers]).in_order()
    assert batch.answers is answers
    repeated = batch.repeated(3).answers
    assert repeated is not None
    assert torch.equal(repeated, torch.cat([answers] * 3))


def test_what_teachers_say_is_part_of_the_loss_on_all_nodes(
    architecture: Architecture, tiny_task: GraphTask
) -> None:
    network, recipe = GraphNetwork(architecture, tiny_task, 4).eval(), Recipe()
    graph, answers = tiny_task.graphs[0], torch.rand(20, 3).softmax(1)
    losses = []
    for said in (None, [answers]):
        (batch,) = Batches(tiny_task, "train", answers=said).in_order()
        losses.append(training_loss(network, batch, tiny_task, recipe, 0.0))
    logits = network(graph.x, graph.adjacency)
    expected = teaching_loss(logits, answers, "single-label")
    torch.testing.assert_close(losses[1] - losses[0], expected)


def test_teachers_are_trained_first_and_the_network_alone_learns_from_them(
    architecture: Architecture,
    tiny_task: GraphTask,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[tuple[Recipe, bool]] = []
    seen: list[int] = []

    def watched(*arguments: object, **more: object) -> object:
        used = arguments[2]
        assert isinstance(used, Recipe)
        begun.append((used, more["answers"] is not None))
        return fit(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(trainings, "fit", watched)
    several = recipe.changed(copies=2, node_dropout=0.25, teachers=2)
    _, outcome = train_once(
        architecture,
        tiny_task,
        hidden=4,
        recipe=several,
        seed=3,
        on_epoch=lambda epoch: seen.append(epoch.epoch),
    )
    alone = several.changed(teachers=0)
    assert begun == [(alone, False), (alone, False), (alone.changed(copies=1), True)]
    assert seen == list(range(outcome.epochs)), "teachers are not part of the history"


def test_a_training_with_teachers_depends_on_nothing_but_its_seed(
    architecture: Architecture, tiny_task: GraphTask, recipe: Recipe
) -> None:
    taught = recipe.changed(teachers=2)
    one, two, other = (
        train_once(architecture, tiny_task, hidden=4, recipe=taught, seed=seed)[0].state_dict()
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
