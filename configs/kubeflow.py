"""`kubeflow:` how the pipeline runs on Kubeflow Pipelines."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.durations import Duration
from headrace.configs.kubeflow_server import ServerConfig
from headrace.configs.section import Name, Section

Count = Annotated[int, Field(gt=0, le=1000)]
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Cpu = Annotated[float, Field(ge=0.001, le=100_000)]
Bytes = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(E|Ei|P|Pi|T|Ti|G|Gi|M|Mi|Ki)?$")]
MountPath = Annotated[str, Field(pattern=r"^/[^:]+$")]
StoreUrl = Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+$")]
RootUri = Annotated[str, Field(pattern=r"^(gs|s3|minio)://[a-z0-9][a-z0-9._-]*(/[^?#@\s]+)?$")]
Backend = Literal["2.14", "2.15", "2.16", "2.17"]
Storage = Literal["staged", "reference"]

OWN_SECRET = "mlpipeline-minio-artifact"  # noqa: S105 - a name
"""The Secret with the keys of the store that Kubeflow brings along: what its launcher takes by itself for `minio://`
(`backend/src/v2/config/env.go` of Kubeflow Pipelines)."""
NO_SECRET = "none"  # noqa: S105
SHARED_MEMORY = "headrace-shared-memory"
"""What the volume of `shared_memory` is called in a pod."""

TRAINER = "Trainer"
PLACED = (
    "cpu",
    "cpu_limit",
    "memory",
    "memory_limit",
    "accelerator",
    "node_selector",
    "tolerations",
    "shared_memory",
)
"""Settings that place and size a pod: those of `components.Trainer` are for the workers, where there are any."""


class Accelerator(Section):
    """GPUs or TPUs of one kind."""

    type: Name
    """The resource that a node offers, such as `nvidia.com/gpu` or `google.com/tpu`."""
    count: Count = 1
    """How many of them."""


class Toleration(Section):
    """A taint of nodes that the pod may run on all the same."""

    key: Name | None = None
    """The taint's key; null: any."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Exists: whatever the taint's value is."""
    value: Name | None = None
    """The taint's value; only for `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; null: any."""
    seconds: Annotated[int, Field(ge=0)] | None = None
    """How long it is tolerated; only for `NoExecute`. null: for ever."""


class Volume(Section):
    """A PersistentVolumeClaim, mounted into the pod."""

    claim: Name
    """Name of the PersistentVolumeClaim, in the namespace of the run."""
    path: MountPath
    """Where it is mounted."""
    sub_path: Name | None = None
    """The folder of the volume that is mounted; null: all of it. Needs a backend of 2.16 or newer."""


class Secret(Section):
    """A Kubernetes Secret: its keys as environment variables, or as files below a path."""

    name: Name
    """Name of the Secret, in the namespace of the run."""
    env: dict[str, Name] = {}
    """Environment variable to key of the Secret."""
    path: MountPath | None = None
    """Folder with a file for each key; null: no files."""
    optional: bool = False
    """Whether the pod starts without the Secret. Needs a backend of 2.15 or newer where it gives variables."""


class Retries(Section):
    """What happens when a component fails."""

    count: Annotated[int, Field(gt=0, le=100)]
    """Further tries."""
    wait: Duration = "30s"
    """Before the first of them."""
    factor: Annotated[int, Field(ge=1, le=100)] = 2
    """By which each wait is longer than the one before."""
    at_most: Duration = "30d"
    """How long after the beginning of the first try all of them must have ended: a try that fails later is the last,
    and one that goes on then is ended. So it must be far longer than the component takes."""


class Security(Section):
    """The user that a component's container runs as. Needs a backend of 2.16 or newer."""

    user: Id | None = 1000
    """User id; null: the image's."""
    group: Id | None = 1000
    """Group id; null: the image's."""
    non_root: bool = True
    """Whether Kubernetes refuses to start it as root."""


class ComponentSettings(Section):
    """What Kubernetes gives to the pod of a component."""

    image: Name | None = None
    """An image of its own; null: the pipeline's."""
    image_pull_secrets: tuple[Name, ...] | None = None
    """Secrets for the registry of that image; null: the pipeline's."""
    cpu: Cpu | None = None
    """CPUs it asks for, such as 2 or 0.5. Left out: what `kubeflow.resources` says, as for the next three."""
    cpu_limit: Cpu | None = None
    """CPUs it gets at most; null, if you write it: no limit."""
    memory: Bytes | None = None
    """Memory it asks for, such as `4G` or `512Mi`."""
    memory_limit: Bytes | None = None
    """Memory at which it is ended; null, if you write it: no limit."""
    accelerator: Accelerator | None = None
    """GPUs or TPUs; null: none."""
    node_selector: dict[str, str] = {}
    """Labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that it may run on all the same."""
    volumes: tuple[Volume, ...] = ()
    """PersistentVolumeClaims to mount."""
    secrets: tuple[Secret, ...] = ()
    """Secrets, as environment variables or files. Credentials go here, and nowhere else in the config."""
    env: dict[str, str] = {}
    """Environment variables; nothing that is secret."""
    retries: Retries | None = None
    """What happens when it fails; null: the run fails."""
    timeout: Duration | None = None
    """How long its pod may live; null: for ever."""
    labels: dict[str, str] = {}
    """Labels of its pod."""
    shared_memory: Bytes | None = None
    """Size of /dev/shm; null: what the container runtime gives, which is 64 MB."""
    security: Security | None = None
    """The user that it runs as; null: 1000, never root, where the backend knows that (2.16), else the image's."""


class SharedVolume(Section):
    """The volume that `storage: reference` keeps the artifacts on."""

    claim: Name
    """Name of a PersistentVolumeClaim that many pods can write to at once (ReadWriteMany)."""
    path: MountPath = "/headrace"
    """Where every pod has it."""


class ObjectStore(Section):
    """How pods reach the object store themselves: for `blessed.json`, the baseline, pushed models and checkpoints. (The
    artifacts are copied by Kubeflow.)
    """

    endpoint: StoreUrl | None = None
    """URL of an S3-compatible store; null: that of AWS, and for `minio://` the one that Kubeflow brings along:
    `http://seaweedfs.kubeflow:9000`, or `http://minio-service.kubeflow:9000` before release 2.16."""
    region: Name | None = None
    """Its region; null: the store's default."""
    secret: Name | None = None
    """Name of the Secret with the keys. null: where `pipeline_root` is `minio://`, Kubeflow's own,
    `mlpipeline-minio-artifact`, else none. `none`: none, as the pods have access by themselves (workload identity)."""
    access_key: Name = "accesskey"
    """The key of the Secret that holds the access key."""
    secret_key: Name = "secretkey"  # noqa: S105 - a name
    """The key of the Secret that holds the secret key."""


class Workers(Section):
    """The pods of a distributed training (`train.strategy: multi_worker`), as a JobSet. Each gets what
    `components.Trainer` says.
    """

    count: Annotated[int, Field(ge=2, le=1000)]
    """Pods that train together."""
    restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """How many times all workers start again, from the last checkpoint, after one of them is lost."""
    port: Annotated[int, Field(ge=1024, le=65535)] = 2222
    """Port on which the workers reach each other."""


Parameter = Literal["run_date", "spans", "window", "epochs", "steps_per_epoch"]


class KubeflowConfig(Section):
    """How the pipeline runs on Kubeflow Pipelines."""

    image: Name | None = None
    """The image that all components run in, with this project and your modules in it. Needed by `headrace compile`."""
    pipeline_root: RootUri = "minio://mlpipeline/v2/artifacts"
    """Where artifacts go: `gs://`, `s3://` or `minio://`; a run may be given another."""
    storage: Storage = "staged"
    """staged: Kubeflow copies artifacts into each pod and out of it. reference: they stay on `volume`, which every pod
    mounts; for data too large to copy."""
    volume: SharedVolume | None = None
    """The volume of `storage: reference`."""
    object_store: ObjectStore = ObjectStore()
    """How pods reach the object store themselves, with `storage: staged`."""
    namespace: Name = "kubeflow"
    """Where the runs are."""
    backend: Backend = "2.17"
    """Release of the Kubeflow Pipelines server. Settings that it would drop without a word are refused."""
    image_pull_secrets: tuple[Name, ...] = ()
    """Secrets for the registries of the images."""
    server: ServerConfig = ServerConfig()
    """Where the API of Kubeflow Pipelines is, for `headrace submit` and the verbs that follow a run."""
    parameters: tuple[Parameter, ...] = ("run_date", "spans", "epochs", "steps_per_epoch")
    """Settings that each run may be given anew: `run_date`, `spans` and `window` of `data`, `epochs` and
    `steps_per_epoch` of `train`. (The pipeline root always, and `schedule.retrain` where it is not `always`.)
    `run_date` is left out where no path has a date."""
    resources: Literal["default", "auto", "none"] = "default"
    """What pods ask for where `cpu`, `memory` and their limits are left out. default: a table by component. auto: what
    the component took in its last pods below `pipeline_root`, or else in the last runs of `headrace run` in
    `pipeline.root`, with a quarter more, and twice that at most; the table where it has not run. none: nothing, so that
    Kubernetes may put pods on nodes that are full."""
    defaults: ComponentSettings = ComponentSettings()
    """What every component's pod gets."""
    components: dict[str, ComponentSettings] = {}
    """By component, such as `Trainer`: what its pod gets in the place of the defaults, setting by setting."""
    workers: Workers | None = None
    """Train in several pods, for `train.strategy: multi_worker`. null: in the Trainer's own pod. Needs JobSet, which
    comes with Kubeflow Trainer (see docs/kubeflow.md)."""

    @property
    def store_secret(self) -> str | None:
        """The Secret with the object store's keys; None where pods have access by themselves."""
        named = self.object_store.secret
        if named is None:
            return OWN_SECRET if self.pipeline_root.startswith("minio://") else None
        return None if named == NO_SECRET else named

    def settings(self, component: str) -> ComponentSettings:
        """The defaults with a component's own settings over them. With `workers`, the Trainer's own pod, which only
        waits for them and exports, is placed and sized as the defaults say.
        """
        return self._own(component, PLACED if component == TRAINER and self.workers else ())

    @property
    def worker(self) -> ComponentSettings:
        """What each pod of a distributed training gets."""
        return self._own(TRAINER)

    def _own(self, component: str, left: Collection[str] = ()) -> ComponentSettings:
        """left: what is as the defaults say all the same."""
        own = self.components.get(component, ComponentSettings())
        return self.defaults.model_copy(update={name: getattr(own, name) for name in own.model_fields_set - set(left)})
