"""Find features that are the label again, in another spelling or as another number.

notes = leak_notes(config, rows, kinds, facts)      # each with the feature that reads the column

A model learns nothing from such a feature but to copy it, and it is rarely known when predictions are needed. What is
only suspiciously good, `headrace init` asks about (components/inference/leaks.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation, about
from headrace.configs.schema.section import KeyPath
from headrace.pipeline.preview.columns import SHOWN, columns_that, plain_column
from headrace.pipeline.preview.features import uses_of

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.sources.types import Kind
    from headrace.pipeline.preview.features import Facts

_KINDS = ("binary", "multiclass", "regression")
"""Labels that a single value can stand for."""
_LEAVE_OUT = "leave it out if it is not known before the label"
_LEAVE_ALL_OUT = "leave those out that are not known before the label"


def leak_notes(config: PipelineConfig, rows: pa.Table, kinds: Mapping[str, Kind], facts: Facts) -> Iterator[Violation]:
    """Columns that give a label away, as far as the first rows show it."""
    columns: dict[str, KeyPath] = {}
    for use in uses_of(config, rows):
        if kinds.get(use.column) in {"int", "float", "string"}:
            columns.setdefault(use.column, use.where)
    for part in config.label.parts.values() if config.preprocessing is None else ():
        if part.kind in _KINDS and part.key in rows.column_names:
            yield from _of_label(part.key, columns, rows, facts)


def _of_label(label: str, columns: Mapping[str, KeyPath], rows: pa.Table, facts: Facts) -> Iterator[Violation]:
    from headrace.components.inference.comments import show
    from headrace.components.inference.leaks import COPY, determines, suspicion

    target, labels = facts(label), plain_column(rows, label)
    found = dict[str, str]()
    for name in columns if target.present else ():
        known, values = facts(name), plain_column(rows, name)
        if not known.present:
            continue
        if determines(values, labels, known, target):
            found[name] = f"has one value for each of the label's, such as {show(known.least)}"
        elif why := suspicion(values, labels, known, target, COPY):
            found[name] = why
    if found:
        names = [*found]
        what = f'{columns_that(names, "seems", "seem")} to be the label "{label}" again'
        reasons = {f'"{name}"': found[name] for name in names[:SHOWN]} if len(names) > 1 else {"it": found[names[0]]}
        each = [f"{name} {why}" for name, why in reasons.items()]
        more = "" if len(names) <= SHOWN else ", and so on"
        way = _LEAVE_OUT if len(names) == 1 else _LEAVE_ALL_OUT
        yield about([columns[name] for name in names], f"{what}: {', '.join(each)}{more}; {way}")
