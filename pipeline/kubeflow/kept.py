"""What a component looks at beside its artifacts, as its properties name it: all of it lies in the pipeline's folder.

Both what a pod fetches and whether it gets the keys of the object store follow from this alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headrace.configs.checkpoint import KEPT_IN
from headrace.pipeline.kubeflow.invocation import REFERENCE, Invocation


class Kept(NamedTuple):
    """Paths; None for what a component does not look at."""

    registry: Path | None = None
    """`blessed.json`."""
    trained: Path | None = None
    """`trained.json`."""
    pushed: Path | None = None
    """The folder of pushed models."""
    push_record: Path | None = None
    """`pushed.json`."""
    checkpoints: Path | None = None
    """The folder of the checkpoints of a training or a search."""
    spans: Path | None = None
    """The folder of what is kept of spans."""


def kept(properties: Mapping[str, Any]) -> Kept:
    """What the properties name."""
    checkpoints = (json.loads(properties.get("custom_config") or "null") or {}).get(KEPT_IN)
    return Kept(
        registry=Path(properties["registry"]) if "registry" in properties else None,
        trained=Path(properties["trained"]) if "trained" in properties else None,
        pushed=Path(properties["destination"]) if "destination" in properties else None,
        push_record=Path(properties["push_record"]) if "push_record" in properties else None,
        checkpoints=Path(checkpoints) if checkpoints else None,
        spans=Path(properties["store"]) if properties.get("store") else None,
    )


def reaches_the_store(invocation: Invocation) -> bool:
    """Whether a component reads or writes more of the object store than the artifacts that Kubeflow copies."""
    referred = any(port.how == REFERENCE for port in invocation.inputs.values())
    return referred or any(path is not None for path in kept(invocation.exec_properties))
