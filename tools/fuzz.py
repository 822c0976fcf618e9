"""Hostile files for every reader: what is not read must be refused in a sentence.

    python tools/fuzz.py npz --seconds 600

An input is a number, which says what of a sample is replaced, and what replaces it: the bytes of a
file, or a description of arrays, columns or tensors in JSON, of which a whole file is made. Valid
samples are changed byte by byte and, where they are JSON, value by value. With atheris, which need
not be there, what reaches new lines of pdnas is changed further; without it inputs are drawn anew
from the samples. Anything but success or a :class:`PdnasError` of one sentence is a finding: an
input that crashes is kept, and the exit code is 1.
"""

import argparse
import contextlib
import faulthandler
import io
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet
from torch_geometric.data import Data

try:
    import atheris
except ImportError:
    atheris = None

LONGEST = 1 << 16
"""Bytes of an input at most."""

SLOWEST = 20
"""Seconds after which an input hangs."""

MEMORY = 6 << 30
"""Bytes of address space that reading may take."""

ODD: tuple[Any, ...] = (
    *(0, -1, 1, 2, 2**31, 2**63, -(2**63), 2**64, 10**9, 10**30, 0.0, -0.5, 1e308, 5e-324),
    *(float("nan"), float("inf"), -float("inf"), True, False, None, "", "\0", "\ud800", "é😀"),
    *("int64", "bool_", "binary", "date32", "float16", "timestamp", "large_string"),
    *("a" * 300, "../../x", "/etc/passwd", "<script>", '"""', "gcn", "relu", "train", [], {}, [[]]),
)
"""Values that readers stumble over."""

Build = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Part:
    """What of a sample is replaced.

    Args:
        name: Of the file.
        sample: A valid replacement.
        build: Makes the file of a replacement; what it cannot make is no input.
    """

    name: str
    sample: bytes
    build: Build = bytes


@dataclass(frozen=True)
class Reader:
    """What is tried.

    Args:
        folder: The sample.
        parts: What may be replaced in it.
        read: Reads the sample as commands do.
    """

    folder: Path
    parts: tuple[Part, ...]
    read: Callable[[Path], None]

    def inputs(self) -> list[bytes]:
        """The samples as inputs."""
        return [bytes([number]) + part.sample for number, part in enumerate(self.parts)]

    def split(self, data: bytes) -> tuple[Part, bytes]:
        """What an input replaces, and by what."""
        return self.parts[(data[0] if data else 0) % len(self.parts)], data[1:]


def jsoned(values: Any) -> bytes:
    """Values as JSON."""
    return json.dumps(values).encode()


def arrays_of(description: bytes) -> dict[str, np.ndarray]:
    """Arrays of a description: for each a type, a shape and values, which are repeated."""
    arrays = {}
    for name, (kind, shape, values) in json.loads(description).items():
        if np.prod([float(size) for size in shape]) > 10_000:
            raise ValueError(f"{name} is too large")
        arrays[name] = np.resize(np.array(values).astype(kind), shape)
    return arrays


def describe(arrays: Mapping[str, np.ndarray]) -> bytes:
    """What :func:`arrays_of` makes these of."""
    return jsoned({k: [a.dtype.str, list(a.shape), a.ravel().tolist()] for k, a in arrays.items()})


def build_npz(description: bytes) -> bytes:
    """An ``.npz`` file of a description of arrays."""
    stream = io.BytesIO()
    np.savez(stream, **arrays_of(description))  # type: ignore[arg-type]
    return stream.getvalue()


def build_pt(description: bytes) -> bytes:
    """A PyG ``Data`` of a description of arrays."""
    stream = io.BytesIO()
    tensors = {name: torch.from_numpy(array) for name, array in arrays_of(description).items()}
    torch.save(Data(**tensors), stream)
    return stream.getvalue()


def build_table(description: bytes) -> bytes:
    """JSON as it is, if it is a table: what is none comes from no file."""
    if not isinstance(json.loads(description), dict):
        raise ValueError("no table")
    return description


def build_parquet(description: bytes) -> bytes:
    """A table of a description of columns: for each a type and values."""
    stream = io.BytesIO()
    columns = {}
    for name, (kind, values) in json.loads(description).items():
        columns[name] = pa.array(values, getattr(pa, kind)() if kind else None)
    parquet.write_table(pa.table(columns), stream)
    return stream.getvalue()


def tiny() -> dict[str, np.ndarray]:
    """12 nodes in a ring, four features that tell three classes apart, and a split."""
    nodes = np.arange(12)
    ring = np.stack([nodes, (nodes + 1) % 12])
    x = np.eye(4, dtype=np.float32)[nodes % 3] + np.float32(0.25)
    masks = {
        f"{part}_mask": nodes % 4 == 1 + number if number else nodes % 4 < 2
        for number, part in enumerate(("train", "val", "test"))
    }
    return {"x": x, "edge_index": ring, "y": nodes % 3, **masks}


def sparse() -> dict[str, np.ndarray]:
    """The same with sparse rows, edges as a sparse matrix, and names."""
    arrays, nodes = tiny(), np.arange(12)
    del arrays["x"], arrays["edge_index"]
    pointers, shape = np.arange(13), np.array([12, 12])
    return {
        **arrays,
        "attr_data": np.ones(12, dtype=np.float32),
        "attr_indices": nodes % 4,
        "attr_indptr": pointers,
        "attr_shape": np.array([12, 4]),
        "adj_data": np.ones(12),
        "adj_indices": (nodes + 1) % 12,
        "adj_indptr": pointers,
        "adj_shape": shape,
        "class_names": np.array(["a", "b", "c"]),
        "node_ids": nodes,
    }


def tables() -> tuple[str, str]:
    """The same as CSV: nodes and edges."""
    arrays, parts = tiny(), ("train", "val", "test")
    part = [next(p for p in parts if arrays[f"{p}_mask"][node]) for node in range(12)]
    nodes = ["id,label,split,fold,a,b,c,d"]
    nodes += [
        f"n{n},class {arrays['y'][n]},{part[n]},{part[-n]},{','.join(map(str, arrays['x'][n]))}"
        for n in range(12)
    ]
    edges = ["source,target", *(f"n{a},n{b}" for a, b in arrays["edge_index"].T)]
    return "\n".join(nodes) + "\n", "\n".join(edges) + "\n"


def write_tables(folder: Path, nodes: str, edges: str) -> None:
    """Write a folder of tables."""
    (folder / "graph").mkdir()
    (folder / "graph" / "nodes.csv").write_text(nodes, encoding="utf-8")
    (folder / "graph" / "edges.csv").write_text(edges, encoding="utf-8")


def command(*words: object) -> None:
    """Run a command, which says nothing here and complains by an exception."""
    from pdnas.cli import STARTED, _parse

    STARTED.set(time.monotonic())
    name, *rest = map(str, words)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        _parse(name, rest).run()


def load(path: Path) -> None:
    """Read a task on all its splits, and for a trained network that needs no labels."""
    from pdnas.errors import PdnasError
    from pdnas.tasks import load_task
    from pdnas.tasks.labels import Known
    from pdnas.tasks.load import read_source
    from pdnas.tasks.source import ReadOptions

    for kind in ("single-label", "multi-label", "binary"):
        names = ("a", "b") if kind == "binary" else ("class 0", "class 1", "class 2")
        known = Known(kind, names, 4)
        with contextlib.suppress(PdnasError):
            repr(read_source(str(path), ReadOptions(undirected=True, known=known)).sha256)
    with contextlib.suppress(PdnasError):
        repr(load_task(path, standardize=True).source.sha256)
    task = load_task(path, normalize=True)
    for split in (*task.source.splits, "random"):
        with contextlib.suppress(PdnasError):
            repr(task.with_split(split, 0).split.sha256)
    task._repr_html_()
    repr(task.graphs[0].adjacency.gcn_weights)


@cache
def _citeseer() -> Any:
    from pdnas.tasks import load_task

    return load_task("citeseer")


def read_designs(folder: Path) -> None:
    """What a file of an architecture says, counted and drawn."""
    from pdnas.architecture import Architecture
    from pdnas.diagram import draw_svg
    from pdnas.named import find_architecture

    task = _citeseer()
    design, hidden, recipe = find_architecture(str(folder / "architecture.json"))
    design.parameters(task, hidden)
    str(design), design.table(), recipe.model_dump()
    if isinstance(design, Architecture):
        draw_svg(design, task, hidden)
        Architecture.load(folder / "architecture.json").to_json()


def read_spaces(folder: Path) -> None:
    """What a file of a space says, drawn from and listed."""
    from pdnas.space import SearchSpace, find_space

    space = find_space(str(folder / "space.toml"))
    space.sample(3, torch.Generator().manual_seed(0))
    str(space.count(100)), space.table(), str(space)
    SearchSpace.from_json(space.to_json())
    command("space", folder / "space.toml", "--json")


def read_recipes(folder: Path) -> None:
    """Recipes of a TOML file and of the values that a result holds."""
    from pdnas.training import find_recipe

    find_recipe(str(folder / "recipe.toml")).undecided.save(folder / "again.toml")
    find_recipe(str(folder / "again.toml"))
    find_recipe(json.loads((folder / "recipe.json").read_bytes()))


def read_finished(folder: Path) -> None:
    """Whatever is done with a finished run."""
    from pdnas.errors import PdnasError
    from pdnas.runs import load_run

    refusals = []
    for words in (
        ("report", folder / "run", "-o", folder / "page.html"),
        ("predict", folder / "run", "-o", folder / "out.csv", "--force"),
        ("predict", folder / "run", folder / "graph.npz", "-o", folder / "out.npz", "--force"),
        ("export", folder / "run", "-o", folder / "network.py", "--force"),
    ):
        try:
            command(*words)
        except PdnasError as error:
            refusals.append(error)
    result = load_run(folder / "run")
    result.summary(), result._repr_html_()
    if refusals:
        raise refusals[0]


def read_stopped(folder: Path) -> None:
    """A page of a run that is not finished, and its end."""
    from pdnas.errors import PdnasError

    with contextlib.suppress(PdnasError):
        command("report", folder / "run", "-o", folder / "page.html")
    command("resume", folder / "run", "--quiet")


def read_compared(folder: Path) -> None:
    """A comparison whose pieces are all there, and a rival's network."""
    from pdnas.named import find_architecture

    words = ["compare", folder / "graph.npz", "--strategies", "random", "--baselines", "gcn"]
    words += ["--seeds", 1, "--epochs", 2, "--hidden", 4, "--budget-seconds", 20, "--quiet"]
    find_architecture(str(next((folder / "run" / "runs").glob("random*.json"))))
    command(*words, "-o", folder / "run")


def of_run(folder: Path, *names: str) -> tuple[Part, ...]:
    """Files of a run that may be replaced."""
    return tuple(Part(f"run/{name}", (folder / "run" / name).read_bytes()) for name in names)


def with_graph(folder: Path) -> Path:
    """Write the tiny graph into a folder, for a run to be on."""
    (folder / "graph.npz").write_bytes(build_npz(describe(tiny())))
    return folder / "graph.npz"


WRITTEN = (
    *("settings.json", "environment.json", "history.jsonl", "result.json"),
    *("architecture.json", "model.safetensors", "predictions.safetensors"),
)
PUBLISHED = ("gcnii", "gat-ppi", "jknet-lstm", "lgcn", "sage-lstm", "appnp")
TRAIN = ("train", "gcn", "--hidden", 4, "--epochs", 2, "--quiet")
SEARCH = ("--hidden", 4, "--epochs", 3, "--candidates", 2, "--seeds", 1, "--quiet")


def make_architecture(folder: Path) -> Reader:
    """Architectures of blocks and published networks."""
    from pdnas.models import Design
    from pdnas.models.baselines import BASELINES
    from pdnas.space import SPACES

    designs: list[Design] = [SPACES["extended"].sample(3, torch.Generator().manual_seed(1))]
    designs += [BASELINES[name].design for name in PUBLISHED]
    samples = [design.model_dump_json().encode() for design in designs]
    return Reader(folder, tuple(Part("architecture.json", one) for one in samples), read_designs)


def make_space(folder: Path) -> Reader:
    """A space of the user."""
    text = b'name = "mine"\nattention = ["gcn", "gat"]\nheads = [1, 2]\nexpansion = [0, 1]\n'
    text += b'shortcuts = "none"\nbias = true\nversion = 1\nattention_normalization = "none"\n'
    return Reader(folder, (Part("space.toml", text),), read_spaces)


def make_recipe(folder: Path) -> Reader:
    """A recipe of the user, and one of a result."""
    from pdnas.training import RECIPES

    most = RECIPES["consistency-deep-selective"].changed(batching="clusters", batch_nodes=99)
    most.save(folder / "recipe.toml")
    values = jsoned(RECIPES["inductive"].model_dump())
    (folder / "recipe.json").write_bytes(values)
    text = (folder / "recipe.toml").read_bytes()
    return Reader(
        folder, (Part("recipe.toml", text), Part("recipe.json", values, build_table)), read_recipes
    )


def make_csv(folder: Path) -> Reader:
    """Tables as CSV, for one class per node and for several labels."""
    nodes, edges = tables()
    write_tables(folder, nodes, edges)
    several = nodes.replace("label", "label:a").replace("class ", "").replace(",2,", ",0,")
    parts = (
        Part("graph/nodes.csv", nodes.encode()),
        Part("graph/edges.csv", edges.encode()),
        Part("graph/nodes.csv", several.encode()),
    )
    return Reader(folder, parts, lambda folder: load(folder / "graph"))


def make_parquet(folder: Path) -> Reader:
    """Tables as Parquet."""
    write_tables(folder, *tables())
    rows = [line.split(",") for line in tables()[0].splitlines()]
    names, columns = rows[0], list(zip(*rows[1:], strict=True))
    nodes: dict[str, Any] = {
        name: ["string", list(c)] for name, c in zip(names, columns, strict=True)
    }
    for name in "abcd":
        nodes[name] = ["float64", [float(value) for value in nodes[name][1]]]
    rows = [line.split(",") for line in tables()[1].splitlines()]
    edges = {
        n: ["string", list(c)] for n, c in zip(rows[0], zip(*rows[1:], strict=True), strict=True)
    }
    parts = (
        Part("graph/nodes.parquet", jsoned(nodes), build_parquet),
        Part("graph/edges.parquet", jsoned(edges), build_parquet),
        Part("graph/nodes.parquet", build_parquet(jsoned(nodes))),
    )
    for part in parts[:2]:
        (folder / part.name).with_suffix(".csv").unlink()
        (folder / part.name).write_bytes(part.build(part.sample))
    return Reader(folder, parts, lambda folder: load(folder / "graph"))


def make_npz(folder: Path) -> Reader:
    """Arrays, dense and sparse."""
    parts = (
        Part("graph.npz", describe(tiny()), build_npz),
        Part("graph.npz", describe(sparse()), build_npz),
        Part("graph.npz", build_npz(describe(tiny()))),
    )
    return Reader(folder, parts, lambda folder: load(folder / "graph.npz"))


def make_pt(folder: Path) -> Reader:
    """A saved ``Data``."""
    parts = (
        Part("graph.pt", describe(tiny()), build_pt),
        Part("graph.pt", build_pt(describe(tiny()))),
    )
    return Reader(folder, parts, lambda folder: load(folder / "graph.pt"))


def make_trained(folder: Path) -> Reader:
    """A finished training."""
    command(*TRAIN, with_graph(folder), "--seeds", 2, "--run-dir", folder / "run")
    return Reader(folder, of_run(folder, *WRITTEN), read_finished)


def make_searched(folder: Path) -> Reader:
    """A finished search."""
    command("search", with_graph(folder), *SEARCH, "--run-dir", folder / "run")
    return Reader(folder, of_run(folder, *WRITTEN), read_finished)


def make_resumed(folder: Path) -> Reader:
    """A training that was stopped just before its end."""
    command(*TRAIN, with_graph(folder), "--seeds", 2, "--run-dir", folder / "run")
    (folder / "run" / "result.json").unlink()
    names = ("settings.json", "history.jsonl", "checkpoint/trainings.json")
    parts = of_run(folder, *names, "checkpoint/model.safetensors")
    return Reader(folder, parts, read_stopped)


def make_searching(folder: Path) -> Reader:
    """A search that was stopped after its third epoch."""
    import pdnas

    class Stop(pdnas.Watcher):
        def is_enough(self, search: Any, epoch: Any) -> bool:  # noqa: ARG002
            return bool(epoch.epoch == 2)

        def rating(self, search: Any) -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    recipe = pdnas.Recipe(epochs=2)
    with contextlib.suppress(KeyboardInterrupt):
        pdnas.search(
            with_graph(folder), hidden=4, recipe=recipe, run_dir=folder / "run", callback=Stop()
        )
    (folder / "run" / "result.json").unlink()
    names = ("settings.json", "history.jsonl", "checkpoint/pipeline.json")
    return Reader(folder, of_run(folder, *names, "checkpoint/search.safetensors"), read_stopped)


def make_continued(folder: Path) -> Reader:
    """A search that was stopped just before its end."""
    command("search", with_graph(folder), *SEARCH, "--run-dir", folder / "run")
    (folder / "run" / "result.json").unlink()
    weights = next((folder / "run" / "checkpoint").glob("final-*.safetensors"))
    names = ("settings.json", "history.jsonl", "checkpoint/pipeline.json")
    return Reader(folder, of_run(folder, *names, f"checkpoint/{weights.name}"), read_stopped)


def make_tuned(folder: Path) -> Reader:
    """A finished tuning."""
    words = ["tune", with_graph(folder), "--architecture", "gcn", "--hidden", 4, "--trials", 2]
    words += ["--epochs", 2, "--seeds", 1, "--trial-seeds", 1, "--quiet"]
    command(*words, "--run-dir", folder / "run")
    parts = of_run(folder, "settings.json", "study.journal", "result.json", "recipe.toml")
    return Reader(folder, parts, read_stopped)


def make_compared(folder: Path) -> Reader:
    """A finished comparison."""
    with_graph(folder)
    words = ["compare", folder / "graph.npz", "--strategies", "random", "--baselines", "gcn"]
    words += ["--seeds", 1, "--epochs", 2, "--hidden", 4, "--budget-seconds", 20, "--quiet"]
    command(*words, "-o", folder / "run")
    names = [f"runs/{path.name}" for path in sorted((folder / "run" / "runs").glob("*.json"))]
    return Reader(folder, of_run(folder, "settings.json", *names), read_compared)


READERS: Mapping[str, Callable[[Path], Reader]] = {
    "architecture": make_architecture,
    "space": make_space,
    "recipe": make_recipe,
    "csv": make_csv,
    "parquet": make_parquet,
    "npz": make_npz,
    "pt": make_pt,
    "trained": make_trained,
    "searched": make_searched,
    "resumed": make_resumed,
    "searching": make_searching,
    "continued": make_continued,
    "tuned": make_tuned,
    "compared": make_compared,
}
"""What makes a sample in an empty folder, by the name of what reads it."""


class Begun(Exception):  # noqa: N818 - it is none
    """Reading is over: work begins."""


def refuse_work() -> None:
    """Let nothing be computed: a hostile file may ask for a billion epochs, as a user may."""
    from pdnas.pipeline import finals, plan, trials
    from pdnas.pipeline.ledger import Ledger
    from pdnas.training import seeds
    from pdnas.tuning.executor import Executor

    restore: Any = Ledger.restore

    def begin(*_: object, **__: object) -> Any:
        raise Begun

    def restored(*given: object) -> Any:
        restore(*given)
        raise Begun

    def drive(_: Executor, supply: Callable[[], object], **__: object) -> None:
        if supply() is not None:
            raise Begun

    # A thousand threads are no hostile number, but their stacks need more than MEMORY.
    torch.set_num_threads = lambda nthreads: None  # noqa: ARG005
    works = [(place, "train_once") for place in (trials, finals, seeds)]
    for place, name in [*works, (plan, "measure")]:
        setattr(place, name, begin)
    setattr(Ledger, "restore", restored)  # noqa: B010 - mypy refuses the other way
    Executor.drive = drive  # type: ignore[assignment]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A change of a value where an input is JSON, or of some of its bytes."""
    if not data:
        return bytes([chance.randrange(256)])
    number, body = data[:1], data[1:]
    if chance.random() < 0.7:
        lines = body.split(b"\n") if body.count(b"}\n{") else [body]
        place = chance.randrange(len(lines))
        with contextlib.suppress(ValueError, RecursionError, OverflowError):
            lines[place] = jsoned(change(json.loads(lines[place]), chance))
            return number + b"\n".join(lines)
    changed = bytearray(body or b"\0")
    for _ in range(1 << chance.randrange(4)):
        place = chance.randrange(len(changed) + 1)
        action = chance.randrange(5)
        if action == 0:
            changed[place : place + 1] = bytes([chance.randrange(256)])
        elif action == 1:
            del changed[place : place + 1 + chance.randrange(9)]
        elif action == 2:
            changed[place:place] = chance.choice(TOKENS)
        elif action == 3:
            start = chance.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + chance.randrange(64)]
        else:
            changed[place : place + 8] = chance.choice(NUMBERS)
    return number + bytes(changed)


TOKENS = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\r", b"\n", b'"', b"'", b",", b";", b"\t"),
    *(b"[" * 3000, b'{"a":' * 3000, b"nan", b"inf", b"1e999", b"9" * 400, b"-1", b"0x1", b"1_0"),
    *(b"\xe2\x80\xa8", b"[[a]]\n", b"a.b.c=1\n", b"1979-05-27", b"true", b"''", b'""""""'),
)
NUMBERS = tuple(
    value.to_bytes(8, "little") for value in (0, 1, 2**31 - 1, 2**32, 2**40, 2**63, 2**64 - 1)
)


def change(values: Any, chance: random.Random) -> Any:
    """The same with something somewhere put in, left out or replaced."""
    if isinstance(values, dict) and values and chance.random() < 0.9:
        name = chance.choice(list(values))
        action = chance.random()
        if action < 0.1:
            return {other: value for other, value in values.items() if other != name}
        if action < 0.15:
            return {**values, str(chance.choice(ODD)): values[name]}
        return {**values, name: change(values[name], chance)}
    if isinstance(values, list) and values and chance.random() < 0.9:
        place, action = chance.randrange(len(values)), chance.random()
        if action < 0.1:
            return values[:place] + values[place + 1 :]
        if action < 0.2:
            return values[:place] + [values[place]] * chance.choice((2, 3, 50)) + values[place:]
        return [*values[:place], change(values[place], chance), *values[place + 1 :]]
    if isinstance(values, int | float) and chance.random() < 0.3:
        return chance.choice((values + 1, values - 1, -values, values * 1000, float(values)))
    if isinstance(values, str) and values and chance.random() < 0.3:
        return values[: chance.randrange(len(values))] + str(chance.choice(ODD))
    return chance.choice(ODD)


class Trial:
    """Tries inputs, one after the other, each on a fresh copy of the sample.

    Args:
        reader: What is tried.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader, self._sample = reader, reader.folder.with_name("sample")
        shutil.copytree(reader.folder, self._sample)
        self.read = self.refused = 0
        self.last = ""

    def __call__(self, data: bytes) -> None:
        """Read a sample with an input in it; whatever is raised is a finding."""
        from pdnas.errors import PdnasError

        reader = self._reader
        part, replacement = reader.split(data)
        try:
            with np.errstate(all="ignore"):
                content = part.build(replacement)
        except Exception:
            return  # no file could say that
        shutil.rmtree(reader.folder)
        shutil.copytree(self._sample, reader.folder)
        (reader.folder / part.name).write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", message="`torch.jit.|The usage of `scatter")
                reader.read(reader.folder)
        except PdnasError as error:
            check_sentence(" ".join(str(error).split()))
            self.refused += 1
            self.last = str(error)
        except Begun:
            self.read += 1
        else:
            self.read += 1

    def told(self) -> str:
        return f"{self.read} were read, {self.refused} were refused"


def check_sentence(text: str) -> None:
    """Refuse what is no sentence that a user could be told."""
    assert text.endswith((".", "?", "!")), f"no sentence: {text[-200:]}"
    assert text[0].isupper() or text[0] in "'-1234567890", f"no sentence: {text[:200]}"
    assert len(text) < 2000, f"{len(text)} letters: {text[:200]}"


def main() -> None:
    """Try a reader for a while."""
    parser = argparse.ArgumentParser(description="Hostile files for a reader.")
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--kept", type=Path, default=Path("build/fuzz"), help="where inputs are kept"
    )
    parser.add_argument("--input", type=Path, help="try this one alone")
    parser.add_argument("--plain", action="store_true", help="do without atheris")
    asked = parser.parse_args()
    os.environ["PDNAS_CACHE"] = tempfile.mkdtemp(prefix="fuzz-")
    engine = None if asked.plain or asked.input else atheris
    with contextlib.nullcontext() if engine is None else engine.instrument_imports(["pdnas"]):
        import pdnas.cli

        for name in pdnas.cli.COMMANDS:
            __import__(f"pdnas.cli.{name}")
    torch.set_num_threads(1)
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made there
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    (folder / "work").mkdir()
    kept = (asked.kept / asked.reader).resolve()
    kept.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        reader = READERS[asked.reader](folder / "work")
        for page in folder.rglob("report.html"):
            page.unlink()  # large, and never read
        refuse_work()
        trial = Trial(reader)
        for sample in reader.inputs():
            trial(sample)
        assert not trial.refused, f"a sample is refused: {trial.last}"
        print(f"{asked.reader}: {len(reader.parts)} samples, {trial.told()}", flush=True)
        if asked.input is not None:
            trial(asked.input.read_bytes())
        elif engine is None:
            try_plainly(trial, reader, asked.seconds, random.Random(asked.seed), kept)  # noqa: S311
        else:
            try_guided(trial, reader, asked.seconds, asked.seed, kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(os.environ["PDNAS_CACHE"], ignore_errors=True)


def limit_memory() -> None:
    """Let reading take no more than so much beside what is taken already."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))


def try_plainly(
    trial: Trial, reader: Reader, seconds: int, chance: random.Random, kept: Path
) -> None:
    """Change samples until the time is over, and keep an input of each kind of finding.

    One that hangs, or takes the process with it, is kept as ``latest``.
    """
    limit_memory()
    latest = kept / "latest"
    began, tried, samples = time.monotonic(), 0, reader.inputs()
    found: set[str] = set()
    while time.monotonic() - began < seconds:
        data = chance.choice(samples)
        for _ in range(1 + chance.randrange(4)):
            data = mutate(data, chance)[:LONGEST]
        tried += 1
        latest.write_bytes(data)
        faulthandler.dump_traceback_later(SLOWEST, exit=True)
        try:
            trial(data)
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} in {last.name}, {Path(last.filename).name}"
            if kind not in found:
                found.add(kind)
                place = kept / f"crash-{tried}"
                place.write_bytes(data)
                traceback.print_exception(error)
                print(f"a finding: {kind}: {place}", flush=True)
        faulthandler.cancel_dump_traceback_later()
    latest.unlink(missing_ok=True)
    print(f"{tried} inputs in {seconds} s, {len(found)} findings; {trial.told()}")
    sys.exit(bool(found))


def try_guided(trial: Trial, reader: Reader, seconds: int, seed: int, kept: Path) -> None:
    """Let atheris change what reaches new lines; a finding ends the process."""
    corpus = kept / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, sample in enumerate(reader.inputs()):
        (corpus / f"sample-{number}").write_bytes(sample)

    def follow(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311
        return mutate(data, chance)[:most] if chance.random() < 0.8 else atheris.Mutate(data, most)

    limit_memory()
    words = [sys.argv[0], str(corpus), f"-max_total_time={seconds}", f"-seed={seed + 1}"]
    words += [f"-timeout={SLOWEST}", f"-max_len={LONGEST}", f"-artifact_prefix={kept}/"]
    words += ["-rss_limit_mb=6000", "-print_final_stats=1", "-len_control=0"]
    atheris.Setup(words, trial, custom_mutator=follow)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
