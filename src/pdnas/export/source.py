"""A network as one readable Python file, which needs torch and torch-geometric only."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from pdnas.architecture import Architecture, BlockSpec
from pdnas.export.ops import HELPERS, Place, Snippet, Weight, write_op
from pdnas.export.published import PARTS, NetworkSource, Sizes, write_published
from pdnas.export.text import LINE, constant, docstring, literal, numbers, paragraph, prose
from pdnas.models import Design
from pdnas.runs import DataRecord, Result
from pdnas.tasks.labels import Kind

FLOW = ("expansion", "propagation", "attention", "aggregation", "heads", "combine")
"""The slots in the order in which a block's source has them; a bias follows, and the rest."""

ATTENTIVE = ("attention", "aggregation", "heads")
"""The slots that play no part in a block of another propagation than one step."""

RENAMINGS = ("h = messages", "messages = h")
"""Lines that say nothing at the end of a block."""

OWN_NAMES = {"expansion": "transform"}
"""What a block of ours calls the op of a slot, where that is not the slot's name."""

PYG = (
    "add_remaining_self_loops",
    "coalesce",
    "degree",
    "scatter",
    "softmax",
    "to_undirected",
)
"""What a file may import of torch-geometric."""


@dataclass(frozen=True)
class BlockSource:
    """The source of a block.

    Args:
        body: Of its class.
        weights: Our names of its weights, and what became of them.
        reads_edges: Whether its ``forward`` has edges among its arguments.
    """

    body: str
    weights: Mapping[str, Weight]
    reads_edges: bool


def write_source(result: Result, module: str, weights: str) -> str:
    """The file of a result's network.

    Args:
        result: Whose network.
        module: What the file will be imported as.
        weights: Name of the file with the weights, beside it.
    """
    code = network_source(result).code
    parts = [*_helpers(code), code, _loader(), _prepare(result.data), CLASSES_OF[result.kind]]
    constants = [
        f"# {MEANINGS[result.kind]}",
        *constant("CLASSES", result.class_names),
        *_features(result.data),
        *scales(result.data),
        f"WEIGHTS = Path(__file__).with_name({literal(weights)})",
    ]
    body = "\n\n".join(parts)
    return "\n".join(
        [
            *_about(result, module),
            "",
            *_imports(body),
            "",
            *constants,
            "\n",
            body,
        ]
    )


def write_weights(result: Result) -> dict[str, Tensor]:
    """The weights of a result's network under the names of its file."""
    given = result.model.state_dict()
    weights = {
        there.name: given[own].t() if there.transposed else given[own]
        for own, there in network_source(result).weights.items()
    }
    return {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}


def network_source(result: Result) -> NetworkSource:
    """The classes of a result's network, or one sentence if something in it has no source."""
    architecture = result.architecture
    if isinstance(architecture, Architecture):
        return _of_blocks(architecture, result)
    return write_published(
        architecture, Sizes(result.in_channels, result.hidden, result.out_channels)
    )


def _of_blocks(architecture: Architecture, result: Result) -> NetworkSource:
    sources = _blocks(architecture, result)
    names = _class_names(sources)
    classes = [
        f"class {names[number]}(nn.Module):\n{source.body}"
        for number, source in enumerate(sources)
        if names[number] == f"Block{number}"
    ]
    weights = {
        f"blocks.{number}.{own}": Weight(f"block_{number}.{there.name}", there.transposed)
        for number, source in enumerate(sources)
        for own, there in source.weights.items()
    }
    for i, j in architecture.gates:
        weights[f"shortcuts.{i}_{j}"] = Weight(f"{_shortcut(i, j)}.weight", transposed=True)
    network = _network(architecture, result, sources, names)
    return NetworkSource("\n\n".join([*classes, network]), weights)


def _blocks(architecture: Architecture, result: Result) -> list[BlockSource]:
    widths = architecture.widths(result, result.hidden)
    return [
        _block(
            Place(
                spec,
                spec.dims(widths[number], widths[number + 1], result.hidden),
                architecture.attention_normalization,
            )
        )
        for number, spec in enumerate(architecture.blocks)
    ]


def _block(place: Place) -> BlockSource:
    spec, dims = place.spec, place.dims
    slots = [slot for slot in FLOW if spec.attends or slot not in ATTENTIVE]
    snippets = {slot: write_op(slot, place) for slot in slots}
    if spec.bias:
        snippets["bias"] = Snippet(
            "Bias.",
            ("h = h + self.bias",),
            (f"self.bias = nn.Parameter(torch.zeros({dims.out_channels}))",),
        )
    snippets |= {slot: write_op(slot, place) for slot in ("norm", "activation")}
    weights = {
        f"{OWN_NAMES.get(slot, slot)}.{own}": there
        for slot, snippet in snippets.items()
        for own, there in snippet.weights.items()
    }
    if spec.bias:
        weights["bias"] = Weight("bias")
    written = list(snippets.values())
    reads = any(snippet.needs_edges or snippet.needs_edge_index for snippet in written)
    edges = ", edge_index: Tensor" if reads else ""
    lines = [
        f"    {docstring(f'Block: {_words(spec)}.', 4)}",
        "",
        "    def __init__(self) -> None:",
        "        super().__init__()",
        *(f"        {line}" for snippet in written for line in snippet.init),
        "",
        f"    def forward(self, x: Tensor{edges}) -> Tensor:",
        f'        """[N, {dims.in_channels}] -> [N, {dims.out_channels}]."""',
        *(f"        {line}" for line in _forward(written)),
    ]
    return BlockSource("\n".join(lines) + "\n", weights, reads)


def _forward(written: Sequence[Snippet]) -> list[str]:
    """The lines of a block's ``forward``; its last assignment becomes what it returns."""
    lines = []
    if any(snippet.needs_edges for snippet in written):
        if any(snippet.self_loops for snippet in written):
            call = "add_remaining_self_loops(edge_index, num_nodes=x.size(0))"
            lines.append("# Combine: none; a node is one of its own neighbors instead.")
            lines.append(f"edge_index, _ = {call}")
        lines.append("source, target = edge_index")
    for snippet in written:
        if snippet.comment:
            lines.append(f"# {snippet.comment}")
        lines.extend(snippet.lines)
    while lines[-1].startswith("#") or lines[-1] in RENAMINGS:
        lines.pop()
    _, value = lines[-1].split(" = ", maxsplit=1)
    return [*lines[:-1], f"return {value}"]


def _words(spec: BlockSpec) -> str:
    """The ops of a block, but for slots that play no part."""
    return ", ".join(word for word in spec.words() if word != "-")


def _class_names(sources: Sequence[BlockSource]) -> list[str]:
    """The class of each block: that of the first block with the same source."""
    bodies = [source.body for source in sources]
    return [f"Block{bodies.index(body)}" for body in bodies]


def _network(
    architecture: Architecture,
    result: Result,
    sources: Sequence[BlockSource],
    names: Sequence[str],
) -> str:
    widths = architecture.widths(result, result.hidden)
    made = [f"self.block_{number} = {name}()" for number, name in enumerate(names)]
    if architecture.gates:
        made.append("# Shortcuts, from the input of a block to the output of one.")
    made += [
        f"self.{_shortcut(i, j)} = nn.Linear({widths[i]}, {widths[j + 1]}, bias=False)"
        for i, j in architecture.gates
    ]
    steps: list[str] = []
    for number, source in enumerate(sources):
        edges = ", edge_index" if source.reads_edges else ""
        terms = [f"self.block_{number}({_flow(number)}{edges})"]
        terms += [
            f"self.{_shortcut(i, j)}({_flow(i)})" for i, j in architecture.gates if j == number
        ]
        last = number == architecture.num_blocks - 1
        steps += _sum("return" if last else f"{_flow(number + 1)} =", terms)
    return "\n".join(
        [
            "class Network(nn.Module):",
            '    """The blocks in a row, and the shortcuts across them."""',
            "",
            "    def __init__(self) -> None:",
            "        super().__init__()",
            *(f"        {line}" for line in made),
            "",
            "    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:",
            f'        """Logits, [N, {widths[0]}], [2, E] -> [N, {widths[-1]}]."""',
            *(f"        {line}" for line in steps),
            "",
        ]
    )


def _shortcut(i: int, j: int) -> str:
    return f"shortcut_{i}_{j}"


def _flow(number: int) -> str:
    """What the input of a block is called."""
    return f"h{number}" if number else "x"


def _sum(begin: str, terms: Sequence[str]) -> list[str]:
    """A statement with a sum inside of a method, broken as a formatter would."""
    whole = " + ".join(terms)
    if len(f"        {begin} {whole}") <= LINE:
        return [f"{begin} {whole}"]
    if len(f"            {whole}") <= LINE:
        return [f"{begin} (", f"    {whole}", ")"]
    return [f"{begin} (", f"    {terms[0]}", *(f"    + {term}" for term in terms[1:]), ")"]


def _loader() -> str:
    return '''\
def load_network(path: str | Path = WEIGHTS) -> Network:
    """The network with its trained weights."""
    network = Network()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network.eval()
'''


def scales(data: DataRecord | None) -> list[str]:
    """The constants by which features are standardized, if they are."""
    if data is None or not data.means:
        return []
    return [
        "# The mean and the standard deviation of each feature, as it was in training.",
        *numbers("MEANS", data.means),
        *numbers("DEVIATIONS", data.deviations),
    ]


def preparation(data: DataRecord | None) -> list[str]:
    """The lines that do to raw data what was done to those of the run; they read ``scales``."""
    lines = []
    if data is not None and data.means:
        lines += [
            "# Each feature has mean 0 and standard deviation 1 in the data of the training.",
            "means = torch.tensor(MEANS, dtype=torch.float64, device=x.device)",
            "deviations = torch.tensor(DEVIATIONS, dtype=torch.float64, device=x.device)",
            "x = ((x.double() - means) / deviations).float()",
        ]
    if data is not None and data.normalize:
        lines += [
            "# The features of each node sum to one, but for nodes whose sum is 0.",
            "sums = x.sum(dim=1, keepdim=True)",
            "x = x / torch.where(sums == 0, 1.0, sums)",
        ]
    if data is not None and data.undirected:
        lines += [
            "# Every edge leads both ways, and each is there once.",
            "edge_index = to_undirected(edge_index, num_nodes=x.size(0))",
        ]
    elif data is not None and data.feature_names:  # of a table, see pdnas.tasks.tables
        lines += [
            "# Each edge is there once.",
            "edge_index = coalesce(edge_index, num_nodes=x.size(0))",
        ]
    return lines


def _prepare(data: DataRecord | None) -> str:
    what = "Raw features and edges as the network was trained on them."
    if data is None:
        what = "As they are: the run does not say how its data were prepared."
    lines = ["x, edge_index = x.float(), edge_index.long()", *preparation(data)]
    return "\n".join(
        [
            "def prepare(x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:",
            f'    """{what}"""',
            *(f"    {line}" for line in lines),
            "    return x, edge_index",
            "",
        ]
    )


CLASSES_OF: Mapping[Kind, str] = MappingProxyType(
    {
        "single-label": '''\
def classes(logits: Tensor) -> list[str]:
    """The class of each node: that of its largest logit."""
    return [CLASSES[number] for number in logits.argmax(dim=1).tolist()]
''',
        "binary": '''\
def classes(logits: Tensor) -> list[str]:
    """The answer for each node: the second where its only logit is above 0."""
    return [CLASSES[number] for number in (logits[:, 0] > 0).long().tolist()]
''',
        "multi-label": '''\
def classes(logits: Tensor) -> list[list[str]]:
    """The labels of each node: those whose logits are above 0."""
    return [
        [name for name, has in zip(CLASSES, row, strict=True) if has]
        for row in (logits > 0).tolist()
    ]
''',
    }
)
"""What names the classes of logits, for each kind of task."""


def _names(code: str, name: str) -> bool:
    return re.search(rf"(?<!\.)\b{name}\(", code) is not None


def _helpers(code: str) -> list[str]:
    """The functions and classes that the code names, and those that these name."""
    known, named = {**HELPERS, **PARTS}, set[str]()
    while more := {name for name in known if name not in named and _names(code, name)}:
        named |= more
        code += "".join(known[name] for name in more)
    return [source for name, source in known.items() if name in named]


def _imports(code: str) -> list[str]:
    lines = ["import math"] if "math." in code else []
    lines += ["from pathlib import Path", "", "import torch"]
    if "F." in code:
        lines.append("import torch.nn.functional as F")
    lines.append("from torch import Tensor, nn")
    return [*lines, *imported(code)]


def imported(code: str) -> list[str]:
    """What code needs of torch-geometric, as a formatter would leave it."""
    used = [name for name in PYG if _names(code, name)]
    line = f"from torch_geometric.utils import {', '.join(used)}"
    if len(line) <= LINE:
        return [line] if used else []
    return ["from torch_geometric.utils import (", *(f"    {name}," for name in used), ")"]


MEANINGS: Mapping[Kind, str] = MappingProxyType(
    {
        "single-label": "What each logit stands for: a node is of the class with the largest.",
        "binary": "The two answers: the second where the only logit is above 0.",
        "multi-label": "What each logit stands for: a node has every label whose logit is above 0.",
    }
)
"""What the logits say, for each kind of task."""


def _features(data: DataRecord | None) -> list[str]:
    """The names of the columns of ``x``, if they have any."""
    if data is None or not data.feature_names:
        return []
    return ["# The columns of x, in order.", *constant("FEATURES", data.feature_names)]


def _about(result: Result, module: str) -> list[str]:
    """The docstring of the file."""
    task = prose(f"{result.task} ({result.note})" if result.note else result.task)
    verb = "found" if result.strategy else "trained"
    count, seeds = len(result.test.values), ", ".join(map(str, result.seeds))
    figures = (
        f"Test {prose(result.metric)}: {result.test} % on the split {prose(result.split.name)}, "
        f"{'one training' if count == 1 else f'mean of {count} trainings'} "
        f"({'seed' if len(result.seeds) == 1 else 'seeds'} {seeds}); validation {result.val} %. "
        f"The weights, {result.parameters:,} of them, are those of the training with the best "
        "validation. What a training drops at random is left out."
    )
    first, *rest = paragraph(f"The graph neural network that pdnas {verb} for {task}.")
    return [
        f'"""{first}',
        *rest,
        "",
        *paragraph(figures),
        "",
        *_made_of(result.architecture),
        "",
        "Usage:",
        "",
        f"    from {module} import classes, load_network, prepare",
        "",
        "    network = load_network()",
        "    logits = network(*prepare(x, edge_index))",
        "    names = classes(logits)",
        "",
        *paragraph(
            f"Here x holds the features of the nodes, [N, {result.in_channels}], and edge_index "
            "the sources and targets of the edges, [2, E], as in PyG, both as they were before "
            "anything was done to them: prepare does what was done in training."
        ),
        '"""',
    ]


def _made_of(design: Design) -> list[str]:
    """What a network consists of."""
    if not isinstance(design, Architecture):
        return paragraph(f"It is of the published kind: {prose(str(design))}.")
    gates = ", ".join(f"{i} -> {j}" for i, j in design.gates)
    blocks = [f"    {number}: {_words(spec)}" for number, spec in enumerate(design.blocks)]
    if design.attention_normalization == "none":
        blocks.append("    Attention is not normalized.")
    return [
        "Its blocks, by transform, attention, aggregation, combination and activation:",
        "",
        *blocks,
        "",
        *paragraph(
            f"Shortcuts lead from the input of one block to the output of another: {gates}."
            if gates
            else "There are no shortcuts."
        ),
    ]
