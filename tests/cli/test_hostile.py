"""Loading executes no code: a hostile pickle in each place is one sentence, and nothing runs."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch

from pdnas.cli import main

Pdnas = Callable[..., CompletedProcess[str]]


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.fixture
def blown(tmp_path: Path) -> Path:
    """The file that a bomb makes."""
    return tmp_path / "blown"


@pytest.fixture
def bomb(blown: Path) -> bytes:
    """A pickle that makes a file; it is seen to work."""
    hostile = pickle.dumps(Bomb(blown))
    pickle.loads(hostile)
    blown.unlink()
    return hostile


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs to be spoiled, and the graph that they are on."""
    place = tmp_path_factory.mktemp("made")
    nodes = np.arange(12)
    masks = {"train_mask": nodes % 4 < 2, "val_mask": nodes % 4 == 2, "test_mask": nodes % 4 == 3}
    ring = np.stack([nodes, (nodes + 1) % 12])
    graph = str(place / "graph.npz")
    np.savez(
        graph, allow_pickle=False, x=np.eye(4)[nodes % 3], edge_index=ring, y=nodes % 3, **masks
    )
    short = ["--epochs", "2", "--hidden", "4", "--seeds", "1", "--quiet"]
    calls = {
        "train": ["train", "gcn", graph, *short, "--run-dir"],
        "search": ["search", graph, *short, "--candidates", "1", "--run-dir"],
        "tune": ["tune", graph, "--architecture", "gcn", *short, "--trials", "1", "--run-dir"],
    }
    threads = torch.get_num_threads()
    for name, call in calls.items():
        assert main([*call, str(place / name)]) == 0
    torch.set_num_threads(threads)
    return {name: place / name for name in (*calls, "graph.npz")}


def refused(done: CompletedProcess[str], blown: Path, named: str) -> None:
    assert not blown.exists(), "code was run"
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("pdnas: ")
    assert named in done.stderr


@pytest.mark.parametrize("how", ["torch", "legacy", "pickle"])
def test_a_graph_in_a_pt_file(pdnas: Pdnas, bomb: bytes, blown: Path, how: str) -> None:
    path = Path("graph.pt")
    if how == "pickle":
        path.write_bytes(bomb)
    else:
        torch.save(Bomb(blown), path, _use_new_zipfile_serialization=how == "torch")
    refused(pdnas("train", "gcn", path), blown, "graph.pt")


@pytest.mark.parametrize("how", ["objects", "pickle"])
def test_a_graph_in_an_npz_file(
    pdnas: Pdnas, bomb: bytes, blown: Path, made: dict[str, Path], how: str
) -> None:
    path = Path("graph.npz")
    path.write_bytes(bomb)
    if how == "objects":
        with np.load(made["graph.npz"]) as arrays:
            np.savez(path, **{**arrays, "y": np.array([Bomb(blown)] * 12, dtype=object)})
    refused(pdnas("train", "gcn", path), blown, "graph.npz")


@pytest.mark.parametrize("name", ["nodes.csv", "nodes.parquet", "edges.csv", "edges.parquet"])
def test_a_table(pdnas: Pdnas, bomb: bytes, blown: Path, folder: Path, name: str) -> None:
    (folder / name).with_suffix(".csv").unlink()
    (folder / name).write_bytes(bomb)
    refused(pdnas("train", "gcn", folder), blown, "edges" if name.startswith("e") else "nodes")


@pytest.mark.parametrize("name", ["mine.json", "mine.toml", "space.toml"])
def test_a_file_of_settings(pdnas: Pdnas, bomb: bytes, blown: Path, name: str) -> None:
    Path(name).write_bytes(bomb)
    words = {"mine.json": [], "mine.toml": ["gcn", "--recipe"]}
    given = ["space", name] if name == "space.toml" else ["train", *words[name], name]
    refused(pdnas(*given), blown, name)


PLACES = [
    ("train", "settings.json", ["report", "predict", "resume", "train"]),
    ("train", "result.json", ["report", "predict", "export"]),
    ("train", "history.jsonl", []),
    ("train", "model.safetensors", ["predict", "export"]),
    ("train", "predictions.safetensors", ["report", "predict"]),
    ("train", "checkpoint/trainings.json", ["resume"]),
    ("train", "checkpoint/model.safetensors", ["resume"]),
    ("search", "model.safetensors", ["predict", "export"]),
    ("search", "checkpoint/pipeline.json", ["resume"]),
    ("search", "checkpoint/final-0.safetensors", ["resume"]),
    ("tune", "study.journal", ["resume"]),
    ("tune", "model.safetensors", ["predict", "export"]),
]


@pytest.mark.parametrize(
    ("kind", "file", "command"),
    [(kind, file, command) for kind, file, commands in PLACES for command in commands],
)
def test_a_part_of_a_run(
    pdnas: Pdnas,
    bomb: bytes,
    blown: Path,
    made: dict[str, Path],
    kind: str,
    file: str,
    command: str,
) -> None:
    shutil.copytree(made[kind], "run")
    assert Path("run", file).exists()
    Path("run", file).write_bytes(bomb)
    refused(pdnas(command, "run"), blown, Path(file).name)


def test_a_history(pdnas: Pdnas, bomb: bytes, blown: Path, made: dict[str, Path]) -> None:
    shutil.copytree(made["train"], "run")
    Path("run/history.jsonl").write_bytes(bomb.replace(b"\n", b"") + b"\n")
    refused(pdnas("report", "run"), blown, "history.jsonl' is damaged in line 1")


def test_the_state_of_a_search(
    pdnas: Pdnas, bomb: bytes, blown: Path, made: dict[str, Path]
) -> None:
    shutil.copytree(made["search"], "run")
    progress = json.loads(Path("run/checkpoint/pipeline.json").read_bytes())
    for name in ("cells", "trials", "finals"):
        progress[name] = []
    progress.update(controls={}, weights=None, history_bytes=0)
    Path("run/checkpoint/pipeline.json").write_text(json.dumps(progress))
    Path("run/checkpoint/search.safetensors").write_bytes(bomb)
    done = pdnas("resume", "run")  # such a state is not used: the search begins again
    assert not blown.exists()
    assert done.returncode == 0
    assert "search.safetensors' is damaged and is not used" in done.stderr


def test_text_of_a_result_stays_text_in_source(
    pdnas: Pdnas, blown: Path, made: dict[str, Path]
) -> None:
    code = f'"""; __import__("pathlib").Path({str(blown)!r}).touch(); """'
    result = json.loads((made["train"] / "result.json").read_bytes())
    texts = {
        "task": code,
        "note": code,
        "strategy": code,
        "class_names": [code, "\\", "'"],
        "split": {**result["split"], "name": code},
        "device": code,
        "version": code,
    }
    shutil.copytree(made["train"], "run")
    Path("run/result.json").write_text(json.dumps({**result, **texts}))
    assert pdnas("export", "run").returncode == 0
    assert not blown.exists()


def test_a_metric_that_there_is_not(pdnas: Pdnas, blown: Path, made: dict[str, Path]) -> None:
    code = f'"""; __import__("pathlib").Path({str(blown)!r}).touch(); """'
    result = json.loads((made["train"] / "result.json").read_bytes())
    shutil.copytree(made["train"], "run")
    Path("run/result.json").write_text(json.dumps({**result, "metric": code}))
    refused(pdnas("export", "run"), blown, "result.json")


@pytest.mark.parametrize("root", ["run/data", "data", "../elsewhere"])
def test_a_run_does_not_bring_its_own_data_root(
    pdnas: Pdnas, bomb: bytes, blown: Path, made: dict[str, Path], place: Path, root: str
) -> None:
    shutil.copytree(made["train"], "run")
    raw = Path(root) / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)
    for name in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        (raw / f"ind.cora.{name}").write_bytes(bomb)
    settings = json.loads(Path("run/settings.json").read_bytes())
    named = str(place / root) if root == "run/data" else root
    settings["task"].update(task="cora", data_root=named)
    Path("run/settings.json").write_text(json.dumps(settings))
    refused(pdnas("resume", "run"), blown, "names the data root")


@pytest.mark.parametrize("name", ["../../elsewhere.safetensors", "/elsewhere", "final-0", "*"])
def test_a_run_names_no_weights_elsewhere(
    pdnas: Pdnas, blown: Path, made: dict[str, Path], name: str
) -> None:
    shutil.copytree(made["search"], "run")
    progress = json.loads(Path("run/checkpoint/pipeline.json").read_bytes())
    Path("run/checkpoint/pipeline.json").write_text(json.dumps({**progress, "weights": name}))
    refused(pdnas("resume", "run"), blown, "pipeline.json' is damaged")


def test_a_piece_of_a_comparison(
    pdnas: Pdnas, bomb: bytes, blown: Path, made: dict[str, Path]
) -> None:
    words = ["compare", made["graph.npz"], "--strategies", "random", "--baselines", "-o", "all"]
    words += ["--seeds", "1", "--epochs", "2", "--hidden", "4", "--budget-seconds", "20"]
    assert pdnas(*words, "--quiet").returncode == 0
    Path("all/runs/random-0.json").write_bytes(bomb)
    refused(pdnas(*words), blown, "random-0.json' is damaged")
    Path("all/settings.json").write_bytes(bomb)
    refused(pdnas(*words), blown, "holds something else than a comparison")
