"""Hand-designed networks that are members of a space: a search may well choose one of them."""

from pdnas.architecture import Architecture
from pdnas.models.baselines import BASELINES
from pdnas.space import SearchSpace


def designs_of(space: SearchSpace | None) -> dict[Architecture, str]:
    """The baselines of a space by their blocks, under the first name they have.

    Args:
        space: Where was searched; none if nothing was.
    """
    known: dict[Architecture, str] = {}
    if space is not None:
        for name in BASELINES:
            design = BASELINES[name].design
            if isinstance(design, Architecture):
                known.setdefault(space.plain(design), name)
    return {design: name for design, name in known.items() if space and design in space}
