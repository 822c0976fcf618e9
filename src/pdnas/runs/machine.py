"""What a result may depend on beside its settings: the machine and the packages on it."""

import platform
from importlib.metadata import version
from typing import Any

import torch

from pdnas import __version__


def environment(device: torch.device, threads: int) -> dict[str, Any]:
    """What a result may depend on beside its settings."""
    packages = ("torch", "torch-geometric", "torchmetrics", "numpy", "scipy", "pydantic")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "pdnas": __version__,
        "python": platform.python_version(),
        "packages": {package: version(package) for package in packages},
        "system": platform.system(),
        "device": str(device),
        "device_name": name,
        "threads": threads,
    }
