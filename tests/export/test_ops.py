"""Every op has a source that does the same."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ExportError
from pdnas.export import source_of
from pdnas.export.ops import HELPERS, SOURCES, Place, Snippet, write_op
from pdnas.export.source import write_source, write_weights
from pdnas.ops import ATTENTIONS, SLOTS, Dims
from pdnas.ops.activation import ACTIVATIONS
from pdnas.ops.attention import Attention, ConstAttention
from pdnas.runs import Result

EVERY = [(slot, name) for slot, registry in SLOTS.items() for name in registry]


def run_source(result: Result) -> Any:
    """The exported network, without files."""
    space: dict[str, Any] = {"__file__": str(Path("network.py")), "__name__": "network"}
    exec(write_source(result, "network", "network.pt"), space)
    network = space["Network"]()
    network.load_state_dict(write_weights(result))
    return network.eval()


@torch.no_grad()
def assert_same(result: Result, x: Tensor, edge_index: Tensor) -> None:
    ours, theirs = result.model.double(), run_source(result).double()
    expected = ours(x.double(), edge_index)
    assert expected.isfinite().all()
    # Our GCN weights have single precision.
    torch.testing.assert_close(theirs(x.double(), edge_index), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("slot", "name"), EVERY)
def test_every_op_has_a_source(slot: str, name: str | int) -> None:
    kind = SLOTS[slot][name]
    assert kind in SOURCES, (
        f"{kind.__name__} cannot be exported: add a function with @source_of({kind.__name__}) to "
        "src/pdnas/export/ops.py"
    )


@pytest.mark.parametrize(
    ("slot", "name", "last"),
    [(*op, last) for op in EVERY for last in (False, True) if not last or op[0] != "activation"],
)
def test_every_op_does_what_its_source_does(
    slot: str,
    name: str | int,
    last: bool,
    result_of: Callable[..., Result],
    graph: tuple[Tensor, Tensor],
) -> None:
    changed = BlockSpec.model_validate({"attention": "gat", "heads": 2, slot: name})
    blocks = (BlockSpec(activation="tanh"), changed) if last else (changed, BlockSpec())
    assert_same(result_of(Architecture(blocks=blocks)), *graph)


@pytest.mark.parametrize("normalization", ["softmax", "none"])
@pytest.mark.parametrize("aggregation", ["sum", "mean", "max"])
@pytest.mark.parametrize("heads", [1, 2, 4])  # of 6 channels, 4 heads are averaged
@pytest.mark.parametrize("attention", list(ATTENTIONS))
def test_attention_of_any_heads_is_the_same(
    attention: str,
    heads: int,
    aggregation: str,
    normalization: Any,
    result_of: Callable[..., Result],
    graph: tuple[Tensor, Tensor],
) -> None:
    for combine in ("add", "none"):
        block = BlockSpec(
            attention=attention, heads=heads, aggregation=aggregation, combine=combine
        )
        architecture = Architecture(blocks=(block,), attention_normalization=normalization)
        assert_same(result_of(architecture), *graph)


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_single_node_is_no_special_case(norm: str, result_of: Callable[..., Result]) -> None:
    block = BlockSpec(norm=norm, bias=True)
    x, edge_index = torch.randn(1, 5), torch.empty(2, 0, dtype=torch.long)
    assert_same(result_of(Architecture(blocks=(block,))), x, edge_index)


@pytest.mark.parametrize("name", HELPERS)
def test_every_helper_is_a_function_of_its_name(name: str) -> None:
    assert re.match(rf"def {name}\(", HELPERS[name])


def place_of(spec: BlockSpec) -> Place:
    return Place(spec, Dims(5, 6, 8), "softmax")


def test_an_op_without_source_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(Attention):
        learned = False

    monkeypatch.setitem(ATTENTIONS._entries, "mine", Mine)
    with pytest.raises(ExportError, match=r"attention 'mine' .* pdnas.export.source_of\(Mine\)"):
        write_op("attention", place_of(BlockSpec(attention="mine")))


def test_an_op_from_outside_can_bring_its_source(
    monkeypatch: pytest.MonkeyPatch,
    result_of: Callable[..., Result],
    graph: tuple[Tensor, Tensor],
) -> None:
    class Double(ConstAttention):
        def forward(self, x: Tensor, graph: Any) -> Tensor:
            return 2 * super().forward(x, graph)

    monkeypatch.setitem(ATTENTIONS._entries, "double", Double)
    monkeypatch.setattr("pdnas.export.ops.SOURCES", dict(SOURCES))

    @source_of(Double)
    def write(place: Place) -> Snippet:
        return Snippet("Attention: double.", ("attention = 2",), needs_edges=True)

    block = BlockSpec(attention="double")
    assert_same(result_of(Architecture(blocks=(block,))), *graph)


def test_activations_are_all_there() -> None:
    lines = {write_op("activation", place_of(BlockSpec(activation=n))).lines for n in ACTIVATIONS}
    assert len(lines) == len(ACTIVATIONS)
