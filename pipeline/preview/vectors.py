"""Check that `vector` features can read the first rows of the data: lists of numbers of the right length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.configs.rules.rule import Violation
from headrace.configs.schema.features import VectorFeature
from headrace.configs.schema.features.base import FeatureBase

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = (";", "|", ",", " ")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?nan|", re.IGNORECASE)


def vector_violations(features: Mapping[str, FeatureBase], rows: pa.Table) -> Iterator[Violation]:
    """Features whose column holds something else in the first rows, each at the setting to change."""
    for name, feature in features.items():
        column = getattr(feature, "key", None) or name
        if isinstance(feature, VectorFeature) and column in rows.column_names:
            yield from _of_feature(name, feature, column, rows.column(column).to_pylist())


def _of_feature(name: str, feature: VectorFeature, column: str, values: list[Any]) -> Iterator[Violation]:
    first = next((value for value in values if value is not None and value != ""), None)
    where = ("features", name)
    if first is None:
        return
    if isinstance(first, str | bytes):
        text = first.decode("utf-8", "replace") if isinstance(first, bytes) else first
        if feature.separator is None:
            yield (*where, "separator"), _needs_separator(column, text)
            return
        values = [_split(value, feature.separator) for value in values]
    elif isinstance(first, list) and first and isinstance(first[0], str | bytes):
        yield where, f'column "{column}" holds lists of texts, and `column: vector` takes numbers; {feature.remedy}'
        return
    elif not isinstance(first, list):
        if feature.size != 1:
            what = f'column "{column}" holds single numbers, and `size` is {feature.size:,}'
            yield (*where, "column"), f"{what}; use `column: numeric`, or name a column of lists"
        return
    yield from _contents(where, feature.size, column, values)


def _contents(where: tuple[str, str], size: int, column: str, values: list[Any]) -> Iterator[Violation]:
    """The first list of another length, or with a text that is not a number."""
    lengths = {len(value) for value in values if value}
    for row, value in enumerate(values, 1):
        if value and len(value) != size:
            what = f'column "{column}" has a list of length {len(value):,} in row {row:,}, and `size` is {size:,}'
            way = f"set `size: {len(value)}`" if len(lengths) == 1 else "all lists need the same length"
            yield (*where, "size"), f"{what}; {way}"
            return
        wrong = next((one for one in value or () if isinstance(one, str) and not _NUMBER.fullmatch(one)), None)
        if wrong is not None:
            what = f'column "{column}" has {wrong!r} in the list of row {row:,}, which is not a number'
            yield (*where, "separator"), f"{what}; correct the separator or the value"
            return


def _split(value: str | bytes | None, separator: str) -> list[str]:
    """The texts of the numbers, as the feature splits them."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
    text = re.sub(r"^\s*[\[({]\s*|\s*[\])}]\s*$", "", text).strip()
    items = text.split(None if separator.isspace() else separator)
    return [item.strip() for item in items] if text else []


def _needs_separator(column: str, text: str) -> str:
    what = f'column "{column}" holds texts such as {text[:40]!r}, and a vector is a list of numbers'
    found = vector_settings([text])
    if found is not None:
        return f"{what}; set `separator: {json.dumps(found['separator'])}` to split them"
    return f"{what}; set the `separator` of the numbers, or use another kind of feature"


def vector_settings(texts: Sequence[str]) -> dict[str, Any] | None:
    """The vector feature that reads texts as lists of numbers, all of one length; None if there is none."""
    for separator in _SEPARATORS:
        cut = [_split(text, separator) for text in texts]
        size = len(cut[0]) if cut else 0
        if size > 1 and all(len(items) == size and all(map(_NUMBER.fullmatch, items)) for items in cut):
            return {"column": "vector", "size": size, "separator": separator}
    return None
