"""The rules of `kubeflow:`, in itself and with the other sections."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.configs.credentials import SECRETIVE
from headrace.configs.durations import seconds
from headrace.configs.kubeflow import SHARED_MEMORY, ComponentSettings, KubeflowConfig
from headrace.configs.pods import folder, mounts, pods
from headrace.configs.suggest import did_you_mean, listed
from headrace.configs.train import TrainConfig
from headrace.configs.tree import Where

Finding = tuple[Where, str]

COMPONENTS = (
    "Spans",
    "ExampleGen",
    "StatisticsGen",
    "SchemaGen",
    "ExampleValidator",
    "DataGate",
    "Transform",
    "Drift",
    "Tuner",
    "WarmStart",
    "Trainer",
    "ProfileVerdict",
    "ProfileGate",
    "Baseline",
    "Evaluator",
    "RecordBlessing",
    "Pusher",
    "RecordTraining",
)
LAUNCHER_FOLDERS = ("/gcs", "/s3", "/minio", "/.local", "/.cache", "/.config", "/kfp-launcher")
"""Where Kubeflow mounts folders of its own in every pod."""
LAUNCHER_VOLUMES = (
    "ca-bundle",
    "dot-cache-scratch",
    "dot-config-scratch",
    "dot-local-scratch",
    "exec-sa-token",
    "gcs-scratch",
    "input-artifacts",
    "kfp-launcher",
    "kfp-workspace",
    "minio-scratch",
    "s3-scratch",
    "tmp-dir-argo",
    "var-run-argo",
    SHARED_MEMORY,
)
"""What volumes of Kubeflow, of Argo and of this project are called in a pod."""


def components_are_known(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for name in kubeflow.components:
        if name not in COMPONENTS:
            near = did_you_mean(name, COMPONENTS) or f"; there are: {listed(COMPONENTS, 20)}"
            yield ("kubeflow", "components", name), f"there is no component {name}{near}"


def reference_has_a_volume(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    if kubeflow.storage == "reference" and kubeflow.volume is None:
        what = "`storage: reference` keeps artifacts on a shared volume; say which as kubeflow.volume: {claim: NAME}"
        yield ("kubeflow", "storage"), what
    if kubeflow.storage == "staged" and kubeflow.volume is not None:
        what = "only `storage: reference` uses it; other volumes go under kubeflow.defaults.volumes"
        yield ("kubeflow", "volume"), what


def env_holds_no_secret(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, settings in pods(kubeflow):
        for name in settings.env:
            if SECRETIVE.search(name):
                what = f"{name} looks like a credential; put it into a Secret and name it under `secrets:`"
                yield (*where, "env", name), what


def secrets_go_somewhere(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, settings in pods(kubeflow):
        for number, secret in enumerate(settings.secrets):
            if not secret.env and secret.path is None:
                what = f"say where {secret.name} goes: `env: {{VARIABLE: key}}`, or `path:` for files"
                yield (*where, "secrets", number), what


def mounts_leave_kubeflow_alone(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, settings in pods(kubeflow):
        for inside, name, path in mounts(settings):
            if name in LAUNCHER_VOLUMES:
                what = f"a volume of Kubeflow's or Headrace's own is called {name} in every pod; choose another name"
                yield (*where, *inside, "claim" if inside[0] == "volumes" else "name"), what
            yield from _alone((*where, *inside, "path"), path)
    if kubeflow.volume is not None:
        if kubeflow.volume.claim in LAUNCHER_VOLUMES:
            what = f"a volume of Kubeflow's or Headrace's own is called {kubeflow.volume.claim} in every pod"
            yield ("kubeflow", "volume", "claim"), f"{what}; choose another name"
        yield from _alone(("kubeflow", "volume", "path"), kubeflow.volume.path)


def _alone(where: Where, path: str) -> Iterator[Finding]:
    if folder(path) == "/":
        yield where, f"{path} is the whole of the container; choose a folder in it"
    if folder(path) in LAUNCHER_FOLDERS:
        yield where, f"{path} is where Kubeflow mounts a folder of its own; choose another"


def sub_paths_are_inside(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, settings in pods(kubeflow):
        for number, volume in enumerate(settings.volumes):
            path = volume.sub_path or ""
            if path.startswith("/") or ".." in path.split("/"):
                what = f"{path} is no folder within the volume; name one without a slash before it, and without .."
                yield (*where, "volumes", number, "sub_path"), what


def tolerations_are_whole(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, settings in pods(kubeflow):
        for number, one in enumerate(settings.tolerations):
            place: Where = (*where, "tolerations", number)
            if one.operator == "Exists" and one.value is not None:
                yield place, "`operator: Exists` takes no value; remove it, or use `Equal`"
            if one.operator == "Equal" and one.key is None:
                yield place, "`operator: Equal` needs a key; name it, or use `Exists`"
            if one.seconds is not None and one.effect != "NoExecute":
                yield place, "`seconds` goes with `effect: NoExecute`"


def root_is_meant(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, settings in pods(kubeflow):
        if settings.security is not None and settings.security.user == 0 and settings.security.non_root:
            what = "Kubernetes would refuse to start user 0; say `non_root: false` too, or name another user"
            yield (*where, "security", "user"), what


LONGEST = {("timeout",): "24855d", ("retries", "wait"): "365d", ("retries", "at_most"): "365d"}
"""What Kubernetes (2^31 - 1 seconds) and Argo (2^63 nanoseconds, with waits that grow) can count."""


def times_can_be_kept(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, settings in pods(kubeflow):
        said = {place: _said(settings, place) for place in LONGEST}
        for place, time in said.items():
            if time is not None and seconds(time) > seconds(LONGEST[place]):
                yield (*where, *place), f"{time} is longer than the {LONGEST[place]} that can be counted"
        again = settings.retries
        if again is not None and seconds(again.wait) > seconds(again.at_most):
            what = f"after a wait of {again.wait} there is no further try, as at_most is {again.at_most}; raise it"
            yield (*where, "retries", "wait"), what


def workers_train_together(kubeflow: KubeflowConfig, train: TrainConfig) -> Iterator[Finding]:
    if kubeflow.workers is None:
        return
    if train.strategy != "multi_worker":
        what = f"several pods train together by `train.strategy: multi_worker`, not by `{train.strategy}`; set it"
        yield ("kubeflow", "workers"), what
    own = train.input.own_shards or (train.input.service is not None and train.steps_per_epoch is not None)
    if own and train.batch_size % kubeflow.workers.count:
        what = (
            f"{kubeflow.workers.count} workers each make their part of a batch; it has to divide {train.batch_size:,}"
        )
        yield ("kubeflow", "workers", "count"), f"{what}, which is train.batch_size"


def _said(settings: ComponentSettings, place: Where) -> str | None:
    found: object = settings
    for name in place:
        found = getattr(found, str(name), None)
    return None if found is None else str(found)


RULES = (
    components_are_known,
    reference_has_a_volume,
    env_holds_no_secret,
    secrets_go_somewhere,
    mounts_leave_kubeflow_alone,
    sub_paths_are_inside,
    tolerations_are_whole,
    root_is_meant,
    times_can_be_kept,
    workers_train_together,
)
