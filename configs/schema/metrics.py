"""The metrics: their names in the config and in TensorFlow Model Analysis, and what is known of their values.

Some names have a level, the number after `@`: a decision threshold in `precision@0.3`, and in
`precision_at_recall@0.9` a target, which is the recall that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import JsonValue, WithJsonSchema

TOP_K = "top_K_accuracy"
"""Stands for the metrics of a multiclass label that are named after how many of the most probable classes count, such
as `top_3_accuracy`."""
METRICS = {
    "binary": {
        "auc": "AUC",
        "auc_precision_recall": "AUCPrecisionRecall",
        "binary_accuracy": "BinaryAccuracy",
        "balanced_accuracy": "BalancedAccuracy",
        "binary_crossentropy": "BinaryCrossEntropy",
        "calibration": "Calibration",
        "precision": "Precision",
        "recall": "Recall",
        "specificity": "Specificity",
        "f1": "F1Score",
        "matthews_correlation": "MatthewsCorrelationCoefficient",
        "false_positive_rate": "FPR",
        "false_negative_rate": "FNR",
        "negative_predictive_value": "NegativePredictiveValue",
        "predicted_positive_rate": "PredictedPositiveRate",
        "brier_score": "BrierScore",
        "precision_at_recall": "PrecisionAtRecall",
        "recall_at_precision": "RecallAtPrecision",
        "recall_at_false_positive_rate": "RecallAtFalsePositiveRate",
        "sensitivity_at_specificity": "SensitivityAtSpecificity",
        "specificity_at_sensitivity": "SpecificityAtSensitivity",
    },
    "multiclass": {
        "accuracy": "SparseCategoricalAccuracy",
        "crossentropy": "SparseCategoricalCrossentropy",
        "macro_precision": "MacroPrecision",
        "macro_recall": "MacroRecall",
        "macro_f1": "MacroF1",
        "weighted_f1": "WeightedF1",
        "weighted_precision": "WeightedPrecision",
        "weighted_recall": "WeightedRecall",
        "micro_precision": "MicroPrecision",
        "micro_recall": "MicroRecall",
        "micro_f1": "MicroF1",
        "matthews_correlation": "MulticlassMatthewsCorrelation",
        TOP_K: "TopKAccuracy",
        "macro_auc": "MulticlassMacroAUC",
        "weighted_auc": "MulticlassWeightedAUC",
    },
    "multilabel": {
        "macro_auc": "MultilabelMacroAUC",
        "micro_auc": "MultilabelMicroAUC",
        "macro_f1": "MultilabelMacroF1",
        "micro_f1": "MultilabelMicroF1",
        "subset_accuracy": "MultilabelSubsetAccuracy",
        "hamming_loss": "MultilabelHammingLoss",
        "binary_crossentropy": "MultilabelCrossentropy",
        "macro_precision": "MultilabelMacroPrecision",
        "macro_recall": "MultilabelMacroRecall",
        "micro_precision": "MultilabelMicroPrecision",
        "micro_recall": "MultilabelMicroRecall",
    },
    "regression": {
        "mean_squared_error": "MeanSquaredError",
        "root_mean_squared_error": "RootMeanSquaredError",
        "mean_absolute_error": "MeanAbsoluteError",
        "r_squared": "RSquared",
        "squared_correlation": "SquaredPearsonCorrelation",
        "mean_absolute_percentage_error": "MeanAbsolutePercentageError",
        "mean_squared_logarithmic_error": "MeanSquaredLogarithmicError",
        "median_absolute_error": "MedianAbsoluteError",
    },
    "next_word": {
        "accuracy": "NextWordAccuracy",
        "top_5_accuracy": "NextWordTop5Accuracy",
        "crossentropy": "NextWordCrossentropy",
        "perplexity": "NextWordPerplexity",
    },
    "text": {
        "accuracy": "TextAccuracy",
        "top_5_accuracy": "TextTop5Accuracy",
        "crossentropy": "TextCrossentropy",
        "perplexity": "TextPerplexity",
        "exact_match": "TextExactMatch",
    },
}
"""By kind of label: the names of the metrics in the config, and their classes in TensorFlow Model Analysis."""

OURS = frozenset(
    {
        *METRICS["multiclass"].values(),
        "BrierScore",
        "RootMeanSquaredError",
        "RSquared",
        "MedianAbsoluteError",
        *METRICS["multilabel"].values(),
        *METRICS["next_word"].values(),
        *METRICS["text"].values(),
    }
    - {"SparseCategoricalAccuracy", "SparseCategoricalCrossentropy"}
)
"""The classes among them that TensorFlow Model Analysis does not have under one name."""

AT_TARGET = {
    "precision_at_recall": "recall",
    "recall_at_precision": "precision",
    "recall_at_false_positive_rate": "false_positive_rate",
    "sensitivity_at_specificity": "specificity",
    "specificity_at_sensitivity": "sensitivity",
}
"""Metrics of a binary label at the best decision threshold at which another one reaches a target, as in Keras: which
one that is. Their names need the target, as `precision_at_recall@0.9`."""

ONE_VS_REST = frozenset({"macro_auc", "weighted_auc"})
"""Metrics of a multiclass label that take each class against all others, for each of which every example counts."""

ONE_VS_REST_CLASSES = 1_000
"""The most classes for which they can be measured."""

_ON_REQUEST = """
balanced_accuracy specificity matthews_correlation false_positive_rate false_negative_rate
negative_predictive_value predicted_positive_rate brier_score
"""
ON_REQUEST = {
    "binary": frozenset({*_ON_REQUEST.split(), *AT_TARGET}),
    "multiclass": frozenset(METRICS["multiclass"])
    - {"accuracy", "crossentropy", "macro_precision", "macro_recall", "macro_f1"},
    "regression": frozenset(
        {"mean_absolute_percentage_error", "mean_squared_logarithmic_error", "median_absolute_error"}
    ),
    "multilabel": frozenset({"macro_precision", "macro_recall", "micro_precision", "micro_recall"}),
}
"""By kind of label: the metrics that are computed only if the config names them."""

_DECISIONS = """
binary_accuracy balanced_accuracy precision recall specificity f1 matthews_correlation false_positive_rate
false_negative_rate negative_predictive_value predicted_positive_rate
"""
DECISION_METRICS = {
    "binary": frozenset(_DECISIONS.split()),
    "multilabel": frozenset(METRICS["multilabel"]) - {"macro_auc", "micro_auc", "binary_crossentropy"},
}
"""By kind of label: the metrics of yes-or-no decisions, which depend on `decision_threshold`. With a level, as
`precision@0.3`, they are at that decision threshold instead."""

_LOWER_IS_BETTER = """
binary_crossentropy crossentropy perplexity mean_squared_error root_mean_squared_error mean_absolute_error
hamming_loss false_positive_rate false_negative_rate brier_score mean_absolute_percentage_error
mean_squared_logarithmic_error median_absolute_error
"""
LOWER_IS_BETTER = frozenset(_LOWER_IS_BETTER.split())
"""Metrics for which lower is better."""

NEITHER_IS_BETTER = frozenset({"predicted_positive_rate"})
"""Metrics that describe decisions and do not judge them."""

_FRACTIONS = """
auc auc_precision_recall binary_accuracy balanced_accuracy precision recall specificity f1 accuracy
macro_precision macro_recall macro_f1 weighted_f1 top_5_accuracy squared_correlation macro_auc
micro_auc micro_f1 micro_precision micro_recall subset_accuracy hamming_loss exact_match weighted_precision
weighted_recall weighted_auc false_positive_rate false_negative_rate negative_predictive_value
predicted_positive_rate brier_score
"""
FRACTION_METRICS = frozenset({*_FRACTIONS.split(), *AT_TARGET, TOP_K})
"""Metrics between 0 and 1."""

SIGNED = frozenset({"r_squared", "matthews_correlation"})
"""Metrics that may be negative, and are at most 1."""

LOSSES = {
    "binary": "binary_crossentropy",
    "multiclass": "crossentropy",
    "multilabel": "binary_crossentropy",
    "regression": "mean_squared_error",
    "next_word": "crossentropy",
    "text": "crossentropy",
}
"""By kind of label: the metric by which a model is compared with the best constant prediction. It is lowest for the
true probabilities, or the true mean (Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation",
2007)."""


LEVEL_PATTERN = r"0\.[0-9]{0,8}[1-9]"
"""A number above 0 and below 1. There is one way to write each, so that each metric has one name."""
_LEVEL = re.compile(rf"(?P<base>[^@]*)@(?P<level>{LEVEL_PATTERN})")


def split_level(name: str) -> tuple[str, float | None]:
    """The metric without its level, and the level: `precision@0.3` is ("precision", 0.3). None if it has none, or one
    that cannot be read.
    """
    match = _LEVEL.fullmatch(name)
    return (match["base"], float(match["level"])) if match else (name, None)


_TOP = re.compile(r"top_(0|[1-9][0-9]{0,8})_accuracy")


def top_k(name: str) -> int | None:
    """The K of a metric's own name such as `top_3_accuracy`, even if no label has that metric; None without one."""
    match = _TOP.fullmatch(name)
    return int(match[1]) if match else None


def key_in_metrics(kind: str, base: str) -> str:
    """What stands for a metric without its task and level in METRICS of a kind of label: TOP_K for `top_3_accuracy`."""
    stands = TOP_K in METRICS[kind] and top_k(base) is not None
    return TOP_K if stands else base


def task_metric(task: str, metric: str) -> str:
    """What the metric of one of several labels is called: `price/mean_absolute_error`; of "", the only label, by its
    own name.
    """
    return f"{task}/{metric}" if task else metric


def split_task(name: str) -> tuple[str, str]:
    """The task and the metric's own name, of `price/mean_absolute_error`; the task is "" if there is only one label."""
    task, _, own = name.rpartition("/")
    return task, own


def own_name(name: str) -> str:
    """The metric's own name, without that of its task."""
    return split_task(name)[1]


def of_task(names: Iterable[str], task: str) -> dict[str, str]:
    """The metrics of a task, in order, each with its own name; of "", the only label, all."""
    return {name: own_name(name) for name in names if not task or split_task(name)[0] == task}


def metrics_of_kinds(kinds: Mapping[str, str]) -> dict[str, str]:
    """The metrics of labels, each with the name of its task. kinds: of label, by the name of the task."""
    return {task_metric(task, name): name for task, kind in kinds.items() for name in METRICS[kind]}


def base_of(name: str) -> str:
    """The metric without its task and its level."""
    return split_level(own_name(name))[0]


def with_level(base: str, level: float) -> str:
    """The name of a metric with a level, such as `precision@0.3`."""
    return f"{base}@{level:.9f}".rstrip("0")


def with_example(base: str) -> str:
    """The name of a metric in AT_TARGET with a usual target, such as `precision_at_recall@0.9`."""
    return with_level(base, 0.01 if AT_TARGET[base] == "false_positive_rate" else 0.9)


def lower_is_better(name: str) -> bool:
    """Whether a lower value of a metric, by its name in the config, is better."""
    return base_of(name) in LOWER_IS_BETTER


def is_fraction(name: str) -> bool:
    """Whether a metric, by its name in the config, is between 0 and 1."""
    base = base_of(name)
    return base in FRACTION_METRICS or top_k(base) is not None


WITH_LEVELS = frozenset({*AT_TARGET, *(name for names in DECISION_METRICS.values() for name in names)})
"""Metrics whose names may have a level."""
LEVEL_NAMES_PATTERN = rf"^({'|'.join(sorted(WITH_LEVELS))})@{LEVEL_PATTERN}$"
_METRIC_NAMES: list[JsonValue] = [*sorted({name for names in METRICS.values() for name in names} - {*AT_TARGET, TOP_K})]
TOP_K_PATTERN = "^top_([2-9]|[1-9][0-9]{1,8})_accuracy$"
TASK_METRIC = rf"^[A-Za-z]\w*/\w+(@{LEVEL_PATTERN})?$"
"""A metric of one of several labels."""
ANY_METRIC: dict[str, JsonValue] = {
    "anyOf": [
        {"enum": _METRIC_NAMES},
        {"type": "string", "pattern": LEVEL_NAMES_PATTERN},
        {"type": "string", "pattern": TOP_K_PATTERN},
        {"type": "string", "pattern": TASK_METRIC},
    ]
}
"""The JSON Schema of a metric's name."""
MetricName = Annotated[str, WithJsonSchema(ANY_METRIC)]
"""A name in METRICS, with a level or without, behind that of its task if there are several labels. Which ones apply
depends on the label, so the rules check them."""
