"""The user's own model."""

from __future__ import annotations

from pydantic import JsonValue

from headrace.configs.features import DottedPath
from headrace.configs.models.base import ModelBase

OWN = "the dotted path of your own builder"
"""How the schema, the reference and error messages call this kind, which has no name of its own."""


class OwnModel(ModelBase):
    """What a function of yours builds (see docs/extending.md). The other settings are for it to heed."""

    kind: DottedPath
    """The function, such as `mine.models.build`."""
    options: dict[str, JsonValue] = {}
    """Passed to the function as it is."""
