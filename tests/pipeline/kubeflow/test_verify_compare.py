"""The comparison of two runs: what counts as a difference."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from headrace.components.evaluation.result import Evaluation, SliceMetrics, write_evaluation
from headrace.components.examples.column_files import ColumnWriter, finish, path_beside
from headrace.pipeline.kubeflow.verify import compare
from headrace.pipeline.kubeflow.verify.compare import same_graph
from headrace.pipeline.kubeflow.verify.predictions import compare_predictions


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, content in files.items():
        (path / name).write_text(content)
    return path


def test_examples_must_be_equal_byte_for_byte(tmp_path: Path) -> None:
    ours = folder(tmp_path / "ours", a="1", b="2")
    assert compare.folders("X", "x", "Examples", ours, folder(tmp_path / "same", a="1", b="2")).same
    other = compare.folders("X", "x", "Examples", ours, folder(tmp_path / "other", a="1", b="3"))
    assert (other.same, other.what) == (False, "1 of 2 files differ: b")
    fewer = compare.folders("X", "x", "Examples", ours, folder(tmp_path / "fewer", a="1"))
    assert (fewer.same, fewer.what) == (False, "only in one of the two runs: b")


def test_columns_of_shards_are_compared_by_their_rows(tmp_path: Path) -> None:
    for name, number, level in (("ours", 1, 1), ("repacked", 1, 9), ("other", 2, 1)):
        shard = tmp_path / name / "Split-train" / "data.gz"
        for file in (shard, path_beside(shard)):
            file.parent.mkdir(parents=True)
        shard.write_bytes(gzip.compress(b"a record" * 9, level, mtime=0))
        writer = ColumnWriter(path_beside(shard))
        writer.add(pa.record_batch({"n": pa.array([number])}), np.array([72]))
        writer.close()
        finish(path_beside(shard), shard)
    ours = tmp_path / "ours"
    columns = path_beside(Path("Split-train/data.gz"))
    assert (ours / columns).read_bytes() != (tmp_path / "repacked" / columns).read_bytes()
    assert compare.folders("X", "x", "Examples", ours, tmp_path / "repacked").same
    other = compare.folders("X", "x", "Examples", ours, tmp_path / "other")
    assert (other.same, other.what) == (False, f"1 of 2 files differ: {columns}")


def predictions(path: Path, *rows: tuple[dict[str, int], Any]) -> Path:
    """What BulkInferrer writes: a PredictionLog for each example, whose features it serializes in any order."""
    path.mkdir()
    with tf.io.TFRecordWriter(str(path / "prediction_logs-00000-of-00001.gz"), "GZIP") as writer:
        for features, value in rows:
            example = b"".join(  # a message is the concatenation of its parts
                tf.train.Example(features=tf.train.Features(feature={name: _int(number)})).SerializeToString()
                for name, number in features.items()
            )
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.inputs["examples"].CopyFrom(tf.make_tensor_proto([example]))
            log.predict_log.response.outputs["predictions"].CopyFrom(tf.make_tensor_proto([[value]]))
            writer.write(log.SerializeToString())
    return path


def _int(number: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))


def test_predictions_are_matched_by_their_examples_and_compared_as_numbers(tmp_path: Path) -> None:
    ours = predictions(tmp_path / "ours", ({"a": 1, "b": 2}, 0.25), ({"a": 3, "b": 4}, 0.75))
    for name, rows, same, word in (
        ("reordered", [({"b": 4, "a": 3}, 0.75), ({"b": 2, "a": 1}, 0.25)], True, "2 predictions within 0"),
        ("close", [({"a": 1, "b": 2}, 0.25005), ({"a": 3, "b": 4}, 0.75)], True, "within 5e-05"),
        ("far", [({"a": 1, "b": 2}, 0.26), ({"a": 3, "b": 4}, 0.75)], False, "within 0.01"),
        ("exchanged", [({"a": 1, "b": 2}, 0.75), ({"a": 3, "b": 4}, 0.25)], False, "within 0.5"),
        ("others", [({"a": 1, "b": 2}, 0.25), ({"a": 3, "b": 5}, 0.75)], False, "of other examples"),
        ("fewer", [({"a": 1, "b": 2}, 0.25)], False, "2 predictions here, 1 there"),
        ("nan", [({"a": 1, "b": 2}, 0.25), ({"a": 3, "b": 4}, float("nan"))], False, "within inf"),
    ):
        theirs = predictions(tmp_path / name, *rows)
        found = compare.folders("BulkInferrer", "inference_result", "InferenceResult", ours, theirs)
        assert (found.same, word in found.what) == (same, True), (name, found)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ([float("nan"), 1.0], [float("nan"), 1.0], "0"),
        ([1.0, float("nan")], [1.0, 1.0], "inf"),
        ([float("inf")], [float("inf")], "0"),
        ([float("inf")], [-float("inf")], "inf"),
        (np.uint8(1), np.uint8(2), "0.5"),
        ([b"yes"], [b"no"], "inf"),
    ],
)
def test_predictions_of_any_type_are_compared(tmp_path: Path, one: Any, other: Any, apart: str) -> None:
    ours, theirs = predictions(tmp_path / "ours", ({"a": 1}, one)), predictions(tmp_path / "theirs", ({"a": 1}, other))
    found = compare_predictions(ours, theirs, 1e-4)
    assert (found.same, found.what) == (apart == "0", f"1 predictions within {apart}")


def regressions(path: Path, *values: float) -> Path:
    path.mkdir()
    with tf.io.TFRecordWriter(str(path / "prediction_logs")) as writer:
        for number, value in enumerate(values):
            log = prediction_log_pb2.PredictionLog()
            log.regress_log.request.input.example_list.examples.add().features.feature["a"].CopyFrom(_int(number))
            log.regress_log.response.result.regressions.add().value = value
            writer.write(log.SerializeToString())
    return path


def test_results_of_older_signatures_are_compared_too(tmp_path: Path) -> None:
    ours = regressions(tmp_path / "ours", 1.0, 2.0)
    assert compare_predictions(ours, regressions(tmp_path / "same", 1.0, 2.0), 1e-4).same
    assert not compare_predictions(ours, regressions(tmp_path / "other", 1.0, 5.0), 1e-4).same
    assert not compare_predictions(ours, regressions(tmp_path / "fewer", 1.0), 1e-4).same


def test_packed_examples_are_compared_by_what_is_in_them(tmp_path: Path) -> None:
    for name, text, level in (("ours", b"one two " * 99, 1), ("alike", b"one two " * 99, 9), ("other", b"one two", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.gz").write_bytes(gzip.compress(text, level))
    assert (tmp_path / "ours" / "data.gz").read_bytes() != (tmp_path / "alike" / "data.gz").read_bytes()
    alike, other = (
        compare.folders("ExampleGen", "examples", "Examples", tmp_path / "ours", tmp_path / name)
        for name in ("alike", "other")
    )
    assert (alike.same, alike.what) == (True, "1 files, byte for byte")
    assert not other.same


def test_models_must_have_the_same_files(tmp_path: Path) -> None:
    ours = folder(tmp_path / "ours", weights="1")
    assert compare.folders("X", "x", "Model", ours, folder(tmp_path / "other", weights="2")).same
    assert not compare.folders("X", "x", "Model", ours, folder(tmp_path / "none")).same


@pytest.mark.parametrize(
    ("ours", "theirs", "differ"),
    [
        ({"rows": "3"}, {"rows": "3"}, None),
        ({"rows": "3"}, {"rows": "4"}, "rows"),
        ({"rows": "3"}, {}, "rows"),
        ({"span": 3}, {"span": 4}, "span"),
        ({"place": "/tmp/a"}, {"place": "minio://b/a"}, None),
        ({"split_names": '["a", "b"]'}, {"split_names": '["b", "a"]'}, None),
        ({"split_names": '["a", "b"]'}, {"split_names": '["a"]'}, "split_names"),
        ({"rows": '{"a": 1, "b": 2}'}, {"rows": '{"b": 2, "a": 1}'}, None),
    ],
)
def test_properties_must_be_equal_but_for_places(
    ours: dict[str, object], theirs: dict[str, object], differ: str | None
) -> None:
    line = compare.properties("X", "x", ours, theirs)
    assert (line.what if line else None) == (f"properties differ: {differ}" if differ else None)


class Scaled(tf.Module):
    """A table and a factor."""

    def __init__(self, factor: float, *, first: bool) -> None:
        super().__init__()
        self.factor, self.first = factor, first

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def __call__(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        parts = [lambda: x * self.factor, lambda: tf.sqrt(x)]
        made = [part() for part in (parts if self.first else reversed(parts))]
        return dict(zip(("scaled", "root") if self.first else ("root", "scaled"), made, strict=True))


def saved(path: Path, module: tf.Module) -> Path:
    tf.saved_model.save(module, str(path))
    return path / "saved_model.pb"


def test_graphs_are_the_same_whatever_order_their_nodes_stand_in(tmp_path: Path) -> None:
    one, two = (saved(tmp_path / str(first), Scaled(2.0, first=first)) for first in (True, False))
    assert one.read_bytes() != two.read_bytes()
    assert same_graph(one, two)


def test_a_graph_with_another_constant_is_another(tmp_path: Path) -> None:
    one, two = (saved(tmp_path / str(factor), Scaled(factor, first=True)) for factor in (2.0, 2.5))
    assert not same_graph(one, two)


class Places(tf.Module):
    """The places of words in a vocabulary."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        initializer = tf.lookup.KeyValueTensorInitializer(words, range(len(words)), tf.string, tf.int64)
        self.table = tf.lookup.StaticVocabularyTable(initializer, 1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return self.table.lookup(x)


def test_tables_of_the_same_words_are_the_same_whatever_number_they_were_given(tmp_path: Path) -> None:
    made = {name: Places(*words) for name, words in (("one", "ab"), ("two", "ab"), ("other", "ac"))}
    one, two, other = (saved(tmp_path / name, module) for name, module in made.items())
    assert same_graph(one, two)
    assert not same_graph(one, other)


def test_evaluations_may_differ_by_the_tolerance_in_every_metric_of_every_slice_and_in_nothing_else(
    tmp_path: Path,
) -> None:
    own = SliceMetrics("hour = 5", {"auc": 0.75}, 10, None)
    ours = Evaluation("eval", 100, 0, {"auc": 0.5}, None, (own,), (), True, (), None)
    others = {
        "same": (ours, True),
        "near": (replace(ours, metrics={"auc": 0.5 + 0.9 * compare.TOLERANCE}), True),
        "far": (replace(ours, metrics={"auc": 0.5 + 2.1 * compare.TOLERANCE}), False),
        "far in a slice": (replace(ours, slices=(replace(own, metrics={"auc": 0.75 + 3 * compare.TOLERANCE}),)), False),
        "without the slice": (replace(ours, slices=()), False),
        "with another slice": (replace(ours, slices=(own, replace(own, name="hour = 6"))), False),
        "not blessed": (replace(ours, blessed=False), False),
        "other examples": (replace(ours, example_count=99), False),
    }
    for name, (evaluation, _) in {"ours": (ours, True), **others}.items():
        (tmp_path / name).mkdir()
        write_evaluation(tmp_path / name, evaluation)
    found = {
        name: compare.folders("Evaluator", "evaluation", "ModelEvaluation", tmp_path / "ours", tmp_path / name).same
        for name in others
    }
    assert found == {name: same for name, (_, same) in others.items()}
