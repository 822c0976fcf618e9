"""The source of every published network, and where its weights go."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from pdnas.errors import ExportError
from pdnas.export.ops import Weight
from pdnas.models.baselines.appnp import Appnp
from pdnas.models.baselines.gat import SkipGat
from pdnas.models.baselines.gcnii import Gcnii
from pdnas.models.baselines.jknet import JkNet
from pdnas.models.baselines.lgcn import Lgcn
from pdnas.models.baselines.sage import ResidualSage, Sage
from pdnas.models.published import Published

PARTS: Mapping[str, str] = MappingProxyType(
    {
        "weighted_sum": '''\
def weighted_sum(weights: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
    """Sum of what the neighbors send, by the weight of each edge, [N, C] -> [N, C]."""
    source, target = edge_index
    sent = weights * x[source]
    return scatter(sent, target, dim=0, dim_size=x.size(0), reduce="sum")
''',
        "Convolution": '''\
class Convolution(nn.Module):
    """A layer of GCN: a linear map, the weighted sum over the neighbors, a bias."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: Tensor, edge_index: Tensor, weights: Tensor) -> Tensor:
        """[N, I], [2, E], [E, 1] -> [N, O]."""
        return weighted_sum(weights, self.linear(x), edge_index) + self.bias
''',
        "first_edges": '''\
def first_edges(target: Tensor, num_nodes: int) -> Tensor:
    """Where the edges of each node begin among edges sorted by target, [N]."""
    count = degree(target, num_nodes, torch.long)
    return count.cumsum(0) - count
''',
        "largest_neighbors": '''\
def largest_neighbors(x: Tensor, edge_index: Tensor, count: int) -> Tensor:
    """The largest values of each channel among the neighbors, zeros if there are fewer.

    [N, C] -> [N, count, C], largest first.
    """
    source, target = edge_index
    order = x[source].argsort(dim=0, descending=True)  # [E, C]
    order = order.gather(0, target[order].argsort(dim=0, stable=True))
    values, targets = x[source].gather(0, order), target.sort().values
    edges = torch.arange(targets.size(0), device=x.device)
    rank = edges - first_edges(targets, x.size(0))[targets]
    # What comes too late goes to a place of its own, which is cut off.
    table = x.new_zeros(x.size(0), count + 1, x.size(1))
    table[targets, rank.clamp(max=count)] = values
    return table[:, :count]
''',
        "first_neighbors": '''\
def first_neighbors(
    edge_index: Tensor, num_nodes: int, most: int
) -> tuple[Tensor, Tensor]:
    """The first neighbors of each node, [N, most], and how many there are, [N]."""
    source, target = edge_index[:, edge_index[1].argsort(stable=True)]
    edges = torch.arange(target.size(0), device=target.device)
    rank = edges - first_edges(target, num_nodes)[target]
    # What comes too late goes to a column of its own, which is cut off.
    table = source.new_zeros(num_nodes, most + 1)
    table[target, rank.clamp(max=most)] = source
    return table[:, :most], degree(target, num_nodes, torch.long).clamp(max=most)
''',
    }
)
"""Functions and classes that stand above a network wherever one of them is named."""


@dataclass(frozen=True)
class NetworkSource:
    """The source of a network that is no row of blocks.

    Args:
        code: Of its classes, the last of which is ``Network``.
        weights: Our names of its weights, and what became of them.
    """

    code: str
    weights: Mapping[str, Weight]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network.

    Args:
        in_channels: Features of a node.
        hidden: Channels inside.
        out_channels: Logits of a node.
    """

    in_channels: int
    hidden: int
    out_channels: int


NetworkWriter = Callable[[Any, Sizes], NetworkSource]
W = TypeVar("W", bound=NetworkWriter)

NETWORKS: dict[type[Published], NetworkWriter] = {}
"""What writes the source of a published network, by the class of its settings."""


def network_source_of(kind: type[Published]) -> Callable[[W], W]:
    """Decorator for what writes the source of a published network."""

    def file(writer: W) -> W:
        NETWORKS[kind] = writer
        return writer

    return file


def write_published(design: Published, sizes: Sizes) -> NetworkSource:
    """The source of a published network."""
    kind = type(design)
    if kind not in NETWORKS:
        raise ExportError(
            f"The network '{design.name}' cannot be exported: nothing writes its source; register "
            f"what does with pdnas.export.network_source_of({kind.__name__}), as "
            "pdnas/export/published.py does."
        )
    return NETWORKS[kind](design, sizes)


def _network(about: str, sizes: Sizes, init: list[str], forward: list[str]) -> str:
    """The class of a network."""
    return "\n".join(
        [
            "class Network(nn.Module):",
            f'    """{about}"""',
            "",
            "    def __init__(self) -> None:",
            "        super().__init__()",
            *(f"        {line}" for line in init),
            "",
            "    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:",
            f'        """Logits, [N, {sizes.in_channels}], [2, E] -> [N, {sizes.out_channels}]."""',
            *(f"        {line}" for line in forward),
            "",
        ]
    )


LOOPS = "edge_index, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(0))"
NORMALIZED = (LOOPS, "weights = gcn_weights(edge_index, x).unsqueeze(1)  # [E, 1]")

Renamed = dict[str, Weight]


def _same(*names: str) -> Renamed:
    """Weights that keep their names."""
    return {name: Weight(name) for name in names}


def _features(ours: str, there: str, *, bias: bool = False) -> Renamed:
    """A map of raw features, which becomes an ``nn.Linear``."""
    weights = {f"{ours}.weight": Weight(f"{there}.weight", transposed=True)}
    return weights | ({f"{ours}.bias": Weight(f"{there}.bias")} if bias else {})


def _linear(ours: str, there: str, *, bias: bool = True) -> Renamed:
    kinds = ("weight", "bias") if bias else ("weight",)
    return {f"{ours}.{kind}": Weight(f"{there}.{kind}") for kind in kinds}


def _lstm(ours: str, there: str, *, both_ways: bool = False) -> Renamed:
    """Weights of an ``nn.LSTM`` of one layer."""
    ends = ("", "_reverse") if both_ways else ("",)
    kinds = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return {f"{ours}.{kind}{end}": Weight(f"{there}.{kind}{end}") for kind in kinds for end in ends}


@network_source_of(Appnp)
def _appnp(design: Appnp, sizes: Sizes) -> NetworkSource:
    code = _network(
        "APPNP: a perceptron, whose answers personalized PageRank spreads.",
        sizes,
        [
            f"self.first = nn.Linear({sizes.in_channels}, {sizes.hidden}, bias=False)",
            f"self.second = nn.Linear({sizes.hidden}, {sizes.out_channels}, bias=False)",
        ],
        [
            *NORMALIZED,
            "h = start = self.second(self.first(x).relu())",
            f"alpha = {design.alpha}",
            f"for _ in range({design.steps}):",
            "    h = (1 - alpha) * weighted_sum(weights, h, edge_index) + alpha * start",
            "return h",
        ],
    )
    return NetworkSource(code, _features("first", "first") | _same("second.weight"))


@network_source_of(Gcnii)
def _gcnii(design: Gcnii, sizes: Sizes) -> NetworkSource:
    hidden, layers = sizes.hidden, design.layers
    code = _network(
        "GCNII: layers that are close to the identity and hear the first input again.",
        sizes,
        [
            f"self.first = nn.Linear({sizes.in_channels}, {hidden})",
            f"layers = (nn.Linear({hidden}, {hidden}, bias=False) for _ in range({layers}))",
            "self.layers = nn.ModuleList(layers)",
            f"self.last = nn.Linear({hidden}, {sizes.out_channels})",
        ],
        [
            *NORMALIZED,
            "h = start = self.first(x).relu()",
            f"alpha = {design.alpha}",
            "for number, layer in enumerate(self.layers, start=1):",
            f"    strength = math.log({design.strength} / number + 1)",
            "    h = (1 - alpha) * weighted_sum(weights, h, edge_index) + alpha * start",
            "    h = ((1 - strength) * h + strength * layer(h)).relu()",
            "return self.last(h)",
        ],
    )
    weights = _features("first", "first", bias=True) | _linear("last", "last")
    for number in range(layers):
        weights[f"layers.{number}.weight1"] = Weight(f"layers.{number}.weight", transposed=True)
    return NetworkSource(code, weights)


@network_source_of(JkNet)
def _jknet(design: JkNet, sizes: Sizes) -> NetworkSource:
    hidden, layers = sizes.hidden, design.layers
    init = [f"self.layers = nn.ModuleList([Convolution({sizes.in_channels}, {hidden})])"]
    if layers > 1 and design.dense:
        init.append(f"widths = range({hidden}, {layers * hidden}, {hidden})")
        init.append(f"self.layers.extend(Convolution(width, {hidden}) for width in widths)")
    elif layers > 1:
        init.append(f"layers = (Convolution({hidden}, {hidden}) for _ in range({layers - 1}))")
        init.append("self.layers.extend(layers)")
    if design.jump == "lstm":
        state = layers * hidden // 2
        init += [
            f"self.lstm = nn.LSTM({hidden}, {state}, batch_first=True, bidirectional=True)",
            f"self.attention = nn.Linear({2 * state}, 1)",
        ]
        jump = [
            "# Jump: the mean of all layers, by the attention that an LSTM gives.",
            "layers = torch.stack(heard, dim=1)  # [N, L, C]",
            "attention = self.attention(self.lstm(layers)[0]).softmax(dim=1)  # [N, L, 1]",
            "h = (attention * layers).sum(dim=1)",
        ]
    else:
        jump = [
            "# Jump: the maximum of all layers, channel by channel.",
            "h = torch.stack(heard).amax(dim=0)",
        ]
    init.append(f"self.last = nn.Linear({hidden}, {sizes.out_channels})")
    read = "torch.cat(heard, dim=1)" if design.dense else "heard[-1]"
    steps = [
        *NORMALIZED,
        "heard = [self.layers[0](x, edge_index, weights).relu()]",
        "for layer in self.layers[1:]:",
        f"    heard.append(layer({read}, edge_index, weights).relu())",
        *jump,
        "return self.last(h)",
    ]
    about = "JKNet: layers of GCN, all of which are heard at the end."
    weights = _features("layers.0.lin", "layers.0.linear") | _linear("last", "last")
    for number in range(layers):
        if number:
            weights |= _linear(f"layers.{number}.lin", f"layers.{number}.linear", bias=False)
        weights |= _same(f"layers.{number}.bias")
    if design.jump == "lstm":
        weights |= _lstm("jump.lstm", "lstm", both_ways=True) | _linear("jump.att", "attention")
    return NetworkSource(_network(about, sizes, init, steps), weights)


@network_source_of(Lgcn)
def _lgcn(design: Lgcn, sizes: Sizes) -> NetworkSource:
    count, channels, hidden = design.largest, design.channels, sizes.hidden
    layer = f'''\
class LearnableLayer(nn.Module):
    """Two convolutions over a node and the largest values among its neighbors."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        between = (in_channels + out_channels) // 2
        self.first = nn.Conv1d(in_channels, between, {(count + 1) // 2 + 1})
        self.second = nn.Conv1d(between, out_channels, {count // 2 + 1}, bias=False)
        self.norm_scale = nn.Parameter(torch.ones(out_channels))
        self.norm_shift = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, I] -> [N, O]."""
        largest = largest_neighbors(x, edge_index, {count})
        rows = torch.cat([x.unsqueeze(1), largest], dim=1)  # [N, 1 + k, I]
        h = self.second(self.first(rows.transpose(1, 2))).squeeze(2)
        return batch_norm(h, self.norm_scale, self.norm_shift)
'''
    widths = [hidden + number * channels for number in range(design.layers + 1)]
    step = f", {channels}" if channels > 1 else ""
    code = _network(
        "LGCN: learnable layers, each beside what it reads, between two layers of GCN.",
        sizes,
        [
            f"self.first = Convolution({sizes.in_channels}, {hidden})",
            f"widths = range({hidden}, {widths[-1]}{step})",
            f"layers = (LearnableLayer(width, {channels}) for width in widths)",
            "self.layers = nn.ModuleList(layers)",
            f"self.last = Convolution({widths[-1]}, {sizes.out_channels})",
        ],
        [
            LOOPS.replace("edge_index, _", "looped, _", 1),
            "weights = gcn_weights(looped, x).unsqueeze(1)  # [E, 1]",
            "h = self.first(x, looped, weights)",
            "for layer in self.layers:",
            "    h = torch.cat([h, layer(h, edge_index)], dim=1)",
            "return self.last(h, looped, weights)",
        ],
    )
    weights = _features("first.lin", "first.linear") | _same("first.bias", "last.bias")
    weights |= _linear("last.lin", "last.linear", bias=False)
    for number in range(design.layers):
        own = f"layers.{number}"
        weights |= _same(f"{own}.first.weight", f"{own}.first.bias", f"{own}.second.weight")
        weights[f"{own}.norm.weight"] = Weight(f"{own}.norm_scale")
        weights[f"{own}.norm.bias"] = Weight(f"{own}.norm_shift")
    return NetworkSource(f"{layer}\n\n{code}", weights)


@network_source_of(Sage)
def _sage(design: Sage, sizes: Sizes) -> NetworkSource:
    return _sage_max(sizes) if design.aggregator == "max" else _sage_lstm(design, sizes)


def _sage_max(sizes: Sizes) -> NetworkSource:
    features, hidden, out = sizes.in_channels, sizes.hidden, sizes.out_channels
    gather = 'dim=0, dim_size=x.size(0), reduce="max")'
    code = _network(
        "GraphSAGE of two layers, each with the maximum over the neighbors.",
        sizes,
        [
            f"self.project_1 = nn.Linear({features}, {hidden})",
            f"self.heard_1 = nn.Linear({hidden}, {hidden})",
            f"self.root_1 = nn.Linear({features}, {hidden}, bias=False)",
            f"self.project_2 = nn.Linear({hidden}, {hidden})",
            f"self.heard_2 = nn.Linear({hidden}, {out})",
            f"self.root_2 = nn.Linear({hidden}, {out}, bias=False)",
        ],
        [
            "source, target = edge_index",
            "sent = self.project_1(x).relu()[source]",
            f"heard = scatter(sent, target, {gather}",
            "h = (self.heard_1(heard) + self.root_1(x)).relu()",
            "sent = self.project_2(h).relu()[source]",
            f"heard = scatter(sent, target, {gather}",
            "return self.heard_2(heard) + self.root_2(h)",
        ],
    )
    weights = (
        _features("projection", "project_1", bias=True)
        | _features("root", "root_1")
        | _linear("first.lin_l", "heard_1")
        | _linear("second.lin", "project_2")
        | _linear("second.lin_l", "heard_2")
        | _linear("second.lin_r", "root_2", bias=False)
    )
    return NetworkSource(code, weights)


def _sage_lstm(design: Sage, sizes: Sizes) -> NetworkSource:
    features, hidden, out = sizes.in_channels, sizes.hidden, sizes.out_channels
    layer = f'''\
class NeighborLstm(nn.Module):
    """The last state of an LSTM over the first {design.neighbors} neighbors, and a map of it."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(in_channels, in_channels, batch_first=True)
        self.map = nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, I] -> [N, O]."""
        neighbors, count = first_neighbors(edge_index, x.size(0), {design.neighbors})
        states, _ = self.lstm(x[neighbors])  # [N, K, I]
        nodes = torch.arange(x.size(0), device=x.device)
        last = states[nodes, (count - 1).clamp(min=0)]
        return self.map(last * (count > 0).unsqueeze(1))
'''
    code = _network(
        "GraphSAGE of two layers, each with an LSTM over some neighbors.",
        sizes,
        [
            f"self.project = nn.Linear({features}, {hidden}, bias=False)",
            f"self.heard_1 = NeighborLstm({hidden}, {hidden})",
            f"self.root_1 = nn.Linear({features}, {hidden}, bias=False)",
            f"self.heard_2 = NeighborLstm({hidden}, {out})",
            f"self.root_2 = nn.Linear({hidden}, {out}, bias=False)",
        ],
        [
            "h = (self.heard_1(self.project(x), edge_index) + self.root_1(x)).relu()",
            "return self.heard_2(h, edge_index) + self.root_2(h)",
        ],
    )
    weights = _features("projection", "project") | _features("root", "root_1")
    for ours, there in (("first", "heard_1"), ("second", "heard_2")):
        weights |= _lstm(f"{ours}.lstm", f"{there}.lstm") | _linear(f"{ours}.map", f"{there}.map")
    weights |= _linear("second_root", "root_2", bias=False)
    return NetworkSource(f"{layer}\n\n{code}", weights)


@network_source_of(ResidualSage)
def _residual_sage(design: ResidualSage, sizes: Sizes) -> NetworkSource:
    hidden = sizes.hidden
    layer = f'''\
class Layer(nn.Module):
    """The mean of the neighbors and the node itself, each by a map, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = nn.Linear({hidden}, {hidden}, bias=False)
        self.root = nn.Linear({hidden}, {hidden})
        self.norm = nn.LayerNorm({hidden})

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, {hidden}] -> [N, {hidden}]."""
        source, target = edge_index
        sent = self.heard(x)[source]
        heard = scatter(sent, target, dim=0, dim_size=x.size(0), reduce="mean")
        return self.norm(heard + self.root(x)).relu()
'''
    code = _network(
        "GraphSAGE with the mean, in layers that are added to what they read.",
        sizes,
        [
            f"self.first = nn.Linear({sizes.in_channels}, {hidden})",
            f"self.layers = nn.ModuleList(Layer() for _ in range({design.layers}))",
            f"self.last = nn.Linear({hidden}, {sizes.out_channels})",
        ],
        [
            "h = self.first(x)",
            "for layer in self.layers:",
            "    h = h + layer(h, edge_index)",
            "return self.last(h)",
        ],
    )
    weights = _features("first", "first", bias=True) | _linear("last", "last")
    for number in range(design.layers):
        own = f"layers.{number}"
        weights |= {
            f"{own}.transform.weight": Weight(f"{own}.heard.weight", transposed=True),
            f"{own}.combine.weight": Weight(f"{own}.root.weight", transposed=True),
            f"{own}.bias": Weight(f"{own}.root.bias"),
            f"{own}.norm.scale": Weight(f"{own}.norm.weight"),
            f"{own}.norm.shift": Weight(f"{own}.norm.bias"),
        }
    return NetworkSource(f"{layer}\n\n{code}", weights)


@network_source_of(SkipGat)
def _skip_gat(design: SkipGat, sizes: Sizes) -> NetworkSource:
    features, hidden, out = sizes.in_channels, sizes.hidden, sizes.out_channels
    heads, last, each = design.heads, design.last_heads, hidden // design.heads
    layer = '''\
class AttentiveLayer(nn.Module):
    """What each head hears by the attention of GAT, and what a node says of itself."""

    def __init__(self, in_channels: int, heads: int, channels: int, own: int) -> None:
        super().__init__()
        self.map = nn.Linear(in_channels, heads * channels, bias=False)
        self.at_target = nn.Parameter(torch.empty(heads, channels))
        self.at_source = nn.Parameter(torch.empty(heads, channels))
        self.skip = nn.Linear(in_channels, own)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """[N, I] -> [N, H, C], [N, O]."""
        source, target = edge_index
        heads = self.map(x).view(-1, *self.at_target.shape)  # [N, H, C]
        at_target = (heads * self.at_target).sum(dim=-1)  # [N, H]
        at_source = (heads * self.at_source).sum(dim=-1)
        scores = F.leaky_relu(at_target[target] + at_source[source], 0.2)  # [E, H]
        attention = softmax(scores, target, num_nodes=x.size(0))
        sent = attention.unsqueeze(-1) * heads[source]  # [E, H, C]
        heard = scatter(sent, target, dim=0, dim_size=x.size(0), reduce="sum")
        return heard, self.skip(x)
'''
    init = [
        f"first = AttentiveLayer({features}, {heads}, {each}, {hidden})",
        "self.layers = nn.ModuleList([first])",
    ]
    if design.layers > 2:
        more = f"AttentiveLayer({hidden}, {heads}, {each}, {hidden})"
        init.append(f"layers = ({more} for _ in range({design.layers - 2}))")
        init.append("self.layers.extend(layers)")
    code = _network(
        "GAT whose layers hear their input by a linear map too.",
        sizes,
        [
            *init,
            f"self.last = AttentiveLayer({hidden}, {last}, {out}, {out})",
        ],
        [
            LOOPS,
            "h = x",
            "for layer in self.layers:",
            "    heard, own = layer(h, edge_index)",
            "    h = F.elu(heard.flatten(1) + own)  # heads side by side",
            "heard, own = self.last(h, edge_index)",
            "return heard.mean(dim=1) + own",
        ],
    )
    weights: Renamed = {}
    for number in range(design.layers):
        there = "last" if number == design.layers - 1 else f"layers.{number}"
        linear = _linear if number else _features
        weights |= linear(f"maps.{number}", f"{there}.map", bias=False)
        weights |= linear(f"skips.{number}", f"{there}.skip", bias=True)
        for name in ("at_target", "at_source"):
            weights[f"attentions.{number}.{name}"] = Weight(f"{there}.{name}")
    return NetworkSource(f"{layer}\n\n{code}", weights)
