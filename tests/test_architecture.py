import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pdnas.architecture import Architecture, BlockSpec, check_hidden
from pdnas.errors import ArchitectureError, PdnasError
from pdnas.ops import SLOTS, Dims
from pdnas.space import SPACES


@dataclass(frozen=True)
class Sizes:
    in_channels: int
    out_channels: int


TASK = Sizes(10, 3)
HIDDEN_BLOCK = BlockSpec(
    expansion=2, attention="gat", heads=4, aggregation="mean", activation="relu", bias=True
)
PAIR = Architecture(blocks=(HIDDEN_BLOCK, BlockSpec(expansion=0)), gates=((0, 1), (0, 0)))


def sampled(space: str, seed: int, num_blocks: int) -> Architecture:
    return SPACES[space].sample(num_blocks, torch.Generator().manual_seed(seed))


members = st.builds(
    sampled,
    space=st.sampled_from(list(SPACES)),
    seed=st.integers(0, 2**32),
    num_blocks=st.integers(1, 5),
)


@given(architecture=members)
def test_json_keeps_everything(architecture: Architecture) -> None:
    again = Architecture.from_json(architecture.to_json())
    assert again == architecture
    assert hash(again) == hash(architecture)
    assert Architecture.model_validate(json.loads(architecture.to_json())) == architecture


@given(architecture=members, other=members)
def test_equality_is_that_of_the_json(architecture: Architecture, other: Architecture) -> None:
    assert (architecture == other) == (architecture.to_json() == other.to_json())


@pytest.mark.parametrize(
    "change",
    [
        {"gates": [[0, 1]]},
        {"attention_normalization": "none"},
        {"blocks": [{"expansion": 0}, {"expansion": 0}]},
        {"blocks": [{"expansion": 0}]},
    ],
    ids=str,
)
def test_any_change_makes_another_architecture(change: dict[str, Any]) -> None:
    values = {**json.loads(PAIR.to_json()), **change}
    values["gates"] = [gate for gate in values["gates"] if gate[1] < len(values["blocks"])]
    assert Architecture.model_validate(values) != PAIR


def test_the_order_of_gates_does_not_matter() -> None:
    other = PAIR.model_copy(update={"gates": ()})
    gates = ((0, 0), (0, 1))
    rebuilt = Architecture(blocks=other.blocks, gates=gates)
    assert rebuilt == PAIR
    assert hash(rebuilt) == hash(PAIR)
    assert PAIR.gates == gates


def test_an_architecture_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        PAIR.gates = ()  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        HIDDEN_BLOCK.heads = 1  # type: ignore[misc]


def test_json_states_its_version_and_every_slot() -> None:
    values = json.loads(PAIR.to_json())
    assert values["version"] == 1
    assert all(set(block) == {*SLOTS, "bias"} for block in values["blocks"])


def test_what_is_left_out_has_a_default() -> None:
    assert Architecture.from_json('{"blocks": [{}]}') == Architecture(blocks=(BlockSpec(),))


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    PAIR.save(tmp_path / "a.json")
    assert Architecture.load(tmp_path / "a.json") == PAIR
    assert Architecture.load(str(tmp_path / "a.json")) == PAIR
    assert (tmp_path / "a.json").read_text().endswith("}\n")


def test_one_line_tells_all() -> None:
    assert str(PAIR) == (
        "mlp x2, gat x4, mean, add, bias, relu | linear, const x1, sum, add, none"
        " | shortcuts 0->0 0->1"
    )
    literal = Architecture(blocks=(BlockSpec(),), attention_normalization="none")
    assert str(literal) == (
        "mlp x1, const x1, sum, add, none | shortcuts none, attention not normalized"
    )


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"norm": "layer"}, "mlp x1, const x1, sum, add, layer norm, none"),
        (
            {"norm": "batch", "bias": True, "activation": "elu"},
            "mlp x1, const x1, sum, add, bias, batch norm, elu",
        ),
        ({"propagation": 4, "attention": "gat"}, "mlp x1, mean of 5 powers, -, add, none"),
        (
            {"propagation": 2, "combine": "none", "norm": "layer"},
            "mlp x1, mean of 3 powers, -, none, layer norm, none",
        ),
    ],
    ids=["norm", "bias and norm", "propagation", "both"],
)
def test_a_block_is_told_by_what_plays_a_part(choices: dict[str, Any], words: str) -> None:
    assert str(BlockSpec.model_validate(choices)) == words


def test_only_one_step_attends() -> None:
    assert {n: BlockSpec(propagation=n).attends for n in (0, 1, 2, 4, 8)} == {
        0: False,
        1: True,
        2: False,
        4: False,
        8: False,
    }


def test_the_table_has_a_row_per_block() -> None:
    assert PAIR.table() == [
        ["block", "transform", "messages", "aggregation", "combine", "activation", "shortcuts"],
        ["0", "mlp x2", "gat x4", "mean", "add", "bias, relu", "from 0"],
        ["1", "linear", "const x1", "sum", "add", "none", "from 0"],
    ]


@given(architecture=members)
def test_rows_of_the_table_are_equally_long(architecture: Architecture) -> None:
    table = architecture.table()
    assert {len(row) for row in table} == {7}
    assert len(table) == architecture.num_blocks + 1
    assert "\n" not in str(architecture)


def test_widths_lead_from_features_to_logits() -> None:
    three = Architecture(blocks=(BlockSpec(),) * 3)
    assert three.widths(TASK, 8) == (10, 8, 8, 3)
    assert Architecture(blocks=(BlockSpec(),)).widths(TASK, 8) == (10, 3)


def test_parameters_by_hand() -> None:
    first = 10 * 16 + 16 * 8 + 2 * 8 + 8  # the transform, two attention vectors, the bias
    last = 8 * 3
    shortcuts = 10 * 8 + 10 * 3
    assert PAIR.parameters(TASK, 8) == first + last + shortcuts
    assert HIDDEN_BLOCK.parameters(10, 8, 8) == first


@pytest.mark.parametrize(
    ("change", "saved"),
    [
        ({"propagation": 2}, 2 * 8),  # the two attention vectors
        ({"norm": "layer"}, -2 * 8),  # a scale and a shift per channel
        ({"norm": "batch"}, -2 * 8),
        ({"propagation": 0, "norm": "batch"}, 0),
    ],
    ids=str,
)
def test_propagation_saves_the_attention_and_a_norm_costs_its_weights(
    change: dict[str, Any], saved: int
) -> None:
    changed = HIDDEN_BLOCK.model_copy(update=change)
    assert HIDDEN_BLOCK.parameters(10, 8, 8) - changed.parameters(10, 8, 8) == saved


def test_averaged_heads_cost_a_vector_of_all_channels_each() -> None:
    spec = BlockSpec(expansion=0, attention="gat", heads=4)
    assert spec.parameters(10, 7, 8) == 10 * 7 + 2 * 4 * 7
    assert spec.parameters(10, 8, 8) == 10 * 8 + 2 * 8


def test_a_block_knows_its_ops_and_their_sizes() -> None:
    assert HIDDEN_BLOCK.op("attention") is SLOTS["attention"]["gat"]
    assert HIDDEN_BLOCK.dims(10, 8, 16) == Dims(10, 8, 16, expansion=2, heads=4)
    mixed = BlockSpec(propagation=4, norm="layer")
    assert mixed.op("norm") is SLOTS["norm"]["layer"]
    assert mixed.dims(10, 8, 16) == Dims(10, 8, 16, expansion=1, propagation=4)


@pytest.mark.parametrize("hidden", [0, -1])
def test_a_hidden_size_below_one_is_refused(hidden: int) -> None:
    message = rf"^The hidden size is {hidden}; give a whole number from 1 to 1000000\.$"
    with pytest.raises(ArchitectureError, match=message):
        check_hidden(hidden)
    with pytest.raises(ArchitectureError, match=message):
        PAIR.parameters(TASK, hidden)
    check_hidden(1)


WHOLE = PAIR.to_json()
BROKEN = {
    "empty": ("", ["not whole JSON"]),
    "truncated": (WHOLE[:-20], ["not whole JSON", "write it again"]),
    "not JSON": ("blocks: 2", ["not whole JSON"]),
    "two documents": (WHOLE + WHOLE, ["not whole JSON"]),
    "a list": ("[1, 2]", ["should be an object"]),
    "null": ("null", ["should be an object"]),
    "no blocks": ("{}", ["blocks", "required"]),
    "zero blocks": ('{"blocks": []}', ["at least one block"]),
    "blocks not a list": ('{"blocks": 5}', ["blocks", "valid array"]),
    "block not an object": ('{"blocks": ["gat"]}', ["blocks.0"]),
    "unknown field": ('{"blocks": [{}], "depth": 2}', ["unknown field 'depth'", "gates"]),
    "unknown field of a block": (
        '{"blocks": [{}, {"dropout": 0.5}]}',
        ["unknown field 'blocks.1.dropout'", "heads"],
    ),
    "unknown op": (
        '{"blocks": [{"attention": "sim-gat"}]}',
        ["Unknown attention 'sim-gat'", "did you mean 'sym-gat'?"],
    ),
    "unknown activation": (
        '{"blocks": [{"activation": "rleu"}, {}]}',
        ["Unknown activation 'rleu'", "did you mean 'relu'?"],
    ),
    "unknown aggregation": ('{"blocks": [{"aggregation": "men"}]}', ["did you mean 'mean'?"]),
    "unknown combine": ('{"blocks": [{"combine": "concat"}]}', ["did you mean 'concat-mlp'?"]),
    "unknown norm": ('{"blocks": [{"norm": "bach"}, {}]}', ["did you mean 'batch'?"]),
    "propagation outside the registry": (
        '{"blocks": [{"propagation": 3}]}',
        ["Unknown propagation '3'", "0, 2, 4, 8"],
    ),
    "propagation a word": (
        '{"blocks": [{"propagation": "far"}]}',
        ["blocks.0.propagation", "integer"],
    ),
    "heads outside the registry": (
        '{"blocks": [{"heads": 3}]}',
        ["Unknown number of heads '3'", "1, 2, 4, 8, 16"],
    ),
    "expansion outside the registry": (
        '{"blocks": [{"expansion": 5}]}',
        ["Unknown expansion '5'", "0, 1, 2, 4, 8"],
    ),
    "gate backwards": (
        '{"blocks": [{}, {}], "gates": [[1, 0]]}',
        ["The gate (1, 0) points backwards"],
    ),
    "gate too far": (
        '{"blocks": [{}, {}], "gates": [[0, 2]]}',
        ["The gate (0, 2) leaves the network", "0 to 1"],
    ),
    "gate before the start": (
        '{"blocks": [{}, {}], "gates": [[-1, 0]]}',
        ["The gate (-1, 0) leaves the network"],
    ),
    "gate twice": (
        '{"blocks": [{}, {}], "gates": [[0, 1], [0, 1]]}',
        ["[(0, 1), (0, 1)]", "twice"],
    ),
    "gate with one end": ('{"blocks": [{}], "gates": [[0]]}', ["gates.0"]),
    "gate with three ends": ('{"blocks": [{}], "gates": [[0, 0, 0]]}', ["gates.0"]),
    "gates flat": ('{"blocks": [{}], "gates": [0, 0]}', ["gates.0"]),
    "gate not a number": ('{"blocks": [{}], "gates": [["a", 0]]}', ["gates.0.0", "integer"]),
    "future version": ('{"version": 2, "blocks": [{}]}', ["format version is 2", "update pdnas"]),
    "version a word": ('{"version": "new", "blocks": [{}]}', ["format version is 'new'"]),
    "version null": ('{"version": null, "blocks": [{}]}', ["format version is None"]),
    "activation of the last": (
        '{"blocks": [{}, {"activation": "relu"}]}',
        ["last block is 'relu'", "make it 'none'"],
    ),
    "heads a word": ('{"blocks": [{"heads": "two"}]}', ["blocks.0.heads", "integer"]),
    "heads half": ('{"blocks": [{"heads": 1.5}]}', ["blocks.0.heads", "integer"]),
    "heads null": ('{"blocks": [{"heads": null}]}', ["blocks.0.heads", "integer"]),
    "heads a list": ('{"blocks": [{"heads": [1]}]}', ["blocks.0.heads", "integer"]),
    "attention a number": ('{"blocks": [{"attention": 3}]}', ["blocks.0.attention", "string"]),
    "bias a word": ('{"blocks": [{"bias": "perhaps"}]}', ["blocks.0.bias", "boolean"]),
    "normalization": (
        '{"blocks": [{}], "attention_normalization": "l2"}',
        ["attention_normalization", "'softmax' or 'none'"],
    ),
}


def assert_one_sentence(message: str) -> None:
    """One line; a hint that asks back may follow the sentence."""
    assert "\n" not in message
    assert re.search(r"([^.]\.|; did you mean '[^']+'\?)$", message), message
    assert not re.search(r"\.\s*\.", message.replace("...", ""))


@pytest.mark.parametrize(("text", "parts"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_architecture_is_one_sentence(text: str, parts: list[str]) -> None:
    with pytest.raises(ArchitectureError) as info:
        Architecture.from_json(text, name="The architecture 'a.json'")
    message = str(info.value)
    assert message.startswith("The architecture 'a.json' is not valid: ")
    assert all(part in message for part in parts), message
    assert_one_sentence(message)


@pytest.mark.parametrize("text", [WHOLE[:cut] for cut in range(0, len(WHOLE) - 1, 7)])
def test_any_truncation_is_an_architecture_error(text: str) -> None:
    with pytest.raises(ArchitectureError, match="is not whole JSON"):
        Architecture.from_json(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["gat", "none", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["blocks", "gates", "heads", "version", "x"]), inner)
    ),
    max_leaves=12,
)


@given(value=json_values)
def test_whatever_the_json_nothing_but_an_architecture_error_comes(value: object) -> None:
    try:
        architecture = Architecture.from_json(json.dumps(value))
    except ArchitectureError as error:
        assert_one_sentence(str(error))
    else:
        assert Architecture.from_json(architecture.to_json()) == architecture


def test_construction_in_python_is_checked_as_well() -> None:
    with pytest.raises(PdnasError, match=r"Unknown attention 'gta'.*did you mean 'gat'"):
        BlockSpec(attention="gta")
    with pytest.raises(ArchitectureError, match=r"The gate \(1, 0\) points backwards"):
        Architecture(blocks=(BlockSpec(),) * 2, gates=((1, 0),))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00binary\x80", b"", b"{"])
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArchitectureError, match=r"^The architecture '.*a\.json' ") as info:
        Architecture.load(path)
    assert_one_sentence(str(info.value))


def test_a_folder_is_not_an_architecture(tmp_path: Path) -> None:
    with pytest.raises(ArchitectureError, match="cannot be read") as info:
        Architecture.load(tmp_path)
    assert_one_sentence(str(info.value))


@pytest.mark.parametrize("value", [True, "2", 2.0])
def test_a_number_is_a_number(value: object) -> None:
    text = json.dumps({"blocks": [{"expansion": value}]})
    with pytest.raises(
        ArchitectureError, match=r"blocks\.0\.expansion: Input should be a valid int"
    ):
        Architecture.from_json(text)


def test_a_notebook_sees_a_row_for_every_block() -> None:
    architecture = Architecture(blocks=(BlockSpec(attention="gat"), BlockSpec()), gates=((0, 1),))
    shown = architecture._repr_html_()
    assert shown.count("<tr>") == 1 + 2
    assert "gat x1" in shown
    assert "from 0" in shown


def test_more_blocks_than_any_network_has_are_refused() -> None:
    with pytest.raises(ArchitectureError, match="has 1000 blocks at most; it has 100000"):
        Architecture.from_json(f'{{"blocks": [{",".join(["{}"] * 100_000)}]}}')


@pytest.mark.parametrize("number", [2**63, -(2**70), 10**400])
def test_numbers_of_any_size_are_one_short_sentence(number: int) -> None:
    for text in (
        f'{{"blocks": [{{"expansion": {number}}}]}}',
        f'{{"blocks": [{{}}], "gates": [[{number}, 0]]}}',
        f'{{"blocks": [{{}}], "version": {number}}}',
    ):
        with pytest.raises(PdnasError) as caught:
            Architecture.from_json(text)
        assert len(str(caught.value)) < 600


def test_what_no_file_can_be_called_is_one_sentence() -> None:
    mine = Architecture(blocks=(BlockSpec(),))
    for act in (Architecture.load, mine.save):
        with pytest.raises(ArchitectureError, match=r"'a b\.json' cannot be a path"):
            act("a\0b.json")
