"""The data of a run: its splits and columns, as the page shows them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from headrace.configs.config import PipelineConfig
from headrace.configs.features import data_columns
from headrace.pipeline.local.record import Ingestion, ingested
from headrace.pipeline.report.charts import histogram
from headrace.pipeline.report.run_folder import RunFolder
from headrace.pipeline.report.statistics import Column, Split, read_statistics

_TRAIN = "train"
_ROLES = ("label", "feature", "not used", "")


@dataclass(frozen=True)
class SplitRow:
    """One split: its rows, their share of all, and the files that hold them."""

    name: str
    rows: int
    share: float
    files: int
    octets: int


@dataclass(frozen=True)
class ColumnRow:
    """One column of the train split, its role in the config (empty where that is not known), and its picture."""

    column: Column
    role: str
    picture: Markup


@dataclass(frozen=True)
class Data:
    """`described` is the split whose columns are shown."""

    splits: list[SplitRow]
    columns: list[ColumnRow]
    described: str = ""
    ingested: Ingestion = field(default_factory=Ingestion)

    @property
    def rows(self) -> int:
        """Of all splits."""
        return sum(split.rows for split in self.splits)


def read_data(folder: RunFolder) -> Data:
    """What is known of the data; empty where the run did not come so far."""
    statistics = read_statistics(folder.directory("StatisticsGen", "statistics"))
    rows = {split.name: split.rows for split in statistics.values()} or _rows_written(folder)
    described = statistics.get(_TRAIN) or next(iter(statistics.values()), None)
    examples = folder.directory("ExampleGen", "examples")
    return Data(
        splits=[_split_row(name, number, sum(rows.values()), examples) for name, number in rows.items()],
        columns=_column_rows(described, folder.config) if described else [],
        described=described.name if described else "",
        ingested=ingested(folder.record),
    )


def _rows_written(folder: RunFolder) -> dict[str, int]:
    artifact = folder.output("ExampleGen", "examples")
    rows = json.loads(str(artifact.properties.get("rows", "{}"))) if artifact else {}
    return {str(name): int(number) for name, number in rows.items()}


def _split_row(name: str, rows: int, total: int, examples: Path | None) -> SplitRow:
    files = [] if examples is None else [file.stat().st_size for file in (examples / f"Split-{name}").glob("*")]
    return SplitRow(name, rows, rows / total if total else 0.0, len(files), sum(files))


def _column_rows(split: Split, config: PipelineConfig | None) -> list[ColumnRow]:
    rows = [
        ColumnRow(column, _role(column.name, config), histogram(_picture_title(column), column.histogram))
        for column in split.columns.values()
    ]
    return sorted(rows, key=lambda row: (_ROLES.index(row.role), row.column.name))


def _role(column: str, config: PipelineConfig | None) -> str:
    if config is None:
        return ""
    if column == config.label.key:
        return "label"
    read = {key for name, feature in config.features.items() for key in data_columns(name, feature, config.features)}
    return "feature" if column in read else "not used"


def _picture_title(column: Column) -> str:
    return f"{'Most frequent values' if column.top else 'Distribution'} of {column.name}"
