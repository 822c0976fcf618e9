"""How weights are trained: one frozen settings object, and the recipes that have a name."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from torch import nn

from pdnas.errors import RecipeError
from pdnas.files import check_path, write_whole
from pdnas.registry import Registry, refusal, unknown
from pdnas.runs import MOST
from pdnas.toml import read_toml

NAME = "name"
"""Under which the context of a validation says what the recipe is called."""

Batching = Literal["auto", "full", "clusters", "neighbors"]


class Recipe(BaseModel):
    """Settings of a training; its fields are flags of the command line and what a run records.

    Examples:
        >>> recipe = pdnas.Recipe(lr=0.005, dropout=0.6, epochs=10)
        >>> trained = pdnas.train("gat", "citeseer", recipe=recipe)
        >>> trained.recipe["lr"]
        0.005
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    optimizer: Literal["adam", "adamw", "sgd"] = Field("adam", description="Who moves the weights.")
    lr: float = Field(0.01, gt=0, description="Learning rate.")
    weight_decay: float = Field(5e-4, ge=0, description="Pull of all weights towards zero.")
    input_dropout: float = Field(0.5, ge=0, lt=1, description="Dropout of the raw features.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Dropout between blocks.")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout of learned attention.")
    node_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout of whole nodes' features.")
    feature_weights: Literal["off", "on"] = Field(
        "off", description="Whether each raw feature has a weight, which decay can silence."
    )
    copies: int = Field(
        1, ge=1, le=64, description="Copies of the graph per step; several train for consistency."
    )
    consistency: float = Field(
        1.0, ge=0, description="Weight of the copies' distance from their common answer."
    )
    consistency_warm_up: int = Field(
        100, ge=0, le=MOST, description="Epochs in which that weight grows from 0 to its value."
    )
    sharpening: float = Field(
        0.5, ge=0.01, le=1, description="Temperature of that answer; the lower, the surer."
    )
    teachers: int = Field(
        0,
        ge=0,
        le=64,
        description="Networks trained first, of which a final training learns the mean answer too.",
    )
    epochs: int = Field(400, ge=1, le=MOST, description="Epochs at most.")
    patience: int = Field(
        100, ge=1, le=MOST, description="Epochs without a better one before stopping."
    )
    selection: Literal["metric", "loss"] = Field(
        "metric", description="What of validation picks the epoch; the other one breaks ties."
    )
    batch_graphs: int = Field(
        2, ge=1, le=MOST, description="Graphs per step where there are several."
    )
    batching: Batching | None = Field(
        None,
        description="What a step sees of a single graph: all of it, clusters, or nodes with a few "
        "of their neighbors; auto, as none is: all where that fits into memory.",
    )
    batch_nodes: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="About how many nodes a step sees, in clusters, or learns from, with their "
        "neighbors; none: all, or as many as fit.",
    )
    neighbors: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="How many of each node's neighbors a block hears then; none: 10.",
    )
    schedule: Literal["constant", "cosine"] | None = Field(
        None,
        description="How the learning rate goes on: constant, as where nothing is said, or down to "
        "zero along a cosine.",
    )
    precision: Literal["single", "tf32"] | None = Field(
        None,
        description="How exact the products of a training's steps are: single, as where nothing is "
        "said, or tf32, which a GPU computes faster; validation and test are exact.",
    )

    @model_validator(mode="wrap")
    @classmethod
    def _in_a_sentence(
        cls, values: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Say what is wrong in words of ours, however a recipe is made."""
        name = (info.context or {}).get(NAME, "The recipe")
        try:
            return handler(values)
        except ValidationError as error:
            reason = refusal(error, "field", cls.model_fields)
            raise RecipeError(f"{name} is not valid: {reason}") from None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.batching == "full" and self.batch_nodes is not None:
            raise RecipeError(
                f"--batching is full, but --batch-nodes is {self.batch_nodes}; leave out one of "
                "them, or give --batching clusters or neighbors."
            )
        if self.batching in ("full", "clusters") and self.neighbors is not None:
            raise RecipeError(
                f"--batching is {self.batching}, but --neighbors is {self.neighbors}; leave out "
                "one of them, or give --batching neighbors."
            )
        return self

    @property
    def way(self) -> Batching:
        """What a step sees; ``--batch-nodes`` alone means clusters, ``--neighbors`` those."""
        if self.batching is not None and self.batching != "auto":
            return self.batching
        if self.neighbors is not None:
            return "neighbors"
        return "auto" if self.batch_nodes is None else "clusters"

    @property
    def is_decided(self) -> bool:
        """Whether it says all of what a step sees: nothing depends on memory any more."""
        return self.way == "full" or (self.way != "auto" and self.batch_nodes is not None)

    @property
    def undecided(self) -> "Recipe":
        """As results and files hold it: whether all of another graph fits is not known yet."""
        return self.changed(batching=None) if self.batching == "full" else self

    def make_optimizer(
        self, parameters: Iterable[nn.Parameter] | list[dict[str, Any]], *, recorded: bool = False
    ) -> torch.optim.Optimizer:
        """The optimizer for these parameters.

        Args:
            parameters: Of the network, or groups of them with settings of their own.
            recorded: Whether its steps are to be recorded as a CUDA graph.
        """
        if self.optimizer == "sgd":
            return torch.optim.SGD(
                parameters, lr=self.lr, momentum=0.9, weight_decay=self.weight_decay, fused=True
            )
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
        return kind(
            parameters,
            lr=self.lr,
            weight_decay=self.weight_decay,
            fused=True,
            capturable=recorded,
        )

    def lr_at(self, epoch: int) -> float:
        r"""The learning rate of an epoch.

        With a cosine it is :math:`\frac{lr}{2} (1 + \cos \frac{\pi e}{E})` in epoch :math:`e` of
        :math:`E`, so that a training of fewer epochs comes to rest as well.
        """
        if self.schedule != "cosine":
            return self.lr
        return self.lr * (1 + math.cos(math.pi * epoch / self.epochs)) / 2

    def consistency_at(self, epoch: int) -> float:
        """The weight of the copies' disagreement at an epoch.

        It grows over the first epochs: a network that agrees with itself too early is sure of
        whatever it happens to say.
        """
        if self.copies == 1:
            return 0.0
        return self.consistency * min(1.0, (epoch + 1) / max(1, self.consistency_warm_up))

    @property
    def settled(self) -> int:
        """The first epoch whose loss is weighed as all later ones are; patience begins there."""
        return max(0, self.consistency_warm_up - 1) if self.copies > 1 and self.consistency else 0

    def score(self, *, metric: float, loss: float) -> tuple[float, float]:
        """What is compared to pick an epoch; higher is better."""
        return (metric, -loss) if self.selection == "metric" else (-loss, metric)

    def changed(self, **values: Any) -> "Recipe":
        """This recipe with some values replaced, all of them checked."""
        return _validated({**self.model_dump(), **values}, "The recipe")

    def save(self, path: str | Path) -> None:
        """Write a TOML file that :meth:`load` reads."""
        values = self.model_dump(exclude_none=True)
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        check_path(path, RecipeError)
        try:
            write_whole(Path(path), ("\n".join(lines) + "\n").encode())
        except OSError as error:
            raise RecipeError(
                f"The recipe cannot be written to '{path}' ({error.strerror}); give a path that "
                "you may write to."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> "Recipe":
        """Read a TOML file whose keys are the fields; what it does not name keeps its default."""
        values = read_toml(path, "recipe", "lr = 0.01", RecipeError)
        return _validated(values, f"The recipe '{path}'")


def _validated(values: dict[str, Any], name: str) -> Recipe:
    return Recipe.model_validate(values, context={NAME: name})


RECIPES: Registry[str, Recipe] = Registry("recipe")

RECIPES.register("default")(Recipe())
RECIPES.register("gcn")(Recipe())
# Dropout and patience are those of its paper; rate and decay are higher than its 0.005 and 0.0005.
GAT = Recipe(
    lr=0.02,
    weight_decay=2e-3,
    input_dropout=0.6,
    dropout=0.6,
    attention_dropout=0.6,
    epochs=1000,
)
RECIPES.register("gat")(GAT)
RECIPES.register("gat-pubmed")(GAT)
RECIPES.register("sage")(Recipe())
RECIPES.register("sage-max")(Recipe())
RECIPES.register("sage-lstm")(Recipe())
RECIPES.register("jknet-concat")(Recipe())
RECIPES.register("jknet-max")(Recipe())
RECIPES.register("jknet-lstm")(Recipe())
RECIPES.register("jknet-dense")(Recipe())
RECIPES.register("mlp")(Recipe())
RECIPES.register("appnp")(Recipe(weight_decay=5e-3, epochs=10_000))
GCNII = Recipe(weight_decay=0.01, input_dropout=0.6, dropout=0.6, epochs=1500, selection="loss")
RECIPES.register("gcnii")(GCNII)
RECIPES.register("gcnii-citeseer")(GCNII.changed(input_dropout=0.7, dropout=0.7))
RECIPES.register("gcnii-pubmed")(GCNII.changed(weight_decay=5e-4, input_dropout=0.5, dropout=0.5))
LGCN = Recipe(lr=0.1, input_dropout=0.84, dropout=0.84, epochs=1000, patience=150)
RECIPES.register("lgcn")(LGCN)
RECIPES.register("lgcn-citeseer")(LGCN)
RECIPES.register("lgcn-pubmed")(LGCN)
# Consistency training after GRAND: a start for any graph.
CONSISTENCY = Recipe(node_dropout=0.5, copies=4, sharpening=0.3, epochs=1000, patience=200)
RECIPES.register("consistency")(CONSISTENCY)
RECIPES.register("grand")(CONSISTENCY)
RECIPES.register("consistency-light")(
    CONSISTENCY.changed(copies=2, consistency=0.7, input_dropout=0.0, dropout=0.2)
)
# For blocks with several maps, as in the paper's space: these become too sure of themselves.
CONSISTENCY_DEEP = CONSISTENCY.changed(weight_decay=2.5e-3, input_dropout=0.8, dropout=0.2)
RECIPES.register("consistency-deep")(CONSISTENCY_DEEP)
# For graphs of which few features tell anything, as PubMed's: decay silences the others.
SELECTIVE = {"feature_weights": "on", "lr": 0.1, "sharpening": 0.2, "input_dropout": 0.6}
CONSISTENCY_SELECTIVE = CONSISTENCY.changed(**SELECTIVE, dropout=0.8)
RECIPES.register("consistency-selective")(CONSISTENCY_SELECTIVE)
RECIPES.register("grand-pubmed")(CONSISTENCY_SELECTIVE)
RECIPES.register("consistency-deep-selective")(CONSISTENCY_DEEP.changed(**SELECTIVE))
# For many graphs with many labels, as proteins: many steps of one graph each, little that holds
# networks back, and a long training that comes to rest.
INDUCTIVE = Recipe(
    lr=0.005,
    weight_decay=0.0,
    input_dropout=0.0,
    dropout=0.1,
    epochs=700,
    patience=700,
    batch_graphs=1,
    schedule="cosine",
    precision="tf32",
)
RECIPES.register("inductive")(INDUCTIVE)
RECIPES.register("gat-ppi")(INDUCTIVE)
RECIPES.register("sage-ppi")(INDUCTIVE)
RECIPES.register("jknet-concat-ppi")(INDUCTIVE)
RECIPES.register("jknet-max-ppi")(INDUCTIVE)
RECIPES.register("jknet-lstm-ppi")(INDUCTIVE)
RECIPES.register("jknet-dense-ppi")(INDUCTIVE)
# Its norms are over the nodes at hand: those of one graph, after the training as in it.
RECIPES.register("lgcn-ppi")(INDUCTIVE.changed(epochs=300))


def find_recipe(given: Recipe | Mapping[str, Any] | str) -> Recipe:
    """A recipe by its name, from a TOML file, or of the values that a result holds."""
    if isinstance(given, Recipe):
        return given
    if isinstance(given, Mapping):
        return _validated(dict(given), "The recipe")
    if not isinstance(given, str):
        raise RecipeError(
            f"The recipe is a {type(given).__name__}; give a pdnas.Recipe, its fields as a "
            "dictionary, a name, or a .toml file."
        )
    if given.endswith(".toml"):
        return Recipe.load(given)
    if given not in RECIPES:
        raise unknown("recipe", given, [*RECIPES, "a .toml file"])
    return RECIPES[given]
