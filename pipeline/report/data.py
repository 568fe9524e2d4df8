"""The data section: splits, columns, and the anomalies that were found."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup
from tensorflow_metadata.proto.v0 import anomalies_pb2

from headrace.configs.config import PipelineConfig
from headrace.pipeline.report.charts import histogram
from headrace.pipeline.report.statistics import ReportedColumn, SplitSummary, read_statistics
from headrace.pipeline.results.record import Ingestion, Status, ingested, on_one_line
from headrace.pipeline.results.run_folder import RunFolder

_TRAIN = "train"
_SPLIT = "Split-"
SHOWN = 50
"""Columns that are shown without unfolding more, and in each fold."""
_MOST_LINES = 5


@dataclass(frozen=True)
class SplitRow:
    """One split: its rows, their fraction of all rows, and the number and bytes of its files."""

    name: str
    rows: int
    share: float
    files: int
    size: int


@dataclass(frozen=True)
class ColumnRow:
    """One column of a split, its role in the config (empty if unknown), and its histogram."""

    column: ReportedColumn
    role: str
    picture: Markup


@dataclass(frozen=True)
class DataSection:
    """The section. `described` is the split whose columns are shown."""

    splits: list[SplitRow]
    columns: list[ColumnRow]
    described: str = ""
    ingested: Ingestion = field(default_factory=Ingestion)

    @property
    def folds(self) -> list[list[ColumnRow]]:
        """The columns in parts: the first ones, and others to unfold."""
        return [self.columns[start : start + SHOWN] for start in range(0, len(self.columns), SHOWN)]

    @property
    def rows(self) -> int:
        return sum(split.rows for split in self.splits)


@dataclass(frozen=True)
class Anomaly:
    """One rule that one column of one split violates."""

    split: str
    column: str
    rule: str
    what: str


def read_data(folder: RunFolder) -> DataSection:
    """The section; empty if the run did not get that far."""
    float64 = folder.config.data.float64_columns if folder.config else ()
    statistics = read_statistics(folder.directory("StatisticsGen", "statistics"), float64)
    rows = {split.name: split.rows for split in statistics.values()} or _rows_written(folder)
    described = statistics.get(_TRAIN) or next(iter(statistics.values()), None)
    examples = folder.directory("ExampleGen", "examples")
    return DataSection(
        splits=[_split_row(name, number, sum(rows.values()), examples) for name, number in rows.items()],
        columns=_column_rows(described, folder.config, _file_order(folder)) if described else [],
        described=described.name if described else "",
        ingested=ingested(folder.record),
    )


def read_anomalies(folder: RunFolder) -> list[Anomaly] | None:
    """All anomalies: DataGate's, or ExampleValidator's if DataGate left no verdict. None if neither finished."""
    verdict = folder.text("DataGate", "verdict")
    if verdict is not None:
        fields = json.loads(verdict).get("anomalies", [])
        return [Anomaly(**{key: str(entry.get(key) or "") for key in Anomaly.__annotations__}) for entry in fields]
    directory = folder.directory("ExampleValidator", "anomalies")
    if directory is None:
        return None
    files = sorted(directory.glob(f"{_SPLIT}*/SchemaDiff.pb"))
    return [anomaly for file in files for anomaly in _schema_diff(file.parent.name, file.read_bytes())]


def anomalies_in_words(folder: RunFolder) -> list[str]:
    """One line for each of the first anomalies of a run that DataGate let pass in spite of them."""
    passed = any(node.id == "DataGate" and node.status is not Status.FAILED for node in folder.record.nodes)
    found = read_anomalies(folder) or [] if passed and folder.output("DataGate", "verdict") else []
    lines = [f"column {one.column!r}, split {one.split}: {one.rule}: {one.what}" for one in found[:_MOST_LINES]]
    if len(found) > _MOST_LINES:
        lines.append(f"{len(found) - _MOST_LINES:,} more anomalies are in the report")
    return [*map(on_one_line, lines)]


def gates_in_words(folder: RunFolder) -> list[str]:
    """Lines about the gates that warn, those that could not judge, and those that were passed.

    A gate that stopped the run is the failure of DataGate.
    """
    gates = folder.gates.gates if folder.gates else ()
    warning = [line for one in gates if not one.passed and not one.stops for line in one.lines]
    notes = [f"{one.gate} was {one.unjudged}" for one in gates if one.unjudged]
    passed = [one.gate for one in gates if one.passed and one.rows]
    return [*map(on_one_line, [*warning, *notes, *([f"passed: {', '.join(passed)}"] if passed else [])])]


def _schema_diff(directory_name: str, content: bytes) -> list[Anomaly]:
    anomalies = anomalies_pb2.Anomalies.FromString(content)
    split = directory_name.removeprefix(_SPLIT)
    of_columns = [
        Anomaly(split, column, reason.short_description, reason.description)
        for column, info in sorted(anomalies.anomaly_info.items())
        for reason in info.reason
    ]
    of_dataset = anomalies.dataset_anomaly_info.reason
    return of_columns + [Anomaly(split, "", reason.short_description, reason.description) for reason in of_dataset]


def _rows_written(folder: RunFolder) -> dict[str, int]:
    artifact = folder.output("ExampleGen", "examples")
    rows = json.loads(str(artifact.properties.get("rows", "{}"))) if artifact else {}
    return {str(name): int(number) for name, number in rows.items()}


def _split_row(name: str, rows: int, total: int, examples: Path | None) -> SplitRow:
    files = [] if examples is None else [file.stat().st_size for file in (examples / f"{_SPLIT}{name}").glob("*")]
    return SplitRow(name, rows, rows / total if total else 0.0, len(files), sum(files))


def _file_order(folder: RunFolder) -> list[str]:
    """The columns in the order of the data's files; empty if it is not known."""
    artifact = folder.output("ExampleGen", "examples")
    return list(json.loads(str(artifact.properties.get("types", "{}")))) if artifact else []


def _column_rows(split: SplitSummary, config: PipelineConfig | None, order: list[str]) -> list[ColumnRow]:
    positions = {name: place for place, name in enumerate(order)}
    columns = sorted(split.columns.values(), key=lambda column: positions.get(column.name, len(positions)))
    return [
        ColumnRow(column, _role(column.name, config), histogram(_picture_title(column), column.histogram))
        for column in columns
    ]


def _role(column: str, config: PipelineConfig | None) -> str:
    if config is None:
        return ""
    if column in config.label.columns:
        return "label"
    if column == config.label.weight:
        return "weight"
    if config.preprocessing is not None and config.preprocessing.keys is None:
        return ""  # the function does not say what it reads
    read = config.feature_columns
    return "feature" if column in read else "not used"


def _picture_title(column: ReportedColumn) -> str:
    return f"{'Most frequent values' if column.top else 'Distribution'} of {column.name}"
