"""Rows with everything in them that a column must cope with, put through real TFT by every kind of column."""

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import beam_here
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from made_once import copied

from headrace.trainer.preprocessing import preprocessing_fn
from headrace.trainer.sections import TrainerSections

ROWS = 240
SPEC = {
    "amount": tf.float32,
    "degrees": tf.float32,
    "same": tf.float32,
    "nothing": tf.float32,
    "seconds": tf.int64,
    "whole": tf.int64,
    "hour": tf.int64,
    "word": tf.string,
    "when": tf.string,
    "flag": tf.string,
    "vector": tf.float32,
    "counts": tf.int64,
    "texts": tf.string,
    "label": tf.int64,
}
WORDS = ["taxi", "Zürich", "東京", "naïve", "🚕", "a_X_b", " spaced ", "0"]
DATES = ["2024-02-29", "2025-12-31 23:59:59", "1999-07-04T06:00:00Z", "2026-02-30", "soon"]
FLAGS = ["yes", "No", "TRUE", "0", "perhaps"]
EXTREMES = [2**63 - 1, -(2**63) + 1, 2**53 + 1, 0, -1]
HOOKS = """
import tensorflow as tf

def twice(raw):
    return 2.0 * tf.sparse.to_dense(raw["amount"], default_value=0.0)[:, 0]

def parity(raw):
    return tf.cast(tf.sparse.to_dense(raw["hour"], default_value=0)[:, 0] % 2, tf.int32)
"""


def examples() -> list[dict[str, Any]]:
    """Rows with missing values, NaN, unicode, extreme integers, values on boundaries and ties of frequency."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(ROWS):
        row: dict[str, Any] = {
            "amount": float(np.float32(rng.normal(3, 20))) if number % 7 else None,
            "degrees": float(np.float32(rng.choice([41.7, 41.8, 41.85, 41.9, 42.0]))),
            "same": float(np.float32(0.1)) if number % 5 else None,
            "nothing": None,
            "seconds": 1_400_000_000 + int(rng.integers(0, 20)),
            "whole": EXTREMES[number % len(EXTREMES)] if number % 3 == 0 else int(rng.integers(-50, 50)),
            "hour": int(rng.integers(-2, 27)) if number % 11 else None,
            "word": WORDS[int(rng.zipf(1.5)) % len(WORDS)] if number % 6 else None,
            "when": DATES[number % len(DATES)] if number % 9 else None,
            "flag": FLAGS[number % len(FLAGS)] if number % 8 else None,
            "label": number % 2,
        }
        lists: dict[str, list[Any]] = {
            "vector": [float(np.float32(one)) for one in rng.normal([0, 5, -1e6], [1, 0.01, 1e3])]
            if number % 4
            else [],
            "counts": [7, number, int(rng.integers(-9, 9))] if number % 10 else [],
        }
        lists["texts"] = [f"[{number / 8}, {'' if number % 3 else -number}]"] if number % 6 else []
        if number % 12 == 1:
            lists["vector"][1] = math.nan
        if number % 13 == 1:
            row["amount"] = math.nan
        rows.append({key: [] if value is None else [value] for key, value in row.items()} | lists)
    return rows


UNSEEN: list[dict[str, Any]] = [
    {"amount": [1e30], "degrees": [-5.0], "same": [7.0], "nothing": [3.0], "seconds": [0], "whole": [2**62],
     "hour": [23], "word": ["never seen"], "when": ["0001-01-01"], "flag": ["on"], "label": [1],
     "vector": [1e30, -1.5, 0.0], "counts": [2**62, 0, -1], "texts": [" (1e3,.5) "]},
    {"amount": [-0.0], "degrees": [99.0], "same": [], "nothing": [math.nan], "seconds": [-5], "whole": [], "hour": [24],
     "word": ["ещё одно"], "when": ["2031-05-06 07:08"], "flag": [], "label": [0], "vector": [math.nan] * 3,
     "counts": [-(2**63), 1, 2], "texts": ["[]"]},
    {"amount": [], "degrees": [], "same": [], "nothing": [], "seconds": [], "whole": [], "hour": [], "word": [],
     "when": [], "flag": [], "label": [], "vector": [], "counts": [], "texts": []},
    {"amount": [2.5], "degrees": [41.8], "same": [0.1], "nothing": [], "seconds": [1_400_000_003], "whole": [40],
     "hour": [0], "word": ["taxi\nwith a line break"], "when": ["9999-12-31"], "flag": ["f"], "label": [1],
     "vector": [0.5, 5.0, -1e6], "counts": [], "texts": ["nan,-7"]},
]  # fmt: skip


def feature_config(folder: Path) -> dict[str, dict[str, Any]]:
    vocabulary_file = folder / "words.txt"
    vocabulary_file.write_text("東京\ntaxi\n🚕\n", encoding="utf-8")
    date = {"column": "datetime", "key": "when"}
    bucketized, vocabulary, hashed = {"column": "bucketized"}, {"column": "vocabulary"}, {"column": "hashed"}
    return {
        "amount": {"column": "numeric"},
        "amount_range": {"column": "numeric", "key": "amount", "normalize": "min_max"},
        "amount_log": {"column": "numeric", "key": "amount", "normalize": "log"},
        "amount_plain": {"column": "numeric", "key": "amount", "normalize": "none", "missing": -1.5},
        "amount_zero": {"column": "numeric", "key": "amount", "missing": 0.0},
        "seconds": {"column": "numeric"},
        "seconds_range": {"column": "numeric", "key": "seconds", "normalize": "min_max"},
        "seconds_quarters": {**bucketized, "key": "seconds", "buckets": 4},
        "seconds_fixed": {**bucketized, "key": "seconds", "boundaries": [1_400_000_007.0, 1_400_000_012.0]},
        "seconds_age": {**date, "key": "seconds", "part": "age", "format": "epoch_s", "reference": "2026-01-01"},
        "whole_log": {"column": "numeric", "key": "whole", "normalize": "log", "missing": 0.0},
        "same": {"column": "numeric"},
        "same_range": {"column": "numeric", "key": "same", "normalize": "min_max"},
        "nothing": {"column": "numeric"},
        "amount_quarters": {**bucketized, "key": "amount", "buckets": 4},
        "amount_tenths": {**bucketized, "key": "amount", "buckets": 10, "missing": 2.0},
        "whole_quarters": {**bucketized, "key": "whole", "buckets": 4},
        "same_quarters": {**bucketized, "key": "same", "buckets": 4},
        "nothing_quarters": {**bucketized, "key": "nothing", "buckets": 4},
        "degrees": {**bucketized, "boundaries": [41.8, 41.9]},
        "whole_fixed": {**bucketized, "key": "whole", "boundaries": [-1.5, 0.0, 40.0], "missing": -7.0},
        "hour": {"column": "identity", "num_buckets": 24},
        "hour_filled": {"column": "identity", "key": "hour", "num_buckets": 24, "missing": 12},
        "word": vocabulary,
        "word_top": {**vocabulary, "key": "word", "top_k": 3, "oov_buckets": 4},
        "word_often": {**vocabulary, "key": "word", "min_frequency": 30, "oov_buckets": 2},
        "word_filled": {**vocabulary, "key": "word", "missing": "taxi"},
        "word_values": {**vocabulary, "key": "word", "values": ["0", "naïve", "Zürich"], "oov_buckets": 3},
        "word_file": {**vocabulary, "key": "word", "file": str(vocabulary_file)},
        "whole_vocabulary": {**vocabulary, "key": "whole", "top_k": 8, "missing": -1},
        "hour_values": {**vocabulary, "key": "hour", "values": [7, 8, 9]},
        "word_hashed": {**hashed, "key": "word", "hash_buckets": 17},
        "whole_hashed": {**hashed, "key": "whole", "hash_buckets": 1000},
        "word_hashed_filled": {**hashed, "key": "word", "hash_buckets": 17, "missing": "taxi"},
        "cross_raw": {"column": "crossed", "keys": ["word", "seconds_id", "whole"], "hash_buckets": 97},
        "seconds_id": {**hashed, "key": "seconds", "hash_buckets": 5},
        "cross_features": {"column": "crossed", "keys": ["amount_quarters", "word_top"], "hash_buckets": 50},
        "cross_filled": {"column": "crossed", "keys": ["amount_tenths", "hour_filled"], "hash_buckets": 50},
        "cross_of_cross": {"column": "crossed", "keys": ["cross_features", "hour"], "hash_buckets": 31},
        "whole": {"column": "crossed", "keys": ["whole", "hour_values"], "hash_buckets": 41},
        "when_year": {**date, "part": "year"},
        "when_age": {**date, "part": "age", "reference": "2026-01-01"},
        "when_month": {**date, "part": "month"},
        "when_weekday": {**date, "part": "weekday", "encoding": "sine"},
        "when_hour": {**date, "part": "hour", "encoding": "number"},
        "flag": {"column": "boolean"},
        "flag_filled": {"column": "boolean", "key": "flag", "missing": True},
        "vector": {"column": "vector", "size": 3},
        "vector_range": {"column": "vector", "key": "vector", "size": 3, "normalize": "min_max", "missing": 0.5},
        "vector_plain": {"column": "vector", "key": "vector", "size": 3, "normalize": "none", "missing": 0.0},
        "counts": {"column": "vector", "size": 3},
        "counts_log": {"column": "vector", "key": "counts", "size": 3, "normalize": "log"},
        "texts": {"column": "vector", "size": 2, "separator": ","},
        "cross_dates": {"column": "crossed", "keys": ["when_month", "flag"], "hash_buckets": 23},
        "custom_number": {"column": "custom", "function": "column_test_hooks.twice", "keys": ["amount"]},
        "custom_category": {
            "column": "custom", "function": "column_test_hooks.parity", "keys": ["hour"], "num_categories": 2,
        },
    }  # fmt: skip


class Transformed(NamedTuple):
    """One run of TFT."""

    raw: list[dict[str, Any]]
    """The train rows, then the unseen ones."""
    rows: list[dict[str, Any]]
    """What Beam transformed: the train rows, in order."""
    train: dict[str, np.ndarray]
    """The same rows through the written graph."""
    unseen: dict[str, np.ndarray]
    """Rows that were not there to learn from, through the written graph."""
    without_label: dict[str, np.ndarray]
    """The unseen rows without the label column, as at serving."""
    output: tft.TFTransformOutput
    sections: TrainerSections

    def all(self, name: str) -> np.ndarray:
        """A feature of all of `raw`, through the written graph."""
        return np.concatenate([self.train[name], self.unseen[name]])

    @property
    def spec(self) -> dict[str, tf.DType]:
        """The data columns."""
        return SPEC

    @property
    def tensors(self) -> dict[str, tf.SparseTensor]:
        """The train rows as parsed examples."""
        return as_sparse(self.raw[: len(self.rows)])

    def column(self, key: str) -> list[Any]:
        """A data column of all of `raw`: None where missing, floats as float32 holds them."""
        values = [row[key][0] if row[key] else None for row in self.raw]
        if SPEC[key] == tf.float32:
            return [None if value is None or math.isnan(value) else float(np.float32(value)) for value in values]
        return values


def as_sparse(rows: list[dict[str, Any]]) -> dict[str, tf.SparseTensor]:
    tensors = {}
    for key, dtype in SPEC.items():
        indices = [[number, place] for number, row in enumerate(rows) for place in range(len(row[key]))]
        values = tf.constant([value for row in rows for value in row[key]], dtype)
        width = max(1, *(len(row[key]) for row in rows))
        tensors[key] = tf.SparseTensor(np.array(indices, np.int64).reshape(-1, 2), values, [len(rows), width])
    return tensors


@pytest.fixture(scope="session")
def transformed(tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    """TFT runs once, in one of the processes of the tests."""
    folder = tmp_path_factory.mktemp("columns")
    (folder / "column_test_hooks.py").write_text(HOOKS)
    sys.path.insert(0, str(folder))
    config = {"label": {"key": "label", "kind": "binary"}, "features": feature_config(folder)}
    sections = TrainerSections.from_json(json.dumps(config))
    made = copied(tmp_path_factory, "transformed", partial(transform, sections))
    rows = [json.loads(line) for path in sorted(made.glob("rows*")) for line in path.read_text().splitlines()]
    output = tft.TFTransformOutput(str(made / "graph"))
    layer = output.transform_features_layer()
    train, unseen = (
        {key: tensor.numpy() for key, tensor in layer(as_sparse(batch)).items()} for batch in (examples(), UNSEEN)
    )
    serving = {key: tensor for key, tensor in as_sparse(UNSEEN).items() if key != "label"}
    without_label = {key: tensor.numpy() for key, tensor in output.transform_features_layer()(serving).items()}
    return Transformed([*examples(), *UNSEEN], rows, train, unseen, without_label, output, sections)


def transform(sections: TrainerSections, folder: Path) -> None:
    """Write the graph, and the transformed train rows as lines of JSON."""
    metadata = tft.DatasetMetadata.from_feature_spec({key: tf.io.VarLenFeature(dtype) for key, dtype in SPEC.items()})
    custom_config = {"config": sections.to_json()}
    with (
        beam_here.pipeline() as pipeline,
        tft_beam.Context(temp_dir=str(folder / "tmp"), force_tf_compat_v1=False, desired_batch_size=50),
    ):
        raw = pipeline | beam.Create(examples(), reshuffle=False)
        (data, _), function = (raw, metadata) | tft_beam.AnalyzeAndTransformDataset(
            lambda inputs: preprocessing_fn(inputs, custom_config)
        )
        function | tft_beam.WriteTransformFn(str(folder / "graph"))
        data | beam.Map(to_json) | beam.io.WriteToText(str(folder / "rows"))


def to_json(row: Any) -> str:
    return json.dumps({key: np.asarray(value).tolist() for key, value in row.items()})
