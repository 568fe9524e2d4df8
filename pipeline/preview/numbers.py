"""Check that the first rows have numbers where a feature, a regression label or a weight needs them.

numbers = number_columns(config)                    # {"fare": ("features", "fare")}
violations = [*not_numbers(config, found, numbers), *infinite_numbers(found, numbers)]
notes = lost_digits(config, found.rows, numbers)

What is said of a column of texts depends on what the texts are (`texts.py`), so that columns with different
mistakes are never in one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.section import KeyPath
from headrace.pipeline.preview.columns import by_message, columns_that, facts_in
from headrace.pipeline.preview.texts import Texts, Use, texts_of

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.example_gen.head import FirstRows


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
    columns: dict[tuple[str, str], dict[str, Texts]] = {}
    for column, where in numbers.items():
        kind = found.kinds.get(column, "missing")
        if kind.startswith(("string", "bytes")):
            use: Use = "feature" if where[0] == "features" else "weight" if where[-1] == "weight" else "label"
            texts = texts_of(facts_in(found.rows, column, kind), config.data.source, use)
            columns.setdefault((_reader(config, where), texts.what), {})[column] = texts
    for (reader, what), alike in columns.items():
        for names in by_message([*alike]):
            first = alike[names[0]]
            which = f"for {names[0]}, " if len(names) > 1 and first.way else ""
            needs = f"{columns_that(names, 'holds', 'hold')} {what}{first.example}, and {reader} needs numbers"
            yield numbers[names[0]], f"{needs}{_way_out(config, found, names[0], first, which)}"


def _way_out(config: PipelineConfig, found: FirstRows, column: str, texts: Texts, which: str) -> str:
    from headrace.components.example_gen.head import why_not_numbers

    if texts.way is not None:
        return f"; {which}{texts.way}"
    return f": {why_not_numbers(config.data, found, column)}"


def _reader(config: PipelineConfig, where: KeyPath) -> str:
    """What needs numbers, given its setting."""
    if where[0] == "label":
        return "a weight" if where[1] == "weight" else "a regression label"
    return f"`column: {config.declared_features[str(where[1])].column}`"


def infinite_numbers(found: FirstRows, numbers: Mapping[str, KeyPath]) -> Iterator[Violation]:
    """Infinite numbers, which stop a run."""
    for names in by_message(list(dict.fromkeys(found.infinite))):
        what = f"{columns_that(names, 'holds', 'hold')} inf, -inf or a number beyond the range of float64, such as"
        yield numbers[names[0]], f"{what} 1e999; correct these values, or make them missing"


def lost_digits(config: PipelineConfig, rows: pa.Table, numbers: Mapping[str, KeyPath]) -> Iterator[Violation]:
    """Columns of numbers that lose digits."""
    from headrace.components.examples.tfexample.rounding import RoundingAccumulator, rounding_notes

    float64 = frozenset(config.data.float64_columns)
    rounded = [name for name in rows.column_names if name in numbers and name not in float64]
    found = RoundingAccumulator(skip_bad=True)
    for batch in rows.select(rounded).to_batches():
        found.checked(batch)
    labels = [name for name, where in numbers.items() if where[0] == "label" and where[-1] == "key"]
    weights = [name for name, where in numbers.items() if where == ("label", "weight")]
    for name in found:
        for note in rounding_notes({name: found[name]}, labels, weights):
            yield numbers[name], note
