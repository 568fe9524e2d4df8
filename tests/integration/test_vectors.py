"""Lists of numbers as features, from Parquet to the predictions of new JSON lines, in one run.

The expected features are worked out by NumPy from the rows of the file.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from command import headrace

pytestmark = pytest.mark.slow

ROWS, SIZE = 1500, 4
CONFIG = """\
pipeline: {name: points}
data: {source: {kind: parquet, path: points.parquet}}
label: {key: inside, kind: binary}
features:
  point: {column: vector, size: 4}
  pair: {column: vector, size: 2, normalize: none, missing: 0.5}
  amount: {column: numeric}
model: {kind: dnn, hidden: [16]}
train: {epochs: 4, batch_size: 64, learning_rate: 0.02}
evaluate: {metrics: [auc], thresholds: {auc: {min: 0.8}}}
"""


def table() -> pa.Table:
    random = np.random.default_rng(3)
    points = random.normal([0, 50, -3, 2], [1, 10, 0.1, 5], (ROWS, SIZE)).astype(np.float32)
    inside = (points[:, 0] + (points[:, 1] - 50) / 10 > 0).astype(int)
    return pa.table(
        {
            "point": pa.array([row.tolist() if number % 17 else None for number, row in enumerate(points)]),
            "pair": pa.array(random.integers(0, 9, (ROWS, 2)).tolist(), pa.list_(pa.int32(), 2)),
            "amount": random.normal(size=ROWS),
            "inside": inside,
        }
    )


def example(row: dict[str, Any]) -> bytes:
    lists = {"point": "float_list", "pair": "int64_list", "amount": "float_list", "inside": "int64_list"}
    found = tf.train.Example()
    for name, kind in lists.items():
        value = row[name]
        getattr(found.features.feature[name], kind).value.extend(np.ravel([] if value is None else value))
    return found.SerializeToString()


def test_vectors_are_learned_from_and_served_as_they_were_trained(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "points.parquet")
    (tmp_path / "p.yaml").write_text(CONFIG, encoding="utf-8")
    done = headrace(tmp_path, "run", "p.yaml")
    assert done.code == 0, done.out + done.err

    model = tf.saved_model.load(str(next((tmp_path / "serving" / "points").iterdir())))
    rows = table().to_pylist()
    examples = tf.constant([example(row) for row in rows])
    features = model.signatures["transform_features"](examples=examples)
    expected = model.signatures["serving_default"](examples=examples)["predictions"].numpy()
    spread = features["point"].numpy()[[number % 17 > 0 for number in range(ROWS)]]
    np.testing.assert_allclose(spread.mean(axis=0), [0] * SIZE, atol=0.1)  # all rows, not those of train alone
    np.testing.assert_allclose(spread.std(axis=0), [1] * SIZE, atol=0.1)
    np.testing.assert_allclose(features["point"][::17], np.zeros([math.ceil(ROWS / 17), SIZE]), atol=1e-6)
    np.testing.assert_array_equal(features["pair"], np.array([row["pair"] for row in rows], np.float32))
    raw = {
        "point": tf.constant([row["point"] or [math.nan] * SIZE for row in rows], tf.float32),
        "pair": tf.constant([row["pair"] for row in rows], tf.int64),
        "amount": tf.constant([row["amount"] for row in rows], tf.float32),
    }
    np.testing.assert_allclose(model.signatures["serving_raw"](**raw)["predictions"], expected, atol=1e-6)
    given = {name: value for name, value in features.items() if name != "inside"}
    np.testing.assert_allclose(model.signatures["serving_transformed"](**given)["predictions"], expected, atol=1e-6)

    lines = [json.dumps({name: row[name] for name in raw}) + "\n" for row in rows[:50]]
    (tmp_path / "new.jsonl").write_text("".join(lines), encoding="utf-8")
    for new, count in (("points.parquet", ROWS), ("new.jsonl", 50)):
        predicted = headrace(tmp_path, "predict", "p.yaml", "--input", new, "--output", "out.parquet")
        assert predicted.code == 0, predicted.err
        found = pq.read_table(tmp_path / "out.parquet")["probability_1"].to_numpy()
        np.testing.assert_allclose(found, expected[:count, 0], atol=1e-5)

    (tmp_path / "bad.jsonl").write_text(json.dumps({"point": [1, 2], "pair": [1, 2], "amount": 1}), encoding="utf-8")
    refused = headrace(tmp_path, "predict", "p.yaml", "--input", "bad.jsonl", "--output", "out.parquet")
    assert refused.code != 0
    assert re.search(r"record 1: features\.point: .*'point' .*length 2, .*`size` is 4", refused.err)
