import torch
from torch import Generator

from pdnas.models import GraphNetwork
from pdnas.models.baselines.mlp import MLP


class Cora:
    in_channels, out_channels = 1433, 7


def test_mlp_is_two_maps_and_hears_no_neighbor(
    tiny_graph: torch.Tensor, generator: Generator
) -> None:
    assert MLP.design.parameters(Cora, MLP.hidden) == 1433 * 64 + 64 + 64 * 7 + 7
    network = GraphNetwork(MLP.architecture, Cora, MLP.hidden).eval()
    x = torch.randn(6, 1433, generator=generator)
    named = dict(network.named_parameters())
    hidden = x @ named["blocks.0.transform.weight"] + named["blocks.0.bias"]
    expected = hidden.relu() @ named["blocks.1.transform.weight"] + named["blocks.1.bias"]
    torch.testing.assert_close(network(x, tiny_graph), expected)
    assert torch.equal(network(x, tiny_graph), network(x, tiny_graph[:, :0]))


def test_mlp_says_what_it_is() -> None:
    assert str(MLP.design) == (
        "linear, no messages, -, none, bias, relu | linear, no messages, -, none, bias, none"
        " | shortcuts none"
    )
