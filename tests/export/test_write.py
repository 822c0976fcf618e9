"""Exports are checked before they are put in place, and need no pdnas."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch

import pdnas
from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ExportError, PdnasError, RunError
from pdnas.export import export, write
from pdnas.export.source import write_weights
from pdnas.models.baselines import BASELINES
from pdnas.runs import RESULT, SETTINGS, WEIGHTS, Result, RunDirectory

ResultOf = Callable[..., Result]

SIZES = [(2, 1), (6, 20), (50, 0), (1, 0), (300, 2000)]

PYTHON = """
import sys
sys.modules["pdnas"] = None
sys.path.insert(0, "{folder}")
import torch
from network import CLASSES, load_network
network = load_network()
"""

TORCH = """
import sys
sys.modules["pdnas"] = sys.modules["torch_geometric"] = None
import torch
network = torch.export.load("{folder}/network.pt2").module()
"""

COMPARE = """
graphs, expected = torch.load("{folder}/graphs.pt")
for graph, logits in zip(graphs, expected, strict=True):
    difference = (network(*graph) - logits).abs().max() / logits.abs().max()
    assert difference <= 1e-6, (graph[0].shape, difference)
print("the same")
"""


@pytest.fixture
def run(architecture: Architecture, result_of: ResultOf, tmp_path: Path) -> Path:
    """A finished run."""
    result = result_of(architecture)
    run = RunDirectory.create(tmp_path / "run", "test")
    run.write_json(SETTINGS, {"command": "train"})
    run.write_json(RESULT, result)
    run.write_weights(WEIGHTS, result.model.state_dict())
    return run.path


@pytest.mark.parametrize(("kind", "code"), [("python", PYTHON), ("torch", TORCH)])
@torch.no_grad()
def test_an_export_needs_no_pdnas(kind: Any, code: str, run: Path) -> None:
    export(run, kind)
    model = pdnas.load_run(run).model
    graphs = [(torch.randn(n, 5), torch.randint(n, (2, e))) for n, e in SIZES]
    torch.save((graphs, [model(*graph) for graph in graphs]), run / "graphs.pt")
    script = (code + COMPARE).replace("{folder}", str(run))
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "the same\n", done.stderr


def test_files_are_written_into_the_run(run: Path) -> None:
    before = set(run.iterdir())
    assert export(run) == [run / "network.pt", run / "network.py"]
    assert export(run, "torch") == [run / "network.pt2"]
    written = {run / "network.pt", run / "network.py", run / "network.pt2"}
    assert set(run.iterdir()) - before == written
    with pytest.raises(PdnasError, match=r"network\.py' exists already; .* --force to replace it"):
        export(run)
    assert export(run, force=True) == [run / "network.pt", run / "network.py"]


def test_a_result_is_written_where_one_is(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = pdnas.load_run(run)
    assert pdnas.export(result) == [Path("network.pt"), Path("network.py")]
    assert pdnas.export(result, "torch", "mine-2.pt2") == [Path("mine-2.pt2")]


def test_the_package_is_the_function_too(run: Path) -> None:
    import pdnas.export as package

    assert callable(package)
    assert package(run, format="torch") == [run / "network.pt2"]


def test_a_program_knows_its_classes_and_warns_of_nothing(run: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (path,) = export(run, "torch")
    files = {"classes.json": ""}
    torch.export.load(path, extra_files=files)
    assert json.loads(files["classes.json"]) == list("abcdef")


def test_a_program_tells_nothing_of_this_machine(run: Path) -> None:
    (path,) = export(run, "torch")
    with ZipFile(path) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert str(run).encode() not in content
    assert b"site-packages" not in content


@torch.no_grad()
def test_programs_of_any_attention_take_any_graph(result_of: ResultOf, tmp_path: Path) -> None:
    attentions = ("const", "gcn", "gat", "sym-gat", "cos", "linear", "gene-linear")
    blocks = [
        BlockSpec(attention=attention, heads=4, aggregation=aggregation, combine=combine)
        for attention, aggregation, combine in zip(
            attentions, ("sum", "mean", "max") * 3, ("add", "none", "root") * 3, strict=False
        )
    ]
    last = BlockSpec(propagation=2, combine="concat-mlp", norm="layer")
    for normalization in ("softmax", "none"):
        blocks_of = tuple(b.model_copy(update={"activation": "tanh"}) for b in blocks)
        architecture = Architecture.model_validate(
            {"blocks": (*blocks_of, last), "attention_normalization": normalization}
        )
        result = result_of(architecture, out_channels=1, class_names=("no", "yes"))
        (path,) = export(result, "torch", tmp_path / "network.pt2", force=True)
        program = torch.export.load(path).module()
        for nodes, edges in SIZES:
            x, edge_index = torch.randn(nodes, 5), torch.randint(nodes, (2, edges))
            expected = result.model(x, edge_index)
            torch.testing.assert_close(program(x, edge_index), expected, rtol=1e-5, atol=1e-5)


def test_a_network_without_edges_is_a_program_too(result_of: ResultOf, tmp_path: Path) -> None:
    result = result_of(Architecture(blocks=(BlockSpec(propagation=0),)))
    (path,) = export(result, "torch", tmp_path / "network.pt2")
    assert torch.export.load(path).module()(torch.randn(9, 5), torch.zeros(2, 4).long()).shape == (
        9,
        6,
    )


@pytest.mark.parametrize("kind", ["python", "torch"])
def test_what_a_batch_norm_makes_of_rounding_is_no_difference(
    kind: Any, result_of: ResultOf, tmp_path: Path
) -> None:
    spec = BlockSpec(expansion=0, attention="gcn", norm="batch", bias=True)
    result = result_of(Architecture(blocks=(spec, spec)), in_channels=50)
    x, _ = write._graph(result, 3, 0)
    weights = result.model.state_dict()
    name = "blocks.0.transform.weight"
    # Three nodes of which every channel says nearly the same, so that the norm divides by little.
    weights[name] = torch.linalg.pinv(x) @ (1 + 1e-3 * x @ weights[name])
    path = tmp_path / write.DEFAULTS[kind]
    assert path in export(result.with_weights(weights), kind, path)


@pytest.mark.parametrize("kind", ["python", "torch"])
def test_a_network_that_differs_is_not_written(
    kind: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(result: Result) -> dict[str, torch.Tensor]:
        return {name: weight * 1.001 for name, weight in write_weights(result).items()}

    monkeypatch.setattr(write, "write_weights", wrong)
    before = set(run.iterdir())
    with pytest.raises(ExportError, match=r"differs .* nothing was written"):
        export(run, kind)
    assert set(run.iterdir()) == before


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("python", "there", "is a folder; give the path of a file"),
        ("python", "network.txt", r"does not end in \.py"),
        ("torch", "network.py", r"does not end in \.pt2"),
        ("python", "my-network.py", "cannot import"),
        ("python", "class.py", "cannot import"),
        ("python", "nowhere/network.py", r"There is no folder '.*nowhere' for the output"),
        ("python", "data.py", r"data\.pt' exists already"),
        ("python", "torch.py", "would hide the module 'torch'"),
        ("python", "torch_geometric.py", "would hide the module 'torch_geometric'"),
        ("python", "pathlib.py", "would hide the module 'pathlib'"),
        ("onnx", "network.onnx", "Unknown export format 'onnx'; known are: python, torch"),
    ],
)
def test_a_bad_output_is_one_sentence(
    kind: Any, name: str, expected: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "data.pt").write_text("precious")
    with pytest.raises(PdnasError, match=expected):
        export(run, kind, tmp_path / name)
    assert (tmp_path / "data.pt").read_text() == "precious"


@pytest.mark.parametrize("name", ["appnp", "gat-ppi", "jknet-lstm", "lgcn", "sage-lstm"])
@torch.no_grad()
def test_programs_of_published_networks_take_any_graph(
    name: str, result_of: ResultOf, tmp_path: Path
) -> None:
    result = result_of(BASELINES[name].design)
    (path,) = export(result, "torch", tmp_path / "network.pt2")
    program = torch.export.load(path).module()
    for nodes, edges in SIZES:
        x, edge_index = torch.randn(nodes, 5), torch.randint(nodes, (2, edges))
        expected = result.model(x, edge_index)
        # LGCN's norm over a single node divides the rounding of zero by the root of its epsilon.
        close = 3e-3 if (name, nodes) == ("lgcn", 1) else 1e-5
        torch.testing.assert_close(program(x, edge_index), expected, rtol=close, atol=close)


def test_an_unfinished_run_is_refused(run: Path) -> None:
    (run / RESULT).unlink()
    with pytest.raises(RunError, match=r"has no result\.json; finish it with: pdnas resume"):
        export(run)
