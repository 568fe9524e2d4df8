"""What the data was found guilty of: the gate's verdict, or what ExampleValidator says if the gate did not end."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tensorflow_metadata.proto.v0 import anomalies_pb2

from headrace.pipeline.local.record import on_one_line
from headrace.pipeline.report.run_folder import RunFolder

_SPLIT = "Split-"
_IN_WORDS = 5


@dataclass(frozen=True)
class Anomaly:
    """One rule that one column of one split breaks."""

    split: str
    column: str
    rule: str
    what: str


def anomalies_in_words(folder: RunFolder) -> list[str]:
    """A line for each of the first anomalies of a run that went on in spite of them."""
    found = read_anomalies(folder) or [] if folder.output("DataGate", "verdict") else []
    lines = [f"column {one.column!r}, split {one.split}: {one.rule}: {one.what}" for one in found[:_IN_WORDS]]
    if len(found) > _IN_WORDS:
        lines.append(f"{len(found) - _IN_WORDS:,} more anomalies are in the report")
    return [*map(on_one_line, lines)]


def read_anomalies(folder: RunFolder) -> list[Anomaly] | None:
    """All anomalies; None if the run did not come so far as to look for them."""
    verdict = folder.text("DataGate", "verdict")
    if verdict is not None:
        fields = json.loads(verdict).get("anomalies", [])
        return [Anomaly(**{key: str(entry.get(key) or "") for key in Anomaly.__annotations__}) for entry in fields]
    directory = folder.directory("ExampleValidator", "anomalies")
    if directory is None:
        return None
    files = sorted(directory.glob(f"{_SPLIT}*/SchemaDiff.pb"))
    return [anomaly for file in files for anomaly in _schema_diff(file.parent.name, file.read_bytes())]


def _schema_diff(directory_name: str, content: bytes) -> list[Anomaly]:
    anomalies = anomalies_pb2.Anomalies.FromString(content)
    split = directory_name.removeprefix(_SPLIT)
    found = [
        Anomaly(split, column, reason.short_description, reason.description)
        for column, info in sorted(anomalies.anomaly_info.items())
        for reason in info.reason
    ]
    whole = anomalies.dataset_anomaly_info.reason
    return found + [Anomaly(split, "", reason.short_description, reason.description) for reason in whole]
