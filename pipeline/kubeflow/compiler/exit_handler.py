"""The task that Kubeflow starts when all tasks of a run have ended: it tells the receivers of `notify:` of that run.

with dsl.ExitHandler(exit_task(config), name=GROUP_TITLE):
    ...                                       # all other tasks

Kubeflow makes the other tasks a group with an exit hook of Argo's: the hook runs however the group ended, and what
becomes of the hook changes nothing about the run. Its pod gets what it needs of Secrets by reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from kfp import components

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.schema.pods import ComponentSettings
from headrace.pipeline.kubeflow.compiler.settings import set_kubernetes, set_resources
from headrace.pipeline.kubeflow.pod.invocation import pack, without_placeholders

GROUP_TITLE = "components"
"""What Kubeflow's interface calls the group of all other tasks."""
TASK = "headrace-notify"
"""No component may be called so."""
RUN_ID = "run_id"
COMMAND = ("python", "-P", "-m", "headrace.pipeline.kubeflow.notifier.exit_handler")
RESOURCES = ComponentSettings(cpu=0.1, cpu_limit=2.0, memory="512Mi", memory_limit="2Gi")
"""Those of the CronJob's pod."""
TIMEOUT = "5m"
"""The longest that its pod may delay the end of a run: less than a cancelled run may take (`runs.LOST_AFTER`)."""


def is_wanted(config: PipelineConfig) -> bool:
    """Whether runs of the config have an exit handler."""
    return bool(config.notify) and config.kubeflow.notify is not None and config.kubeflow.notify.exit_handler


def packed(config: PipelineConfig) -> Iterator[str]:
    """What the task is given: the config's YAML as a JSON string, if there is an exit handler."""
    if is_wanted(config):
        yield json.dumps(to_yaml(config))


def exit_task(config: PipelineConfig) -> Any:
    """The task, as one of the SDK's. Raises RunError if the config is too long for an argument."""
    (text,) = packed(config)
    component = components.load_component_from_text(_specification(config.kubeflow.image or "", text))
    task = component(**{RUN_ID: "{{$.pipeline_job_uuid}}"})
    task.set_caching_options(False).set_display_name("Notify")
    settings = config.kubeflow
    secrets = settings.notify.secrets if settings.notify else ()
    own = {"secrets": secrets, "volumes": (), "timeout": TIMEOUT, "shared_memory": None}
    set_resources(task, RESOURCES)
    set_kubernetes(task, settings, settings.defaults.model_copy(update=own), uses_store=True)
    return task


def _specification(image: str, config: str) -> str:
    """A pipeline of this one task in Kubeflow's own format, which the SDK loads as a component."""
    arguments = ["--config", pack(without_placeholders(config), "the config"), "--executor-input", "{{$}}"]
    inputs = {"inputDefinitions": {"parameters": {RUN_ID: {"parameterType": "STRING"}}}}
    container = {"image": image, "command": [*COMMAND], "args": arguments}
    task = {
        "componentRef": {"name": f"comp-{TASK}"},
        "taskInfo": {"name": TASK},
        "inputs": {"parameters": {RUN_ID: {"componentInputParameter": RUN_ID}}},
    }
    return yaml.safe_dump(
        {
            "components": {f"comp-{TASK}": {"executorLabel": f"exec-{TASK}", **inputs}},
            "deploymentSpec": {"executors": {f"exec-{TASK}": {"container": container}}},
            "pipelineInfo": {"name": TASK},
            "root": {"dag": {"tasks": {TASK: task}}, **inputs},
            "schemaVersion": "2.1.0",
        }
    )
