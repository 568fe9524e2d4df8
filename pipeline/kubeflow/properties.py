"""Artifacts' properties as Kubeflow's metadata, and back.

Kubeflow keeps one set of names, with texts and doubles; TFX has typed and custom properties, which may share a name,
and integers. A custom property whose name a typed one has is called `custom:<name>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.types import Artifact

CUSTOM = "custom:"
KUBEFLOWS = frozenset({"display_name", "store_session_info"})
"""What Kubeflow itself puts beside them."""


def to_metadata(artifact: Artifact, spelled: Callable[[str], str]) -> dict[str, str | int | float]:
    """The properties that have a value. `spelled`: what becomes of a text."""
    typed = dict(artifact.mlmd_artifact.properties)
    told = {name: _plain(value) for name, value in typed.items()}
    for name, value in artifact.mlmd_artifact.custom_properties.items():
        told[CUSTOM + name if name in artifact.artifact_type.properties else name] = _plain(value)
    return {
        name: spelled(value) if isinstance(value, str) else value for name, value in told.items() if value is not None
    }


def set_properties(artifact: Artifact, metadata: Mapping[str, Any]) -> None:
    """Set what `to_metadata` told, after Kubeflow has made all numbers doubles."""
    types = artifact.artifact_type.properties
    for name, value in metadata.items():
        if name in KUBEFLOWS or value is None:
            continue
        if name in types:
            _set(artifact.mlmd_artifact.properties[name], value, types[name])
        else:
            target = artifact.mlmd_artifact.custom_properties[name.removeprefix(CUSTOM)]
            _set(target, value, mlmd.INT if _is_whole(value) else mlmd.DOUBLE)


def _plain(value: mlmd.Value) -> str | int | float | None:
    kind = value.WhichOneof("value")
    if kind in ("string_value", "int_value", "double_value"):
        found: str | int | float = getattr(value, kind)
        return found
    return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _set(target: mlmd.Value, value: Any, number: int) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif number == mlmd.INT:
        target.int_value = int(value)
    else:
        target.double_value = float(value)
