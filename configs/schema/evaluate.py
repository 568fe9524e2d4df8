"""`evaluate:` what is measured, and what "good enough" means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from headrace.configs.schema.section import Name, Section

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
    },
    "multiclass": {
        "accuracy": "SparseCategoricalAccuracy",
        "crossentropy": "SparseCategoricalCrossentropy",
        "macro_precision": "MacroPrecision",
        "macro_recall": "MacroRecall",
        "macro_f1": "MacroF1",
        "weighted_f1": "WeightedF1",
        "top_3_accuracy": "Top3Accuracy",
        "top_5_accuracy": "Top5Accuracy",
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
        "MacroPrecision",
        "MacroRecall",
        "MacroF1",
        "WeightedF1",
        "Top3Accuracy",
        "Top5Accuracy",
        "RootMeanSquaredError",
        "RSquared",
        *METRICS["multilabel"].values(),
        *METRICS["next_word"].values(),
        *METRICS["text"].values(),
    }
)
"""The classes among them that TensorFlow Model Analysis does not have under one name."""

ON_REQUEST = {
    "binary": frozenset({"balanced_accuracy", "specificity", "matthews_correlation"}),
    "multiclass": frozenset({"weighted_f1", "top_3_accuracy", "top_5_accuracy"}),
    "multilabel": frozenset({"macro_precision", "macro_recall", "micro_precision", "micro_recall"}),
}
"""By kind of label: the metrics that are computed only if the config names them."""

OF_DECISIONS = {
    "binary": frozenset(
        {"binary_accuracy", "balanced_accuracy", "precision", "recall", "specificity", "f1", "matthews_correlation"}
    ),
    "multilabel": frozenset(METRICS["multilabel"]) - {"macro_auc", "micro_auc", "binary_crossentropy"},
}
"""By kind of label: the metrics of yes-or-no decisions, which depend on `decision_threshold`."""

LOWER_IS_BETTER = frozenset(
    {
        "binary_crossentropy",
        "crossentropy",
        "perplexity",
        "mean_squared_error",
        "root_mean_squared_error",
        "mean_absolute_error",
        "hamming_loss",
    }
)
"""Metrics for which lower is better."""

FRACTIONS = frozenset(
    {
        "auc",
        "auc_precision_recall",
        "binary_accuracy",
        "balanced_accuracy",
        "precision",
        "recall",
        "specificity",
        "f1",
        "accuracy",
        "macro_precision",
        "macro_recall",
        "macro_f1",
        "weighted_f1",
        "top_3_accuracy",
        "top_5_accuracy",
        "squared_correlation",
        "macro_auc",
        "micro_auc",
        "micro_f1",
        "micro_precision",
        "micro_recall",
        "subset_accuracy",
        "hamming_loss",
        "exact_match",
    }
)
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

_METRIC_NAMES: list[JsonValue] = [*sorted({name for names in METRICS.values() for name in names})]
TASK_METRIC = r"^[A-Za-z]\w*/\w+$"
"""A metric of one of several labels."""
_NAMED: list[JsonValue] = [{"enum": _METRIC_NAMES}, {"type": "string", "pattern": TASK_METRIC}]
MetricName = Annotated[str, Field(json_schema_extra={"anyOf": _NAMED})]
"""A name in METRICS, behind that of its task if there are several. Which ones apply depends on the label, so the rules
check them."""


def task_metric(task: str, metric: str) -> str:
    """What the metric of a task is called: `price/mean_absolute_error`; of "", the label itself, by its own name."""
    return f"{task}/{metric}" if task else metric


def own_name(metric: str) -> str:
    """The metric's own name, without that of its task."""
    return metric.rpartition("/")[2]


def metrics_of_kinds(kinds: Mapping[str, str]) -> dict[str, str]:
    """The metrics of labels, each with the name of its task. kinds: of label, by the name of the task."""
    return {task_metric(task, name): name for task, kind in kinds.items() for name in METRICS[kind]}


class SliceThreshold(Section):
    """What a metric must reach in each slice of a slicing for the model to be blessed."""

    min: float | None = None
    """Minimum value in every slice."""
    max: float | None = None
    """Maximum value in every slice."""
    max_gap: Annotated[float, Field(gt=0)] | None = None
    """How far the values of any two slices may be apart, as a measure of fairness."""
    min_examples: Annotated[int, Field(ge=1)] = 100
    """Slices with fewer examples are not judged. If that leaves none with a value, the model is not blessed."""

    @model_validator(mode="after")
    def _bounds_make_sense(self) -> SliceThreshold:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min: {self.min} is greater than max: {self.max}")
        if self.min is None and self.max is None and self.max_gap is None:
            raise ValueError("set at least one of `min`, `max` and `max_gap`")
        return self


class ChangeThreshold(Section):
    """By how much a metric must or may differ from that of the latest blessed model, as TFMA's change thresholds. No
    effect while there is no blessed model.
    """

    absolute: float | None = None
    """Bound of the difference from the baseline. Where higher is better, the least: 0.005 asks for that much
    improvement, -0.01 allows a loss of 0.01. Where lower is better, the greatest."""
    relative: float | None = None
    """Bound of the difference as a share of the baseline's value, with the same signs: -0.02 allows an AUC to be 2 %
    lower, 0.02 an error to be 2 % higher. A baseline of 0 does not meet it."""
    direction: Literal["higher_is_better", "lower_is_better"] | None = None
    """null: lower is better for losses and errors, higher for all other metrics."""

    @model_validator(mode="after")
    def _has_a_bound(self) -> ChangeThreshold:
        if self.absolute is None and self.relative is None:
            raise ValueError("set at least one of `absolute` and `relative`")
        return self


class Threshold(Section):
    """What a metric must reach on the whole evaluated split, and in its slices, for the model to be blessed."""

    min: float | None = None
    """Minimum value."""
    max: float | None = None
    """Maximum value."""
    not_worse_than_baseline_by: Annotated[float, Field(ge=0)] | None = None
    """How much worse than the latest blessed model it may be (absolute; lower for accuracies, higher for errors). No
    effect while there is no blessed model. If that model is damaged and no other can serve as the baseline, no model is
    blessed."""
    change: ChangeThreshold | None = None
    """By how much it must or may differ from the latest blessed model, relative to its value or with a direction of
    your own. Damage to that model has the same effect. null: no bound."""
    confident: bool = False
    """Whether a bound must hold for the whole 95 % confidence interval of the metric, or of the difference from the
    baseline, and not just for the value: a model that only seems good enough on few examples is then not blessed. A
    metric without an interval, as over fewer than 40 examples, does not meet the bound. The bounds of `slices` must
    hold for the interval of each slice, and for that of the difference between any two."""
    slices: dict[str, SliceThreshold] = {}
    """What it must reach in each slice, by the column of `evaluate.slices`; by the columns with `, ` between them for
    crossed ones, such as `payment_type, trip_start_hour`."""

    @model_validator(mode="after")
    def _bounds_make_sense(self) -> Threshold:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min: {self.min} is greater than max: {self.max}")
        if self.min is None and self.max is None and not self.compares and not self.slices:
            raise ValueError("set at least one of `min`, `max`, `not_worse_than_baseline_by`, `change` and `slices`")
        if self.not_worse_than_baseline_by is not None and self.change is not None:
            raise ValueError("`change` says what `not_worse_than_baseline_by` does, and more; set one of both")
        return self

    @property
    def compares(self) -> bool:
        """Whether the metric is compared with that of the latest blessed model."""
        return self.not_worse_than_baseline_by is not None or self.change is not None


class EvaluateConfig(Section):
    """What is measured on held-out data, and which values are required."""

    split: Name | None = None
    """The split to evaluate. null: `test` if it exists, else `eval`."""
    metrics: tuple[MetricName, ...] = ()
    """Names of metrics. Empty: the usual ones for the label's kind. With several labels, each name follows that of its
    task, as in `price/mean_absolute_error`, and a task of which none is named has its usual ones."""
    decision_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """For a binary label: the predicted probability above which an example counts as positive in the metrics of
    decisions, such as `precision`; for a multilabel label, above which it counts as one of a class. The report shows
    precision and recall of a binary label at other thresholds."""
    slices: tuple[Name | Annotated[tuple[Name, ...], Field(min_length=1)], ...] = ()
    """Data columns for whose values metrics are computed separately; a list inside the list crosses columns. Rows
    without a value form the slice `(missing)`. If an example has multiple values, the first counts; a text that
    contains a `separator` is one value, and so one slice."""
    thresholds: Annotated[
        dict[str, Threshold],
        Field(json_schema_extra={"propertyNames": {"anyOf": _NAMED}}),
    ] = {}
    """Required values by metric. Empty: every model is blessed whose metrics have values and that is
    `better_than_constant`."""
    better_than_constant: bool = True
    """Whether the model must be better than the best constant prediction to be blessed: its cross-entropy below that of
    the shares of the classes, or its mean squared error below the variance of the labels, on the evaluated split. Turn
    it off for a model that is good without such a loss, as one that ranks well but whose probabilities are skewed."""
    importance: Literal["auto", "none"] | Annotated[int, Field(ge=20)] = "auto"
    """On how many examples of the split the importance of the columns is measured, and the partial dependence of the
    predictions on the most important ones. The time grows with them and with the square of the number of columns. auto:
    1,000, fewer for a model that reads more than 44 columns, so that it takes at most some seconds, and none from 142
    columns on. none: neither is computed."""

    def of_task(self, task: str) -> Self:
        """What is asked for one of several labels, under the metrics' own names; of "", all."""
        if not task:
            return self
        before = task_metric(task, "")
        return self.model_copy(
            update={
                "metrics": tuple(name.removeprefix(before) for name in self.metrics if name.startswith(before)),
                "thresholds": {
                    name.removeprefix(before): one for name, one in self.thresholds.items() if name.startswith(before)
                },
            }
        )

    @property
    def slicings(self) -> dict[str, tuple[str, ...]]:
        """The columns of each slicing, by its name in `thresholds.*.slices`."""
        columns = [(slicing,) if isinstance(slicing, str) else slicing for slicing in self.slices]
        return {", ".join(each): each for each in columns}
