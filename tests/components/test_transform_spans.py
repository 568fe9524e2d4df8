"""Transform's analysis kept by span: the same as of all spans at once, and only new spans are read for it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import json_format, text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import analyzers
from test_transform import CONFIG, SCHEMA, contents, example, files
from tfx.proto import transform_pb2
from tfx.types import artifact_utils, standard_artifacts
from transform_runs import Artifacts, run

from headrace.components.transform.component import Executor
from headrace.trainer.columns.analyzers.numbers import QUANTILE_ERROR

NIGHT = json_format.MessageToJson(transform_pb2.SplitsConfig(analyze=["train"], transform=["eval"]))
"""Materialises nothing of the train split, so that its files need not be readable."""
TWO_PHASES = """
import tensorflow as tf
import tensorflow_transform as tft

def f(raw):
    x = tf.sparse.to_dense(raw["amount"], default_value=0.0)[:, 0]
    return tft.scale_to_0_1(x - tft.mean(x, name="mean"), name="second") + tft.quantiles(x, 3, 0.01, name="q")[0, 0]
"""
OWN_QUANTILES = """
import tensorflow as tf
import tensorflow_transform as tft

def f(raw):
    x = tf.sparse.to_dense(raw["amount"], default_value=0.0)[:, 0]
    return tf.cast(tft.bucketize(x, 4, 0.001), tf.float32)
"""


PLAIN: dict[str, Any] = {
    **CONFIG,
    "features": {name: one for name, one in CONFIG["features"].items() if name not in {"tags", "said"}},
}
"""Without several values and texts, whose vocabularies may be counted again if another feature is removed."""


def spanned(folder: Path, days: list[int], rows: int = 400) -> Artifacts:
    """An artifact of spans, whose names are their keys too; each has examples of its own."""
    for day in days:
        rng = np.random.default_rng(day)
        for split, sizes in {"train": [rows, 30], "eval": [25]}.items():
            (folder / f"Split-{split}").mkdir(parents=True, exist_ok=True)
            for number, size in enumerate(sizes):
                name = f"data_tfrecord-2026-01-{day:02d}-{number:05d}-of-{len(sizes):05d}.gz"
                with tf.io.TFRecordWriter(str(folder / f"Split-{split}" / name), "GZIP") as file:
                    for _ in range(size):
                        file.write(example(rng))
    (folder / "schema").mkdir()
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())
    (folder / "schema" / "schema.pbtxt").write_text(text_format.MessageToString(schema))
    examples, schemas = standard_artifacts.Examples(), standard_artifacts.Schema()
    examples.uri, schemas.uri = str(folder), str(folder / "schema")
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    examples.set_string_custom_property("spans", json.dumps({f"2026-01-{day:02d}": f"key-{day}" for day in days}))
    return {"examples": [examples], "schema": [schemas]}


def analyze(
    folder: Path, inputs: Artifacts, name: str, config: dict[str, Any] = CONFIG, code: str = "1", **more: Any
) -> Artifacts:
    """Our executor with a store."""
    properties = {"store": str(folder / "store"), "code": code, **more}
    return run(Executor, inputs, folder / name, config, **properties)


def spoil(inputs: Artifacts, days: list[int]) -> None:
    """Nobody can read the train split of these days any more."""
    for day in days:
        for shard in Path(inputs["examples"][0].uri, "Split-train").glob(f"data_tfrecord-2026-01-{day:02d}-*"):
            shard.write_bytes(b"spoiled")


def assert_same(left: Artifacts, right: Artifacts) -> None:
    """But for the rounding of sums that are added up in another order."""
    assert files(left) == files(right)
    for part in ("metadata/schema.pbtxt", "transformed_metadata/schema.pbtxt", "transform_fn/assets/word"):
        paths = [Path(outputs["transform_graph"][0].uri) / part for outputs in (left, right)]
        assert paths[0].read_text() == paths[1].read_text()
    for split, rows in contents(left).items():
        for row, other in zip(rows, contents(right)[split], strict=True):
            for name, feature in row.features.feature.items():
                counterpart = other.features.feature[name]
                assert feature.int64_list == counterpart.int64_list
                np.testing.assert_allclose(feature.float_list.value, counterpart.float_list.value, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_analysis_by_span_is_that_of_all_at_once(tmp_path: Path) -> None:
    inputs = spanned(tmp_path / "in", [1, 2, 3])
    first = analyze(tmp_path, inputs, "first")
    assert_same(first, run(Executor, inputs, tmp_path / "at-once", CONFIG))
    assert_same(first, analyze(tmp_path, inputs, "again"))


@pytest.mark.slow
def test_only_the_new_span_is_read_for_it(tmp_path: Path) -> None:
    analyze(tmp_path, spanned(tmp_path / "one", [1, 2, 3]), "first", splits_config=NIGHT)
    inputs = spanned(tmp_path / "two", [2, 3, 4])
    expected = run(Executor, inputs, tmp_path / "at-once", CONFIG, splits_config=NIGHT)
    spoil(inputs, [2, 3])
    assert_same(analyze(tmp_path, inputs, "second", splits_config=NIGHT), expected)
    spoil(inputs, [4])
    assert_same(analyze(tmp_path, inputs, "third", splits_config=NIGHT), expected)


@pytest.mark.slow
def test_other_code_features_or_splits_read_all_again(tmp_path: Path) -> None:
    inputs = spanned(tmp_path / "in", [1, 2])
    analyze(tmp_path, inputs, "first", PLAIN, splits_config=NIGHT)
    fewer = {**PLAIN, "features": {name: PLAIN["features"][name] for name in ("word", "hour")}}
    both = {**PLAIN, "features": {**PLAIN["features"], "hours": {"column": "numeric", "key": "hour"}}}
    analyze(tmp_path, inputs, "more", both, splits_config=NIGHT)
    spoil(inputs, [1, 2])
    for config in (PLAIN, fewer, both):  # all of this was computed before
        analyze(tmp_path, inputs, f"kept-{len(config['features'])}", config, splits_config=NIGHT)
    eighths = {"quarter": {"column": "bucketized", "key": "amount", "buckets": 8}}  # from the sums that are kept
    more = {**PLAIN, "features": {**PLAIN["features"], **eighths}}
    analyze(tmp_path, inputs, "eighths", more, splits_config=NIGHT)
    hours = {"hours": {"column": "numeric", "key": "hour"}, "hour": {"column": "vocabulary"}}
    other_splits = NIGHT.replace('"train"', '"train", "eval"')
    for number, (code, features, splits) in enumerate([("2", {}, NIGHT), ("1", hours, NIGHT), ("1", {}, other_splits)]):
        config = {**PLAIN, "features": {**PLAIN["features"], **features}}
        with pytest.raises(Exception, match="are damaged"):
            analyze(tmp_path, inputs, f"out-{number}", config, code, splits_config=splits)


def test_features_without_analysis_read_nothing(tmp_path: Path) -> None:
    inputs = spanned(tmp_path / "in", [1, 2])
    spoil(inputs, [1, 2])
    config = {"label": CONFIG["label"], "features": {"hour": CONFIG["features"]["hour"]}}
    analyze(tmp_path, inputs, "out", config, splits_config=NIGHT)


@pytest.mark.slow
def test_analyzer_that_works_on_the_results_of_another_reads_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hook_two_phases.py").write_text(TWO_PHASES)
    monkeypatch.syspath_prepend(tmp_path)
    custom = {"column": "custom", "function": "hook_two_phases.f", "keys": ["amount"]}
    config = {"label": CONFIG["label"], "features": {"two": custom}}
    analyze(tmp_path, spanned(tmp_path / "one", [1, 2]), "first", config, splits_config=NIGHT)
    inputs = spanned(tmp_path / "two", [2, 3])
    made = contents(analyze(tmp_path, inputs, "second", config, splits_config=NIGHT))["eval"]
    train, given = amounts(inputs, "train"), amounts(inputs, "eval")
    scaled = (given - train.min()) / (train.max() - train.min())
    rest = np.array([row.features.feature["two"].float_list.value[0] for row in made]) - scaled
    np.testing.assert_allclose(rest, rest[0], atol=1e-4)
    least, most = np.quantile(train, [1 / 3 - 0.02, 1 / 3 + 0.02])
    assert least <= rest[0] <= most


def amounts(inputs: Artifacts, split: str) -> np.ndarray:
    """The amounts of a split in the order of its files, 0 where one is missing."""
    files = sorted(map(str, Path(inputs["examples"][0].uri, f"Split-{split}").iterdir()))
    rows = [tf.train.Example.FromString(row.numpy()) for row in tf.data.TFRecordDataset(files, "GZIP")]
    return np.array([[*row.features.feature["amount"].float_list.value, 0.0][0] for row in rows])


@pytest.mark.slow
def test_quantiles_over_spans_are_as_exact_as_those_of_one(tmp_path: Path) -> None:
    inputs = spanned(tmp_path / "in", list(range(1, 9)), rows=3000)
    config = {"label": CONFIG["label"], "features": {"q": {"column": "bucketized", "key": "amount", "buckets": 10}}}
    outputs = analyze(tmp_path, inputs, "out", config)
    rows = contents(outputs)["train"]
    assert len(rows) == 8 * 3030
    buckets = np.bincount([row.features.feature["q"].int64_list.value[0] for row in rows])[:10]
    assert abs(buckets - buckets.sum() / 10).max() <= 2 * QUANTILE_ERROR * buckets.sum() + 2
    assert tft.TFTransformOutput(outputs["transform_graph"][0].uri).raw_feature_spec()


@pytest.mark.slow
def test_quantiles_of_a_users_function_are_kept_as_data_that_nothing_executes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """TFT's own way is to pickle them."""
    (tmp_path / "hook_own_quantiles.py").write_text(OWN_QUANTILES)
    monkeypatch.syspath_prepend(tmp_path)
    custom = {"column": "custom", "function": "hook_own_quantiles.f", "keys": ["amount"]}
    config = {"label": CONFIG["label"], "features": {"quarter": custom}}
    inputs = spanned(tmp_path / "in", [1, 2])
    expected = run(Executor, inputs, tmp_path / "at-once", config, splits_config=NIGHT)
    for name in ("encode_cache", "decode_cache"):
        monkeypatch.setattr(analyzers._QuantilesSketchCacheCoder, name, lambda *_: pytest.fail("pickled"))
    analyze(tmp_path, inputs, "first", config, splits_config=NIGHT)
    (kept,) = (tmp_path / "store" / "key-1").glob("analysis-*/*")
    kept.write_bytes(kept.read_bytes()[:-5] + b"?????")
    spoil(inputs, [2])
    assert_same_rows(analyze(tmp_path, inputs, "second", config, splits_config=NIGHT), expected)
    said = log.text
    assert f"{kept} is damaged" in said
    assert "Analyzed now: 2026-01-01; cached: 1 spans" in said


def assert_same_rows(left: Artifacts, right: Artifacts) -> None:
    """Of few enough examples that the sketches are exact."""
    ours, theirs = contents(left)["eval"], contents(right)["eval"]
    assert [row.features for row in ours] == [row.features for row in theirs]
    assert len({row.features.feature["quarter"].float_list.value[0] for row in ours}) == 4
