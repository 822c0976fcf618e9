"""``pdnas train`` from end to end, and the effect of each of its flags."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
import torch_geometric.typing
from tests.cli.conftest import PROMISED
from torch_geometric.data import Data

import pdnas as package
from pdnas.architecture import Architecture, BlockSpec
from pdnas.compare.work import Attempt
from pdnas.models.baselines import BASELINES
from pdnas.models.design import read_design
from pdnas.runs import LOCK, load_run
from pdnas.tasks import Graph, GraphTask, load_task
from pdnas.tasks.source import NAMED, NamedTask, ReadOptions, Source, source_from_graphs
from pdnas.training import memory
from pdnas.training.recipe import RECIPES, Recipe

Pdnas = Callable[..., CompletedProcess[str]]
Train = Callable[..., dict[str, Any]]

RECIPE_FLAGS = {
    "--optimizer": "sgd",
    "--lr": "0.5",
    "--weight-decay": "0.5",
    "--input-dropout": "0.1",
    "--dropout": "0.1",
    "--attention-dropout": "0.1",
    "--node-dropout": "0.1",
    "--feature-weights": "on",
    "--copies": "2",
    "--consistency": "0.5",
    "--consistency-warm-up": "7",
    "--sharpening": "0.25",
    "--epochs": "3",
    "--teachers": "2",
    "--patience": "1",
    "--selection": "loss",
    "--batch-graphs": "3",
    "--schedule": "cosine",
    "--precision": "tf32",
}
BATCHING_FLAGS = {"--batching", "--batch-nodes", "--neighbors"}
"""What one of them says decides the others."""

SEEN_ELSEWHERE = {"--patience", "--selection", "--batch-graphs", "--precision"}
"""They do not change so short a training of one graph on a CPU; tests of the recipe show them."""

BETWEEN_COPIES = {"--consistency", "--consistency-warm-up", "--sharpening"}
"""They matter where there are several."""

OTHER_FLAGS = {
    "--tensorboard",
    "--hidden",
    "--recipe",
    "--seed",
    "--seeds",
    "--split",
    "--split-seeds",
    "--metric",
    "--data-root",
    "--normalize",
    "--undirected",
    "--standardize",
    "--device",
    "--threads",
    "--run-dir",
    "--json",
    "--quiet",
}
"""Each of them has a test below."""


@pytest.fixture
def train(pdnas: Pdnas, tiny: Path) -> Train:
    """Trains a GAT for a moment; what the run holds, and beside it the history."""
    number = 0

    def run(
        *flags: str | Path, arch: str | Path = "gat", task: str | Path = tiny
    ) -> dict[str, Any]:
        nonlocal number
        number += 1
        short = [] if "--epochs" in flags else ["--epochs", "4"]
        done = pdnas("train", arch, task, *short, *flags, "--run-dir", f"run{number}", "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        folder = Path(f"run{number}")
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        lines = (folder / "history.jsonl").read_text().splitlines()
        result["history"] = [json.loads(line) for line in lines]
        result["environment"] = json.loads((folder / "environment.json").read_text())
        return result

    return run


def as_data(graph: Graph) -> Data:
    """A graph as PyG has it."""
    return Data(x=graph.x, edge_index=graph.edge_index, y=graph.y)


def test_every_flag_of_the_help_is_tested_here(pdnas: Pdnas) -> None:
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", pdnas("train", "--help").stdout))
    assert flags - {"--help"} == RECIPE_FLAGS.keys() | BATCHING_FLAGS | OTHER_FLAGS


def test_a_training_ends_with_a_table_and_the_path_of_the_run(pdnas: Pdnas, folder: Path) -> None:
    done = pdnas("train", "gcn", folder, "--epochs", "5", "--seeds", "3")
    assert done.returncode == 0
    assert done.stderr == "", "no progress where stderr is not a terminal"
    for heading in ("validation", "test", "parameters", "seconds", "split", "runs"):
        assert heading in done.stdout
    run, page = done.stdout.splitlines()[-2:]
    assert run.startswith("run: runs/train-gcn-tables-")
    assert load_run(run.removeprefix("run: ")).task == str(folder)
    assert page == f"report: {run.removeprefix('run: ')}/report.html"


def test_a_run_directory_holds_what_the_design_says(pdnas: Pdnas, tiny: Path) -> None:
    pdnas("train", "gcn", tiny, "--epochs", "5", "--seeds", "2", "--run-dir", "run")
    names = {path.name for path in Path("run").iterdir()} - {LOCK}
    assert names == {
        "settings.json",
        "environment.json",
        "history.jsonl",
        "architecture.json",
        "model.safetensors",
        "predictions.safetensors",
        "result.json",
        "report.html",
        "checkpoint",
    }
    result = json.loads(Path("run/result.json").read_text())
    assert result.keys() >= PROMISED
    assert result["split"].keys() >= {"name", "sha256"}
    assert all(result[part].keys() >= {"mean", "std", "values"} for part in ("val", "test"))
    assert result["task"] == str(tiny)
    assert result["split"]["sha256"] == load_task(tiny).split.sha256
    assert result["strategy"] is None
    assert result["architecture"] == json.loads(Path("run/architecture.json").read_text())
    assert result["version"] == package.__version__
    settings = json.loads(Path("run/settings.json").read_text())
    assert settings["command"] == "train"
    assert settings["recipe"] == {**result["recipe"], "batching": "full"}


def test_json_is_all_there_is_on_stdout(pdnas: Pdnas, tiny: Path) -> None:
    done = pdnas("train", "gcn", tiny, "--epochs", "3", "--json", "--run-dir", "run")
    lines = done.stdout.splitlines()
    said = json.loads(lines[-1])
    assert len(lines) == 1
    assert (said.pop("run"), said.pop("report")) == ("run", "run/report.html")
    assert said == json.loads(Path("run/result.json").read_text())


def test_tensorboard_gets_events_of_the_training(pdnas: Pdnas, tiny: Path) -> None:
    done = pdnas("train", "gcn", tiny, "--epochs", "3", "--tensorboard", "--run-dir", "run")
    assert done.returncode == 0
    assert list(Path("run/tensorboard").glob("events.out.tfevents.*"))


def test_tensorboard_that_is_not_installed_is_one_sentence(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdnas.tensorboard.find_spec", lambda name: None)
    done = pdnas("train", "gcn", tiny, "--tensorboard", "--run-dir", "run")
    assert done.returncode == 2
    assert "pip install 'pdnas[tensorboard]'" in done.stderr
    assert not Path("run").exists()


def test_quiet_says_nothing(pdnas: Pdnas, tiny: Path) -> None:
    done = pdnas("train", "gcn", tiny, "--epochs", "3", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = pdnas("train", "gcn", tiny, "--epochs", "3", "--quiet", "--json")
    assert done.stdout.count("\n") == 1
    json.loads(done.stdout)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_has_its_own_size_and_recipe(train: Train, name: str) -> None:
    result = train(arch=name)
    expected = BASELINES[name]
    assert read_design(result["architecture"]) == expected.design
    assert result["hidden"] == expected.hidden
    assert result["recipe"] == RECIPES[name].changed(epochs=4).model_dump()


def test_an_architecture_is_read_from_a_file(train: Train) -> None:
    mine = Architecture(blocks=(BlockSpec(attention="cos", activation="tanh"), BlockSpec()))
    mine.save("mine.json")
    result = train(arch="mine.json")
    assert Architecture.model_validate(result["architecture"]) == mine
    assert result["hidden"] == 64
    assert result["recipe"] == Recipe(epochs=4).model_dump()


def test_an_architecture_is_read_from_a_rival_of_a_comparison(train: Train) -> None:
    about = {"curve": (), "val": 0.5, "test": 0.5, "parameters": 1, "seconds": 1.0, "trainings": 1}
    where = {"task": "a", "split": "b", "split_sha256": "c", "environment": {}}
    mine = Architecture(blocks=(BlockSpec(activation="tanh"), BlockSpec()))
    for rival, architecture in (("pdnas", mine), ("lgcn", None)):
        attempt = Attempt.model_validate(
            {"rival": rival, "seed": 3, "architecture": architecture, "hidden": 5, **about, **where}
            | {"recipe": Recipe(epochs=2, lr=0.5)}
        )
        Path("rival.json").write_text(attempt.model_dump_json())
        result = train(arch="rival.json")
        assert result["hidden"] == 5
        assert result["recipe"]["lr"] == 0.5
        expected = architecture or BASELINES["lgcn"].design
        assert read_design(result["architecture"]) == expected


def test_an_architecture_is_read_from_a_run(train: Train) -> None:
    first = train("--hidden", "8", "--lr", "0.25", arch="sage")
    second = train(arch="run1")
    for key in ("architecture", "hidden", "recipe", "val", "test", "history"):
        assert second[key] == first[key]


def test_a_published_network_is_read_from_a_run_and_from_its_file(train: Train) -> None:
    first = train("--hidden", "8", "--lr", "0.25", arch="appnp")
    second = train(arch="run1")
    for key in ("architecture", "hidden", "recipe", "val", "test", "history"):
        assert second[key] == first[key]
    third = train("--hidden", "8", arch="run1/architecture.json")
    assert third["architecture"] == first["architecture"]


def test_a_published_network_is_shown_by_its_fields(pdnas: Pdnas, tiny: Path) -> None:
    done = pdnas("train", "appnp", tiny, "--epochs", "2")
    assert done.returncode == 0
    assert "edge dropout" in done.stdout


def test_the_architecture_of_a_run_may_be_trained_on_another_task(
    train: Train, folder: Path
) -> None:
    train(arch="sage")
    assert train(arch="run1", task=folder)["task"] == str(folder)


def test_the_same_command_gives_the_same_figures(train: Train) -> None:
    first, second = train("--seeds", "2"), train("--seeds", "2")
    assert first.pop("train_seconds") > 0
    del second["train_seconds"]
    assert first == second


@pytest.mark.parametrize(("flag", "value"), RECIPE_FLAGS.items())
def test_flags_of_the_recipe_are_recorded(train: Train, flag: str, value: str) -> None:
    recipe = train(flag, value)["recipe"]
    field = flag.removeprefix("--").replace("-", "_")
    kept = RECIPES["gat"].changed(**({} if flag == "--epochs" else {"epochs": 4}))
    assert str(recipe.pop(field)) == value
    assert recipe == kept.model_dump(exclude={field})


@pytest.mark.parametrize(
    "flag",
    sorted(RECIPE_FLAGS.keys() - BETWEEN_COPIES - SEEN_ELSEWHERE),
)
def test_flags_of_the_recipe_change_the_training(train: Train, flag: str) -> None:
    assert train(flag, RECIPE_FLAGS[flag])["history"] != train()["history"]


@pytest.mark.usefixtures("sampler")
@pytest.mark.parametrize(
    ("flags", "decided"),
    [
        (["--batch-nodes", "9"], {"batching": "clusters", "batch_nodes": 9}),
        (["--batching", "clusters"], {"batching": "clusters", "batch_nodes": 2}),
        (["--batching", "neighbors"], {"batching": "neighbors", "batch_nodes": 20}),
        (
            ["--neighbors", "1", "--batch-nodes", "4"],
            {"batching": "neighbors", "batch_nodes": 4, "neighbors": 1},
        ),
    ],
)
def test_flags_of_batching_are_recorded_as_decided_and_change_the_training(
    train: Train, flags: list[str], decided: dict[str, Any]
) -> None:
    result = train(*flags)
    assert result["recipe"] == RECIPES["gat"].changed(epochs=4, **decided).model_dump()
    assert result["history"] != train()["history"]


@pytest.mark.parametrize("flags", [["--batching", "auto"], ["--batching", "full"]])
def test_a_graph_that_fits_is_seen_as_a_whole(train: Train, flags: list[str]) -> None:
    result = train(*flags)
    assert result["history"] == train()["history"]
    assert result["recipe"] == RECIPES["gat"].changed(epochs=4).model_dump()
    for number in (1, 2):
        settings = json.loads(Path(f"run{number}/settings.json").read_text())
        assert settings["recipe"]["batching"] == "full", "a resumed run does not decide anew"


def test_a_graph_that_does_not_fit_is_cut_and_the_user_is_told(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: 5_000)
    flags = ["--epochs", "3", "--quiet", "--run-dir"]
    done = pdnas("train", "gcn", tiny, *flags, "cut")
    assert done.returncode == 0
    pattern = (
        r"pdnas: A step on the whole graph would need about [\d.e-]+ GiB, and 4.66e-06 GiB are "
        r"free on cpu, so each step sees clusters of about (\d+) nodes \(--batching clusters "
        r"--batch-nodes \1\); --batching full takes the whole graph all the same\.\n"
    )
    told = re.fullmatch(pattern, done.stderr)
    assert told is not None, done.stderr
    recipe = load_run("cut").recipe
    assert (recipe["batching"], recipe["batch_nodes"]) == ("clusters", int(told[1]))
    again = pdnas("train", "gcn", tiny, *flags, "same", "--batch-nodes", told[1])
    assert (again.returncode, again.stderr) == (0, "")
    assert Path("same/history.jsonl").read_text() == Path("cut/history.jsonl").read_text()
    monkeypatch.setattr(memory, "free_bytes", lambda _: 2**60)
    Path("cut/result.json").unlink()
    resumed = pdnas("resume", "cut", "--quiet")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert load_run("cut").recipe == recipe, "it does not decide anew"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--batching", "full", "--batch-nodes", "100"], "--batching is full, but --batch-nodes"),
        (["--batching", "clusters", "--neighbors", "3"], "--batching is clusters, but --neighbors"),
    ],
)
def test_flags_of_batching_that_contradict_each_other_are_one_sentence(
    pdnas: Pdnas, tiny: Path, flags: list[str], sentence: str
) -> None:
    done = pdnas("train", "gcn", tiny, *flags)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_neighbors_need_a_library(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WITH_PYG_LIB", "WITH_TORCH_SPARSE"):
        monkeypatch.setattr(torch_geometric.typing, name, False)
    done = pdnas("train", "gcn", tiny, "--batching", "neighbors")
    assert done.returncode == 2
    assert "needs pyg-lib or torch-sparse" in done.stderr
    assert not Path("runs").exists()


@pytest.mark.parametrize("flag", sorted(BETWEEN_COPIES))
def test_flags_of_consistency_matter_between_copies_only(train: Train, flag: str) -> None:
    value = [flag, RECIPE_FLAGS[flag]]
    assert train("--copies", "2", *value)["history"] != train("--copies", "2")["history"]
    assert train(*value)["history"] == train()["history"]


def test_patience_ends_the_training(train: Train) -> None:
    slow = ["--epochs", "30", "--optimizer", "sgd", "--lr", "1e-12"]
    assert len(train(*slow, "--patience", "3")["history"]) == 4


@pytest.mark.parametrize("selection", ["metric", "loss"])
def test_selection_picks_the_epoch(train: Train, selection: str) -> None:
    result = train("--epochs", "20", "--selection", selection)

    def rank(line: dict[str, Any]) -> tuple[float, float]:
        figures = (-line["val"], line["val_loss"])
        return figures if selection == "metric" else figures[::-1]

    best = min(result["history"], key=rank)
    assert result["epochs"] == [best["epoch"]]


def test_batch_graphs_joins_graphs(
    train: Train, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tiny_task.graphs[0]
    source = source_from_graphs([as_data(graph)] * 6, "herd")
    monkeypatch.setitem(NAMED._entries, "herd", NamedTask(lambda options: source, "six graphs"))
    one, three = (train("--batch-graphs", count, task="herd") for count in ("1", "3"))
    assert one["history"] != three["history"]
    assert one["split"] == three["split"]


def test_hidden_sets_the_size(train: Train) -> None:
    small, large = train("--hidden", "8"), train("--hidden", "16")
    assert (small["hidden"], large["hidden"]) == (8, 16)
    assert small["parameters"] < large["parameters"]


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_may_be_a_name(train: Train, name: str) -> None:
    assert train("--recipe", name)["recipe"] == RECIPES[name].changed(epochs=4).model_dump()


def test_recipe_may_be_a_file_and_flags_go_first(train: Train) -> None:
    Path("mine.toml").write_text('optimizer = "adamw"\nlr = 0.5\n')
    recipe = train("--recipe", "mine.toml", "--lr", "0.25")["recipe"]
    assert recipe == Recipe(optimizer="adamw", lr=0.25, epochs=4).model_dump()


def test_seed_is_the_first_and_seeds_counts(train: Train) -> None:
    result = train("--seed", "3", "--seeds", "2")
    assert result["seeds"] == [3, 4]
    assert len(result["test"]["values"]) == 2
    assert len(result["test"]["interval"]) == 2
    assert train()["seeds"] == [0]
    assert train()["history"] != train("--seed", "3")["history"]


def test_split_is_chosen_by_name(train: Train, tiny: Path) -> None:
    own, random = train()["split"], train("--split", "random")["split"]
    assert (own["name"], random["name"]) == ("own", "random")
    assert random["sha256"] == load_task(tiny, split="random").split.sha256 != own["sha256"]


def test_split_may_be_a_column(train: Train, folder: Path) -> None:
    nodes = (folder / "nodes.csv").read_text().splitlines()
    words = ["fold", *(("train", "dev", "test") * 7)[:20]]
    rows = [f"{row},{word}" for row, word in zip(nodes, words, strict=True)]
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    split = train("--split", "column:fold", task=folder)["split"]
    assert split["name"] == "column:fold"


def test_split_seeds_are_all_trained_on(train: Train, tiny: Path) -> None:
    result = train("--split", "random", "--split-seeds", "0..2", "--seeds", "2")
    task = load_task(tiny, split="random")
    hashes = [task.source.split("random", seed).sha256 for seed in range(3)]
    assert result["split"]["members"] == hashes
    assert result["split"]["seeds"] == [0, 1, 2]
    assert len(result["test"]["values"]) == 6
    assert [line["split_seed"] for line in result["history"]][::8] == [0, 1, 2]


def test_metric_is_what_is_measured(train: Train) -> None:
    accuracy, f1 = train("--epochs", "8"), train("--epochs", "8", "--metric", "macro-f1")
    assert (accuracy["metric"], f1["metric"]) == ("accuracy", "macro-f1")
    assert accuracy["history"] != f1["history"]


def test_data_root_reaches_the_source(
    train: Train, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots: list[Path | None] = []

    def read(options: ReadOptions) -> Source:
        roots.append(options.data_root)
        return tiny_task.source

    monkeypatch.setitem(NAMED._entries, "herd", NamedTask(read, "a test"))
    train(task="herd")
    train("--data-root", "there", task="herd")
    monkeypatch.setenv("PDNAS_DATA", "elsewhere")
    train(task="herd")
    assert roots == [None, Path("there"), Path("elsewhere")]


@pytest.mark.parametrize("flag", ["--normalize", "--undirected", "--standardize"])
def test_changes_to_the_graph_change_the_training(train: Train, flag: str) -> None:
    assert train(flag, "on")["history"] != train(flag, "off")["history"]
    assert train(flag, "auto")["history"] == train(flag, "off")["history"]


def test_tables_are_undirected_unless_told_otherwise(train: Train, folder: Path) -> None:
    auto, on, off = (train("--undirected", how, task=folder) for how in ("auto", "on", "off"))
    assert auto["history"] == on["history"] != off["history"]


def test_tables_are_standardized_unless_told_otherwise(train: Train, folder: Path) -> None:
    auto, on, off = (train("--standardize", how, task=folder) for how in ("auto", "on", "off"))
    assert auto["history"] == on["history"] != off["history"]
    recorded = [json.loads(Path(f"run{run}/settings.json").read_text()) for run in (1, 2, 3)]
    assert [one["task"]["standardize"] for one in recorded] == ["on", "on", "off"]
    assert len(on["data"]["means"]) == 5
    assert off["data"]["means"] == []


def test_device_is_recorded(train: Train) -> None:
    result = train("--device", "cpu")
    assert (result["device"], result["environment"]["device"]) == ("cpu", "cpu")


def test_threads_are_set_and_recorded(train: Train) -> None:
    assert train("--threads", "2")["environment"]["threads"] == 2
    assert torch.get_num_threads() == 2
    assert train()["environment"]["threads"] == 1
    assert torch.get_num_threads() == 1


def test_a_seed_that_no_generator_takes_is_one_sentence(pdnas: Pdnas, tiny: Path) -> None:
    done = pdnas("train", "gcn", tiny, "--seed", "9" * 30)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_training_that_diverges_is_one_sentence(pdnas: Pdnas, tiny: Path) -> None:
    done = pdnas("train", "gcn", tiny, "--lr", "1e30")
    assert done.returncode == 2
    assert re.fullmatch(r"pdnas: The loss is no longer finite .* now 1e\+30\.\n", done.stderr)


def test_sparse_features_cause_no_warning(
    pdnas: Pdnas, tiny_task: GraphTask, tmp_path: Path
) -> None:
    graph = tiny_task.graphs[0]
    assert isinstance(graph.x, torch.Tensor)
    data = as_data(graph)
    data.x = torch.cat([graph.x, torch.zeros(20, 60)], dim=1)
    torch.save(data, tmp_path / "sparse.pt")
    done = pdnas("train", "gcn", tmp_path / "sparse.pt", "--epochs", "2")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.data
def test_a_real_graph_is_found_under_the_data_root(train: Train, data_root: Path) -> None:
    result = train("--data-root", data_root, "--epochs", "3", arch="gcn", task="cora")
    assert (result["task"], result["split"]["name"], result["in_channels"]) == (
        "cora",
        "public",
        1433,
    )
