"""Check that `datetime` and `boolean` features can read the first rows of the data: else every value is missing; and
that the column of `gates.freshness` has dates: else the gate never passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.configs.rules.rule import Violation
from headrace.configs.schema.features import FALSE_WORDS, TRUE_WORDS, BooleanFeature, DatetimeFeature
from headrace.configs.schema.features.base import FeatureBase
from headrace.configs.schema.features.calendar import EPOCH_UNITS, pattern_of
from headrace.configs.schema.gates import FreshnessGate
from headrace.configs.schema.section import KeyPath
from headrace.pipeline.preview.columns import ColumnViolation, group_alike

if TYPE_CHECKING:
    import pyarrow as pa

_DAY_FIRST = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{4}")
_TIME = re.compile(r"\d{1,2}:\d{2}")
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")
_BOOLEANS = {*TRUE_WORDS, *FALSE_WORDS}


def date_violations(features: Mapping[str, FeatureBase], rows: pa.Table) -> Iterator[Violation]:
    """Features that can read no value of the first rows, each at the setting to change."""
    yield from group_alike(_column_violations(features, rows))


def freshness_violations(gate: FreshnessGate, rows: pa.Table) -> Iterator[Violation]:
    """The column of a gate that takes no value of the first rows for a date, as DataVerdict reads them."""
    if gate.column is None or gate.column not in rows.column_names:
        return
    import pyarrow as pa

    from headrace.components.gates.newest_time import newest_of

    values = rows.column(gate.column).combine_chunks()
    values = (values.flatten() if pa.types.is_list(values.type) else values).drop_null().unique()
    is_text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    values = values.cast(pa.binary()) if is_text else values
    if not len(values) or newest_of(values, gate.format) is not None:
        return
    value = _text(values[0].as_py())
    if is_text:
        counted = "a number, which `format: {0}` counts; remove `format`, or name how the texts are written"
        needed = counted.format(gate.format) if gate.format in EPOCH_UNITS else _no_date(value, gate.format)
    else:
        units = ", ".join(f"`{unit}`" for unit in EPOCH_UNITS)
        needed = f"a text; set `format` to {units}, or `data.types.{gate.column}: string`"
    what = f'column "{gate.column}" holds {value!r}, and no value of the first rows is {needed}'
    yield ("gates", "freshness", "column"), what


def _column_violations(features: Mapping[str, FeatureBase], rows: pa.Table) -> Iterator[ColumnViolation]:
    known = frozenset(rows.column_names)
    for name, feature in features.items():
        if isinstance(feature, DatetimeFeature):
            for setting, column in feature.column_settings(name).items():
                value = _unreadable(rows, column, _reads_date(feature.format)) if column in known else None
                if value is not None:
                    yield _violation(("features", name, *setting), column, value, _no_date(value, feature.format))
        elif isinstance(feature, BooleanFeature):
            column = feature.key or name
            value = _unreadable(rows, column, _is_boolean) if column in known else None
            if value is not None:
                words = f"{', '.join(TRUE_WORDS)} or {', '.join(FALSE_WORDS)}"
                yield _violation(("features", name), column, value, f"{words}; read it with `column: vocabulary`")


def _violation(where: KeyPath, column: str, value: str, needed: str) -> ColumnViolation:
    why = f"and no value of the first rows is {needed}"
    return ColumnViolation(where, column, needed, f"holds {value!r}, {why}", f"hold values such as {value!r}, {why}")


def _unreadable(rows: pa.Table, column: str, reads: Callable[[str], bool]) -> Any:
    """The first value if no value of the column can be read; None if one can, or if there is none."""
    values = [value for value in rows.column(column).unique().to_pylist() if value is not None and value != ""]
    if not values or any(isinstance(value, list) or reads(_text(value)) for value in values):
        return None
    return _text(values[0])


def _text(value: Any) -> str:
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).strip()


def _is_boolean(text: str) -> bool:
    return text.lower().removesuffix(".0") in _BOOLEANS


def _reads_date(date_format: str | None) -> Callable[[str], bool]:
    pattern = _NUMBER if date_format in EPOCH_UNITS else re.compile(pattern_of(date_format).regex)
    return lambda text: pattern.fullmatch(text) is not None


def _no_date(value: str, date_format: str | None) -> str:
    """What the values are not, and the way out."""
    if date_format is not None:
        return f"written as `format: {date_format}` says"
    if _TIME.match(value):
        return "a date in ISO 8601; times of day need `part: hour` and `format`, such as `%H:%M:%S`"
    hint = "`format`, such as `%Y%m%d`"
    if day_first := _DAY_FIRST.match(value):
        mark = day_first[1]
        hint = f"`format`, such as `%d{mark}%m{mark}%Y` or `%m{mark}%d{mark}%Y`"
    elif _NUMBER.fullmatch(value) and len(value) != len("20261121"):
        hint = f"`format`, such as {', '.join(f'`{unit}`' for unit in EPOCH_UNITS)}"
    return f"a date in ISO 8601; set {hint}"
