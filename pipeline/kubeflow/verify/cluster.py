"""A cluster in a folder, which runs compiled pipelines: each task in a process of its own.

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

from headrace.common import yaml_text
from headrace.configs.schema.kubeflow import SharedVolume
from headrace.pipeline.kubeflow.document import TaskSpec, all_tasks, task_specs
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.verify.driver import Json, TaskRun, condition_holds, fingerprint, provision, resolve
from headrace.pipeline.kubeflow.verify.launcher import Pod

PARALLEL_TASKS = 2
SESSION = '{"Provider":"minio","Params":{"fromEnv":"true"}}'


@dataclass
class ClusterRun:
    run_id: str
    tasks: dict[str, TaskRun] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    """Tasks in groups whose condition did not hold."""

    @property
    def cached(self) -> set[str]:
        """The tasks whose result came from the cache."""
        return {name for name, task in self.tasks.items() if task.cached}


@dataclass(frozen=True)
class _ActiveRun:
    """A run in progress. root: the URI of its folder; volumes: mounts by executor."""

    pipeline: Mapping[str, Any]
    run: ClusterRun
    root: str
    volumes: Mapping[str, Mapping[str, str]]


class Cluster:
    """The folder contains the object store, the volumes, the pods and the cache.

    Args:
        folder: Where all of it is; created when needed.
        root: The pipeline root of the runs, a URI.
        report: Called with a line whenever a task starts, ends or is skipped.
    """

    def __init__(self, folder: Path, root: str, report: Callable[[str], None] = lambda _: None) -> None:
        self._folder, self._root, self._report = folder, root.rstrip("/"), report
        self._cache_file = folder / "cache.json"
        known = json.loads(self._cache_file.read_text(encoding="utf-8")) if self._cache_file.exists() else {}
        self._cache = {key: TaskRun(**task) for key, task in known.items()}
        self.store_folder = folder / "store"
        self.store = Store({}, str(self.store_folder))

    def run(self, text: str, parameters: Mapping[str, Any] | None = None) -> ClusterRun:
        """Run a compiled pipeline to its end. Raises RunError at the first task that fails."""
        pipeline, *more = yaml_text.parse_all(text)
        run = ClusterRun(str(uuid.uuid4()))
        given = {**_defaults(pipeline), **(parameters or {})}
        root = f"{self._root}/{pipeline['pipelineInfo']['name']}/{run.run_id}"
        active = _ActiveRun(pipeline, run, root, _volumes(more[0] if more else {}))
        self._group(active, None, given, {})
        self._cache_file.write_text(
            json.dumps({key: asdict(task) for key, task in self._cache.items()}), encoding="utf-8"
        )
        return run

    def _group(
        self, active: _ActiveRun, dag: Mapping[str, Any] | None, given: Mapping[str, Any], artifacts: Mapping[str, Json]
    ) -> TaskRun:
        """Run the pipeline's tasks, or those of a group, each after those that it depends on."""
        specs = task_specs(active.pipeline, dag)
        ended: dict[str, TaskRun] = {}
        order = TopologicalSorter({name: spec.after for name, spec in specs.items()})
        order.prepare()
        with ThreadPoolExecutor(PARALLEL_TASKS) as pool:
            waiting: dict[Future[TaskRun], str] = {}
            while order.is_active():
                for name in order.get_ready():
                    inputs = resolve(specs[name], given, ended, artifacts)
                    waiting[pool.submit(self._task, active, specs[name], inputs)] = name
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    name = waiting.pop(future)
                    ended[name] = future.result()
                    order.done(name)
        active.run.tasks.update({name: task for name, task in ended.items() if specs[name].dag is None})
        return TaskRun()

    def path(self, uri: str, volume: SharedVolume | None = None) -> Path:
        """The path of an artifact in the folder that stands for the object store, or in that of a volume."""
        if volume is not None:
            return PodPaths(str(self._folder / "volumes" / volume.claim)).local(uri)
        scheme, _, rest = uri.partition("://")
        return self._folder / "store" / scheme / rest

    def _task(self, active: _ActiveRun, spec: TaskSpec, inputs: Json) -> TaskRun:
        if spec.dag is None:
            return self._container(active, spec, inputs)
        if condition_holds(spec, inputs):
            return self._group(active, spec.dag, inputs["parameterValues"], inputs["artifacts"])
        skipped = all_tasks(active.pipeline, spec.dag)
        self._report(f"{', '.join(skipped)} skipped")
        active.run.skipped.update(skipped)
        return TaskRun()

    def _container(self, active: _ActiveRun, spec: TaskSpec, inputs: Json) -> TaskRun:
        outputs, mounts = provision(spec, active.root, str(uuid.uuid4())), active.volumes.get(spec.executor, {})
        key = fingerprint(spec, inputs, outputs)
        if spec.cacheable and key in self._cache:
            self._report(f"{spec.name} cached")
            return TaskRun(self._cache[key].artifacts, self._cache[key].parameters, cached=True)
        self._report(f"{spec.name} running")
        volumes = {mount: self._folder / "volumes" / claim for mount, claim in mounts.items()}
        pod = Pod(self._folder / "pods" / f"{spec.name}-{uuid.uuid4().hex[:8]}", self._folder / "store", volumes)
        output = pod.launch(spec, {"inputs": inputs, "outputs": outputs})
        pod.remove()
        made = TaskRun(self._recorded(outputs, output), output.get("parameterValues", {}))
        self._cache[key] = made
        self._report(f"{spec.name} done")
        return made

    def _recorded(self, outputs: Json, output: Json) -> dict[str, Json]:
        """The artifacts as ML Metadata returns them: named by a number, without a type, with all numbers as doubles."""
        recorded = {}
        for key, group in outputs["artifacts"].items():
            (declared,) = group["artifacts"]
            written = output.get("artifacts", {}).get(key, {}).get("artifacts", [{}])[0]
            of_kubeflow = {"display_name": key, "store_session_info": SESSION}
            recorded[key] = {
                "name": str(uuid.uuid4().int % 10**12),
                "uri": written.get("uri") or declared["uri"],
                "type": {"instanceSchema": ""},
                "metadata": {**written.get("metadata", {}), **of_kubeflow},
            }
        return recorded


def _defaults(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    parameters = pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
    return {name: one["defaultValue"] for name, one in parameters.items() if "defaultValue" in one}


def _volumes(platform: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Executor to its mounts: path to claim."""
    executors = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    return {
        label: {mount["mountPath"]: mount["constant"] for mount in executor.get("pvcMount", [])}
        for label, executor in executors.items()
    }
