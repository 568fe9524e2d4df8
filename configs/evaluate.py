"""`evaluate:` what "good enough" means."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from headrace.configs.section import Name, Section

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
"""For each kind of label: the metric's name in the config, and its class in TensorFlow Model Analysis (which has none
for next_word; the names are ours)."""

LOWER_IS_BETTER = frozenset(
    {"binary_crossentropy", "crossentropy", "perplexity", "mean_squared_error", "mean_absolute_error"}
)
"""Metrics where a smaller value is the better one."""

_METRIC_NAMES: list[JsonValue] = [*sorted({name for names in METRICS.values() for name in names})]
MetricName = Annotated[str, Field(json_schema_extra={"enum": _METRIC_NAMES})]
"""A name in METRICS. Which ones fit depends on the label, so that configs/rules.py judges them."""


class Threshold(Section):
    """What one metric must reach, over the whole evaluated split, for the model to be blessed."""

    min: float | None = None
    """The least value allowed."""
    max: float | None = None
    """The greatest value allowed."""
    not_worse_than_baseline_by: Annotated[float, Field(ge=0)] | None = None
    """How much worse than the latest blessed model it may be (absolute; lower for accuracies, higher for errors). Has
    no effect while there is no blessed model. If that model is damaged, and no other can be compared with, no model is
    blessed."""

    @model_validator(mode="after")
    def _bounds_make_sense(self) -> Threshold:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min: {self.min} is above max: {self.max}")
        if self.min is None and self.max is None and self.not_worse_than_baseline_by is None:
            raise ValueError("a threshold needs `min`, `max` or `not_worse_than_baseline_by`")
        return self


class EvaluateConfig(Section):
    """What is measured on held-out data, and what it must reach."""

    split: Name | None = None
    """The split to evaluate; null: `test` where there is one, else `eval`."""
    metrics: tuple[MetricName, ...] = ()
    """Names of metrics; empty: all that fit the label's kind."""
    slices: tuple[Name | Annotated[tuple[Name, ...], Field(min_length=1)], ...] = ()
    """Data columns whose every value gets metrics of its own; a list inside the list crosses columns. Rows without a
    value are the slice `(missing)`. Of several values of one example the first counts; a text with a `separator` in it
    is one value, so it is a slice as a whole."""
    thresholds: Annotated[
        dict[str, Threshold], Field(json_schema_extra={"propertyNames": {"enum": _METRIC_NAMES}})
    ] = {}
    """For each metric what it must reach; empty: every model is blessed whose metrics have values."""
