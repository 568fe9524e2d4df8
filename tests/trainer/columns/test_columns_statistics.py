"""The one-pass statistics against NumPy on the whole data, however it is cut into batches."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from headrace.configs.schema.features import NumericFeature
from headrace.trainer.columns.analyzers.numbers import (
    QUANTILE_ERROR,
    CombineStatistics,
    Moments,
    QuantileBoundaries,
    batch_moments,
    final_moments,
    merge_moments,
)
from headrace.trainer.columns.analyzers.texts import EMPTY, VocabularyAnalyzer, file_names, select_values
from headrace.trainer.columns.base import Analyzer, Batch
from headrace.trainer.columns.numeric import NumericColumn

matrices = npst.arrays(
    np.float64,
    st.tuples(st.integers(0, 40), st.just(3)),
    elements=st.floats(-1e6, 1e6, width=32) | st.just(float("nan")),
)


def expected_moments(values: np.ndarray) -> list[float]:
    present = values[~np.isnan(values)]
    if present.size == 0:
        return [0.0] * 4
    return [present.mean(), present.std(), present.min(), present.max()]


@given(matrices, st.lists(st.integers(0, 40), max_size=4))
def test_moments_of_parts_merge_to_those_of_the_whole(matrix: np.ndarray, cuts: list[int]) -> None:
    merged = batch_moments(np.zeros((0, 3)))
    for part in np.split(matrix, sorted(min(cut, len(matrix)) for cut in cuts)):
        merged = merge_moments(merged, batch_moments(part))
    expected = [expected_moments(column) for column in matrix.T]
    np.testing.assert_allclose(final_moments(merged), expected, rtol=1e-9, atol=1e-6)


def test_deviation_survives_a_mean_a_billion_times_larger() -> None:
    values = 1.4e9 + np.arange(1000.0)[:, np.newaxis] % 7
    merged = batch_moments(values[:0])
    for part in np.array_split(values, 13):
        merged = merge_moments(merged, batch_moments(part))
    np.testing.assert_allclose(final_moments(merged)[0, 1], values.std(), rtol=1e-9)


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32) | st.just(float("nan")), max_size=20), max_size=5))
@settings(max_examples=50)
def test_answers_come_in_the_order_of_the_statistics_after_any_merge(batches: list[list[float]]) -> None:
    statistics = (
        QuantileBoundaries("a", 4),
        Moments("b"),
        QuantileBoundaries("b", 3),
        Moments("a"),
        QuantileBoundaries("a", 2),
    )
    combiner = CombineStatistics(("a", "b"), statistics)
    parts = []
    for batch in batches:
        matrix = np.stack([np.array(batch, np.float64), np.full(len(batch), np.nan)], axis=1)
        parts.append(combiner.add_input(combiner.create_accumulator(), (matrix,)))
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    answer = combiner.extract_output(combiner.compact(combiner.merge_accumulators(parts)))
    present = np.sort([value for batch in batches for value in batch if not np.isnan(value)])

    def quantiles(buckets: int) -> list[float]:
        size = len(present)
        return [present[part * size // buckets] if size else 0.0 for part in range(1, buckets)]

    expected = [*quantiles(4), *[0.0] * 4, *[0.0] * 2, *expected_moments(present), *quantiles(2)]
    np.testing.assert_allclose(answer, expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("buckets", [2, 10, 100])
def test_quantiles_of_much_data_keep_their_rank_within_the_error(buckets: int) -> None:
    values = np.random.default_rng(0).lognormal(size=200_000)
    combiner = CombineStatistics(("a",), (QuantileBoundaries("a", buckets),))
    parts = [
        combiner.add_input(combiner.create_accumulator(), (part[:, np.newaxis],)) for part in np.array_split(values, 40)
    ]
    boundaries = combiner.extract_output(combiner.merge_accumulators(parts))
    ranks = np.searchsorted(np.sort(values), boundaries) / len(values)
    np.testing.assert_allclose(ranks, np.arange(1, buckets) / buckets, atol=QUANTILE_ERROR)


@given(
    st.dictionaries(st.binary(min_size=1, max_size=3), st.integers(1, 9), max_size=12),
    st.none() | st.integers(1, 5),
    st.integers(1, 5),
)
def test_vocabulary_is_ordered_by_falling_count_then_falling_text(
    counts: dict[bytes, int], top_k: int | None, min_frequency: int
) -> None:
    analyzer = VocabularyAnalyzer("f", "f", None, top_k, min_frequency)
    table = pa.table({"values": pa.array(counts, pa.large_binary()), "counts": pa.array(counts.values(), pa.int64())})
    vocabulary = select_values(analyzer, table)
    left = {value: count for value, count in counts.items() if count >= min_frequency}
    if not left:
        assert vocabulary == [EMPTY]
        return
    assert len(vocabulary) == min(len(left), top_k or len(left))
    assert vocabulary == sorted(vocabulary, key=lambda value: (counts[value], value), reverse=True)
    assert all(counts[value] <= counts[vocabulary[-1]] for value in left.keys() - set(vocabulary))


def test_file_of_a_vocabulary_is_named_after_it_but_never_shared() -> None:
    names = ["word", "pick up/area", "pick_up_area", "Word", "größe"]
    assert file_names(names) == ["word", "pick_up_area", "2_pick_up_area", "3_Word", "größe"]


def test_equal_values_become_zero_though_their_sums_are_rounded() -> None:
    """Ten times 0.1 has a mean that is not 0.1, and so a deviation that is not 0."""
    batch = np.full((10, 1), 0.1)
    (moments,) = final_moments(batch_moments(batch))
    moments[:2] = np.nextafter(0.1, 1), 1.4e-17  # as adding one by one gives; NumPy adds in pairs
    column = NumericColumn("fare", NumericFeature(column="numeric", normalize="z_score"))
    results: dict[Analyzer, tf.Tensor] = {Moments("fare"): tf.constant(moments)}
    there = Batch({"fare": tf.constant(batch[:, 0])}, {"fare": column}, results=results)
    assert column.transform(there).numpy().tolist() == [0.0] * 10
