"""What a pod is told of its component, as one JSON argument: types and properties are those of compile time.

Kubeflow hands artifacts over without their types, replaces placeholders in arguments wherever they stand, and makes a
task's cache key from its image, arguments, parameters and the ids of its input artifacts. So all that decides what a
component computes stands in here, and in a form that nothing on the way can take for a placeholder.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tfx.types import Artifact

from headrace.pipeline.kubeflow.places import RECORD
from headrace.pipeline.plan import Node

REFERENCE, VALUE, ARTIFACT = "reference", "value", "artifact"
"""How an input or output travels: as a parameter that names an artifact, as a parameter that holds its text, or as an
artifact of Kubeflow's."""


@dataclass(frozen=True)
class Port:
    """An input or an output: `type` is the artifact's class (`module:name`), `how` is how it travels."""

    type: str
    how: str = ARTIFACT


@dataclass(frozen=True)
class Invocation:
    """One component. `files`: property to the content of the file that it named at compile time; `home`: the paths in
    properties that begin with it lie in the pipeline's folder; `code`: a digest of the code and its libraries.
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

    def to_json(self) -> str:
        """One line; no `{{` and no `$(` stands in it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return text.replace("{{", "{\\u007b").replace("$(", "\\u0024(")

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        told = json.loads(text)
        for ports in ("inputs", "outputs"):
            told[ports] = {key: Port(**port) for key, port in told[ports].items()}
        return cls(**told)

    def node(self, exec_properties: Mapping[str, Any]) -> Node:
        """The component as `headrace.pipeline.execute` runs it. Imports its executor."""
        return Node(
            id=self.id,
            kind=self.kind,
            executor=named(self.executor),
            exec_properties=exec_properties,
            inputs={},
            outputs={key: named(port.type) for key, port in self.outputs.items()},
            upstream=(),
        )

    def artifact(self, key: str) -> Artifact:
        """A new artifact for an input."""
        return named(self.inputs[key].type)()

    @property
    def written(self) -> list[str]:
        """The output artifacts that Kubeflow knows."""
        return [key for key, port in self.outputs.items() if port.how == ARTIFACT] or [RECORD]


def name_of(thing: type) -> str:
    """`module:name` of a class at the top of its module."""
    return f"{thing.__module__}:{thing.__qualname__}"


def named(name: str) -> Any:
    """The class of that name."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
