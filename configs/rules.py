"""All rules across sections, one short function each (rule.py says what a rule is); those of data and evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.configs import (
    beam_rules,
    device_rules,
    feature_rules,
    kubeflow_rules,
    kubeflow_server_rules,
    kubernetes_rules,
    model_rules,
    schedule_rules,
    service_rules,
    span_rules,
    train_rules,
    tune_rules,
)
from headrace.configs.config import PipelineSection
from headrace.configs.data import DataConfig
from headrace.configs.deploy import DeployConfig
from headrace.configs.evaluate import METRICS, EvaluateConfig
from headrace.configs.label import LabelConfig
from headrace.configs.rule import Finding, Rule, ask
from headrace.configs.suggest import did_you_mean, meant
from headrace.configs.tree import Where
from headrace.configs.words import either


def check(parts: Mapping[str, object]) -> list[Finding]:
    """What all the rules find in the sections given; a rule that needs a section not given is left out."""
    return ask(RULES, parts)


def folders_are_no_uris(pipeline: PipelineSection, deploy: DeployConfig) -> Iterator[Finding]:
    """On Kubeflow both lie in the object store all the same, below `kubeflow.pipeline_root`."""
    for where, folder in ((("pipeline", "root"), pipeline.root), (("deploy", "push"), deploy.push or "")):
        if "://" in folder:
            yield where, f"{folder} is a URI; name a folder, which on Kubeflow lies below the pipeline's root there"


def splits_to_train_and_stop_by(data: DataConfig) -> Iterator[Finding]:
    for needed, use in (("train", "the model learns from it"), ("eval", "training stops by it")):
        if needed not in data.splits:
            found = f"found {either(data.splits)}{did_you_mean(needed, data.splits)}"
            yield ("data", "splits"), f"a split `{needed}` is missing: {use}; {found}"


def split_names_are_plain(data: DataConfig) -> Iterator[Finding]:
    for name in data.splits:
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            yield ("data", "splits", name), f'"{name}" becomes part of a folder\'s name: only letters, digits and _'


def evaluated_split_exists(data: DataConfig, evaluate: EvaluateConfig) -> Iterator[Finding]:
    if evaluate.split is not None and evaluate.split not in data.splits:
        name = evaluate.split
        yield ("evaluate", "split"), f'no split "{name}"{meant(name, data.splits, "data.splits has")}'


def types_fit_delimited_text(data: DataConfig) -> Iterator[Finding]:
    """A field of a CSV file holds one value, as text."""
    if data.source.kind == "csv":
        for name, kind in data.types.items():
            if kind.endswith(" list") or kind == "bytes":
                what = f"`{kind}` is not for CSV, where a field holds one text: use int, float or string"
                yield ("data", "types", name), what


def bad_records_can_be_skipped(data: DataConfig) -> Iterator[Finding]:
    """A database has no records that cannot be read: what does not fit is a whole column's type."""
    if data.on_bad_record == "skip" and data.source.kind in ("sql", "bigquery"):
        what = f"`skip` is not for {data.source.kind}, where a value that is not of its column's type stops the run:"
        yield ("data", "on_bad_record"), f"{what} use `stop`, and leave such rows out by a query"


def metrics_fit_the_label(label: LabelConfig, evaluate: EvaluateConfig) -> Iterator[Finding]:
    for number, name in enumerate(evaluate.metrics):
        where: Where = ("evaluate", "metrics", number)
        if name not in METRICS[label.kind]:
            yield where, _unfit_metric(name, label.kind)
        elif name in evaluate.metrics[:number]:
            yield where, f'"{name}" stands here twice; remove one'


def thresholds_are_of_metrics(label: LabelConfig, evaluate: EvaluateConfig) -> Iterator[Finding]:
    measured = evaluate.metrics or tuple(METRICS[label.kind])
    for name in evaluate.thresholds:
        where: Where = ("evaluate", "thresholds", name)
        if name not in METRICS[label.kind]:
            yield where, _unfit_metric(name, label.kind)
        elif name not in measured:
            yield where, f'"{name}" is not measured; add it to evaluate.metrics, or remove the threshold'


def _unfit_metric(name: str, kind: str) -> str:
    others = [other for other, names in METRICS.items() if name in names]
    what = f'"{name}" is for {either(others)} labels, and this label is {kind}' if others else f'no metric "{name}"'
    return f"{what}; for {kind}: {either(METRICS[kind])}{did_you_mean(name, METRICS[kind])}"


SHARES = frozenset(
    {
        "auc",
        "auc_precision_recall",
        "binary_accuracy",
        "precision",
        "recall",
        "accuracy",
        "top_5_accuracy",
        "squared_correlation",
    }
)
"""Metrics that lie between 0 and 1."""


def thresholds_can_be_met(evaluate: EvaluateConfig) -> Iterator[Finding]:
    for name, threshold in evaluate.thresholds.items():
        where: Where = ("evaluate", "thresholds", name)
        if name in SHARES and threshold.min is not None and threshold.min > 1:
            percent = f"; did you mean {threshold.min / 100:g}?" if threshold.min <= 100 else ""
            yield (*where, "min"), f"found {threshold.min:g}, but {name} lies between 0 and 1{percent}"
        if threshold.max is not None and threshold.max < 0:
            yield (*where, "max"), f"found {threshold.max:g}, but {name} is never below 0, so no model could pass"


RULES: tuple[Rule, ...] = (
    folders_are_no_uris,
    splits_to_train_and_stop_by,
    split_names_are_plain,
    evaluated_split_exists,
    types_fit_delimited_text,
    bad_records_can_be_skipped,
    metrics_fit_the_label,
    thresholds_are_of_metrics,
    thresholds_can_be_met,
    *feature_rules.RULES,
    *model_rules.RULES,
    *span_rules.RULES,
    *train_rules.RULES,
    *service_rules.RULES,
    *device_rules.RULES,
    *tune_rules.RULES,
    *beam_rules.RULES,
    *kubeflow_rules.RULES,
    *kubernetes_rules.RULES,
    *kubeflow_server_rules.RULES,
    *schedule_rules.RULES,
)
