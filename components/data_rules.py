"""What makes data unfit for training: one rule for each function, over statistics and anomalies as TFDV writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.statistics_pb2 import (
    CommonStatistics,
    DatasetFeatureStatistics,
    FeatureNameStatistics,
    NumericStatistics,
)

from headrace.configs.features import SEVERAL_VALUES
from headrace.configs.label import LabelConfig

MANY = 5
"""Values named in one finding before the rest are only counted."""
NOT_BY_CHANCE = 0.001
"""A column that is missing in a whole split is a finding where chance would do that less often."""
HISTOGRAM_NOISE = 0.01
"""Share of the values that TFDV's approximate histogram may put into the wrong bucket (it misses by about 0.0002)."""


@dataclass(frozen=True)
class Finding:
    """One thing that makes a split unfit, or, where it does not stop the run, is only worth knowing. `column` is "" for
    the split as a whole; `what` names the values.
    """

    split: str
    column: str
    rule: str
    what: str
    stops: bool = True


@dataclass(frozen=True)
class Split:
    """What is known of one split, with its columns by name."""

    name: str
    examples: int
    columns: Mapping[str, FeatureNameStatistics]

    @classmethod
    def of(cls, name: str, statistics: Sequence[DatasetFeatureStatistics]) -> Split:
        """From the datasets in one statistics file: one, or none where the split has no examples."""
        columns = {".".join(column.path.step): column for data in statistics for column in data.features}
        return cls(name, sum(data.num_examples for data in statistics), columns)

    def present(self, column: str) -> int:
        """Examples that have a value in this column (NaN is none)."""
        if column not in self.columns:
            return 0
        statistics = self.columns[column]
        return min(_common(statistics).tot_num_values - _nan(statistics), self.examples)


def schema_anomalies(split: str, anomalies: Anomalies) -> Iterator[Finding]:
    """Whatever differs from the schema, in TFDV's words."""
    for name, info in anomalies.anomaly_info.items():
        column = ".".join(info.path.step) or name
        for reason in info.reason:
            yield Finding(split, column, reason.short_description, reason.description.strip())
        if not info.reason:
            yield Finding(split, column, info.short_description, info.description.strip())
    for reason in anomalies.dataset_anomaly_info.reason:
        yield Finding(split, "", reason.short_description, reason.description.strip())


def empty_split(split: Split) -> Iterator[Finding]:
    """A split without examples can neither train nor judge."""
    if not split.examples:
        what = "no examples; `data.splits` gives it too few hash buckets, or there are too few rows"
        yield Finding(split.name, "", "Empty split", what)


def missing_label(split: Split, label: LabelConfig) -> Iterator[Finding]:
    """Each example needs its label."""
    missing = split.examples - split.present(label.key)
    if missing:
        what = f"missing in {missing:,} of {split.examples:,} examples ({missing / split.examples:.2%})"
        yield Finding(split.name, label.key, "Label missing", what)


def label_outside_classes(split: Split, label: LabelConfig) -> Iterator[Finding]:
    """Each label must be one of the classes, a number for a regression, or a word."""
    if not split.present(label.key):
        return
    column = split.columns[label.key]
    if label.kind == "next_word":
        if column.HasField("num_stats"):
            yield Finding(split.name, label.key, "Label is no word", "the column holds numbers; see `data.types`")
        return
    outside = _not_a_number(column) if label.kind == "regression" else _outside(column, label)
    if outside:
        rule = "Label is no number" if label.kind == "regression" else "Label outside its classes"
        yield Finding(split.name, label.key, rule, outside)


def constant_label(train: Split, label: LabelConfig) -> Iterator[Finding]:
    """Nothing can be learned from a label that is always the same."""
    if not train.present(label.key):
        return
    column = train.columns[label.key]
    numbers = column.num_stats
    if column.HasField("string_stats") and column.string_stats.unique == 1:
        value = _names(column)[0]
    elif column.HasField("num_stats") and numbers.min == numbers.max:
        value = f"{numbers.min:.17g}"
    else:
        return
    yield Finding(train.name, label.key, "Label constant", f"every example has {value}: there is nothing to learn")


def missing_feature(split: Split, train: Split, column: str) -> Iterator[Finding]:
    """A column that a feature reads needs some values in train, and elsewhere if train has many."""
    if not split.examples or split.present(column):
        return
    share = train.present(column) / train.examples if train.examples else 0.0
    if split.name == train.name or (1 - share) ** split.examples < NOT_BY_CHANCE:
        what = f"a feature reads this column, and none of {split.examples:,} examples has a value"
        yield Finding(split.name, column, "Column entirely missing", what)


def infinite_values(split: Split, column: str) -> Iterator[Finding]:
    """An infinite number makes the column's mean infinite, and then the loss."""
    if not split.present(column) or not split.columns[column].HasField("num_stats"):
        return
    numbers = split.columns[column].num_stats
    if math.isinf(numbers.min) or math.isinf(numbers.max):
        what = f"inf or -inf in about {max(1, round(_infinite(numbers))):,} of {split.examples:,} examples"
        yield Finding(split.name, column, "Infinite values", f"{what}; mend them, or make them missing")


def several_values(split: Split, column: str, reader: str) -> Iterator[Finding]:
    """What takes one value of an example would take the first of several. reader: `features.x` or `label`."""
    most = _common(split.columns[column]).max_num_values if column in split.columns else 0
    if most > 1:
        what = f"up to {most:,} values in an example, of which `{reader}` takes one"
        yield Finding(split.name, column, "Several values", what if reader == "label" else f"{what}; {SEVERAL_VALUES}")


def _common(column: FeatureNameStatistics) -> CommonStatistics:
    kind = column.WhichOneof("stats")
    return getattr(column, kind).common_stats if kind else CommonStatistics()


def _nan(column: FeatureNameStatistics) -> int:
    return max((histogram.num_nan for histogram in column.num_stats.histograms), default=0)


def _infinite(numbers: NumericStatistics) -> float:
    """How many values are infinite, as the histogram counts them."""
    standard = (histogram for histogram in numbers.histograms if histogram.type == histogram.STANDARD)
    buckets = (bucket for histogram in standard for bucket in histogram.buckets)
    return sum(
        bucket.sample_count for bucket in buckets if math.isinf(bucket.low_value) and math.isinf(bucket.high_value)
    )


def _not_a_number(column: FeatureNameStatistics) -> str:
    if column.HasField("num_stats"):
        return ""
    return f"a regression label must be a number; the column holds text, such as {_some(_names(column))}"


def _outside(column: FeatureNameStatistics, label: LabelConfig) -> str:
    classes = {str(value) for value in label.class_values}
    allowed = f"the classes are {_some(sorted(classes) if isinstance(label.classes, tuple) else _ordered(label))}"
    if column.HasField("string_stats"):
        unknown = [name for name in _names(column) if name not in classes]
        return f"{_some(unknown)}; {allowed}" if unknown else ""
    ids = sorted(number for number in map(_number, classes) if number is not None)
    found = _outside_numbers(column.num_stats, ids)
    return f"{found}; {allowed}" if found else ""


def _ordered(label: LabelConfig) -> list[str]:
    return [str(value) for value in label.class_values]


def _outside_numbers(numbers: NumericStatistics, ids: Sequence[float]) -> str:
    spread = f"numbers from {numbers.min:g} to {numbers.max:g}"
    if not ids or numbers.min < ids[0] or numbers.max > ids[-1]:
        return spread
    if len(ids) == 2 and not _only_two(numbers, *ids):
        return f"{spread}, some between the classes"
    return next((f"{spread}, some {where}" for where in _between(numbers, ids)), "")


def _only_two(numbers: NumericStatistics, low: float, high: float) -> bool:
    """Whether numbers in [low, high] are all low or high.

    Then, and only then, their variance is (mean - low) * (high - mean); else it is less (Bhatia and Davis, "A better
    bound on the variance", American Mathematical Monthly 107, 2000).
    """
    most = (numbers.mean - low) * (high - numbers.mean)
    rounding = 1e-12 * (high - low) * (abs(low) + abs(high))
    return math.isclose(numbers.std_dev**2, most, rel_tol=1e-9, abs_tol=rounding)


def _between(numbers: NumericStatistics, ids: Sequence[float]) -> Iterator[str]:
    for histogram in numbers.histograms:
        total = sum(bucket.sample_count for bucket in histogram.buckets)
        for bucket in histogram.buckets if histogram.type == histogram.STANDARD else ():
            low, high = bucket.low_value, bucket.high_value
            if bucket.sample_count > HISTOGRAM_NOISE * total and not any(low <= number <= high for number in ids):
                yield f"between {low:g} and {high:g}"


def _names(column: FeatureNameStatistics) -> list[str]:
    strings = column.string_stats
    ranked = [bucket.label for bucket in strings.rank_histogram.buckets]
    return ranked or [top.value for top in strings.top_values]


def _number(text: str) -> float | None:
    """The number that a class stands for; None for `01` and other texts that no number is written as."""
    return int(text) if text.lstrip("-").isdecimal() and str(int(text)) == text else None


def _some(values: Sequence[str]) -> str:
    more = f" and {len(values) - MANY:,} more" if len(values) > MANY else ""
    return ", ".join(values[:MANY]) + more


LABEL_RULES: tuple[Callable[[Split, LabelConfig], Iterator[Finding]], ...] = (missing_label, label_outside_classes)
"""Rules for the label in every split."""
