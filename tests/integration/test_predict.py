"""`headrace predict` with the model that a run pushed, compared with its signature.

The expected predictions are those of the pushed SavedModel, loaded by TensorFlow, for tf.Examples that are made here.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import forks
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from command import Finished, headrace, started_at_once, wait_until
from installed import without_pythonpath
from kfp_cluster import BUCKET, Bucket
from parcel_arrivals import (
    CLASSES,
    PROBABILITIES,
    SCHEMA,
    Pushed,
    check,
    example,
    parcels,
    push_parcels,
    scalar,
    signature_rows,
    write_parcels,
)

from headrace import predict as api_predict

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pushed(new_folder: Callable[[str], Path]) -> Pushed:
    folder = new_folder("predict")
    refused = headrace(write_parcels(folder), "predict", "parcels.yaml", "--output", "early.csv")
    assert refused.code == 1
    assert "headrace run" in refused.err
    assert "Traceback" not in refused.err
    return push_parcels(folder)


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


class TestInputs:
    """Each kind of source gives the columns and predictions of the same rows."""

    def test_parquet_with_all_columns_in_front_of_the_predictions(self, pushed: Pushed, expected: np.ndarray) -> None:
        found = pushed.table("--input", "new.parquet")
        check(found, expected)
        assert found.column_names[:6] == SCHEMA.names
        assert found.select(SCHEMA.names).to_pylist() == pushed.rows
        assert len({round(value, 4) for value in expected[:, 0].tolist()}) > 10  # the model has learned something

    def test_what_no_column_of_the_output_could_hold_is_left_out_and_said(
        self, pushed: Pushed, expected: np.ndarray
    ) -> None:
        maps, rows = pa.map_(pa.string(), pa.int64()), pa.Table.from_pylist(pushed.rows, SCHEMA)
        table = rows.append_column("extra", pa.array([[("k", row)] for row in range(len(rows))], maps))
        pq.write_table(table.append_column("at", pa.array([{"gate": 7}] * len(rows))), pushed.folder / "more.parquet")
        done = headrace(pushed.folder, "predict", "parcels.yaml", "--input", "more.parquet", "-o", "more.out.parquet")
        assert (done.code, "left out: column 'extra' is of type map" in done.err) == (0, True), done.err
        found = pq.read_table(pushed.folder / "more.out.parquet")
        check(found, expected)
        assert found.column_names[:7] == [*SCHEMA.names, "at.gate"]
        assert found["at.gate"].to_pylist() == [7] * len(rows)
        asked = ("--input", "more.parquet", "-o", "more.out.parquet", "--columns", "id,extra")
        refused = headrace(pushed.folder, "predict", "parcels.yaml", *asked)
        assert (refused.code, "column 'extra': is of type map" in refused.err) == (1, True)

    def test_booleans_are_still_true_and_false(self, pushed: Pushed, expected: np.ndarray) -> None:
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

    def test_columns_keep_the_arrow_types_that_the_input_has(self, pushed: Pushed) -> None:
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

    def test_formats_without_types_have_dates_as_texts_and_decimals_as_numbers(self, pushed: Pushed) -> None:
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

    def test_json_lines_in_which_codes_are_numbers_and_keys_are_absent(
        self, pushed: Pushed, expected: np.ndarray
    ) -> None:
        lines = []
        for row in pushed.rows:
            shown = {name: value for name, value in row.items() if value is not None}
            lines.append(json.dumps(shown, ensure_ascii=False))
        (pushed.folder / "new.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = pushed.table("--input", "new.jsonl", "--columns", "id,note")
        check(found, expected)
        assert found.select(["id", "note"]).to_pylist() == [
            {"id": row["id"], "note": row["note"]} for row in pushed.rows
        ]

    def test_csv_keeps_the_types_of_the_training_data(self, pushed: Pushed) -> None:
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

    def test_sql_from_a_profile_of_the_config(self, pushed: Pushed) -> None:
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

    def test_tfrecords_and_the_folder_of_a_version_in_place_of_a_config(
        self, pushed: Pushed, expected: np.ndarray
    ) -> None:
        with tf.io.TFRecordWriter(str(pushed.folder / "new.tfrecord")) as writer:
            for row in pushed.rows:
                writer.write(example(row))
        done = pushed.predict("--input", "new.tfrecord", "-o", "by_model.parquet", config=str(pushed.version))
        assert done.code == 0, done.err
        check(pq.read_table(pushed.folder / "by_model.parquet"), expected)

    def test_long_records_of_a_gzip_file_are_predicted_2048_at_a_time(self, pushed: Pushed) -> None:
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

    def test_an_object_store(self, pushed: Pushed, expected: np.ndarray, bucket: Bucket) -> None:
        bucket.client.upload_file(str(pushed.folder / "new.parquet"), BUCKET, "days/new.parquet")
        given = ("--input", f"s3://{BUCKET}/days/*.parquet", "--output", "from_s3.parquet")
        done = headrace(pushed.folder, "predict", "parcels.yaml", *given, **bucket.at.environment)
        assert done.code == 0, done.err
        check(pq.read_table(pushed.folder / "from_s3.parquet"), expected)

    def test_the_data_of_the_config_through_beam(self, pushed: Pushed) -> None:
        here, beam = (pushed.table("--columns", "id", *more) for more in ((), ("--set", "beam.runner=direct")))
        assert here.num_rows == 600
        assert beam.equals(here)


class TestOutputs:
    """All formats hold the same rows."""

    def test_csv(self, pushed: Pushed, expected: np.ndarray) -> None:
        arguments = ("--input", "new.parquet", "--columns", "id,note,distance")
        assert pushed.predict(*arguments, "-o", "out.csv").code == 0
        assert pushed.predict(*arguments, "-o", "out.csv.gz").code == 0
        text = (pushed.folder / "out.csv").read_bytes()
        assert gzip.decompress((pushed.folder / "out.csv.gz").read_bytes()) == text
        rows = list(csv.DictReader(text.decode().splitlines(keepends=True)))
        assert list(rows[0]) == ["id", "note", "distance", "prediction", *PROBABILITIES]
        assert [int(row["id"]) for row in rows] == [row["id"] for row in pushed.rows]
        assert [row["note"] for row in rows] == [row["note"] or "" for row in pushed.rows]
        assert [float(row["distance"]) if row["distance"] else None for row in rows] == [
            row["distance"] for row in pushed.rows
        ]
        values = np.array([[float(row[name]) for name in PROBABILITIES] for row in rows])
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)

    def test_json_lines(self, pushed: Pushed, expected: np.ndarray) -> None:
        assert pushed.predict("--input", "new.parquet", "-o", "out.jsonl.gz").code == 0
        lines = gzip.decompress((pushed.folder / "out.jsonl.gz").read_bytes()).decode().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [{name: row[name] for name in SCHEMA.names} for row in rows] == pushed.rows
        values = np.array([[row[name] for name in PROBABILITIES] for row in rows])
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)
        assert {row["prediction"] for row in rows} <= set(CLASSES)

    def test_tfrecords(self, pushed: Pushed, expected: np.ndarray) -> None:
        assert pushed.predict("--input", "new.parquet", "-o", "out.tfrecord.gz", "--prefix", "new_").code == 0
        records = tf.data.TFRecordDataset(str(pushed.folder / "out.tfrecord.gz"), "GZIP")
        features = [tf.train.Example.FromString(record.numpy()).features.feature for record in records]
        assert [one["id"].int64_list.value[0] for one in features] == [row["id"] for row in pushed.rows]
        tags = [[tag.decode() for tag in one["tags"].bytes_list.value] for one in features]
        assert tags == [row["tags"] or [] for row in pushed.rows]
        values = [[one[f"new_{name}"].float_list.value[0] for name in PROBABILITIES] for one in features]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)


NEW = "predict={source: {kind: parquet, path: new.parquet}, output: scored/new.parquet}"


class TestRun:
    """`predict:` in the config: a run predicts new data at its end. Nothing else in these runs is new."""

    @staticmethod
    def run(pushed: Pushed, *settings: str) -> Finished:
        return headrace(pushed.folder, "run", "parcels.yaml", *(word for one in settings for word in ("--set", one)))

    @staticmethod
    def told(done: Finished) -> str:
        """What the summary says of the predictions."""
        (line,) = (line for line in done.out.splitlines() if line.startswith("predicted"))
        return line.removeprefix("predicted").strip()

    def test_the_version_in_service_predicts_once_and_again_when_something_changed(
        self, pushed: Pushed, expected: np.ndarray
    ) -> None:
        scored, by = pushed.folder / "scored" / "new.parquet", f"by version {pushed.version.name}"
        done = self.run(pushed, NEW)
        assert (done.code, self.told(done)) == (0, f"scored/new.parquet: 300 rows {by}"), done.out
        check(pq.read_table(scored), expected)
        assert pq.read_table(scored).select(SCHEMA.names).to_pylist() == pushed.rows

        written = scored.stat()
        again = self.run(pushed, NEW)
        assert self.told(again) == f"scored/new.parquet (unchanged): 300 rows {by}"
        assert (scored.stat().st_mtime_ns, scored.stat().st_ino) == (written.st_mtime_ns, written.st_ino)
        assert "BulkPredictor" not in ran(again)

        scored.write_bytes(b"damaged")
        restored = self.run(pushed, NEW)
        assert self.told(restored) == f"scored/new.parquet: 300 rows {by}"
        assert "BulkPredictor" not in ran(restored)
        check(pq.read_table(scored), expected)

        refused = self.run(pushed, NEW, "evaluate.thresholds.accuracy.min=1.0")
        assert "not blessed" in refused.out
        assert self.told(refused) == f"scored/new.parquet (unchanged): 300 rows {by}"

        fewer = self.run(pushed, NEW, "predict.columns=[]", "predict.prefix=new_", "beam.runner=direct")
        assert "BulkPredictor" in ran(fewer)
        names = [f"new_{name}" for name in ("prediction", *PROBABILITIES)]
        assert pq.read_table(scored).column_names == names
        check(pq.read_table(scored).rename_columns(["prediction", *PROBABILITIES]), expected)
        assert [path.name for path in scored.parent.iterdir()] == ["new.parquet"]

    def test_a_pipeline_that_only_predicts_does_so_with_the_version_in_service(
        self, pushed: Pushed, expected: np.ndarray
    ) -> None:
        done = self.run(pushed, NEW, "predict.only=true", "predict.output=only.parquet", "predict.batch_size=7")
        assert self.told(done) == f"only.parquet: 300 rows by version {pushed.version.name}", done.out
        assert ran(done) == {"ModelInService", "PredictSpans", "BulkPredictor", "PublishPredictions"}
        assert not [line for line in done.out.splitlines() if line.startswith(("blessing", "pushed"))]
        check(pq.read_table(pushed.folder / "only.parquet"), expected)
        newest = max((pushed.folder / "runs" / "parcels" / "runs").glob("*/run.json"))
        assert json.loads(newest.read_text())["pipeline"] == "parcels-predict"

    def test_the_newest_day_is_predicted_into_a_file_of_its_own(self, pushed: Pushed, expected: np.ndarray) -> None:
        today, tomorrow = (dt.datetime.now(dt.UTC).date() + dt.timedelta(days) for days in (0, 1))
        (pushed.folder / "arrived").mkdir()
        for day in (dt.date(2020, 2, 29), today, tomorrow):
            (pushed.folder / "arrived" / f"{day}.parquet").symlink_to(pushed.folder / "new.parquet")
        days = "predict={source: {kind: parquet, path: 'arrived/{YYYY}-{MM}-{DD}.parquet'}, output: 'days/%s.jsonl'%s}"
        done = self.run(pushed, days % ("{YYYY}-{MM}-{DD}", ", columns: [id]"))
        assert self.told(done) == f"days/{today}.jsonl: 300 rows of {today} by version {pushed.version.name}"
        rows = [json.loads(line) for line in (pushed.folder / "days" / f"{today}.jsonl").read_text().splitlines()]
        assert [row["id"] for row in rows] == [row["id"] for row in pushed.rows]
        values = np.array([[row[name] for name in PROBABILITIES] for row in rows])
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)

    def test_records_that_cannot_be_read_are_counted_where_they_are_skipped(self, pushed: Pushed) -> None:
        bad = "id,note,distance,stops,code,tags\n1,a,1,1,x,\n2,b,1\n3,c,1,1,x,\n"
        (pushed.folder / "unread.csv").write_text(bad)
        source = "predict={source: {kind: csv, path: unread.csv}, output: scored/unread.csv, columns: [id]}"
        refused = self.run(pushed, source)
        assert refused.code == 1
        assert "unread.csv:3" in refused.out + refused.err
        assert "Traceback" not in refused.out + refused.err
        assert not (pushed.folder / "scored" / "unread.csv").exists()
        skipping = ("predict.on_bad_record=skip", "predict.max_bad_fraction=0.5")
        done = self.run(pushed, source, *skipping)
        by = f"by version {pushed.version.name}"
        assert self.told(done) == f"scored/unread.csv: 2 rows {by}, 1 unreadable ones left out"
        text = (pushed.folder / "scored" / "unread.csv").read_text()
        assert [line.partition(",")[0] for line in text.splitlines()] == ['"id"', "1", "3"]
        (report,) = (line.split()[1] for line in done.out.splitlines() if line.startswith("report"))
        page = (pushed.folder / report).read_text(encoding="utf-8")
        assert f"2 rows {by}" in page


def ran(done: Finished) -> set[str]:
    """The components that a run did not take from the cache."""
    return {line.split()[1] for line in done.out.splitlines() if line.split()[2:3] == ["done"]}


def refusal(done: Finished) -> str:
    assert done.code == 1
    assert "Traceback" not in done.err
    return done.err


class TestErrors:
    """A refusal names the place and the way out, and leaves no output."""

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--input", "less.parquet"), ["'stops'", "does not have"]),
            (("--input", "new.parquet", "--model", "17"), ["no version 17", "parcels"]),
            (("--input", "new.parquet", "--model", "nothing"), ["saved_model.pb"]),
            (("--input", "new.parquet", "--columns", "id,nte"), ["'nte'", "note"]),
            (("--input", "gone.parquet"), ["gone.parquet"]),
            (
                ("--input", "new.xls", "--set", "data.source={kind: sql, url: 'sqlite:///new.db', table: parcel}"),
                [".xls", ".csv"],
            ),
            (("--input", "taken.parquet"), ["'prediction'", "--prefix"]),
            (("--input", "bad.csv"), ["bad.csv:4", "'x'"]),
            (("--input", "tabs.csv"), ["'distance'", "single column", "data.source.delimiter='\"\\t\"'"]),
            (("--input", "bad.jsonl"), ["bad.jsonl:2"]),
            (("--input", "lists.parquet"), ["record 3", "'distance'"]),
        ],
    )
    def test_what_cannot_be_predicted(self, pushed: Pushed, arguments: tuple[str, ...], words: list[str]) -> None:
        table, folder = pq.read_table(pushed.folder / "new.parquet"), pushed.folder
        pq.write_table(table.drop_columns(["stops"]), folder / "less.parquet")
        pq.write_table(table.append_column("prediction", table["id"]), folder / "taken.parquet")
        lists = pa.array([[1.0], None, [1.0, 2.0], *[[3.0]] * 297], pa.list_(pa.float64()))
        pq.write_table(table.set_column(2, "distance", lists), folder / "lists.parquet")
        (folder / "bad.csv").write_text("id,note,distance,stops,code,tags\n1,a,1,1,x,\n2,b,,2,y,\n3,c,x,3,z,\n")
        (folder / "bad.jsonl").write_text('{"id": 1, "distance": 1, "stops": 1, "code": "x", "tags": ["a"]}\n{"id": \n')
        (folder / "tabs.csv").write_text("id\tnote\tdistance\tstops\tcode\ttags\n1\ta\t1\t1\tx\t\n")
        error = refusal(pushed.predict(*arguments, "--output", "refused.jsonl"))
        assert all(word in error for word in words), error
        assert not list(folder.glob("*refused*"))
        assert not list(folder.glob(".refused*"))

    def test_a_bad_record_is_skipped_counted_and_named(self, pushed: Pushed) -> None:
        rows = "id,note,distance,stops,code,tags\n1,a,1,1,x,\n2,b,1\n3,c,1,1,x,\n"
        (pushed.folder / "short.csv").write_text(rows)
        settings = ("--set", "data.on_bad_record=skip", "--set", "data.max_bad_fraction=0.5")
        done = pushed.predict("--input", "short.csv", "-o", "short.parquet", *settings)
        assert done.code == 0, done.err
        assert "short.csv:3" in done.err
        assert pq.read_table(pushed.folder / "short.parquet")["id"].to_pylist() == [1, 3]
        assert "data.max_bad_fraction" in refusal(
            pushed.predict("--input", "short.csv", "-o", "refused.csv", *settings[:2])
        )

    def test_lists_do_not_go_into_csv(self, pushed: Pushed) -> None:
        error = refusal(pushed.predict("--input", "new.parquet", "-o", "refused.csv"))
        assert "'tags'" in error
        assert "--columns" in error

    @pytest.mark.parametrize(
        ("output", "words"),
        [
            ("out.xls", ".parquet"),
            ("trained.parquet/new/out.csv", "trained.parquet is not a folder"),
            (".", "folder"),
            ("trained.parquet", "is one of the files"),
        ],
    )
    def test_what_cannot_be_written(self, pushed: Pushed, output: str, words: str) -> None:
        before = (pushed.folder / "trained.parquet").read_bytes()
        assert words in refusal(pushed.predict("--output", output))
        assert (pushed.folder / "trained.parquet").read_bytes() == before

    def test_the_folder_of_the_output_is_created(self, pushed: Pushed, expected: np.ndarray) -> None:
        done = pushed.predict("--input", "new.parquet", "-o", "scored/today/out.parquet")
        assert done.code == 0, done.err
        check(pq.read_table(pushed.folder / "scored" / "today" / "out.parquet"), expected)

    def test_a_damaged_version_is_not_used_and_another_folder_is(self, pushed: Pushed, expected: np.ndarray) -> None:
        copy = pushed.folder / "copied"
        shutil.copytree(pushed.version, copy / "Format-Serving")
        weights = next(pushed.version.glob("variables/*.data*"))
        content = weights.read_bytes()
        try:
            weights.write_bytes(bytes([content[0] ^ 1]) + content[1:])
            assert "damaged" in refusal(pushed.predict("--input", "new.parquet", "-o", "refused.parquet"))
        finally:
            weights.write_bytes(content)
        check(pushed.table("--input", "new.parquet", "--model", "copied"), expected)
        (copy / "Format-Serving" / "assets.extra" / "description.json").unlink()
        assert "description.json" in refusal(pushed.predict("--model", "copied", "-o", "refused.parquet"))

    def test_a_killed_command_leaves_the_old_output_and_the_next_removes_what_it_began(self, pushed: Pushed) -> None:
        many = pa.concat_tables([pq.read_table(pushed.folder / "new.parquet")] * 2000)
        pq.write_table(many, pushed.folder / "many.parquet")
        target = pushed.folder / "kept.jsonl"
        target.write_text("old")
        arguments = ("--input", "many.parquet", "--columns", "id,note", "--output", "kept.jsonl")
        going = started_at_once(pushed.folder, "predict", "parcels.yaml", *arguments)
        assert wait_until(lambda: any(each.stat().st_size for each in pushed.folder.glob(".kept.jsonl.*.partial")))
        going.signal(signal.SIGKILL)
        going.finish()
        assert target.read_text() == "old"
        assert list(pushed.folder.glob(".kept.jsonl*"))
        assert pushed.predict(*arguments, "--input", "new.parquet").code == 0
        assert not list(pushed.folder.glob(".kept.jsonl*"))
        assert len(target.read_text(encoding="utf-8").splitlines()) == 300


PROGRAM = """
import json
import headrace
import pandas as pd
import pyarrow.parquet as pq

frame = pq.read_table("new.parquet").to_pandas()
*_, run = headrace.runs("parcels.yaml")  # the first one, which made the model
table = run.model().predict(frame, columns=["id"])
written = headrace.predict("parcels.yaml", "new.parquet", "from_python.parquet", columns=["id"])
small = headrace.predict(str(run.pushed), {"distance": [1.0], "stops": [2], "code": ["x"], "tags": [["heavy"]]})
try:
    headrace.predict("parcels.yaml", frame.drop(columns=["code"]))
except headrace.DataError as error:
    refused = str(error)
signature = sorted(run.model().signatures)
print(json.dumps([table.to_pylist(), str(written), small.column_names, refused, signature]))
"""


def test_python_predicts_data_frames(pushed: Pushed, expected: np.ndarray) -> None:
    (pushed.folder / "program.py").write_text(PROGRAM)
    done = forks.run([sys.executable, "program.py"], cwd=pushed.folder, env=without_pythonpath())
    assert done.returncode == 0, done.stderr
    rows, written, small, refused, signatures = json.loads(done.stdout)
    check(pa.Table.from_pylist(rows, schema_of(pq.read_schema(pushed.folder / written))), expected)
    assert [row["id"] for row in rows] == [row["id"] for row in pushed.rows]
    check(pq.read_table(pushed.folder / written), expected)
    assert small == ["distance", "stops", "code", "tags", "prediction", *PROBABILITIES]
    assert "'code'" in refused
    assert "serving_raw" in signatures


def schema_of(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata()
