"""From the config to Kubeflow's YAML: one plain container task for each component, through the KFP SDK's public API.

    Path("pipeline.yaml").write_text(compile_pipeline(load("configs/taxi.yaml")))

The text depends on the config, the code and the KFP SDK alone (with `kubeflow.resources: auto`, on the last runs too).
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from kfp import compiler, components, dsl

from headrace.components.trigger.look import GO, NO
from headrace.configs.config import PipelineConfig
from headrace.configs.durations import seconds
from headrace.configs.errors import ConfigError, Problem
from headrace.configs.kubeflow import TRAINER, ComponentSettings, KubeflowConfig
from headrace.configs.pod_resources import Peak, settled
from headrace.pipeline.kubeflow import backends, credentials, within_reach
from headrace.pipeline.kubeflow.argument import pack
from headrace.pipeline.kubeflow.aside import VARIABLE
from headrace.pipeline.kubeflow.distributed.jobset import MANIFEST, manifest_text
from headrace.pipeline.kubeflow.invocation import Invocation
from headrace.pipeline.kubeflow.measured import peaks
from headrace.pipeline.kubeflow.parameters import PARAMETERS, offered
from headrace.pipeline.kubeflow.platform import needs_platform, set_platform
from headrace.pipeline.kubeflow.store import open_store
from headrace.pipeline.kubeflow.tasks import Task, tasks
from headrace.pipeline.kubeflow.written import with_time_for_tries

COMMAND = ("python", "-P", "-m", "headrace.pipeline.kubeflow.entrypoint")
EXECUTOR_INPUT = "{{$}}"
"""What Kubeflow's launcher puts the executor input in the place of."""


def compile_pipeline(config: PipelineConfig, environ: Mapping[str, str] = os.environ) -> str:
    """The YAML: the pipeline, and a second document with the Kubernetes settings where there are any.

    Raises ConfigError if a setting that Kubeflow needs is missing, or cannot work there; RunError for a setting that
    the server would drop, and for a credential in the text. environ: variables whose values must not stand in it.
    """
    # With each setting of a task the SDK takes the whole call stack (inspect.stack), for which Python looks through all
    # loaded modules frame by frame: 5 s of a compilation in a notebook. A thread has few frames.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, _compile, config, environ).result()


def _compile(config: PipelineConfig, environ: Mapping[str, str]) -> str:
    _check(config)
    within_reach.check(config)
    found = tasks(config)
    text = with_time_for_tries(_compiled(_pipeline(config, found)), _time_for_tries(found, config.kubeflow))
    backends.check(_platform_document(text), config.kubeflow.backend)
    documents = [*yaml.safe_load_all(text), *(task.invocation.to_json() for task in found)]
    credentials.check(documents, environ, credentials.declared(config))
    return text


def _check(config: PipelineConfig) -> None:
    settings = config.kubeflow
    if settings.image is None:
        raise ConfigError(
            Problem(
                "kubeflow.image",
                "name the image that the components run in, such as registry.example/headrace:1"
                " (`headrace image` builds it), here or by `--set kubeflow.image=NAME`",
            )
        )
    if config.train.strategy == "multi_worker" and settings.workers is None:
        what = "on Kubeflow it trains in several pods; say in how many, such as `kubeflow: {workers: {count: 2}}`"
        raise ConfigError(Problem("train.strategy", what))
    push = config.push_directory
    mounts = [volume.path for volume in settings.settings("Pusher").volumes]
    mounts += [settings.volume.path] if settings.volume else []
    if push is not None and Path(push).is_absolute() and not any(Path(push).is_relative_to(path) for path in mounts):
        what = (
            f"{push} is on no volume that the Pusher's pod mounts, so what is pushed there would be lost with the pod"
        )
        raise ConfigError(Problem("deploy.push", f"{what}; mount one under kubeflow.components.Pusher.volumes"))


def _pipeline(config: PipelineConfig, found: Sequence[Task]) -> Any:
    """The pipeline as the SDK knows it."""
    settings = config.kubeflow
    took = peaks(config, open_store(backends.store_options(settings))) if settings.resources == "auto" else {}
    loaded = {task.name: components.load_component_from_text(_specification(task, settings)) for task in found}

    def body(*values: Any) -> None:
        given = dict(zip(offered(config), values, strict=True))
        made: dict[str, Any] = {}
        with contextlib.ExitStack() as conditions:
            for decider, group in _groups(found):
                if decider is not None:
                    conditions.enter_context(dsl.If(made[decider].outputs[GO] != NO, name=f"after-{decider}"))
                for task in group:
                    wired = {key: made[producer].outputs[output] for key, (producer, output) in task.inputs.items()}
                    of_run = {name: given[name] for name in task.parameters}
                    one = loaded[task.name](**wired, **of_run, **task.constants)
                    one.after(*(made[name] for name in _unconnected(task)))
                    _set(one, task, settings, took)
                    made[task.name] = one

    body.__signature__ = _signature(config)  # type: ignore[attr-defined]
    return dsl.pipeline(name=config.pipeline.name, pipeline_root=settings.pipeline_root)(body)


def _groups(found: Sequence[Task]) -> list[tuple[str | None, list[Task]]]:
    """The tasks that run whatever happens; then those that run if the task named lets them; and so on.

    What follows a task that decides is in a group after its own, and each group's condition lies within the one before.
    """
    depth: dict[str, int] = {}
    deciders = {task.name for task in found if task.decides}
    for task in found:
        depth[task.name] = max((depth[name] + (name in deciders) for name in task.after), default=0)
    named = {depth[name] + 1: name for name in deciders}
    return [
        (named.get(level), [task for task in found if depth[task.name] == level])
        for level in sorted(set(depth.values()))
    ]


def _set(one: Any, task: Task, settings: KubeflowConfig, took: Mapping[str, Peak]) -> None:
    """What the task is to have beside its inputs."""
    id_ = task.invocation.id
    one.set_caching_options(task.cacheable).set_display_name(id_)
    _set_resources(one, _sized(id_, settings.settings(id_), settings, took))
    if task.aside:
        one.set_env_variable(VARIABLE, json.dumps(task.aside))
    if id_ == TRAINER and settings.workers is not None:
        one.set_env_variable(MANIFEST, manifest_text(settings, _sized(id_, settings.worker, settings, took)))
    if needs_platform(settings, task.invocation):
        set_platform(one, settings, task.invocation)


def _sized(id_: str, own: ComponentSettings, settings: KubeflowConfig, took: Mapping[str, Peak]) -> ComponentSettings:
    return own if settings.resources == "none" else settled(id_, own, took)


def _signature(config: PipelineConfig) -> inspect.Signature:
    chosen = {name: PARAMETERS[name] for name in offered(config)}
    return inspect.Signature(
        [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=one.default(config), annotation=one.type
            )
            for name, one in chosen.items()
        ]
    )


def _unconnected(task: Task) -> list[str]:
    """The tasks that must end first though nothing of theirs is used."""
    used = {producer for producer, _ in task.inputs.values()}
    return [name for name in task.after if name not in used]


def _compiled(pipeline: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        logging.getLogger("kfp").setLevel(logging.ERROR)
        compiler.Compiler().compile(pipeline, str(file))
        return file.read_text(encoding="utf-8")


def _time_for_tries(found: Sequence[Task], settings: KubeflowConfig) -> dict[str, int]:
    """Tasks that are tried again, to the seconds in which they are."""
    again = {task.name: settings.settings(task.invocation.id).retries for task in found}
    return {name: seconds(one.at_most) for name, one in again.items() if one is not None}


def _platform_document(text: str) -> Mapping[str, Any]:
    documents = list(yaml.safe_load_all(text))
    return documents[1] if len(documents) > 1 else {}


def _specification(task: Task, settings: KubeflowConfig) -> str:
    """A pipeline of this one task, in Kubeflow's own format; the SDK takes it for a component."""
    component = _interface(task)
    image = settings.settings(task.invocation.id).image or settings.image
    container = {"image": image, "command": [*COMMAND], "args": _arguments(task.invocation)}
    names = {key: {"componentInputArtifact": key} for key in component["inputDefinitions"]["artifacts"]}
    values = {key: {"componentInputParameter": key} for key in component["inputDefinitions"]["parameters"]}
    outputs = component["outputDefinitions"]
    dag_outputs = {
        "artifacts": {key: {"artifactSelectors": [_selector(task, key)]} for key in outputs["artifacts"]},
        "parameters": {
            key: {"valueFromParameter": {"producerSubtask": task.name, "outputParameterKey": key}}
            for key in outputs["parameters"]
        },
    }
    root_task = {
        "componentRef": {"name": f"comp-{task.name}"},
        "taskInfo": {"name": task.name},
        "inputs": {"artifacts": names, "parameters": values},
    }
    return yaml.safe_dump(
        {
            "components": {f"comp-{task.name}": {"executorLabel": f"exec-{task.name}", **component}},
            "deploymentSpec": {"executors": {f"exec-{task.name}": {"container": container}}},
            "pipelineInfo": {"name": task.name},
            "root": {"dag": {"tasks": {task.name: root_task}, "outputs": dag_outputs}, **component},
            "schemaVersion": "2.1.0",
        }
    )


def _arguments(invocation: Invocation) -> list[str]:
    return ["--invocation", pack(invocation.to_json(), invocation.id), "--executor-input", EXECUTOR_INPUT]


def _interface(task: Task) -> dict[str, Any]:
    types: dict[type, str] = {str: "STRING", int: "NUMBER_INTEGER"}
    runs = {name: types[PARAMETERS[name].type] for name in task.parameters}
    texts = dict.fromkeys([*task.texts_in(), *task.constants], "STRING")
    return {
        "inputDefinitions": {
            "artifacts": _artifacts(task.artifacts_in()),
            "parameters": {key: {"parameterType": type_} for key, type_ in {**texts, **runs}.items()},
        },
        "outputDefinitions": {
            "artifacts": _artifacts(task.artifacts_out()),
            "parameters": {key: {"parameterType": "STRING"} for key in task.texts_out()},
        },
    }


def _artifacts(types: Mapping[str, str]) -> dict[str, Any]:
    return {key: {"artifactType": {"schemaTitle": type_, "schemaVersion": "0.0.1"}} for key, type_ in types.items()}


def _selector(task: Task, key: str) -> dict[str, str]:
    return {"outputArtifactKey": key, "producerSubtask": task.name}


def _set_resources(task: Any, settings: ComponentSettings) -> None:
    """What stands in the pipeline's own document."""
    chosen: list[tuple[Callable[[str], Any], str | float | None]] = [
        (task.set_cpu_request, settings.cpu),
        (task.set_cpu_limit, settings.cpu_limit),
        (task.set_memory_request, settings.memory),
        (task.set_memory_limit, settings.memory_limit),
    ]
    for setter, value in chosen:
        if value is not None:
            setter(f"{value:g}" if isinstance(value, float | int) else value)
    if settings.accelerator is not None:
        task.set_accelerator_type(settings.accelerator.type).set_accelerator_limit(settings.accelerator.count)
    for name, text in sorted(settings.env.items()):
        task.set_env_variable(name, text)
    if settings.retries is not None:
        again = settings.retries
        task.set_retry(again.count, again.wait, again.factor, again.at_most)
