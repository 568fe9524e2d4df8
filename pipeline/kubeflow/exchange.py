"""Kubeflow's executor input as TFX artifacts, and TFX artifacts as Kubeflow's executor output."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx.types import Artifact

from headrace.components.baseline import EXISTS
from headrace.components.contents import CONTENTS, known_contents
from headrace.components.registry import DAMAGED, WHY
from headrace.configs.errors import RunError
from headrace.pipeline.execute import Artifacts
from headrace.pipeline.kubeflow.argument import pack, unpack
from headrace.pipeline.kubeflow.invocation import ARTIFACT, REFERENCE, Invocation
from headrace.pipeline.kubeflow.places import RECORD, Places, home_of
from headrace.pipeline.kubeflow.properties import set_properties, to_metadata
from headrace.pipeline.kubeflow.store import Store


class Exchange:
    """One task. `told`: the executor input; `scratch`: an existing folder for what travels as text."""

    def __init__(self, invocation: Invocation, told: Mapping[str, Any], places: Places, scratch: Path) -> None:
        self._invocation, self._places, self._scratch = invocation, places, scratch
        self._told = told
        declared = told["outputs"].get("artifacts", {})
        self._uris = {key: declared[key]["artifacts"][0]["uri"] for key in invocation.written}

    @property
    def home(self) -> Path:
        """The pipeline's folder."""
        return self._places.local(self._home_uri)

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
        """A folder beside the task's outputs, for what is removed when the task ends."""
        return self._places.local(next(iter(self._uris.values()))).parent / ".scratch"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the task."""
        return dict(self._told.get("inputs", {}).get("parameterValues", {}))

    def inputs(self, store: Store) -> Artifacts:
        """The inputs with their types and properties, at paths that are there."""
        return {key: [self._input(key, port.how, store)] for key, port in self._invocation.inputs.items()}

    def output_uris(self) -> dict[str, str]:
        """Where the component writes: paths at which nothing is."""
        found = {}
        for key, port in self._invocation.outputs.items():
            if port.how == ARTIFACT:
                found[key] = self._places.local(self._uris[key])
                shutil.rmtree(found[key], ignore_errors=True)  # of an earlier try, on a shared volume
            else:
                found[key] = self._scratch / "outputs" / key / "value"
        return {key: str(path) for key, path in found.items()}

    def write(self, outputs: Artifacts) -> None:
        """Tell Kubeflow of the outputs."""
        texts = {key: self._text(key, one) for key, (one,) in outputs.items() if key not in self._uris}
        artifacts = {
            key: {"name": key, "uri": self._uris[key], "metadata": to_metadata(one, self._spelled)}
            for key, (one,) in outputs.items()
            if key in self._uris
        }
        if RECORD in self._uris:
            path = Places(self._places.root).local(self._uris[RECORD])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(texts.values()), encoding="utf-8")
        for uri in self._uris.values():
            # Without ML Metadata the launcher fails where it finds nothing of an output: of a component that made no
            # file, or whose files are on the volume. Of an empty folder it copies nothing.
            if not (path := Places(self._places.root).local(uri)).exists():
                path.mkdir(parents=True)
        values = {key: pack(text, f"{self._invocation.id}: {key}") for key, text in texts.items()}
        told = {"artifacts": {key: {"artifacts": [one]} for key, one in artifacts.items()}, "parameterValues": values}
        file = self._places.launchers(self._told["outputs"]["outputFile"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(told), encoding="utf-8")

    def _input(self, key: str, how: str, store: Store) -> Artifact:
        artifact = self._invocation.artifact(key)
        if how != ARTIFACT:
            folder = self._scratch / "inputs" / key
            folder.mkdir(parents=True)
            text = unpack(self.parameters[key])
            if how == REFERENCE:
                self._refer(artifact, json.loads(text), folder, store)
            else:
                (folder / "value").write_text(text, encoding="utf-8")
                artifact.uri = str(folder / "value")
            return artifact
        (told,) = self._told["inputs"]["artifacts"][key]["artifacts"]
        set_properties(artifact, told.get("metadata", {}))
        path = self._places.local(told["uri"])
        path.mkdir(parents=True, exist_ok=True)  # an empty folder is nothing that an object store keeps
        artifact.uri = str(path)
        if str(told.get("name", "")).isdecimal():
            artifact.id = int(told["name"])
        return artifact

    def _refer(self, artifact: Artifact, told: Mapping[str, str], folder: Path, store: Store) -> None:
        """Fetch a blessed model; an empty folder where there is none."""
        artifact.set_int_custom_property(EXISTS, int(bool(told["uri"])))
        if told.get("contents"):
            artifact.set_string_custom_property(CONTENTS, told["contents"])
        artifact.uri = str(folder)
        if not told["uri"]:
            for file, text in ((WHY, told["why"]), (DAMAGED, told.get("damaged", ""))):
                if text:
                    (folder / file).write_text(text, encoding="utf-8")
            return
        path = self._places.local(told["uri"])
        if not self._places.mount and not store.get_all(told["uri"], path):
            raise RunError(f"the blessed model {told['uri']} is gone; run again to choose another")
        artifact.uri = str(path)

    def _text(self, key: str, artifact: Artifact) -> str:
        if self._invocation.outputs[key].how == REFERENCE:
            exists = artifact.get_int_custom_property(EXISTS)
            told = {
                "uri": self._places.remote(artifact.uri) if exists else "",
                "why": "" if exists else self._said(artifact, WHY),
            }
            more = {
                "contents": known_contents(artifact) if exists else "",
                "damaged": "" if exists else self._said(artifact, DAMAGED),
            }
            return json.dumps({**told, **{key: text for key, text in more.items() if text}}, sort_keys=True)
        return Path(artifact.uri).read_text(encoding="utf-8")

    def _said(self, artifact: Artifact, name: str) -> str:
        """What a file of an artifact says, with URIs where it names the pod's folder; "" if there is none."""
        file = Path(artifact.uri) / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return text if self._places.mount else text.replace(str(self.home), self._home_uri)

    def _spelled(self, text: str) -> str:
        """A path as the URI that it stands for."""
        return self._places.remote(text) or text
