"""The base of every config section."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1)]
"""A text that names something: a data column, a file. Never empty."""


class Section(BaseModel):
    """A frozen group of settings: unknown keys are refused, and the text under each field is its documentation."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )
