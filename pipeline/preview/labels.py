"""Check labels and weights in the first rows of the data, as the DataGate of a run checks all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.common.figures import plural
from headrace.common.names import join_names
from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation, named
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.section import KeyPath
from headrace.pipeline.preview.columns import facts_in, plain_column

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.example_gen.head import FirstRows

LISTED = 12
"""Values that a message lists, and classes that it proposes."""
MANY = 20
"""Different numbers in place of two classes, from which on the label looks like one of a regression."""
_LABEL: KeyPath = ("label",)
_WEIGHT: KeyPath = ("label", "weight")


def label_violations(
    label: LabelConfig, column: pa.ChunkedArray, *, whole: bool, section: KeyPath = _LABEL
) -> Iterator[Violation]:
    """What is wrong with the labels. whole: whether these are all of the data; section: where `label` is in the config.

    column: the label's values, null where they are missing.
    """
    for where, what in _violations(label, column, whole=whole):
        yield (*section, *where), what


def _violations(label: LabelConfig, column: pa.ChunkedArray, *, whole: bool) -> Iterator[Violation]:
    """The same, with the settings' places within the section."""
    if label.kind == "multilabel":
        rows = [_labels(value, label.separator) for value in column.to_pylist()]
    elif _is_list(column):
        return
    else:
        rows = [() if _is_missing(value) else (value,) for value in column.to_pylist()]
    values = list(dict.fromkeys(value for row in rows for value in row))
    missing = sum(not row for row in rows)
    if missing and label.missing == "refuse" and not label.optional:
        what = f"the label is missing in {missing:,} of the first {len(column):,} rows"
        drop = "set `label.missing: drop` to leave these rows out"
        if label.in_task:
            drop = "set `missing: mask`, which uses these rows for the other tasks only"
        drop += ", or `none` if they belong to no class" if label.kind == "multilabel" else ""
        hint = f"fill it in, or {drop}" if values else f"rows without one are for `headrace predict`; or {drop}"
        yield ("key",), named(f"{what}; {hint}", "missing", hint, own=plural(missing, "row"))
    if whole and label.optional and rows and not values:
        yield ("key",), f"none of the {len(rows):,} examples has a value; remove the task, or this data"
    if whole and len(values) == 1 and not (label.kind == "multilabel" and missing):
        what = f"every label is {_spelled(values[0])}, so there is nothing to learn"
        yield ("key",), named(what, "constant", own=_spelled(values[0]))
    elif label.kind in ("next_word", "text"):
        if values and not isinstance(values[0], str | bytes):
            what = "a next_word label is a word" if label.kind == "next_word" else "a text label is a text"
            yield ("key",), f"the column holds numbers, but {what}; see data.types"
    elif label.kind in ("binary", "multiclass", "multilabel"):
        yield from _outside_classes(label, values)


def stray_label_notes(config: PipelineConfig, found: FirstRows, inferred: Collection[str]) -> Iterator[Violation]:
    """Values of inferred labels that hardly any row has. inferred: the tasks, "" for the only label."""
    from headrace.components.inference.strays import stray_note

    for name, part in config.label.parts.items():
        if name in inferred and part.key in found.rows.column_names:
            column, facts = plain_column(found.rows, part.key), facts_in(found.rows, part.key, found.kinds[part.key])
            if what := stray_note(facts, column, has_null_values=hasattr(config.data.source, "null_values")):
                yield (*part.setting(name), "kind"), what


def weight_violations(label: LabelConfig, rows: pa.Table) -> Iterator[Violation]:
    """What is wrong with the weights of the rows that are not dropped. Text is reported as for other numbers."""
    values = rows.column(label.weight).to_pylist()
    if any(isinstance(value, str | bytes | list) for value in values):
        return
    drops = label.missing == "drop" and label.key in rows.column_names
    labels = rows.column(label.key).to_pylist() if drops else []
    dropped = [not _labels(value, label.separator) for value in labels] if drops else [False] * len(values)
    wrong: dict[str, list[int]] = {}
    for row, (value, unused) in enumerate(zip(values, dropped, strict=True), 1):
        if unused:
            continue
        if _is_missing(value):
            wrong.setdefault("missing", []).append(row)
        elif value < 0:
            wrong.setdefault("negative", []).append(row)
    for what, numbers in wrong.items():
        found = f"the weight is {what} in {len(numbers):,} of the first {len(values):,} rows"
        yield _WEIGHT, f"{found}, the first of them row {numbers[0]:,}; every row needs a number from 0 up"


def _outside_classes(label: LabelConfig, values: Sequence[Any]) -> Iterator[Violation]:
    classes = {str(value) for value in label.class_values}
    spelled = [_spelled(value) for value in values]
    unknown = [text for text in spelled if text not in classes]
    if not unknown:
        return
    if _looks_continuous(values, len(classes)):
        numbers = f"{len(values):,} different numbers, from {min(values):g} to {max(values):g}"
        what = f"the label has {numbers}, in the first rows, so it looks like that of a regression"
        yield ("kind",), named(f"{what}; set `kind: regression`", "regression", own=numbers)
        return
    found = join_names(sorted(unknown), LISTED)
    what = f"the data has {found}, but the classes are {join_names(map(str, label.class_values), LISTED)}"
    yield ("kind" if label.classes is None else "classes",), f"{what}; {_way_out(label, values)}"


def _way_out(label: LabelConfig, values: Sequence[Any]) -> str:
    if len(values) > LISTED:
        return "correct the data, or list its values in label.classes"
    listed = ", ".join(_written(value) for value in sorted(values, key=_order))
    if label.kind == "binary" and len(values) == 2:
        return f"set `classes: [{listed}]`, of which the second is the positive one"
    kind = "`kind: multiclass` and " if label.kind == "binary" and len(values) > 2 else ""
    return f"set {kind}`classes: [{listed}]` with any further ones, or correct the data"


def _looks_continuous(values: Sequence[Any], classes: int) -> bool:
    """Whether these are numbers, and some are fractions, or there are far more than classes."""
    if not all(isinstance(value, int | float) for value in values):
        return False
    return any(value != int(value) for value in values) or len(values) > MANY * classes


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or value != value  # noqa: PLR0124 - only NaN differs from itself


def _labels(value: Any, separator: str | None) -> tuple[Any, ...]:
    """The labels of one row, as the Transform graph takes them apart."""
    each = value if isinstance(value, list) else [value]
    if separator is not None:
        texts = [one.decode(errors="replace") if isinstance(one, bytes) else one for one in each]
        each = [cut for text in texts for cut in (text.split(separator) if isinstance(text, str) else [text])]
        each = [one.strip() if isinstance(one, str) else one for one in each]
    return tuple(one for one in each if not _is_missing(one))


def _is_list(column: pa.ChunkedArray) -> bool:
    return column.type.num_fields > 0


def _spelled(value: Any) -> str:
    """As a class is spelled: a number without the fraction that a column with missing values gives it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def _written(value: Any) -> str:
    """As a class is written in the config: a string in quotes, which `yes` and `1` need."""
    spelled = _spelled(value)
    return f'"{spelled}"' if isinstance(value, str | bytes) else spelled


def _order(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value
