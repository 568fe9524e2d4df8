"""The exchange of artifacts with Kubeflow: its executor input as TFX artifacts, TFX artifacts as its executor output.

Kubeflow stores one set of metadata names per artifact, with texts and doubles as values. TFX has typed and custom
properties, which may share a name, and integers. A custom property that shares its name with a typed one is stored as
`custom:<name>`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import RunError
from headrace.components.contents import CONTENTS, known_contents
from headrace.components.stored_models.blessed_record import DAMAGED, EXISTS, WHY
from headrace.pipeline.kubeflow.pod.invocation import ARTIFACT, REFERENCE, Invocation, load_class, pack, unpack
from headrace.pipeline.kubeflow.pod.origin import (
    FILE,
    MADE_FROM,
    SPANS_FILE,
    Compiled,
    ModelOrigin,
    now,
    to_property,
    upstream_of,
)
from headrace.pipeline.kubeflow.pod.parameters import PARAMETERS
from headrace.pipeline.kubeflow.pod.paths import RECORD, PodPaths, home_of, sibling
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd
from headrace.pipeline.versions import installed

if TYPE_CHECKING:
    from tfx.types import Artifact

    from headrace.pipeline.execute import Artifacts

CUSTOM = "custom:"
KUBEFLOW_NAMES = frozenset({"display_name", "store_session_info"})
"""Metadata that Kubeflow itself adds."""


def new_artifact(type_: str) -> Artifact:
    """An empty artifact of a type, `module:name`. Imports TFX."""
    artifact: Artifact = load_class(type_)()
    return artifact


class Exchange:
    """The inputs and outputs of one task.

    scratch: an existing folder for what travels as text; new: makes an empty artifact of a type.
    """

    def __init__(
        self,
        invocation: Invocation,
        executor_input: Mapping[str, Any],
        paths: PodPaths,
        scratch: Path,
        new: Callable[[str], Artifact] = new_artifact,
    ) -> None:
        self._invocation, self._paths, self._scratch, self._new = invocation, paths, scratch, new
        self._executor_input = executor_input
        declared = executor_input["outputs"].get("artifacts", {})
        self._given: list[tuple[str, Artifact]] = []
        self._started_from: str | None = None
        self._uris = {key: declared[key]["artifacts"][0]["uri"] for key in invocation.artifact_outputs}

    @property
    def home(self) -> Path:
        """The pipeline's folder."""
        return self._paths.local(self._home_uri)

    @property
    def _home_uri(self) -> str:
        return home_of(next(iter(self._uris.values())))

    @property
    def user(self) -> str:
        """The run and the task, as `<run>/<task>`."""
        uri = next(iter(self._uris.values()))
        return "/".join(uri.removeprefix(home_of(uri)).split("/")[1:3])

    @property
    def shared_scratch(self) -> Path:
        """A folder next to the task's outputs for files that are removed when the task ends."""
        return self._paths.local(next(iter(self._uris.values()))).parent / ".scratch"

    @property
    def parameters(self) -> dict[str, Any]:
        """The input parameters of the task."""
        return dict(self._executor_input.get("inputs", {}).get("parameterValues", {}))

    def inputs(self, store: Store) -> Artifacts:
        """The input artifacts with their types and properties, at paths that exist."""
        return {key: [self._input(key, port.how, store)] for key, port in self._invocation.inputs.items()}

    def output_uris(self) -> dict[str, str]:
        """The paths for the outputs. Nothing exists at any of them."""
        found = {}
        for key, port in self._invocation.outputs.items():
            if port.how == ARTIFACT:
                found[key] = self._paths.local(self._uris[key])
                shutil.rmtree(found[key], ignore_errors=True)  # left by an earlier try, on a shared volume
            else:
                found[key] = self._scratch / "outputs" / key / "value"
        return {key: str(path) for key, path in found.items()}

    def write(self, outputs: Artifacts) -> None:
        texts = {key: self._text(key, one) for key, (one,) in outputs.items() if key not in self._uris}
        upstream = upstream_of(self._given)
        made_from = {MADE_FROM: to_property(upstream)} if upstream else {}
        artifacts = {
            key: {"name": key, "uri": self._uris[key], "metadata": to_metadata(one, self._as_uri) | made_from}
            for key, (one,) in outputs.items()
            if key in self._uris
        }
        launcher_paths = PodPaths(self._paths.root)
        if RECORD in self._uris:
            path = launcher_paths.local(self._uris[RECORD])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(texts.values()), encoding="utf-8")
        for uri in self._uris.values():
            # Without ML Metadata the launcher fails if nothing exists at an output's path, as with a component that
            # wrote no file, or whose files are on the volume. From an empty folder it copies nothing.
            if not (path := launcher_paths.local(uri)).exists():
                path.mkdir(parents=True)
        values = {key: pack(text, f"{self._invocation.id}: {key}") for key, text in texts.items()}
        executor_output = {
            "artifacts": {key: {"artifacts": [one]} for key, one in artifacts.items()},
            "parameterValues": values,
        }
        file = self._paths.launcher_file(self._executor_input["outputs"]["outputFile"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(executor_output), encoding="utf-8")

    def leave(self, verdicts: Mapping[str, list[Artifact]], store: Store) -> None:
        """Write what a gate found before it stopped the run, as the RECORD artifact.

        It goes to the store directly: of a task that fails, the launcher uploads nothing.
        """
        texts = [self._text(key, one) for key, (one,) in verdicts.items() if key not in self._uris]
        if texts and RECORD in self._uris:
            store.write(self._uris[RECORD], "\n".join(texts))

    def write_spans(self, file: str, store: Store) -> None:
        """Write the spans that were read beside the examples. file: path of the input `spans`."""
        store.write(sibling(self._uris["examples"], SPANS_FILE), Path(file).read_text(encoding="utf-8"))

    def write_origin(self, model: Artifact, compiled: Compiled | None, store: Store) -> None:
        """Write the record of what a model was made from beside it. model: the output `model` of this task."""
        uri = self._uris["model"]
        record = ModelOrigin(
            run=self.user.partition("/")[0],
            written=now(),
            compiled=compiled,
            packages=installed(),
            contents=known_contents(model),
            upstream=upstream_of(self._given),
            started_from=self._started_from,
            parameters={name: self.parameters[name] for name in PARAMETERS if name in self.parameters},
        )
        record.write(sibling(uri, FILE), store)

    def _input(self, key: str, how: str, store: Store) -> Artifact:
        artifact = self._new(self._invocation.inputs[key].type)
        if how != ARTIFACT:
            folder = self._scratch / "inputs" / key
            folder.mkdir(parents=True)
            text = unpack(self.parameters[key])
            if how == REFERENCE:
                self._fetch_model(artifact, json.loads(text), folder, store)
            else:
                (folder / "value").write_text(text, encoding="utf-8")
                artifact.uri = str(folder / "value")
            return artifact
        (given,) = self._executor_input["inputs"]["artifacts"][key]["artifacts"]
        set_properties(artifact, given.get("metadata", {}))
        path = self._paths.local(given["uri"])
        path.mkdir(parents=True, exist_ok=True)  # an object store has no empty folders
        artifact.uri = str(path)
        self._given.append((self._below_home(given["uri"]), artifact))
        if str(given.get("name", "")).isdecimal():
            artifact.mlmd_artifact.id = int(given["name"])
        return artifact

    def _fetch_model(self, artifact: Artifact, reference: Mapping[str, str], folder: Path, store: Store) -> None:
        """Fetch a blessed model; without one, leave an empty folder with the reason."""
        artifact.set_int_custom_property(EXISTS, int(bool(reference["uri"])))
        if reference.get("contents"):
            artifact.set_string_custom_property(CONTENTS, reference["contents"])
        artifact.uri = str(folder)
        if not reference["uri"]:
            for file, text in ((WHY, reference["why"]), (DAMAGED, reference.get("damaged", ""))):
                if text:
                    (folder / file).write_text(text, encoding="utf-8")
            return
        path = self._paths.local(reference["uri"])
        if not self._paths.mount and not store.get_all(reference["uri"], path):
            raise RunError(f"the blessed model {reference['uri']} is gone; run again to choose another")
        self._started_from = self._below_home(reference["uri"])
        artifact.uri = str(path)

    def _text(self, key: str, artifact: Artifact) -> str:
        if self._invocation.outputs[key].how == REFERENCE:
            exists = artifact.get_int_custom_property(EXISTS)
            reference = {
                "uri": self._paths.remote(artifact.uri) if exists else "",
                "why": "" if exists else self._note(artifact, WHY),
            }
            optional = {
                "contents": known_contents(artifact) if exists else "",
                "damaged": "" if exists else self._note(artifact, DAMAGED),
            }
            return json.dumps({**reference, **{key: text for key, text in optional.items() if text}}, sort_keys=True)
        return Path(artifact.uri).read_text(encoding="utf-8")

    def _note(self, artifact: Artifact, name: str) -> str:
        """The text of a file in an artifact, with URIs instead of the pod's folder; "" if there is no such file."""
        file = Path(artifact.uri) / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return text if self._paths.mount else text.replace(str(self.home), self._home_uri)

    def _below_home(self, uri: str) -> str:
        return uri.removeprefix(f"{self._home_uri}/")

    def _as_uri(self, text: str) -> str:
        return self._paths.remote(text) or text


def to_metadata(artifact: Artifact, spell: Callable[[str], str]) -> dict[str, str | int | float]:
    """The properties that have a value. spell: applied to every text."""
    typed = dict(artifact.mlmd_artifact.properties)
    values = {name: _plain(value) for name, value in typed.items()}
    for name, value in artifact.mlmd_artifact.custom_properties.items():
        values[CUSTOM + name if name in artifact.artifact_type.properties else name] = _plain(value)
    return {
        name: spell(value) if isinstance(value, str) else value for name, value in values.items() if value is not None
    }


def set_properties(artifact: Artifact, metadata: Mapping[str, Any]) -> None:
    """Set the properties from what `to_metadata` returned, after Kubeflow has made all numbers doubles."""
    types = artifact.artifact_type.properties
    for name, value in metadata.items():
        if name in KUBEFLOW_NAMES or value is None:
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
