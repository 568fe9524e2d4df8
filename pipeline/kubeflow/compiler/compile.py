"""From the config to Kubeflow's YAML: one container task for each component, through the KFP SDK's public API.

    Path("pipeline.yaml").write_text(compile_pipeline(load("configs/taxi.yaml")))

The text depends only on the config, the code and the KFP SDK; with `kubeflow.resources: auto`, on the last runs too.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from kfp import compiler, components, dsl

from headrace.common import yaml_text
from headrace.common.errors import RunError
from headrace.components.trigger.decision import GO, NO
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.section import to_seconds
from headrace.pipeline.code.commit import commit_of
from headrace.pipeline.kubeflow.compiler import checks, credentials, exit_handler
from headrace.pipeline.kubeflow.compiler.measured import peaks
from headrace.pipeline.kubeflow.compiler.settings import apply_settings
from headrace.pipeline.kubeflow.compiler.tasks import ComponentTask, component_tasks
from headrace.pipeline.kubeflow.document import with_retry_limits
from headrace.pipeline.kubeflow.pod.invocation import Invocation, pack, without_placeholders
from headrace.pipeline.kubeflow.pod.origin import Compiled
from headrace.pipeline.kubeflow.pod.parameters import PARAMETERS, offered
from headrace.pipeline.kubeflow.store import open_store
from headrace.pipeline.kubeflow.store_settings import store_options

logger = logging.getLogger(__name__)
COMMAND = ("python", "-P", "-m", "headrace.pipeline.kubeflow.entrypoint")
EXECUTOR_INPUT = "{{$}}"
"""Kubeflow's launcher replaces this with the executor input."""


def compile_pipeline(
    config: PipelineConfig, environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> str:
    """The YAML: the pipeline, and a second document with the Kubernetes settings if there are any.

    Args:
        config: Needs `kubeflow.image`.
        environ: Variables whose values must not appear in the text if they hold credentials.
        folder: That of the config, whose Git commit is noted with each model; None if the config is in no file.

    Raises:
        ConfigError: A setting that Kubeflow needs is missing, or cannot work there.
        RunError: The server would drop a setting, or the text would contain a credential.
    """
    # For each setting of a task, the SDK reads the whole call stack (inspect.stack), for which Python searches all
    # loaded modules frame by frame: 5 s of a compilation in a notebook. A thread has few frames.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, _compile, config, environ, folder).result()


def _compile(config: PipelineConfig, environ: Mapping[str, str], folder: Path | None) -> str:
    checks.check_config(config)
    if not config.only_predicts and config.evaluate.what_passes:
        logger.warning(f"warning: {config.evaluate.what_passes}")
    tasks = component_tasks(config)
    text = with_retry_limits(
        _compiled(_pipeline(config, tasks, _origin(config, tasks, folder))), _retry_limits(tasks, config.kubeflow)
    )
    documents = yaml_text.parse_all(text)
    checks.check_backend(documents[1] if len(documents) > 1 else {}, config.kubeflow.backend)
    packed = [*(task.invocation.to_json() for task in tasks), *exit_handler.packed(config)]
    credentials.check([*documents, *packed], environ, credentials.declared(config))
    return text


def _origin(config: PipelineConfig, tasks: Sequence[ComponentTask], folder: Path | None) -> str:
    """What the Trainer's pod gets as ORIGIN."""
    hash_, dirty = (folder and commit_of(folder.absolute())) or (None, False)
    code = "".join(task.code for task in tasks)
    compiled = Compiled(commit=hash_, dirty=dirty, config=to_yaml(config), code=code)
    try:
        return pack(without_placeholders(compiled.model_dump_json()), "the config")
    except RunError:  # with thousands of columns: the rest is noted anyway
        return without_placeholders(compiled.model_copy(update={"config": None}).model_dump_json())


def _pipeline(config: PipelineConfig, tasks: Sequence[ComponentTask], origin: str) -> Any:
    """The pipeline as an object of the SDK."""
    settings = config.kubeflow
    measured = peaks(config, open_store(store_options(settings))) if settings.resources == "auto" else {}
    loaded = {task.name: components.load_component_from_text(_specification(task, settings)) for task in tasks}

    def body(*values: Any) -> None:
        parameters = dict(zip(offered(config), values, strict=True))
        made: dict[str, Any] = {}
        with contextlib.ExitStack() as conditions:
            if exit_handler.is_wanted(config):
                handler = exit_handler.exit_task(config)
                conditions.enter_context(dsl.ExitHandler(handler, name=exit_handler.GROUP_TITLE))
            for decider, group in _groups(tasks):
                if decider is not None:
                    conditions.enter_context(dsl.If(made[decider].outputs[GO] != NO, name=f"after-{decider}"))
                for task in group:
                    inputs = {key: made[producer].outputs[output] for key, (producer, output) in task.inputs.items()}
                    of_run = {name: parameters[name] for name in task.parameters}
                    one = loaded[task.name](**inputs, **of_run, **task.constants)
                    one.after(*(made[name] for name in _without_data(task)))
                    apply_settings(one, task, settings, measured, origin)
                    made[task.name] = one

    body.__signature__ = _signature(config)  # type: ignore[attr-defined]
    return dsl.pipeline(name=config.pipeline.name, pipeline_root=settings.pipeline_root)(body)


def _groups(tasks: Sequence[ComponentTask]) -> list[tuple[str | None, list[ComponentTask]]]:
    """The tasks that always run; then the tasks that run if the named task decides so; and so on.

    Tasks after a task that decides are in a later group, and each group's condition is nested in the one before.
    """
    depth: dict[str, int] = {}
    deciders = {task.name for task in tasks if task.decides}
    for task in tasks:
        depth[task.name] = max((depth[name] + (name in deciders) for name in task.after), default=0)
    named = {depth[name] + 1: name for name in deciders}
    return [
        (named.get(level), [task for task in tasks if depth[task.name] == level])
        for level in sorted(set(depth.values()))
    ]


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


def _without_data(task: ComponentTask) -> list[str]:
    """The tasks that must end first although none of their outputs is used."""
    used = {producer for producer, _ in task.inputs.values()}
    return [name for name in task.after if name not in used]


def _compiled(pipeline: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        logging.getLogger("kfp").setLevel(logging.ERROR)
        compiler.Compiler().compile(pipeline, str(file))
        return file.read_text(encoding="utf-8")


def _retry_limits(tasks: Sequence[ComponentTask], settings: KubeflowConfig) -> dict[str, int]:
    """Task to its `retries.at_most` in seconds."""
    retries = {task.name: settings.settings(task.invocation.id).retries for task in tasks}
    return {name: to_seconds(one.at_most) for name, one in retries.items() if one is not None}


def _specification(task: ComponentTask, settings: KubeflowConfig) -> str:
    """A pipeline of this one task in Kubeflow's own format, which the SDK loads as a component."""
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


def _interface(task: ComponentTask) -> dict[str, Any]:
    types: dict[type, str] = {str: "STRING", int: "NUMBER_INTEGER"}
    of_run = {name: types[PARAMETERS[name].type] for name in task.parameters}
    texts = dict.fromkeys([*task.text_inputs(), *task.constants], "STRING")
    return {
        "inputDefinitions": {
            "artifacts": _artifacts(task.artifact_inputs()),
            "parameters": {key: {"parameterType": type_} for key, type_ in {**texts, **of_run}.items()},
        },
        "outputDefinitions": {
            "artifacts": _artifacts(task.artifact_outputs()),
            "parameters": {key: {"parameterType": "STRING"} for key in task.text_outputs()},
        },
    }


def _artifacts(types: Mapping[str, str]) -> dict[str, Any]:
    return {key: {"artifactType": {"schemaTitle": type_, "schemaVersion": "0.0.1"}} for key, type_ in types.items()}


def _selector(task: ComponentTask, key: str) -> dict[str, str]:
    return {"outputArtifactKey": key, "producerSubtask": task.name}
