"""Check that the `values` of vocabularies occur in the first rows, spelled as listed.

rejected, notes = value_mismatches(config.declared_features, rows, kinds, whole=True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.common.names import join_names
from headrace.configs.rules.declared_types import among_integers, not_written_as_integers
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.features import VocabularyFeature
from headrace.configs.schema.features.base import FeatureBase

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 3
"""Values of the data that a message shows."""


def value_mismatches(
    features: Mapping[str, FeatureBase], rows: pa.Table, kinds: Mapping[str, str], *, whole: bool
) -> tuple[list[Violation], list[Violation]]:
    """Values that no row can have, and lists of values of which the first rows have none, which a run accepts.

    Args:
        features: those of the config.
        rows: the first rows.
        kinds: the kinds of their columns, by `headrace.components.sources.types`.
        whole: whether these are all of the data; else a text in a later row would turn integers into texts.
    """
    rejected, notes, known = list[Violation](), list[Violation](), frozenset(rows.column_names)
    for name, feature in features.items():
        column = feature.data_column(name)
        if not isinstance(feature, VocabularyFeature) or feature.values is None or column not in known:
            continue
        kind = kinds.get(column, "missing").removesuffix(" list")
        if kind == "int" and (odd := not_written_as_integers(feature.values)):
            (rejected if whole else notes).append((("features", name, "values"), f'column "{column}" {odd}'))
        elif kind == "int" and (odd := among_integers(feature.values)):
            notes.append((("features", name, "values"), f'column "{column}" {odd}'))
        elif kind in {"int", "string"}:
            notes += _none_there(name, feature, column, rows)
    return rejected, notes


def _none_there(name: str, feature: VocabularyFeature, column: str, rows: pa.Table) -> Iterator[Violation]:
    there = _texts(rows.column(column), feature.separator)
    if there and there.isdisjoint(map(str, feature.values or ())):
        what = f'none of the values is in column "{column}" in its first {rows.num_rows:,} rows'
        shown = join_names((repr(value) for value in sorted(there)), SHOWN)
        yield ("features", name, "values"), f"{what}, which have {shown}; upper case and white space count"


def _texts(column: pa.ChunkedArray, separator: str | None) -> set[str]:
    """The values of a column as the feature compares them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = pc.list_flatten(column)
    texts = {str(value) for value in column.unique().to_pylist() if value not in {None, ""}}
    if separator is None:
        return texts
    return {part.strip() for text in texts for part in text.split(separator)} - {""}
