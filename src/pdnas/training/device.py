"""Where tensors live."""

import re

import torch

from pdnas.errors import DeviceError


def find_device(name: str = "auto") -> torch.device:
    """The device of a name: ``auto`` (CUDA where there is one), ``cpu``, ``cuda`` or ``cuda:1``."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda:0" if count else "cpu")
    known = re.fullmatch(r"cpu|cuda(?::(\d+))?", name)
    if known is None:
        raise DeviceError(f"Unknown device '{name}'; give auto, cpu, cuda or cuda:0, cuda:1, ...")
    # The number is read here: torch would take cuda:256 for cuda:0.
    if name != "cpu" and int(known[1] or 0) >= count:
        has = f"{count} CUDA device(s)" if count else "no CUDA device"
        raise DeviceError(
            f"The device '{name}' is not there: this machine has {has}; use --device cpu."
        )
    return torch.device("cpu" if name == "cpu" else f"cuda:{known[1] or 0}")
