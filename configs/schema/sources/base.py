"""The base class of every kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.configs.schema.kinds import Kind


class SourceBase(Kind):
    """Where the rows come from. `implementation` names the reader, as components/example_gen/sources describes it."""

    if TYPE_CHECKING:
        kind: str
