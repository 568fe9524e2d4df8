"""What a source reads: the result of its scan, and its rows."""

from typing import Any

from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.configs.schema.sources import SourceConfig


def read_source(
    source: SourceConfig,
    declared: dict | None = None,
    columns: tuple[str, ...] | None = None,
    *,
    skip_bad: bool = False,
) -> tuple[ScanResult, list[dict[str, Any]]]:
    """What the scan says, and all the rows, of the kinds that it found or that are declared."""
    opened = open_source(source, options=ReadOptions(columns, skip_bad))
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared or {}) for part in parts), ScanResult())
    kinds = {**scan.kinds, **(declared or {})}
    return scan, [row for part in parts for batch in opened.batches(part, kinds) for row in batch.to_pylist()]


def values_of(row: dict[str, Any]) -> dict[str, Any]:
    """The values in a row, without what is missing."""
    return {name: value for name, value in row.items() if value is not None and value != []}
