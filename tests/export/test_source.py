"""The file reads as if written by hand, and its network does the same."""

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdnas.architecture import Architecture, BlockSpec
from pdnas.export.source import write_source, write_weights
from pdnas.models.baselines import BASELINES
from pdnas.ops import SLOTS
from pdnas.runs import DataRecord, Result, Scores
from pdnas.space import SPACES

ResultOf = Callable[..., Result]


def load(result: Result, path: Path) -> Any:
    """The module of a file with the network, with its weights beside it."""
    path.write_text(write_source(result, path.stem, f"{path.stem}.pt"), encoding="utf-8")
    torch.save(write_weights(result), path.with_suffix(".pt"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sampled() -> list[Architecture]:
    """Architectures of every depth and space."""
    generator = torch.Generator().manual_seed(0)
    return [
        SPACES[space].sample(blocks, generator)
        for space in SPACES
        for blocks in (1, 2, 3, 5)
        for _ in range(3)
    ]


@torch.no_grad()
def test_any_architecture_gives_the_same_logits(
    result_of: ResultOf, graph: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    x, edge_index = graph
    for number, architecture in enumerate(sampled()):
        result = result_of(architecture, out_channels=7, class_names=tuple("abcdefg"))
        network = load(result, tmp_path / f"network_{number}.py").load_network()
        expected = result.model.double()(x.double(), edge_index)
        scale = float(expected.abs().max())
        logits = network.double()(x.double(), edge_index)
        assert float((logits - expected).abs().max()) <= 1e-6 * max(scale, 1), str(architecture)


@torch.no_grad()
def test_logits_of_single_precision_agree_to_a_millionth(
    architecture: Architecture,
    result_of: ResultOf,
    graph: tuple[Tensor, Tensor],
    tmp_path: Path,
) -> None:
    result = result_of(architecture)
    expected, logits = result.model(*graph), load(result, tmp_path / "n.py").load_network()(*graph)
    assert float((logits - expected).abs().max()) <= 1e-6 * float(expected.abs().max())


def hostile() -> dict[str, Any]:
    return {
        "task": 'a "quoted" \\n """; import os\nnext \x00 \u202e end\\',
        "note": '"""',
        "class_names": ('"""; import os', "'\"\\", "new\nline", "", "ü 🐍" * 40, "a b " * 60),
    }


def ruff(*arguments: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--isolated", "--no-cache", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_passes_ruff(result_of: ResultOf, tmp_path: Path) -> None:
    ops = [
        Architecture(blocks=(BlockSpec.model_validate({slot: name}), BlockSpec()))
        for slot, registry in SLOTS.items()
        for name in registry
    ]
    learned = [
        BlockSpec(attention=attention, heads=heads, aggregation=aggregation, bias=True)
        for attention in SLOTS["attention"]
        for heads in (1, 2, 4)
        for aggregation in ("sum", "max")
    ]
    literal = [Architecture(blocks=(b,), attention_normalization="none") for b in learned]
    plain = [Architecture(blocks=(b,)) for b in learned]
    records = [
        DataRecord(
            kind="single-label",
            sha256="",
            normalize=normalize,
            undirected=undirected,
            feature_names=names,
        )
        for normalize, undirected in ((False, True), (True, False))
        for names in ((), tuple("vwxyz"))
    ]
    records[0] = records[0].model_copy(update={"means": (0.5,) * 5, "deviations": (1e-7,) * 5})
    results = [
        result_of(found, data=data)
        for number, found in enumerate([*ops, *plain, *literal, *sampled()])
        for data in ((None, *records) if number < len(ops) else (records[number % 4],))
    ]
    results += [
        result_of(BASELINES[name].design, hidden=8, data=records[number % 4])
        for number, name in enumerate(BASELINES)
    ]
    results.append(result_of(ops[0], **hostile()))
    results.append(result_of(BASELINES["appnp"].design, **hostile()))
    many = {"out_channels": 2 * 10**5, "class_names": tuple(map(str, range(2 * 10**5)))}
    results.append(result_of(ops[0], in_channels=10**5, hidden=10**3, **many))
    one = {"seeds": (0,), "epochs": (3,), "val": Scores.of([0.5]), "test": Scores.of([0.5])}
    results.append(result_of(ops[0], out_channels=1, class_names=("no", "yes"), **one))
    names = tuple(f"column {number}" for number in range(5))
    data = DataRecord(
        kind="multi-label",
        sha256="",
        normalize=True,
        undirected=True,
        feature_names=names,
        means=(0.10000000149011612,) * 5,
        deviations=(3e38,) * 5,
    )
    results.append(result_of(ops[0], data=data, class_names=tuple(map(str, range(6)))))
    for number, result in enumerate(results):
        name = f"network_{number}"
        text = write_source(result, name, f"{name}.pt")
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    ruff("check", "--select", "E,W,F,I,UP,B,C4,PIE,RET,SIM,PTH,RUF", "--ignore", "RUF001,RUF003",
         folder=tmp_path)  # fmt: skip
    ruff("format", "--check", "--diff", folder=tmp_path)


def test_text_of_users_stays_text(result_of: ResultOf, tmp_path: Path) -> None:
    fields = hostile()
    result = result_of(Architecture(blocks=(BlockSpec(),)), **fields)
    module = load(result, tmp_path / "network.py")
    assert fields["class_names"] == module.CLASSES
    assert "os" not in vars(module)
    source = (tmp_path / "network.py").read_text(encoding="utf-8")
    body = ast.parse(source).body
    kinds = (ast.Import, ast.ImportFrom, ast.Assign, ast.ClassDef, ast.FunctionDef)
    assert all(isinstance(node, kinds) for node in body[1:])
    assert "a 'quoted' /n '''; import os next end/" in " ".join(module.__doc__.split())


def test_nothing_is_there_that_the_network_does_not_use(result_of: ResultOf) -> None:
    source = write_source(result_of(Architecture(blocks=(BlockSpec(),))), "network", "network.pt")
    for word in ("softmax", "degree", "gcn", "heads", "F.", "norm", "bias =", "shortcut_", "loops"):
        assert word not in source


def test_a_block_without_messages_reads_no_edges(result_of: ResultOf) -> None:
    block = BlockSpec(propagation=0, combine="none")
    source = write_source(result_of(Architecture(blocks=(block,))), "network", "network.pt")
    assert "def forward(self, x: Tensor) -> Tensor:" in source
    assert "torch_geometric" not in source


def test_equal_blocks_share_a_class(result_of: ResultOf, tmp_path: Path) -> None:
    blocks = (BlockSpec(activation="relu"),) * 4 + (BlockSpec(),)
    module = load(result_of(Architecture(blocks=blocks)), tmp_path / "network.py")
    network = module.load_network()
    assert type(network.block_1) is type(network.block_3)
    assert not hasattr(module, "Block2")
    assert not torch.equal(network.block_1.transform_1.weight, network.block_2.transform_1.weight)


def test_the_file_says_what_it_is(
    architecture: Architecture, result_of: ResultOf, tmp_path: Path
) -> None:
    data = DataRecord(
        kind="single-label",
        sha256="",
        normalize=True,
        undirected=False,
        feature_names=tuple("vwxyz"),
    )
    module = load(result_of(architecture, data=data, note="made up"), tmp_path / "mine.py")
    about = " ".join(module.__doc__.split())
    assert "pdnas found for tiny (made up)." in about
    assert "Test accuracy: 37.50 ± 17.68 % on the split own, mean of 2 trainings" in about
    assert "(seeds 0, 1)" in about
    assert "12,345" in about
    assert "0: mlp x2, gat x4, max, none, bias, layer norm, elu" in about
    assert "0 -> 1." in about
    assert "from mine import classes, load_network, prepare" in about
    x, edge_index = torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([[0, 0], [1, 1]])
    x, edge_index = module.prepare(x, edge_index)
    assert (x.tolist(), edge_index.tolist()) == ([[0.25, 0.75], [0, 0]], [[0], [1]])
    assert module.classes(torch.eye(6)[[2, 0]]) == ["c", "a"]
    assert tuple("abcdef") == module.CLASSES
    assert tuple("vwxyz") == module.FEATURES
    assert "with the largest" in (tmp_path / "mine.py").read_text()


def test_weights_have_readable_names(architecture: Architecture, result_of: ResultOf) -> None:
    result = result_of(architecture)
    weights = write_weights(result)
    assert set(weights) == {
        "block_0.transform_1.weight",
        "block_0.transform_2.weight",
        "block_0.at_target",
        "block_0.at_source",
        "block_0.bias",
        "block_0.norm.weight",
        "block_0.norm.bias",
        "block_1.transform.weight",
        "block_1.root.weight",
        "shortcut_0_1.weight",
    }
    assert sum(w.numel() for w in weights.values()) == sum(
        w.numel() for w in result.model.parameters()
    )


def test_the_file_standardizes_as_the_training_did(result_of: ResultOf, tmp_path: Path) -> None:
    data = DataRecord(
        kind="single-label",
        sha256="",
        normalize=False,
        undirected=False,
        means=(1.0, 0.0, 3.0, 0.0, 40_000.0),
        deviations=(2.0, 1.0, 1.0, 1.0, 10_000.0),
    )
    result = result_of(Architecture(blocks=(BlockSpec(),)), data=data)
    module = load(result, tmp_path / "n.py")
    assert data.means == module.MEANS
    raw = torch.tensor([[3, 0, 3, 5, 60_000], [1, 0, 3, 0, 35_000]])
    x, _ = module.prepare(raw, torch.tensor([[0], [1]]))
    assert x.tolist() == [[1, 0, 0, 5, 2], [0, 0, 0, 0, -0.5]]
    assert x.dtype == torch.float32
