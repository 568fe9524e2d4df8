"""The rules of `kubeflow:`: components, storage, mounts, retries, workers and the server."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.common.credentials import SUSPICIOUS_VARIABLE
from headrace.common.cron import Cron
from headrace.common.names import did_you_mean, join_names
from headrace.configs.config import PipelineSection
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.components import IDS
from headrace.configs.schema.encoder_decoder_model import EncoderDecoderModel
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.models import AnyModelConfig
from headrace.configs.schema.pods import SHARED_MEMORY_VOLUME, ComponentSettings, normalized
from headrace.configs.schema.section import KeyPath, to_seconds
from headrace.configs.schema.train import TrainConfig
from headrace.configs.schema.trees_model import TreesModel
from headrace.configs.schema.tune import TuneConfig

ONE_MACHINE_KINDS = (AutoModel, EncoderDecoderModel, TreesModel)
"""The kinds of model that several workers cannot train together."""
AUTH: KeyPath = ("kubeflow", "server", "auth")
LAUNCHER_FOLDERS = ("/gcs", "/s3", "/minio", "/.local", "/.cache", "/.config", "/kfp-launcher")
"""Folders that Kubeflow mounts in every pod."""
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
    SHARED_MEMORY_VOLUME,
)
"""Names of the volumes of Kubeflow, Argo and this project in a pod."""


def components_are_known(kubeflow: KubeflowConfig, pipeline: PipelineSection) -> Iterator[Violation]:
    if pipeline.extend is not None:
        return  # the compiler knows the names of further components
    for name in kubeflow.components:
        if name not in IDS:
            near = did_you_mean(name, IDS) or f"; available: {join_names(IDS, 20)}"
            yield ("kubeflow", "components", name), f"unknown component {name}{near}"


def reference_has_a_volume(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if kubeflow.storage == "reference" and kubeflow.volume is None:
        what = "`storage: reference` stores artifacts on a shared volume; set kubeflow.volume: {claim: NAME}"
        yield ("kubeflow", "storage"), what
    if kubeflow.storage == "staged" and kubeflow.volume is not None:
        what = "only used with `storage: reference`; add other volumes to kubeflow.defaults.volumes"
        yield ("kubeflow", "volume"), what


def env_contains_no_secret(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, settings in kubeflow.pods():
        for name in settings.env:
            if SUSPICIOUS_VARIABLE.search(name):
                what = f"{name} looks like a credential; put it into a Secret, and reference it under `secrets:`"
                yield (*where, "env", name), what


def secrets_have_a_use(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, settings in kubeflow.pods():
        for number, secret in enumerate(settings.secrets):
            if not secret.env and secret.path is None:
                what = f"{secret.name} is not used; set `env: {{VARIABLE: key}}`, or `path:` for files"
                yield (*where, "secrets", number), what


def notifier_has_a_schedule(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if kubeflow.notify is not None and kubeflow.notify.cron is not None:
        try:
            Cron.parse(kubeflow.notify.cron)
        except ValueError as error:
            yield ("kubeflow", "notify", "cron"), str(error)


def mounts_do_not_hide_kubeflow(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, settings in kubeflow.pods():
        for inside, name, path in settings.mounts():
            if name in LAUNCHER_VOLUMES:
                what = f"every pod has a volume {name} of Kubeflow or Headrace; choose another name"
                yield (*where, *inside, "claim" if inside[0] == "volumes" else "name"), what
            yield from _hides_kubeflow((*where, *inside, "path"), path)
    if kubeflow.volume is not None:
        if kubeflow.volume.claim in LAUNCHER_VOLUMES:
            what = f"every pod has a volume {kubeflow.volume.claim} of Kubeflow or Headrace"
            yield ("kubeflow", "volume", "claim"), f"{what}; choose another name"
        yield from _hides_kubeflow(("kubeflow", "volume", "path"), kubeflow.volume.path)


def _hides_kubeflow(where: KeyPath, path: str) -> Iterator[Violation]:
    if normalized(path) == "/":
        yield where, f"{path} would hide the whole container; choose a folder in it"
    if normalized(path) in LAUNCHER_FOLDERS:
        yield where, f"Kubeflow mounts a folder at {path}; choose another path"


def sub_paths_are_inside(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, settings in kubeflow.pods():
        for number, volume in enumerate(settings.volumes):
            path = volume.sub_path or ""
            if path.startswith("/") or ".." in path.split("/"):
                what = f"{path} is not a folder within the volume; use a relative path without .."
                yield (*where, "volumes", number, "sub_path"), what


def tolerations_are_complete(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, settings in kubeflow.pods():
        for number, one in enumerate(settings.tolerations):
            place: KeyPath = (*where, "tolerations", number)
            if one.operator == "Exists" and one.value is not None:
                yield place, "`operator: Exists` takes no value; remove it, or use `Equal`"
            if one.operator == "Equal" and one.key is None:
                yield place, "`operator: Equal` requires a key; set it, or use `Exists`"
            if one.seconds is not None and one.effect != "NoExecute":
                yield place, "`seconds` requires `effect: NoExecute`"


def root_is_explicit(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, settings in kubeflow.pods():
        if settings.security is not None and settings.security.user == 0 and settings.security.non_root:
            what = "Kubernetes would refuse to start user 0; set `non_root: false` too, or another user"
            yield (*where, "security", "user"), what


LONGEST_TIMES = {("timeout",): "24855d", ("retries", "wait"): "365d", ("retries", "at_most"): "365d"}
"""Limits of Kubernetes (2^31 - 1 seconds) and Argo (2^63 nanoseconds, with growing waits)."""


def times_are_in_range(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, settings in kubeflow.pods():
        said = {place: _value_at(settings, place) for place in LONGEST_TIMES}
        for place, time in said.items():
            if time is not None and to_seconds(time) > to_seconds(LONGEST_TIMES[place]):
                yield (*where, *place), f"{time} is more than the maximum, {LONGEST_TIMES[place]}"
        again = settings.retries
        if again is not None and to_seconds(again.wait) > to_seconds(again.at_most):
            what = f"a wait of {again.wait} leaves no time for a retry within at_most: {again.at_most}; increase it"
            yield (*where, "retries", "wait"), what


def workers_train_together(
    kubeflow: KubeflowConfig, train: TrainConfig, model: AnyModelConfig, tune: TuneConfig | None
) -> Iterator[Violation]:
    if kubeflow.workers is None:
        return
    if tune is not None:
        what = "`tune` searches on one machine, without workers; remove `kubeflow.workers`"
        yield ("kubeflow", "workers"), f"{what}, or put the best values into the config and remove `tune`"
        return
    if isinstance(model, ONE_MACHINE_KINDS):
        what = f"`model.kind: {model.kind}` trains on one machine, without workers"
        yield ("kubeflow", "workers"), f"{what}; remove `kubeflow.workers`"
        return
    if train.strategy != "multi_worker":
        what = f"workers that train `model.kind: {model.kind}` require `train.strategy: multi_worker`"
        yield ("kubeflow", "workers"), f"{what}; found `{train.strategy}`"
    own = train.input.own_shards or (train.input.service is not None and train.steps_per_epoch is not None)
    batch_size = train.global_batch_size
    if own and batch_size % kubeflow.workers.count:
        what = f"{kubeflow.workers.count} workers make equal parts of a batch, so this must divide {batch_size:,}"
        yield ("kubeflow", "workers", "count"), f"{what} (train.batch_size)"


def _value_at(settings: ComponentSettings, place: KeyPath) -> str | None:
    found: object = settings
    for name in place:
        found = getattr(found, str(name), None)
    return None if found is None else str(found)


def secret_has_one_source(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    auth = kubeflow.server.auth
    given = [name for name in ("file", "env") if getattr(auth, name) is not None]
    if auth.kind in ("bearer", "cookie") and len(given) != 1:
        secret = "cookie" if auth.kind == "cookie" else "token"
        yield (*AUTH, "kind"), f"`{auth.kind}` requires either `file:` or `env:` with the {secret}"
    if auth.kind == "none" and given:
        yield (
            (*AUTH, given[0]),
            f"`kind: none` sends no credentials; use bearer or cookie, or remove {given[0]}",
        )
    if auth.kind == "in_cluster" and auth.env is not None:
        yield (*AUTH, "env"), "the in-cluster token is a file; remove `env`, or use `kind: bearer`"


def authority_requires_tls(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    server = kubeflow.server
    plain = server.endpoint is not None and server.endpoint.startswith("http://")
    if server.ca_file is not None and plain:
        yield ("kubeflow", "server", "ca_file"), "the endpoint is http://, which has no certificate; use https://"
    if server.ca_file is not None and not server.verify_tls:
        what = "`ca_file` has no effect if certificates are not verified; remove it, or set `true`"
        yield ("kubeflow", "server", "verify_tls"), what
