"""Products are as exact as a recipe says, in steps and nowhere else."""

import pytest
import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.models import make_network
from pdnas.search import Problem
from pdnas.search.shared import SharedWeights
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training import epochs as module
from pdnas.training.fit import fit
from pdnas.training.precision import precision_of

NAMES = [(None, "highest"), ("single", "highest"), ("tf32", "high")]


@pytest.mark.parametrize(("given", "name"), NAMES)
def test_inside_it_is_the_recipes_and_outside_as_before(given: str | None, name: str) -> None:
    assert torch.get_float32_matmul_precision() == "highest"
    seen: list[str] = []

    def fail() -> None:
        with precision_of(Recipe().changed(precision=given)):
            seen.append(torch.get_float32_matmul_precision())
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is ours
        fail()
    assert seen == [name]
    assert torch.get_float32_matmul_precision() == "highest"


def test_steps_are_as_exact_as_the_recipe_says_and_validation_is_exact(
    architecture: Architecture, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, str]] = []
    network = make_network(architecture, tiny_task, 4)

    def watch(network: torch.nn.Module, *_: object) -> None:
        seen.append((network.training, torch.get_float32_matmul_precision()))

    network.register_forward_hook(watch)
    fit(network, tiny_task, Recipe(epochs=2, precision="tf32"))
    assert seen == [(True, "high"), (False, "highest")] * 2


def test_steps_of_a_search_are_too(tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(precision="tf32"))
    shared, seen = SharedWeights(problem, 0.01), []
    own = module.training_loss

    def watched(*arguments: object, **inputs: object) -> Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return own(*arguments, **inputs)  # type: ignore[arg-type]

    monkeypatch.setattr("pdnas.search.shared.training_loss", watched)
    network = shared.network(problem.sample(torch.Generator().manual_seed(0)))
    shared.step(network, 0)
    shared.judge(network)
    assert seen == ["high"]
    assert torch.get_float32_matmul_precision() == "highest"
