"""What a hand-designed network is: a design and a hidden size, under the name people know."""

from dataclasses import dataclass

from pdnas.architecture import Architecture
from pdnas.errors import ArchitectureError
from pdnas.models.design import Design
from pdnas.registry import Registry


@dataclass(frozen=True)
class Baseline:
    """A network that somebody designed by hand, trained by the recipe of its name if there is one.

    Args:
        design: Its blocks, or what was published.
        hidden: Its hidden size.
        of: The baseline of which these are the settings for one graph; none if it is one itself.
    """

    design: Design
    hidden: int
    of: str | None = None

    @property
    def architecture(self) -> Architecture:
        """Its blocks, where it is made of blocks."""
        if isinstance(self.design, Architecture):
            return self.design
        raise ArchitectureError(
            f"The network '{self.design.name}' is not made of blocks; give one that is, such as "
            "gcn."
        )


BASELINES: Registry[str, Baseline] = Registry("baseline")


def block_designs() -> list[Architecture]:
    """The baselines that are made of blocks and hear neighbors: what a search tries too."""
    known = [BASELINES[name] for name in BASELINES if BASELINES[name].of is None]
    designs = [one.design for one in known if isinstance(one.design, Architecture)]
    return [design for design in designs if any(block.propagation for block in design.blocks)]
