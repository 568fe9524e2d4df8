"""The gate for skew, against TFDV's comparison of training with serving statistics."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from messages import says
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList as Statistics
from tfx.types import standard_artifacts

from headrace.common.errors import BadRecordError, DataError
from headrace.components.gates.serving import Executor, served_statistics
from headrace.components.gates.serving_log import find_log
from headrace.components.gates.skew import judge_skew
from headrace.components.gates.verdict import GateVerdict
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.gates import SkewGate

LOG = {"kind": "jsonl", "path": "log.jsonl"}
COLUMNS = ["fare", "kind", "tip"]
INFINITY, DIVERGENCE = "L-infinity distance", "Jensen-Shannon divergence"


@pytest.fixture(scope="module")
def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Trained on and served: fares are higher, and b is asked more often; requests have no label."""
    random = np.random.default_rng(5)
    trained = pd.DataFrame(
        {"fare": random.gamma(9, size=2000), "kind": ["a"] * 1400 + ["b"] * 600, "tip": [0, 1] * 1000}
    )
    served = pd.DataFrame({"fare": random.gamma(9, size=800) + 3, "kind": ["a"] * 200 + ["b"] * 600})
    return trained, served


@pytest.fixture(scope="module")
def sides(frames: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[Statistics, Statistics]:
    trained, served = map(tfdv.generate_statistics_from_dataframe, frames)
    return trained, served


def gate(**settings: Any) -> SkewGate:
    return SkewGate.model_validate({"source": LOG, **settings})


def judge(sides: Any, one: SkewGate, schema: schema_pb2.Schema | None = None) -> GateVerdict:
    trained, served = sides
    return judge_skew(one, served, trained, schema or tfdv.infer_schema(trained), COLUMNS, ["tip"])


def measured(verdict: GateVerdict) -> dict[tuple[str, str], float]:
    return {(row.what, row.measure): float(row.value) for row in verdict.rows}


def test_distances_are_those_of_tfdvs_skew_comparator(sides: Any, frames: Any) -> None:
    trained, served = sides
    schema = tfdv.infer_schema(trained)
    for column, comparator in (("fare", "jensen_shannon_divergence"), ("kind", "infinity_norm")):
        text_format.Parse(f"{comparator} {{threshold: 0.1}}", tfdv.get_feature(schema, column).skew_comparator)
    anomalies = tfdv.validate_statistics(trained, schema, serving_statistics=served)
    tfdvs = {one.path.step[0]: one.skew_measurements[0].value for one in anomalies.drift_skew_info}
    verdict = judge(sides, gate())
    found = measured(verdict)
    assert found["fare", DIVERGENCE] == pytest.approx(tfdvs["fare"], rel=1e-3)
    assert found["kind", INFINITY] == pytest.approx(tfdvs["kind"], rel=1e-3)
    shares = [frame["kind"].value_counts(normalize=True) for frame in frames]
    assert found["kind", INFINITY] == pytest.approx((shares[0] - shares[1]).abs().max(), rel=1e-3)
    assert (verdict.gate, verdict.failed, verdict.stops) == ("gates.skew", 2, True)
    kind = next(row for row in verdict.rows if row.what == "kind")
    assert (kind.before, kind.now) == ("'b' 30.00%", "'b' 75.00%")


def test_label_may_be_missing_but_is_compared_where_it_is(sides: Any, frames: Any) -> None:
    trained, _ = sides
    assert "tip" not in {row.what for row in judge(sides, gate()).rows}
    labelled = frames[0].assign(tip=[1] * 500 + [None] * 1500)
    found = measured(judge((trained, tfdv.generate_statistics_from_dataframe(labelled)), gate()))
    assert {measure for column, measure in found if column == "tip"} == {DIVERGENCE}
    assert found["tip", DIVERGENCE] > 0.1


def test_skew_comparators_of_the_schema_win_and_drift_comparators_do_not_count(sides: Any) -> None:
    schema = tfdv.infer_schema(sides[0])
    tfdv.get_feature(schema, "kind").skew_comparator.infinity_norm.threshold = 0.9
    tfdv.get_feature(schema, "fare").drift_comparator.jensen_shannon_divergence.threshold = 0.9
    verdict = judge(sides, gate(missing=None), schema)
    assert {row.what: row.limit for row in verdict.rows} == {"kind": "0.9", "fare": "0.1"}


def test_a_column_that_is_missing_and_one_of_another_type_fail(sides: Any, frames: Any) -> None:
    odd = pd.DataFrame({"fare": [f"{fare:.2f} $" for fare in frames[1]["fare"]]})
    verdict = judge((sides[0], tfdv.generate_statistics_from_dataframe(odd)), gate())
    failed = {(row.what, row.measure): (row.value, row.limit) for row in verdict.rows if not row.passed}
    assert failed == {("fare", "type"): ("texts", "numbers"), ("kind", "change of the missing share"): ("1", "0.1")}


@pytest.mark.parametrize("required", [False, True])
def test_no_log_passes_with_a_remark_unless_it_is_required(sides: Any, required: bool) -> None:
    verdict = judge((sides[0], Statistics()), gate(required=required))
    assert (verdict.note, verdict.stops) == ("no request is logged yet", required)
    few = judge(sides, gate(required=required, min_examples=1000))
    assert (few.note, few.stops) == ("800 requests are logged, fewer than min_examples: 1,000", required)
    assert [str(row) for row in few.rows] == ["the log: requests 800, limit at least 1,000"] * required


def data(path: Any, kind: str = "jsonl", **settings: Any) -> DataConfig:
    source = {"kind": kind, "path": tuple(map(str, path)) if isinstance(path, list) else str(path)}
    return gate(source=source, **settings).data(DataConfig.model_validate({"source": {"kind": "csv", "path": "t.csv"}}))


def test_log_that_does_not_exist_yet_has_no_spans_and_empty_files_do_not_count(tmp_path: Path) -> None:
    assert find_log(data(tmp_path / "none/*.jsonl"), "2026-11-04").spans == ()
    assert find_log(data(tmp_path / "{YYYY}-{MM}-{DD}.jsonl"), "2026-11-04").spans == ()
    (tmp_path / "a.jsonl").touch()
    assert find_log(data(tmp_path / "*.jsonl"), "").spans == ()
    (tmp_path / "b.jsonl").write_text('{"fare": 1}\n')
    assert find_log(data([tmp_path / "*.jsonl", tmp_path / "none/*"]), "").paths == [str(tmp_path / "b.jsonl")]
    with pytest.raises(DataError, match="is a directory"):
        find_log(data(tmp_path), "")


@given(
    days=st.sets(st.integers(1, 28), max_size=6),
    today=st.integers(1, 28),
    window=st.integers(1, 5),
    delay=st.integers(0, 3),
)
def test_spans_of_the_log_are_the_newest_up_to_the_date_of_the_run(
    tmp_path_factory: pytest.TempPathFactory, days: set[int], today: int, window: int, delay: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    for day in days:
        (folder / f"2026-11-{day:02}.jsonl").write_text('{"fare": 1}\n')
    found = find_log(data(folder / "{YYYY}-{MM}-{DD}.jsonl", window=window, delay=delay), f"2026-11-{today:02}")
    past = [day for day in days if day <= today - delay]
    expected = [day for day in sorted(past) if day > max(past) - window]
    assert [span.name for span in found.spans] == [f"2026-11-{day:02}" for day in expected]


def statistics_of(folder: Path, log: DataConfig, columns: list[str]) -> Statistics:
    """What ServingStatistics writes."""
    manifest, statistics = standard_artifacts.String(), standard_artifacts.ExampleStatistics()
    manifest.uri, statistics.uri = str(folder / "log"), str(folder / "statistics")
    folder.mkdir()
    manifest.write(find_log(log, "").to_json())
    properties = {"data": log.model_dump_json(by_alias=True), "columns": json.dumps(columns), "code": ""}
    Executor().Do({"log": [manifest]}, {"statistics": [statistics]}, properties)
    assert {path.name for path in (folder / "statistics").iterdir()} == {"Split-serving"}
    return served_statistics(statistics)


def test_requests_as_json_lines_and_as_tf_examples_have_the_statistics_of_tfdv(tmp_path: Path, frames: Any) -> None:
    served = frames[1]
    rows = served.astype({"fare": np.float32}).to_dict("records")
    half = len(rows) // 2
    texts = [
        "".join(f"{json.dumps(row | {'id': n})}\n" for n, row in enumerate(part)) for part in (rows[:half], rows[half:])
    ]
    (tmp_path / "a.jsonl").write_text(texts[0])
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(texts[1].encode()))
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for row in rows:
            fare = tf.train.Feature(float_list=tf.train.FloatList(value=[row["fare"]]))
            kind = tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["kind"].encode()]))
            example = tf.train.Example(features=tf.train.Features(feature={"fare": fare, "kind": kind}))
            writer.write(example.SerializeToString())
    expected = tfdv.generate_statistics_from_dataframe(served.astype({"fare": np.float32})).datasets[0]
    mean, values = ({one.path.step[0]: one for one in expected.features}[name] for name in ("fare", "kind"))
    for kind, pattern in (("jsonl", "*.jsonl*"), ("tfrecord", "*.tfrecord")):
        (found,) = statistics_of(tmp_path / kind, data(tmp_path / pattern, kind), COLUMNS).datasets
        columns = {one.path.step[0]: one for one in found.features}
        assert (found.num_examples, set(columns)) == (800, {"fare", "kind"})  # and not `id`
        assert columns["fare"].num_stats.mean == pytest.approx(mean.num_stats.mean, rel=1e-5)
        counts = [
            {bucket.label: bucket.sample_count for bucket in one.string_stats.rank_histogram.buckets}
            for one in (columns["kind"], values)
        ]
        assert counts[0] == counts[1] == {"a": 200, "b": 600}


def test_a_column_that_only_late_requests_have_is_read(tmp_path: Path) -> None:
    lines = ['{"fare": 1.5}\n'] * 3000 + ['{"fare": 2.5, "kind": "a"}\n'] * 7
    (tmp_path / "log.jsonl").write_text("".join(lines))
    (found,) = statistics_of(tmp_path / "a", data(tmp_path / "log.jsonl"), COLUMNS).datasets
    kind = next(one for one in found.features if one.path.step[0] == "kind")
    assert kind.string_stats.common_stats.num_non_missing == 7
    (found,) = statistics_of(tmp_path / "b", data(tmp_path / "log.jsonl"), ["other"]).datasets
    assert found.num_examples == 3007  # none of its columns is compared


def test_nothing_logged_is_are_statistics_of_no_examples(tmp_path: Path) -> None:
    (found,) = statistics_of(tmp_path / "a", data(tmp_path / "*.jsonl"), COLUMNS).datasets
    assert found.num_examples == 0


def test_types_of_columns_that_requests_lack_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("fare,kind\n1.5,007\n2.5,12\n")
    log = data(tmp_path / "log.csv", "csv").model_copy(update={"types": {"tip": "int", "kind": "string"}})
    (found,) = statistics_of(tmp_path / "a", log, COLUMNS).datasets
    columns = {one.path.step[0]: one for one in found.features}
    counts = {bucket.label: bucket.sample_count for bucket in columns["kind"].string_stats.rank_histogram.buckets}
    assert counts == {"007": 1, "12": 1}
    assert columns["fare"].num_stats.mean == 2.0


@pytest.mark.parametrize(("bad", "place"), [("2.5", "log.csv:3: "), ("1e39,a", "log.csv: column 'fare': 1e+39")])
def test_a_request_that_cannot_be_read_names_the_setting_of_the_gate(tmp_path: Path, bad: str, place: str) -> None:
    (tmp_path / "log.csv").write_text(f"fare,kind\n1.5,a\n{bad}\n")
    with pytest.raises(BadRecordError) as caught:
        statistics_of(tmp_path / "a", data(tmp_path / "log.csv", "csv"), COLUMNS)
    assert says(str(caught.value), f"{tmp_path}/{place}…\n…`gates.skew.on_bad_record: skip`")
    assert "data." not in str(caught.value)


def test_a_log_without_rows_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("fare,kind\n")
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as database:
        database.execute("CREATE TABLE requests (fare REAL, kind TEXT)")
    sql = {"kind": "sql", "url": f"sqlite:///{tmp_path / 'log.db'}", "table": "requests"}
    for name, log in (("csv", data(tmp_path / "*.csv", "csv")), ("sql", DataConfig.model_validate({"source": sql}))):
        (found,) = statistics_of(tmp_path / name, log, COLUMNS).datasets
        assert found.num_examples == 0
    (tmp_path / "b.csv").write_text("fare,kind\n1.5,a\n")
    (found,) = statistics_of(tmp_path / "both", data(tmp_path / "*.csv", "csv"), COLUMNS).datasets
    assert found.num_examples == 1
