"""Check that `vector` features can read the first rows of the data: lists of numbers of the right length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.configs.rules.rule import Violation
from headrace.configs.schema.features import VectorFeature
from headrace.configs.schema.features.base import FeatureBase
from headrace.pipeline.preview.columns import ColumnViolation, group_alike

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER_SEPARATORS = (";", "|", ",", " ")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?nan|", re.IGNORECASE)


def vector_violations(features: Mapping[str, FeatureBase], rows: pa.Table) -> Iterator[Violation]:
    """Features whose column holds something else in the first rows, each at the setting to change."""
    yield from group_alike(_column_violations(features, rows))


def _column_violations(features: Mapping[str, FeatureBase], rows: pa.Table) -> Iterator[ColumnViolation]:
    known = frozenset(rows.column_names)
    for name, feature in features.items():
        column = getattr(feature, "key", None) or name
        if isinstance(feature, VectorFeature) and column in known:
            yield from _of_feature(name, feature, column, rows.column(column).to_pylist())


def _of_feature(name: str, feature: VectorFeature, column: str, values: list[Any]) -> Iterator[ColumnViolation]:
    first = next((value for value in values if value is not None and value != ""), None)
    where = ("features", name)
    if first is None:
        return
    if isinstance(first, str | bytes):
        text = first.decode("utf-8", "replace") if isinstance(first, bytes) else first
        if feature.separator is None:
            what, way = f"texts such as {text[:40]!r}, and a vector is a list of numbers", _separator_for(text)
            yield ColumnViolation((*where, "separator"), column, way, f"holds {what}; {way}", f"hold {what}; {way}")
            return
        values = [_split(value, feature.separator) for value in values]
    elif isinstance(first, list) and first and isinstance(first[0], str | bytes):
        what = f"lists of texts, and `column: vector` takes numbers; {feature.remedy}"
        yield ColumnViolation(where, column, what, f"holds {what}", f"hold {what}")
        return
    elif not isinstance(first, list):
        if feature.size != 1:
            what, way = f"single numbers, and `size` is {feature.size:,}", "use `column: numeric`, or name"
            one, several = f"holds {what}; {way} a column of lists", f"hold {what}; {way} columns of lists"
            yield ColumnViolation((*where, "column"), column, several, one, several)
        return
    yield from _contents(where, feature.size, column, values)


def _contents(where: tuple[str, str], size: int, column: str, values: list[Any]) -> Iterator[ColumnViolation]:
    """The first list of another length, or with a text that is not a number."""
    lengths = {len(value) for value in values if value}
    for row, value in enumerate(values, 1):
        if value and len(value) != size:
            found = f"a list of length {len(value):,} in row {row:,}"
            way = f"set `size: {len(value)}`" if len(lengths) == 1 else "all lists need the same length"
            several = f"have lists of another length than `size: {size}`, the first {found}; {way}"
            yield ColumnViolation(
                (*where, "size"), column, (size, way), f"has {found}, and `size` is {size:,}; {way}", several
            )
            return
        wrong = next((one for one in value or () if isinstance(one, str) and not _NUMBER.fullmatch(one)), None)
        if wrong is not None:
            found = f"{wrong!r} in the list of row {row:,}"
            one = f"has {found}, which is not a number; correct the separator or the value"
            several = f"have texts that are not numbers, the first {found}; correct the separator or the values"
            yield ColumnViolation((*where, "separator"), column, "text", one, several)
            return


def _split(value: str | bytes | None, separator: str) -> list[str]:
    """The texts of the numbers, as the feature splits them."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
    text = re.sub(r"^\s*[\[({]\s*|\s*[\])}]\s*$", "", text).strip()
    items = text.split(None if separator.isspace() else separator)
    return [item.strip() for item in items] if text else []


def _separator_for(text: str) -> str:
    """The way out for a text where a list is needed."""
    found = vector_settings([text])
    if found is not None:
        return f"set `separator: {json.dumps(found['separator'])}` to split them"
    return "set the `separator` of the numbers, or use another kind of feature"


def vector_settings(texts: Sequence[str]) -> dict[str, Any] | None:
    """The vector feature that reads texts as lists of numbers, all of one length; None if there is none."""
    for separator in _NUMBER_SEPARATORS:
        cut = [_split(text, separator) for text in texts]
        size = len(cut[0]) if cut else 0
        if size > 1 and all(len(items) == size and all(map(_NUMBER.fullmatch, items)) for items in cut):
            return {"column": "vector", "size": size, "separator": separator}
    return None
