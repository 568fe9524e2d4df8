"""`kubeflow.defaults` and `kubeflow.components`: what Kubernetes gives to the pod of a component."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from headrace.configs.schema.section import Duration, KeyPath, Name, Section

Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Cpu = Annotated[float, Field(ge=0.001, le=100_000)]
Bytes = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(E|Ei|P|Pi|T|Ti|G|Gi|M|Mi|Ki)?$")]
MountPath = Annotated[str, Field(pattern=r"^/[^:]+$")]

SHARED_MEMORY_VOLUME = "headrace-shared-memory"
"""Name of the volume for `shared_memory` in a pod."""
PLACEMENT = (
    "cpu",
    "cpu_limit",
    "memory",
    "memory_limit",
    "accelerator",
    "node_selector",
    "tolerations",
    "shared_memory",
)
"""Settings that place and size a pod. With workers, those of `components.Trainer` apply to the workers."""


class Accelerator(Section):
    """GPUs or TPUs of one type."""

    type: Name
    """The resource that a node offers, such as `nvidia.com/gpu` or `google.com/tpu`."""
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of accelerators."""


class Toleration(Section):
    """A taint of nodes that the pod tolerates."""

    key: Name | None = None
    """The taint's key. null: any."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Exists: any value of the taint."""
    value: Name | None = None
    """The taint's value; only for `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect. null: any."""
    seconds: Annotated[int, Field(ge=0)] | None = None
    """How long it is tolerated; only for `NoExecute`. null: forever."""


class Volume(Section):
    """A PersistentVolumeClaim, mounted into the pod."""

    claim: Name
    """Name of the PersistentVolumeClaim, in the namespace of the run."""
    path: MountPath
    """Where it is mounted."""
    sub_path: Name | None = None
    """The folder of the volume to mount. null: the whole volume. Requires a backend of 2.16 or newer."""


class Secret(Section):
    """A Kubernetes Secret: its keys as environment variables, or as files below a path."""

    name: Name
    """Name of the Secret, in the namespace of the run."""
    env: dict[str, Name] = {}
    """Environment variables, each with the key of the Secret that holds its value."""
    path: MountPath | None = None
    """Folder with one file per key. null: no files."""
    optional: bool = False
    """Whether the pod starts without the Secret. With `env`, requires a backend of 2.15 or newer."""


class Retries(Section):
    """What happens when a component fails."""

    count: Annotated[int, Field(ge=1, le=100)]
    """Number of retries."""
    wait: Duration = "30s"
    """Wait before the first retry."""
    factor: Annotated[int, Field(ge=1, le=100)] = 2
    """Factor by which each wait is longer than the previous one."""
    at_most: Duration = "30d"
    """Time limit for all tries together, from the start of the first: a try that fails later is the last, and one that
    is still running is stopped. Set it much longer than the component takes."""


class Security(Section):
    """The user that a component's container runs as. Requires a backend of 2.16 or newer."""

    user: Id | None = 1000
    """User ID. null: the image's."""
    group: Id | None = 1000
    """Group ID. null: the image's."""
    non_root: bool = True
    """Whether Kubernetes refuses to start it as root."""


class ComponentSettings(Section):
    """What Kubernetes gives to the pod of a component."""

    image: Name | None = None
    """Image of the component. null: the pipeline's."""
    image_pull_secrets: tuple[Name, ...] | None = None
    """Secrets for the registry of that image. null: the pipeline's."""
    cpu: Cpu | None = None
    """CPU request, such as 2 or 0.5. If this or any of the next three settings is left out, `kubeflow.resources`
    applies."""
    cpu_limit: Cpu | None = None
    """CPU limit. An explicit null means no limit."""
    memory: Bytes | None = None
    """Memory request, such as `4G` or `512Mi`."""
    memory_limit: Bytes | None = None
    """Memory limit, beyond which the pod is killed. An explicit null means no limit."""
    accelerator: Accelerator | None = None
    """GPUs or TPUs. null: none."""
    node_selector: dict[str, str] = {}
    """Labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that the pod tolerates."""
    volumes: tuple[Volume, ...] = ()
    """PersistentVolumeClaims to mount."""
    secrets: tuple[Secret, ...] = ()
    """Secrets, as environment variables or files. Credentials belong here, and nowhere else in the config."""
    env: dict[str, str] = {}
    """Environment variables; never secrets."""
    retries: Retries | None = None
    """What happens when it fails. null: the run fails."""
    timeout: Duration | None = None
    """Maximum lifetime of its pod. null: no limit."""
    labels: dict[str, str] = {}
    """Labels of its pod."""
    shared_memory: Bytes | None = None
    """Size of /dev/shm. null: the default of the container runtime, 64 MB."""
    security: Security | None = None
    """The user that it runs as. null: 1000, never root, if the backend supports it (2.16), else the image's."""

    @model_serializer(mode="wrap")
    def _set_only(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # If a config that was written with its defaults is read again, the settings that come from `kubeflow.defaults`
        # or `kubeflow.resources` must not look as if they had been set to null.
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}

    def mounts(self) -> Iterator[tuple[KeyPath, str, str]]:
        """The mounted volumes: the setting, the volume's name (that of the claim or Secret), and the folder."""
        for number, volume in enumerate(self.volumes):
            yield ("volumes", number), volume.claim, volume.path
        for number, secret in enumerate(self.secrets):
            if secret.path is not None:
                yield ("secrets", number), secret.name, secret.path


def normalized(path: str) -> str:
    """An absolute path without redundant parts."""
    return f"/{posixpath.normpath(path).lstrip('/')}"
