"""Every published network has a source that does the same."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from pdnas.errors import ExportError
from pdnas.export import NetworkSource, Sizes, network_source_of
from pdnas.export.published import NETWORKS, PARTS, write_published
from pdnas.export.source import write_source, write_weights
from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.appnp import Appnp
from pdnas.models.baselines.gat import SkipGat
from pdnas.models.baselines.gcnii import Gcnii
from pdnas.models.baselines.jknet import JkNet
from pdnas.models.baselines.lgcn import Lgcn
from pdnas.models.baselines.sage import ResidualSage, Sage
from pdnas.models.published import PUBLISHED, Published
from pdnas.runs import Result

DESIGNS = [
    *dict.fromkeys(
        BASELINES[name].design
        for name in BASELINES
        if isinstance(BASELINES[name].design, Published)
    ),
    Appnp(steps=0, alpha=0.3),
    Gcnii(layers=1, alpha=0.7, strength=2.0),
    JkNet(jump="max", layers=1),
    JkNet(jump="max", layers=4, dense=True),
    JkNet(jump="lstm", layers=1),
    Lgcn(layers=1, channels=1, largest=1),
    Lgcn(layers=3, channels=5, largest=7),
    ResidualSage(layers=1),
    Sage(aggregator="lstm", neighbors=1),
    SkipGat(layers=2, heads=2, last_heads=1),
]

GRAPHS = [(1, 0), (2, 1), (7, 0), (6, 40), (60, 300)]
"""Nodes and edges; of few nodes with many edges some are parallel, and some are loops."""


def run_source(result: Result) -> Any:
    """The exported network, without files."""
    space: dict[str, Any] = {"__file__": str(Path("network.py")), "__name__": "network"}
    exec(write_source(result, "network", "network.pt"), space)
    network = space["Network"]()
    network.load_state_dict(write_weights(result))
    return network.eval()


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_network_has_a_source(name: str) -> None:
    assert PUBLISHED[name] in NETWORKS


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@torch.no_grad()
def test_a_source_does_what_its_network_does(
    design: Published, result_of: Callable[..., Result]
) -> None:
    result = result_of(design)
    ours, theirs = result.model.double(), run_source(result).double()
    for nodes, edges in GRAPHS:
        x, edge_index = torch.randn(nodes, 5).double(), torch.randint(nodes, (2, edges))
        expected: Tensor = ours(x, edge_index)
        # Our GCN weights have single precision.
        allowed = 1e-6 * max(1.0, float(expected.abs().max()))
        assert float((theirs(x, edge_index) - expected).abs().max()) <= allowed


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_no_weight_is_left_behind(design: Published, result_of: Callable[..., Result]) -> None:
    result = result_of(design)
    written = sum(weight.numel() for weight in write_weights(result).values())
    assert written == sum(weight.numel() for weight in result.model.parameters())


def test_the_file_says_which_network_it_is(result_of: Callable[..., Result]) -> None:
    text = write_source(result_of(Appnp(), strategy=None), "network", "network.pt")
    about = " ".join(text.split('"""')[1].split())
    assert "that pdnas trained for tiny" in about
    assert "appnp, steps 10, alpha 0.1" in about


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_of_its_name(name: str) -> None:
    assert re.match(rf"(def|class) {name}\(", PARTS[name])


class Mine(Published):
    name: Literal["mine"] = "mine"

    def build(self, *_: Any, **__: Any) -> Any:
        raise AssertionError


def test_a_network_without_source_is_one_sentence() -> None:
    with pytest.raises(ExportError, match=r"'mine' .* pdnas.export.network_source_of\(Mine\)"):
        write_published(Mine(), Sizes(5, 8, 6))


def test_a_network_from_outside_can_bring_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.export.published.NETWORKS", dict(NETWORKS))

    @network_source_of(Mine)
    def write(design: Mine, sizes: Sizes) -> NetworkSource:
        return NetworkSource(f"# {design.name} {sizes.hidden}", {})

    assert write_published(Mine(), Sizes(5, 8, 6)).code == "# mine 8"
