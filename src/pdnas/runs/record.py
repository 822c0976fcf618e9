"""A value that is written as JSON, and the numbers that it may hold."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Figure = Annotated[float, Field(ge=-1e9, le=1e9)]
"""Any number that a metric may be or an estimate of it: it can be written in percent."""


Share = Annotated[float, Field(ge=0, le=1)]
"""A part of all."""

Seconds = Annotated[float, Field(ge=0, le=1e15)]
"""How long something took; no sum of such is infinite."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""How many there are of something, or which of them."""

MOST = 10**9
"""More epochs, nodes and the like than anyone means to ask for."""


class Record(BaseModel):
    """A frozen value that is written as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
