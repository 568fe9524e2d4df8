"""The comparison of features that Transform wrote with those that a model computes, on made-up answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_transform.tf_metadata import metadata_io
from tfx.types.standard_artifacts import Examples, TransformGraph

from headrace.components.canary.examination import Replaying, examine
from headrace.components.canary.replay import Pairs, read_pairs, replay
from headrace.trainer.input.transformed_columns import ColumnsWriter, columns_schema, file_name

SPEC = {
    "number": tf.io.FixedLenFeature([], tf.float32),
    "vector": tf.io.FixedLenFeature([2], tf.float32),
    "ids": tf.io.VarLenFeature(tf.int64),
    "word": tf.io.FixedLenFeature([], tf.string),
}
Row = tuple[float, list[int], bytes]
rows = st.lists(
    st.tuples(st.floats(-1e6, 1e6, width=32), st.lists(st.integers(0, 9), max_size=4), st.binary(max_size=3)),
    min_size=1,
    max_size=6,
)


def written(row: Row) -> bytes:
    number, ids, word = row
    example = tf.train.Example()
    feature = example.features.feature
    feature["number"].float_list.value.append(number)
    feature["vector"].float_list.value.extend([number, 1.0])
    feature["ids"].int64_list.value.extend(ids)
    feature["word"].bytes_list.value.append(word)
    return bytes(example.SerializeToString())


def pairs(given_rows: list[Row]) -> Pairs:
    return Pairs([b"raw"] * len(given_rows), [*map(written, given_rows)], SPEC)


def served(given_rows: list[Row]) -> dict[str, Any]:
    """What an export that computes the same returns: lists padded with -1."""
    width = max(len(ids) for _, ids, _ in given_rows)
    numbers = np.array([number for number, _, _ in given_rows], np.float32)
    words = np.empty(len(given_rows), object)
    words[:] = [word for _, _, word in given_rows]
    return {
        "number": numbers,
        "vector": np.stack([numbers, np.ones_like(numbers)], axis=1),
        "ids": np.array([ids + [-1] * (width - len(ids)) for _, ids, _ in given_rows], np.int64).reshape(
            len(given_rows), width
        ),
        "word": words,
    }


@given(rows)
def test_same_features_in_any_layout_do_not_differ(given_rows: list[Row]) -> None:
    verdict = replay(pairs(given_rows), lambda _: served(given_rows))
    assert (verdict.examples, verdict.features, verdict.differing) == (len(given_rows), 4, ())


@given(rows, st.data())
def test_one_changed_value_is_found_in_its_row_and_in_no_other(given_rows: list[Row], data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(given_rows) - 1))
    name = data.draw(st.sampled_from(["number", "vector", "word", "ids"]))
    answer = served(given_rows)
    if name == "word":
        answer[name][row] += b"!"
    elif name == "ids":  # one more value than Transform wrote, which is not padding
        more = np.full([len(given_rows), 1], -1)
        more[row] = 7
        answer[name] = np.concatenate([answer[name], more], axis=1)
    else:
        answer[name][row] = 1.5e7
    (one,) = replay(pairs(given_rows), lambda _: answer).differing
    assert (one.name, one.rows, one.random) == (name, 1, False)
    assert [shown.row for shown in one.shown] == [row + 1]


def test_numbers_may_differ_by_rounding_and_an_outlier_does_not_hide_the_others() -> None:
    given_rows: list[Row] = [(value, [], b"") for value in (1.0, 2.0, 3.0, 1e12)]
    answer = served(given_rows)
    answer["number"][:3] *= 1.00005
    assert replay(pairs(given_rows), lambda _: answer).differing == ()
    answer["number"][1] = 2.1
    (one,) = replay(pairs(given_rows), lambda _: answer).differing
    assert [(shown.row, shown.transformed, shown.served) for shown in one.shown] == [(2, "2", "2.1")]


def test_missing_numbers_are_equal_and_a_zero_is_not_missing() -> None:
    given_rows: list[Row] = [(float("nan"), [], b""), (1.0, [], b"")]
    answer = served(given_rows)
    assert replay(pairs(given_rows), lambda _: answer).differing == ()
    answer["number"][0] = 0.0
    assert [one.name for one in replay(pairs(given_rows), lambda _: answer).differing] == ["number"]


def test_a_type_or_a_number_of_rows_of_its_own_differs_everywhere() -> None:
    given_rows: list[Row] = [(1.0, [], b"1"), (2.0, [], b"2")]
    answer = served(given_rows)
    answer["word"], answer["number"] = np.array([1, 2]), np.ones(3, np.float32)
    assert {one.name: one.rows for one in replay(pairs(given_rows), lambda _: answer).differing} == {
        "number": 2, "word": 2,
    }  # fmt: skip


def test_the_label_is_compared_and_counts_as_a_feature_only_where_it_differs() -> None:
    given_rows: list[Row] = [(1.0, [], b"1")]
    alike = replay(pairs(given_rows), lambda _: served(given_rows), ["word", "absent"])
    assert (alike.features, alike.words) == (3, "passed: 3 features of 1 examples are as in training")
    other = {**served(given_rows), "word": np.array([b"2"], object)}
    differs = replay(pairs(given_rows), lambda _: other, ["word", "number"])
    assert (differs.features, [one.name for one in differs.differing]) == (3, ["word"])


def test_values_that_change_between_requests_are_random() -> None:
    given_rows: list[Row] = [(1.0, [], b"")]
    calls = iter(range(1, 9))
    verdict = replay(pairs(given_rows), lambda _: {**served(given_rows), "number": np.array([next(calls) * 10.0])})
    assert [(one.name, one.random) for one in verdict.differing] == [("number", True)]


def test_features_of_one_side_are_named_and_without_a_common_one_nothing_is_compared() -> None:
    given_rows: list[Row] = [(1.0, [], b"")]
    verdict = replay(pairs(given_rows), lambda _: {"number": np.ones(1, np.float32), "more": np.ones(1)})
    assert (verdict.only_transformed, verdict.only_served) == (("ids", "vector", "word"), ("more",))
    assert "no feature" in replay(pairs(given_rows), lambda _: {"more": np.ones(1)}).skipped
    assert replay(pairs(given_rows), lambda _: "it refused").skipped == "it refused"


def test_what_cannot_be_compared_is_skipped_with_the_reason(tmp_path: Path) -> None:
    examples, graph = Examples(), object()
    examples.split_names, examples.uri = '["train", "test"]', str(tmp_path)
    other = Examples()
    other.split_names = '["train"]'
    for transformed, split, why in ((None, "test", "no transformed"), (other, "test", "the split test"),
                                    (examples, "test", "order")):  # fmt: skip
        found = read_pairs(examples, transformed, graph, split, 5)
        assert why in found.why_not
        assert replay(found, lambda _: {}).skipped == found.why_not


def test_columns_are_replayed_as_the_records_of_the_same_rows(tmp_path: Path) -> None:
    given_rows: list[Row] = [(number / 4, [7] * (number % 3), b"abc"[: number % 4]) for number in range(40)]
    found = read_pairs(*artifacts_of(tmp_path, [given_rows[:25], given_rows[25:]]), "test", 30)
    assert (found.why_not, len(found.raw), len(found.transformed)) == ("", 30, 30)
    verdict = replay(found, lambda _: served(given_rows[:30]))
    assert (verdict.examples, verdict.features, verdict.differing) == (30, 4, ())
    answer = served(given_rows[:30])
    answer["ids"][28] += 1
    assert [(one.name, one.rows) for one in replay(found, lambda _: answer).differing] == [("ids", 1)]


def test_memory_for_the_first_rows_does_not_grow_with_their_file(tmp_path: Path) -> None:
    peaks = []
    for rows_of_file in (2_000, 40_000):
        artifacts = artifacts_of(tmp_path / str(rows_of_file), [[(0.5, [1, 2], b"abc")] * rows_of_file])
        before = pa.default_memory_pool()
        pool = pa.proxy_memory_pool(before)
        pa.set_memory_pool(pool)
        try:
            assert len(read_pairs(*artifacts, "test", 3).transformed) == 3
        finally:
            pa.set_memory_pool(before)
        peaks.append(pool.max_memory())
    assert peaks[1] < 1.1 * peaks[0]


def artifacts_of(path: Path, files: list[list[Row]]) -> tuple[Examples, Examples, TransformGraph]:
    """Raw examples, transformed ones as columns with these rows in each file, and the graph."""
    raw, transformed, graph = Examples(), Examples(), TransformGraph()
    for artifact, name in ((raw, "raw"), (transformed, "columns"), (graph, "graph")):
        artifact.uri = str(path / name)
    raw.split_names = transformed.split_names = '["test"]'
    transformed.set_string_custom_property("rows", json.dumps({"test": sum(map(len, files))}))
    spec = {**SPEC, "ids": tf.io.RaggedFeature(tf.int64, "ids$ragged_values", row_splits_dtype=tf.int64)}
    metadata = tft.DatasetMetadata.from_feature_spec(spec)
    metadata_io.write_metadata(metadata, f"{graph.uri}/{tft.TFTransformOutput.TRANSFORMED_METADATA_DIR}")
    for number, part in enumerate(files):
        write_columns(path / "columns" / "Split-test" / file_name(number, len(files)), part)
        with tf.io.TFRecordWriter(str(made(path / "raw" / "Split-test" / f"data-{number}.gz")), "GZIP") as file:
            for _ in part:
                file.write(b"raw")
    return raw, transformed, graph


def write_columns(path: Path, given_rows: list[Row]) -> None:
    """A file as Transform writes it, of SPEC."""
    schema = columns_schema(SPEC, {"ids"})
    assert schema is not None
    numbers, ids, words = zip(*given_rows, strict=True)
    vectors = [[number, 1.0] for number in numbers]
    with ColumnsWriter(str(made(path)), schema) as writer:
        writer.add({
            "number": pa.array(numbers, pa.float32()), "vector": pa.array(vectors, pa.list_(pa.float32())),
            "ids": pa.array(ids, pa.list_(pa.int64())), "word": pa.array(words, pa.binary()),
        })  # fmt: skip


def made(path: Path) -> Path:
    """The path, in a folder that exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("signature", ["absent", "named"])
def test_model_without_a_signature_of_serialized_examples_is_not_replayed(tmp_path: Path, signature: str) -> None:
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.float32, name="a")
    named = tf.function(lambda a: {"b": a}, input_signature=[spec]).get_concrete_function()
    tf.saved_model.save(module, str(tmp_path / "model"), {"named": named})
    verdict = examine(tmp_path / "model", [], replaying=Replaying(pairs([(1.0, [], b"")]), signature))
    assert verdict.replay is not None
    assert signature in verdict.replay.skipped
