"""Check that features can use the first rows of the data, and that there is something to learn from them.

facts = known_facts(rows, kinds)
rejected, notes = feature_violations(config, rows, kinds, facts, certain=True)   # fractions where categories are taken
violations = empty_columns(config, rows, kinds, facts)
notes = feature_notes(config, rows, kinds, facts, whole=True)                    # constants, ids, dates without hours
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.common.names import join_names
from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation, about
from headrace.configs.schema.features import (
    CrossedFeature,
    DatetimeFeature,
    HashedFeature,
    IdentityFeature,
    ImageFeature,
    VocabularyFeature,
)
from headrace.configs.schema.features.base import FeatureBase
from headrace.configs.schema.section import KeyPath
from headrace.pipeline.preview.columns import LISTED, ColumnViolation, columns_that, group_alike, rounds, ways_out

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.inference.facts import ColumnFacts
    from headrace.components.sources.types import Kind

    Facts = Callable[[str], ColumnFacts]

SHOWN = 3
"""Values that a message shows."""
OFTEN = 0.9
"""Different values per value above which a column names its rows."""
_CATEGORIES = ("int", "string")
"""What a key of a cross may be."""
_IN_WORDS = {"int": "integers", "string": "texts", "float": "numbers"}


class Use(NamedTuple):
    """A data column that a feature reads, and the setting that names it."""

    where: KeyPath
    name: str
    feature: FeatureBase
    column: str


def feature_violations(
    config: PipelineConfig, rows: pa.Table, kinds: Mapping[str, Kind], facts: Facts, *, certain: bool
) -> tuple[list[Violation], list[Violation]]:
    """Features that cannot read their columns. If later rows may turn fractions into texts, which would be read, they
    are the second of the results: notes.

    Args:
        config: whose features are checked.
        rows: the first rows.
        kinds: the kinds of their columns, by `headrace.components.sources.types`.
        facts: what is true of their columns.
        certain: whether these are the kinds in all rows.
    """
    rejected, notes = list[Violation](), list[Violation]()
    unfit = [use for use in uses_of(config, rows) if _is_unfit(use, kinds.get(use.column, "missing"))]
    for uses in rounds(unfit, lambda use: _mistake(use, facts(use.column)), lambda use: use.column):
        first, known = uses[0], facts(uses[0].column)
        what = f"{columns_that([use.column for use in uses], 'holds', 'hold')} {_called(known)}"
        takes = " or ".join(_IN_WORDS.get(one, one) for one in _fitting(first.feature))
        way = _remedy(first, known) if len(uses) == 1 else _common_remedy(first, known)
        found = about([use.where for use in uses], f"{what}, and `column: {first.feature.column}` takes {takes}; {way}")
        (notes if known.scalar == "float" and not certain else rejected).append(found)
    return rejected, notes


def _is_unfit(use: Use, kind: str) -> bool:
    fitting = _fitting(use.feature)
    fits = not fitting or kind.removesuffix(" list") in {*fitting, "missing", "bytes"}
    return not fits and not _checked_elsewhere(use.feature)


def _mistake(use: Use, facts: ColumnFacts) -> tuple[str, str, bool]:
    """The kind of feature, that of the column, and whether another type would do."""
    return use.feature.column, facts.scalar, facts.scalar == "float" and facts.is_whole


def _fitting(feature: FeatureBase) -> tuple[str, ...]:
    """The types that it takes; empty: any."""
    return _CATEGORIES if isinstance(feature, CrossedFeature) else feature.fitting_types


def _checked_elsewhere(feature: FeatureBase) -> bool:
    """Whether another check says more of values of another kind."""
    return feature.takes_one_number or isinstance(feature, ImageFeature)


def _called(facts: ColumnFacts) -> str:
    """What the values are, with an example."""
    if facts.scalar == "float":
        odd = next((one for one in facts.values.to_pylist() if one % 1), None)
        return f"floats such as {facts.least!r}" if odd is None else f"numbers with fractions, such as {odd!r}"
    return f"{_IN_WORDS.get(facts.scalar, facts.scalar)} such as {facts.least!r}"


def _remedy(use: Use, facts: ColumnFacts) -> str:
    if facts.scalar == "float" and facts.is_whole:
        return f"set `data.types.{use.column}: int` if all of its numbers are whole"
    if isinstance(use.feature, CrossedFeature):
        settings = f"{{column: bucketized, key: {use.column}, buckets: 10}}"
        return f"name a bucketized feature of it as the key, such as {settings}"
    return use.feature.remedy


def _common_remedy(first: Use, facts: ColumnFacts) -> str:
    """The same for several columns, of which this is the first."""
    if facts.scalar == "float" and facts.is_whole:
        return "set `int` for those of them in `data.types` whose numbers are all whole"
    if isinstance(first.feature, CrossedFeature):
        settings = f"{{column: bucketized, key: {first.column}, buckets: 10}}"
        return f"name bucketized features of them as the keys, such as {settings}"
    return first.feature.remedy


def empty_columns(
    config: PipelineConfig, rows: pa.Table, kinds: Mapping[str, Kind], facts: Facts
) -> Iterator[Violation]:
    """Columns without any value, which the DataGate refuses if that goes for all rows."""
    empty = {use.column: use.where for use in reversed([*uses_of(config, rows)]) if _is_empty(use.column, kinds, facts)}
    if names := [*reversed(empty)]:
        what = f"{columns_that(names, 'has', 'have')} no value in {_seen(rows)}"
        way = f"so there is nothing to learn from; leave {_them(names)} out"
        yield about([empty[name] for name in names], f"{what}, {way}")


def feature_notes(
    config: PipelineConfig, rows: pa.Table, kinds: Mapping[str, Kind], facts: Facts, *, whole: bool
) -> Iterator[Violation]:
    """Features from which nothing can be learned, as far as the first rows show it. whole: whether these are all."""
    uses = [use for use in uses_of(config, rows) if not _is_empty(use.column, kinds, facts)]
    constant, ids, further = dict[str, KeyPath](), dict[str, KeyPath](), list[ColumnViolation]()
    odd = list[Use]()
    for use in uses:
        if kinds[use.column].startswith("bytes"):
            continue
        known = facts(use.column)
        if known.distinct == 1 and not known.missing and not known.is_list and known.rows > 1:
            constant.setdefault(use.column, use.where)
        elif _names_rows(use.feature, known, whole=whole):
            ids.setdefault(use.column, use.where)
        elif isinstance(use.feature, IdentityFeature):
            odd += [use] if _is_out_of_range(use.feature, known) else []
        elif isinstance(use.feature, DatetimeFeature) and use.column == use.feature.data_column(use.name):
            further += _constant_part(use, use.feature, known, rows)
    for group in rounds(odd, lambda use: getattr(use.feature, "num_buckets", 0), lambda use: use.column):
        yield _out_of_range(group, facts, rows)
    yield from group_alike(further)
    yield from _constant(constant, facts, rows)
    if ids:
        known = facts(next(iter(ids)))
        first = "" if len(ids) == 1 else "the first has "
        count = f"{first}{known.distinct:,} different values in {known.present:,} rows, such as {_shown(known.least)}"
        what = f"{columns_that([*ids], 'names', 'name')} the rows: {count}"
        yield about([*ids.values()], f"{what}; new rows have others, so there is nothing to learn from {_them([*ids])}")


def _constant(columns: Mapping[str, KeyPath], facts: Facts, rows: pa.Table) -> Iterator[Violation]:
    if columns:
        values = [_shown(facts(name).least) for name in [*columns][: LISTED + 1]]
        alike = len({*values}) == 1
        shown = values[0] if alike else f"each its own: {join_names(values[:LISTED])}"
        what = f"{columns_that([*columns], 'has', 'have')} the same value in all of {_seen(rows)}, {shown}"
        more = " and so on" if len(columns) > LISTED and not alike else ""
        yield about([*columns.values()], f"{what}{more}; there is nothing to learn from {_them([*columns])}")


def uses_of(config: PipelineConfig, rows: pa.Table) -> Iterator[Use]:
    """The columns that features read, in the order of the config, as far as there are rows with them; not those that a
    cross reads through a feature.
    """
    known = frozenset(rows.column_names if rows.num_rows else ())
    features = config.declared_features
    for name, feature in features.items():
        for setting, column in feature.column_settings(name).items():
            through_feature = isinstance(feature, CrossedFeature) and column in features and column != name
            if column in known and not through_feature:
                yield Use(("features", name, *setting), name, feature, column)


def _is_empty(name: str, kinds: Mapping[str, Kind], facts: Facts) -> bool:
    return kinds[name] == "missing" or not facts(name).present


def _names_rows(feature: FeatureBase, facts: ColumnFacts, *, whole: bool) -> bool:
    """Whether a category hardly ever occurs twice. Of a part of the rows, only if it never does."""
    from headrace.components.inference.columns import MANY_ROWS

    learned = isinstance(feature, VocabularyFeature) and feature.values is None and feature.file is None
    if not (learned or isinstance(feature, HashedFeature)) or getattr(feature, "multivalued", False):
        return False
    least = facts.present * OFTEN if whole else facts.present - 1
    return facts.present >= MANY_ROWS and facts.distinct > least


def _is_out_of_range(feature: IdentityFeature, facts: ColumnFacts) -> bool:
    return facts.scalar == "int" and not (facts.least >= 0 and facts.greatest < feature.num_buckets)


def _out_of_range(uses: Sequence[Use], facts: Facts, rows: pa.Table) -> Violation:
    """Integers that count as missing because they are no category, for features with the same `num_buckets`."""
    number, known = getattr(uses[0].feature, "num_buckets", 0), facts(uses[0].column)
    counts = {value: count for value, count in known.by_count() if not 0 <= value < number}
    shown = join_names(map(str, sorted(counts)), SHOWN)
    what = f"{shown}, {sum(counts.values()):,} times in {_seen(rows)}"
    verb = columns_that([use.column for use in uses], "has", "have other integers, the first")
    takes = f"`num_buckets: {number}` takes 0 to {number - 1:,}, so they count as missing"
    ways = ways_out({use.column: _wider(facts(use.column)) for use in uses})
    return about([use.where for use in uses], f"{verb} {what}, and {takes}; {ways}")


def _wider(facts: ColumnFacts) -> str:
    """The way out for a column with integers that are no category."""
    way = "use `column: vocabulary`" if facts.least < 0 else f"set `num_buckets: {facts.greatest + 1}`"
    if facts.least >= 0 and facts.greatest > 2 * facts.distinct:
        way = f"{way}, or use `column: vocabulary`, which needs no more categories than there are values"
    return way


def _constant_part(use: Use, feature: DatetimeFeature, facts: ColumnFacts, rows: pa.Table) -> Iterator[ColumnViolation]:
    """A part that is the same for all dates, such as the hour of dates without a time."""
    from headrace.components.inference.dates import constant_part

    value = constant_part(facts, feature.part, feature.format)
    if value is None:
        return
    hours, first = feature.part == "hour" and value == "", _shown(facts.least)
    if hours:
        what = f"dates without hours, such as {first}, so that `part: hour` is 0 in all rows"
    else:
        what = f"dates such as {first}, all with the same {feature.part} in {_seen(rows)}"
    what = f"{what}; there is nothing to learn from it, so use another part"
    yield ColumnViolation(use.where, use.column, (feature.part, hours), f"has {what}", f"have {what}")


def _seen(rows: pa.Table) -> str:
    return f"the first {rows.num_rows:,} rows"


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _shown(value: object) -> str:
    from headrace.components.inference.comments import show

    return show(value)
