"""The predictions for the same ten rows are the same, whatever kind of source they come from.

Parquet, JSON lines, databases, TFRecords and object stores are in test_predict_inputs.py, images in test_how_tos.py,
and windows of words in test_pydoc.py.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import fastavro
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow_datasets as tfds
from bigquery_servers import google_at_hand
from parcel_arrivals import SCHEMA, Pushed, Row, check, pushed_once, signature_rows
from test_example_gen_datasets import save, write

from headrace import predict

pytestmark = pytest.mark.slow

ROWS: list[Row] = [
    {"id": 2**53 - 1 - number, "note": note, "distance": distance, "stops": stops, "code": code, "tags": tag}
    for number, (note, distance, stops, code, tag) in enumerate(
        [
            ("Straße 1", 12.5, 1, "007", "heavy"),
            ("日本", 390.25, 9, "Maß", "fragile"),
            ("a 'b'", None, 2, "12", None),
            ("c, d", 130.5, 3, None, "heavy"),
            (None, 0.1, None, "Maß", None),
            ("🚚", None, None, None, None),
            ("f", 200.0, 2, "unseen", "fragile"),
            ("g", 1.0, 3, "12", "unseen"),
            (None, 399.0, 1, "007", None),
            ("i", 64.0, 9, "Maß", "heavy"),
        ]
    )
]
COLUMNS: dict[str, list[Any]] = {name: [row[name] for row in ROWS] for name in SCHEMA.names}
FLAT = SCHEMA.set(5, pa.field("tags", pa.string()))
TABLE = pa.Table.from_pylist(ROWS, FLAT)


@pytest.fixture(scope="module")
def pushed(new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Pushed:
    return pushed_once(tmp_path_factory, new_folder("sources"))


@pytest.fixture(scope="module")
def expected(pushed: Pushed) -> np.ndarray:
    rows = [{**row, "tags": row["tags"] and [row["tags"]]} for row in ROWS]
    found = signature_rows(pushed.version, rows)
    assert len({tuple(row) for row in found.round(3).tolist()}) == len(ROWS)  # each row says something of its own
    return found


def write_delimited(path: Path, delimiter: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([COLUMNS, *(row.values() for row in ROWS)])


def write_array(path: Path) -> None:
    path.write_text(json.dumps(ROWS, indent=1), encoding="utf-8")


def write_avro(path: Path) -> None:
    types = {"id": "long", "distance": "double", "stops": "long"}
    fields = [{"name": name, "type": ["null", types.get(name, "string")]} for name in COLUMNS]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Parcel", "fields": fields}, ROWS)


def write_workbook(path: Path) -> None:
    book = openpyxl.Workbook()
    for values in [list(COLUMNS), *(list(row.values()) for row in ROWS)]:
        book.active.append(values)
    book.save(path)


def write_arrays(path: Path) -> None:
    """NumPy has no missing texts and integers: the texts are empty, and the integers are fractions."""
    arrays: dict[str, Any] = {name: np.array(COLUMNS[name], float) for name in ("distance", "stops")}
    arrays |= {name: np.array([value or "" for value in COLUMNS[name]]) for name in ("note", "code", "tags")}
    np.savez(path, id=np.array(COLUMNS["id"]), **arrays)


FILES: dict[str, Callable[[Path], None]] = {
    "new.csv": write_delimited,
    "new.tsv": lambda path: write_delimited(path, "\t"),
    "new.json": write_array,
    "new.avro": write_avro,
    "new.xlsx": write_workbook,
    "dataset": lambda path: save(path, [TABLE[:4].to_batches(), TABLE[4:].to_batches()]),
    "new.arrow": lambda path: write(path, TABLE.to_batches()),
    "new.npz": write_arrays,
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_by_their_endings(pushed: Pushed, expected: np.ndarray, tmp_path: Path, name: str) -> None:
    FILES[name](tmp_path / name)
    found = predict(pushed.version, tmp_path / name)
    assert isinstance(found, pa.Table)
    check(found, expected)
    if name == "new.npz":
        np.testing.assert_array_equal(found["distance"].to_numpy(), np.array(COLUMNS["distance"], float))
        found = found.set_column(found.column_names.index("distance"), "distance", TABLE["distance"])
        given = [{**row, **{text: row[text] or "" for text in ("note", "code", "tags")}} for row in ROWS]
    else:
        given = ROWS
    assert passed_through(found) == given


def passed_through(found: pa.Table) -> list[Row]:
    """The rows without their predictions. What has lists in some formats has one value here, or none."""
    rows = found.select(SCHEMA.names).to_pylist()
    return [{name: first(value) if isinstance(value, list) else value for name, value in row.items()} for row in rows]


def first(values: list[Any]) -> Any:
    return values[0] if values else None


class Parcels(tfds.core.GeneratorBasedBuilder):
    """The rows as a dataset of TensorFlow Datasets, where a missing value is an empty list."""

    VERSION = tfds.core.Version("1.0.0")
    name = "parcels"
    code_path = None

    def _info(self) -> tfds.core.DatasetInfo:
        lists = {name: tfds.features.Sequence(self.inner(name)) for name in SCHEMA.names[1:]}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"id": np.int64, **lists}))

    @staticmethod
    def inner(name: str) -> Any:
        return {"distance": np.float64, "stops": np.int64}.get(name) or tfds.features.Text()

    def _split_generators(self, dl_manager: object) -> dict[str, Any]:
        del dl_manager
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        for row in ROWS:
            lists = {name: [] if row[name] is None else [row[name]] for name in SCHEMA.names[1:]}
            yield row["id"], {"id": row["id"], **lists}


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("parcel_rows")
    module.rows = lambda: iter(pd.DataFrame(COLUMNS).to_dict("records"))  # type: ignore[attr-defined]
    module.frame = lambda: pd.DataFrame(COLUMNS)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the folder of the config is added


def by_config(pushed: Pushed, source: dict[str, Any]) -> pa.Table:
    found = predict(pushed.folder / "parcels.yaml", overrides={"data.source": source})
    assert isinstance(found, pa.Table)
    return found


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    "source",
    [{"kind": "python", "function": "parcel_rows.rows"}, {"kind": "arrays", "function": "parcel_rows.frame"}],
    ids=["python", "arrays"],
)
def test_functions(
    pushed: Pushed, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch, source: dict[str, Any]
) -> None:
    monkeypatch.chdir(pushed.folder)
    found = by_config(pushed, source)
    check(found, expected)
    assert passed_through(found) == ROWS


def test_a_prepared_dataset(
    pushed: Pushed, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Parcels(data_dir=str(tmp_path)).download_and_prepare()
    monkeypatch.chdir(pushed.folder)
    found = by_config(pushed, {"kind": "tfds", "name": "parcels", "data_dir": str(tmp_path)})
    order = [found["id"].to_pylist().index(row["id"]) for row in ROWS]  # TensorFlow Datasets shuffles
    check(found.take(order), expected)
    single = [value and float(np.float32(value)) for value in COLUMNS["distance"]]  # as tf.Examples hold it
    assert passed_through(found.take(order)) == [
        {**row, "distance": distance} for row, distance in zip(ROWS, single, strict=True)
    ]


def test_a_table_of_bigquery(pushed: Pushed, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"id": "INTEGER", "distance": "FLOAT", "stops": "INTEGER"}
    monkeypatch.chdir(pushed.folder)
    with google_at_hand(monkeypatch) as google:
        google.fields = [{"name": name, "type": types.get(name, "STRING")} for name in SCHEMA.names]
        google.schema = TABLE.schema
        google.streams = {"s/0": TABLE[:6].to_batches(), "s/1": TABLE[6:].to_batches()}
        found = by_config(pushed, {"kind": "bigquery", "project": "p", "table": "d.t"})
    check(found, expected)
    assert passed_through(found) == ROWS
