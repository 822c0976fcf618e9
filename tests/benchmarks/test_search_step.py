"""The benchmark of the search's epoch compares like with like; how fast it is, is not tested."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from pdnas.architecture import Architecture
from pdnas.search import Problem
from pdnas.search.pdnas import PRESETS, Pdnas, PdnasSearch
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "speed" / "search_step.py"

ROWS = ["default", "straight-through", "paper"]


@pytest.fixture(scope="module")
def search_step(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/speed/search_step.py")


@pytest.fixture
def problem(tiny_task: GraphTask) -> Problem:
    return Problem(tiny_task, SPACES["paper"], 3, 4, Recipe())


def size(network: nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())


def test_the_rows_are_the_default_the_gradient_and_the_paper(search_step: ModuleType) -> None:
    rows: dict[str, Pdnas] = search_step.ROWS
    assert list(rows) == ROWS
    assert all(settings == PRESETS[name] for name, settings in rows.items())
    assert rows["straight-through"].warm_up == 0


@pytest.mark.parametrize("name", ROWS)
def test_a_comparison_is_a_row_with_a_ratio(
    search_step: ModuleType, tiny_task: GraphTask, name: str
) -> None:
    row = search_step.compare(name, tiny_task, 2, hidden=4, warm=1, epochs=2)
    assert (row["preset"], row["task"], row["blocks"], row["hidden"]) == (name, "tiny", 2, 4)
    assert row["split_sha256"] == tiny_task.split.sha256
    assert row["ratio"] == pytest.approx(row["search_ms"] / row["plain_ms"])
    assert row["ratio"] > 0
    assert row["search_peak_bytes"] > row["state_bytes"] > 0
    allowed = row["plain_peak_bytes"] + row["state_bytes"]
    assert row["memory_allowed"] == (row["search_peak_bytes"] <= allowed)


@pytest.mark.parametrize("name", ROWS)
def test_the_reference_is_the_network_of_the_epoch(
    search_step: ModuleType, problem: Problem, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same architecture, as many parameters, and with the same weights the same logits."""
    graph = problem.task.graphs[0]
    with search_step.ROWS[name].begin(problem) as search:
        assert isinstance(search, PdnasSearch)
        lent: list[Architecture] = []
        lend = search.supernet.network
        for _ in range(4):
            with monkeypatch.context() as spied:
                spied.setattr(
                    search.supernet,
                    "network",
                    lambda one: lent.append(one) or lend(one),  # type: ignore[func-returns-value]
                )
                epoch = search.step()
            path = search_step.sampled(search, epoch.details)
            assert path.blocks == lent[-1].blocks
            assert set(path.gates) == set(lent[-1].gates)
            reference, network = search_step.Reference(path, problem), lend(path)
            assert size(reference.network) == size(network) == problem.parameters(path)
            reference.network.load_state_dict(network.state_dict())
            outputs = [
                one.eval()(graph.x, graph.edge_index) for one in (reference.network, network)
            ]
            assert torch.equal(outputs[0], outputs[1])
    assert len(set(lent)) == 4


def test_the_reference_steps_its_weights_once_on_the_training_part(
    search_step: ModuleType, problem: Problem
) -> None:
    architecture = problem.space.sample(3, torch.Generator().manual_seed(1))
    reference = search_step.Reference(architecture, problem)
    before = [weight.detach().clone() for weight in reference.network.parameters()]
    reference.step()
    pairs = list(zip(before, reference.network.parameters(), strict=True))
    assert all(not torch.equal(old, weight) for old, weight in pairs)
    assert {int(state["step"]) for state in reference.optimizer.state.values()} == {1}
    # What is left in the gradients is that of validation, which the search needs as well.
    assert all(weight.grad is not None for weight in reference.network.parameters())
    assert not reference.network.training


def test_the_state_is_weights_and_what_the_optimizer_keeps(search_step: ModuleType) -> None:
    network = nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.Adam(network.parameters())
    assert search_step.state_bytes(network, optimizer) == 6 * 4
    network(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert search_step.state_bytes(network, optimizer) == 3 * 6 * 4 + 4  # two moments, a counter


def test_the_peak_is_the_most_that_is_held_at_once(search_step: ModuleType) -> None:
    def action() -> None:
        first = torch.zeros(1000)
        del first
        second, third = torch.zeros(1000), torch.zeros(500)
        del second, third

    assert search_step.peak_bytes(action, torch.device("cpu")) == pytest.approx(6000, abs=200)


def test_time_is_measured_and_the_outcome_kept(search_step: ModuleType) -> None:
    spent, outcome = search_step.seconds(lambda: 7, torch.device("cpu"))
    assert outcome == 7
    assert 0 <= spent < 1


def test_a_whole_search_is_timed_with_its_ranking(
    search_step: ModuleType, tiny_task: GraphTask
) -> None:
    figures = search_step.whole_seconds("default", tiny_task, 2, hidden=4, epochs=3)
    assert figures["epochs"] == 3
    assert 0 < figures["search_s"] < 60
    assert 0 < figures["ranking_s"] < 60
