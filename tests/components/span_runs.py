"""Runs of ExampleGen over spans of small CSV files, below the working directory."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import beam_here
import pytest
import tensorflow as tf
from tfx.types import artifact_utils, standard_artifacts

from headrace.components.example_gen.component import Executor
from headrace.components.example_gen.required import RequiredColumn
from headrace.components.sources.csv.source import CsvFiles
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource

FIRST_TWO = ("2026-01-01", "2026-01-02")
DAYS = "in/{YYYY}-{MM}-{DD}.csv"
SPLITS = {"train": 2, "eval": 1}
Examples: TypeAlias = standard_artifacts.Examples


def config(path: str | tuple[str, ...], **data: Any) -> DataConfig:
    return DataConfig.model_validate({"source": CsvSource(kind="csv", path=path), "splits": SPLITS, **data})


def write(path: str, first: int = 0, rows: int = 40, header: str = "id,word", **values: str) -> Path:
    """A CSV file of rows of its own."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    names = header.split(",")
    lines = [
        ",".join(values.get(name, str(first + row) if name == "id" else f"w{row}") for name in names)
        for row in range(rows)
    ]
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return file


def days(*dates: str) -> None:
    for number, date in enumerate(dates):
        write(f"in/{date}.csv", 1000 * number)


def read(data: DataConfig) -> list[str]:
    """The names of the spans that a run reads."""
    return [span.name for span in find_spans(data).spans]


def generate(folder: Path, data: DataConfig, *, store: bool = True, required: str | None = None) -> Examples:
    """The artifact of a run in `folder`, which keeps spans from run to run."""
    spans, examples = standard_artifacts.String(), Examples()
    number = len(list(folder.glob("run-*")))
    spans.uri, examples.uri = str(folder / f"spans-{number}"), str(folder / f"run-{number}")
    spans.write(find_spans(data).to_json())
    executor = Executor(Executor.Context(make_beam_pipeline_fn=beam_here.pipeline))
    properties = {"data": data.model_dump_json(by_alias=True), "store": str(folder / "store") if store else ""}
    properties |= {"required": RequiredColumn(required).to_json()} if required else {}
    executor.Do({"spans": [spans]}, {"examples": [examples]}, properties)
    return examples


def reported(examples: Examples, name: str) -> Any:
    text = examples.get_string_custom_property(name)
    return json.loads(text) if text else []


def rows_of(examples: Examples, name: str = "id", span: str = "") -> dict[str, list[Any]]:
    """The values of a column, of one span or of all, split by split."""
    found = {}
    for split in artifact_utils.decode_split_names(examples.split_names):
        files = sorted(map(str, Path(examples.uri, f"Split-{split}").glob(f"data_tfrecord-{span}*")))
        records = [tf.train.Example.FromString(one.numpy()) for one in tf.data.TFRecordDataset(files, "GZIP")]
        found[split] = sorted((_value(record.features.feature[name]) for record in records), key=str)
    return found


def _value(feature: tf.train.Feature) -> Any:
    kind = feature.WhichOneof("kind")
    return getattr(feature, kind).value[0] if kind else None


def ids(examples: Examples) -> list[int]:
    return sorted(value for values in rows_of(examples).values() for value in values)


def counting_reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a part of each file was looked at or read, and the header of each file."""
    count: Counter[str] = Counter()

    def counted(method: str) -> Any:
        plain = getattr(CsvFiles, method)

        def call(self: CsvFiles, *args: Any, **more: Any) -> Any:
            count.update(f"{method} {Path(file).name}" for file in self.files)
            return plain(self, *args, **more)

        return call

    for method in ("columns", "scan_rows", "batches"):
        monkeypatch.setattr(CsvFiles, method, counted(method))
    return count
