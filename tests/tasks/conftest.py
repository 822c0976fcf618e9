"""Where the tests of data sources find real data, and where they keep their own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PDNAS_CACHE", str(folder))
    return folder


@pytest.fixture
def no_data_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PDNAS_DATA", raising=False)


@pytest.fixture
def square() -> Data:
    """Four nodes in a ring, two features, three classes."""
    return Data(
        x=torch.tensor([[1.0, 3.0], [2.0, 2.0], [5.0, 5.0], [0.0, 0.5]]),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]),
        y=torch.tensor([0, 1, 2, 1]),
    )


@pytest.fixture
def arrays() -> dict[str, NDArray[Any]]:
    """The same ring as arrays."""
    return {
        "x": np.array([[1, 3], [2, 2], [5, 5], [0, 0.5]]),
        "edge_index": np.array([[0, 1, 2, 3], [1, 2, 3, 0]]),
        "y": np.array([0, 1, 2, 1]),
    }
