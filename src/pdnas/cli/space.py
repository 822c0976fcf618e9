"""``pdnas space``: what there is to search in."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import tyro

from pdnas.cli.display import print_table
from pdnas.errors import PdnasError
from pdnas.space import SPACES, find_space


@dataclass(frozen=True)
class Command:
    """Show a space: the candidates of each slot, and how many architectures that makes."""

    space: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="SPACE", help=f"{', '.join(SPACES)}, or a TOML file"),
    ] = "extended"
    blocks: tuple[int, ...] = (2, 3, 4)
    """depths to count the architectures of"""
    json: bool = False
    """print one line of JSON instead of tables"""

    def run(self) -> int:
        """Print the space."""
        space = find_space(self.space)
        if not self.blocks:
            raise PdnasError("There is no number after --blocks; give at least one, such as 2.")
        counts = {blocks: space.count(blocks) for blocks in self.blocks}
        if self.json:
            print(json.dumps({"space": space.model_dump(mode="json"), "counts": counts}))
            return 0
        print_table(space.table(), title=f"space {space.name}")
        sizes = [["blocks", "possible shortcuts", "architectures"]]
        for blocks, count in counts.items():
            gates = len(space.possible_gates(blocks))
            sizes.append([str(blocks), str(gates), _readable(count)])
        print_table(sizes)
        return 0


def _readable(count: int) -> str:
    """All digits of a number, or only its magnitude where nobody would read them."""
    return f"{count:,}" if count < 10**20 else f"{Decimal(count):.2e}"
