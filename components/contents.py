"""Checksums of artifacts, so that files are trusted later only if they are as their component left them.

The checksum travels with the artifact as a custom property, through ML Metadata locally and through Kubeflow's metadata
there. `headrace.pipeline.execute` computes it once. It is compared before a component reads the files (except for
Examples, whose records have checksums of their own), and before the local runner reuses them in a later run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.common.checksums import PREFIX, checksum
from headrace.common.errors import RunError

CONTENTS = "headrace_contents"
"""Custom property of artifacts: the checksum of their files (`headrace.common.checksums`)."""
UNFINISHED = "headrace_unfinished"
"""Custom property of artifacts: why what they say is only for this run. A later one does not reuse them."""


def contents_of(artifact: Any) -> str:
    """The checksum that came with an artifact; that of its present files if none did."""
    return known_contents(artifact) or checksum(Path(artifact.uri))


def known_contents(artifact: Any) -> str:
    """The checksum that came with an artifact; "" if none did."""
    text = artifact.get_string_custom_property(CONTENTS) if artifact.has_custom_property(CONTENTS) else ""
    return text if text.startswith(PREFIX) else ""


def seal(artifact: Any) -> None:
    """Record the checksum of the artifact's present files."""
    artifact.set_string_custom_property(CONTENTS, checksum(Path(artifact.uri)))


def check_whole(artifact: Any) -> None:
    """Raise RunError if the files do not have the checksum that came with the artifact."""
    known = known_contents(artifact)
    if known and checksum(Path(artifact.uri)) != known:
        raise RunError(
            f"{artifact.uri} is damaged: its files have changed since they were written.\n"
            "  Run again: damaged artifacts are then recomputed. If it recurs, check the disk or the object store."
        )
