import pytest
import torch

from pdnas.errors import DeviceError
from pdnas.training.device import find_device


@pytest.fixture
def gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A machine with that many CUDA devices."""
    count: int = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    return count


@pytest.mark.parametrize(
    ("gpus", "name", "device"),
    [
        (0, "auto", "cpu"),
        (2, "auto", "cuda:0"),
        (2, "cpu", "cpu"),
        (1, "cuda", "cuda:0"),
        (2, "cuda:1", "cuda:1"),
    ],
    indirect=["gpus"],
)
def test_a_device_is_found_by_name(gpus: int, name: str, device: str) -> None:
    assert find_device(name) == torch.device(device)


@pytest.mark.parametrize(
    ("gpus", "name", "has"),
    [
        (0, "cuda", "no CUDA device"),
        (0, "cuda:0", "no CUDA device"),
        (1, "cuda:1", "1 CUDA device"),
        (2, "cuda:999", "2 CUDA device"),
    ],
    indirect=["gpus"],
)
def test_a_device_that_is_not_there_is_one_sentence(gpus: int, name: str, has: str) -> None:
    with pytest.raises(DeviceError, match=rf"'{name}' is not there: .* has {has}.*--device cpu"):
        find_device(name)


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", "mps", "cpu:0"])
def test_an_unknown_device_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(DeviceError, match=f"Unknown device '{name}'; give auto, cpu, cuda"):
        find_device(name)


@pytest.mark.gpu
def test_auto_prefers_cuda() -> None:
    assert find_device().type == "cuda"
