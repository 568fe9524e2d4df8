"""The rules for a config that is compiled for Kubeflow. A local run has no pods, so it keeps only the other rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.common.names import join_or
from headrace.common.storage.paths import is_remote
from headrace.configs.config import PipelineSection
from headrace.configs.rules import serving_on_kubeflow
from headrace.configs.rules.beam import ENDPOINTS
from headrace.configs.rules.rule import Rule, Violation, rules_of
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.notify import AnyReceiver, PrometheusFileReceiver, variables
from headrace.configs.schema.predict import ONLY_PREDICTS, PredictConfig
from headrace.configs.schema.schedule import ScheduleConfig
from headrace.configs.schema.section import to_seconds
from headrace.configs.schema.train import TrainConfig, service_config

LOCAL_ENDPOINT = re.compile(
    r"embed|\[(local|auto)\]|local(\[.+\])?|(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE
)
"""Destinations of Beam jobs, as its runners spell them, that are in the pod itself."""
MAX_JOB_NAME, DIGITS = 63, 10
"""Characters in the name of a Job, which is a label of its pods; those of the digest in it."""
MAX_CRON_JOB_NAME, NOTIFIER = 52, "{}-notify"
"""Characters in the name of a CronJob, to which Kubernetes adds eleven for each Job; the name of the notifier's."""
_STAGED = "with `kubeflow.storage: staged` only the pod itself has the files that"
_SHARED = "use `kubeflow.storage: reference`, with a volume that pods and workers mount at the same path"


def image_is_named(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if kubeflow.image is None:
        what = "name the image that the components run in, such as registry.example/headrace:1"
        way = "(`headrace image` builds it), here or with `--set kubeflow.image=NAME`"
        yield ("kubeflow", "image"), f"{what} {way}"


def workers_are_counted(train: TrainConfig, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if train.strategy == "multi_worker" and kubeflow.workers is None:
        what = "on Kubeflow it trains in several pods; set their number, such as `kubeflow: {workers: {count: 2}}`"
        yield ("train", "strategy"), what


def pushed_models_outlive_the_pod(
    deploy: DeployConfig, pipeline: PipelineSection, kubeflow: KubeflowConfig
) -> Iterator[Violation]:
    push = deploy.push and deploy.push.replace("{name}", pipeline.name)
    if push is None or not Path(push).is_absolute():
        return
    if not any(Path(push).is_relative_to(path) for path in kubeflow.mounted("Pusher")):
        what = f"{push} is on no volume that the Pusher's pod mounts, so pushed models would be lost with the pod"
        yield ("deploy", "push"), f"{what}; mount one under kubeflow.components.Pusher.volumes"


def models_are_pushed_below_the_pipeline_root(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.push is not None and is_remote(deploy.push):
        what = f"{deploy.push} is for runs on this machine; on Kubeflow, models are pushed below kubeflow.pipeline_root"
        way = "set a relative path in the profile for Kubeflow, such as serving/{name}"
        yield ("deploy", "push"), f"{what}; {way}"


def predictions_outlive_the_pod(predict: PredictConfig | None, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if predict is None:
        return
    if not Path(predict.output).is_absolute():
        if ".." in Path(predict.output).parts:
            what = f"{predict.output} is outside of the pipeline's folder in the object store; write it without `..`"
            yield ("predict", "output"), what
        return
    if not any(Path(predict.output).is_relative_to(path) for path in kubeflow.mounted("PublishPredictions")):
        what = f"{predict.output} is on no volume that its pod mounts, so predictions would be lost with the pod"
        way = "mount one under kubeflow.components.PublishPredictions.volumes, or use a relative path"
        yield ("predict", "output"), f"{what}; {way}"


def models_are_promoted_where_they_can_be_reached(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.push is not None and Path(deploy.push).is_absolute() and deploy.approval == "manual":
        what = f"`headrace promote --kubeflow` does not reach {deploy.push}, which is on a volume of the Pusher's"
        way = 'set it to "automatic" for Kubeflow, or set `deploy.push` to a path below the pipeline\'s own folder'
        yield ("deploy", "approval"), f"{what}; {way}"


def receivers_are_told_by_a_notifier(
    notify: Mapping[str, AnyReceiver], kubeflow: KubeflowConfig
) -> Iterator[Violation]:
    """A run alone cannot tell them of every end: an exit handler does not run again after `headrace retry`."""
    if notify and kubeflow.notify is None:
        what = (
            "a run on Kubeflow tells nobody of its end by itself; a CronJob does: set `kubeflow.notify: {}`, with the"
        )
        way = "`secrets` of the receivers, and apply what `headrace notify CONFIG --manifest` writes (docs/notify.md);"
        yield ("notify",), f"{what} {way} or set `notify: null` in the profile for Kubeflow"
    if kubeflow.notify is None or (kubeflow.notify.cron is None and not kubeflow.notify.exit_handler):
        return
    teller = "the CronJob" if kubeflow.notify.cron is not None else "the exit handler"
    given = {name for secret in kubeflow.notify.secrets for name in secret.env}
    for name, receiver in notify.items():
        if isinstance(receiver, PrometheusFileReceiver):
            what = f"the file would be gone with the pod of {teller} that writes it; use `kind: pushgateway`"
            way = "or set `kubeflow.notify` to `{cron: null}` and start the command on a machine"
            yield ("notify", name), f"{what}, {way}"
        for variable in variables(receiver):
            if variable not in given:
                what = f"{teller} gets no {variable}; name the Secret that holds it, such as"
                example = f"`kubeflow.notify.secrets: [{{name: headrace-notify, env: {{{variable}: key}}}}]`"
                yield ("notify", name), f"{what} {example}"


def registries_are_reached_from_the_pushers_pod(
    deploy: DeployConfig, pipeline: PipelineSection, kubeflow: KubeflowConfig
) -> Iterator[Violation]:
    """The pod that pushed a version registers it: by its URI, and with a token from a Secret."""
    push = deploy.push and deploy.push.replace("{name}", pipeline.name)
    if deploy.registry is None or push is None:
        return
    if Path(push).is_absolute():
        what = f"{push} is not in the object store, whose list of versions is what is registered"
        yield ("deploy", "registry"), f"{what}; set a relative `deploy.push`, or `deploy.registry` to null for Kubeflow"
    if kubeflow.storage == "reference" and deploy.registry.source is None:
        what = "with `kubeflow.storage: reference` the versions are on a volume; set the URI at which others read"
        yield ("deploy", "registry", "source"), f"{what} deploy.push, such as pvc://claim/folder"
    given = {name for secret in kubeflow.settings("Pusher").secrets for name in secret.env}
    for name, server in deploy.registry.named:
        if (variable := server.authorization_env) is not None and variable not in given:
            what = f"the Pusher's pod gets no {variable}; name the Secret that holds it, such as"
            example = f"`kubeflow.components.Pusher.secrets: [{{name: registry, env: {{{variable}: key}}}}]`"
            yield ("deploy", "registry", name, "authorization_env"), f"{what} {example}"


def certificates_of_registries_are_in_the_pushers_pod(
    deploy: DeployConfig, kubeflow: KubeflowConfig
) -> Iterator[Violation]:
    """The pod has no file of this machine."""
    if deploy.registry is None or deploy.push is None:
        return
    found = (*kubeflow.mounted("Pusher"), *serving_on_kubeflow.IMAGE_FOLDERS)
    for name, server in deploy.registry.named:
        if (file := server.ca_file) is None or serving_on_kubeflow.is_below(file, found):
            continue
        what = f"the Pusher's pod has no {file}: mount a Secret with it, such as `kubeflow.components.Pusher.secrets:"
        example = "[{name: registry-ca, path: /certs}]` for /certs/ca.pem, or put it into the image"
        yield (
            ("deploy", "registry", name, "ca_file"),
            f"{what} {example} below {join_or(serving_on_kubeflow.IMAGE_FOLDERS)}",
        )


def pusher_lives_as_long_as_a_rollout(deploy: DeployConfig, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    limit = kubeflow.settings("Pusher").timeout
    if deploy.kserve is None or limit is None:
        return
    needed = 3 * to_seconds(deploy.kserve.ready) + to_seconds(deploy.kserve.observe)
    if to_seconds(limit) <= needed:
        what = f"the Pusher's pod ends after {limit}, but a rollout with a rollback may take {needed:,} seconds"
        yield ("deploy", "kserve"), f"{what}; raise `kubeflow.components.Pusher.timeout`, or lower `ready` or `observe`"


def beam_workers_share_the_artifacts(beam: BeamConfig, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    """With `storage: staged` the files of an artifact are copies on the disk of one pod."""
    if kubeflow.storage == "staged" and (to := remote_endpoint(beam)) is not None:
        what = f"{_STAGED} Beam's workers at {to} would open: {_SHARED}"
        yield ("beam", "runner"), f"{what}; or use the runner `auto`, and give the pod CPUs"


def service_workers_share_the_artifacts(train: TrainConfig, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if kubeflow.storage == "staged" and (service := service_config(train.input.service)) is not None:
        what = f"{_STAGED} the workers of {service.address} would open: {_SHARED}"
        yield ("train", "input", "service"), f"{what}; or remove the service"


def schedule_is_set(schedule: ScheduleConfig | None) -> Iterator[Violation]:
    """Only for the commands that create a schedule."""
    if schedule is None:
        yield ("schedule",), 'missing; add one such as `schedule: {cron: "30 4 * * *"}`'


def name_fits_a_job(pipeline: PipelineSection) -> Iterator[Violation]:
    """Only for manifests, whose Job is named after the pipeline and a digest of its content."""
    most = MAX_JOB_NAME - DIGITS - 1
    if len(pipeline.name) > most:
        what = f"{pipeline.name} is too long for the name of a Job: use at most {most} characters"
        yield ("pipeline", "name"), what


def name_fits_a_cron_job(
    pipeline: PipelineSection,
    notify: Mapping[str, AnyReceiver],
    kubeflow: KubeflowConfig,
    predict: PredictConfig | None,
) -> Iterator[Violation]:
    """Only for manifests, if they have the notifier's CronJob."""
    most = MAX_CRON_JOB_NAME - len(NOTIFIER.format(ONLY_PREDICTS if predict and predict.only else ""))
    if notify and kubeflow.notify is not None and kubeflow.notify.cron and len(pipeline.name) > most:
        what = f"{pipeline.name} is too long for the name of the notifier's CronJob: use at most {most} characters"
        yield ("pipeline", "name"), what


def remote_endpoint(beam: BeamConfig) -> str | None:
    """Where Beam's jobs run if they run on other machines: the service, or the address of the runner's endpoint."""
    if beam.runner == "dataflow":
        return "Dataflow"
    if not beam.is_remote or str(beam.options.get("environment_type", "")).upper() == "LOOPBACK":
        return None
    named = (beam.options.get(name) for name in ENDPOINTS[beam.runner])
    to = next((str(address) for address in named if address), None)
    return None if to is None or LOCAL_ENDPOINT.fullmatch(to.strip()) else to


RULES_OF_PODS: tuple[Rule, ...] = (
    workers_are_counted,
    beam_workers_share_the_artifacts,
    service_workers_share_the_artifacts,
)
"""Those that `headrace verify` needs too, which has no image, and pushes to a folder of its own."""
RULES: tuple[Rule, ...] = (
    image_is_named,
    *RULES_OF_PODS,
    pushed_models_outlive_the_pod,
    models_are_pushed_below_the_pipeline_root,
    predictions_outlive_the_pod,
    models_are_promoted_where_they_can_be_reached,
    receivers_are_told_by_a_notifier,
    registries_are_reached_from_the_pushers_pod,
    certificates_of_registries_are_in_the_pushers_pod,
    pusher_lives_as_long_as_a_rollout,
    *rules_of(serving_on_kubeflow),
)
