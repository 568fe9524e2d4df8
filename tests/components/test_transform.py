"""Our Transform against TFX's own, on the same artifacts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import json_format
from plain_shards import unpacked
from tfx.components.transform import executor as stock
from tfx.proto import transform_pb2
from tfx.types import artifact_utils
from transform_runs import Artifacts, run, written

from headrace.common.errors import TrainingError
from headrace.components.transform.component import Executor

SHARDS = {"train": [2500, 0, 40], "eval": [300], "test": [0]}
SCHEMA = """
    feature { name: "amount" type: FLOAT } feature { name: "word" type: BYTES } feature { name: "hour" type: INT }
    feature { name: "tags" type: BYTES } feature { name: "label" type: INT }
"""
CONFIG: dict[str, Any] = {
    "label": {"key": "label", "kind": "binary"},
    "features": {
        "amount": {"column": "numeric"},
        "quarter": {"column": "bucketized", "key": "amount", "buckets": 4},
        "word": {"column": "vocabulary", "top_k": 2},
        "hour": {"column": "identity", "num_buckets": 24},
        "pair": {"column": "crossed", "keys": ["hour", "word"], "hash_buckets": 50},
        "tags": {"column": "vocabulary", "multivalued": True},
        "said": {"column": "text", "key": "tags", "multivalued": True, "max_tokens": 3, "padded": True},
    },
}


def example(rng: np.random.Generator) -> bytes:
    """Each feature but the label is missing now and then."""
    values = {
        "amount": tf.train.Feature(
            float_list=tf.train.FloatList(value=rng.normal(5, 3, min(1, int(rng.integers(0, 10)))))
        ),
        "word": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[rng.choice(["taxi", "Zürich", "東京"]).encode()][: rng.integers(0, 9)])
        ),
        "hour": tf.train.Feature(
            int64_list=tf.train.Int64List(value=rng.integers(0, 30, min(1, int(rng.integers(0, 10)))))
        ),
        "tags": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=rng.choice([b"a", b"b c", b"d"], rng.integers(0, 5)).tolist())
        ),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[rng.integers(0, 2)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    rng = np.random.default_rng(3)
    shards = {split: [[example(rng) for _ in range(size)] for size in sizes] for split, sizes in SHARDS.items()}
    return written(tmp_path_factory.mktemp("inputs"), SCHEMA, shards)


def contents(outputs: Artifacts) -> dict[str, list[tf.train.Example]]:
    (transformed,) = outputs["transformed_examples"]
    rows = {}
    for split in artifact_utils.decode_split_names(transformed.split_names):
        files = sorted(map(str, (Path(transformed.uri) / f"Split-{split}").iterdir()))
        rows[split] = [tf.train.Example.FromString(row.numpy()) for row in tf.data.TFRecordDataset(files, "GZIP")]
    return rows


def files(outputs: Artifacts) -> set[str]:
    graph = Path(outputs["transform_graph"][0].uri)
    return {str(path.relative_to(graph)) for path in graph.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_graph_and_examples_are_those_of_the_stock_executor(inputs: Artifacts, tmp_path: Path) -> None:
    ours = run(Executor, inputs, tmp_path / "ours", CONFIG)
    theirs = run(stock.Executor, inputs, tmp_path / "theirs", CONFIG)
    assert contents(ours) == contents(theirs)
    assert files(ours) == files(theirs)
    for part in ("metadata/schema.pbtxt", "transformed_metadata/schema.pbtxt", "transform_fn/assets/word"):
        left, right = (Path(outputs["transform_graph"][0].uri) / part for outputs in (ours, theirs))
        assert left.read_text() == right.read_text()
    (transformed,) = ours["transformed_examples"]
    sizes = {split: sum(shards) for split, shards in SHARDS.items()}
    assert json.loads(transformed.get_string_custom_property("rows")) == sizes
    assert {split: len(rows) for split, rows in contents(ours).items()} == sizes
    names = {path.name for path in (Path(transformed.uri) / "Split-train").iterdir()}
    assert names == {f"transformed_examples-{number:05d}-of-00003.gz" for number in range(3)}


@pytest.mark.parametrize("executor", [Executor, pytest.param(stock.Executor, marks=pytest.mark.slow)])
def test_examples_without_compression_give_the_same(inputs: Artifacts, tmp_path: Path, executor: Any) -> None:
    plain = {**inputs, "examples": [unpacked(inputs["examples"][0], tmp_path / "examples")]}
    config = {"label": CONFIG["label"], "features": {"amount": {"column": "numeric"}}}
    # Ours gives what the stock executor does, as the test above says, in a tenth of the time.
    made, packed = run(executor, plain, tmp_path / "plain", config), run(Executor, inputs, tmp_path / "packed", config)
    for left, right in zip(contents(made).values(), contents(packed).values(), strict=True):
        assert sorted(map(str, left)) == sorted(map(str, right))


def test_splits_config_says_what_is_analyzed_and_what_is_transformed(inputs: Artifacts, tmp_path: Path) -> None:
    config = {"label": CONFIG["label"], "features": {"amount": {"column": "numeric"}}}
    splits = json_format.MessageToJson(transform_pb2.SplitsConfig(analyze=["eval"], transform=["eval"]))
    outputs = run(Executor, inputs, tmp_path, config, splits_config=splits)
    (rows,) = contents(outputs).values()
    amounts = np.array([row.features.feature["amount"].float_list.value[0] for row in rows])
    assert abs(amounts.mean()) < 1e-6  # the missing ones are the mean, so it stays 0
    assert len(rows) == 300
    assert tft.TFTransformOutput(outputs["transform_graph"][0].uri).raw_feature_spec().keys() == {
        "amount", "word", "hour", "tags", "label",
    }  # fmt: skip


def test_error_of_a_column_reaches_the_user_as_it_is(inputs: Artifacts, tmp_path: Path) -> None:
    config = {"label": CONFIG["label"], "features": {"f": {"column": "numeric", "key": "word"}}}
    with pytest.raises(TrainingError, match=r"^features\.f: data column 'word' holds text"):
        run(Executor, inputs, tmp_path, config)


@pytest.mark.parametrize("args", [(), ("--direct_running_mode=multi_threading", "--direct_num_workers=2")])
def test_a_function_that_does_not_give_one_value_for_each_example_is_reported_by_its_feature(
    inputs: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: Sequence[str]
) -> None:
    (tmp_path / "hook_fixed_batch.py").write_text("import tensorflow as tf\ndef f(raw):\n    return tf.zeros([3])\n")
    monkeypatch.syspath_prepend(tmp_path)
    custom = {"column": "custom", "function": "hook_fixed_batch.f", "keys": ["amount"]}
    config = {"label": CONFIG["label"], "features": {"amount": {"column": "numeric"}, "fixed": custom}}
    with pytest.raises(TrainingError, match=r"^features\.fixed: 3 values .*\d+ examples"):
        run(Executor, inputs, tmp_path, config, args=args)
