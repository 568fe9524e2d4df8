"""A pipeline of parcels whose arrival has three classes: its data, its pushed model, and what that predicts.

The expected predictions are those of the SavedModel, loaded by TensorFlow, for tf.Examples that are made here.
"""

from __future__ import annotations

import json
import random
import shutil
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from command import PATIENCE, Finished, Going, headrace, versions
from made_once import copied

CONFIG = """\
pipeline: {name: parcels}
data: {source: {kind: parquet, path: trained.parquet}}
label: {key: arrival, kind: multiclass, classes: [früh, pünktlich, zu spät]}
features:
  distance: {column: numeric}
  stops: {column: bucketized, boundaries: [2, 4]}
  code: {column: vocabulary, min_frequency: 1}
  tags: {column: vocabulary, multivalued: true}
model: {kind: dnn, hidden: [8]}
train: {epochs: 2, batch_size: 32}
evaluate: {thresholds: {accuracy: {min: 0.0}}, better_than_constant: false}
"""
CLASSES = ["früh", "pünktlich", "zu spät"]
PROBABILITIES = [f"probability_{name}" for name in CLASSES]
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "note": pa.string(),
        "distance": pa.float64(),
        "stops": pa.int64(),
        "code": pa.string(),
        "tags": pa.list_(pa.string()),
    }
)
Row = dict[str, Any]


def parcels(number: int, seed: int) -> list[Row]:
    """Rows in which every feature is missing somewhere, with keys beyond 2^53 and codes that look like numbers."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for index in range(number):
        row = {
            "id": 2**53 + 2 * index + 1,
            "note": chance.choice(['a "b"', "c,d", "Straße\n1", "", None]),
            "distance": chance.choice([chance.uniform(1, 400), None, 0.1]),
            "stops": chance.choice([1, 2, 3, 9, None]),
            "code": chance.choice(["007", "12", "Maß", None]),
            "tags": chance.choice([["heavy", "fragile"], ["heavy"], [], None]),
        }
        rows.append(row)
    return rows


def arrival(row: Row) -> str:
    return CLASSES[min(int((row["distance"] or 0) / 130), 2)]


def signature_rows(model: Path, rows: Sequence[Row]) -> np.ndarray:
    """What the pushed model's serving signature says to each row alone: [rows, classes]."""
    signature = tf.saved_model.load(str(model)).signatures["serving_default"]
    return np.concatenate([signature(examples=tf.constant([example(row)]))["predictions"].numpy() for row in rows])


def example(row: Row) -> bytes:
    made = tf.train.Example()
    for name, kind in {
        "distance": "float_list",
        "stops": "int64_list",
        "code": "bytes_list",
        "tags": "bytes_list",
    }.items():
        value = row[name]
        values = [] if value is None else value if isinstance(value, list) else [value]
        encoded = [one.encode() if isinstance(one, str) else one for one in values]
        getattr(made.features.feature[name], kind).value.extend(encoded)
    return made.SerializeToString()


@dataclass(frozen=True)
class Pushed:
    """A folder with a run's pushed model, and data that the run has not seen."""

    folder: Path
    rows: list[Row]

    @property
    def version(self) -> Path:
        (number,) = versions(self.folder)
        return self.folder / "serving" / "parcels" / number

    def predict(self, *arguments: str, config: str = "parcels.yaml", **environment: str) -> Finished:
        return headrace(self.folder, "predict", config, *arguments, **environment)

    def table(self, *arguments: str, **environment: str) -> pa.Table:
        done = self.predict(*arguments, "--output", "table.parquet", **environment)
        assert done.code == 0, done.err
        return pq.read_table(self.folder / "table.parquet")


def write_parcels(folder: Path) -> Path:
    """Write the pipeline's data and config into a folder; returns the folder."""
    known = parcels(600, seed=1)
    table = pa.Table.from_pylist(known, SCHEMA).append_column("arrival", pa.array([arrival(row) for row in known]))
    pq.write_table(table, folder / "trained.parquet")
    (folder / "parcels.yaml").write_text(CONFIG + 'deploy: {push: "serving/{name}", canary: null}\n', encoding="utf-8")
    return folder


def push_parcels(folder: Path) -> Pushed:
    """Run the pipeline, and write new data."""
    done = headrace(folder, "run", "parcels.yaml")
    assert done.code == 0, done.out
    new = parcels(300, seed=2)
    pq.write_table(pa.Table.from_pylist(new, SCHEMA), folder / "new.parquet")
    return Pushed(folder, new)


def pushed_once(factory: pytest.TempPathFactory, folder: Path) -> Pushed:
    """A copy of the pushed pipeline, for tests that only use its model: one run serves several files of tests. The
    run's records name the folder of the original, so another run in the copy would reuse nothing.
    """
    made = copied(factory, "parcels", lambda new: push_parcels(write_parcels(new)))
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return Pushed(folder, parcels(300, seed=2))


def scalar(rows: Sequence[Row]) -> list[Row]:
    """The rows with one tag at most, as a format without lists holds them."""
    return [{**row, "tags": (row["tags"] or [None])[0]} for row in rows]


def check(found: pa.Table, expected: np.ndarray) -> None:
    assert found.column_names[-4:] == ["prediction", *PROBABILITIES]
    assert [found.schema.field(name).type for name in PROBABILITIES] == [pa.float32()] * 3
    values = np.column_stack([found[name].to_numpy() for name in PROBABILITIES])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)
    assert found["prediction"].to_pylist() == [CLASSES[best] for best in expected.argmax(axis=1)]


def refusal(done: Finished) -> str:
    """What a command that is refused says, in sentences of ours."""
    assert done.code == 1
    assert "Traceback" not in done.err
    return done.err


@dataclass(frozen=True)
class Server:
    """A running `headrace serve`."""

    going: Going
    address: str

    def ask(self, body: Any, path: str = ":predict") -> tuple[int, Any]:
        """The status and the answer. body: JSON, or bytes as they are; None asks with GET."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(f"{self.address}{path}", data, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
