"""What an artifact's files were when its component ended, so that whatever uses them later trusts only what is whole.

The checksum travels with the artifact as a custom property, through ML Metadata here and Kubeflow's elsewhere. It is
made once, by `headrace.pipeline.execute`, and compared where the files are used: before a component reads them (all but
Examples, whose records have checksums of their own), and before the local runner takes them for a later run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.configs.checksums import MARK, checksum
from headrace.configs.errors import RunError

CONTENTS = "headrace_contents"
"""Custom property of artifacts: the checksum of their files (`headrace.configs.checksums`)."""


def contents_of(artifact: Any) -> str:
    """The checksum that came with an artifact; of its files as they are, for one that has none."""
    return known_contents(artifact) or checksum(Path(artifact.uri))


def known_contents(artifact: Any) -> str:
    """The checksum that came with an artifact; "" for one that has none."""
    text = artifact.get_string_custom_property(CONTENTS) if artifact.has_custom_property(CONTENTS) else ""
    return text if text.startswith(MARK) else ""


def seal(artifact: Any) -> None:
    """Note what its files are now."""
    artifact.set_string_custom_property(CONTENTS, checksum(Path(artifact.uri)))


def check_whole(artifact: Any) -> None:
    """Compare the files with the checksum that came with them. Raises RunError if they are others."""
    known = known_contents(artifact)
    if known and checksum(Path(artifact.uri)) != known:
        raise RunError(
            f"{artifact.uri} is damaged: its files are not as they were when they were written.\n"
            "  Run again: what is damaged is then computed again. Check the disk or the object store if it recurs."
        )
