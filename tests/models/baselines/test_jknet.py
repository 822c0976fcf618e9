"""JKNet against PyG's layers with the same weights."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch_geometric.nn import GCNConv, JumpingKnowledge
from torch_geometric.utils import to_undirected

from pdnas.models import GraphNetwork
from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.jknet import JkNet, jknet_concat

NODES = 15


@dataclass
class Sizes:
    in_channels: int = 1433
    out_channels: int = 7


class Reference(torch.nn.Module):
    """PyG's layers, what all of them give side by side, and a linear map."""

    def __init__(self, layers: int, hidden: int) -> None:
        super().__init__()
        pairs = itertools.pairwise([5, *[hidden] * layers])
        self.layers = torch.nn.ModuleList([GCNConv(*pair) for pair in pairs])
        self.jump = JumpingKnowledge("cat")
        self.output = torch.nn.Linear(layers * hidden, 3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        given = []
        for layer in self.layers:
            x = layer(x, edges).relu()
            given.append(x)
        logits: Tensor = self.output(self.jump(given))
        return logits


def copy_weights(network: Any, reference: Any) -> None:
    """From ours to PyG's, drawn at random; what is one map there is one per layer here."""
    *layers, output = network.blocks
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_()
        for block, layer in zip(layers, reference.layers, strict=True):
            layer.lin.weight.copy_(block.transform.weight.t())
            layer.bias.copy_(block.bias)
        last = len(layers)
        maps = [network.shortcuts[f"{number}_{last}"] for number in range(1, last)]
        reference.output.weight.copy_(torch.cat([*maps, output.transform.weight]).t())
        reference.output.bias.copy_(output.bias)


@pytest.mark.parametrize("layers", [1, 2, 3, 6])
def test_jknet_is_that_of_pyg(layers: int, generator: Generator) -> None:
    pairs = torch.randint(NODES - 1, (2, 40), generator=generator)
    edges = to_undirected(pairs[:, pairs[0] != pairs[1]])
    x = torch.randn(NODES, 5, generator=generator, dtype=torch.float64)
    network = GraphNetwork(jknet_concat(layers), Sizes(5, 3), 8).double()
    reference = Reference(layers, 8).double()
    copy_weights(network, reference)
    sizes = [sum(weight.numel() for weight in one.parameters()) for one in (network, reference)]
    assert sizes[0] == sizes[1]

    x.requires_grad_()
    logits, expected = network(x, edges), reference(x, edges)

    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
    grads = [torch.autograd.grad(one.square().mean(), x)[0] for one in (logits, expected)]
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2, 3, 6])
def test_jknet_has_a_map_for_every_layer_and_one_bias(layers: int) -> None:
    first, others = 1433 * 32 + 32, (layers - 1) * (32 * 32 + 32)
    output = layers * 32 * 7 + 7
    assert jknet_concat(layers).parameters(Sizes(), 32) == first + others + output


def test_the_baseline_has_two_layers_of_32_channels() -> None:
    baseline = BASELINES["jknet-concat"]
    assert baseline.architecture == jknet_concat(2)
    assert baseline.hidden == 32


def test_jknet_says_what_it_is() -> None:
    layer = "linear, gcn x1, sum, none, bias, relu"
    assert str(jknet_concat(3)) == (
        f"{layer} | {layer} | {layer} | linear, no messages, -, none, bias, none"
        " | shortcuts 1->3 2->3"
    )


class Jumping(torch.nn.Module):
    """PyG's layers as they are, each after the last or after all before it, and PyG's jump."""

    def __init__(self, design: JkNet, hidden: int) -> None:
        super().__init__()
        widths = [
            5,
            *(hidden * (layer if design.dense else 1) for layer in range(1, design.layers)),
        ]
        self.layers = torch.nn.ModuleList([GCNConv(width, hidden) for width in widths])
        self.jump = JumpingKnowledge(design.jump, hidden, design.layers)
        self.last = torch.nn.Linear(hidden, 3)
        self.dense = design.dense

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        given: list[Tensor] = []
        for layer in self.layers:
            given.append(layer(x, edges).relu())
            x = torch.cat(given, dim=1) if self.dense else given[-1]
        logits: Tensor = self.last(self.jump(given))
        return logits


@pytest.mark.parametrize("jump", ["max", "lstm"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_other_jumps_are_those_of_pyg(
    jump: Any, dense: bool, layers: int, generator: Generator
) -> None:
    pairs = torch.randint(NODES - 1, (2, 40), generator=generator)
    edges = to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=NODES)
    x = torch.randn(NODES, 5, generator=generator, dtype=torch.float64)
    design = JkNet(jump=jump, layers=layers, dense=dense)
    network, reference = design.build(Sizes(5, 3), 8).double(), Jumping(design, 8).double()
    weights = network.state_dict()
    weights["layers.0.lin.weight"] = weights["layers.0.lin.weight"].t()
    reference.load_state_dict(weights)

    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(network(x, edges), reference(x, edges), rtol=1e-6, atol=1e-6)


def test_the_baselines_jump_in_four_ways() -> None:
    assert BASELINES["jknet-max"].design == JkNet(jump="max", layers=2)
    assert BASELINES["jknet-lstm"].design == JkNet(jump="lstm", layers=2)
    assert BASELINES["jknet-dense"].design == JkNet(jump="lstm", layers=3, dense=True)
    assert str(BASELINES["jknet-dense"].design) == "jknet, jump lstm, layers 3, dense True"
    widths = {name: BASELINES[name].hidden for name in BASELINES if name.startswith("jknet")}
    assert {width for name, width in widths.items() if not name.endswith("-ppi")} == {32}
    assert [width for name, width in widths.items() if name.endswith("-ppi")] == [512] * 4
