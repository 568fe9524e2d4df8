"""Check that the first rows have numbers where a feature, a regression label or a weight needs them.

numbers = number_columns(config)                    # {"fare": ("features", "fare")}
violations = [*not_numbers(config, found, numbers), *infinite_numbers(found, numbers)]
notes = lost_digits(config, found.rows, numbers)

What is said of a column of texts depends on what the texts are (`texts.py`), so that columns with different
mistakes are never in one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.alike import merge_columns
from headrace.configs.rules.rule import Violation, about
from headrace.configs.schema.section import KeyPath
from headrace.pipeline.preview.columns import (
    SHOWN,
    ColumnViolation,
    columns_that,
    facts_in,
    group_alike,
    rounds,
    ways_out,
)
from headrace.pipeline.preview.texts import TextDiagnosis, Use, texts_of

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.example_gen.head import FirstRows
    from headrace.components.examples.tfexample.rounding import ColumnRounding


def number_columns(config: PipelineConfig) -> dict[str, KeyPath]:
    """The columns that must be numbers, each with the setting that requires it."""
    order = {name: number for number, name in enumerate(config.declared_features)}
    single = sorted(config.single_columns.items(), key=lambda pair: order[pair[1]])
    numbers: dict[str, KeyPath] = {column: ("features", name) for column, name in single}
    for name, part in config.label.parts.items():
        if part.kind == "regression" and config.preprocessing is None:
            numbers[part.key] = (*part.setting(name), "key")
    if config.label.weight is not None:
        numbers[config.label.weight] = ("label", "weight")
    return numbers


def not_numbers(config: PipelineConfig, found: FirstRows, numbers: Mapping[str, KeyPath]) -> Iterator[Violation]:
    """Texts where numbers are needed, by what the texts are and by what needs the numbers."""
    unfit = list[_Unfit]()
    for column, where in [*numbers.items(), *_further(config, numbers)]:
        kind = found.kinds.get(column, "missing")
        if kind.startswith(("string", "bytes")):
            use: Use = "feature" if where[0] == "features" else "weight" if where[-1] == "weight" else "label"
            texts = texts_of(facts_in(found.rows, column, kind), config.data.source, use)
            unfit.append(_Unfit(column, where, _reader(config, where), texts))
    for group in rounds(unfit, lambda each: each.mistake, lambda each: each.column):
        alike = {each.column: each.texts for each in group}
        what = f"{columns_that([*alike], 'holds', 'hold')} {group[0].texts.what}{group[0].texts.example}"
        needs = f"{what}, and {group[0].reader} needs numbers"
        yield about([each.where for each in group], f"{needs}{_ways_out(config, found, alike)}")


class _Unfit(NamedTuple):
    """A column of texts, the setting that reads it as numbers, what that is in words, and what the texts are."""

    column: str
    where: KeyPath
    reader: str
    texts: TextDiagnosis

    @property
    def mistake(self) -> tuple[str, str, bool]:
        return self.reader, self.texts.what, self.texts.way is None


def _further(config: PipelineConfig, numbers: Mapping[str, KeyPath]) -> Iterator[tuple[str, KeyPath]]:
    """Further features that read a column which another one reads too."""
    for name, feature in config.declared_features.items():
        column, where = feature.data_column(name), ("features", name)
        if feature.takes_one_number and numbers.get(column, where) != where:
            yield column, where


def _ways_out(config: PipelineConfig, found: FirstRows, alike: Mapping[str, TextDiagnosis]) -> str:
    from headrace.components.example_gen.head import why_not_numbers

    ways = {name: texts.way for name, texts in alike.items() if texts.way is not None}
    if ways:
        return f"; {ways_out(ways, ', as `headrace init` would write')}"
    reasons = {name: why_not_numbers(config.data, found, name) for name in [*alike][:SHOWN]}
    more = f"; and so on in {len(alike) - SHOWN:,} more" if len(alike) > SHOWN else ""
    return f": {'; '.join(merge_columns(reasons))}{more}"


def _reader(config: PipelineConfig, where: KeyPath) -> str:
    """What needs numbers, given its setting."""
    if where[0] == "label":
        return "a weight" if where[1] == "weight" else "a regression label"
    return f"`column: {config.declared_features[str(where[1])].column}`"


def infinite_numbers(found: FirstRows, numbers: Mapping[str, KeyPath]) -> Iterator[Violation]:
    """Infinite numbers, which stop a run."""
    if names := [*dict.fromkeys(found.infinite)]:
        what = f"{columns_that(names, 'holds', 'hold')} inf, -inf or a number beyond the range of float64, such as"
        yield about([numbers[name] for name in names], f"{what} 1e999; correct these values, or make them missing")


def lost_digits(config: PipelineConfig, rows: pa.Table, numbers: Mapping[str, KeyPath]) -> Iterator[Violation]:
    """Columns of numbers that lose digits."""
    from headrace.components.examples.tfexample.rounding import RoundingAccumulator

    float64 = frozenset(config.data.float64_columns)
    rounded = [name for name in rows.column_names if name in numbers and name not in float64]
    found = RoundingAccumulator(skip_bad=True)
    for batch in rows.select(rounded).to_batches():
        found.checked(batch)
    yield from group_alike(_rounded(found, numbers))


def _rounded(found: Mapping[str, ColumnRounding], numbers: Mapping[str, KeyPath]) -> Iterator[ColumnViolation]:
    from headrace.components.examples.tfexample.rounding import losses

    for name, rounding in found.items():
        where = numbers[name]
        role = "feature" if where[0] == "features" else "weight" if where == ("label", "weight") else "label"
        labels, weights = ([name] if role == one else [] for one in ("label", "weight"))
        for loss in losses(name, rounding, labels, weights):
            yield ColumnViolation(where, name, (loss.one.split()[0], role), loss.one, loss.several)
