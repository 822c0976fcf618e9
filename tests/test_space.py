import itertools
import json
import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ArchitectureError, PdnasError, UnknownNameError
from pdnas.ops import SLOTS
from pdnas.space import PAPER, SPACES, SearchSpace

TINY = SearchSpace(
    name="tiny",
    expansion=(1,),
    attention=("const", "gat"),
    heads=(2,),
    aggregation=("sum",),
    combine=("add",),
    activation=("none", "relu", "elu"),
)
CLOSED = TINY.model_copy(update={"shortcuts": "none"})

seeds = st.integers(0, 2**32)


def enumerate_members(space: SearchSpace, num_blocks: int) -> set[Architecture]:
    """Every architecture that can be made of the candidates, by trying them all."""
    choices = [
        BlockSpec.model_validate(dict(zip(SLOTS, names, strict=True)) | {"bias": space.bias})
        for names in itertools.product(*(getattr(space, slot) for slot in SLOTS))
    ]
    triangle = [(i, j) for i in range(num_blocks) for j in range(num_blocks) if i <= j]
    members = set()
    for blocks in itertools.product(choices, repeat=num_blocks):
        for bits in itertools.product([0, 1], repeat=len(triangle)):
            gates = tuple(gate for gate, bit in zip(triangle, bits, strict=True) if bit)
            if blocks[-1].activation == "none" and (space.shortcuts == "searched" or not gates):
                members.add(Architecture(blocks=blocks, gates=gates))
    return members


def test_the_paper_has_eleven_million_architectures_of_two_blocks() -> None:
    assert PAPER.count(2) == 3360 * 420 * 2**3 == 11_289_600


@pytest.mark.parametrize("num_blocks", [1, 2, 3])
@pytest.mark.parametrize("space", [TINY, CLOSED], ids=["shortcuts", "no shortcuts"])
def test_the_count_is_that_of_an_enumeration(space: SearchSpace, num_blocks: int) -> None:
    if space is TINY and num_blocks == 3:
        space = TINY.model_copy(update={"activation": ("none",), "attention": ("gat",)})
    members = enumerate_members(space, num_blocks)
    assert space.count(num_blocks) == len(members)
    assert all(member in space for member in members)


@pytest.mark.parametrize(("space", "num_blocks"), [(TINY, 1), (CLOSED, 2)])
def test_all_members_are_equally_likely(space: SearchSpace, num_blocks: int) -> None:
    generator, draws = torch.Generator().manual_seed(0), 3000
    seen = Counter(space.sample(num_blocks, generator) for _ in range(draws))
    members = enumerate_members(space, num_blocks)
    assert set(seen) == members
    expected = draws / len(members)
    chi_square = sum((seen[member] - expected) ** 2 / expected for member in members)
    # Mean k and variance 2 k for k degrees of freedom: five standard deviations above.
    freedom = len(members) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("slot", SLOTS)
def test_the_paper_s_candidates_are_equally_likely(slot: str) -> None:
    generator, draws = torch.Generator().manual_seed(1), 1500
    blocks = [PAPER.sample(2, generator).blocks[0] for _ in range(draws)]
    seen = Counter(getattr(block, slot) for block in blocks)
    candidates = PAPER.candidates(slot)
    assert set(seen) == set(candidates)
    expected = draws / len(candidates)
    chi_square = sum((seen[name] - expected) ** 2 / expected for name in candidates)
    freedom = len(candidates) - 1
    assert chi_square <= freedom + 5 * math.sqrt(2 * freedom)


@given(seed=seeds, num_blocks=st.integers(1, 5))
def test_a_sample_is_a_member_of_that_many_blocks(seed: int, num_blocks: int) -> None:
    sample = PAPER.sample(num_blocks, torch.Generator().manual_seed(seed))
    assert sample in PAPER
    assert sample.num_blocks == num_blocks


@given(seed=seeds)
def test_the_generator_decides_the_sample(seed: int) -> None:
    first, second = (torch.Generator().manual_seed(seed) for _ in range(2))
    assert PAPER.sample(3, first) == PAPER.sample(3, second)
    assert PAPER.sample(3, first) != PAPER.sample(3, torch.Generator().manual_seed(seed))


def test_a_sample_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    PAPER.sample(2, torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.get_rng_state())


def test_bias_and_normalization_reach_the_sample() -> None:
    space = TINY.model_copy(update={"bias": True, "attention_normalization": "none"})
    sample = space.sample(2, torch.Generator().manual_seed(0))
    assert all(block.bias for block in sample.blocks)
    assert sample.attention_normalization == "none"
    assert sample in space
    assert sample not in TINY


INSIDE = BlockSpec(attention="gat", heads=2)


@pytest.mark.parametrize(
    "outsider",
    [
        Architecture(blocks=(INSIDE.model_copy(update={"heads": 4}),)),
        Architecture(blocks=(INSIDE.model_copy(update={"activation": "tanh"}), INSIDE)),
        Architecture(blocks=(INSIDE, INSIDE.model_copy(update={"attention": "cos"}))),
        Architecture(blocks=(INSIDE.model_copy(update={"bias": True}),)),
        Architecture(blocks=(INSIDE,), attention_normalization="none"),
        "gat",
        None,
    ],
    ids=["heads", "activation", "attention of the last", "bias", "normalization", "word", "none"],
)
def test_outsiders_are_not_members(outsider: object) -> None:
    assert Architecture(blocks=(INSIDE,)) in TINY
    assert outsider not in TINY


def test_a_gate_is_an_outsider_where_there_are_no_shortcuts() -> None:
    gated = Architecture(blocks=(INSIDE, INSIDE), gates=((0, 1),))
    assert gated in TINY
    assert gated not in CLOSED


def test_the_last_block_needs_no_candidate_for_its_activation() -> None:
    space = TINY.model_copy(update={"activation": ("relu",)})
    assert space.candidates("activation", last=True) == ("none",)
    assert space.candidates("activation") == ("relu",)
    assert space.sample(2, torch.Generator().manual_seed(0)) in space
    assert space.count(2) == 2 * 2 * 2**3


def test_possible_gates_are_the_upper_triangle() -> None:
    assert TINY.possible_gates(3) == ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
    assert TINY.possible_gates(1) == ((0, 0),)
    assert CLOSED.possible_gates(3) == ()


@pytest.mark.parametrize("num_blocks", [0, -1])
def test_fewer_than_one_block_are_refused(num_blocks: int) -> None:
    message = rf"^The number of blocks is {num_blocks}; give 1 to 100\.$"
    with pytest.raises(ArchitectureError, match=message):
        PAPER.count(num_blocks)
    with pytest.raises(ArchitectureError, match=message):
        PAPER.sample(num_blocks, torch.Generator())


@pytest.mark.parametrize("space", [PAPER, TINY, CLOSED], ids=["paper", "tiny", "closed"])
def test_json_keeps_everything(space: SearchSpace) -> None:
    again = SearchSpace.from_json(space.to_json())
    assert again == space
    assert hash(again) == hash(space)


def changed(**values: Any) -> str:
    return json.dumps({**json.loads(TINY.to_json()), **values})


BROKEN = {
    "no candidates": (changed(heads=[]), "The slot 'heads' has the candidates []; give at least"),
    "one twice": (changed(attention=["gat", "gat"]), "['gat', 'gat']; give at least one, each"),
    "unknown op": (changed(attention=["gta"]), "Unknown attention 'gta'"),
    "unknown number": (changed(heads=[3]), "Unknown number of heads '3'"),
    "wrong type": (changed(heads=["many"]), "heads.0: Input should be a valid integer"),
    "not a list": (changed(aggregation=3), "aggregation: Input should be a valid array"),
    "shortcuts": (changed(shortcuts="some"), "shortcuts: Input should be 'searched' or 'none'"),
    "unknown field": (changed(depth=2), "depth: Extra inputs are not permitted"),
    "slot missing": ('{"name": "a"}', "expansion: Field required"),
    "truncated": (TINY.to_json()[:-9], "Invalid JSON"),
}


@pytest.mark.parametrize(("text", "part"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_space_is_one_sentence(text: str, part: str) -> None:
    with pytest.raises(PdnasError) as info:
        SearchSpace.from_json(text)
    message = str(info.value)
    assert part in message
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert not message.endswith("..")


def test_construction_in_python_is_checked_as_well() -> None:
    values = TINY.model_dump()
    with pytest.raises(UnknownNameError, match="did you mean 'mean'"):
        SearchSpace(**{**values, "aggregation": ("men",)})
    with pytest.raises(ArchitectureError, match="The slot 'combine' has the candidates"):
        SearchSpace(**{**values, "combine": ()})


def test_one_line_counts_the_candidates() -> None:
    assert str(TINY) == (
        "tiny: expansion 1, attention 2, heads 1, aggregation 1, combine 1, activation 3, "
        "shortcuts searched"
    )


def test_the_paper_s_space_is_registered_under_its_name() -> None:
    assert SPACES["paper"] is PAPER
    assert all(SPACES[name].name == name for name in SPACES)


def test_the_paper_s_space_leaves_out_what_only_baselines_use() -> None:
    assert 0 not in PAPER.expansion
    assert PAPER.combine == ("add",)
    assert {slot: len(PAPER.candidates(slot)) for slot in SLOTS} == {
        "expansion": 4,
        "attention": 7,
        "heads": 5,
        "aggregation": 3,
        "combine": 1,
        "activation": 8,
    }


def test_a_future_version_is_refused() -> None:
    values = {**json.loads(PAPER.to_json()), "version": 2}
    with pytest.raises(ArchitectureError, match="reads version 1; update pdnas"):
        SearchSpace.from_json(json.dumps(values))


def test_the_table_lists_every_candidate() -> None:
    assert PAPER.table()[2] == ["attention", "7", ", ".join(PAPER.attention)]
