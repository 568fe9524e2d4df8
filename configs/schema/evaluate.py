"""`evaluate:` what is measured, and what "good enough" means."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from headrace.configs.schema.section import Name, Section

METRICS = {
    "binary": {
        "auc": "AUC",
        "auc_precision_recall": "AUCPrecisionRecall",
        "binary_accuracy": "BinaryAccuracy",
        "binary_crossentropy": "BinaryCrossEntropy",
        "calibration": "Calibration",
        "precision": "Precision",
        "recall": "Recall",
    },
    "multiclass": {
        "accuracy": "SparseCategoricalAccuracy",
        "crossentropy": "SparseCategoricalCrossentropy",
    },
    "regression": {
        "mean_squared_error": "MeanSquaredError",
        "mean_absolute_error": "MeanAbsoluteError",
        "squared_correlation": "SquaredPearsonCorrelation",
    },
    "next_word": {
        "accuracy": "NextWordAccuracy",
        "top_5_accuracy": "NextWordTop5Accuracy",
        "crossentropy": "NextWordCrossentropy",
        "perplexity": "NextWordPerplexity",
    },
}
"""By kind of label: the names of the metrics in the config, and their classes in TensorFlow Model Analysis, which has
none for next_word; those names are ours."""

LOWER_IS_BETTER = frozenset(
    {"binary_crossentropy", "crossentropy", "perplexity", "mean_squared_error", "mean_absolute_error"}
)
"""Metrics for which lower is better."""

LOSSES = {
    "binary": "binary_crossentropy",
    "multiclass": "crossentropy",
    "regression": "mean_squared_error",
    "next_word": "crossentropy",
}
"""By kind of label: the metric by which a model is compared with the best constant prediction. It is lowest for the
true probabilities, or the true mean (Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation",
2007)."""

_METRIC_NAMES: list[JsonValue] = [*sorted({name for names in METRICS.values() for name in names})]
MetricName = Annotated[str, Field(json_schema_extra={"enum": _METRIC_NAMES})]
"""A name in METRICS. Which ones apply depends on the label, so the rules check them."""


class Threshold(Section):
    """What a metric must reach on the whole evaluated split for the model to be blessed."""

    min: float | None = None
    """Minimum value."""
    max: float | None = None
    """Maximum value."""
    not_worse_than_baseline_by: Annotated[float, Field(ge=0)] | None = None
    """How much worse than the latest blessed model it may be (absolute; lower for accuracies, higher for errors). No
    effect while there is no blessed model. If that model is damaged and no other can serve as the baseline, no model is
    blessed."""

    @model_validator(mode="after")
    def _bounds_make_sense(self) -> Threshold:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min: {self.min} is greater than max: {self.max}")
        if self.min is None and self.max is None and self.not_worse_than_baseline_by is None:
            raise ValueError("set at least one of `min`, `max` and `not_worse_than_baseline_by`")
        return self


class EvaluateConfig(Section):
    """What is measured on held-out data, and which values are required."""

    split: Name | None = None
    """The split to evaluate. null: `test` if it exists, else `eval`."""
    metrics: tuple[MetricName, ...] = ()
    """Names of metrics. Empty: all that apply to the label's kind."""
    slices: tuple[Name | Annotated[tuple[Name, ...], Field(min_length=1)], ...] = ()
    """Data columns for whose values metrics are computed separately; a list inside the list crosses columns. Rows
    without a value form the slice `(missing)`. If an example has multiple values, the first counts; a text that
    contains a `separator` is one value, and so one slice."""
    thresholds: Annotated[
        dict[str, Threshold], Field(json_schema_extra={"propertyNames": {"enum": _METRIC_NAMES}})
    ] = {}
    """Required values by metric. Empty: every model is blessed whose metrics have values and that is
    `better_than_constant`."""
    better_than_constant: bool = True
    """Whether the model must be better than the best constant prediction to be blessed: its cross-entropy below that of
    the shares of the classes, or its mean squared error below the variance of the labels, on the evaluated split. Turn
    it off for a model that is good without such a loss, as one that ranks well but whose probabilities are skewed."""
