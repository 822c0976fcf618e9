"""Small graphs and a source of random numbers for the tests of every part."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from torch import Generator, Tensor
from torch_geometric.data import Data

from pdnas.tasks.task import GraphTask

settings.register_profile("pdnas", deadline=None)  # torch's first call of each kernel is slow
settings.load_profile("pdnas")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test meets the same random numbers, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder with real data sets."""
    named = os.environ.get("PDNAS_DATA")
    if not named:
        pytest.skip("PDNAS_DATA does not name a folder with data sets")
    return Path(named)


@pytest.fixture
def generator() -> Generator:
    """Random numbers that are the same in every run."""
    return torch.Generator().manual_seed(0)


@pytest.fixture
def tiny_graph() -> Tensor:
    """An ``edge_index`` of 6 nodes in no order: node 3 only sends, 4 has a loop, 5 is isolated."""
    return torch.tensor([[4, 2, 0, 3, 0, 4, 1, 2], [1, 0, 1, 2, 2, 4, 0, 1]])


@pytest.fixture
def tiny_task() -> GraphTask:
    """20 nodes in a ring with chords, 5 features that tell 3 classes apart, an own split."""
    generator = torch.Generator().manual_seed(0)
    nodes = torch.arange(20)
    y = nodes % 3
    noise = torch.rand(20, 5, generator=generator)
    x = noise + torch.nn.functional.one_hot(y, 5)
    ring = torch.stack([nodes, (nodes + 1) % 20])
    chords = torch.stack([nodes, (nodes + 3) % 20])
    one_way = torch.cat([ring, chords], dim=1)
    data = Data(x=x, edge_index=torch.cat([one_way, one_way.flip(0)], dim=1), y=y)
    for part, (first, last) in {"train": (0, 9), "val": (9, 14), "test": (14, 20)}.items():
        data[f"{part}_mask"] = (nodes >= first) & (nodes < last)
    return GraphTask.from_data(data, name="tiny")
