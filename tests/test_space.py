import contextlib
import itertools
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ArchitectureError, PdnasError, UnknownNameError
from pdnas.models import GraphNetwork
from pdnas.models.baselines import BASELINES
from pdnas.ops import ATTENTIONS, SLOTS
from pdnas.space import EXTENDED, INDUCTIVE, PAPER, SPACES, SearchSpace, find_space

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
NORMED = TINY.model_copy(
    update={"propagation": (1, 2), "norm": ("none", "batch"), "activation": ("none", "relu")}
)

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
            bare = blocks[-1].activation == blocks[-1].norm == "none"
            if bare and (space.shortcuts == "searched" or not gates):
                members.add(Architecture(blocks=blocks, gates=gates))
    return members


def test_the_paper_has_eleven_million_architectures_of_two_blocks() -> None:
    assert PAPER.count(2) == 3360 * 420 * 2**3 == 11_289_600


@pytest.mark.parametrize("num_blocks", [1, 2, 3])
@pytest.mark.parametrize(
    "space", [TINY, CLOSED, NORMED], ids=["shortcuts", "no shortcuts", "norms"]
)
def test_the_count_is_that_of_an_enumeration(space: SearchSpace, num_blocks: int) -> None:
    if space.shortcuts == "searched" and num_blocks == 3:
        space = space.model_copy(update={"activation": ("none",), "attention": ("gat",)})
        space = space.model_copy(update={"propagation": (1,)})
    members = enumerate_members(space, num_blocks)
    assert space.count(num_blocks) == len(members)
    assert all(member in space for member in members)


@pytest.mark.parametrize(("space", "num_blocks"), [(TINY, 1), (NORMED, 1), (CLOSED, 2)])
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


@given(name=st.sampled_from(list(SPACES)), seed=seeds, num_blocks=st.integers(1, 5))
def test_a_sample_is_a_member_of_that_many_blocks(name: str, seed: int, num_blocks: int) -> None:
    sample = SPACES[name].sample(num_blocks, torch.Generator().manual_seed(seed))
    assert sample in SPACES[name]
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
        Architecture(blocks=(INSIDE.model_copy(update={"propagation": 2}),)),
        Architecture(blocks=(INSIDE.model_copy(update={"norm": "layer"}), INSIDE)),
        Architecture(blocks=(INSIDE.model_copy(update={"bias": True}),)),
        Architecture(blocks=(INSIDE,), attention_normalization="none"),
        "gat",
        None,
    ],
    ids=[
        "heads",
        "activation",
        "attention of the last",
        "propagation",
        "norm",
        "bias",
        "normalization",
        "word",
        "none",
    ],
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


def test_the_last_block_is_not_normalized() -> None:
    space = NORMED.model_copy(update={"norm": ("layer",)})
    assert space.candidates("norm", last=True) == ("none",)
    assert space.candidates("norm") == ("layer",)
    normed = INSIDE.model_copy(update={"norm": "layer"})
    assert Architecture(blocks=(normed, INSIDE)) in space
    assert Architecture(blocks=(normed, normed)) not in space


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


@pytest.mark.parametrize(
    "space", [PAPER, EXTENDED, TINY, CLOSED], ids=["paper", "extended", "tiny", "closed"]
)
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
        "tiny: expansion 1, propagation 1, attention 2, heads 1, aggregation 1, combine 1, "
        "norm 1, activation 3, shortcuts searched"
    )


def test_spaces_are_registered_under_their_names() -> None:
    assert SPACES["paper"] is PAPER
    assert SPACES["extended"] is EXTENDED
    assert SPACES["inductive"] is INDUCTIVE
    assert all(SPACES[name].name == name for name in SPACES)


def test_the_paper_s_space_leaves_out_what_only_baselines_use() -> None:
    assert 0 not in PAPER.expansion
    assert PAPER.combine == ("add",)
    assert {slot: len(PAPER.candidates(slot)) for slot in SLOTS} == {
        "expansion": 4,
        "propagation": 1,
        "attention": 7,
        "heads": 5,
        "aggregation": 3,
        "combine": 1,
        "norm": 1,
        "activation": 8,
    }


def test_a_space_without_the_newer_slots_has_one_step_and_no_norm() -> None:
    values = json.loads(PAPER.to_json())
    del values["propagation"], values["norm"]
    assert SearchSpace.from_json(json.dumps(values)) == PAPER


def test_the_extended_space_has_all_candidates_of_the_paper_s() -> None:
    for slot in SLOTS:
        for last in (False, True):
            theirs = PAPER.candidates(slot, last=last)
            assert set(theirs) <= set(EXTENDED.candidates(slot, last=last)), slot


@given(seed=seeds, num_blocks=st.integers(1, 5))
def test_the_extended_space_has_the_paper_s_networks_with_a_bias(
    seed: int, num_blocks: int
) -> None:
    member = PAPER.sample(num_blocks, torch.Generator().manual_seed(seed))
    blocks = [spec.model_copy(update={"bias": True}) for spec in member.blocks]
    assert member.model_copy(update={"blocks": tuple(blocks)}) in EXTENDED
    assert member not in EXTENDED


def test_the_extended_space_has_the_hand_designed_networks_but_for_sage() -> None:
    known = {name: BASELINES[name] for name in BASELINES if BASELINES[name].of is None}
    inside = {name for name, baseline in known.items() if baseline.design in EXTENDED}
    assert inside == {"gcn", "gat", "jknet-concat", "grand", "mlp"}
    assert BASELINES["sage"].architecture in EXTENDED.model_copy(update={"combine": ("root",)})


def test_the_extended_space_has_twelve_billion_architectures_of_two_blocks() -> None:
    last = 5 * 5 * 7 * 5 * 3 * 3
    assert EXTENDED.count(2) == (last * 3 * 8) * last * 2**3 == 11_907_000_000


def test_fixed_attention_has_the_first_number_of_heads() -> None:
    blocks = tuple(BlockSpec(attention=name, heads=4) for name in ATTENTIONS)
    heads = {spec.attention: spec.heads for spec in PAPER.plain(Architecture(blocks=blocks)).blocks}
    assert heads == {name: 4 if ATTENTIONS[name].learned else 1 for name in ATTENTIONS}


def test_mixed_orders_have_the_first_of_what_plays_no_part() -> None:
    busy = BlockSpec(
        expansion=2,
        propagation=4,
        attention="gat",
        heads=8,
        aggregation="max",
        combine="concat-mlp",
        norm="batch",
        activation="relu",
        bias=True,
    )
    last = BlockSpec(propagation=1, attention="gat", heads=8, aggregation="max", bias=True)
    plain = EXTENDED.plain(Architecture(blocks=(busy, last), gates=((0, 1),)))
    idle = {"attention": "const", "heads": 1, "aggregation": "sum"}
    expected = (busy.model_copy(update=idle), last)
    assert plain == Architecture(blocks=expected, gates=((0, 1),))


def other_first(space: SearchSpace) -> SearchSpace:
    """The same candidates in another order."""
    return space.model_copy(update={slot: getattr(space, slot)[::-1] for slot in SLOTS})


@pytest.mark.parametrize("space", [EXTENDED, other_first(EXTENDED)], ids=["as is", "reversed"])
@given(seed=seeds, num_blocks=st.integers(1, 3))
def test_the_plain_form_is_the_same_network(space: SearchSpace, seed: int, num_blocks: int) -> None:
    class Task:
        in_channels, out_channels = 5, 3

    member = space.sample(num_blocks, torch.Generator().manual_seed(seed))
    plain = space.plain(member)
    assert plain in space
    assert space.plain(plain) == plain
    assert plain.parameters(Task(), 4) == member.parameters(Task(), 4)
    one, other = (GraphNetwork(each, Task(), 4) for each in (member, plain))
    other.load_state_dict(one.state_dict())
    x, edges = torch.rand(6, 5), torch.tensor([[0, 1, 2, 0, 3, 4], [1, 0, 1, 2, 2, 4]])
    torch.testing.assert_close(other(x, edges), one(x, edges))


WHOLE = """
version = 1
name = "mine"
expansion = [0, 2]
propagation = [1, 0, 8]
attention = ["gcn", "gat"]
heads = [4]
aggregation = ["sum"]
combine = ["none", "add"]
norm = ["none", "layer"]
activation = ["relu"]
shortcuts = "none"
bias = true
attention_normalization = "none"
"""


def test_a_toml_file_may_say_everything(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(WHOLE)
    assert set(re.findall(r"^\w+", WHOLE, re.MULTILINE)) == set(SearchSpace.model_fields)
    assert SearchSpace.load(path) == SearchSpace(
        name="mine",
        expansion=(0, 2),
        propagation=(1, 0, 8),
        attention=("gcn", "gat"),
        heads=(4,),
        aggregation=("sum",),
        combine=("none", "add"),
        norm=("none", "layer"),
        activation=("relu",),
        shortcuts="none",
        bias=True,
        attention_normalization="none",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", {}),
        ('attention = ["gat"]', {"attention": ("gat",)}),
        ("heads = [2]\nbias = true", {"heads": (2,), "bias": True}),
    ],
    ids=["nothing", "a slot", "two keys"],
)
def test_what_a_toml_file_leaves_out_is_as_in_the_paper_s_space(
    tmp_path: Path, text: str, said: dict[str, Any]
) -> None:
    path = tmp_path / "my.space.toml"
    path.write_text(text)
    assert SearchSpace.load(str(path)) == PAPER.model_copy(update={"name": "my.space", **said})


def test_a_space_is_found_by_its_name_or_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("heads = [2]")
    assert find_space("extended") is EXTENDED
    assert find_space(str(tmp_path / "mine.toml")).heads == (2,)
    with pytest.raises(UnknownNameError, match=r"Unknown space 'papr'.*did you mean 'paper'\?"):
        find_space("papr")
    with pytest.raises(
        ArchitectureError, match=r"^The space 'none\.toml' cannot be read \(No such"
    ):
        find_space("none.toml")


WRONG = {
    "not TOML": ("heads = [1", "is not valid TOML: .*; correct it, for example: attention = "),
    "not text": ("heads = 'ä'", "is not valid TOML: 'utf-8' codec can't decode byte"),
    "twice": ("heads = [1]\nheads = [2]", "is not valid TOML: Cannot overwrite a value"),
    "unknown key": ("depth = 2", "has the unknown key 'depth'; known are: version, name, "),
    "table": ("[blocks]\nheads = [1]", "has the unknown key 'blocks'; known are: "),
    "unknown op": ('attention = ["gta"]', "is not valid: Unknown attention 'gta'; .*'gat'"),
    "unknown number": ("propagation = [3]", "is not valid: Unknown propagation '3'; known are: "),
    "no candidates": ("norm = []", r"is not valid: The slot 'norm' has the candidates \[\]; give"),
    "one twice": ("heads = [2, 2]", r"is not valid: The slot 'heads' has the candidates \[2, 2\]"),
    "not a list": (
        "heads = 2",
        r"has heads = 2; give a list of candidates, for example: heads = \[1, 2\]",
    ),
    "wrong type": ('heads = ["many"]', "is not valid: heads.0: Input should be a valid integer"),
    "truth as a number": ("heads = [true]", "is not valid: heads.0: Input should be a valid integ"),
    "word as a number": ('heads = ["1"]', "is not valid: heads.0: Input should be a valid integ"),
    "word as truth": ('bias = "yes"', "is not valid: bias: Input should be a valid boolean"),
    "shortcuts": ('shortcuts = "some"', "is not valid: shortcuts: Input should be 'searched' or"),
    "name": ("name = 3", "is not valid: name: Input should be a valid string"),
    "version": ("version = 2", "is not valid: version: "),
}


@pytest.mark.parametrize(("text", "complaint"), WRONG.values(), ids=WRONG.keys())
def test_a_toml_file_that_is_not_a_space_is_one_sentence(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ArchitectureError) as caught:
        SearchSpace.load(path)
    message = str(caught.value)
    assert re.match(rf"^The space '{re.escape(str(path))}' {complaint}", message)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert not message.endswith("..")


@pytest.mark.parametrize("place", [".", "none.toml"])
def test_a_space_that_cannot_be_read_is_one_sentence(tmp_path: Path, place: str) -> None:
    pattern = r"^The space '.*' cannot be read \([\w ]+\); check the path\.$"
    with pytest.raises(ArchitectureError, match=pattern):
        SearchSpace.load(tmp_path / place)


def test_a_future_version_is_refused() -> None:
    values = {**json.loads(PAPER.to_json()), "version": 2}
    with pytest.raises(ArchitectureError, match="reads version 1; update pdnas"):
        SearchSpace.from_json(json.dumps(values))


def test_the_table_lists_every_candidate() -> None:
    table = EXTENDED.table()
    assert [row[0] for row in table] == ["slot", *SLOTS]
    assert table[2] == ["propagation", "5", "1, 0, 2, 4, 8"]
    assert table[3] == ["attention", "7", ", ".join(PAPER.attention)]


LINES = st.lists(
    st.sampled_from(
        [
            'name = "mine"',
            "attention = []",
            'attention = ["gcn", "gcn"]',
            "heads = [1, 9223372036854775808]",
            f"expansion = [{'9' * 400}]",
            "heads = [nan, inf]",
            "heads = [true]",
            "version = 2",
            "bias = 1",
            "shortcuts = [[a]]",
            "[attention]",
            "[[heads]]",
            "a.b.c = 1",
            "name = 1979-05-27",
            "\0",
            "x = " + "[" * 5000,
        ]
    ),
    max_size=4,
    unique=True,
)


@given(lines=LINES)
def test_whatever_a_file_says_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("spaces") / "any.toml"
    path.write_text("\n".join(lines))
    with contextlib.suppress(PdnasError):
        SearchSpace.load(path)
