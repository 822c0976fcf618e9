"""Sets of architectures to search in."""

import math
from pathlib import Path
from typing import Literal

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    StrictBool,
    StrictInt,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ArchitectureError, PdnasError, first_complaint, shown
from pdnas.ops import ATTENTIONS, SLOTS
from pdnas.ops.attention import Normalization
from pdnas.registry import Registry, unknown
from pdnas.toml import read_toml

MAX_BLOCKS = 100
"""More than anyone stacks, and few enough for the number of architectures to be written down."""


class SearchSpace(BaseModel):
    """The candidates of each slot, the same in every block, and whether shortcuts are searched.

    A slot with one candidate is fixed. The last block emits logits, so its norm and its activation
    are always ``none``, whatever the candidates.

    Examples:
        >>> space = pdnas.SearchSpace(
        ...     name="small",
        ...     expansion=(0, 1),
        ...     attention=("gcn", "gat"),
        ...     heads=(1, 8),
        ...     aggregation=("mean",),
        ...     combine=("add", "none"),
        ...     activation=("relu", "elu"),
        ... )
        >>> found = pdnas.search("citeseer", space=space, budget_seconds=60)
        >>> found.architecture in space
        True

    Args:
        version: Of the JSON format.
        name: How it is called.
        expansion: Candidates for the transform.
        propagation: Candidates for how far messages travel.
        attention: Candidates for the attention.
        heads: Candidates for the number of heads.
        aggregation: Candidates for the aggregation.
        combine: Candidates for the combination.
        norm: Candidates for the normalization of all blocks but the last.
        activation: Candidates for the activation of all blocks but the last.
        shortcuts: ``searched``, or ``none``.
        bias: Whether blocks have a bias.
        attention_normalization: See :class:`~pdnas.architecture.Architecture`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    name: str
    expansion: tuple[StrictInt, ...]
    propagation: tuple[StrictInt, ...] = (1,)
    attention: tuple[str, ...]
    heads: tuple[StrictInt, ...]
    aggregation: tuple[str, ...]
    combine: tuple[str, ...]
    norm: tuple[str, ...] = ("none",)
    activation: tuple[str, ...]
    shortcuts: Literal["searched", "none"] = "searched"
    bias: StrictBool = False
    attention_normalization: Normalization = "softmax"

    @field_validator(*SLOTS)
    @classmethod
    def _has_known_candidates(
        cls, names: tuple[str | int, ...], info: ValidationInfo
    ) -> tuple[str | int, ...]:
        assert info.field_name is not None
        if not names or len(set(names)) < len(names):
            raise ArchitectureError(
                f"The slot '{info.field_name}' has the candidates {shown(list(names))}; "
                "give at least one, each of them once."
            )
        for name in names:
            SLOTS[info.field_name][name]
        return names

    def candidates(self, slot: str, *, last: bool = False) -> tuple[str | int, ...]:
        """The candidates of a slot, in the last block or in any other."""
        if last and slot in ("norm", "activation"):
            return ("none",)
        names: tuple[str | int, ...] = getattr(self, slot)
        return names

    def possible_gates(self, num_blocks: int) -> tuple[tuple[int, int], ...]:
        """The shortcuts that may be there: the upper triangle, or none at all."""
        if self.shortcuts == "none":
            return ()
        return tuple((i, j) for j in range(num_blocks) for i in range(j + 1))

    def count(self, num_blocks: int) -> int:
        """Number of members with that many blocks."""
        check_blocks(num_blocks)
        inner = math.prod(len(self.candidates(slot)) for slot in SLOTS)
        last = math.prod(len(self.candidates(slot, last=True)) for slot in SLOTS)
        gates = len(self.possible_gates(num_blocks))
        return math.prod([inner] * (num_blocks - 1)) * last * (1 << gates)

    def sample(self, num_blocks: int, generator: torch.Generator) -> Architecture:
        """A member with that many blocks, all of them equally likely."""
        check_blocks(num_blocks)

        def pick(count: int) -> int:
            return int(torch.randint(count, (), generator=generator))

        blocks = []
        for number in range(num_blocks):
            last = number == num_blocks - 1
            options = {slot: self.candidates(slot, last=last) for slot in SLOTS}
            chosen = {slot: names[pick(len(names))] for slot, names in options.items()}
            blocks.append(BlockSpec.model_validate({**chosen, "bias": self.bias}))
        return Architecture(
            blocks=tuple(blocks),
            gates=tuple(gate for gate in self.possible_gates(num_blocks) if pick(2)),
            attention_normalization=self.attention_normalization,
        )

    def plain(self, architecture: Architecture) -> Architecture:
        """The same network by its simplest name.

        The heads of a fixed attention change nothing, nor do attention, heads and aggregation where
        a block does not attend: they are the fewest heads and the first candidates then.
        """
        blocks = []
        for spec in architecture.blocks:
            idle: tuple[str, ...] = () if ATTENTIONS[spec.attention].learned else ("heads",)
            if not spec.attends:
                idle = ("attention", "heads", "aggregation")
            first: dict[str, str | int] = {slot: self.candidates(slot)[0] for slot in idle}
            if "heads" in first:
                first["heads"] = min(self.heads)
            blocks.append(spec.model_copy(update=first))
        return architecture.model_copy(update={"blocks": tuple(blocks)})

    def __contains__(self, architecture: object) -> bool:
        if not isinstance(architecture, Architecture):
            return False
        last = architecture.num_blocks - 1
        return (
            all(
                getattr(block, slot) in self.candidates(slot, last=number == last)
                for number, block in enumerate(architecture.blocks)
                for slot in SLOTS
            )
            and all(block.bias == self.bias for block in architecture.blocks)
            and set(architecture.gates) <= set(self.possible_gates(architecture.num_blocks))
            and architecture.attention_normalization == self.attention_normalization
        )

    @classmethod
    def from_json(cls, text: str) -> "SearchSpace":
        """Read what :meth:`to_json` wrote."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            if any(problem["loc"] == ("version",) for problem in error.errors()):
                raise ArchitectureError(
                    "The space has a format version that this pdnas does not read, which reads "
                    "version 1; update pdnas or write the space again."
                ) from None
            raise ArchitectureError(f"The space is not valid: {first_complaint(error)}.") from None
        except PdnasError as error:
            raise ArchitectureError(f"The space is not valid: {error}") from None

    @classmethod
    def load(cls, path: str | Path) -> "SearchSpace":
        """Read a TOML file whose keys are the fields; what it does not name is as in the paper's.

        Without a name it is called as the file is.
        """
        values = read_toml(path, "space", 'attention = ["gcn", "gat"]', ArchitectureError)
        unknown_keys = sorted(set(values) - set(cls.model_fields))
        if unknown_keys:
            raise ArchitectureError(
                f"The space '{path}' has the unknown key '{shown(unknown_keys[0])}'; known are: "
                f"{', '.join(cls.model_fields)}."
            )
        for slot in SLOTS:
            if not isinstance(values.get(slot, []), list):
                raise ArchitectureError(
                    f"The space '{path}' has {slot} = {shown(repr(values[slot]))}; give a "
                    f"list of candidates, for example: {slot} = {list(getattr(PAPER, slot)[:2])}."
                )
        try:
            return cls.model_validate({**PAPER.model_dump(), "name": Path(path).stem, **values})
        except ValidationError as error:
            raise ArchitectureError(
                f"The space '{path}' is not valid: {first_complaint(error)}."
            ) from None
        except PdnasError as error:
            raise ArchitectureError(f"The space '{path}' is not valid: {error}") from None

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    def table(self) -> list[list[str]]:
        """Rows of text under a header: each slot, how many candidates it has, and which."""
        rows = [["slot", "candidates", ""]]
        for slot in SLOTS:
            names = self.candidates(slot)
            rows.append([slot, str(len(names)), ", ".join(map(str, names))])
        return rows

    def __str__(self) -> str:
        """One line: how many candidates each slot has."""
        slots = ", ".join(f"{slot} {len(self.candidates(slot))}" for slot in SLOTS)
        return f"{self.name}: {slots}, shortcuts {self.shortcuts}"


def find_space(name: str) -> SearchSpace:
    """A named space, or one from a TOML file."""
    if name.endswith(".toml"):
        return SearchSpace.load(name)
    if name not in SPACES:
        raise unknown("space", name, [*SPACES, "a .toml file"])
    return SPACES[name]


def check_blocks(num_blocks: int) -> None:
    """Refuse a depth that no network has."""
    if not 1 <= num_blocks <= MAX_BLOCKS:
        raise ArchitectureError(f"The number of blocks is {num_blocks}; give 1 to {MAX_BLOCKS}.")


SPACES: Registry[str, SearchSpace] = Registry("space")

PAPER = SearchSpace(
    name="paper",
    expansion=(1, 2, 4, 8),
    attention=("const", "gcn", "gat", "sym-gat", "cos", "linear", "gene-linear"),
    heads=(1, 2, 4, 8, 16),
    aggregation=("sum", "mean", "max"),
    combine=("add",),
    activation=("none", "sigmoid", "tanh", "softplus", "relu", "leaky-relu", "relu6", "elu"),
)
"""The paper's space: 3360 blocks, of which the last one has 420."""

EXTENDED = SearchSpace(
    name="extended",
    expansion=(0, *PAPER.expansion),
    propagation=(1, 0, 2, 4, 8),
    attention=PAPER.attention,
    heads=PAPER.heads,
    aggregation=PAPER.aggregation,
    combine=("add", "none", "concat-mlp"),
    norm=("none", "layer", "batch"),
    activation=PAPER.activation,
    bias=True,
)
"""All of the paper's space, and what hand-designed networks are made of."""

INDUCTIVE = SearchSpace(
    name="inductive",
    expansion=(0,),
    attention=("gat", "const", "gcn", "sym-gat", "cos"),
    heads=(4, 1, 8),
    aggregation=("sum", "mean"),
    combine=("root", "add", "none"),
    norm=("layer", "none"),
    activation=("relu", "elu"),
    bias=True,
)
"""For many graphs and wide networks: single maps, norms, ways to hear oneself, and shortcuts.

What carries a message of every channel along every edge (``max``, ``gene-linear``) is left out, so
that a supernet of 512 channels needs little memory.
"""

for _space in (PAPER, EXTENDED, INDUCTIVE):
    SPACES.register(_space.name)(_space)
