"""Times such as `10m`, for settings that last."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Duration = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}[smhd]$")]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration: str) -> int:
    """`10m` as 600."""
    return int(duration[:-1]) * UNITS[duration[-1]]
