"""`kubeflow:` how the pipeline runs on Kubeflow Pipelines."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.pods import PLACEMENT, ComponentSettings, MountPath, Secret
from headrace.configs.schema.section import KeyPath, Name, Section, defaults_of

Endpoint = Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+(/[^?#@\s]*)?$")]
StoreUrl = Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+$")]
RootUri = Annotated[str, Field(pattern=r"^(gs|s3|minio)://[a-z0-9][a-z0-9._-]*(/[^?#@\s]+)?$")]
Backend = Literal["2.14", "2.15", "2.16", "2.17"]
Storage = Literal["staged", "reference"]
RunParameterName = Literal["run_date", "spans", "window", "epochs", "steps_per_epoch"]

DEFAULT_SECRET = "mlpipeline-minio-artifact"  # noqa: S105 - a name
"""The Secret with the keys of the store that ships with Kubeflow, which its launcher uses by default for `minio://`
(`backend/src/v2/config/env.go` of Kubeflow Pipelines)."""
NO_SECRET = "none"  # noqa: S105
TRAINER = "Trainer"


class ServerAuth(Section):
    """How requests to the server are authenticated. The secret itself is never in the config, and never printed."""

    kind: Literal["none", "in_cluster", "bearer", "cookie"] = "none"
    """none: no authentication. in_cluster: the token that Kubernetes mounts into a pod for Kubeflow Pipelines. bearer:
    a token. cookie: the session cookie of a Dex or OAuth2 proxy, `name=value`, as the browser sends it after login."""
    file: Name | None = None
    """The file with the token or cookie; read again for every request. With `in_cluster`, null is
    `/var/run/secrets/kubeflow/pipelines/token`."""
    env: Name | None = None
    """The environment variable with the token or cookie."""


class ServerConfig(Section):
    """The API server of Kubeflow Pipelines, for `headrace submit` and the commands that follow a run."""

    endpoint: Endpoint | None = None
    """URL of the API server, or of Kubeflow's gateway with the path before `/apis`, such as
    `https://kubeflow.example/pipeline`; in a pod `http://ml-pipeline.kubeflow:8888`."""
    interface: Endpoint | None = None
    """URL of Kubeflow's web interface, for the link that `submit` prints. null: the endpoint, which serves the web
    interface if it is `ml-pipeline-ui` or Kubeflow's gateway; `ml-pipeline` itself serves only the API."""
    pipeline_store: Literal["database", "kubernetes"] = "database"
    """Where the server stores pipelines; its healthz reports this as `pipeline_store`. With kubernetes, `headrace
    compile --manifest` writes them as Kubernetes objects."""
    experiment: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """The experiment of the runs. null: one with the pipeline's name."""
    auth: ServerAuth = defaults_of(ServerAuth)
    """How requests to the server are authenticated."""
    verify_tls: bool = True
    """Whether the server's certificate must be valid."""
    ca_file: Name | None = None
    """PEM file with the certificates of the authority that signed the server's. null: the public authorities."""
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Maximum time for one response."""
    time_zone: Name = "UTC"
    """Time zone of schedules on the server: CRON_SCHEDULE_TIMEZONE of its scheduled-workflow controller."""
    service_account: Name | None = None
    """Kubernetes service account of the runs' pods. null: the server's default."""


class SharedVolume(Section):
    """The volume on which `storage: reference` stores the artifacts."""

    claim: Name
    """Name of a PersistentVolumeClaim that many pods can write to at the same time (ReadWriteMany)."""
    path: MountPath = "/headrace"
    """Where it is mounted in every pod."""


class ObjectStore(Section):
    """How pods access the object store directly: for `blessed.json`, the baseline, pushed models and checkpoints.
    (Kubeflow copies the artifacts.)
    """

    endpoint: StoreUrl | None = None
    """URL of an S3-compatible store. null: AWS, or for `minio://` the store that ships with Kubeflow:
    `http://seaweedfs.kubeflow:9000`, before release 2.16 `http://minio-service.kubeflow:9000`."""
    region: Name | None = None
    """Its region. null: the store's default."""
    secret: Name | None = None
    """Name of the Secret with the keys. null: Kubeflow's own, `mlpipeline-minio-artifact`, if `pipeline_root` is
    `minio://`, else none. `none`: none, because the pods have access without keys (workload identity)."""
    access_key: Name = "accesskey"
    """Name of the key within the Secret that holds the access key."""
    secret_key: Name = "secretkey"  # noqa: S105 - a name
    """Name of the key within the Secret that holds the secret key."""


class Workers(Section):
    """The pods of a distributed training (`train.strategy: multi_worker`), as a JobSet. Each has the settings of
    `components.Trainer`.
    """

    count: Annotated[int, Field(ge=2, le=1000)]
    """Number of pods."""
    restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """How many times all workers restart from the last checkpoint after one of them is lost."""
    port: Annotated[int, Field(ge=1024, le=65535)] = 2222
    """Port on which the workers reach each other."""


class Notifier(Section):
    """What tells the receivers of `notify:` how runs on Kubeflow ended (see docs/notify.md)."""

    cron: Name | None = "*/5 * * * *"
    """When a CronJob looks for runs that have ended, with the five fields of crontab, in UTC. null: no CronJob is
    written; you start `headrace notify CONFIG --kubeflow` yourself."""
    service_account: Name = "headrace-notify"
    """Kubernetes service account of its pod."""
    exit_handler: bool = False
    """Also tell of a run as soon as its components have ended, by a last task of the run. What that task cannot tell,
    and receivers that it does not reach, are left to the CronJob, or, without one, to the command that you start."""
    endpoint: Endpoint = "http://ml-pipeline.kubeflow:8888"
    """URL of the API server of Kubeflow Pipelines as the pod of that task reaches it."""
    secrets: tuple[Secret, ...] = ()
    """The Secrets with what the receivers name: `url_env`, `authorization_env`, `user_env` and `password_env`. Files
    too, such as a `ca_file`."""


class KubeflowConfig(Section):
    """How the pipeline runs on Kubeflow Pipelines."""

    image: Name | None = None
    """The image for all components, with this project and your modules in it. Required by `headrace compile`."""
    pipeline_root: RootUri = "minio://mlpipeline/v2/artifacts"
    """Where artifacts are stored: `gs://`, `s3://` or `minio://`. Each run can override it."""
    storage: Storage = "staged"
    """staged: Kubeflow copies artifacts into each pod and out of it. reference: they stay on `volume`, which every pod
    mounts; for data that is too large to copy."""
    volume: SharedVolume | None = None
    """The volume of `storage: reference`."""
    object_store: ObjectStore = defaults_of(ObjectStore)
    """How pods access the object store directly, with `storage: staged`."""
    namespace: Name = "kubeflow"
    """Namespace of the runs."""
    backend: Backend = "2.17"
    """Release of the Kubeflow Pipelines server. Settings that it would silently ignore are rejected."""
    image_pull_secrets: tuple[Name, ...] = ()
    """Secrets for the registries of the images."""
    server: ServerConfig = defaults_of(ServerConfig)
    """The API server of Kubeflow Pipelines, for `headrace submit` and the commands that follow a run."""
    parameters: tuple[RunParameterName, ...] = ("run_date", "spans", "epochs", "steps_per_epoch")
    """Settings that each run can override: `run_date`, `spans` and `window` of `data`, `epochs` and `steps_per_epoch`
    of `train`. (The pipeline root always, and `schedule.retrain` unless it is `always`.) `run_date` is omitted if no
    path contains a date."""
    resources: Literal["default", "auto", "none"] = "default"
    """CPU and memory of pods for which `cpu`, `memory` or their limits are left out. default: from a table by
    component. auto: the usage in the last pods below `pipeline_root`, or else in the last runs of `headrace run` in
    `pipeline.root`, plus a quarter, with a limit of twice that; the table for components that have not run. none: no
    requests, so Kubernetes may put pods on full nodes."""
    defaults: ComponentSettings = defaults_of(ComponentSettings)
    """Settings for every component's pod."""
    components: dict[str, ComponentSettings] = {}
    """Settings by component, such as `Trainer`, each of which overrides the default."""
    workers: Workers | None = None
    """Train in multiple pods, for `train.strategy: multi_worker`. null: in the Trainer's own pod. Requires JobSet,
    which is part of Kubeflow Trainer (see docs/kubeflow_cluster.md)."""
    notify: Notifier | None = None
    """Who tells the receivers of `notify:` how runs ended. null: nobody, so a config with receivers is refused."""

    @property
    def store_secret(self) -> str | None:
        """The Secret with the object store's keys; None if the pods have access without keys."""
        named = self.object_store.secret
        if named is None:
            return DEFAULT_SECRET if self.pipeline_root.startswith("minio://") else None
        return None if named == NO_SECRET else named

    def settings(self, component: str) -> ComponentSettings:
        """The defaults, overridden by a component's own settings.

        With `workers`, the Trainer's own pod only waits for them and exports, so its placement is the default.
        """
        return self._merged(component, PLACEMENT if component == TRAINER and self.workers else ())

    @property
    def worker(self) -> ComponentSettings:
        """The settings of each pod of a distributed training."""
        return self._merged(TRAINER)

    def mounted(self, component: str) -> tuple[str, ...]:
        """The folders of the volumes and Secrets in a component's pod."""
        own = [path for _, _, path in self.settings(component).mounts()]
        return (*own, *([self.volume.path] if self.volume else ()))

    def pods(self) -> Iterator[tuple[KeyPath, ComponentSettings]]:
        """The defaults, each component's own settings and those of the notifier, with their paths."""
        yield ("kubeflow", "defaults"), self.defaults
        for name, settings in self.components.items():
            yield ("kubeflow", "components", name), settings
        if self.notify is not None:
            yield ("kubeflow", "notify"), ComponentSettings(secrets=self.notify.secrets)

    def _merged(self, component: str, inherited: Collection[str] = ()) -> ComponentSettings:
        """inherited: settings that the component cannot override."""
        own = self.components.get(component, ComponentSettings())
        names = own.model_fields_set - set(inherited)
        return self.defaults.model_copy(update={name: getattr(own, name) for name in names})
