"""The paper's search: its constants, algorithm 1 step by step, and what it proposes in the end."""

import copy
import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch_geometric.data import Data

from pdnas.architecture import Architecture
from pdnas.errors import SearchError
from pdnas.models import GraphNetwork
from pdnas.ops import SLOTS
from pdnas.search import Candidate, Problem, SearchEpoch, shared
from pdnas.search import pdnas as module
from pdnas.search.additive import AdditiveModel
from pdnas.search.pdnas import PRESETS, Estimator, Pdnas, PdnasSearch
from pdnas.search.shared import SETTLED, UNDECIDED
from pdnas.space import SPACES, SearchSpace
from pdnas.supernet.router import Gating
from pdnas.tasks import GraphTask
from pdnas.tasks.source import source_from_graphs
from pdnas.tasks.splits import PARTS
from pdnas.training import Recipe
from pdnas.training.batching import Batches, Part
from pdnas.training.epochs import evaluate
from pdnas.training.fit import DIGITS
from pdnas.training.metrics import loss

PAPER = SPACES["paper"]

SMALL = SearchSpace(
    name="small",
    expansion=(1, 2),
    attention=("const", "gcn", "gat"),
    heads=(1, 2),
    aggregation=("sum", "mean"),
    combine=("add",),
    activation=("relu", "elu"),
)

ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
GATINGS: tuple[Gating, ...] = get_args(Gating)


def settings(preset: str = "paper", **values: Any) -> Pdnas:
    """A preset with some values changed; if it lets candidates adapt, then few and briefly."""
    few = {"adapted": min(PRESETS[preset].adapted, 2), "adapt_epochs": 2}
    return PRESETS[preset].changed(**{**few, **values})


def problem(task: GraphTask, **values: Any) -> Problem:
    given = {"space": PAPER, "num_blocks": 2, "hidden": 4, "recipe": Recipe(), **values}
    return Problem(task, **given)


@contextmanager
def begun(strategy: Pdnas, given: Problem) -> Iterator[PdnasSearch]:
    with strategy.begin(given) as search:
        assert isinstance(search, PdnasSearch)
        yield search


def run(search: PdnasSearch, count: int | None = None) -> list[SearchEpoch]:
    """Some epochs, or all that are left."""
    return [search.step() for _ in range(search.epochs - search.epoch if count is None else count)]


def saved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As they come back from a file."""
    return load(save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}))


def is_same(one: Mapping[Any, Tensor], other: Mapping[Any, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def open_gates(search: PdnasSearch, epoch: SearchEpoch) -> Tensor:
    """The gates of an epoch, ``[L, L]``; with soft ones every shortcut is part of the path."""
    gates = torch.zeros(search.router.possible.shape)
    gates[search.router.possible] = torch.tensor(epoch.details["gates"]) / 1000
    return search.router.possible.float() if search.settings.gating == "soft" else gates


def path_of(search: PdnasSearch, epoch: SearchEpoch) -> Architecture:
    """What an epoch says that it tried."""
    index = torch.tensor(epoch.details["path"])
    return search.supernet.architecture(index, open_gates(search, epoch))


# The paper's constants.


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("epochs", 400, id="section 4.1: MaxIter"),
        pytest.param("weight_lr", 0.005, id="section 4.1: rate of w"),
        pytest.param("architecture_lr", 0.002, id="section 4.1: rate of a"),
        pytest.param("anneal_start", 80, id="section 3.2, temperature: e_s"),
        pytest.param("anneal_rate", 1.0, id="section 3.2, temperature: alpha"),
        pytest.param("estimator", "scaled", id="algorithm 1: P[Index]"),
        pytest.param("gate_noise", "gumbel", id="equation 4: Gumbel(0, 1)"),
        pytest.param("gating", "soft", id="equation 5: gates between 0 and 1"),
        pytest.param("controller", "mlp", id="section 3.1, controller: an MLP"),
        pytest.param("graph_summary", "off", id="section 3.1, controller: results without"),
        pytest.param("warm_up", 0, id="algorithm 1: no warm-up"),
        pytest.param("train_steps", 1, id="algorithm 1: TrainStep"),
        pytest.param("pool", 1, id="equation 2: the argmax alone"),
        pytest.param("adapted", 0, id="equation 2: as the search ends"),
    ],
)
def test_the_preset_paper_holds_the_constants_of_the_paper(field: str, value: object) -> None:
    assert getattr(PRESETS["paper"], field) == value


def test_the_preset_paper_leaves_no_setting_to_a_default() -> None:
    given = PRESETS["paper"].model_fields_set | {"name", "adapt_epochs"}  # nothing adapts
    assert given == set(Pdnas.model_fields)


def test_weights_and_architecture_have_an_adam_of_their_own_rate(tiny_task: GraphTask) -> None:
    """Section 3.3: Opt is Adam; section 4.1: its rates."""
    with begun(PRESETS["paper"], problem(tiny_task)) as search:
        optimizers = (search.shared.optimizer, search.architecture_optimizer)
        assert [type(optimizer) for optimizer in optimizers] == [torch.optim.Adam] * 2
        assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [0.005, 0.002]
        decays = [optimizer.param_groups[0]["weight_decay"] for optimizer in optimizers]
        assert decays == [Recipe().weight_decay, 0]
        weights, choosers = (set(one.param_groups[0]["params"]) for one in optimizers)
        assert weights == set(search.supernet.parameters())
        assert choosers == {*search.controller.parameters(), *search.router.parameters()}


def test_networks_drop_out_as_the_recipe_says(tiny_task: GraphTask) -> None:
    recipe = Recipe(input_dropout=0.1, dropout=0.2, attention_dropout=0.3)
    with begun(PRESETS["paper"], problem(tiny_task, recipe=recipe)) as search:
        network = search.network(search.favored())
    assert (network.input_dropout, network.dropout) == (0.1, 0.2)
    assert {block.attention_dropout for block in network.blocks} == {0.3}


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, 1.0),
        (79, 1.0),
        (80, 1.0),
        (81, math.exp(-1 / 400)),
        (240, math.exp(-160 / 400)),
        (399, math.exp(-319 / 400)),
    ],
)
def test_the_temperature_follows_the_schedule_of_the_paper(
    tiny_task: GraphTask, epoch: int, expected: float
) -> None:
    """Section 3.2: 1 before e_s = 80, then exp(-(e - e_s) / 400)."""
    with begun(PRESETS["paper"], problem(tiny_task, space=SMALL)) as search:
        search.epoch = epoch
        assert search.step().details["temperature"] == pytest.approx(expected, abs=1e-6)


class Draws:
    """The random numbers of the next epoch of a search, and what the equations make of them.

    Controller and router are copies in double precision, as they are before the epoch.
    """

    def __init__(self, search: PdnasSearch) -> None:
        self.controller = copy.deepcopy(search.controller).double()
        self.router = copy.deepcopy(search.router).double()
        generator = torch.Generator()
        generator.set_state(search.tensors()["generator"])
        self.ops = torch.rand(self.controller.mask.shape, generator=generator).double()
        gates = torch.rand(self.router.possible.shape, generator=generator).double()
        self.gates = -(-gates.log()).log()  # Gumbel(0, 1)
        if search.settings.gate_noise == "logistic":
            self.gates = gates.log() - (1 - gates).log()

    def op_probs(self, heat: float) -> Tensor:
        """Equation 3: (P + tau U) / Z."""
        noisy = self.controller() + heat * self.ops * self.controller.mask
        probs: Tensor = noisy / noisy.sum(dim=-1, keepdim=True)
        return probs

    def soft_gates(self, heat: float) -> Tensor:
        """Equation 4, with log a as the trainable prior; 0 where there is no shortcut."""
        logits = (self.router.gate_logits + self.gates) / heat
        return self.router.possible / (1 + (-logits).exp())


@pytest.mark.parametrize("preset", ["paper", "straight-through"])
def test_a_path_is_drawn_by_equations_2_to_4(tiny_task: GraphTask, preset: str) -> None:
    strategy = settings(preset, epochs=12, anneal_start=2, architecture_lr=0.1)
    with begun(strategy, problem(tiny_task)) as search:
        for number in range(12):
            draws, heat = Draws(search), math.exp(-max(0, number - 2) / 12)
            details = search.step().details
            with torch.no_grad():
                assert details["path"] == draws.op_probs(heat).argmax(dim=-1).tolist()
                gates = draws.soft_gates(heat)[search.router.possible]
            if strategy.gating == "hard":
                gates = (gates > 0.5).double()
            assert details["gates"] == pytest.approx((1000 * gates).tolist(), abs=0.51)


# Algorithm 1.


def snapshot(search: PdnasSearch) -> dict[nn.Parameter, list[Tensor]]:
    """Every shared weight with what its optimizer keeps of it."""
    state = search.shared.optimizer.state
    return {
        weight: [weight.detach().clone(), *(v.clone() for v in state.get(weight, {}).values())]
        for weight in search.supernet.parameters()
    }


def chooser_values(search: PdnasSearch) -> dict[str, Tensor]:
    """Controller, router and summary."""
    return {
        name: value.clone()
        for name, value in search.tensors().items()
        if name.startswith("choosers/values/")
    }


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("gating", GATINGS)
def test_an_epoch_changes_the_weights_of_its_path_and_nothing_else_of_the_supernet(
    tiny_task: GraphTask, estimator: Estimator, gating: Gating
) -> None:
    strategy = settings(epochs=12, controller="logits", estimator=estimator, gating=gating)
    with begun(strategy, problem(tiny_task)) as search:
        run(search, 8)
        for _ in range(3):
            before = snapshot(search)
            epoch = search.step()
            after = snapshot(search)
            changed = {
                weight
                for weight, old in before.items()
                if len(old) != len(after[weight]) or not all(map(torch.equal, old, after[weight]))
            }
            assert changed == set(search.supernet.network(path_of(search, epoch)).parameters())
            assert all(weight.grad is None for weight in search.supernet.parameters())


@pytest.mark.parametrize("estimator", ["scaled", "straight-through"])
def test_controller_and_router_are_left_alone_until_the_warm_up_is_over(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings(epochs=8, warm_up=4, controller="logits", estimator=estimator)
    with begun(strategy, problem(tiny_task)) as search:
        values = [chooser_values(search)]
        for _ in range(6):
            search.step()
            values.append(chooser_values(search))
    assert all(is_same(one, values[0]) for one in values[1:5])
    learned = ["choosers/values/0.prior", "choosers/values/1.gate_logits"]
    for before, after in ((4, 5), (5, 6)):
        for name in learned:
            assert not torch.equal(values[before][name], values[after][name])


def paths_of_a_convinced_search(tiny_task: GraphTask, warm_up: int) -> set[Architecture]:
    """The paths that are tried where the controller is sure of one and the router of no gate."""
    strategy = settings("straight-through", epochs=12, warm_up=warm_up)
    with begun(strategy, problem(tiny_task)) as search, torch.no_grad():
        search.controller.prior.view(search.controller.mask.shape)[..., 0] = 50.0
        search.router.gate_logits.fill_(-50.0)
    with begun(strategy, problem(tiny_task)) as again:
        again.restore(saved(search.state()))
        return {path_of(again, epoch) for epoch in run(again)}


def test_in_the_warm_up_all_paths_are_as_likely_whatever_is_believed(tiny_task: GraphTask) -> None:
    # Twelve of 11,289,600 paths: two alike would be a miracle. Half of the 36 gates are open.
    fair = paths_of_a_convinced_search(tiny_task, warm_up=12)
    assert len(fair) == 12
    assert 6 < sum(len(path.gates) for path in fair) < 30
    (alone,) = paths_of_a_convinced_search(tiny_task, warm_up=0)
    assert alone.gates == ()


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("train_steps", [1, 3])
def test_an_epoch_takes_its_training_steps_and_then_looks_at_validation(
    tiny_task: GraphTask,
    estimator: Estimator,
    train_steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels: list[Tensor] = []
    parts: list[str] = []
    modes: list[bool] = []
    forward = GraphNetwork.forward

    def watched(network: GraphNetwork, *given: Any, **settings: Any) -> Tensor:
        modes.append(network.training)
        return forward(network, *given, **settings)

    def spy(logits: Tensor, y: Tensor, kind: Any) -> Tensor:
        labels.append(y)
        return loss(logits, y, kind)

    class Watched(Batches):
        def __init__(self, task: GraphTask, part: Part, size: int = 1, **others: Any) -> None:
            parts.append(part)
            super().__init__(task, part, size, **others)

    monkeypatch.setattr(GraphNetwork, "forward", watched)
    epochs = importlib.import_module("pdnas.training.epochs")
    for place in (shared, epochs):
        monkeypatch.setattr(place, "loss", spy)
        monkeypatch.setattr(place, "Batches", Watched)
    strategy = settings(
        epochs=4, train_steps=train_steps, controller="logits", estimator=estimator, pool=3
    )
    with begun(strategy, problem(tiny_task)) as search:
        epoch = search.step()
        weight = next(iter(search.supernet.network(path_of(search, epoch)).parameters()))
        assert search.shared.optimizer.state[weight]["step"].item() == train_steps
        in_epoch = len(labels)
        search.candidates()
    train, val = tiny_task.labels("train"), tiny_task.labels("val")
    assert in_epoch > train_steps
    assert all(torch.equal(y, train) for y in labels[:train_steps])
    assert all(torch.equal(y, val) for y in labels[train_steps:])
    assert set(parts) == {"train", "val"}
    assert modes == [True] * train_steps + [False] * (len(modes) - train_steps)


def relabeled(task: GraphTask, part: Part) -> GraphTask:
    """The same task with other labels in one part."""
    graph, nodes = task.graphs[0], torch.arange(20)
    index: Tensor = getattr(task.split, part)
    y = graph.y.index_copy(0, index, (graph.y[index] + 1) % 3)
    data = Data(x=graph.x, edge_index=graph.edge_index, y=y)
    for name in PARTS:
        data[f"{name}_mask"] = torch.isin(nodes, getattr(task.split, name))
    return GraphTask.from_data(data, name="tiny")


@pytest.mark.parametrize("estimator", ["scaled", "straight-through"])
def test_weights_learn_from_training_and_choices_from_validation(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    weights, choosers = {}, {}
    parts: list[Part | None] = [None, "train", "val"]
    for part in parts:
        task = tiny_task if part is None else relabeled(tiny_task, part)
        strategy = settings(epochs=4, controller="logits", estimator=estimator)
        with begun(strategy, problem(task)) as search:
            search.step()
        weights[part] = search.supernet.state_dict()
        choosers[part] = search.controller.state_dict()
    assert is_same(weights[None], weights["val"])
    assert not is_same(weights[None], weights["train"])
    assert not is_same(choosers[None], choosers["val"])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_loss_that_is_not_finite_ends_the_search_with_a_sentence(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings(epochs=9, controller="logits", estimator=estimator, weight_lr=1e30)
    with (
        begun(strategy, problem(tiny_task)) as search,
        pytest.raises(SearchError, match=r"no longer finite at epoch \d .*lower --weight-lr"),
    ):
        run(search)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_label_of_the_test_part_decides_anything(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    outcomes = []
    for task in (tiny_task, relabeled(tiny_task, "test")):
        strategy = settings(epochs=5, controller="logits", estimator=estimator, pool=4)
        with begun(strategy, problem(task)) as search:
            outcomes.append((run(search), search.candidates()))
    assert outcomes[0] == outcomes[1]


# The gradient.


GRADIENTS: list[tuple[Estimator, Gating, str, str]] = [
    ("scaled", "soft", "mlp", "gumbel"),
    ("scaled", "hard", "logits", "logistic"),
    ("straight-through", "soft", "mlp", "gumbel"),
    ("straight-through", "hard", "logits", "logistic"),
]


@pytest.mark.parametrize("space", ["paper", "extended"])
@pytest.mark.parametrize(("estimator", "gating", "controller", "noise"), GRADIENTS)
def test_the_architecture_follows_the_slope_of_the_validation_loss(
    tiny_task: GraphTask,
    estimator: Estimator,
    gating: Gating,
    controller: str,
    noise: str,
    space: str,
) -> None:
    """Central differences in double precision along a random direction of each parameter."""
    strategy = settings(
        epochs=20,
        anneal_start=2,
        architecture_lr=0.005,
        estimator=estimator,
        gating=gating,
        controller=controller,
        gate_noise=noise,
    )
    with begun(strategy, problem(tiny_task, space=SPACES[space])) as search:
        run(search, 6)
        draws, heat = Draws(search), math.exp(-4 / 20)
        epoch = search.step()
    index = torch.tensor(epoch.details["path"]).unsqueeze(-1)
    supernet = copy.deepcopy(search.supernet).double()
    network = supernet.network(path_of(search, epoch)).eval()
    batch = next(Batches(tiny_task, "val").in_order())
    assert isinstance(batch.x, Tensor)
    x, adjacency = batch.x.double(), batch.adjacency

    with torch.no_grad():
        first_probs = draws.op_probs(heat).gather(-1, index).squeeze(-1)
        first_gates = draws.soft_gates(heat)

    @torch.no_grad()
    def val_loss() -> float:
        probs, gates = draws.op_probs(heat).gather(-1, index).squeeze(-1), draws.soft_gates(heat)
        if estimator == "straight-through":
            probs = probs / first_probs
        if gating == "hard":
            gates = (first_gates > 0.5) + gates - first_gates
        scale = supernet.factors(network.architecture, probs)
        logits = network(x, adjacency, factors=scale, gates=gates)
        return float(loss(batch.select(logits), batch.y, "single-label"))

    assert epoch.val_loss == pytest.approx(val_loss(), abs=1e-5)
    moved = {**dict(draws.controller.named_parameters()), **dict(draws.router.named_parameters())}
    grads = {
        name: weight.grad
        for chooser in (search.controller, search.router)
        for name, weight in chooser.named_parameters()
    }
    assert moved.keys() == grads.keys()
    generator, tiny = torch.Generator().manual_seed(2), 1e-6
    for name, weight in moved.items():
        grad = grads[name]
        assert grad is not None
        # Half along the gradient itself, so that the slope is not lost among many zeros.
        direction = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        direction = direction / direction.norm() + grad.double() / grad.norm().double()
        losses = []
        for sign in (1, -2):
            with torch.no_grad():
                weight.add_(direction, alpha=sign * tiny)
            losses.append(val_loss())
        with torch.no_grad():
            weight.add_(direction, alpha=tiny)
        slope = (losses[0] - losses[1]) / (2 * tiny)
        expected = (grad.double() * direction).sum().item()
        assert slope == pytest.approx(expected, rel=2e-3, abs=1e-7), name
        assert expected > 1e-6, name  # or nothing would be told


@pytest.mark.parametrize("estimator", ["scaled", "straight-through"])
def test_straight_through_alone_validates_the_network_as_it_is(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings("straight-through", epochs=8, estimator=estimator)
    with begun(strategy, problem(tiny_task)) as search:
        epochs = []
        for _ in range(4):
            epoch = search.step()
            network = search.supernet.network(path_of(search, epoch))
            figures = evaluate(network, Batches(tiny_task, "val"), tiny_task)
            plain = [round(float(figure), DIGITS) for figure in figures]
            epochs.append([epoch.val_loss, epoch.val] == plain)
    assert epochs == [estimator == "straight-through"] * 4


@pytest.mark.parametrize("estimator", ["straight-through", "additive"])
def test_soft_gates_count_in_the_validation_of_the_warm_up(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings("default", epochs=8, warm_up=8, estimator=estimator, gating="soft")
    with begun(strategy, problem(tiny_task)) as search:
        draws = Draws(search)
        epoch = search.step()
        network = search.supernet.network(path_of(search, epoch)).eval()
    batch = next(Batches(tiny_task, "val").in_order())
    with torch.no_grad():
        gates = draws.soft_gates(1.0).float()
        logits = batch.select(network(batch.x, batch.adjacency, gates=gates))
    assert epoch.val_loss == pytest.approx(float(loss(logits, batch.y, "single-label")), abs=1e-5)


# Learning what each choice adds.


def plant(monkeypatch: pytest.MonkeyPatch, worth: Callable[[Architecture], float]) -> None:
    """Validation is what an architecture is worth, give or take a little."""
    generator = torch.Generator().manual_seed(3)

    def fake(network: GraphNetwork, *_: Any, **inputs: Any) -> tuple[Tensor, Tensor]:
        noise = 0.1 * float(torch.rand((), generator=generator))
        return torch.tensor(1.0), torch.tensor(worth(network.architecture) + noise)

    monkeypatch.setattr(shared, "evaluate", fake)


@pytest.mark.parametrize(
    ("attention", "opened", "closed"), [("gat", (0, 1), (1, 1)), ("gcn", (1, 1), (0, 1))]
)
def test_additive_comes_to_favor_what_is_better(
    tiny_task: GraphTask,
    attention: str,
    opened: tuple[int, int],
    closed: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def worth(architecture: Architecture) -> float:
        chosen = architecture.blocks[0].attention == attention
        return 0.2 * (chosen + (opened in architecture.gates) - (closed in architecture.gates))

    plant(monkeypatch, worth)
    strategy = settings("default", epochs=160, warm_up=110, pool=8)
    with begun(strategy, problem(tiny_task, space=SMALL)) as search:
        epochs = run(search)
        favored, best = search.favored(), search.candidates()[0].architecture

    place, number = list(SLOTS).index("attention"), SMALL.attention.index(attention)
    details = epochs[-1].details
    assert details["op_probs"][0][place][number] > 450  # 494 to 814 over twelve seeds
    gate_probs = dict(zip(SMALL.possible_gates(2), details["gate_probs"], strict=True))
    assert gate_probs[opened] > 800
    assert gate_probs[closed] < 200
    for found in (favored, best):
        assert found.blocks[0].attention == attention
        assert opened in found.gates
        assert closed not in found.gates
    picks = [epoch.details["path"][0][place] == number for epoch in epochs]
    assert sum(picks[:110]) < 0.5 * 110  # a third, all being as likely
    assert sum(picks[110:]) > 0.8 * 50


def test_additive_waits_for_a_quarter_of_the_epochs(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, lambda architecture: float(len(architecture.gates)))
    strategy = settings("default", epochs=40)
    with begun(strategy, problem(tiny_task, space=SMALL)) as search:
        start = chooser_values(search)
        run(search, 19)
        assert is_same(chooser_values(search), start)
        search.step()
        assert not is_same(chooser_values(search), start)
        assert len(search.tensors()["model/values"]) == 10


def test_a_logit_is_what_a_choice_adds_in_units_of_its_standard_error(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, lambda architecture: float(len(architecture.gates)))
    with begun(settings("default", epochs=30), problem(tiny_task, space=SMALL)) as search:
        run(search)
        state = search.tensors()
    model = AdditiveModel(state["model/choices"].size(1))
    for choices, value in zip(state["model/choices"], state["model/values"], strict=True):
        model.observe(choices, float(value))
    effects, errors = model.effects()
    learned = torch.cat(
        [search.controller.prior, search.router.gate_logits[search.router.possible]]
    )
    gates = [(0, 0), (0, 1), (1, 1)]  # the order of the space is that of the matrix here
    assert list(SMALL.possible_gates(2)) == gates
    torch.testing.assert_close(learned.detach().double(), effects / errors, rtol=1e-5, atol=1e-6)
    assert learned.abs().max() > 1


@pytest.mark.parametrize(("field", "value"), [("controller", "mlp"), ("graph_summary", "on")])
def test_additive_refuses_a_controller_whose_logits_it_cannot_set(field: str, value: str) -> None:
    with pytest.raises(SearchError, match=r"'additive' .*; use --controller logits .*\.$"):
        settings("default", **{field: value})
    with pytest.raises(SearchError, match="'additive'"):
        settings("straight-through", **{field: value}).changed(estimator="additive")


# What the search proposes.


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("pool", [2, 9])
def test_candidates_are_a_few_of_the_space_with_the_favored_among_them(
    tiny_task: GraphTask, estimator: Estimator, pool: int
) -> None:
    strategy = settings(
        epochs=12, controller="logits", estimator=estimator, pool=pool, gate_noise="logistic"
    )
    with begun(strategy, problem(tiny_task)) as search:
        run(search)
        favored, candidates = search.favored(), search.candidates()
    found = [candidate.architecture for candidate in candidates]
    assert len(set(found)) == len(found) <= pool
    assert len(found) >= pool - 1
    assert all(architecture in PAPER for architecture in found)
    assert favored in found


@pytest.mark.parametrize("estimator", ["scaled", "straight-through"])
def test_candidates_are_sorted_by_what_the_shared_weights_say(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings(epochs=6, controller="logits", estimator=estimator, pool=20)
    with begun(strategy, problem(tiny_task)) as search:
        run(search)
        candidates = search.candidates()
        for candidate in candidates:
            network = search.network(candidate.architecture)
            figures = evaluate(network, Batches(tiny_task, "val"), tiny_task)
            assert [candidate.loss, candidate.val] == pytest.approx(list(map(float, figures)))
    keys = [(-candidate.val, candidate.loss) for candidate in candidates]
    assert keys == sorted(keys)
    assert len(set(keys)) > 10


def worths(search: PdnasSearch, candidates: list[Candidate]) -> list[float]:
    """What the choices of each candidate add up to by the additive model."""
    values: list[float] = search.worth([one.architecture for one in candidates]).tolist()
    return values


def halves(
    search: PdnasSearch, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Candidate], list[Candidate]]:
    """The candidates that were drawn by what was learned, and those that were drawn blindly."""
    drawn: dict[bool, list[Architecture]] = {}
    draw = search._draw

    def watched(op_probs: Tensor, *given: Any) -> list[Architecture]:
        is_blind = op_probs is search._uniform
        drawn[is_blind] = draw(op_probs, *given)
        return drawn[is_blind]

    monkeypatch.setattr(search, "_draw", watched)
    candidates = search.candidates()
    learned, blind = set(drawn[False]), set(drawn[True])
    assert not learned & blind  # of as many as the space has, a few are never the same
    return (
        [one for one in candidates if one.architecture in learned],
        [one for one in candidates if one.architecture in blind],
    )


def test_learned_candidates_are_ranked_by_their_ops_and_by_themselves_and_blind_ones_by_themselves(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, lambda architecture: 0.1 * len(architecture.gates))
    strategy = settings("default", epochs=30, pool=40)
    with begun(strategy, problem(tiny_task)) as search:
        run(search)
        learned, blind = halves(search, monkeypatch)
    assert (len(learned), len(blind)) == (20, 20)
    state = search.tensors()
    seen = state["model/values"][state["model/groups"] == 1]  # apart from the paths of the search
    assert sorted(seen.tolist()) == pytest.approx(sorted(one.val for one in learned))
    pairs = list(zip(worths(search, learned), [one.val for one in learned], strict=True))
    for place, first in enumerate(pairs):
        for later in pairs[place + 1 :]:
            assert not (later[0] > first[0] and later[1] > first[1])
    # Neither of the two alone decides.
    assert [worth for worth, _ in pairs] != sorted((worth for worth, _ in pairs), reverse=True)
    assert [val for _, val in pairs] != sorted((val for _, val in pairs), reverse=True)
    assert [one.val for one in blind] == sorted((one.val for one in blind), reverse=True)


def test_among_learned_candidates_of_equal_validation_the_ops_decide(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = settings("default", epochs=30, pool=40)
    with begun(strategy, problem(tiny_task)) as search:
        run(search)
        same = (torch.tensor(1.0), torch.tensor(0.5))
        monkeypatch.setattr(shared, "evaluate", lambda *_, **inputs: same)
        learned, _ = halves(search, monkeypatch)
    found = worths(search, learned)
    assert found == sorted(found, reverse=True)


def test_blind_candidates_are_drawn_whatever_was_learned(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, lambda architecture: 10.0 * (architecture.blocks[0].attention == "gat"))
    with begun(settings("default", epochs=100, pool=40), problem(tiny_task)) as search:
        run(search)
        learned, blind = halves(search, monkeypatch)
    counts = [
        sum(one.architecture.blocks[0].attention == "gat" for one in half)
        for half in (learned, blind)
    ]
    assert counts[0] > 12
    assert counts[1] < 8  # a seventh of 20, and three standard deviations


def test_what_both_halves_have_keeps_its_better_place(tiny_task: GraphTask) -> None:
    given = problem(tiny_task)
    generator = torch.Generator().manual_seed(6)
    first, second, third = (
        Candidate(architecture=given.sample(generator), val=0.5, loss=1.0) for _ in range(3)
    )
    mixed = module._alternate([first, second], [third, first])
    assert mixed == [first, third, second]


def test_refined_candidates_are_sorted_and_no_worse_than_before(tiny_task: GraphTask) -> None:
    strategy = settings("default", epochs=12, pool=12, adapted=5, adapt_epochs=4)
    with begun(strategy, problem(tiny_task)) as search:
        run(search)
        plain = search.candidates()
        refined = search.refine(plain)
    assert {one.architecture for one in refined[:5]} == {one.architecture for one in plain[:5]}
    assert refined[5:] == plain[5:]
    keys = [(-one.val, one.loss) for one in refined[:5]]
    assert keys == sorted(keys)
    before = {one.architecture: (-one.val, one.loss) for one in plain}
    pairs = [(key, before[one.architecture]) for key, one in zip(keys, refined, strict=False)]
    assert all(now <= then for now, then in pairs)
    assert any(now < then for now, then in pairs)


def test_refining_trains_as_many_candidates_and_epochs_as_are_set(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[GraphNetwork] = []
    monkeypatch.setattr(shared, "train_epoch", lambda network, *_: trained.append(network))
    strategy = settings("default", epochs=4, pool=8, adapted=3, adapt_epochs=2)
    with begun(strategy, problem(tiny_task)) as search:
        plain = search.candidates()
        search.refine(plain)
    first = [candidate.architecture for candidate in plain[:3]]
    assert [network.architecture for network in trained] == [one for one in first for _ in range(2)]
    assert strategy.refining == 3 + len(trained), "eight ratings are about three epochs"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_looking_at_candidates_leaves_the_shared_weights_bit_for_bit(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings("default", epochs=8, warm_up=0, estimator=estimator, pool=6, adapted=3)
    with begun(strategy, problem(tiny_task)) as search:
        run(search)
        before = {name: value.clone() for name, value in search.tensors().items()}
        search.refine(search.candidates())
        after = search.tensors()
        changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert not [name for name in changed if name.startswith(("supernet/", "choosers/"))]
    assert all(weight.grad is None for weight in search.supernet.parameters())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_without_any_time_left_the_favored_is_proposed_and_nothing_is_trained(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings("default", epochs=8, warm_up=0, estimator=estimator, pool=40, adapted=9)
    with begun(strategy, problem(tiny_task)) as search:
        run(search)
        random = torch.get_rng_state()
        candidates = search.candidates(lambda: True)
        assert search.refine(candidates, lambda: True) == sorted(
            candidates, key=lambda one: (-one.val, one.loss)
        )
        found = [one.architecture for one in candidates]
        assert search.favored() in found
        assert len(found) <= 2  # the favored, and one more where half of them are drawn blindly
        assert torch.equal(torch.get_rng_state(), random)


@torch.no_grad()
def convince(search: PdnasSearch, strength: float = 0.1) -> Architecture:
    """Make an architecture the likeliest one, by so much."""
    wanted = PAPER.sample(2, torch.Generator().manual_seed(344))
    assert wanted.gates
    assert [spec.attention for spec in wanted.blocks] == ["gene-linear", "cos"]
    index = search.supernet.op_index(wanted).unsqueeze(-1)
    logits = torch.zeros(search.controller.mask.shape).scatter_(-1, index, strength)
    search.controller.prior.copy_(logits.flatten())
    search.router.gate_logits.fill_(-strength)
    for i, j in wanted.gates:
        search.router.gate_logits[i, j] = strength
    return wanted


def test_the_favored_network_is_the_likeliest_op_of_every_slot(tiny_task: GraphTask) -> None:
    with begun(settings("straight-through", epochs=6), problem(tiny_task)) as search:
        wanted = convince(search)
        assert search.favored() == wanted


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_of_a_pool_of_one_the_favored_is_the_only_candidate(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings("default", epochs=6, estimator=estimator, pool=1)
    with begun(strategy, problem(tiny_task)) as search:
        wanted = convince(search)
        assert [one.architecture for one in search.candidates()] == [wanted]


def test_candidates_are_drawn_from_controller_and_router(tiny_task: GraphTask) -> None:
    strategy = settings("straight-through", epochs=6, pool=20)
    with begun(strategy, problem(tiny_task)) as search:
        wanted = convince(search, strength=4.0)
        found = [one.architecture for one in search.candidates()]
    # Of seven attentions the wanted one is drawn with probability 0.90, each gate with 0.98.
    assert sum(one.blocks[0].attention == "gene-linear" for one in found) > 12
    assert sum(one.gates == wanted.gates for one in found) > 12


def test_heads_that_change_nothing_do_not_make_two_networks_of_one(tiny_task: GraphTask) -> None:
    strategy = settings("straight-through", epochs=6, pool=40)
    with begun(strategy, problem(tiny_task)) as search:
        blocks = [spec for one in search.candidates() for spec in one.architecture.blocks]
    fixed = [spec.heads for spec in blocks if spec.attention in ("const", "gcn")]
    learned = [spec.heads for spec in blocks if spec.attention not in ("const", "gcn")]
    assert set(fixed) == {1}
    assert set(learned) == {1, 2, 4, 8, 16}


# A number of parameters.


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("gating", GATINGS)
def test_what_is_trained_favored_and_proposed_keeps_to_the_number_of_parameters(
    tiny_task: GraphTask,
    estimator: Estimator,
    gating: Gating,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = problem(tiny_task)
    budget = free.parameters(free.smallest) + 40
    given = problem(tiny_task, max_parameters=budget)
    strategy = settings(epochs=6, controller="logits", estimator=estimator, gating=gating, pool=4)
    with begun(strategy, given) as search:
        lent: list[Architecture] = []
        lend = search.supernet.network
        monkeypatch.setattr(
            search.supernet,
            "network",
            lambda one: lent.append(one) or lend(one),  # type: ignore[func-returns-value]
        )
        run(search)
        trained = lent[:6]
        if gating == "soft":  # a shortcut in between is no choice yet, and all of them are lent
            trained = [one.model_copy(update={"gates": ()}) for one in trained]
        proposed = [search.favored(), *(one.architecture for one in search.candidates())]
    assert len(trained) == 6
    assert all(given.parameters(one) <= budget for one in [*trained, *proposed])


@pytest.mark.parametrize("gating", GATINGS)
def test_the_path_that_the_history_tells_keeps_to_the_number_of_parameters(
    tiny_task: GraphTask, gating: Gating
) -> None:
    free = problem(tiny_task)
    given = problem(tiny_task, max_parameters=free.parameters(free.smallest) + 40)
    with begun(settings(epochs=10, gating=gating), given) as search:
        paths = [path_of(search, epoch) for epoch in run(search)]
    if gating == "soft":
        paths = [path.model_copy(update={"gates": ()}) for path in paths]
    assert all(given.fits(path) for path in paths)
    assert len(set(paths)) > 1


def test_a_shortcut_that_no_network_can_afford_is_never_open(tiny_task: GraphTask) -> None:
    """From 5 features: 20 weights to the hidden channels, 15 to the logits, 12 from hidden."""
    free = problem(tiny_task)
    given = problem(tiny_task, max_parameters=free.parameters(free.smallest) + 15)
    with begun(PRESETS["paper"], given) as search:
        assert search.router.possible.tolist() == [[False, True], [False, True]]
        epoch = search.step()
    assert len(epoch.details["gates"]) == len(epoch.details["gate_probs"]) == 2


# The history.


def line_of(epoch: SearchEpoch) -> str:
    """A line of the history, as the whole job writes it."""
    figures = {key: value for key, value in vars(epoch).items() if key != "details"}
    line = {"phase": "search", "cell": 0, **figures, **epoch.details}
    text = json.dumps(line, allow_nan=False, separators=(",", ":"))
    assert json.loads(text) == line
    return text + "\n"


@pytest.mark.parametrize("preset", list(PRESETS))
def test_the_details_of_an_epoch_are_plain_and_complete(tiny_task: GraphTask, preset: str) -> None:
    with begun(settings(preset, epochs=5), problem(tiny_task, num_blocks=3)) as search:
        epochs = run(search)
    for number, epoch in enumerate(epochs):
        line_of(epoch)
        details = epoch.details
        assert epoch.epoch == number
        assert details.keys() == {"temperature", "path", "op_probs", "gate_probs", "gates"}
        counts = [
            [len(PAPER.candidates(slot, last=block == 2)) for slot in SLOTS] for block in range(3)
        ]
        assert [[len(slot) for slot in block] for block in details["op_probs"]] == counts
        for path, count in zip(details["path"], counts, strict=True):
            assert all(0 <= choice < many for choice, many in zip(path, count, strict=True))
        for block in details["op_probs"]:
            assert all(abs(sum(slot) - 1000) <= len(slot) / 2 for slot in block)
        for gates in (details["gates"], details["gate_probs"]):
            assert len(gates) == 6
            assert all(0 <= gate <= 1000 for gate in gates)
        if PRESETS[preset].gating == "hard":
            assert set(details["gates"]) <= {0, 1000}


def test_the_probabilities_of_an_epoch_are_those_that_it_began_with(tiny_task: GraphTask) -> None:
    strategy = settings("straight-through", epochs=6, architecture_lr=0.5)
    with begun(strategy, problem(tiny_task)) as search:
        run(search, 3)
        with torch.no_grad():
            expected = (1000 * search.controller()).round().int().tolist()
        found = search.step().details["op_probs"]
    counts = search.controller.mask.sum(dim=-1).tolist()
    for block, row, many in zip(found, expected, counts, strict=True):
        assert block == [probs[:count] for probs, count in zip(row, many, strict=True)]
    assert found[0][0] != [250] * 4


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize(("num_blocks", "epochs"), [(7, 4), (20, 7)])
def test_a_line_of_the_history_takes_two_kilobytes_at_most(
    tiny_task: GraphTask, preset: str, num_blocks: int, epochs: int
) -> None:
    with begun(settings(preset), problem(tiny_task, num_blocks=num_blocks)) as search:
        lengths = [len(line_of(epoch)) for epoch in run(search, epochs)]
    assert sum(lengths) / len(lengths) < 2048
    if num_blocks == 7:
        assert max(lengths) < 2048


def test_deep_networks_tell_their_probabilities_now_and_then_and_at_the_end(
    tiny_task: GraphTask,
) -> None:
    with begun(settings("default", epochs=6), problem(tiny_task, num_blocks=10)) as search:
        epochs = run(search)
    told = ["op_probs" in epoch.details for epoch in epochs]
    assert told == ["gate_probs" in epoch.details for epoch in epochs]
    assert told[0]
    assert told[-1]
    assert not any(told[1:3])
    assert all({"path", "gates"} <= epoch.details.keys() for epoch in epochs)


# The seed, and going on.

EVERY_KIND = [
    (estimator, summary, gating)
    for estimator in ESTIMATORS
    for summary in ("off", "on")
    for gating in GATINGS
    if (estimator, summary) != ("additive", "on")
]


def of_kind(estimator: Estimator, summary: str, gating: Gating) -> Pdnas:
    """Settings of a short search that learns something before its middle."""
    return settings(
        epochs=12 if estimator == "additive" else 7,
        warm_up=2,
        estimator=estimator,
        graph_summary=summary,
        gating=gating,
        controller="logits" if estimator == "additive" else "mlp",
        architecture_lr=0.05,
        pool=3,
    )


@pytest.mark.parametrize(("estimator", "summary", "gating"), EVERY_KIND)
def test_a_restored_search_goes_on_as_if_it_had_never_stopped(
    tiny_task: GraphTask, estimator: Estimator, summary: str, gating: Gating
) -> None:
    given, strategy = problem(tiny_task, space=SMALL), of_kind(estimator, summary, gating)
    with begun(strategy, given) as first:
        run(first, first.epochs // 2)
        state = saved(first.state())
        expected = (run(first), first.candidates(), first.favored(), first.warnings())
        end = saved(first.state())
    with begun(strategy, given) as second:
        run(second, 1)  # whatever it was doing
        second.restore(state)
        assert second.epoch == first.epochs // 2
        assert (run(second), second.candidates(), second.favored(), second.warnings()) == expected
        assert is_same(second.state(), end)


@pytest.mark.parametrize("preset", list(PRESETS))
def test_the_same_seed_gives_the_same_search_and_another_seed_another_path(
    tiny_task: GraphTask, preset: str
) -> None:
    outcomes, states = [], []
    for seed in (1, 1, 2):
        with begun(settings(preset, epochs=4, pool=3), problem(tiny_task, seed=seed)) as search:
            outcomes.append((run(search), search.candidates(), search.favored()))
            states.append(saved(search.state()))
    assert outcomes[0] == outcomes[1]
    assert is_same(states[0], states[1])
    assert outcomes[0][0][0].details["path"] != outcomes[2][0][0].details["path"]


# Warnings.

COLLAPSED, DULL = "The controller collapsed", "The controller never sharpened"


def logit_of(wanted: float) -> float:
    """How far one op of each slot must lie above the others for that entropy in the space SMALL."""

    def entropy(logit: float) -> float:
        shares = []
        for count in (2, 3, 2, 2, 2, 2, 3, 2, 2):  # the open slots of two blocks
            rest = 1 / (math.exp(logit) + count - 1)
            best = math.exp(logit) * rest
            bits = best * math.log(best) + (count - 1) * rest * math.log(rest)
            shares.append(-bits / math.log(count))
        return sum(shares) / len(shares)

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(middle) > wanted else (low, middle)
    return low


def warnings_of(task: GraphTask, strategy: Pdnas, entropies: list[float], last: float) -> list[str]:
    """The warnings of a search whose controller had these entropies, and has the last one now."""
    with begun(strategy, problem(task, space=SMALL)) as search:
        state = saved(search.state())
        state["epoch"] = torch.tensor(len(entropies))
        state["search/entropies"][: len(entropies)] = torch.tensor(entropies)
        prior = state["search/choosers/values/0.prior"].view(search.controller.mask.shape)
        prior[..., 0] = logit_of(last)
        search.restore(state)
        return [warning.partition(":")[0] for warning in search.warnings()]


@pytest.mark.parametrize(
    ("early", "last", "expected"),
    [
        ([], 1.0, []),
        ([1.0] * 5 + [0.01] * 15, 0.01, []),  # settled, but only after a quarter
        ([1.0] * 4 + [0.01] * 16, 0.01, [COLLAPSED]),
        ([1.0] * 4 + [SETTLED - 0.01] * 16, SETTLED - 0.01, [COLLAPSED]),
        ([1.0] * 4 + [SETTLED + 0.01] * 16, SETTLED + 0.01, []),
        ([1.0, 0.01] + [0.5] * 18, 0.5, [COLLAPSED]),
        ([0.01], 0.01, [COLLAPSED]),
        ([1.0] * 20, 0.5, []),
        ([1.0] * 20, UNDECIDED - 0.01, []),
        ([1.0] * 20, UNDECIDED + 0.01, [DULL]),
        ([1.0] * 10, 1.0, [DULL]),  # stopped in the middle
        ([0.01] * 10 + [1.0] * 10, 1.0, [COLLAPSED, DULL]),
    ],
)
def test_a_controller_that_settles_at_once_or_never_is_warned_of(
    tiny_task: GraphTask, early: list[float], last: float, expected: list[str]
) -> None:
    assert warnings_of(tiny_task, settings("straight-through", epochs=20), early, last) == expected


@pytest.mark.parametrize(
    ("preset", "warm_up", "expected"),
    [
        ("straight-through", 20, []),  # it was not to learn anything yet
        ("straight-through", 10, [DULL]),
        ("default", 20, [DULL]),  # it learns in the warm-up, too
    ],
)
def test_a_controller_is_not_blamed_for_the_warm_up(
    tiny_task: GraphTask, preset: str, warm_up: int, expected: list[str]
) -> None:
    strategy = settings(preset, epochs=20, warm_up=warm_up)
    assert warnings_of(tiny_task, strategy, [1.0] * 20, 1.0) == expected


def test_the_entropy_that_is_warned_of_is_that_of_the_controller(tiny_task: GraphTask) -> None:
    for logit, expected in ((0.0, [DULL]), (2.0, []), (20.0, [COLLAPSED])):
        strategy = settings("straight-through", epochs=8, architecture_lr=1e-6)
        with begun(strategy, problem(tiny_task, space=SMALL)) as search:
            with torch.no_grad():
                search.controller.prior.view(search.controller.mask.shape)[..., 0] = logit
            run(search)
            warnings = search.warnings()
        assert [warning.partition(":")[0] for warning in warnings] == expected
        assert all(warning.endswith(".") and "\n" not in warning for warning in warnings)


# Other tasks.


@pytest.fixture
def rings() -> GraphTask:
    """Seven rings with two labels per node: three, two and two of them."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for nodes in range(5, 12):
        y = torch.randint(2, (nodes, 2), generator=generator)
        x = torch.cat([y.float(), torch.rand(nodes, 2, generator=generator)], dim=1)
        index = torch.arange(nodes)
        forth = torch.stack([index, (index + 1) % nodes])
        graphs.append(Data(x=x, edge_index=torch.cat([forth, forth.flip(0)], dim=1), y=y))
    own = (torch.tensor([0, 1, 2]), torch.tensor([3, 4]), torch.tensor([5, 6]))
    return GraphTask.from_source(source_from_graphs(graphs, "rings", splits={"own": own}))


@pytest.mark.parametrize(
    ("estimator", "summary"),
    [(estimator, "off") for estimator in ESTIMATORS] + [("scaled", "on")],
)
def test_several_graphs_with_several_labels_can_be_searched_for(
    rings: GraphTask, estimator: Estimator, summary: str
) -> None:
    strategy = settings(
        epochs=4, controller="logits", estimator=estimator, graph_summary=summary, pool=3
    )
    with begun(strategy, problem(rings, recipe=Recipe(batch_graphs=2))) as search:
        first = search.step()
        weight = next(iter(search.supernet.network(path_of(search, first)).parameters()))
        # Two batches of training, of two graphs and of one.
        assert search.shared.optimizer.state[weight]["step"].item() == 2
        for epoch in [first, *run(search)]:
            line_of(epoch)
            assert 0 <= epoch.val <= 1
        assert len(search.candidates()) == 3


def test_the_architecture_sees_all_validation_graphs_at_once(rings: GraphTask) -> None:
    """The gradient of two batches is that of their nodes together."""
    strategy = settings("straight-through", epochs=4)
    with begun(strategy, problem(rings, recipe=Recipe(weight_decay=0.0))) as search:
        draws = Draws(search)
        epoch = search.step()
    supernet = search.supernet
    network = supernet.network(path_of(search, epoch)).eval()
    index = torch.tensor(epoch.details["path"]).unsqueeze(-1)
    controller = draws.controller.float()
    noisy = controller() + draws.ops.float() * controller.mask
    probs = (noisy / noisy.sum(dim=-1, keepdim=True)).gather(-1, index).squeeze(-1)
    batch = next(Batches(rings, "val", size=2).in_order())
    scale = supernet.factors(network.architecture, probs / probs.detach())
    value = loss(network(batch.x, batch.adjacency, factors=scale), batch.y, "multi-label")
    (grad,) = torch.autograd.grad(value, list(controller.parameters()))
    found = search.controller.prior.grad
    assert found is not None
    torch.testing.assert_close(found, grad, rtol=1e-3, atol=1e-7)
    assert epoch.val_loss == pytest.approx(value.item(), abs=1e-5)


@pytest.mark.parametrize("estimator", ["scaled", "straight-through"])
def test_a_summary_of_the_graph_is_learned_with_the_controller(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    strategy = settings(epochs=8, estimator=estimator, graph_summary="on", architecture_lr=0.05)
    with begun(strategy, problem(tiny_task)) as search:
        assert search.summary is not None
        learned = [*search.summary.parameters(), search.controller.summary_map]
        before = [weight.detach().clone() for weight in learned if weight is not None]
        run(search, 4)
    for weight, old in zip(learned, before, strict=True):
        assert weight is not None
        assert weight.grad is not None
        assert weight.grad.abs().sum() > 0
        assert not torch.equal(weight, old)


def test_without_a_summary_the_graph_is_not_looked_at(tiny_task: GraphTask) -> None:
    with begun(PRESETS["paper"], problem(tiny_task)) as search:
        assert search.summary is None
        assert search.controller.summary_map is None


def test_a_space_without_shortcuts_can_be_searched(tiny_task: GraphTask) -> None:
    closed = SMALL.model_copy(update={"shortcuts": "none"})
    for estimator in ESTIMATORS:
        strategy = settings(epochs=4, controller="logits", estimator=estimator, pool=3)
        with begun(strategy, problem(tiny_task, space=closed)) as search:
            assert run(search)[-1].details["gates"] == []
            assert all(not one.architecture.gates for one in search.candidates())


FIXED = SMALL.model_copy(
    update={
        "expansion": (1,),
        "attention": ("gat",),
        "heads": (2,),
        "aggregation": ("sum",),
        "activation": ("elu",),
    }
)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_space_of_one_network_has_one_candidate(
    tiny_task: GraphTask, estimator: Estimator
) -> None:
    only = FIXED.model_copy(update={"shortcuts": "none"})
    strategy = settings(epochs=4, controller="logits", estimator=estimator, pool=3)
    with begun(strategy, problem(tiny_task, space=only)) as search:
        run(search)
        assert len(search.candidates()) == 1


def test_where_only_shortcuts_are_searched_no_controller_is_blamed(tiny_task: GraphTask) -> None:
    strategy = settings("straight-through", epochs=4)
    with begun(strategy, problem(tiny_task, space=FIXED)) as search:
        run(search)
        assert search.warnings() == []
