"""The controller: one padded tensor of probabilities, uniform at first, open to gradients."""

import pytest
import torch
from torch import Tensor

from pdnas.ops import SLOTS
from pdnas.space import EXTENDED, PAPER, SearchSpace
from pdnas.supernet import Controller, candidate_mask
from pdnas.supernet.controller import Form

FORMS: tuple[Form, ...] = ("mlp", "logits")
BLOCKS = 3
MASK = candidate_mask(PAPER, BLOCKS)

every_form = pytest.mark.parametrize("form", FORMS)


def randomize(controller: Controller) -> None:
    """Leave the start, where some weights are zero."""
    with torch.no_grad():
        for weight in controller.parameters():
            weight.normal_(std=0.3)


def grads_of(controller: Controller, *inputs: Tensor) -> dict[str, Tensor]:
    """Gradients of a random weighting of the probabilities, by the name of the parameter."""
    (controller(*inputs) * torch.randn(MASK.shape)).sum().backward()
    assert all(weight.grad is not None for weight in controller.parameters())
    return {name: weight.grad for name, weight in controller.named_parameters()}  # type: ignore[misc]


def test_the_paper_s_mask_counts_its_candidates() -> None:
    inner = [4, 1, 7, 5, 3, 1, 1, 8]  # from expansion and propagation to norm and activation
    assert MASK.shape == (BLOCKS, len(SLOTS), 8)
    assert MASK.sum(dim=-1).tolist() == [inner, inner, [*inner[:-1], 1]]


def test_the_last_block_of_the_extended_space_has_neither_norm_nor_activation() -> None:
    inner = [5, 5, 7, 5, 3, 3, 3, 8]
    assert candidate_mask(EXTENDED, 2).sum(dim=-1).tolist() == [inner, [*inner[:-2], 1, 1]]


def test_candidates_stand_first_and_padding_last() -> None:
    assert torch.equal(MASK, MASK.sort(dim=-1, descending=True, stable=True).values)


def test_the_only_block_is_the_last() -> None:
    assert candidate_mask(PAPER, 1)[0, list(SLOTS).index("activation")].sum() == 1


def test_fixed_slots_need_no_padding() -> None:
    fixed = SearchSpace.model_validate(
        {"name": "one", **{slot: PAPER.candidates(slot)[:1] for slot in SLOTS}}
    )
    assert candidate_mask(fixed, 2).tolist() == [[[True]] * len(SLOTS)] * 2


@every_form
def test_every_op_is_as_likely_as_any_other_at_first(form: Form) -> None:
    probs = Controller(MASK, form=form)()
    torch.testing.assert_close(probs, MASK / MASK.sum(dim=-1, keepdim=True))


@every_form
def test_a_summary_leaves_the_start_uniform(form: Form) -> None:
    probs = Controller(MASK, form=form, summary_width=5)(torch.randn(5))
    torch.testing.assert_close(probs, MASK / MASK.sum(dim=-1, keepdim=True))


@every_form
def test_each_slot_has_a_softmax_of_its_own(form: Form) -> None:
    controller = Controller(MASK, form=form)
    randomize(controller)
    probs = controller()
    assert probs.shape == MASK.shape
    torch.testing.assert_close(probs.sum(dim=-1), torch.ones(MASK.shape[:2]))
    assert not probs[~MASK].any()
    assert (probs[MASK] > 0).all()
    assert probs[0, 0, :4].unique().numel() == 4  # and is no longer uniform


def test_logits_go_through_a_softmax_over_the_candidates_alone() -> None:
    controller = Controller(MASK, form="logits")
    randomize(controller)
    logits = controller.prior.view(MASK.shape)
    place = list(SLOTS).index("attention")
    torch.testing.assert_close(controller()[1, place, :7], logits[1, place, :7].softmax(0))


def test_the_network_follows_its_formula() -> None:
    controller = Controller(MASK, form="mlp", width=6, summary_width=2)
    randomize(controller)
    assert controller.summary_map is not None
    summary = torch.randn(2)
    flow = summary @ controller.summary_map + controller.prior
    logits = (flow @ controller.layers[0]).relu() @ controller.layers[1]
    place = list(SLOTS).index("attention")
    expected = logits.view(MASK.shape)[2, place, :7].softmax(0)
    torch.testing.assert_close(controller(summary)[2, place, :7], expected)


def test_outputs_are_blocks_times_slots_times_candidates() -> None:
    count = BLOCKS * len(SLOTS) * 8
    assert Controller(MASK, form="logits").prior.shape == (count,)
    layers = Controller(MASK, form="mlp", width=10).layers
    assert [tuple(layer.shape) for layer in layers] == [(10, 10), (10, count)]


def test_a_gradient_reaches_the_logits_where_there_is_something_to_choose() -> None:
    controller = Controller(MASK, form="logits")
    reached = grads_of(controller)["prior"].view(MASK.shape) != 0
    assert torch.equal(reached, MASK & (MASK.sum(dim=-1, keepdim=True) > 1))


def test_at_first_a_gradient_reaches_the_network_s_last_layer_alone() -> None:
    grads = grads_of(Controller(MASK, form="mlp"))
    reached = {name for name, grad in grads.items() if grad.any()}
    assert reached == {"layers.1"}


def test_after_a_step_of_the_last_layer_a_gradient_reaches_the_prior() -> None:
    controller = Controller(MASK, form="mlp", summary_width=4)
    summary = torch.randn(4)
    grads_of(controller, summary)
    torch.optim.SGD(controller.parameters(), lr=0.1).step()
    controller.zero_grad()
    grads = grads_of(controller, summary)
    assert set(grads) == {"prior", "layers.0", "layers.1", "summary_map"}
    assert all(grad.any() for grad in grads.values())


@every_form
def test_another_graph_gives_other_probabilities_once_the_map_is_learned(form: Form) -> None:
    controller = Controller(MASK, form=form, summary_width=3)
    randomize(controller)
    one, other = torch.randn(2, 3).unbind()
    assert not torch.allclose(controller(one), controller(other))
    assert controller.summary_map is not None
    torch.nn.init.zeros_(controller.summary_map)
    assert torch.equal(controller(one), controller(other))


@pytest.mark.parametrize(
    ("form", "names"), [("mlp", {"prior", "layers.0", "layers.1"}), ("logits", {"prior"})]
)
def test_parameters_are_registered(form: Form, names: set[str]) -> None:
    controller = Controller(MASK, form=form)
    assert {name for name, _ in controller.named_parameters()} == names
    assert all(weight.requires_grad for weight in controller.parameters())
    with_summary = Controller(MASK, form=form, summary_width=2)
    assert {name for name, _ in with_summary.named_parameters()} == {*names, "summary_map"}


@every_form
def test_a_saved_controller_gives_the_same_probabilities(form: Form) -> None:
    first, second = (Controller(MASK, form=form) for _ in range(2))
    randomize(first)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(), second())
