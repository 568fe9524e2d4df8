"""The Kubernetes settings of a task, through kfp-kubernetes, which only they need."""

from __future__ import annotations

from typing import Any

from headrace.configs.durations import seconds
from headrace.configs.errors import MissingDependencyError
from headrace.configs.kubeflow import SHARED_MEMORY, ComponentSettings, KubeflowConfig, Secret, Security
from headrace.pipeline.kubeflow.backends import knows
from headrace.pipeline.kubeflow.invocation import Invocation
from headrace.pipeline.kubeflow.kept import reaches_the_store
from headrace.pipeline.kubeflow.store import KEYS


def needs_platform(settings: KubeflowConfig, invocation: Invocation) -> bool:
    """Whether a task has settings that go into the Kubernetes document."""
    one = settings.settings(invocation.id)
    named = (one.node_selector, one.tolerations, one.volumes, one.secrets, one.timeout, one.labels, one.shared_memory)
    further = (_pull_secrets(settings, one), settings.volume, _store_secret(settings, invocation))
    return bool(any(named) or any(further) or _security(settings, one))


def set_platform(task: Any, settings: KubeflowConfig, invocation: Invocation) -> None:
    """Put them there. Raises MissingDependencyError without kfp-kubernetes."""
    try:
        from kfp import kubernetes
    except ImportError as error:
        raise MissingDependencyError(
            f"kubeflow: the Kubernetes settings of {invocation.id} need the package kfp-kubernetes, which is not"
            " installed.\n  Install it with: pip install 'kfp-kubernetes>=2.16,<2.17'"
        ) from error
    one = settings.settings(invocation.id)
    secret = _store_secret(settings, invocation)
    _set_scheduling(kubernetes, task, one)
    for volume in one.volumes:
        kubernetes.mount_pvc(task, volume.claim, volume.path, volume.sub_path or "")
    if settings.volume is not None:
        kubernetes.mount_pvc(task, settings.volume.claim, settings.volume.path)
    for each in (*one.secrets, *([secret] if secret else [])):
        for variable, key in sorted(each.env.items()):  # one by one, as two may have the same key
            kubernetes.use_secret_as_env(task, each.name, {key: variable}, each.optional)
        if each.path is not None:
            kubernetes.use_secret_as_volume(task, each.name, each.path, each.optional)
    if pulling := _pull_secrets(settings, one):
        kubernetes.set_image_pull_secrets(task, list(pulling))
    if security := _security(settings, one):
        kubernetes.set_security_context(task, **security)
    _leave_out_defaults(task, settings)


def _set_scheduling(kubernetes: Any, task: Any, one: ComponentSettings) -> None:
    for name, value in sorted(one.node_selector.items()):
        kubernetes.add_node_selector(task, name, value)
    for name, value in sorted(one.labels.items()):
        kubernetes.add_pod_label(task, name, value)
    for each in one.tolerations:
        kubernetes.add_toleration(task, each.key, each.operator, each.value, each.effect, each.seconds)
    if one.timeout is not None:
        kubernetes.set_timeout(task, seconds(one.timeout))
    if one.shared_memory is not None:
        kubernetes.empty_dir_mount(task, SHARED_MEMORY, "/dev/shm", "Memory", one.shared_memory)  # noqa: S108


def _store_secret(settings: KubeflowConfig, invocation: Invocation) -> Secret | None:
    """The Secret with the object store's keys, for the components that reach it themselves."""
    store, name = settings.object_store, settings.store_secret
    if name is None or settings.storage != "staged" or not reaches_the_store(invocation):
        return None
    return Secret(name=name, env=dict(zip(KEYS, (store.access_key, store.secret_key), strict=True)))


def _pull_secrets(settings: KubeflowConfig, one: ComponentSettings) -> tuple[str, ...]:
    return settings.image_pull_secrets if one.image_pull_secrets is None else one.image_pull_secrets


def _security(settings: KubeflowConfig, one: ComponentSettings) -> dict[str, int]:
    """What `set_security_context` is given; nothing where all is left to the image.

    What a config asks for is told to older backends too, so that `backends.check` refuses it.
    """
    if one.security is None and not knows("securityContext", settings.backend):
        return {}
    chosen = one.security or Security()
    told = {"run_as_user": chosen.user, "run_as_group": chosen.group, "run_as_non_root": chosen.non_root or None}
    return {name: value for name, value in told.items() if value is not None}


def _leave_out_defaults(task: Any, settings: KubeflowConfig) -> None:
    """kfp-kubernetes writes `optional: false` always, and a server that does not know the field drops everything.
    Left out it means the same.
    """
    for secret in task.platform_config["kubernetes"].get("secretAsEnv", ()):
        if not secret["optional"] and not knows("secretAsEnv.optional", settings.backend):
            del secret["optional"]
