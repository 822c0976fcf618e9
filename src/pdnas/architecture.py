"""The value that a search gives and a training takes: an op for each slot, and shortcuts."""

from pathlib import Path
from typing import Literal, Protocol, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pdnas.errors import ArchitectureError, PdnasError, first_complaint, shown
from pdnas.files import check_path, write_whole
from pdnas.notebook import html_table
from pdnas.ops import PROPAGATIONS, SLOTS, Dims, Op
from pdnas.ops.attention import Normalization

MAX_HIDDEN = 1_000_000
"""Wider than any network that fits into memory."""

DEEPEST = 1000
"""More blocks than any network has."""


class Channels(Protocol):
    """Whatever has features to read and logits to give: a task."""

    @property
    def in_channels(self) -> int: ...

    @property
    def out_channels(self) -> int: ...


class BlockSpec(BaseModel):
    """The op of each slot of one block.

    Examples:
        >>> block = pdnas.BlockSpec(attention="gat", heads=8, combine="none", activation="elu")
        >>> block.attention, block.aggregation
        ('gat', 'sum')

    Args:
        expansion: Inner width of the transform in units of the hidden size; 0 is a linear map.
        propagation: How far messages travel; 1 is one step by attention and aggregation.
        attention: How messages are weighted.
        heads: How many attentions look at once.
        aggregation: How messages are put together.
        combine: How a node's messages meet the node itself.
        norm: What the sum of all that is normalized over.
        activation: What follows.
        bias: Whether a bias, zero at first, is added before the activation. The paper has none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    expansion: int = 1
    propagation: int = 1
    attention: str = "const"
    heads: int = 1
    aggregation: str = "sum"
    combine: str = "add"
    norm: str = "none"
    activation: str = "none"
    bias: bool = False

    @field_validator(*SLOTS)
    @classmethod
    def _is_registered(cls, name: str | int, info: ValidationInfo) -> str | int:
        assert info.field_name is not None
        SLOTS[info.field_name][name]
        return name

    @property
    def attends(self) -> bool:
        """Whether attention, heads and aggregation play a part."""
        return PROPAGATIONS[self.propagation].attentive

    def op(self, slot: str) -> type[Op]:
        """The class of the op in a slot."""
        op: type[Op] = SLOTS[slot][getattr(self, slot)]
        return op

    def dims(self, in_channels: int, out_channels: int, hidden: int) -> Dims:
        """The sizes that this block's ops are made with."""
        return Dims(in_channels, out_channels, hidden, self.expansion, self.propagation, self.heads)

    def parameters(self, in_channels: int, out_channels: int, hidden: int) -> int:
        """Number of weights of the block."""
        dims = self.dims(in_channels, out_channels, hidden)
        slots = [slot for slot in SLOTS if self.attends or slot != "attention"]
        return sum(self.op(slot).num_parameters(dims) for slot in slots) + self.bias * out_channels

    def words(self) -> list[str]:
        """The ops as a reader would name them: transform, messages, aggregation and so on."""
        transform = f"mlp x{self.expansion}" if self.expansion else "linear"
        messages = [f"{self.attention} x{self.heads}", self.aggregation]
        if not self.attends:
            powers = f"mean of {self.propagation + 1} powers"
            messages = [powers if self.propagation else "no messages", "-"]
        after = ["bias"] * self.bias + [f"{self.norm} norm"] * (self.norm != "none")
        return [transform, *messages, self.combine, ", ".join([*after, self.activation])]

    def __str__(self) -> str:
        return ", ".join(self.words())


class Architecture(BaseModel):
    """A network with its choices made, but for its hidden size and its weights.

    Examples:
        >>> first = pdnas.BlockSpec(attention="gcn", activation="relu")
        >>> architecture = pdnas.Architecture(blocks=(first, pdnas.BlockSpec()), gates=((0, 1),))
        >>> architecture.save("my.json")
        >>> pdnas.Architecture.load("my.json") == architecture
        True
        >>> architecture.parameters(pdnas.load_task("citeseer"), hidden=16)  # none of them is made
        82074

    Args:
        version: Of the JSON format.
        blocks: From the raw features to the logits; the last one's activation is ``none``.
        gates: Shortcuts ``(i, j)``, ``i <= j``, from the input of block ``i`` to the output of
            block ``j``.
        attention_normalization: What learned attention goes through, ``softmax`` over each
            neighborhood or ``none``, the paper's literal table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    blocks: tuple[BlockSpec, ...]
    gates: tuple[tuple[int, int], ...] = ()
    attention_normalization: Normalization = "softmax"

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if not self.blocks:
            raise ArchitectureError("An architecture needs at least one block; it has none.")
        if len(self.blocks) > DEEPEST:
            raise ArchitectureError(
                f"An architecture has {DEEPEST} blocks at most; it has {len(self.blocks)}."
            )
        last = len(self.blocks) - 1
        if self.blocks[last].activation != "none":
            raise ArchitectureError(
                f"The activation of the last block is '{self.blocks[last].activation}', but that "
                "block gives the logits; make it 'none'."
            )
        for i, j in self.gates:
            if i > j:
                raise ArchitectureError(
                    f"The gate ({shown(i)}, {shown(j)}) points backwards; a shortcut leads from a "
                    "block's input to the output of that block or a later one."
                )
            if i < 0 or j > last:
                raise ArchitectureError(
                    f"The gate ({shown(i)}, {shown(j)}) leaves the network; its blocks are 0 to "
                    f"{last}."
                )
        if len(set(self.gates)) < len(self.gates):
            raise ArchitectureError(
                f"A gate of {shown(list(self.gates))} stands there twice; name it once."
            )
        object.__setattr__(self, "gates", tuple(sorted(self.gates)))
        return self

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    def widths(self, task: Channels, hidden: int) -> tuple[int, ...]:
        """Channels between the blocks, ``num_blocks + 1`` numbers: features, hidden, logits."""
        check_hidden(hidden)
        return (task.in_channels, *[hidden] * (self.num_blocks - 1), task.out_channels)

    def parameters(self, task: Channels, hidden: int) -> int:
        """Number of weights on a task, without making them; shortcuts included."""
        widths = self.widths(task, hidden)
        blocks = sum(
            block.parameters(widths[number], widths[number + 1], hidden)
            for number, block in enumerate(self.blocks)
        )
        return blocks + sum(widths[i] * widths[j + 1] for i, j in self.gates)

    @classmethod
    def from_json(cls, text: str, *, name: str = "The architecture") -> "Architecture":
        """Read what :meth:`to_json` wrote, or what someone wrote by hand.

        Args:
            text: The JSON.
            name: What to call it in an error message.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ArchitectureError(f"{name} is not valid: {_explain(error)}.") from None
        except PdnasError as error:
            raise ArchitectureError(f"{name} is not valid: {error}") from None

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    @classmethod
    def load(cls, path: str | Path) -> "Architecture":
        """Read a JSON file."""
        return cls.from_json(read_architecture_file(path), name=f"The architecture '{path}'")

    def save(self, path: str | Path) -> None:
        """Write a JSON file."""
        check_path(path, ArchitectureError)
        try:
            write_whole(Path(path), f"{self.to_json()}\n".encode())
        except OSError as error:
            raise ArchitectureError(
                f"The architecture cannot be written to '{path}' ({error.strerror}); give a path "
                "that you may write to."
            ) from None

    def __str__(self) -> str:
        """One line: the blocks, then the gates."""
        blocks = " | ".join(str(block) for block in self.blocks)
        gates = " ".join(f"{i}->{j}" for i, j in self.gates)
        literal = "" if self.attention_normalization == "softmax" else ", attention not normalized"
        return f"{blocks} | shortcuts {gates or 'none'}{literal}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_table(self.table())

    def table(self) -> list[list[str]]:
        """Rows of text under a header: each block with its ops and the shortcuts that end there."""
        rows = [
            ["block", "transform", "messages", "aggregation", "combine", "activation", "shortcuts"]
        ]
        for number, block in enumerate(self.blocks):
            starts = ", ".join(str(i) for i, j in self.gates if j == number)
            rows.append([str(number), *block.words(), f"from {starts}" if starts else "-"])
        return rows


def read_architecture_file(path: str | Path) -> str:
    """The text of a file that someone says to hold an architecture."""
    check_path(path, ArchitectureError)
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ArchitectureError(
            f"The architecture '{path}' cannot be read ({error.strerror}); check the path."
        ) from None
    except UnicodeDecodeError:
        raise ArchitectureError(
            f"The architecture '{path}' is not a text file; give a JSON file."
        ) from None


def check_hidden(hidden: int) -> None:
    """Refuse a hidden size that no network can have."""
    if not isinstance(hidden, int) or not 1 <= hidden <= MAX_HIDDEN:
        raise ArchitectureError(
            f"The hidden size is {hidden}; give a whole number from 1 to {MAX_HIDDEN}."
        )


def _explain(error: ValidationError) -> str:
    """The first complaint, with a better word for the commonest slips."""
    problem = error.errors(include_url=False)[0]
    if problem["type"] == "json_invalid":
        return f"it is not whole JSON ({problem['ctx']['error']}); correct it or write it again"
    if problem["loc"] == ("version",):
        return (
            f"its format version is {shown(repr(problem['input']))}, and this pdnas reads version "
            "1; update pdnas or write the architecture again"
        )
    if problem["type"] == "extra_forbidden":
        place = shown(".".join(str(part) for part in problem["loc"]))
        known = BlockSpec.model_fields if "blocks" in problem["loc"] else Architecture.model_fields
        return f"it has an unknown field '{place}'; known are: {', '.join(known)}"
    return first_complaint(error).rstrip(".")
