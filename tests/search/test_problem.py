"""What a search may propose: the smallest architecture, and how others are made to fit."""

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch_geometric.data import Data

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ArchitectureError, SearchError
from pdnas.ops import COMBINES, SLOTS
from pdnas.search import Problem
from pdnas.space import EXTENDED, PAPER, SearchSpace
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

# Candidates that cost something, the dear ones first; the last block alone has no activation.
DEAR = SearchSpace(
    name="dear",
    expansion=(2, 1),
    attention=("gene-linear", "linear"),
    heads=(4, 1, 2),
    aggregation=("sum",),
    combine=("root", "concat-mlp"),
    activation=("relu", "elu"),
)
WIDE = PAPER.model_copy(
    update={"name": "wide", "expansion": (8, 0, 2, 1), "combine": tuple(COMBINES), "bias": True}
)
MIXED = DEAR.model_copy(update={"name": "mixed", "propagation": (1, 2), "norm": ("layer", "none")})
SPACES = {"paper": PAPER, "extended": EXTENDED, "dear": DEAR, "wide": WIDE, "mixed": MIXED}


def small_task() -> GraphTask:
    """4 features, 3 classes."""
    nodes = torch.arange(6)
    data = Data(x=torch.rand(6, 4), edge_index=torch.stack([nodes, nodes.roll(1)]), y=nodes % 3)
    for part, first in {"train": 0, "val": 2, "test": 4}.items():
        data[f"{part}_mask"] = (nodes >= first) & (nodes < first + 2)
    return GraphTask.from_data(data, name="small")


TASK = small_task()


def problem(
    space: SearchSpace = DEAR,
    *,
    num_blocks: int = 2,
    hidden: int = 4,
    max_parameters: int | None = None,
) -> Problem:
    return Problem(TASK, space, num_blocks, hidden, Recipe(), max_parameters)


def members(space: SearchSpace, num_blocks: int) -> list[Architecture]:
    """Every architecture of a space, by trying them all."""
    choices = []
    for number in range(num_blocks):
        options = [space.candidates(slot, last=number == num_blocks - 1) for slot in SLOTS]
        named = [dict(zip(SLOTS, names, strict=True)) for names in itertools.product(*options)]
        choices.append([BlockSpec.model_validate(names | {"bias": space.bias}) for names in named])
    possible = space.possible_gates(num_blocks)
    sets = itertools.chain.from_iterable(
        itertools.combinations(possible, count) for count in range(len(possible) + 1)
    )
    return [
        Architecture(blocks=blocks, gates=gates)
        for blocks, gates in itertools.product(itertools.product(*choices), list(sets))
    ]


def uniform(space: SearchSpace, num_blocks: int) -> tuple[Tensor, Tensor]:
    """Probabilities of ops and gates that favor nothing."""
    most = max(len(space.candidates(slot)) for slot in SLOTS)
    ops = torch.full((num_blocks, len(SLOTS), most), 1 / most)
    return ops, torch.full((num_blocks, num_blocks), 0.5)


@pytest.mark.parametrize("hidden", [1, 4, 6])
@pytest.mark.parametrize(("name", "num_blocks"), [("dear", 1), ("dear", 2), ("mixed", 1)])
def test_the_smallest_is_the_smallest_of_all(name: str, num_blocks: int, hidden: int) -> None:
    space = SPACES[name].model_copy(update={"activation": ("none",)})
    made = problem(space, num_blocks=num_blocks, hidden=hidden)
    least = min(one.parameters(TASK, hidden) for one in members(space, num_blocks))
    assert made.parameters(made.smallest) == least
    assert made.smallest in space


def test_heads_that_do_not_divide_the_classes_cost_more() -> None:
    """Else the test above would not see whether heads are looked at."""
    spec = BlockSpec(attention="linear", heads=4)
    assert spec.parameters(4, 3, 4) > spec.model_copy(update={"heads": 1}).parameters(4, 3, 4)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("num_blocks", [1, 3])
def test_the_smallest_is_a_member_and_no_sample_is_smaller(
    space: SearchSpace, num_blocks: int, generator: Generator
) -> None:
    made = problem(space, num_blocks=num_blocks, hidden=5)
    assert made.smallest in space
    assert made.smallest.num_blocks == num_blocks
    sizes = [made.parameters(space.sample(num_blocks, generator)) for _ in range(100)]
    assert made.parameters(made.smallest) <= min(sizes)


def test_a_budget_that_nothing_meets_is_refused_with_the_size_that_would_do() -> None:
    size = problem(hidden=64).parameters(problem(hidden=64).smallest)
    assert size > 1000
    with pytest.raises(SearchError) as caught:
        problem(hidden=64, max_parameters=size - 1)
    assert str(caught.value) == (
        "No network of the space 'dear' with 2 block(s) and hidden size 64 has at most "
        f"{size - 1:,} parameters on small; the smallest has {size:,}: raise --max-parameters or "
        "lower --hidden."
    )
    assert problem(hidden=64, max_parameters=size).max_parameters == size


def test_a_hidden_size_that_no_network_has_is_refused() -> None:
    with pytest.raises(ArchitectureError, match="The hidden size is 0; give"):
        problem(hidden=0)


def test_what_has_exactly_as_many_weights_as_allowed_fits(generator: Generator) -> None:
    architecture = DEAR.sample(2, generator)
    size = architecture.parameters(TASK, 4)
    assert problem(max_parameters=size).fits(architecture)
    assert not problem(max_parameters=size - 1).fits(architecture)
    assert problem().fits(architecture)


def test_the_size_of_an_architecture_includes_its_shortcuts() -> None:
    made, bare = problem(PAPER), Architecture(blocks=(BlockSpec(), BlockSpec()))
    open_gate = bare.model_copy(update={"gates": ((0, 1),)})
    assert made.parameters(open_gate) - made.parameters(bare) == 4 * 3


@settings(max_examples=40)
@given(
    name=st.sampled_from(list(SPACES)),
    num_blocks=st.integers(1, 3),
    hidden=st.integers(1, 9),
    part=st.floats(0, 1),
    sharpness=st.sampled_from([0.0, 1.0, 100.0]),
    seed=st.integers(0, 2**32),
)
def test_whatever_is_shrunk_fits_and_stays_in_the_space(
    name: str, num_blocks: int, hidden: int, part: float, sharpness: float, seed: int
) -> None:
    space, generator = SPACES[name], torch.Generator().manual_seed(seed)
    architecture = space.sample(num_blocks, generator)
    free = problem(space, num_blocks=num_blocks, hidden=hidden)
    size, least = free.parameters(architecture), free.parameters(free.smallest)
    budget = least + int(part * (size - least))
    ops, gates = uniform(space, num_blocks)
    ops = (sharpness * torch.rand(ops.shape, generator=generator)).softmax(dim=-1)
    gates = (sharpness * (torch.rand(gates.shape, generator=generator) - 0.5)).sigmoid()

    tight = problem(space, num_blocks=num_blocks, hidden=hidden, max_parameters=budget)
    shrunk = tight.shrink(architecture, ops, gates)

    assert tight.parameters(shrunk) <= budget
    assert shrunk in space
    assert shrunk.num_blocks == num_blocks
    assert Architecture.from_json(shrunk.to_json()) == shrunk  # it is valid and in its one form
    assert (shrunk == architecture) == (size <= budget)


@pytest.mark.parametrize("max_parameters", [None, "its own size"])
def test_what_fits_is_not_changed(max_parameters: str | None, generator: Generator) -> None:
    architecture = WIDE.sample(2, generator)
    budget = architecture.parameters(TASK, 4) if max_parameters else None
    made = problem(WIDE, max_parameters=budget)
    assert made.shrink(architecture, *uniform(WIDE, 2)) is architecture


def test_probabilities_of_zero_and_one_are_no_obstacle() -> None:
    made = problem(PAPER, num_blocks=3)
    least = made.parameters(made.smallest)
    large = Architecture(blocks=(BlockSpec(expansion=8),) * 3, gates=((0, 0), (0, 2), (1, 2)))
    ops, gates = uniform(PAPER, 3)
    ops[:] = 0.0
    ops[:, 0, 3] = 1.0  # the dearest expansion
    tight = problem(PAPER, num_blocks=3, max_parameters=least)
    for value in (0.0, 1.0):
        assert tight.parameters(tight.shrink(large, ops, gates.fill_(value))) == least


# With 4 features and hidden size 4 the first two blocks of three have the same sizes.
PLAIN = PAPER.model_copy(
    update={
        "name": "plain",
        "expansion": (1, 2),
        "attention": ("const",),
        "heads": (1,),
        "aggregation": ("sum",),
        "activation": ("none",),
    }
)
TWICE = BlockSpec(expansion=2)


@pytest.mark.parametrize("unlikely", [0, 1])
def test_of_two_equal_ops_the_unlikely_one_is_given_up(unlikely: int) -> None:
    architecture = Architecture(blocks=(TWICE, TWICE, BlockSpec()))
    ops, gates = uniform(PLAIN, 3)
    ops[:, 0] = torch.tensor([0.1, 0.9])
    ops[unlikely, 0] = torch.tensor([0.4, 0.6])
    made = problem(PLAIN, num_blocks=3, max_parameters=architecture.parameters(TASK, 4) - 1)
    shrunk = made.shrink(architecture, ops, gates)
    expansions = [block.expansion for block in shrunk.blocks]
    assert expansions == [1 if number == unlikely else 2 for number in (0, 1)] + [1]


@pytest.mark.parametrize("unlikely", [(0, 0), (0, 1), (1, 1)])
def test_of_equal_gates_the_unlikely_one_is_closed(unlikely: tuple[int, int]) -> None:
    gates_open = ((0, 0), (0, 1), (1, 1))  # all of them 4 x 4
    architecture = Architecture(blocks=(BlockSpec(),) * 3, gates=gates_open)
    ops, gates = uniform(PLAIN, 3)
    gates[:] = 0.9
    gates[unlikely] = 0.6
    made = problem(PLAIN, num_blocks=3, max_parameters=architecture.parameters(TASK, 4) - 1)
    kept = made.shrink(architecture, ops, gates).gates
    assert set(gates_open) - set(kept) == {unlikely}


def test_of_two_likely_choices_the_larger_is_given_up() -> None:
    """Halving the first block saves 32 weights, halving the last 28, at the same price."""
    architecture = Architecture(blocks=(BlockSpec(expansion=1), TWICE, TWICE))
    ops, gates = uniform(PLAIN, 3)
    ops[:, 0] = torch.tensor([0.2, 0.8])
    made = problem(PLAIN, num_blocks=3, max_parameters=architecture.parameters(TASK, 4) - 1)
    expansions = [block.expansion for block in made.shrink(architecture, ops, gates).blocks]
    assert expansions == [1, 1, 2]


def test_a_price_is_reckoned_by_the_weights_that_it_saves() -> None:
    """An op that saves 32 weights for log 4 goes before a gate that saves 12 for log 3."""
    architecture = Architecture(blocks=(TWICE, BlockSpec(), BlockSpec()), gates=((0, 2),))
    ops, gates = uniform(PLAIN, 3)
    ops[0, 0] = torch.tensor([0.2, 0.8])
    gates[0, 2] = 0.75
    made = problem(PLAIN, num_blocks=3, max_parameters=architecture.parameters(TASK, 4) - 1)
    shrunk = made.shrink(architecture, ops, gates)
    assert shrunk == Architecture(blocks=(BlockSpec(),) * 3, gates=((0, 2),))


def test_of_impossible_ops_the_possible_one_takes_the_place() -> None:
    architecture = Architecture(blocks=(BlockSpec(expansion=8), BlockSpec(), BlockSpec()))
    ops, gates = uniform(PAPER, 3)
    ops[0, 0] = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    made = problem(PAPER, num_blocks=3, max_parameters=architecture.parameters(TASK, 4) - 1)
    assert made.shrink(architecture, ops, gates).blocks[0] == TWICE


def test_an_op_gives_way_to_a_likelier_one_before_anything_likely_goes() -> None:
    """The gate that is there for sure stays, though closing it would save enough."""
    architecture = Architecture(blocks=(TWICE, BlockSpec(), BlockSpec()), gates=((0, 1),))
    ops, gates = uniform(PLAIN, 3)
    ops[0, 0] = torch.tensor([0.7, 0.3])
    gates[0, 1] = 0.99
    made = problem(PLAIN, num_blocks=3, max_parameters=architecture.parameters(TASK, 4) - 16)
    shrunk = made.shrink(architecture, ops, gates)
    assert shrunk == Architecture(blocks=(BlockSpec(),) * 3, gates=((0, 1),))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("slack", [0, 7, 100])
def test_samples_keep_to_the_budget(space: SearchSpace, slack: int, generator: Generator) -> None:
    free = problem(space)
    budget = free.parameters(free.smallest) + slack
    made = problem(space, max_parameters=budget)
    for _ in range(8):
        architecture = made.sample(generator)
        assert made.parameters(architecture) <= budget
        assert architecture in space


def test_a_budget_that_one_size_meets_still_leaves_what_costs_nothing_to_chance(
    generator: Generator,
) -> None:
    free = problem(PAPER, num_blocks=3)
    made = problem(PAPER, num_blocks=3, max_parameters=free.parameters(free.smallest))
    found = [made.sample(generator) for _ in range(12)]
    assert {made.parameters(one) for one in found} == {free.parameters(free.smallest)}
    assert len({one.blocks[0].activation for one in found}) > 2
    assert len({one.blocks[0].aggregation for one in found}) > 1


def test_all_that_fit_are_equally_likely(generator: Generator) -> None:
    all_of_them = members(PLAIN, 2)
    budget = sorted(one.parameters(TASK, 4) for one in all_of_them)[len(all_of_them) // 2]
    made, draws = problem(PLAIN, max_parameters=budget), 1500
    fitting = {one for one in all_of_them if made.fits(one)}
    assert 5 < len(fitting) < len(all_of_them)
    seen = Counter(made.sample(generator) for _ in range(draws))
    assert set(seen) == fitting
    expected = draws / len(fitting)
    chi_square = sum((seen[one] - expected) ** 2 / expected for one in fitting)
    # Mean k and variance 2 k for k degrees of freedom: five standard deviations above.
    freedom = len(fitting) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


def test_the_seed_decides_the_samples() -> None:
    made = problem(WIDE, max_parameters=problem(WIDE).parameters(problem(WIDE).smallest) + 50)
    runs = [
        [made.sample(source) for _ in range(5)]
        for source in (torch.Generator().manual_seed(seed) for seed in (1, 1, 2))
    ]
    assert runs[0] == runs[1] != runs[2]


def changes(space: SearchSpace, architecture: Architecture) -> set[Architecture]:
    """All that differ in one choice from the plain form, in their plain form."""
    plain, last = space.plain(architecture), architecture.num_blocks - 1
    found = set()
    for number, spec in enumerate(plain.blocks):
        for slot in SLOTS:
            for name in space.candidates(slot, last=number == last):
                blocks = list(plain.blocks)
                blocks[number] = spec.model_copy(update={slot: name})
                found.add(space.plain(plain.model_copy(update={"blocks": tuple(blocks)})))
    for gate in space.possible_gates(last + 1):
        gates = tuple(sorted(set(plain.gates) ^ {gate}))
        found.add(plain.model_copy(update={"gates": gates}))
    return found - {plain}


@settings(max_examples=25)
@given(
    name=st.sampled_from(list(SPACES)),
    num_blocks=st.integers(1, 3),
    hidden=st.integers(1, 9),
    slack=st.sampled_from([None, 0, 5, 40]),
    seed=st.integers(0, 2**32),
)
def test_a_neighbor_differs_in_one_choice_and_fits_and_stays_in_the_space(
    name: str, num_blocks: int, hidden: int, slack: int | None, seed: int
) -> None:
    space, generator = SPACES[name], torch.Generator().manual_seed(seed)
    free = problem(space, num_blocks=num_blocks, hidden=hidden)
    budget = None if slack is None else free.parameters(free.smallest) + slack
    made = problem(space, num_blocks=num_blocks, hidden=hidden, max_parameters=budget)
    architecture = made.sample(generator)
    neighbor = made.neighbor(architecture, generator)
    allowed = {one for one in changes(space, architecture) if made.fits(one)}
    assert neighbor in (allowed or {space.plain(architecture)})
    assert neighbor in space
    assert made.fits(neighbor)
    assert Architecture.from_json(neighbor.to_json()) == neighbor


def test_every_change_of_one_choice_can_be_hit(generator: Generator) -> None:
    architecture = DEAR.sample(2, generator)
    expected = changes(DEAR, architecture)
    assert len(expected) > 10
    assert {problem().neighbor(architecture, generator) for _ in range(500)} == expected


def test_a_neighbor_of_a_network_at_the_limit_is_none_that_is_larger(generator: Generator) -> None:
    architecture = DEAR.sample(2, generator)
    made = problem(max_parameters=architecture.parameters(TASK, 4))
    fitting = {one for one in changes(DEAR, architecture) if made.fits(one)}
    assert 0 < len(fitting) < len(changes(DEAR, architecture))
    assert {made.neighbor(architecture, generator) for _ in range(500)} == fitting


def test_where_nothing_can_be_changed_a_network_is_its_own_neighbor(generator: Generator) -> None:
    update = {slot: DEAR.candidates(slot)[:1] for slot in SLOTS} | {"shortcuts": "none"}
    one = SearchSpace.model_validate(DEAR.model_dump() | update)
    only = one.sample(2, generator)
    assert one.count(2) == 1
    assert problem(one).neighbor(only, generator) == only


def test_where_no_change_fits_a_network_is_its_own_neighbor(generator: Generator) -> None:
    space = PLAIN.model_copy(update={"expansion": (1, 2, 4)})
    made = problem(space, max_parameters=problem(space).parameters(problem(space).smallest))
    assert changes(space, made.smallest)
    assert made.neighbor(made.smallest, generator) == made.smallest


def test_the_seed_decides_the_neighbor() -> None:
    architecture = WIDE.sample(2, torch.Generator().manual_seed(0))
    runs = [
        [problem(WIDE).neighbor(architecture, source) for _ in range(5)]
        for source in (torch.Generator().manual_seed(seed) for seed in (1, 1, 2))
    ]
    assert runs[0] == runs[1] != runs[2]


def test_the_device_is_that_of_the_task() -> None:
    assert problem().device == torch.device("cpu")
