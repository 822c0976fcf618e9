"""A value that is written as JSON, and the numbers that it may hold."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Figure = Annotated[float, Field(ge=-1e9, le=1e9)]
"""Any number that a metric may be or an estimate of it: it can be written in percent."""


class Record(BaseModel):
    """A frozen value that is written as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
