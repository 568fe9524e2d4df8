"""What Kubeflow's launcher does around a container: download its inputs, start it, read and upload its outputs.

Follows `backend/src/v2/component/launcher_v2.go` of kubeflow/pipelines 2.17.0. Here a pod is a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.document import TaskSpec
from headrace.pipeline.kubeflow.pod.paths import ROOT, PodPaths
from headrace.pipeline.kubeflow.store import FOLDER, Store
from headrace.pipeline.kubeflow.verify.driver import Json


@dataclass(frozen=True)
class Pod:
    """root: the folder that stands for the pod's root; store: that for the object store; volumes: by mount path."""

    root: Path
    store: Path
    volumes: Mapping[str, Path]

    def launch(self, spec: TaskSpec, executor_input: Json) -> Json:
        """Run a task and upload its files. Returns its executor output. Raises RunError if it failed."""
        self.prepare(executor_input)
        log = self._local(executor_input["outputs"]["artifacts"]["executor-logs"]["artifacts"][0]["uri"])
        with log.open("wb") as stream:
            done = subprocess.run(  # noqa: S603 - our own module
                command(spec, executor_input),
                stdout=stream,
                stderr=stream,
                check=False,
                env=self._environment(spec),
            )
        if done.returncode != 0:
            last = log.read_text(errors="replace", encoding="utf-8").splitlines()[-1:]
            raise RunError("\n".join([*last, f"  log: {log}"]))
        output = self._output(spec, executor_input)
        self._upload(executor_input)
        return output

    def prepare(self, executor_input: Json) -> None:
        """Create the pod's folders and download the inputs."""
        store = Store({}, str(self.store))
        for folder in ("dev", "tmp"):
            (self.root / folder).mkdir(parents=True)
        for mount, volume in self.volumes.items():
            volume.mkdir(parents=True, exist_ok=True)
            path = Path(f"{self.root}{mount}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(volume)
        for group in executor_input["inputs"]["artifacts"].values():
            for one in group["artifacts"]:
                self._download(store, one["uri"])
        for group in executor_input["outputs"]["artifacts"].values():
            for one in group["artifacts"]:
                self._local(one["uri"]).parent.mkdir(parents=True, exist_ok=True)

    def _download(self, store: Store, uri: str) -> None:
        if store.exists(uri) and not store.get(uri, self._local(uri)):
            store.get_all(uri, self._local(uri))

    def _output(self, spec: TaskSpec, executor_input: Json) -> Json:
        """The output file, parsed as strictly as by Kubeflow. Every output parameter must be in it."""
        file = Path(f"{self.root}{executor_input['outputs']['outputFile']}")
        message = json_format.Parse(file.read_text(encoding="utf-8"), pipeline_spec_pb2.ExecutorOutput())
        output: Json = json_format.MessageToDict(message)
        missing = executor_input["outputs"]["parameters"].keys() - output.get("parameterValues", {}).keys()
        if missing:
            raise RunError(f"{spec.name} wrote no value for {', '.join(sorted(missing))}")
        return output

    def _upload(self, executor_input: Json) -> None:
        store = Store({}, str(self.store))
        for group in executor_input["outputs"]["artifacts"].values():
            for one in group["artifacts"]:
                path = self._local(one["uri"])
                if path.is_dir():
                    store.put_all(path, one["uri"])
                elif path.exists():
                    store.put(path, one["uri"])

    def _local(self, uri: str) -> Path:
        return PodPaths(str(self.root)).local(uri)

    def _environment(self, spec: TaskSpec) -> dict[str, str]:
        paths = [os.environ.get("PYTHONPATH", ""), str(Path.cwd())]
        own = {ROOT: str(self.root), FOLDER: str(self.store), "TMPDIR": str(self.root / "tmp")}
        of_container = {one["name"]: one["value"] for one in spec.container.get("env", [])}
        return {**os.environ, **of_container, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def remove(self) -> None:
        shutil.rmtree(self.root)


def command(spec: TaskSpec, executor_input: Mapping[str, Any]) -> list[str]:
    """The command that the launcher starts for a task."""
    words = [*spec.container["command"], *_arguments(spec, executor_input)]
    program, rest = words[0], words[1:]
    return [sys.executable if program == "python" else program, *rest]


def _arguments(spec: TaskSpec, executor_input: Mapping[str, Any]) -> list[str]:
    message = json_format.ParseDict(executor_input, pipeline_spec_pb2.ExecutorInput())
    text = json.dumps(json_format.MessageToDict(message))
    return [argument.replace("{{$}}", text) for argument in spec.container["args"]]
