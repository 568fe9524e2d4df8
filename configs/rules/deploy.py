"""The rules of `deploy:`, except those of the servers in `deploy.serving` and `deploy.canary`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from headrace.configs.rules.notify import USE_HTTPS, is_unencrypted
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import AnyModelConfig, RunFnModel, TextModel

REGISTRY, KSERVE, CANARY = ("deploy", "registry"), ("deploy", "kserve"), ("deploy", "canary")
RESERVED = re.compile(r"latest|[vV][0-9]+")
"""What MLflow takes for no alias: `models:/taxi/latest` and `@v3` have meanings of their own."""


def lite_models_are_ours(deploy: DeployConfig, training: RunFnModel) -> Iterator[Violation]:
    if deploy.lite is not None:
        what = f"{training.run_fn} exports the model, and may leave out the signature `serving_transformed`"
        way = "convert the model in your run_fn, for example with TFX's TFLiteRewriter, and remove this"
        yield ("deploy", "lite"), f"{what}, which is converted; {way}"


def lite_models_have_no_gru(deploy: DeployConfig, model: AnyModelConfig) -> Iterator[Violation]:
    """The converter wants the shape of a GRU's states, which TensorFlow's exported loop does not have."""
    if deploy.lite is not None and isinstance(model, TextModel) and model.encoder != "pooling":
        what = f"`model.encoder: {model.encoder}` has a GRU, which cannot be converted; use `pooling`, or another model"
        yield ("deploy", "lite"), f"{what}, or remove this"


def agreement_is_of_classes(deploy: DeployConfig, label: LabelConfig) -> Iterator[Violation]:
    if deploy.lite is not None and deploy.lite.min_agreement is not None and label.kind == "regression":
        what = "is the fraction of equal classes, and a regression has none; use `max_difference`"
        yield ("deploy", "lite", "min_agreement"), what


def median_latency_has_a_limit_of_its_own(deploy: DeployConfig) -> Iterator[Violation]:
    """The median is never above the 99th percentile."""
    for where, limits in ((CANARY, deploy.canary), ((*CANARY, "server"), deploy.canary and deploy.canary.server)):
        p50, p99 = (limits.latency_p50_ms, limits.latency_p99_ms) if limits else (None, None)
        if p50 is not None and p99 is not None and p50 > p99:
            what = f"{p50:g} ms is above `latency_p99_ms` ({p99:g} ms), which refuses such a model already"
            yield (*where, "latency_p50_ms"), f"{what}; set a lower number, or remove this"


def registry_is_named(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.registry is not None and not [*deploy.registry.named]:
        yield REGISTRY, "it names no registry; add `mlflow: {url: ...}` or `kubeflow: {url: ...}`, or set it to null"


def token_of_registry_is_encrypted(deploy: DeployConfig) -> Iterator[Violation]:
    for name, server in deploy.registry.named if deploy.registry else ():
        if server.authorization_env is not None and is_unencrypted(server.url):
            yield (*REGISTRY, name, "url"), USE_HTTPS


def alias_is_not_reserved(deploy: DeployConfig) -> Iterator[Violation]:
    mlflow = deploy.registry and deploy.registry.mlflow
    if mlflow and RESERVED.fullmatch(mlflow.alias):
        what = f"MLflow reserves the alias {mlflow.alias}; use a name such as champion"
        yield (*REGISTRY, "mlflow", "alias"), what


def kserve_has_versions_to_serve(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.kserve is not None and deploy.push is None:
        yield KSERVE, "`deploy.push` is null, so there are no versions to serve; set it to a folder, or remove this"


def kserve_reads_where_models_are_pushed(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.kserve is not None and deploy.push is not None and Path(deploy.push).is_absolute():
        what = f"{deploy.push} is on a volume of the Pusher's pod alone, from which KServe gets no model"
        yield KSERVE, f"{what}; set a relative `deploy.push`, or remove this"
