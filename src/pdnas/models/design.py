"""Whatever can be trained: an architecture of blocks, or a published network that is none."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, SerializeAsAny, ValidationError
from pydantic_core import from_json

from pdnas.architecture import Architecture, Channels, read_architecture_file
from pdnas.errors import ArchitectureError, first_complaint
from pdnas.models.network import GraphNetwork
from pdnas.models.published import PUBLISHED, Published, PublishedNetwork

Design: TypeAlias = Architecture | Published
"""What a network is, but for its hidden size and its weights."""

Network: TypeAlias = GraphNetwork | PublishedNetwork
"""The network of a design."""


def read_design(values: Any) -> Any:
    """A design from what it was written as: a published one has a name, an architecture none."""
    if not isinstance(values, dict):
        return values
    if isinstance(values.get("name"), str):
        return PUBLISHED[values["name"]].model_validate(values)
    return Architecture.model_validate(values)


AnyDesign = Annotated[
    Architecture | SerializeAsAny[Published],
    BeforeValidator(read_design),
]
"""The type of a field that holds a design."""


def load_design(path: str | Path) -> Design:
    """Read a JSON file: an architecture, or a published network."""
    text, name = read_architecture_file(path), f"The architecture '{path}'"
    try:
        values = from_json(text)
    except ValueError:
        values = None  # an architecture says better what is wrong with it
    if not isinstance(values, dict) or not isinstance(values.get("name"), str):
        return Architecture.from_json(text, name=name)
    try:
        return PUBLISHED[values["name"]].model_validate(values)
    except ValidationError as error:
        raise ArchitectureError(f"{name} is not valid: {first_complaint(error)}.") from None


def make_network(
    design: Design,
    task: Channels,
    hidden: int,
    *,
    input_dropout: float = 0.0,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    feature_weights: bool = False,
) -> Network:
    """The network of a design with fresh weights.

    Args:
        design: What it is.
        task: What is to be read and told: the number of features and of logits.
        hidden: Channels between blocks or layers.
        input_dropout: Rate for the raw features.
        dropout: Rate for what flows between blocks or layers.
        attention_dropout: Rate for learned attention, of which a published network has none.
        feature_weights: Whether each raw feature has a weight of its own, until they are folded.
    """
    if isinstance(design, Published):
        return design.build(
            task,
            hidden,
            input_dropout=input_dropout,
            dropout=dropout,
            feature_weights=feature_weights,
        )
    return GraphNetwork(
        design,
        task,
        hidden,
        input_dropout=input_dropout,
        dropout=dropout,
        attention_dropout=attention_dropout,
        feature_weights=feature_weights,
    )
