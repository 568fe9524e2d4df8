"""The description of a component that its pod gets as one JSON argument, with types and properties of compile time.

Kubeflow hands artifacts over without their types, replaces placeholders anywhere in arguments, and derives a task's
cache key from its image, arguments, parameters and the ids of its input artifacts. So everything that decides what a
component computes is in the invocation, in a form that nothing on the way takes for a placeholder. The few settings
that change nothing about the result travel in an environment variable, which is not in the cache key.
"""

from __future__ import annotations

import base64
import importlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from headrace.common.errors import RunError
from headrace.configs.schema.train import CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS
from headrace.pipeline.kubeflow.pod.paths import RECORD

if TYPE_CHECKING:
    from headrace.pipeline.plan import Node

REFERENCE, VALUE, ARTIFACT = "reference", "value", "artifact"
"""How an input or output travels: as a parameter that names an artifact, as a parameter that holds its text, or as an
artifact of Kubeflow."""
READABLE_LENGTH = 60_000
"""Characters up to which a text stays readable in Kubeflow's interface; longer texts are compressed."""
MAX_LENGTH = 120_000
"""Characters of one argument. Linux refuses more than 131,072 bytes, which a config with many columns may exceed."""
COMPRESSED = "zlib:"
UNCACHED_VARIABLE = "HEADRACE_UNCACHED"
"""Environment variable of a pod with the settings for `custom_config` that are not part of the cache key, as JSON."""
UNCACHED = (CHECKPOINT_SETTINGS,)
_CUSTOM = "custom_config"
PUSHER = "Pusher"
"""The id of the component that pushes, ours or the user's."""
_OF_PUSHER = frozenset({"registration", "kserve", "serving"})
"""The fields that are left out if they are empty."""


@dataclass(frozen=True)
class Port:
    """An input or output. type: the artifact's class as `module:name`; how: REFERENCE, VALUE or ARTIFACT."""

    type: str
    how: str = ARTIFACT


@dataclass(frozen=True)
class Invocation:
    """One component. The field names are the keys of its JSON.

    mount: path of the shared volume, or ""; store: options of `open_store`; files: name to content of the files that
    the config names; code: digest of the component's code and libraries; registration: of the Pusher, what
    `headrace.pipeline.kubeflow.registration` needs; kserve, serving: the same for `headrace.pipeline.kubeflow.kserve`
    and `headrace.pipeline.kubeflow.production`.
    """

    id: str
    kind: str
    executor: str
    exec_properties: Mapping[str, Any]
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    beam: Mapping[str, Any]
    storage: str
    mount: str
    store: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    registration: Mapping[str, Any] = field(default_factory=dict)
    kserve: Mapping[str, Any] = field(default_factory=dict)
    serving: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """The invocation as one line of JSON without `{{` and `$(`."""
        fields = {name: value for name, value in asdict(self).items() if value or name not in _OF_PUSHER}
        return without_placeholders(json.dumps(fields, sort_keys=True))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        for ports in ("inputs", "outputs"):
            fields[ports] = {key: Port(**port) for key, port in fields[ports].items()}
        return cls(**fields)

    def node(self, exec_properties: Mapping[str, Any]) -> Node:
        """The component as `headrace.pipeline.execute` runs it. Imports its executor."""
        from headrace.pipeline.plan import Node

        return Node(
            id=self.id,
            kind=self.kind,
            executor=load_class(self.executor),
            exec_properties=exec_properties,
            inputs={},
            outputs={key: load_class(port.type) for key, port in self.outputs.items()},
            upstream=(),
        )

    @property
    def artifact_outputs(self) -> list[str]:
        """The outputs that are artifacts of Kubeflow; RECORD if the component has none of its own."""
        return [key for key, port in self.outputs.items() if port.how == ARTIFACT] or [RECORD]

    @property
    def uses_store(self) -> bool:
        """Whether the component reads or writes objects besides the artifacts that Kubeflow copies; for a Pusher of the
        user's, its pod does (own_push.py).
        """
        referenced = any(port.how == REFERENCE for port in self.inputs.values())
        return self.id == PUSHER or referenced or any(path is not None for path in state_paths(self.exec_properties))


class StatePaths(NamedTuple):
    """The files and folders of the pipeline's state that a component uses; None for those that it does not."""

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
    """The folder of cached spans."""
    predictions: Path | None = None
    """The file that gets the predictions of new data, with placeholders for the newest span."""


def state_paths(properties: Mapping[str, Any]) -> StatePaths:
    """The state that a component's properties name, all of it in the pipeline's folder, or on a volume."""
    checkpoints = (json.loads(properties.get(_CUSTOM) or "null") or {}).get(CHECKPOINT_FOLDER)
    return StatePaths(
        registry=Path(properties["registry"]) if "registry" in properties else None,
        trained=Path(properties["trained"]) if "trained" in properties else None,
        pushed=Path(properties["destination"]) if "destination" in properties else None,
        push_record=Path(properties["push_record"]) if "push_record" in properties else None,
        checkpoints=Path(checkpoints) if checkpoints else None,
        spans=Path(properties["store"]) if properties.get("store") else None,
        predictions=Path(properties["publish_to"]) if "publish_to" in properties else None,
    )


def split_uncached(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The properties without the settings that must not be in the cache key, and those settings."""
    custom = json.loads(properties.get(_CUSTOM) or "{}") or {}
    uncached = {name: custom.pop(name) for name in UNCACHED if name in custom}
    return {**properties, **({_CUSTOM: json.dumps(custom)} if uncached else {})}, uncached


def restore_uncached(properties: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The properties with the settings that UNCACHED_VARIABLE holds."""
    if not environ.get(UNCACHED_VARIABLE) or _CUSTOM not in properties:
        return dict(properties)
    custom = {**json.loads(properties[_CUSTOM]), **json.loads(environ[UNCACHED_VARIABLE])}
    return {**properties, _CUSTOM: json.dumps(custom)}


def pack(text: str, what: str) -> str:
    """The text as one argument of a program, compressed if it is long.

    Raises RunError, naming `what`, if it is too long even when compressed.
    """
    if len(text) <= READABLE_LENGTH:
        return text
    packed = COMPRESSED + base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    if len(packed) > MAX_LENGTH:
        raise RunError(
            f"{what} takes {len(packed):,} characters when compressed; an argument of a pod may have at most"
            f" {MAX_LENGTH:,}.\n"
            "  Put long lists of values into files in the image or on a volume. If it is a list of files, read fewer"
            " and larger files, or fewer spans at once."
        )
    return packed


def unpack(argument: str) -> str:
    """The text that was given to `pack`."""
    if not argument.startswith(COMPRESSED):
        return argument
    return zlib.decompress(base64.b64decode(argument.removeprefix(COMPRESSED))).decode()


def without_placeholders(json_text: str) -> str:
    """The same JSON spelled without `{{` (which Kubeflow and Argo replace) and `$(` (which Kubernetes replaces)."""
    return json_text.replace("{{", "{\\u007b").replace("$(", "\\u0024(")


def class_name(class_: type) -> str:
    """`module:name` of a class at the top level of its module."""
    return f"{class_.__module__}:{class_.__qualname__}"


def load_class(name: str) -> Any:
    """The class with that `module:name`. Imports the module."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
