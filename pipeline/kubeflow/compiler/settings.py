"""The settings of a task: resources and retries in the pipeline's own document, the rest in the Kubernetes document."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kfp import kubernetes

from headrace.configs.schema.kubeflow import TRAINER, KubeflowConfig
from headrace.configs.schema.pod_resources import PeakUsage, with_resources
from headrace.configs.schema.pods import SHARED_MEMORY_VOLUME, ComponentSettings, Secret, Security
from headrace.configs.schema.section import to_seconds
from headrace.pipeline.kubeflow.compiler.checks import knows
from headrace.pipeline.kubeflow.compiler.tasks import ComponentTask
from headrace.pipeline.kubeflow.distributed.jobset import MANIFEST, manifest_text
from headrace.pipeline.kubeflow.document import ORIGIN
from headrace.pipeline.kubeflow.pod.invocation import UNCACHED_VARIABLE
from headrace.pipeline.kubeflow.store import KEYS


def apply_settings(
    sdk_task: Any, task: ComponentTask, settings: KubeflowConfig, peaks: Mapping[str, PeakUsage], origin: str
) -> None:
    """Apply the config's settings to a task of the SDK.

    peaks: measured, by component; origin: what the Trainer's pod notes beside its model.
    """
    id_ = task.invocation.id
    sdk_task.set_caching_options(task.cacheable).set_display_name(id_)
    set_resources(sdk_task, _with_resources(id_, settings.settings(id_), settings, peaks))
    if task.uncached:
        sdk_task.set_env_variable(UNCACHED_VARIABLE, json.dumps(task.uncached))
    if id_ == TRAINER:
        sdk_task.set_env_variable(ORIGIN, origin)
    if id_ == TRAINER and settings.workers is not None:
        worker = _with_resources(id_, settings.worker, settings, peaks)
        sdk_task.set_env_variable(MANIFEST, manifest_text(settings, worker))
    set_kubernetes(sdk_task, settings, settings.settings(id_), uses_store=task.invocation.uses_store)


def _with_resources(
    id_: str, own: ComponentSettings, settings: KubeflowConfig, peaks: Mapping[str, PeakUsage]
) -> ComponentSettings:
    return own if settings.resources == "none" else with_resources(id_, own, peaks)


def set_resources(sdk_task: Any, settings: ComponentSettings) -> None:
    """Settings that the pipeline's own document has fields for."""
    chosen: list[tuple[Callable[[str], Any], str | float | None]] = [
        (sdk_task.set_cpu_request, settings.cpu),
        (sdk_task.set_cpu_limit, settings.cpu_limit),
        (sdk_task.set_memory_request, settings.memory),
        (sdk_task.set_memory_limit, settings.memory_limit),
    ]
    for setter, value in chosen:
        if value is not None:
            setter(f"{value:g}" if isinstance(value, float | int) else value)
    if settings.accelerator is not None:
        sdk_task.set_accelerator_type(settings.accelerator.type).set_accelerator_limit(settings.accelerator.count)
    for name, text in sorted(settings.env.items()):
        sdk_task.set_env_variable(name, text)
    if settings.retries is not None:
        retries = settings.retries
        sdk_task.set_retry(retries.count, retries.wait, retries.factor, retries.at_most)


def set_kubernetes(sdk_task: Any, settings: KubeflowConfig, one: ComponentSettings, *, uses_store: bool) -> None:
    """Apply the settings that stand in the Kubernetes document. uses_store: whether the pod uses the object store
    itself, and so needs its keys.
    """
    secret = _store_secret(settings) if uses_store else None
    _set_scheduling(sdk_task, one)
    for volume in one.volumes:
        kubernetes.mount_pvc(sdk_task, volume.claim, volume.path, volume.sub_path or "")
    if settings.volume is not None:
        kubernetes.mount_pvc(sdk_task, settings.volume.claim, settings.volume.path)
    for each in (*one.secrets, *([secret] if secret else [])):
        for variable, key in sorted(each.env.items()):  # one call each, because two variables may have the same key
            kubernetes.use_secret_as_env(sdk_task, each.name, {key: variable}, each.optional)
        if each.path is not None:
            kubernetes.use_secret_as_volume(sdk_task, each.name, each.path, each.optional)
    if pulling := _pull_secrets(settings, one):
        kubernetes.set_image_pull_secrets(sdk_task, list(pulling))
    if security := _security(settings, one):
        kubernetes.set_security_context(sdk_task, **security)
    _leave_out_defaults(sdk_task, settings)


def _set_scheduling(sdk_task: Any, one: ComponentSettings) -> None:
    for name, value in sorted(one.node_selector.items()):
        kubernetes.add_node_selector(sdk_task, name, value)
    for name, value in sorted(one.labels.items()):
        kubernetes.add_pod_label(sdk_task, name, value)
    for each in one.tolerations:
        kubernetes.add_toleration(sdk_task, each.key, each.operator, each.value, each.effect, each.seconds)
    if one.timeout is not None:
        kubernetes.set_timeout(sdk_task, to_seconds(one.timeout))
    if one.shared_memory is not None:
        kubernetes.empty_dir_mount(sdk_task, SHARED_MEMORY_VOLUME, "/dev/shm", "Memory", one.shared_memory)  # noqa: S108


def _store_secret(settings: KubeflowConfig) -> Secret | None:
    """The Secret with the object store's keys, if there is one."""
    store, name = settings.object_store, settings.store_secret
    if name is None or settings.storage != "staged":
        return None
    return Secret(name=name, env=dict(zip(KEYS, (store.access_key, store.secret_key), strict=True)))


def _pull_secrets(settings: KubeflowConfig, one: ComponentSettings) -> tuple[str, ...]:
    return settings.image_pull_secrets if one.image_pull_secrets is None else one.image_pull_secrets


def _security(settings: KubeflowConfig, one: ComponentSettings) -> dict[str, int]:
    """The arguments of `set_security_context`; empty if everything is left to the image.

    An explicit setting is passed on for older backends too, so that `check_backend` rejects it.
    """
    if one.security is None and not knows("securityContext", settings.backend):
        return {}
    chosen = one.security or Security()
    given = {"run_as_user": chosen.user, "run_as_group": chosen.group, "run_as_non_root": chosen.non_root or None}
    return {name: value for name, value in given.items() if value is not None}


def _leave_out_defaults(sdk_task: Any, settings: KubeflowConfig) -> None:
    """Remove `optional: false`, which kfp-kubernetes always writes: a server that does not know the field drops
    everything, and without it the meaning is the same.
    """
    for secret in sdk_task.platform_config.get("kubernetes", {}).get("secretAsEnv", ()):
        if not secret["optional"] and not knows("secretAsEnv.optional", settings.backend):
            del secret["optional"]
