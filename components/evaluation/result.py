"""The result of an evaluation: `evaluation.json` alongside TFMA's own files. Imports neither TensorFlow nor TFMA.

evaluation = read_evaluation(record.node("Evaluator").outputs["evaluation"].uri)
evaluation.metrics["auc"], evaluation.blessed, evaluation.reasons
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from headrace.common.errors import RunError
from headrace.common.figures import figure
from headrace.configs.schema.metrics import lower_is_better

FILE_NAME = "evaluation.json"

Metrics = dict[str, float | None]
"""Values by the metric's name in the config; None if it has no value, as precision where nothing is predicted."""
Interval = tuple[float, float]
"""The ends of a 95% confidence interval."""
Intervals = dict[str, Interval]
"""By the metric's name; without those that have none, as over a few examples."""


BAND = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The quantiles of the errors of a band."""


@dataclass(frozen=True)
class SliceMetrics:
    """The metrics of one value of a column, or of one combination of values, such as `trip_start_hour = 5`.

    change: the intervals of the differences from the baseline.
    """

    name: str
    metrics: Metrics
    example_count: int
    baseline: Metrics | None
    intervals: Intervals = field(default_factory=dict)
    change: Intervals = field(default_factory=dict)


@dataclass(frozen=True)
class ThresholdCheck:
    """One bound of one threshold, met or not.

    limit: what the value had to reach. For `not_worse_than_baseline_by`, which stands for any bound of the difference
    from the baseline, and for `relative_change` it includes the baseline's value; for
    `better_than_constant` it is what the best constant prediction reaches, and the value must be below it.
    confident: whether the whole interval had to reach it, which for `not_worse_than_baseline_by` is that of the
    difference, added to the baseline's value; interval: None if there is none; slicing: the columns of the slices that
    it is for, "" for the whole split; slice: the worst of them, or the two that are farthest apart; lower_is_better:
    for a comparison with the baseline, None in evaluations of earlier versions.
    """

    metric: str
    bound: Literal["min", "max", "not_worse_than_baseline_by", "relative_change", "better_than_constant", "max_gap"]
    limit: float | None
    value: float | None
    baseline: float | None
    passed: bool
    confident: bool = False
    interval: Interval | None = None
    slicing: str = ""
    slice: str = ""
    lower_is_better: bool | None = None

    @property
    def compares(self) -> bool:
        """Whether it is a bound of the difference from the baseline."""
        return self.bound in ("not_worse_than_baseline_by", "relative_change")

    @property
    def is_upper(self) -> bool:
        """Whether the value must be at most the limit."""
        lower = lower_is_better(self.metric) if self.lower_is_better is None else self.lower_is_better
        return self.bound == "max" or (self.bound != "min" and lower)

    def __str__(self) -> str:
        """One line, such as `auc is 0.71, below min 0.8`."""
        if self.slicing:
            return self._of_slices()
        if self.value is None:
            return f"{self.metric} has no value to compare with {self.bound}"
        if self.limit is None:
            what = "has no value" if self.baseline is None else "is 0, from which there is no relative change"
            return f"{self._measured()}, but the baseline's {what}"
        if self.confident:
            return self._of_interval(self.limit)
        if self.bound == "better_than_constant":
            relation = "below" if self.passed else "not below"
            return f"{self._measured()}, {relation} the best constant prediction's {figure(self.limit)}"
        relation = "within" if self.passed else "above" if self.value > self.limit else "below"
        limit = f"{self.bound} {figure(self.limit)}"
        if self.baseline is not None:
            limit = f"{figure(self.limit)}, the limit given the baseline's {figure(self.baseline)}"
        return f"{self._measured()}, {relation} {limit}"

    def _measured(self) -> str:
        return f"{self.metric} {'has no value' if self.value is None else f'is {figure(self.value)}'}"

    def _of_slices(self) -> str:
        if self.value is None or self.limit is None:
            if self.slice:
                return f"{self.metric} has no value for {self.slice}, so {self.bound} cannot be judged"
            few = "at most one slice" if self.bound == "max_gap" else "no slice"
            return f"{few} by {self.slicing} has enough examples for {self.bound} of {self.metric} to be judged"
        limit = f"{self.bound} {figure(self.limit)}"
        what = f"{self._measured()} for {self.slice}"
        if self.confident and self.interval is None:
            return f"{what}, without a confidence interval to compare with {limit}"
        if self.bound == "max_gap":
            what = f"{self.metric} differs by {figure(self.value)} between {self.slice}"
        if self.interval is not None:
            low, high = self.interval
            relation = "within" if self.passed else "not all within"
            return f"{what}, with a 95% confidence interval from {figure(low)} to {figure(high)}, {relation} {limit}"
        relation = "within" if self.passed else "above" if self.value > self.limit else "below"
        return f"{what}, {relation} {limit}"

    def _of_interval(self, limit: float) -> str:
        given = "" if self.baseline is None else f", given the baseline's {figure(self.baseline)}"
        if self.interval is None:
            return f"{self._measured()}, without a confidence interval to compare with {figure(limit)}{given}"
        low, high = self.interval
        relation = "within" if self.passed else "not all within"
        what = f"{self._measured()}, with a 95% confidence interval from {figure(low)} to {figure(high)}"
        return f"{what}, {relation} the limit {figure(limit)}{given}"


@dataclass(frozen=True)
class DecisionPoint:
    """What decisions by one threshold are like. share: that of the examples above it, by weight."""

    threshold: float
    share: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Curves:
    """Curves for binary labels, and the errors of predicted numbers.

    roc: (false positive rate, true positive rate), from (0, 0) to (1, 1); calibration: (mean prediction, share of
    positives, weight of the examples, which is their number if the data has no weights) for each tenth of the
    predictions' range; decisions: from the highest threshold down; errors: (share of the examples, the error that so
    many do not exceed), of predictions minus labels.
    """

    roc: tuple[tuple[float, float], ...] = ()
    calibration: tuple[tuple[float, float, float], ...] = ()
    decisions: tuple[DecisionPoint, ...] = ()
    errors: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Confusion:
    """How often each class is predicted for each class, by weight.

    classes: their numbers; counts: a row for each as the label, with a column for each as the prediction.
    """

    classes: tuple[int, ...]
    counts: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ClassMetrics:
    """How well one class is predicted: of a multilabel label, or of a multiclass label whose AUC is measured.

    number: of the class; share: of the examples that belong to it, by weight; auc: None if all of them do, or none.
    """

    number: int
    share: float
    auc: float | None
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class WorstExample:
    """An example that was predicted badly.

    label, prediction: classes, a word or a number, as text; loss: by which it was chosen; error: the prediction minus
    the label, for numbers; values: of the data columns, as text; None for a missing one.
    """

    label: str
    prediction: str
    loss: float | None
    error: float | None
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class WorstExamples:
    """The examples with the highest losses, the worst first. columns: of their values; more: columns not shown."""

    columns: tuple[str, ...]
    rows: tuple[WorstExample, ...]
    more: int = 0


@dataclass(frozen=True)
class ErrorBand:
    """The errors, prediction minus label, of examples whose predictions are alike.

    prediction: their mean; errors: the quantiles in BAND.
    """

    prediction: float
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Agreement:
    """Predicted against actual numbers.

    examples: that were used, chosen as if at random if there are more; edges: of the cells, the same for both;
    cells: (place of the prediction, place of the label, weight) of those that are not empty; outside: the share of the
    weight beyond the edges; bands: ten, with as many examples each, from low predictions to high ones.
    """

    examples: int
    edges: tuple[float, ...]
    cells: tuple[tuple[int, int, float], ...]
    outside: float
    bands: tuple[ErrorBand, ...]


@dataclass(frozen=True)
class FeatureImportance:
    """How much the loss grows when the values of a data column are permuted. error: the standard error."""

    column: str
    increase: float
    error: float


@dataclass(frozen=True)
class PartialDependence:
    """The mean prediction if all examples had the same value in a data column.

    values: numbers in rising order, as text if float64 cannot hold them, or the most frequent texts; predictions: the
    mean of each output for each value; classes: the numbers of the classes whose probabilities they are, empty for a
    predicted number.
    """

    column: str
    values: tuple[float | str, ...]
    predictions: tuple[tuple[float, ...], ...]
    classes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Screening:
    """What is known of the columns of a wide table whose importance was not measured one by one.

    columns: in all; unraised: how many are in blocks of columns whose permutation did not raise the loss; unreached:
    how many are in blocks that raised it, but were not divided down to single columns in time; most: by how much these
    blocks raised it at most.
    """

    columns: int
    unraised: int
    unreached: int
    most: float


@dataclass(frozen=True)
class Explanation:
    """What the predictions depend on.

    loss: the metric that importances are increases of; examples: that they are computed on; repeats: permutations of
    each column; importance: the most important column first; dependence: on the first columns with single values, none
    if `report.rows` is none; note: why there is nothing; screening: None if every column was measured.
    """

    loss: str = ""
    examples: int = 0
    repeats: int = 0
    importance: tuple[FeatureImportance, ...] = ()
    dependence: tuple[PartialDependence, ...] = ()
    note: str = ""
    screening: Screening | None = None


@dataclass(frozen=True)
class Evaluation:
    """Metrics over the whole split and over its slices, and the verdict.

    example_count: examples with a label, and a weight above 0 if the data has weights; unlabelled: examples left out
    because their label is missing or not one of the classes; reasons: why the model is not blessed, empty if it is;
    constant: what a model would reach that predicts the same for all of the examples, for the metrics of which it is a
    yardstick; remarks: what limits the evaluation's worth; weight: the data column with the weights of the examples, ""
    if all count the same; intervals: of the metrics; change: of the differences from the baseline; decision_threshold:
    the probability above which a prediction counts as positive, for binary and multilabel labels; classes: each one of
    a multilabel label, and of a multiclass label whose AUC is measured; worst: None if `report.rows` is none;
    agreement: for numbers; explanation: empty if `evaluate.importance` is none; tasks: of each of several labels, whose
    metrics are here too, by names such as `price/mean_absolute_error`, while everything from `curves` on is only there.
    """

    split: str
    example_count: int
    unlabelled: int
    metrics: Metrics
    baseline: Metrics | None
    slices: tuple[SliceMetrics, ...]
    checks: tuple[ThresholdCheck, ...]
    blessed: bool
    reasons: tuple[str, ...]
    curves: Curves | None
    constant: Metrics = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    weight: str = ""
    intervals: Intervals = field(default_factory=dict)
    change: Intervals = field(default_factory=dict)
    confusion: Confusion | None = None
    decision_threshold: float | None = None
    classes: tuple[ClassMetrics, ...] = ()
    worst: WorstExamples | None = None
    agreement: Agreement | None = None
    explanation: Explanation = Explanation()
    tasks: dict[str, Evaluation] = field(default_factory=dict)


_ADAPTER = TypeAdapter(Evaluation)


def write_evaluation(uri: str | Path, evaluation: Evaluation) -> None:
    """Write `evaluation.json` into the artifact's directory."""
    (Path(uri) / FILE_NAME).write_bytes(_ADAPTER.dump_json(evaluation, indent=1))


def read_evaluation(uri: str | Path) -> Evaluation:
    """The evaluation in an artifact's directory. Raises RunError if it is missing or cannot be read."""
    path = Path(uri) / FILE_NAME
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RunError(f"{path}: the evaluation cannot be read: {error}") from None
