"""What sources have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.section import Name, Section

Paths = Name | Annotated[tuple[Name, ...], Field(min_length=1)]
"""A path or glob pattern, or several."""


class FileSource(Section):
    """Files that are found by their paths."""

    path: Paths
    """A path or glob pattern, or a list of them: local, `s3://bucket/...`, `gs://bucket/...`, or
    `pkg://package/inside/it/*.csv` for files that an installed Python package carries. A relative path starts at the
    folder the command runs in. `{SPAN}`, `{VERSION}`, or `{YYYY}`, `{MM}` and `{DD}` in it cut the data into spans."""
