"""`evaluate:` what is measured, and what "good enough" means."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from headrace.configs.schema.metrics import ANY_METRIC, MetricName, of_task
from headrace.configs.schema.section import Name, Section

AUTO = -1
"""The number that the Evaluator gets for `importance: auto`."""


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
    """Bound of the difference as a share of the baseline's value, with the same signs: -0.02 allows an AUC to be 2%
    lower, 0.02 an error to be 2% higher. A baseline of 0 does not meet it."""
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
    """Whether a bound must hold for the whole 95% confidence interval of the metric, or of the difference from the
    baseline, and not just for the value: a model that only seems good enough on few examples is then not blessed. A
    metric without an interval, as over fewer than 40 examples, does not meet the bound; one that is 1 or 0 on all of
    them has an exact interval. The bounds of `slices` must hold for the interval of each slice, and for that of the
    difference between any two."""
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
    """Names of [metrics](#metrics). Those of decisions may have a decision threshold of their own, as `precision@0.3`,
    and be listed for several. `precision_at_recall@0.9` and its like need a target of the other metric. The K of
    `top_K_accuracy` is yours, as in `top_3_accuracy`. Empty: the usual ones for the label's kind. With several labels,
    each name is prefixed with the task's, as in `price/mean_absolute_error`, and a task of which none is named has its
    usual ones."""
    decision_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """For a binary label: the predicted probability above which an example counts as positive in the metrics of
    decisions, such as `precision`; for a multilabel label, above which it counts as one of a class. The report shows
    precision and recall of a binary label at other thresholds."""
    slices: tuple[Name | Annotated[tuple[Name, ...], Field(min_length=1)], ...] = ()
    """Data columns for whose values metrics are computed separately; a list inside the list crosses columns. Rows
    without a value form the slice `(missing)`. If an example has multiple values, the first counts; a text that
    contains a `separator` is one value, and so one slice."""
    thresholds: Annotated[dict[str, Threshold], Field(json_schema_extra={"propertyNames": ANY_METRIC})] = {}
    """Required values by metric. Empty: every model is blessed whose metrics have values and that is
    `better_than_constant`."""
    better_than_constant: bool = True
    """Whether the model must be better than the best constant prediction to be blessed: its cross-entropy below that of
    the shares of the classes, or its mean squared error below the variance of the labels, on the evaluated split. Turn
    it off for a model that is good without such a loss, as one that ranks well but whose probabilities are skewed."""
    importance: Literal["auto", "none"] | Annotated[int, Field(ge=20)] = "auto"
    """On how many examples of the split the importance of the columns is measured, and the partial dependence of the
    predictions on the most important ones. The time grows with them, with the number of columns, and with what the
    model computes for a row. auto: 1,000, and down to 100 for wide tables, so that it takes some seconds, or up to a
    minute of processor time if very many columns are to be measured on 100. If that takes longer, blocks of columns
    are permuted first, and only the columns found in those that raise the loss most are measured. A model of your own
    `run_fn`, or with features that your code computes, takes more time: from 142 columns on they are in blocks, and
    from 2,001 on nothing is measured. With a number, every column is measured. none: neither is computed."""

    def of_task(self, task: str) -> Self:
        """What is asked for one of several labels, under the metrics' own names; of "", all."""
        if not task:
            return self
        return self.model_copy(
            update={
                "metrics": tuple(of_task(self.metrics, task).values()),
                "thresholds": {own: self.thresholds[name] for name, own in of_task(self.thresholds, task).items()},
            }
        )

    @property
    def what_passes(self) -> str:
        """What is blessed because `evaluate.thresholds` is empty; "" if it is not."""
        if self.thresholds:
            return ""
        passes = "that beats a constant prediction" if self.better_than_constant else "whose metrics have values"
        what = f"every model {passes} is blessed, even one worse than the model in service"
        return f"`evaluate.thresholds` is empty: {what}"

    @property
    def slicings(self) -> dict[str, tuple[str, ...]]:
        """The columns of each slicing, by its name in `thresholds.*.slices`."""
        columns = [(slicing,) if isinstance(slicing, str) else slicing for slicing in self.slices]
        return {", ".join(each): each for each in columns}
