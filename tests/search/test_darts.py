"""Differentiable search: its two steps, what it learns, what it derives, and what it warns of."""

import math
from contextlib import AbstractContextManager
from typing import Any, cast

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch_geometric.data import Data

from pdnas.errors import SearchError
from pdnas.ops import SLOTS
from pdnas.search import Problem
from pdnas.search.base import never
from pdnas.search.darts import Darts, DartsSearch
from pdnas.search.shared import SETTLED, UNDECIDED
from pdnas.space import PAPER, SPACES, SearchSpace
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.metrics import loss

PLAIN = Recipe(dropout=0.0, input_dropout=0.0)

SMALL = PAPER.model_copy(
    update={
        "name": "small",
        "expansion": (0, 1),
        "attention": ("const", "gat"),
        "heads": (1, 2),
        "activation": ("tanh", "relu"),
    }
)


def problem(task: GraphTask, space: SearchSpace = SMALL, **values: Any) -> Problem:
    return Problem(task, space, 2, 4, values.pop("recipe", PLAIN), **values)


def begun(given: Problem, **values: Any) -> AbstractContextManager[DartsSearch]:
    return cast(AbstractContextManager[DartsSearch], Darts(**values).begin(given))


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": 0},
        {"weight_lr": 0.0},
        {"architecture_lr": -1},
        {"architecture_decay": -0.1},
        {"pool": 0},
        {"unrolled": True},
    ],
)
def test_impossible_settings_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Darts(**values)


def test_a_shorter_search_proposes_fewer_architectures() -> None:
    settings = Darts(epochs=40, pool=16)
    assert settings.lasting(10) == Darts(epochs=10, pool=4)
    assert settings.lasting(1).pool == 1
    assert Darts(pool=33).refining == 3


def test_at_first_every_op_is_as_likely_and_every_gate_half_open(tiny_task: GraphTask) -> None:
    with begun(problem(tiny_task, SPACES["extended"])) as search:
        op_probs, gates = search._probs()
    counts = search.controller.mask.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(op_probs, search.controller.mask / counts)
    assert gates.tolist() == [[0.5, 0.5], [0.0, 0.5]]


def val_loss(search: DartsSearch, op_logits: Tensor, gate_logits: Tensor) -> Tensor:
    """The mixture's loss on validation, spelled out."""
    (batch,) = search.shared.val.in_order()
    probs = op_logits.masked_fill(~search.controller.mask, -torch.inf).softmax(dim=-1)
    gates = gate_logits.sigmoid()
    logits = search.mixture.eval()(batch.x, batch.adjacency, op_probs=probs, gates=gates)
    return loss(batch.select(logits), batch.y, "single-label")


def test_the_first_step_of_the_logits_goes_down_the_validation_loss(tiny_task: GraphTask) -> None:
    """By Adam's first step: the learning rate, against the sign of each gradient."""
    with begun(problem(tiny_task), architecture_lr=0.01) as search:
        start = [
            torch.zeros(search.controller.mask.shape, requires_grad=True),
            torch.zeros(2, 2, requires_grad=True),
        ]
        before = val_loss(search, *start)
        grads = torch.autograd.grad(before, start)
        epoch = search.step()
    # What validation says is of the mixture before either step.
    assert epoch.val_loss == pytest.approx(before.item(), abs=1e-5)
    steps = [
        search.controller.prior.detach().view(start[0].shape),
        search.router.gate_logits.detach(),
    ]
    for step, grad in zip(steps, grads, strict=True):
        moved = grad.abs() > 1e-5  # far above Adam's epsilon
        assert moved.sum() >= 3
        torch.testing.assert_close(step[moved], -0.01 * grad[moved].sign(), rtol=1e-2, atol=0)


def test_an_epoch_moves_all_weights_on_training_and_leaves_no_gradient(
    tiny_task: GraphTask,
) -> None:
    with begun(problem(tiny_task)) as search:
        before = {n: w.detach().clone() for n, w in search.shared.supernet.named_parameters()}
        search.step()
        after = dict(search.shared.supernet.named_parameters())
    assert [name for name in before if torch.equal(before[name], after[name])] == []
    assert all(weight.grad is None and weight.requires_grad for weight in after.values())


def test_labels_of_the_test_part_play_no_role(tiny_task: GraphTask) -> None:
    epochs = []
    for shift in (0, 1):
        graph = tiny_task.graphs[0]
        y = graph.y.clone()
        y[tiny_task.split.test] = (y[tiny_task.split.test] + shift) % 3
        data = Data(x=graph.x, edge_index=graph.edge_index, y=y)
        for part in ("train", "val", "test"):
            data[f"{part}_mask"] = torch.zeros(20, dtype=torch.bool)
            data[f"{part}_mask"][getattr(tiny_task.split, part)] = True
        with begun(problem(GraphTask.from_data(data, name="tiny"))) as search:
            epochs.append([search.step() for _ in range(3)])
    assert epochs[0] == epochs[1]


def test_the_recipe_decides_dropout_and_consistency(tiny_task: GraphTask) -> None:
    losses = set()
    for recipe in (PLAIN, Recipe(), PLAIN.changed(copies=2, node_dropout=0.5)):
        with begun(problem(tiny_task, recipe=recipe)) as search:
            search.step()
            losses.add(search.step().train_loss)
    assert len(losses) == 3


def planted(told_by: str) -> GraphTask:
    """120 nodes in pairs; a node's label is a feature of its own, or of its partner."""
    generator = torch.Generator().manual_seed(1)
    nodes, kinds = torch.arange(120), torch.randint(3, (120,), generator=generator)
    partners = nodes ^ 1
    x = torch.nn.functional.one_hot(kinds, 3).float()
    y = kinds if told_by == "node" else kinds[partners]
    data = Data(x=x, edge_index=torch.stack([nodes, partners]), y=y)
    for number, part in enumerate(("train", "val", "test")):
        data[f"{part}_mask"] = nodes // 2 % 3 == number
    return GraphTask.from_data(data, name=f"told by the {told_by}")


@pytest.mark.parametrize(
    ("told_by", "combine", "better"), [("node", "none", 0), ("partner", "root", 1)]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_op_that_tells_the_labels_wins(
    told_by: str, combine: str, better: int, seed: int
) -> None:
    """Without messages a block knows the node alone.

    With them it knows the sum of node and partner (``none``), which leaves open who is who, or both
    (``root``), of whom only the partner tells.
    """
    space = SearchSpace(
        name="planted",
        expansion=(0,),
        propagation=(1, 0),
        attention=("const",),
        heads=(1,),
        aggregation=("mean",),
        combine=(combine,),
        activation=("none",),
        shortcuts="none",
    )
    given = Problem(planted(told_by), space, 1, 4, PLAIN, seed=seed)
    with begun(given, epochs=80, weight_lr=0.02) as search:
        while not search.is_over:
            epoch = search.step()
        probs = search._probs()[0][0, list(SLOTS).index("propagation")]
    assert epoch.val > 0.95
    assert probs[space.propagation.index(better)] > 0.8
    assert search.favored().blocks[0].propagation == better


@torch.no_grad()
def test_the_likeliest_ops_and_the_gates_above_a_half_are_favored(tiny_task: GraphTask) -> None:
    with begun(problem(tiny_task)) as search:
        op_index = torch.zeros(2, len(SLOTS), dtype=torch.long)
        names = list(SLOTS)
        op_index[:, names.index("attention")] = 1
        op_index[0, names.index("activation")] = 1
        op_index[1, names.index("heads")] = 1
        logits = torch.zeros(search.controller.mask.shape)
        search.controller.prior.copy_(logits.scatter(-1, op_index.unsqueeze(-1), 0.1).flatten())
        search.router.gate_logits.copy_(torch.tensor([[0.1, -0.1], [9.0, 0.1]]))
        favored = search.favored()
    assert favored == search.shared.supernet.architecture(op_index, torch.eye(2))


def test_the_favored_one_is_proposed_first_and_the_others_by_validation(
    tiny_task: GraphTask,
) -> None:
    with begun(problem(tiny_task), epochs=5, pool=8) as search:
        while not search.is_over:
            search.step()
        first, *others = search.candidates()
        assert first.architecture == search.favored()
        assert len(others) == 7
        assert [one.val for one in others] == sorted((one.val for one in others), reverse=True)
        assert first == search.shared.rate(first.architecture)


def test_the_paper_proposes_one_network(tiny_task: GraphTask) -> None:
    with begun(problem(tiny_task), pool=1) as search:
        assert [one.architecture for one in search.candidates(never)] == [search.favored()]


def test_shortcuts_that_cannot_fit_are_not_part_of_the_mixture(tiny_task: GraphTask) -> None:
    free = problem(tiny_task)
    room = free.parameters(free.smallest)
    for slack, names in ((0, []), (12, ["1_1"]), (20, ["0_0", "0_1", "1_1"])):
        with begun(problem(tiny_task, max_parameters=room + slack)) as search:
            assert sorted(search.mixture.shortcuts) == names
            assert search.step().details["gate_probs"] == [
                round(1000 * gate) for gate in search._probs()[1][search.router.possible].tolist()
            ]


def test_what_is_kept_of_an_epoch_are_the_probabilities_per_mille(tiny_task: GraphTask) -> None:
    with begun(problem(tiny_task)) as search:
        details = search.step().details
    for block in range(2):
        for place, slot in enumerate(SLOTS):
            row = details["op_probs"][block][place]
            assert len(row) == len(SMALL.candidates(slot, last=block == 1))
            assert abs(sum(row) - 1000) <= 1


def test_a_loss_that_is_no_number_ends_the_search(tiny_task: GraphTask) -> None:
    with begun(problem(tiny_task), weight_lr=0.25) as search:
        with torch.no_grad():
            for weight in search.shared.supernet.parameters():
                weight.fill_(math.nan)
        with pytest.raises(SearchError, match=r"finite at epoch 0 .* --weight-lr, now 0\.25"):
            search.step()


COLLAPSED, DULL = "The mixture collapsed", "The mixture never sharpened"


@pytest.mark.parametrize(
    ("early", "last", "expected"),
    [
        (1.0, 0.5, []),
        (SETTLED + 0.01, 0.5, []),
        (SETTLED - 0.01, 0.5, [COLLAPSED]),
        (1.0, UNDECIDED - 0.01, []),
        (1.0, UNDECIDED + 0.01, [DULL]),
        (SETTLED - 0.01, UNDECIDED + 0.01, [COLLAPSED, DULL]),
    ],
)
def test_a_mixture_that_settled_at_once_or_never_is_told_of(
    early: float,
    last: float,
    expected: list[str],
    tiny_task: GraphTask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with begun(problem(tiny_task), epochs=20) as search:
        assert search.warnings() == []
        search.epoch = 20
        search._entropies = torch.tensor([1.0] * 4 + [early] + [0.0] * 15)
        monkeypatch.setattr("pdnas.search.darts.mean_entropy", lambda *_: last)
        found = search.warnings()
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))


def test_where_there_is_nothing_to_choose_there_is_nothing_to_warn_of(
    tiny_task: GraphTask,
) -> None:
    single = SMALL.model_copy(update={slot: getattr(SMALL, slot)[:1] for slot in SLOTS})
    with begun(problem(tiny_task, single)) as search:
        search.step()
        assert search.warnings() == []
        assert search.favored() in single
