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
from headrace.pipeline.preview.columns import ColumnViolation, group_alike

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
    rejected, notes, known = list[ColumnViolation](), list[ColumnViolation](), frozenset(rows.column_names)
    for name, feature in features.items():
        column = feature.data_column(name)
        if not isinstance(feature, VocabularyFeature) or feature.values is None or column not in known:
            continue
        kind = kinds.get(column, "missing").removesuffix(" list")
        if kind == "int" and (odd := not_written_as_integers(feature.values)):
            (rejected if whole else notes).append(_of_integers(name, column, odd))
        elif kind == "int" and (odd := among_integers(feature.values)):
            notes.append(_of_integers(name, column, odd))
        elif kind in {"int", "string"}:
            notes += _none_there(name, feature, column, rows)
    return [*group_alike(rejected)], [*group_alike(notes)]


def _of_integers(name: str, column: str, odd: str) -> ColumnViolation:
    return ColumnViolation(("features", name, "values"), column, odd, odd, f"hold{odd.removeprefix('holds')}")


def _none_there(name: str, feature: VocabularyFeature, column: str, rows: pa.Table) -> Iterator[ColumnViolation]:
    there = _texts(rows.column(column), feature.separator)
    if there and there.isdisjoint(map(str, feature.values or ())):
        shown = join_names((repr(value) for value in sorted(there)), SHOWN)
        none, first = "none of the listed values in", f"first {rows.num_rows:,} rows, which have {shown}"
        hint = "upper case and white space count"
        several = f"have {none} their {first} in the first column; {hint}"
        yield ColumnViolation(("features", name, "values"), column, "none", f"has {none} its {first}; {hint}", several)


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
