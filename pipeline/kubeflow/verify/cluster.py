"""A cluster in a folder: runs compiled pipelines, task by task, each in a process of its own.

cluster = Cluster(folder)
first = cluster.run(text)
first.tasks["trainer"].artifacts["model"]["uri"]
cluster.run(text).cached
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from headrace.configs.kubeflow import SharedVolume
from headrace.pipeline.kubeflow.places import Places
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.verify.driver import (
    Json,
    TaskRun,
    TaskSpec,
    all_tasks,
    fingerprint,
    provision,
    resolve,
    task_specs,
    triggers,
)
from headrace.pipeline.kubeflow.verify.launcher import Pod

AT_ONCE = 2
SESSION = '{"Provider":"minio","Params":{"fromEnv":"true"}}'


@dataclass
class ClusterRun:
    """One run of a pipeline."""

    run_id: str
    tasks: dict[str, TaskRun] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    """Tasks whose condition did not hold."""

    @property
    def cached(self) -> set[str]:
        """The tasks that were not run again."""
        return {name for name, task in self.tasks.items() if task.cached}


@dataclass(frozen=True)
class _Going:
    """A run that is going on. `root`: its own; `volumes`: mounts by executor."""

    pipeline: Mapping[str, Any]
    run: ClusterRun
    root: str
    volumes: Mapping[str, Mapping[str, str]]


class Cluster:
    """`folder`: for the object store, volumes, pods, and what is remembered of tasks; `root`: the pipeline root, as a
    run would have it.
    """

    def __init__(self, folder: Path, root: str, told: Callable[[str], None] = lambda _: None) -> None:
        self._folder, self._root, self._told = folder, root.rstrip("/"), told
        self._remembered = folder / "cache.json"
        known = json.loads(self._remembered.read_text(encoding="utf-8")) if self._remembered.exists() else {}
        self._cache = {key: TaskRun(**task) for key, task in known.items()}
        self.store_folder = folder / "store"
        self.store = Store({}, str(self.store_folder))

    def run(self, text: str, parameters: Mapping[str, Any] | None = None) -> ClusterRun:
        """Run a compiled pipeline to its end. Raises RunError at the first task that fails."""
        pipeline, *more = yaml.safe_load_all(text)
        run = ClusterRun(str(uuid.uuid4()))
        given = {**_defaults(pipeline), **(parameters or {})}
        root = f"{self._root}/{pipeline['pipelineInfo']['name']}/{run.run_id}"
        going = _Going(pipeline, run, root, _volumes(more[0] if more else {}))
        self._group(going, None, given, {})
        self._remembered.write_text(
            json.dumps({key: asdict(task) for key, task in self._cache.items()}), encoding="utf-8"
        )
        return run

    def _group(
        self, going: _Going, dag: Mapping[str, Any] | None, given: Mapping[str, Any], artifacts: Mapping[str, Json]
    ) -> TaskRun:
        """Run the pipeline's tasks, or those of a group, each after those that it needs."""
        specs = task_specs(going.pipeline, dag)
        ended: dict[str, TaskRun] = {}
        order = TopologicalSorter({name: spec.after for name, spec in specs.items()})
        order.prepare()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting: dict[Future[TaskRun], str] = {}
            while order.is_active():
                for name in order.get_ready():
                    inputs = resolve(specs[name], given, ended, artifacts)
                    waiting[pool.submit(self._task, going, specs[name], inputs)] = name
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    name = waiting.pop(future)
                    ended[name] = future.result()
                    order.done(name)
        going.run.tasks.update({name: task for name, task in ended.items() if specs[name].dag is None})
        return TaskRun()

    def path(self, uri: str, volume: SharedVolume | None = None) -> Path:
        """Where an artifact lies: in the folder that stands for the object store, or in that of a volume."""
        if volume is not None:
            return Places(str(self._folder / "volumes" / volume.claim)).local(uri)
        scheme, _, rest = uri.partition("://")
        return self._folder / "store" / scheme / rest

    def _task(self, going: _Going, spec: TaskSpec, inputs: Json) -> TaskRun:
        if spec.dag is None:
            return self._container(going, spec, inputs)
        if triggers(spec, inputs):
            return self._group(going, spec.dag, inputs["parameterValues"], inputs["artifacts"])
        skipped = all_tasks(going.pipeline, spec.dag)
        self._told(f"{', '.join(skipped)} skipped")
        going.run.skipped.update(skipped)
        return TaskRun()

    def _container(self, going: _Going, spec: TaskSpec, inputs: Json) -> TaskRun:
        outputs, mounts = provision(spec, going.root, str(uuid.uuid4())), going.volumes.get(spec.executor, {})
        key = fingerprint(spec, inputs, outputs)
        if spec.cacheable and key in self._cache:
            self._told(f"{spec.name} cached")
            return TaskRun(self._cache[key].artifacts, self._cache[key].parameters, cached=True)
        self._told(f"{spec.name} running")
        volumes = {mount: self._folder / "volumes" / claim for mount, claim in mounts.items()}
        pod = Pod(self._folder / "pods" / f"{spec.name}-{uuid.uuid4().hex[:8]}", self._folder / "store", volumes)
        output = pod.launch(spec, {"inputs": inputs, "outputs": outputs})
        pod.remove()
        made = TaskRun(self._recorded(outputs, output), output.get("parameterValues", {}))
        self._cache[key] = made
        self._told(f"{spec.name} done")
        return made

    def _recorded(self, outputs: Json, output: Json) -> dict[str, Json]:
        """The artifacts as they come back from ML Metadata: a number for a name, no type, all numbers doubles."""
        recorded = {}
        for key, group in outputs["artifacts"].items():
            (declared,) = group["artifacts"]
            told = output.get("artifacts", {}).get(key, {}).get("artifacts", [{}])[0]
            kubeflows = {"display_name": key, "store_session_info": SESSION}
            recorded[key] = {
                "name": str(uuid.uuid4().int % 10**12),
                "uri": told.get("uri") or declared["uri"],
                "type": {"instanceSchema": ""},
                "metadata": {**told.get("metadata", {}), **kubeflows},
            }
        return recorded


def _defaults(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    parameters = pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
    return {name: one["defaultValue"] for name, one in parameters.items() if "defaultValue" in one}


def _volumes(platform: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Executor to its mounts: path to the claim."""
    executors = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    return {
        label: {mount["mountPath"]: mount["constant"] for mount in executor.get("pvcMount", [])}
        for label, executor in executors.items()
    }
