"""The base class of every config section, and the types that sections share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1)]
"""A non-empty text that names something: a data column, a file."""
DottedPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
"""A function, such as `my_package.my_module.my_function`."""
PositiveInt = Annotated[int, Field(ge=1)]
Duration = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}[smhd]$")]
"""A time such as `10m`."""
KeyPath = tuple[str | int, ...]
"""The path to a setting in the config: names of settings, and indices of list items from 0."""

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Section(BaseModel):
    """A frozen group of settings. Unknown keys are rejected, and the text under each field is its documentation."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


def to_seconds(duration: str) -> int:
    """`10m` as 600."""
    return int(duration[:-1]) * _UNIT_SECONDS[duration[-1]]
