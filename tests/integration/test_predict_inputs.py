"""What `headrace predict` reads: each kind of source gives the columns and predictions of the same rows.

The expected predictions are those of the pushed SavedModel, loaded by TensorFlow, for tf.Examples that are made here.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from command import headrace
from forks import ALL
from kfp_cluster import BUCKET, Bucket
from parcel_arrivals import PROBABILITIES, SCHEMA, Pushed, check, example, parcels, pushed_once, scalar, signature_rows

from headrace import predict as api_predict

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory, new_folder: Callable[[str], Path]) -> Pushed:
    return pushed_once(tmp_path_factory, new_folder("predict_inputs"))


@pytest.fixture(scope="module")
def expected(pushed: Pushed) -> np.ndarray:
    return signature_rows(pushed.version, pushed.rows)


def _of_many_types(rows: int) -> dict[str, pa.Array]:
    """Columns that no feature reads, of types that examples do not have; `far` is beyond Python's dates."""
    price = Decimal("12345678901.1234567890123456789")
    at = dt.datetime(2024, 2, 28, 23, 30, 0, 125_000, dt.UTC)
    values = {
        "day": (dt.date(2024, 2, 29), pa.date32()),
        "at": (at, pa.timestamp("ms", "Europe/Berlin")),
        "noon": (dt.time(12, 0, 1), pa.time64("us")),
        "lasted": (dt.timedelta(seconds=90.5), pa.duration("ns")),
        "price": (price, pa.decimal128(38, 19)),
        "real": (0.5, pa.float32()),
        "days": ([dt.date(2024, 2, 29), None], pa.list_(pa.date32())),
    }
    columns = {name: pa.array([value, None] * (rows // 2), arrow) for name, (value, arrow) in values.items()}
    return {**columns, "far": pa.array([2**24, -(2**24)] * (rows // 2), pa.int32()).cast(pa.date32())}


def test_parquet_with_all_columns_in_front_of_the_predictions(pushed: Pushed, expected: np.ndarray) -> None:
    found = pushed.table("--input", "new.parquet")
    check(found, expected)
    assert found.column_names[:6] == SCHEMA.names
    assert found.select(SCHEMA.names).to_pylist() == pushed.rows
    assert len({round(value, 4) for value in expected[:, 0].tolist()}) > 10  # the model has learned something


def test_what_no_column_of_the_output_could_hold_is_left_out_and_said(pushed: Pushed, expected: np.ndarray) -> None:
    maps, rows = pa.map_(pa.string(), pa.int64()), pa.Table.from_pylist(pushed.rows, SCHEMA)
    table = rows.append_column("extra", pa.array([[("k", row)] for row in range(len(rows))], maps))
    pq.write_table(table.append_column("at", pa.array([{"gate": 7}] * len(rows))), pushed.folder / "more.parquet")
    done = headrace(pushed.folder, "predict", "parcels.yaml", "--input", "more.parquet", "-o", "more.out.parquet")
    assert (done.code, "left out: column 'extra' " in done.err) == (0, True), done.err
    found = pq.read_table(pushed.folder / "more.out.parquet")
    check(found, expected)
    assert found.column_names[:7] == [*SCHEMA.names, "at.gate"]
    assert found["at.gate"].to_pylist() == [7] * len(rows)
    asked = ("--input", "more.parquet", "-o", "more.out.parquet", "--columns", "id,extra")
    refused = headrace(pushed.folder, "predict", "parcels.yaml", *asked)
    assert (refused.code, "column 'extra': is of type map" in refused.err) == (1, True)


def test_booleans_are_still_true_and_false(pushed: Pushed, expected: np.ndarray) -> None:
    flags = [[True, False, None][number % 3] for number in range(len(pushed.rows))]
    table = pa.Table.from_pylist(pushed.rows, SCHEMA).append_column("member", pa.array(flags, pa.bool_()))
    (pushed.folder / "flags").mkdir()
    for name, rows, own in (("a", table[:200], pa.bool_()), ("b", table[200:], pa.int64())):
        counted = rows["member"].cast(own)
        pq.write_table(rows.append_column("paid", counted), pushed.folder / "flags" / f"{name}.parquet")
    found = pushed.table("--input", "flags", "--columns", "id,member,paid")
    check(found, expected)
    assert found["member"].type == pa.bool_()
    assert found["member"].to_pylist() == flags
    assert found["paid"].to_pylist() == [None if flag is None else int(flag) for flag in flags]
    for source in (table, table.to_pandas()):
        again = api_predict(str(pushed.version), source, columns=["member"])
        assert isinstance(again, pa.Table)
        check(again, expected)
        assert again["member"].to_pylist() == flags


def test_columns_keep_the_arrow_types_that_the_input_has(pushed: Pushed) -> None:
    number = len(pushed.rows)
    rows = [
        {**row, "distance": row["distance"] and round(row["distance"], 2), "tags": row["tags"] or None}
        for row in pushed.rows
    ]
    distances = [None if row["distance"] is None else Decimal(str(row["distance"])) for row in rows]
    table = pa.table(
        {
            "id": pa.array(range(number), pa.uint64()),
            "distance": pa.array(distances, pa.decimal128(12, 2)),
            "stops": pa.array([row["stops"] for row in rows], pa.int16()),
            "code": pa.array([row["code"] for row in rows]),
            "tags": pa.array([row["tags"] for row in rows], pa.list_(pa.string())),
            **_of_many_types(number),
        }
    )
    pq.write_table(table, pushed.folder / "typed.parquet")
    found = pushed.table("--input", "typed.parquet")
    check(found, signature_rows(pushed.version, rows))
    assert found.select(table.column_names).equals(table)
    for source in (table, pushed.folder / "typed.parquet"):
        again = api_predict(str(pushed.version), source, columns=["far", "price", "distance"])
        assert isinstance(again, pa.Table)
        check(again, signature_rows(pushed.version, rows))
        assert again.select(["far", "price", "distance"]).equals(table.select(["far", "price", "distance"]))


def test_formats_without_types_have_dates_as_texts_and_decimals_as_numbers(pushed: Pushed) -> None:
    table = pa.Table.from_pylist(pushed.rows[:2], SCHEMA)
    for name, column in _of_many_types(2).items():
        table = table.append_column(name, column)
    pq.write_table(table, pushed.folder / "two.parquet")
    asked = ("--input", "two.parquet", "--output", "two.jsonl", "--columns", "day,at,noon,price,lasted,real")
    assert pushed.predict(*asked).code == 0
    first = json.loads((pushed.folder / "two.jsonl").read_text().splitlines()[0])
    assert {name: first[name] for name in ("day", "at", "noon", "lasted", "real")} == {
        "day": "2024-02-29",
        "at": "2024-02-28 23:30:00.125Z",
        "noon": "12:00:01.000000",
        "lasted": 90.5,
        "real": 0.5,
    }
    assert first["price"] == pytest.approx(12345678901.123456789)


def test_json_lines_in_which_codes_are_numbers_and_keys_are_absent(pushed: Pushed, expected: np.ndarray) -> None:
    lines = []
    for row in pushed.rows:
        shown = {name: value for name, value in row.items() if value is not None}
        lines.append(json.dumps(shown, ensure_ascii=False))
    (pushed.folder / "new.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = pushed.table("--input", "new.jsonl", "--columns", "id,note")
    check(found, expected)
    assert found.select(["id", "note"]).to_pylist() == [{"id": row["id"], "note": row["note"]} for row in pushed.rows]


def test_csv_keeps_the_types_of_the_training_data(pushed: Pushed) -> None:
    rows = [{**row, "code": "12", "stops": None} for row in scalar(pushed.rows)]
    with (pushed.folder / "new.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*SCHEMA.names, "arrival", "new"])
        writer.writeheader()
        writer.writerows({**row, "arrival": "", "new": 7} for row in rows)
    found = pushed.table("--input", "new.csv", "--columns", "new,stops,code,id")
    check(found, signature_rows(pushed.version, rows))
    assert found.column_names[:4] == ["new", "stops", "code", "id"]
    types = [found.schema.field(name).type for name in ("new", "stops", "code", "id")]
    assert types == [pa.int64(), pa.int64(), pa.string(), pa.int64()]
    assert set(found["code"].to_pylist()) == {"12"}
    assert found["stops"].null_count == len(rows)


def test_sql_from_a_profile_of_the_config(pushed: Pushed) -> None:
    rows = scalar(pushed.rows)
    with sqlite3.connect(pushed.folder / "new.db") as database:
        database.execute(
            "create table parcel (id integer, note text, distance real, stops integer, code text, tags text)"
        )
        database.executemany("insert into parcel values (:id, :note, :distance, :stops, :code, :tags)", rows)
    source = {
        "kind": "sql",
        "url": f"sqlite:///{pushed.folder}/new.db",
        "query": "select * from parcel order by id",
    }
    (pushed.folder / "parcels.sql.yaml").write_text(json.dumps({"data": {"source": source}}))
    found = pushed.table("--profile", "sql")
    check(found, signature_rows(pushed.version, rows))
    assert found["id"].to_pylist() == [row["id"] for row in rows]


def test_tfrecords_and_the_folder_of_a_version_in_place_of_a_config(pushed: Pushed, expected: np.ndarray) -> None:
    with tf.io.TFRecordWriter(str(pushed.folder / "new.tfrecord")) as writer:
        for row in pushed.rows:
            writer.write(example(row))
    done = pushed.predict("--input", "new.tfrecord", "-o", "by_model.parquet", config=str(pushed.version))
    assert done.code == 0, done.err
    check(pq.read_table(pushed.folder / "by_model.parquet"), expected)


def test_long_records_of_a_gzip_file_are_predicted_2048_at_a_time(pushed: Pushed) -> None:
    chance, examples = np.random.default_rng(3), [example(row) for row in parcels(4500, seed=3)]
    with tf.io.TFRecordWriter(str(pushed.folder / "long.tfrecord.gz"), "GZIP") as writer:
        for one in examples:
            long = tf.train.Example.FromString(one)
            long.features.feature["padding"].bytes_list.value.append(chance.bytes(3000).hex().encode())
            writer.write(long.SerializeToString())
    found = pushed.table("--input", "long.tfrecord.gz", "--columns=")
    signature = tf.saved_model.load(str(pushed.version)).signatures["serving_default"]
    calls = [tf.constant(examples[start : start + 2048]) for start in range(0, len(examples), 2048)]
    expected = np.concatenate([signature(examples=call)["predictions"].numpy() for call in calls])
    np.testing.assert_array_equal(np.column_stack([found[name].to_numpy() for name in PROBABILITIES]), expected)


def test_an_object_store_is_read(pushed: Pushed, expected: np.ndarray, bucket: Bucket) -> None:
    bucket.client.upload_file(str(pushed.folder / "new.parquet"), BUCKET, "days/new.parquet")
    given = ("--input", f"s3://{BUCKET}/days/*.parquet", "--output", "from_s3.parquet")
    done = headrace(pushed.folder, "predict", "parcels.yaml", *given, **bucket.at.environment)
    assert done.code == 0, done.err
    check(pq.read_table(pushed.folder / "from_s3.parquet"), expected)


def test_the_data_of_the_config_through_beam(pushed: Pushed) -> None:
    here, beam = (pushed.table("--columns", "id", *more) for more in ((), ("--set", "beam.runner=direct")))
    assert here.num_rows == 600
    assert beam.equals(here)


@pytest.fixture(scope="module")
def long(pushed: Pushed) -> str:
    """A file of new rows that is read in several parts: 40 times the rows, and 2 kB in each that no one reads."""
    with (pushed.folder / "long.jsonl").open("w", encoding="utf-8") as file:
        for times in range(40):
            for number, row in enumerate(pushed.rows):
                file.write(
                    json.dumps({**row, "place": times * len(pushed.rows) + number, "padding": "x" * 2000}) + "\n"
                )
    return "long.jsonl"


@pytest.mark.parametrize(
    "runner",
    [
        "{runner: direct, workers: 2}",
        "{runner: direct, workers: 2, direct_running_mode: multi_processing}",
        "{runner: portable, options: {job_endpoint: embed, environment_type: LOOPBACK}}",
    ],
    ids=["threads", "processes", "job server"],
)
def test_new_data_in_several_parts_through_beam_keeps_its_order(
    pushed: Pushed, expected: np.ndarray, long: str, runner: str
) -> None:
    given = ("--input", long, "--columns", "place,distance", "--set", f"beam={runner}")
    found = pushed.table(*given, **{ALL: "1"})  # Beam's processes start with their imports done
    assert found["place"].to_pylist() == list(range(40 * len(pushed.rows)))
    assert found["distance"].to_pylist() == [row["distance"] for row in pushed.rows] * 40
    check(found, np.tile(expected, (40, 1)))
    assert (pushed.folder / long).stat().st_size > 16 << 20
