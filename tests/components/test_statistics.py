"""Our StatisticsGen against TFX's own, on the taxi data and on data made to be awkward.

TFX's own is not the same twice where it is approximate: quantile sketches (error 1% of the rows) are merged in an order
that Beam picks, and so are means and variances (rounding). Those are compared with tolerances, and the quantiles with
the ranks of the values themselves; all the rest must be equal.
"""

import copy
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import beam_here
import numpy as np
import pytest
import tensorflow as tf
from plain_shards import unpacked
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.statistics_pb2 import (
    DatasetFeatureStatistics,
    DatasetFeatureStatisticsList,
    FeatureNameStatistics,
    Histogram,
)
from tfx.components.example_validator import executor as example_validator
from tfx.components.schema_gen import executor as schema_gen
from tfx.components.statistics_gen import executor as stock
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import io_utils

from headrace.common.errors import DataError
from headrace.components.example_gen.component import Executor as ExampleGenExecutor
from headrace.components.spans.find import find_spans
from headrace.components.statistics import component
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource

TAXI = "pkg://tfx/examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv"
EPSILON = 0.01
"""The error of TFDV's quantiles, in parts of the rows."""
Ints = tf.train.Int64List
Rows = list[dict[str, Any]]
"""Name to values, None for a feature of no kind, or an Int64List, which tells its kind even when it is empty."""


def run(
    executor: Any, examples: standard_artifacts.Examples, folder: Path, beam_args: tuple[str, ...] = (), **inputs: Any
) -> standard_artifacts.ExampleStatistics:
    statistics = standard_artifacts.ExampleStatistics()
    statistics.uri = str(folder)
    statistics.set_string_custom_property("tfx_version", "1.21.0")
    context = executor.Context(make_beam_pipeline_fn=lambda: beam_here.pipeline(*beam_args))
    exec_properties = {"exclude_splits": "[]", **inputs.pop("exec_properties", {})}
    executor(context).Do({"examples": [examples], **inputs}, {"statistics": [statistics]}, exec_properties)
    return statistics


def feature(values: Any) -> tf.train.Feature:
    if values is None:
        return tf.train.Feature()
    if isinstance(values, Ints):
        return tf.train.Feature(int64_list=values)
    if all(isinstance(value, bytes) for value in values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if any(isinstance(value, float) for value in values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=Ints(value=values))


def serialized(row: dict[str, Any]) -> bytes:
    features = tf.train.Features(feature={name: feature(values) for name, values in row.items()})
    return tf.train.Example(features=features).SerializeToString(deterministic=True)


def write(folder: Path, splits: dict[str, list[Rows]]) -> standard_artifacts.Examples:
    """An artifact with a shard for each list of rows."""
    for split, shards in splits.items():
        (folder / f"Split-{split}").mkdir(parents=True)
        for number, rows in enumerate(shards):
            path = folder / f"Split-{split}" / f"data_tfrecord-{number:05d}-of-{len(shards):05d}.gz"
            with tf.io.TFRecordWriter(str(path), "GZIP") as file:
                for row in rows:
                    file.write(serialized(row))
    examples = standard_artifacts.Examples()
    examples.uri, examples.span = str(folder), 7
    examples.split_names = artifact_utils.encode_split_names(list(splits))
    return examples


def awkward(rng: np.random.Generator, rows: int) -> Rows:
    """One value or none everywhere, as ExampleGen writes it."""

    def some(values: list[Any]) -> list[Any] | None:
        place = int(rng.integers(0, len(values) + 1))
        return None if place == len(values) else [values[place]]

    return [
        {
            "constant": [5],
            "empty": [b""],
            "finite": [float(np.float32(rng.normal(3, 2)))],
            "huge": some([2**63 - 1, -(2**63), 2**53 + 1, 0]),
            "late": None if number < rows - 3 else [b"at last"],
            "nothing": None,
            "not_utf8": some([b"\xff\xfe", b"fine", "Zürich".encode()]),
            "only_nan": [float("nan")],
            "strange": some([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-40]),
            "unicode \N{SNOWMAN}": some([f"東京 {number}".encode() for number in range(40)] + [b""]),
            "unique": [f"{rng.integers(0, 2**40):x}".encode()],
        }
        for number in range(rows)
    ]


def irregular(rng: np.random.Generator, rows: int) -> Rows:
    """Lists of any length, and features that rows lack altogether."""
    every: Rows = [
        {
            "words": [b"a", b"b", b"a"][: rng.integers(0, 4)],
            "numbers": Ints(value=rng.integers(-3, 3, rng.integers(0, 5))),
            "weights": [float(number) for number in rng.integers(0, 9, 2)],
            "one": [1],
        }
        for _ in range(rows)
    ]
    return [{name: values for name, values in row.items() if rng.integers(0, 4)} for row in every]


@pytest.fixture(scope="module")
def taxi(tmp_path_factory: pytest.TempPathFactory) -> standard_artifacts.Examples:
    folder = tmp_path_factory.mktemp("taxi")
    data = DataConfig(source=CsvSource(kind="csv", path=TAXI), splits={"train": 8, "eval": 1, "test": 1})
    spans, examples = standard_artifacts.String(), standard_artifacts.Examples()
    spans.uri, examples.uri = str(folder / "spans"), str(folder / "examples")
    spans.write(find_spans(data).to_json())
    context = ExampleGenExecutor.Context(make_beam_pipeline_fn=beam_here.pipeline)
    properties = {"data": data.model_dump_json(by_alias=True)}
    ExampleGenExecutor(context).Do({"spans": [spans]}, {"examples": [examples]}, properties)
    return examples


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> standard_artifacts.Examples:
    rng = np.random.default_rng(5)
    splits: dict[str, list[Rows]] = {
        "train": [awkward(rng, 2500), [], awkward(rng, 30)],
        "eval": [awkward(rng, 1)],
        "irregular": [irregular(rng, 400), irregular(rng, 30)],
        "test": [[]],
    }
    return write(tmp_path_factory.mktemp("made") / "examples", splits)


@pytest.fixture(scope="module")
def computed() -> dict[tuple[str, str], standard_artifacts.ExampleStatistics]:
    """Statistics by the way in which they were computed and the URI of the examples.

    pytest sets up a fixture with parameters again whenever it goes from one combination to another.
    """
    return {}


@pytest.fixture(scope="module", params=["taxi", "made"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, computed: dict[Any, Any]
) -> tuple[standard_artifacts.Examples, standard_artifacts.ExampleStatistics]:
    """Examples, and TFX's own statistics of them."""
    examples = request.getfixturevalue(request.param)
    if (key := ("stock", examples.uri)) not in computed:
        computed[key] = run(stock.Executor, examples, tmp_path_factory.mktemp("stock"))
    return examples, computed[key]


@pytest.fixture(scope="module", params=["in process", "Beam", "Beam with threads"])
def compute(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, computed: dict[Any, Any]
) -> Callable[..., Any]:
    """Our executor, in each of its ways; it runs once for the same examples."""
    threads = ("--direct_running_mode=multi_threading", "--direct_num_workers=2")
    args = threads if request.param == "Beam with threads" else ()

    def compute(examples: standard_artifacts.Examples) -> standard_artifacts.ExampleStatistics:
        if (key := (request.param, examples.uri)) not in computed:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(component, "workers_here", lambda _: 2 if request.param == "in process" else 0)
                computed[key] = run(component.Executor, examples, tmp_path_factory.mktemp("ours"), args)
        return computed[key]

    return compute


def read(statistics: standard_artifacts.ExampleStatistics) -> dict[str, DatasetFeatureStatistics]:
    datasets = {}
    for split in artifact_utils.decode_split_names(statistics.split_names):
        path = Path(statistics.uri) / f"Split-{split}" / "FeatureStats.pb"
        (datasets[split],) = DatasetFeatureStatisticsList.FromString(path.read_bytes()).datasets
    return datasets


def name_of(statistics: FeatureNameStatistics) -> str:
    (name,) = statistics.path.step
    return name


def pairs(
    ours: standard_artifacts.ExampleStatistics, theirs: standard_artifacts.ExampleStatistics
) -> Iterator[tuple[FeatureNameStatistics, FeatureNameStatistics]]:
    left, right = read(ours), read(theirs)
    assert list(left) == list(right)
    for split in left:
        assert left[split].num_examples == right[split].num_examples
        assert sorted(map(name_of, left[split].features)) == sorted(map(name_of, right[split].features))
        features = {name_of(feature): feature for feature in right[split].features}
        for feature in left[split].features:
            yield feature, features[name_of(feature)]


def assert_same_histogram(left: Histogram, right: Histogram, values: int) -> None:
    """The standard one: the same bars, as high but for the errors of two sketches."""
    assert (left.num_nan, left.num_undefined, len(left.buckets)) == (
        right.num_nan, right.num_undefined, len(right.buckets),
    )  # fmt: skip
    for bar, other in zip(left.buckets, right.buckets, strict=True):
        assert (bar.low_value, bar.high_value) == (other.low_value, other.high_value)
        assert bar.sample_count == pytest.approx(other.sample_count, abs=2 * EPSILON * values + 1e-6)


def assert_same_numbers(left: FeatureNameStatistics, right: FeatureNameStatistics) -> None:
    """What is approximate agrees; it is then cleared in both."""
    mine, other = left.num_stats, right.num_stats
    for field in ("mean", "std_dev"):
        assert getattr(mine, field) == pytest.approx(getattr(other, field), rel=1e-9, abs=1e-12, nan_ok=True)
    assert [each.type for each in mine.histograms] == [each.type for each in other.histograms]
    for histogram, counterpart in zip(mine.histograms, other.histograms, strict=True):
        if histogram.type == Histogram.STANDARD:
            assert_same_histogram(histogram, counterpart, mine.common_stats.tot_num_values)
        assert histogram.num_nan == counterpart.num_nan
    for numbers in (mine, other):
        for field in ("mean", "std_dev", "median", "histograms"):
            numbers.ClearField(field)


def test_statistics_are_those_of_the_stock_executor(both: tuple[Any, Any], compute: Callable[..., Any]) -> None:
    examples, theirs = both
    for left, right in pairs(compute(examples), theirs):
        if left.HasField("num_stats"):
            assert_same_numbers(left, right)
        assert left == right


def test_artifact_has_the_properties_of_the_stock_one(both: tuple[Any, Any], compute: Callable[..., Any]) -> None:
    examples, theirs = both
    ours = compute(examples)
    assert ours.span == examples.span
    left, right = copy.deepcopy(ours.mlmd_artifact), theirs.mlmd_artifact
    left.uri = right.uri
    assert left == right


@functools.cache
def values_of(uri: str, split: str) -> dict[str, np.ndarray]:
    """The numbers of each column of these examples that has some, without NaN, in order."""
    values: dict[str, list[float]] = {}
    for path in sorted(Path(uri, f"Split-{split}").iterdir()):
        for record in tf.data.TFRecordDataset(str(path), "GZIP").as_numpy_iterator():
            for name, found in tf.train.Example.FromString(record).features.feature.items():
                if found.WhichOneof("kind") in ("float_list", "int64_list"):
                    values.setdefault(name, []).extend(getattr(found, found.WhichOneof("kind")).value)
    columns = {name: np.array(column, np.float64) for name, column in values.items()}
    return {name: np.sort(column[~np.isnan(column)]) for name, column in columns.items()}


def assert_rank(quantile: float, share: float, values: np.ndarray) -> None:
    """`share` of the values lie below `quantile`, but for the error of the sketch and one value."""
    error = EPSILON * len(values) + 1
    assert np.searchsorted(values, quantile, "left") - error <= share * len(values)
    assert np.searchsorted(values, quantile, "right") + error >= share * len(values)


def test_quantiles_are_as_exact_as_the_sketch_promises(both: tuple[Any, Any], compute: Callable[..., Any]) -> None:
    examples, _ = both
    checked = 0
    for split, dataset in read(compute(examples)).items():
        values = values_of(examples.uri, split)
        for feature in dataset.features:
            (quantiles,) = [h for h in feature.num_stats.histograms if h.type == Histogram.QUANTILES] or [None]
            if quantiles is None or not len(values[name_of(feature)]):
                continue
            for number, bucket in enumerate(quantiles.buckets):
                assert_rank(bucket.high_value, (number + 1) / len(quantiles.buckets), values[name_of(feature)])
            assert_rank(feature.num_stats.median, 0.5, values[name_of(feature)])
            checked += 1
    assert checked > 8


def test_schema_and_anomalies_are_the_same_as_from_stock_statistics(
    both: tuple[Any, Any], compute: Callable[..., Any], tmp_path: Path
) -> None:
    examples, theirs = both
    results = []
    for number, statistics in enumerate((compute(examples), theirs)):
        schema, anomalies = standard_artifacts.Schema(), standard_artifacts.ExampleAnomalies()
        schema.uri, anomalies.uri = str(tmp_path / f"schema{number}"), str(tmp_path / f"anomalies{number}")
        properties = {"infer_feature_shape": 0, "exclude_splits": '["eval", "irregular", "test"]'}
        schema_gen.Executor().Do({"statistics": [statistics]}, {"schema": [schema]}, properties)
        inputs, outputs = {"statistics": [statistics], "schema": [schema]}, {"anomalies": [anomalies]}
        example_validator.Executor().Do(inputs, outputs, {"exclude_splits": "[]"})
        found = {
            path.parent.name: Anomalies.FromString(path.read_bytes()) for path in Path(anomalies.uri).rglob("*.pb")
        }
        assert set(found) == {f"Split-{split}" for split in artifact_utils.decode_split_names(statistics.split_names)}
        results.append(((Path(schema.uri) / "schema.pbtxt").read_text(), found))
    assert results[0] == results[1]


@pytest.mark.parametrize("executor", [component.Executor, stock.Executor])
def test_examples_without_compression_give_the_same(both: tuple[Any, Any], executor: Any, tmp_path: Path) -> None:
    examples, theirs = both
    plain = run(executor, unpacked(examples, tmp_path / "examples"), tmp_path / "plain")
    packed = theirs if executor is stock.Executor else run(executor, examples, tmp_path / "packed")
    for left, right in pairs(plain, packed):
        if left.HasField("num_stats"):
            assert_same_numbers(left, right)
        assert left == right


def test_a_wrong_checksum_without_compression_is_an_error(tmp_path: Path) -> None:
    examples = write(tmp_path / "packed", {"train": [[{"one": [number]} for number in range(1000)]]})
    plain = unpacked(examples, tmp_path / "examples")
    (shard,) = (tmp_path / "examples" / "Split-train").iterdir()
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    shard.write_bytes(damaged)
    with pytest.raises(DataError, match="checksum is wrong"):
        run(component.Executor, plain, tmp_path / "statistics")


def test_a_split_without_files_has_statistics_of_no_examples(compute: Callable[..., Any], tmp_path: Path) -> None:
    statistics = compute(write(tmp_path / "examples", {"train": [[{"one": [1]}]], "eval": []}))
    assert read(statistics)["eval"] == DatasetFeatureStatistics()
    assert read(statistics)["train"].num_examples == 1


def test_excluded_splits_have_none(tmp_path: Path) -> None:
    examples = write(tmp_path / "examples", {"train": [[{"one": [1]}]], "eval": [[{"one": [1]}]]})
    excluded = {"exclude_splits": '["eval"]'}
    statistics = run(component.Executor, examples, tmp_path / "statistics", exec_properties=excluded)
    assert list(read(statistics)) == ["train"]


def test_a_schema_takes_the_stock_way(tmp_path: Path) -> None:
    """Only TFDV knows all that a schema changes: here a number that is a category."""
    schema_proto = schema_pb2.Schema()
    feature_schema = schema_proto.feature.add(name="one", type=schema_pb2.INT)
    feature_schema.int_domain.is_categorical = True
    schema = standard_artifacts.Schema()
    schema.uri = str(tmp_path / "schema")
    io_utils.write_pbtxt_file(str(tmp_path / "schema" / "schema.pbtxt"), schema_proto)
    examples = write(tmp_path / "examples", {"train": [[{"one": [1]}, {"one": [2]}]]})
    statistics = run(component.Executor, examples, tmp_path / "statistics", schema=[schema])
    assert read(statistics)["train"].features[0].string_stats.unique == 2


@pytest.mark.parametrize(
    ("damage", "what"), [("cut", "ended before the end"), ("bit", "damaged: .*Error|check failed")]
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: str, what: str) -> None:
    examples = write(tmp_path / "examples", {"train": [[{"one": [number]} for number in range(1000)]]})
    (shard,) = (tmp_path / "examples" / "Split-train").iterdir()
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 4
    shard.write_bytes(shard.read_bytes()[:-20] if damage == "cut" else bytes(content))
    with pytest.raises(DataError, match=what) as error:
        run(component.Executor, examples, tmp_path / "statistics")
    assert error.value.file == str(shard)
    assert "--fresh" in error.value.hint
