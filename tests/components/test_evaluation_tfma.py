"""Every metric that TFMA has too, against TFMA itself on the same predictions: weighted, overall and in slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluator_runs import analyzed
from google.protobuf import text_format
from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import ExampleGroups
from headrace.components.evaluation.tfma import eval_config, measured_names
from headrace.configs.schema.evaluate import EvaluateConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.metrics import AT_TARGET, METRICS, OURS, TOP_K, base_of, key_in_metrics

ROWS, HOURS, CLASSES = 500, 3, 3
LABELS = {
    "binary": LabelConfig(key="label", kind="binary"),
    "multiclass": LabelConfig(key="label", kind="multiclass", classes=CLASSES),
    "multilabel": LabelConfig(key="label", kind="multilabel", classes=CLASSES),
    "regression": LabelConfig(key="label", kind="regression"),
}
AT_LEVELS = (
    *(f"{name}@{level}" for name in AT_TARGET for level in (0.2, 0.8)),
    *(f"{name}@{threshold}" for name in ("precision", "recall", "f1", "binary_accuracy") for threshold in (0.15, 0.7)),
)
ASKED = {
    kind: (
        *("top_2_accuracy" if name == TOP_K else name for name in METRICS[kind] if name not in AT_TARGET),
        *(AT_LEVELS if kind == "binary" else ()),
    )
    for kind in LABELS
}
BY_CLASS = " ".join(f"class_weights: {{key: {number} value: 1}}" for number in range(CLASSES))
CLASS_METRICS = """
    metrics: {class_name: "Precision"} metrics: {class_name: "Recall"} metrics: {class_name: "F1Score"}
"""
ALSO = {
    "multiclass": f"""
        metrics_specs: {{
          binarize: {{top_k_list: {{values: 1}}}} aggregate: {{micro_average: true}} {CLASS_METRICS}
        }}
        metrics_specs: {{
          metrics: {{class_name: "MultiClassConfusionMatrixAtThresholds" config: '"thresholds": [0.0]'}}
        }}"""
    f"""
        metrics_specs: {{
          binarize: {{class_ids: {{values: [0, 1, 2]}}}} aggregate: {{macro_average: true {BY_CLASS}}}
          metrics: {{class_name: "AUC"}}
        }}""",
    "multilabel": "".join(
        f"""
        metrics_specs: {{
          binarize: {{class_ids: {{values: [0, 1, 2]}}}} aggregate: {{{average}_average: true {weights}}}
          {CLASS_METRICS} metrics: {{class_name: "AUC"}}
        }}"""
        for average, weights in (("micro", ""), ("macro", BY_CLASS))
    ),
}
"""What TFMA computes of several metrics at once, for those of ours that are one name each."""


def made(kind: str) -> tuple[Any, Any]:
    """Labels and predictions, as the Evaluator has them."""
    random = np.random.default_rng(17)
    if kind == "binary":
        labels = (random.random(ROWS) < 0.4).astype(float)
        return labels, 1 / (1 + np.exp(-random.normal(1.5 * labels - 0.7, 1)))[:, None]
    if kind == "multiclass":
        classes = random.choice(CLASSES, ROWS, p=[0.6, 0.3, 0.1])
        scores = np.exp(1.5 * np.eye(CLASSES)[classes] + random.normal(size=(ROWS, CLASSES)))
        return classes.astype(float), scores / scores.sum(axis=1, keepdims=True)
    if kind == "multilabel":
        sets = (random.random((ROWS, CLASSES)) < [0.2, 0.5, 0.7]).astype(float)
        return sets, 1 / (1 + np.exp(-(2 * sets - 1 + random.normal(size=sets.shape))))
    numbers = random.gamma(2.0, 3.0, ROWS)
    return numbers, (numbers * random.lognormal(sigma=0.3, size=ROWS))[:, None]


def columns() -> tuple[Any, Any]:
    """The hour of each example, to slice by, and its weight."""
    random = np.random.default_rng(18)
    return random.integers(0, HOURS, ROWS), random.choice([0.5, 1.0, 3.0], ROWS)


def by_tfma(kind: str) -> dict[str, dict[str, Any]]:
    """What TFMA computes, by slice. The name of a metric is `top_1_`, `micro_` or `macro_` with its own."""
    labels, predictions = made(kind)
    hours, weights = columns()
    asked = eval_config(LABELS[kind], EvaluateConfig(metrics=ASKED[kind], slices=("hour",)))
    config = text_format.Parse(
        'model_specs: {label_key: "label" prediction_key: "prediction" example_weight_key: "weight"}'
        + ALSO.get(kind, ""),
        config_pb2.EvalConfig(),
    )
    config.slicing_specs.extend(asked.slicing_specs)
    stock = [metric for metric in asked.metrics_specs[0].metrics if metric.class_name not in OURS]
    config.metrics_specs.add(metrics=stock)
    several = predictions.shape[1] > 1
    frame = pd.DataFrame(
        {
            "label": [*labels] if labels.ndim > 1 else labels,
            "prediction": [*predictions] if several else predictions[:, 0],
            "hour": hours,
            "weight": weights,
        }
    )
    found: dict[str, dict[str, Any]] = {}
    for key, outputs in analyzed(frame, config).slicing_metrics:
        of_slice = found.setdefault(" ".join(str(value) for _, value in key), {})
        for sub_key, metrics in outputs[""].items():
            start = {"": "", "topK:1": "top_1_"}.get(sub_key, f"{sub_key} ")
            of_slice |= {_flat(f"{start}{name}"): value for name, value in metrics.items()}
    return found


def _flat(name: str) -> str:
    """`macro_average: true\\n_f1_score` is macro_f1_score."""
    return name.replace("_average: true\n", "")


@pytest.fixture(scope="session")
def stock() -> dict[str, dict[str, dict[str, Any]]]:
    """The metrics of TFMA by kind of label and slice, "" being the whole split."""
    return {kind: by_tfma(kind) for kind in LABELS}


def ours(kind: str) -> dict[str, dict[str, float]]:
    labels, predictions = made(kind)
    hours, weights = columns()
    asked = eval_config(LABELS[kind], EvaluateConfig(metrics=ASKED[kind]))
    metrics = metrics_of(kind, 0.5, measured_names(asked))
    each = metrics.accumulate(ExampleGroups(labels, predictions, hours, HOURS, weights))
    slices = {"": each[0].merge(each[1:])} | {str(hour): accumulator for hour, accumulator in enumerate(each)}
    return {name: metrics.metrics(accumulator.total()) for name, accumulator in slices.items()}


def expect(found: Mapping[str, float], stock: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Each of ours equals TFMA's. names: TFMA's by ours."""
    for name, theirs in names.items():
        near = any(part in name for part in ("auc", "_at_"))  # TFMA tries 10,000 thresholds, at equal distances
        close = pytest.approx(stock[theirs]["doubleValue"], rel=0 if near else 2e-6, abs=3e-3 if near else 0)
        assert found[name] == close, name


@pytest.mark.parametrize("kind", LABELS)
def test_metrics_with_a_class_in_tfma_equal_its_values_in_every_slice(stock: Any, kind: str) -> None:
    same = {name: name for name in ASKED[kind] if METRICS[kind][key_in_metrics(kind, base_of(name))] not in OURS}
    found = ours(kind)
    assert found.keys() == stock[kind].keys() == {"", "0", "1", "2"}
    for one, metrics in found.items():
        expect(metrics, stock[kind][one], same)
    assert len(same) == {"binary": 33, "multiclass": 2, "multilabel": 0, "regression": 5}[kind]


def test_micro_averages_of_classes_equal_those_of_tfma_for_the_most_probable_class(stock: Any) -> None:
    names = {"micro_precision": "top_1_precision", "micro_recall": "top_1_recall", "micro_f1": "top_1_f1_score"}
    for one, metrics in ours("multiclass").items():
        expect(metrics, stock["multiclass"][one], names)
        assert metrics["micro_f1"] == pytest.approx(metrics["accuracy"])


def test_averages_over_classes_are_those_of_the_confusion_matrix_of_tfma(stock: Any) -> None:
    for one, metrics in ours("multiclass").items():
        (matrix,) = stock["multiclass"][one]["multi_class_confusion_matrix_at_thresholds"][
            "multiClassConfusionMatrixAtThresholds"
        ]["matrices"]
        counts = np.zeros((CLASSES, CLASSES))
        for entry in matrix["entries"]:
            place = entry.get("actualClassId", 0), entry.get("predictedClassId", 0)
            counts[place] = entry["numWeightedExamples"]
        true, present, chosen = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
        each = {"precision": true / chosen, "recall": true / present, "f1": 2 * true / (present + chosen)}
        for name, values in each.items():
            assert metrics[f"macro_{name}"] == pytest.approx(values.mean())
            assert metrics[f"weighted_{name}"] == pytest.approx(np.average(values, weights=present))


def test_areas_of_each_class_against_the_others_equal_those_of_tfma(stock: Any) -> None:
    labels, (hours, weights) = made("multiclass")[0], columns()
    for one, metrics in ours("multiclass").items():
        theirs = {name.strip(): value for name, value in stock["multiclass"][one].items()}
        each = [theirs[f"classId:{number} auc"]["doubleValue"] for number in range(CLASSES)]
        chosen = hours == int(one) if one else np.ones(ROWS, bool)
        present = np.bincount(labels[chosen].astype(int), weights[chosen])
        expect(metrics, theirs, {"macro_auc": "macro_auc"})
        assert metrics["weighted_auc"] == pytest.approx(np.average(each, weights=present), abs=3e-3)
        assert not one or metrics["weighted_auc"] != metrics["macro_auc"]


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_averages_over_several_classes_at_once_equal_those_of_tfma(stock: Any, average: str) -> None:
    theirs = {"precision": "precision", "recall": "recall", "f1": "f1_score", "auc": "auc"}
    names = {f"{average}_{name}": f" {average}_{of_tfma}" for name, of_tfma in theirs.items()}
    for one, metrics in ours("multilabel").items():
        found = {f" {name.strip()}": value for name, value in stock["multilabel"][one].items()}
        expect(metrics, found, names)
