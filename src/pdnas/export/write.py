"""Networks of runs as files: checked beside the run's own network, then put in their place."""

import copy
import importlib.util
import json
import keyword
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.export import Dim

from pdnas.errors import ExportError
from pdnas.export.source import network_source, write_source, write_weights
from pdnas.output import check_file, check_output, data_of
from pdnas.registry import unknown
from pdnas.runs import Result, load_run

Format = Literal["python", "torch"]

DEFAULTS: Mapping[str, str] = MappingProxyType({"python": "network.py", "torch": "network.pt2"})
"""The file of each format, unless another is asked for."""

HIDDEN = frozenset({"torch", "torch_geometric", "numpy", *sys.stdlib_module_names})
"""Modules that the file, or what it imports, would look for in vain beside one of their name."""

TOLERANCE = 1e-6
"""How much logits may differ, in units of the largest, beside what single precision loses."""

LOSSES = 10.0
"""How many times as much as the run's own network in single precision a file may lose."""

SIZES = ((7, 12), (20, 64), (3, 0))
"""Nodes and edges of the graphs that a file is checked on."""

Logits = Callable[[Tensor, Tensor], Tensor]


def export(
    run: str | Path | Result,
    format: Format = "python",  # noqa: A002
    output: str | Path | None = None,
    *,
    force: bool = False,
) -> list[Path]:
    """Write the network of a run so that it needs no pdnas.

    ``python`` is a source file that needs torch and torch-geometric, with its weights beside it;
    ``torch`` is a program of ``torch.export``, for graphs of any size, that needs torch alone.

    Examples:
        >>> trained = pdnas.train("gcn", "citeseer", recipe={"epochs": 5}, run_dir="run")
        >>> pdnas.export("run", "python", "network.py")
        [PosixPath('network.pt'), PosixPath('network.py')]

    Args:
        run: A run directory, or a result with its network.
        format: ``python`` or ``torch``.
        output: The file; by default ``network.py`` or ``network.pt2`` in the run directory, or in
            the current one for a result.
        force: Whether files that are there already are replaced.

    Returns:
        The files that were written.
    """
    if format not in DEFAULTS:
        raise unknown("export format", format, DEFAULTS)
    result = run if isinstance(run, Result) else load_run(run)
    home = Path() if isinstance(run, Result) else Path(run)
    path = home / DEFAULTS[format] if output is None else Path(output)
    _check_name(path, format)
    data = None if isinstance(run, Result) else data_of(Path(run))
    for file in [path] if format == "torch" else [path, _weights_beside(path)]:
        check_output(file, data, force=force)
    network_source(result)
    result = result.with_weights(_on_cpu(result.model))
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
            draft = Path(folder) / path.name
            files = _write_python(result, draft)
            if format == "torch":
                files = [_write_program(result, _load_network(files[-1]), draft)]
                _check(result, _load_program(draft))
            else:
                _check(result, _load_network(draft))
            return [_move(file, path.parent) for file in files]
    except OSError as error:
        raise ExportError(
            f"'{path}' cannot be written ({error.strerror}); give an --output that you may write "
            "to."
        ) from None


def _check_name(path: Path, kind: Format) -> None:
    """Refuse a file that Python or torch would not find by its name."""
    suffix = Path(DEFAULTS[kind]).suffix
    check_file(path)
    if path.suffix != suffix:
        raise ExportError(
            f"The output '{path}' does not end in {suffix}, as files of the format {kind} do; "
            f"give another, such as {path.with_name(DEFAULTS[kind])}."
        )
    if kind == "torch":
        return
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem):
        raise ExportError(
            f"Python cannot import a file named '{path.name}'; give a name of letters, digits and "
            "underscores, such as network.py."
        )
    if path.stem in HIDDEN:
        raise ExportError(
            f"A file named '{path.name}' would hide the module '{path.stem}' from whoever imports "
            "it; give another name, such as network.py."
        )


def _weights_beside(path: Path) -> Path:
    return path.with_suffix(".pt")


def _on_cpu(network: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().cpu() for name, weight in network.state_dict().items()}


def _write_python(result: Result, path: Path) -> list[Path]:
    """The weights and the source file, whatever the ending of the path."""
    source, weights = path.with_suffix(".py"), _weights_beside(path)
    text = write_source(result, source.stem, weights.name)
    source.write_text(text, encoding="utf-8")
    torch.save(write_weights(result), weights)
    return [weights, source]


def _write_program(result: Result, network: nn.Module, path: Path) -> Path:
    nodes, edges = Dim("nodes"), Dim("edges")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # those of torch are not for whoever exports
        program = torch.export.export(
            network,
            _graph(result, 8, 16),
            dynamic_shapes={"x": {0: nodes}, "edge_index": {1: edges}},
        )
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # it would tell of folders on this machine
        names = {"classes.json": result.class_names, "features.json": feature_names(result)}
        files = {file: json.dumps(told) for file, told in names.items() if told}
        torch.export.save(program, path, extra_files=files)
    return path


def feature_names(result: Result) -> tuple[str, ...]:
    """The names of the columns of ``x``, if they have any."""
    return () if result.data is None else result.data.feature_names


def _load_network(path: Path) -> nn.Module:
    """The network of a file that was just written."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network: nn.Module = module.load_network()
    return network


def _load_program(path: Path) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(path).module()


def _graph(result: Result, nodes: int, edges: int) -> tuple[Tensor, Tensor]:
    """A random graph, the same every time."""
    generator = torch.Generator().manual_seed(nodes)
    x = torch.rand(nodes, result.in_channels, generator=generator)
    return x, torch.randint(nodes, (2, edges), generator=generator)


@torch.no_grad()
def _check(result: Result, network: Logits) -> None:
    """Refuse a network that gives other logits than that of the run.

    What the run's own network loses in single precision says how far sums in another order may
    lie from each other: much, where a batch norm divides by what three nodes hardly differ in.
    """
    exact = copy.deepcopy(result.model).double()
    for nodes, edges in SIZES:
        x, edge_index = _graph(result, nodes, edges)
        single, expected = result.model(x, edge_index), exact(x.double(), edge_index)
        difference = _furthest(network(x, edge_index), expected)
        allowed = TOLERANCE * max(float(expected.abs().max()), 1e-6)
        allowed += LOSSES * _furthest(single, expected)
        if not difference <= allowed:
            raise ExportError(
                f"The exported network differs from that of the run by {difference:.1e} on a graph "
                f"of {nodes} nodes, where {allowed:.1e} is allowed, so nothing was written; please "
                "report this with the run's architecture.json."
            )


def _furthest(logits: Tensor, exact: Tensor) -> float:
    return float((logits - exact).abs().max())


def _move(file: Path, folder: Path) -> Path:
    """Put a finished file in its place."""
    place = folder / file.name
    file.replace(place)
    return place
