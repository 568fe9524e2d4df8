"""Our accumulators of columns against TFDV's generator: the same protos, however the rows are divided."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow_data_validation as tfdv
from column_batches import batches
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tensorflow_data_validation.statistics.generators.basic_stats_generator import BasicStatsGenerator
from tensorflow_data_validation.utils import quantiles_util
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatistics, Histogram

from headrace.components.examples.decode import lists
from headrace.components.file_groups import FileGroup
from headrace.components.statistics import categories, combine, protos
from headrace.components.statistics.columns import EPSILON, ColumnStatistics
from headrace.components.statistics.histograms import Quantiles, Range, equal_width_histogram, quantiles_histogram

Parts = Sequence[Sequence[pa.RecordBatch]]
QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # TFDV's, on infinite numbers


def ours(parts: Parts) -> DatasetFeatureStatistics:
    total = ColumnStatistics()
    for part in parts:
        own = ColumnStatistics()
        for batch in part:
            own.add(batch)
        own.compact()
        total.merge(own)
    total.compact()
    return protos.dataset_statistics(total)


def of_tfdv(parts: Parts) -> DatasetFeatureStatistics:
    generator = BasicStatsGenerator()
    accumulators = [generator.create_accumulator()]
    for part in parts:
        own = generator.create_accumulator()
        for batch in part:
            own = generator.add_input(own, batch)
        accumulators.append(generator.compact(own))
    return generator.extract_output(generator.compact(generator.merge_accumulators(accumulators)))


def floats(*values: float) -> pa.RecordBatch:
    return pa.record_batch({"float": pa.array([[value] for value in values], pa.large_list(pa.float32()))})


NO_FLOATS = pa.record_batch({"float": pa.nulls(1)})


@QUIET
@given(st.lists(st.lists(batches(), max_size=3), min_size=1, max_size=3))
@example([[floats(0), floats(float("inf"))]])
@example([[floats(0), floats(float("inf"))], [NO_FLOATS]])
@example([[NO_FLOATS], [floats(0), floats(float("inf"))]])
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_statistics_are_those_of_tfdv(parts: Parts) -> None:
    assert str(ours(parts)) == str(of_tfdv(parts))  # as text, so that NaN equals NaN


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_wide_batches_have_the_statistics_of_tfdv(missing: float) -> None:
    """Columns that are counted as one matrix, and beyond what a sketch holds exactly."""
    random = np.random.default_rng(4)

    def batch(rows: int) -> pa.RecordBatch:
        columns = {}
        for number in range(40):
            spread = random.normal(number, 3, rows).astype(np.float32)
            values = spread if number % 3 else random.integers(-number, number + 1, rows)
            absent = random.random(rows) < missing
            columns[f"c{number}"] = pa.array([None if gap else [one] for gap, one in zip(absent, values, strict=True)])
        return pa.record_batch(columns)

    parts = [[batch(700), batch(900)], [batch(1)], [batch(400)]]
    assert ours(parts) == of_tfdv(parts)


NUMBERS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=60)
FEW_NUMBERS = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 3.0, float("inf"), -float("inf")]), min_size=1)


@QUIET
@given(NUMBERS | FEW_NUMBERS, st.sampled_from([np.float32, np.float64]), st.integers(1, 30))
@settings(deadline=None, max_examples=500)
def test_histograms_are_those_of_tfdv(numbers: list[float], dtype: type[np.floating], times: int) -> None:
    values = np.sort(np.array(numbers, dtype))
    cumulative = np.arange(1.0, len(values) + 1) * times
    finite = values[np.isfinite(values)] if np.isfinite(values).any() else np.array([np.inf, -np.inf], dtype)
    low, high, infinite = finite[0], finite[-1], times * int(np.isposinf(values).sum())
    quantiles = Quantiles(values.astype(np.float64), cumulative)
    expected = quantiles_util.generate_quantiles_histogram(quantiles.values, cumulative)
    assert quantiles_histogram(quantiles) == expected
    width = quantiles_util.generate_equi_width_histogram(quantiles.values, cumulative, low, high, 10, infinite)
    assert equal_width_histogram(quantiles, Range(low, high, infinite), 10) == width
    assert width.type == Histogram.STANDARD


def test_settings_are_the_defaults_of_tfdv() -> None:
    options = tfdv.StatsOptions()
    assert options.epsilon == EPSILON
    assert {
        options.num_values_histogram_buckets,
        options.num_histogram_buckets,
        options.num_quantiles_histogram_buckets,
    } == {protos.BUCKETS}
    assert options.num_top_values == categories.TOP_VALUES
    assert options.num_rank_histogram_buckets == categories.RANK_BUCKETS


def test_a_column_of_two_types_is_refused_by_name() -> None:
    statistics = ColumnStatistics()
    statistics.add(pa.record_batch({"a": pa.array([[1]]), "b": pa.array([[1]])}))
    with pytest.raises(TypeError, match=r"feature b .*INT and STRING"):
        statistics.add(pa.record_batch({"b": pa.array([[b"x"]])}))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_batches_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    random, rows = np.random.default_rng(0), 20_000
    values = [pa.array(random.random(rows), pa.float32()) for _ in range(12)]
    values += [pa.array(random.integers(0, 50, rows).astype(str)).cast(pa.large_binary()) for _ in range(3)]
    columns = [lists(own, np.ones(rows, np.bool_)) for own in values]
    batch = pa.RecordBatch.from_arrays(columns, [f"column {number}" for number in range(15)])
    monkeypatch.setattr(combine, "batches", lambda _: (batch for _ in range(100)))
    before = anonymous_mb()
    group = FileGroup("train", 0, ("rows",))
    _, (_, accumulator) = combine._accumulated(group, combine.StatisticsCombiner())
    assert accumulator.columns.num_examples == 100 * rows
    assert anonymous_mb() - before < 75  # 112 without returning what is free


def test_large_pieces_stay_out_of_the_heap_after_one_is_freed() -> None:
    """Glibc would take the 8 MB from its heap, as a piece of 30 MB has been freed before."""
    program = (
        "import ctypes, numpy; from headrace.common.heap import limit_free_heap; limit_free_heap();"
        " freed = numpy.empty(30 << 20, 'u1'); del freed; held = numpy.empty(8 << 20, 'u1');"
        " fields = {'_fields_': [(str(number), ctypes.c_size_t) for number in range(10)]};"
        " mallinfo = ctypes.CDLL(None).mallinfo2; mallinfo.restype = type('Info', (ctypes.Structure,), fields);"
        " print(getattr(mallinfo(), '4'))"  # hblkhd
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", cwd="/")
    assert int(done.stdout) >= 8 << 20


def anonymous_mb() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1e3
