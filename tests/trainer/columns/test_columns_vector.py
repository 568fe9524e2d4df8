"""Vectors: lists of numbers of a fixed length, scaled by position, against NumPy."""

from __future__ import annotations

import math
import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import TrainingError
from headrace.components.transform.example_errors import short_message
from headrace.configs.schema.features import Feature, NumericFeature, VectorFeature
from headrace.trainer import columns
from headrace.trainer.columns import Batch, ModelInputs
from headrace.trainer.columns.analysis import ColumnAnalyzers
from headrace.trainer.columns.base import Analyzer, ignore_input_names_warning
from headrace.trainer.columns.raw import MISSING_INTEGER
from headrace.trainer.columns.vector import VectorColumn

SIZE = 3
NUMBERS = st.floats(-1e6, 1e6, width=32) | st.just(math.nan)
ROWS = st.lists(st.just([]) | st.lists(NUMBERS, min_size=SIZE, max_size=SIZE), min_size=1, max_size=20)


def ragged(rows: list[list[Any]], dtype: Any = tf.float32) -> tf.SparseTensor:
    return tf.ragged.constant(rows, dtype, ragged_rank=1).to_sparse()


def transformed(tensor: Any, learned: list[tf.SparseTensor], **given: Any) -> np.ndarray:
    """The feature of a tensor, with moments from batches that are analyzed apart and merged."""
    built = columns.build({"v": VectorFeature(column="vector", **{"size": SIZE, **given})})
    analyzers = ColumnAnalyzers(built)
    parts = []
    for part in learned:
        batch = Batch({"v": part}, built)
        matrix = built["v"].analyzed_numbers(batch, "").numpy() if analyzers else None
        parts.append(analyzers.add(analyzers.create(), matrix, []))
    merged = analyzers.decode(analyzers.encode(analyzers.merge(parts)))
    values = analyzers._combine.extract_output(merged.statistics) if analyzers else np.zeros(0)
    results: dict[Analyzer, tf.Tensor] = {statistic: tf.constant(values) for statistic in analyzers.statistics}
    return np.asarray(built["v"].transform(Batch({"v": tensor}, built, results=results)))


@settings(max_examples=40, deadline=None)
@given(
    rows=ROWS,
    more=ROWS,
    normalize=st.sampled_from(["z_score", "min_max", "log", "none"]),
    missing=st.sampled_from(["mean", 0.0, -2.5]),
)
def test_each_position_is_scaled_by_its_own_numbers(
    rows: list[list[float]], more: list[list[float]], normalize: str, missing: str | float
) -> None:
    found = transformed(ragged(rows), [ragged(rows), ragged(more)], normalize=normalize, missing=missing)
    assert found.dtype == np.float32
    assert found.shape == (len(rows), SIZE)
    every = np.array([row or [math.nan] * SIZE for row in [*rows, *more]], np.float64)
    for place in range(SIZE):
        known = every[~np.isnan(every[:, place]), place]
        mean = known.mean() if len(known) else 0.0
        x = np.where(np.isnan(every[:, place]), mean if missing == "mean" else missing, every[:, place])[: len(rows)]
        spread = np.ptp(known) if len(known) else 0.0
        if normalize == "z_score":
            x = (x - mean) / known.std() if spread else np.zeros_like(x)
        elif normalize == "min_max":
            x = (x - known.min()) / spread if spread else np.zeros_like(x)
        elif normalize == "log":
            x = np.sign(x) * np.log1p(np.abs(x))
        np.testing.assert_allclose(found[:, place], x, rtol=1e-4, atol=1e-4)


def test_written_graph_scales_vectors_as_numpy_does(transformed: Any) -> None:
    """Rows that were analyzed, and rows that were not there to learn from."""
    for key, name in (("vector", "vector"), ("counts", "counts")):
        rows = [[math.nan] * 3 if not row[key] else row[key] for row in transformed.raw]
        values = np.array([[math.nan if one == int(MISSING_INTEGER) else one for one in row] for row in rows], float)
        train = values[: len(transformed.rows)]
        mean, deviation = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
        scaled = np.divide(
            values - mean, deviation, where=np.nanmin(train, 0) < np.nanmax(train, 0), out=np.zeros_like(values)
        )
        np.testing.assert_allclose(transformed.all(name), np.nan_to_num(scaled), rtol=2e-3, atol=2e-3, err_msg=name)
    plain = [[0.0] * 3 if not row["vector"] else np.nan_to_num(row["vector"]) for row in transformed.raw]
    np.testing.assert_array_equal(transformed.all("vector_plain"), np.array(plain, np.float32))
    assert transformed.output.transformed_feature_spec()["vector"] == tf.io.FixedLenFeature([3], tf.float32)
    np.testing.assert_array_equal(transformed.all("texts")[2 + len(transformed.rows)], [0, 0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[0.1, -2, 3e2]", [0.1, -2.0, 300.0]),
        (" (1,,NaN) ", [1.0, 9.0, 9.0]),
        ("", [9.0, 9.0, 9.0]),
        ("[ ]", [9.0, 9.0, 9.0]),
    ],
)
def test_a_text_is_split_into_numbers(text: str, expected: list[float]) -> None:
    found = transformed_text(text, ",")
    np.testing.assert_allclose(found, [expected], rtol=1e-6)
    if "," in text and ",," not in text:
        np.testing.assert_allclose(transformed_text(text.replace(",", " "), " "), [expected], rtol=1e-6)


def transformed_text(text: str, separator: str) -> np.ndarray:
    return transformed(tf.constant([text]), [], normalize="none", missing=9.0, separator=separator)


@pytest.mark.parametrize(
    ("tensor", "given", "match"),
    [
        (
            ragged([[1.0] * 3, [1.0] * 4, [1.0] * 5]),
            {},
            "features.v: column 'v' has a list of length 4, and `size` is 3",
        ),
        (ragged([[1, 2]], tf.int64), {}, "column 'v' has a list of length 2"),
        (tf.constant(["1;2"]), {"separator": ";"}, "features.v: .* length 2"),
        (tf.constant(["1;2;x 5"]), {"separator": ";"}, "column 'v' .* not a number: x 5"),
    ],
)
def test_a_list_of_another_length_or_of_no_numbers_is_an_error(tensor: Any, given: dict[str, Any], match: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=match) as caught:
        transformed(tensor, [], normalize="none", missing=0.0, **given)
    assert re.fullmatch(r"features\.v: [^\n]*", short_message(caught.value))


def test_a_text_without_a_separator_is_an_error() -> None:
    column = VectorColumn("v", VectorFeature(column="vector", size=2))
    with pytest.raises(TrainingError, match=r"'v' holds text.*separator"):
        column.analyzed_numbers(Batch({"v": tf.constant(["1;2"])}, {"v": column}), "")


def test_a_model_takes_vectors_beside_numbers() -> None:
    features: dict[str, Feature] = {
        "v": VectorFeature(column="vector", size=2),
        "n": NumericFeature(column="numeric"),
    }
    inputs = ModelInputs(columns.build(features), lambda _: 0)
    assert inputs.inputs["v"].shape == (None, 2)
    with ignore_input_names_warning():
        model = keras.Model(inputs.inputs, inputs.deep())
    given = {"v": np.array([[1, 2], [3, 4]], np.float32), "n": np.array([5, 6], np.float32)}
    np.testing.assert_array_equal(model(given), [[1, 2, 5], [3, 4, 6]])
