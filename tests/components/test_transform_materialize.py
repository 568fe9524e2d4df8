"""Transformed examples as columns have the values of the TFRecords of `transform.materialize: always`."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from transform_runs import Artifacts, run, written

from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.float64_columns import with_bits
from headrace.components.transform import record_blocks, shards
from headrace.components.transform.component import Executor
from headrace.trainer.input.transformed_columns import column_files, open_columns

pytestmark = pytest.mark.slow

SIZES = {"train": [2300, 0, 40], "eval": [300]}
SCHEMA = "\n".join(
    f'feature {{ name: "{name}" type: {kind} }}'
    for name, kind in {
        "amount": "FLOAT", "worth": "FLOAT", "exact": "FLOAT", "exact:float64": "INT", "hour": "INT", "count": "INT",
        "word": "BYTES", "flag": "BYTES", "day": "BYTES", "said": "BYTES", "picture": "BYTES", "tags": "BYTES",
        "place": "FLOAT", "label": "INT",
    }.items()
)  # fmt: skip
LABEL = {"key": "label", "kind": "binary", "weight": "worth"}
SINGLE: dict[str, Any] = {
    "scaled": {"column": "numeric", "key": "amount"},
    "logged": {"column": "numeric", "key": "amount", "normalize": "log"},
    "exact": {"column": "numeric"},
    "quarter": {"column": "bucketized", "key": "amount", "buckets": 4},
    "hour": {"column": "identity", "num_buckets": 24},
    "word": {"column": "vocabulary", "oov_buckets": 2},
    "counted": {"column": "vocabulary", "key": "count", "top_k": 5},
    "bucket": {"column": "hashed", "key": "word", "hash_buckets": 11},
    "flag": {"column": "boolean"},
    "pair": {"column": "crossed", "keys": ["hour", "word"], "hash_buckets": 50},
}
OTHER: dict[str, Any] = {
    "place": {"column": "vector", "size": 3},
    "day": {"column": "datetime", "part": "weekday"},
    "age": {"column": "datetime", "key": "day", "part": "age", "reference": "2026-01-01"},
    "tags": {"column": "vocabulary", "multivalued": True},
    "words": {"column": "text", "key": "said"},
    "padded": {"column": "text", "key": "said", "max_tokens": 3, "padded": True},
    "sentence": {"column": "text_embedding", "key": "said", "saved_model": "network"},
    "picture": {"column": "image", "height": 2, "width": 3, "stored": "uint8"},
    "fine": {"column": "image", "key": "picture", "height": 2, "width": 3, "channels": 1, "stored": "float32"},
    "own": {"column": "custom", "function": "test_transform_materialize.half", "keys": ["amount"]},
}
TASKS = {"tasks": {"label": {"kind": "binary"}, "count": {"kind": "regression"}}, "weight": "worth"}
CONFIGS: dict[str, dict[str, Any]] = {
    "single values": {"label": LABEL, "features": SINGLE, "float64": ["exact"]},
    "any values": {"label": LABEL, "features": {**SINGLE, **OTHER}, "float64": ["exact"]},
    "several labels": {"label": {"kind": "multitask", **TASKS}, "features": {"scaled": SINGLE["scaled"]}},
}


def half(raw: dict[str, Any]) -> tf.Tensor:
    """A number of each example."""
    dense = tf.sparse.to_dense(raw["amount"]) if isinstance(raw["amount"], tf.SparseTensor) else raw["amount"]
    return tf.reshape(dense, [-1]) / 2


def own_preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Outputs of each kind that a user's function may have."""
    del custom_config
    amount = half(inputs)
    words = tf.sparse.to_dense(inputs["word"], default_value="")[:, 0]
    return {
        "scaled": tft.scale_to_z_score(amount),
        "two": tf.stack([amount, -amount], axis=1),
        "square": tf.reshape(tf.repeat(amount, 4), [-1, 2, 2]),
        "ids": tft.compute_and_apply_vocabulary(inputs["tags"]),
        "letters": tf.strings.bytes_split(words),
        "word": words,
        "label": tf.sparse.to_dense(inputs["label"])[:, 0],
    }


def rows(count: int, rng: np.random.Generator) -> pa.RecordBatch:
    """Raw examples, in which now and then a value is missing."""
    gaps = rng.random(count) < 0.1
    picture = [tf.io.encode_png(rng.integers(0, 256, [4, 5, 3], np.uint8)).numpy() for _ in range(7)]
    said = ["the cat sat", "on", "", "the the mat on the cat"]
    batch = pa.record_batch({
        "amount": pa.array(rng.normal(5, 3, count).astype(np.float32), mask=gaps),
        "worth": pa.array(rng.random(count).astype(np.float32)),
        "exact": pa.array(1.7e9 + rng.random(count)),
        "hour": pa.array(rng.integers(0, 30, count), mask=gaps),
        "count": pa.array(rng.integers(0, 9, count)),
        "word": pa.array(rng.choice(["taxi", "Zürich", "東京", "a"], count), mask=gaps).cast(pa.binary()),
        "flag": pa.array(rng.choice(["yes", "no"], count)).cast(pa.binary()),
        "day": pa.array([f"2026-11-{day:02d}" for day in rng.integers(1, 31, count)]).cast(pa.binary()),
        "said": pa.array([said[place] for place in rng.integers(0, 4, count)]).cast(pa.binary()),
        "picture": pa.array([picture[place] for place in rng.integers(0, 7, count)], pa.binary()),
        "tags": pa.array([[b"x", b"y", b"z"][: rng.integers(0, 4)] for _ in range(count)], pa.list_(pa.binary())),
        "place": pa.array(rng.random([count, 3]).astype(np.float32).tolist(), pa.list_(pa.float32())),
        "label": pa.array(rng.integers(0, 2, count)),
    })  # fmt: skip
    return with_bits(batch, ["exact"])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest shard is read in more than one block of four batches."""
    for module in (record_blocks, shards):
        monkeypatch.setattr(module, "BATCH", 512)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    rng = np.random.default_rng(3)
    examples = {split: [encode(rows(size, rng)).to_pylist() for size in sizes] for split, sizes in SIZES.items()}
    return written(tmp_path_factory.mktemp("inputs"), SCHEMA, examples)


def recorded(outputs: Artifacts, split: str) -> dict[str, list[Any]]:
    """The features of TFRecords as the spec says, in Python's own types."""
    spec = tft.TFTransformOutput(outputs["transform_graph"][0].uri).transformed_feature_spec()
    files = sorted(map(str, (Path(outputs["transformed_examples"][0].uri) / f"Split-{split}").iterdir()))
    assert all(file.endswith(".gz") for file in files)
    serialized = [record.numpy() for record in tf.data.TFRecordDataset(files, "GZIP")]
    return {name: as_lists(one) for name, one in tf.io.parse_example(serialized, spec).items()}


def as_lists(values: Any) -> list[Any]:
    if isinstance(values, tf.SparseTensor):
        lengths = np.bincount(values.indices[:, 0], minlength=values.shape[0])
        values = tf.RaggedTensor.from_row_lengths(values.values, lengths)
    found: list[Any]
    if isinstance(values, tf.RaggedTensor):
        found = values.to_list()
        return found
    array = values.numpy()
    found = array.reshape(len(array), -1).tolist() if array.ndim > 1 else array.tolist()
    return found


def in_columns(outputs: Artifacts, split: str) -> dict[str, list[Any]]:
    """The same of columns."""
    folder = Path(outputs["transformed_examples"][0].uri) / f"Split-{split}"
    files = column_files(str(folder))
    assert sorted(files) == sorted(map(str, folder.iterdir()))
    assert len(files) == len(SIZES[split])
    table = pa.concat_tables(map(open_columns, files))
    return {name: table[name].to_pylist() for name in table.column_names}


def assert_same_values(records: Artifacts, columns: Artifacts) -> None:
    rows_of = [outputs["transformed_examples"][0].get_string_custom_property("rows") for outputs in (records, columns)]
    assert rows_of[0] == rows_of[1]
    for split, sizes in SIZES.items():
        expected, found = recorded(records, split), in_columns(columns, split)
        assert list(found) == sorted(expected)
        for name, values in found.items():
            assert len(values) == sum(sizes)
            if values != expected[name]:  # NumPy takes long, but to it a NaN equals another
                np.testing.assert_equal(values, expected[name], err_msg=name)


@pytest.mark.parametrize("name", CONFIGS)
def test_columns_hold_the_values_of_the_records(inputs: Artifacts, tmp_path: Path, name: str) -> None:
    both = [run(Executor, inputs, tmp_path / how, CONFIGS[name], materialize=how) for how in ("always", "auto")]
    assert_same_values(*both)


def test_outputs_of_a_users_function_are_columns_too(inputs: Artifacts, tmp_path: Path) -> None:
    function = "test_transform_materialize.own_preprocessing_fn"
    both = [
        run(Executor, inputs, tmp_path / how, {}, materialize=how, preprocessing_fn=function)
        for how in ("always", "never")
    ]
    assert_same_values(*both)


def preprocessing_fn_of_several_levels(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Outputs that only tf.Examples hold: ragged ones of two levels, and a sparse one of three dimensions."""
    del custom_config
    words = tf.sparse.to_dense(inputs["word"], default_value="")[:, 0]
    amount = half(inputs)
    label = tf.sparse.to_dense(inputs["label"])[:, 0]
    letters = tf.strings.bytes_split(tf.strings.split(words))
    splits = tf.range(tf.size(amount, tf.int64) + 1)
    twice = tf.RaggedTensor.from_row_splits(tf.stack([amount, -amount], axis=1), splits, validate=False)
    positions = tf.where(tf.reshape(tf.repeat(amount, 6), [-1, 2, 3]) > 2)
    cube = tf.SparseTensor(positions, tf.gather(amount, positions[:, 0]), [tf.size(amount, tf.int64), 2, 3])
    return {"amount": amount, "letters": letters, "twice": twice, "cube": cube, "label": label}


@pytest.mark.parametrize("how", ["always", "auto"])
def test_outputs_of_several_levels_are_parsed_as_the_function_returned_them(
    inputs: Artifacts, tmp_path: Path, how: str
) -> None:
    function = "test_transform_materialize.preprocessing_fn_of_several_levels"
    outputs = run(Executor, inputs, tmp_path, {}, materialize=how, preprocessing_fn=function)
    spec = tft.TFTransformOutput(outputs["transform_graph"][0].uri).transformed_feature_spec()
    files = sorted(map(str, Path(outputs["transformed_examples"][0].uri).glob("Split-*/*")))
    serialized = [record.numpy() for record in tf.data.TFRecordDataset(files, "GZIP")]
    raw = [record.numpy() for record in tf.data.TFRecordDataset(_files(inputs), "GZIP")]
    assert len(serialized) == len(raw) == sum(map(sum, SIZES.values()))
    found = tf.io.parse_example(serialized, spec)
    words = [tf.train.Example.FromString(one).features.feature["word"].bytes_list.value for one in raw]
    letters = [[[bytes([letter]) for letter in word] for word in words_of_row] for words_of_row in words]
    assert nested(found["letters"]) == letters
    amounts = found["amount"].numpy()
    assert nested(found["twice"]) == [[[amount, -amount]] for amount in amounts.tolist()]
    expected = np.where(amounts > 2, amounts, 0)[:, np.newaxis, np.newaxis] * np.ones([2, 3], np.float32)
    np.testing.assert_array_equal(tf.sparse.to_dense(found["cube"]), expected)


def nested(ragged: tf.RaggedTensor) -> list[Any]:
    """Its lists. Where there are several levels, TensorFlow's own `to_list` slices a tensor for each row."""
    values = ragged.values
    inner = nested(values) if isinstance(values, tf.RaggedTensor) else values.numpy().tolist()
    return [inner[start:end] for start, end in itertools.pairwise(ragged.row_splits.numpy().tolist())]


def _files(inputs: Artifacts) -> list[str]:
    return sorted(map(str, Path(inputs["examples"][0].uri).glob("Split-*/*")))
