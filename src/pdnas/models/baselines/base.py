"""What a hand-designed network is: an architecture of our blocks and a hidden size."""

from dataclasses import dataclass

from pdnas.architecture import Architecture
from pdnas.registry import Registry


@dataclass(frozen=True)
class Baseline:
    """A network that somebody designed by hand, trained by the recipe of its name if there is one.

    Args:
        architecture: Its blocks.
        hidden: Its hidden size.
    """

    architecture: Architecture
    hidden: int


BASELINES: Registry[str, Baseline] = Registry("baseline")
