"""Rules that find data unfit for training: one function for each, over TFDV's statistics and anomalies."""

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

from headrace.configs.schema.features import MULTIVALUED_HINT
from headrace.configs.schema.label import LabelConfig

NAMED_VALUES = 5
"""How many values an anomaly names before it only counts the rest."""
CHANCE = 0.001
"""A column without values in a split other than train is an anomaly if the probability of that is below this."""
HISTOGRAM_NOISE = 0.01
"""Share of the values that TFDV's approximate histogram may put into the wrong bucket (it misses by about 0.0002)."""


@dataclass(frozen=True)
class DataAnomaly:
    """One thing that makes a split unfit for training, or that is only worth a note."""

    split: str
    column: str
    """"" for the split as a whole."""
    rule: str
    what: str
    """What was found, with the values."""
    stops: bool = True
    """False for a note."""


@dataclass(frozen=True)
class SplitStatistics:
    """The statistics of one split, by column."""

    name: str
    examples: int
    columns: Mapping[str, FeatureNameStatistics]

    @classmethod
    def of(cls, name: str, statistics: Sequence[DatasetFeatureStatistics]) -> SplitStatistics:
        """From the datasets of one statistics file: one, or none if the split has no examples."""
        columns = {".".join(column.path.step): column for data in statistics for column in data.features}
        return cls(name, sum(data.num_examples for data in statistics), columns)

    def present(self, column: str) -> int:
        """The number of examples that have a value in this column. NaN does not count."""
        if column not in self.columns:
            return 0
        statistics = self.columns[column]
        return min(_common(statistics).tot_num_values - _nan(statistics), self.examples)


def schema_anomalies(split: str, anomalies: Anomalies) -> Iterator[DataAnomaly]:
    """Every difference from the schema, in TFDV's words, by column: a map in protobuf has another order each time."""
    for name, info in sorted(anomalies.anomaly_info.items()):
        column = ".".join(info.path.step) or name
        for reason in info.reason:
            yield DataAnomaly(split, column, reason.short_description, reason.description.strip())
        if not info.reason:
            yield DataAnomaly(split, column, info.short_description, info.description.strip())
    for reason in anomalies.dataset_anomaly_info.reason:
        yield DataAnomaly(split, "", reason.short_description, reason.description.strip())


def empty_split(split: SplitStatistics) -> Iterator[DataAnomaly]:
    """Every split needs examples."""
    if not split.examples:
        what = "no examples: `data.splits` gives it too few hash buckets, or there are too few rows"
        yield DataAnomaly(split.name, "", "Empty split", what)


def missing_label(split: SplitStatistics, label: LabelConfig) -> Iterator[DataAnomaly]:
    """Every example needs a label, unless one without belongs to no class, or counts for other labels alone."""
    if label.missing == "none":
        return
    if label.optional:
        if split.examples and not split.present(label.key):
            what = f"none of the {split.examples:,} examples has a value"
            yield DataAnomaly(split.name, label.key, "Label missing", f"{what}; remove the task, or this data")
        return
    missing, ways_out = split.examples - split.present(label.key), "`label.missing: drop` leaves such rows out"
    if label.in_task:
        ways_out = "`missing: mask` in the task uses such rows for the other tasks only"
    what = f"missing in {missing:,} of {split.examples:,} examples ({missing / split.examples:.2%})" if missing else ""
    if label.kind == "multilabel":
        what = _without_a_class(split, label.key)
        ways_out += ", `none` takes them as rows of no class"
    if what:
        yield DataAnomaly(split.name, label.key, "Label missing", f"{what}; {ways_out}")


def _without_a_class(split: SplitStatistics, column: str) -> str:
    """The examples whose list is missing or empty; "" if there are none. Statistics do not count empty lists."""
    common = _common(split.columns[column]) if column in split.columns else CommonStatistics()
    missing = split.examples - common.num_non_missing
    empty = "some have an empty list" if common.num_non_missing and not common.min_num_values else ""
    counted = f"missing in {missing:,} of {split.examples:,} examples" if missing else ""
    return ", and ".join(filter(None, (counted, empty)))


def label_outside_classes(split: SplitStatistics, label: LabelConfig) -> Iterator[DataAnomaly]:
    """Every label must be one of the classes; a number for a regression; not a number for `next_word` and `text`."""
    if not split.present(label.key):
        return
    column = split.columns[label.key]
    if label.kind in ("next_word", "text"):
        if column.HasField("num_stats"):
            rule = f"Label is not a {'word' if label.kind == 'next_word' else 'text'}"
            yield DataAnomaly(split.name, label.key, rule, "the column holds numbers; see `data.types`")
        return
    outside = _text_values(column) if label.kind == "regression" else _outside_classes(column, label)
    if outside:
        rule = "Label is not a number" if label.kind == "regression" else "Label outside its classes"
        yield DataAnomaly(split.name, label.key, rule, outside)


def constant_label(train: SplitStatistics, label: LabelConfig) -> Iterator[DataAnomaly]:
    """A label that is always the same teaches nothing."""
    if not train.present(label.key) or (label.kind == "multilabel" and _without_a_class(train, label.key)):
        return
    column = train.columns[label.key]
    numbers = column.num_stats
    if column.HasField("string_stats") and column.string_stats.unique == 1:
        value = _names(column)[0]
    elif column.HasField("num_stats") and numbers.min == numbers.max:
        value = f"{numbers.min:.17g}"
    else:
        return
    yield DataAnomaly(train.name, label.key, "Label constant", f"every example has {value}: there is nothing to learn")


def missing_feature(split: SplitStatistics, train: SplitStatistics, column: str) -> Iterator[DataAnomaly]:
    """A column that a feature reads needs values in train, and in other splits if train has many."""
    if not split.examples or split.present(column):
        return
    share = train.present(column) / train.examples if train.examples else 0.0
    if split.name == train.name or (1 - share) ** split.examples < CHANCE:
        what = f"a feature reads this column, but none of the {split.examples:,} examples has a value"
        yield DataAnomaly(split.name, column, "Column entirely missing", what)


def infinite_values(split: SplitStatistics, column: str) -> Iterator[DataAnomaly]:
    """An infinite number makes the column's mean infinite, and with it the loss."""
    if not split.present(column) or not split.columns[column].HasField("num_stats"):
        return
    numbers = split.columns[column].num_stats
    if math.isinf(numbers.min) or math.isinf(numbers.max):
        what = f"inf or -inf in about {max(1, round(_infinite(numbers))):,} of {split.examples:,} examples"
        yield DataAnomaly(split.name, column, "Infinite values", f"{what}; correct them, or leave them empty")


def multiple_values(split: SplitStatistics, column: str, reader: str) -> Iterator[DataAnomaly]:
    """A feature or label that reads one value would use only the first. reader: such as `features.x` or `label`."""
    most = _common(split.columns[column]).max_num_values if column in split.columns else 0
    if most > 1:
        what = f"up to {most:,} values in an example, of which `{reader}` reads one"
        yield DataAnomaly(
            split.name, column, "Multiple values", what if reader.startswith("label") else f"{what}; {MULTIVALUED_HINT}"
        )


def invalid_weights(split: SplitStatistics, column: str) -> Iterator[DataAnomaly]:
    """Every example needs a weight, a finite number from 0 up, and some must be above 0."""
    if not split.examples:
        return
    missing, place = split.examples - split.present(column), (split.name, column)
    if missing:
        what = f"missing in {missing:,} of {split.examples:,} examples ({missing / split.examples:.2%})"
        yield DataAnomaly(*place, "Weight missing", f"{what}; fill it in, or leave these rows out")
    if not split.present(column):
        return
    numbers = split.columns[column].num_stats
    if not split.columns[column].HasField("num_stats"):
        yield DataAnomaly(*place, "Weight is not a number", f"the column holds text; see `data.types.{column}`")
    elif numbers.min < 0:
        yield DataAnomaly(*place, "Weight negative", f"as low as {numbers.min:g}; weights are numbers from 0 up")
    elif numbers.max == 0:
        yield DataAnomaly(*place, "All weights are 0", "no example counts, so there is nothing to learn or to measure")


def _common(column: FeatureNameStatistics) -> CommonStatistics:
    kind = column.WhichOneof("stats")
    return getattr(column, kind).common_stats if kind else CommonStatistics()


def _nan(column: FeatureNameStatistics) -> int:
    return max((histogram.num_nan for histogram in column.num_stats.histograms), default=0)


def _infinite(numbers: NumericStatistics) -> float:
    """The number of infinite values, from the histogram."""
    standard = (histogram for histogram in numbers.histograms if histogram.type == histogram.STANDARD)
    buckets = (bucket for histogram in standard for bucket in histogram.buckets)
    return sum(
        bucket.sample_count for bucket in buckets if math.isinf(bucket.low_value) and math.isinf(bucket.high_value)
    )


def _text_values(column: FeatureNameStatistics) -> str:
    if column.HasField("num_stats"):
        return ""
    return f"a regression label must be a number; the column holds text, such as {_first(_names(column))}"


def _outside_classes(column: FeatureNameStatistics, label: LabelConfig) -> str:
    """The values that are not among the classes, and the classes; "" if there are none."""
    classes = {str(value) for value in label.class_values}
    listed = sorted(classes) if isinstance(label.classes, tuple) else [str(value) for value in label.class_values]
    allowed = f"the classes are {_first(listed)}"
    if column.HasField("string_stats"):
        unknown = [name for name in _labels(column, label) if name not in classes]
        return f"{_first(unknown)}; {allowed}" if unknown else ""
    ids = sorted(number for number in map(_number, classes) if number is not None)
    found = _outside_numbers(column.num_stats, ids)
    return f"{found}; {allowed}" if found else ""


def _outside_numbers(numbers: NumericStatistics, ids: Sequence[float]) -> str:
    found = f"numbers from {numbers.min:g} to {numbers.max:g}"
    if not ids or numbers.min < ids[0] or numbers.max > ids[-1]:
        return found
    if len(ids) == 2 and not _only_two(numbers, *ids):
        return f"{found}, some between the classes"
    return next((f"{found}, some {where}" for where in _between(numbers, ids)), "")


def _only_two(numbers: NumericStatistics, low: float, high: float) -> bool:
    """Whether all numbers in [low, high] equal low or high.

    If so, and only then, their variance is (mean - low) * (high - mean); otherwise it is less (Bhatia and Davis, "A
    better bound on the variance", American Mathematical Monthly 107, 2000).
    """
    most = (numbers.mean - low) * (high - numbers.mean)
    rounding = 1e-12 * (high - low) * (abs(low) + abs(high))
    return math.isclose(numbers.std_dev**2, most, rel_tol=1e-9, abs_tol=rounding)


def _between(numbers: NumericStatistics, ids: Sequence[float]) -> Iterator[str]:
    """The histogram buckets that hold numbers but no class."""
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


def _labels(column: FeatureNameStatistics, label: LabelConfig) -> list[str]:
    """The distinct labels of a column of text: those that a `separator` divides, each alone."""
    if label.separator is None:
        return _names(column)
    cut = (one.strip() for name in _names(column) for one in name.split(label.separator))
    return list(dict.fromkeys(one for one in cut if one))


def _number(text: str) -> float | None:
    """The number that a class name spells; None for `01` and other text that does not spell one."""
    return int(text) if text.lstrip("-").isdecimal() and str(int(text)) == text else None


def _first(values: Sequence[str]) -> str:
    more = f" and {len(values) - NAMED_VALUES:,} more" if len(values) > NAMED_VALUES else ""
    return ", ".join(values[:NAMED_VALUES]) + more


LABEL_RULES: tuple[Callable[[SplitStatistics, LabelConfig], Iterator[DataAnomaly]], ...] = (
    missing_label,
    label_outside_classes,
)
"""The rules for the label in every split."""
