"""`predict:` in the config: a run predicts new data at its end, and nothing else in these runs is new. And
the predictions of a run's model in Python.

The expected predictions are those of the pushed SavedModel, loaded by TensorFlow, for tf.Examples that are made here.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import forks
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import Finished, headrace
from installed import without_pythonpath
from parcel_arrivals import PROBABILITIES, SCHEMA, Pushed, check, push_parcels, refusal, signature_rows, write_parcels

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


NEW = "predict={source: {kind: parquet, path: new.parquet}, output: scored/new.parquet}"


def run(pushed: Pushed, *settings: str) -> Finished:
    return headrace(pushed.folder, "run", "parcels.yaml", *(word for one in settings for word in ("--set", one)))


def told(done: Finished) -> str:
    """What the summary says of the predictions."""
    (line,) = (line for line in done.out.splitlines() if line.startswith("predicted"))
    return line.removeprefix("predicted").strip()


def test_the_version_in_service_predicts_once_and_again_when_something_changed(
    pushed: Pushed, expected: np.ndarray
) -> None:
    scored, by = pushed.folder / "scored" / "new.parquet", f"by version {pushed.version.name}"
    done = run(pushed, NEW)
    assert (done.code, told(done)) == (0, f"scored/new.parquet: 300 rows {by}"), done.out
    check(pq.read_table(scored), expected)
    assert pq.read_table(scored).select(SCHEMA.names).to_pylist() == pushed.rows

    written = scored.stat()
    again = run(pushed, NEW)
    assert told(again) == f"scored/new.parquet (unchanged): 300 rows {by}"
    assert (scored.stat().st_mtime_ns, scored.stat().st_ino) == (written.st_mtime_ns, written.st_ino)
    assert "BulkPredictor" not in ran(again)

    scored.write_bytes(b"damaged")
    restored = run(pushed, NEW)
    assert told(restored) == f"scored/new.parquet: 300 rows {by}"
    assert "BulkPredictor" not in ran(restored)
    check(pq.read_table(scored), expected)

    refused = run(pushed, NEW, "evaluate.thresholds.accuracy.min=1.0")
    assert "not blessed" in refused.out
    assert told(refused) == f"scored/new.parquet (unchanged): 300 rows {by}"

    fewer = run(pushed, NEW, "predict.columns=[]", "predict.prefix=new_", "beam.runner=direct")
    assert "BulkPredictor" in ran(fewer)
    names = [f"new_{name}" for name in ("prediction", *PROBABILITIES)]
    assert pq.read_table(scored).column_names == names
    check(pq.read_table(scored).rename_columns(["prediction", *PROBABILITIES]), expected)
    assert [path.name for path in scored.parent.iterdir()] == ["new.parquet"]


def test_a_pipeline_that_only_predicts_does_so_with_the_version_in_service(
    pushed: Pushed, expected: np.ndarray
) -> None:
    done = run(pushed, NEW, "predict.only=true", "predict.output=only.parquet", "predict.batch_size=7")
    assert told(done) == f"only.parquet: 300 rows by version {pushed.version.name}", done.out
    assert ran(done) == {"ModelInService", "PredictSpans", "BulkPredictor", "PublishPredictions"}
    assert not [line for line in done.out.splitlines() if line.startswith(("blessing", "pushed"))]
    check(pq.read_table(pushed.folder / "only.parquet"), expected)
    newest = max((pushed.folder / "runs" / "parcels" / "runs").glob("*/run.json"))
    assert json.loads(newest.read_text())["pipeline"] == "parcels-predict"


def test_the_newest_day_is_predicted_into_a_file_of_its_own(pushed: Pushed, expected: np.ndarray) -> None:
    today, tomorrow = (dt.datetime.now(dt.UTC).date() + dt.timedelta(days) for days in (0, 1))
    (pushed.folder / "arrived").mkdir()
    for day in (dt.date(2020, 2, 29), today, tomorrow):
        (pushed.folder / "arrived" / f"{day}.parquet").symlink_to(pushed.folder / "new.parquet")
    days = "predict={source: {kind: parquet, path: 'arrived/{YYYY}-{MM}-{DD}.parquet'}, output: 'days/%s.jsonl'%s}"
    done = run(pushed, days % ("{YYYY}-{MM}-{DD}", ", columns: [id]"))
    assert told(done) == f"days/{today}.jsonl: 300 rows of {today} by version {pushed.version.name}"
    rows = [json.loads(line) for line in (pushed.folder / "days" / f"{today}.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [row["id"] for row in pushed.rows]
    values = np.array([[row[name] for name in PROBABILITIES] for row in rows])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)


def test_records_that_cannot_be_read_are_counted_where_they_are_skipped(pushed: Pushed) -> None:
    bad = "id,note,distance,stops,code,tags\n1,a,1,1,x,\n2,b,1\n3,c,1,1,x,\n"
    (pushed.folder / "unread.csv").write_text(bad)
    source = "predict={source: {kind: csv, path: unread.csv}, output: scored/unread.csv, columns: [id]}"
    refused = run(pushed, source)
    assert refused.code == 1
    assert "unread.csv:3" in refused.out + refused.err
    assert "Or skip such records with `predict.on_bad_record: skip`" in refused.out + refused.err
    assert "Traceback" not in refused.out + refused.err
    assert not (pushed.folder / "scored" / "unread.csv").exists()
    skipping = ("predict.on_bad_record=skip", "predict.max_bad_fraction=0.5")
    done = run(pushed, source, *skipping)
    by = f"by version {pushed.version.name}"
    assert told(done) == f"scored/unread.csv: 2 rows {by}, 1 unreadable ones left out"
    text = (pushed.folder / "scored" / "unread.csv").read_text()
    assert [line.partition(",")[0] for line in text.splitlines()] == ['"id"', "1", "3"]
    (report,) = (line.split()[1] for line in done.out.splitlines() if line.startswith("report"))
    page = (pushed.folder / report).read_text(encoding="utf-8")
    assert f"2 rows {by}" in page


def ran(done: Finished) -> set[str]:
    """The components that a run did not take from the cache."""
    return {line.split()[1] for line in done.out.splitlines() if line.split()[2:3] == ["done"]}


def test_a_damaged_version_is_not_used_and_another_folder_is(pushed: Pushed, expected: np.ndarray) -> None:
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


def test_a_url_is_no_output_and_becomes_no_folder(pushed: Pushed) -> None:
    assert "s3://bucket/new.csv is a URL" in refusal(
        pushed.predict("--input", "new.parquet", "-o", "s3://bucket/new.csv")
    )
    assert not (pushed.folder / "s3:").exists()


PROGRAM = """
import json
from pathlib import Path
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
description = next(Path(run.artifact("Trainer", "model").uri).glob("Format-Serving/assets.extra/description.json"))
description.write_text((text := description.read_text()) + " ")
aside = run.pushed.rename(run.pushed.with_name("aside"))  # from which the model would be restored
try:
    run.model()
except headrace.RunError as error:
    damaged = str(error)
aside.rename(run.pushed)
run.model()
restored = description.read_text() == text
print(json.dumps([table.to_pylist(), str(written), small.column_names, refused, signature, damaged, restored]))
"""


def test_python_predicts_data_frames(pushed: Pushed, expected: np.ndarray) -> None:
    (pushed.folder / "program.py").write_text(PROGRAM)
    done = forks.run([sys.executable, "program.py"], cwd=pushed.folder, env=without_pythonpath())
    assert done.returncode == 0, done.stderr
    rows, written, small, refused, signatures, damaged, restored = json.loads(done.stdout)
    check(pa.Table.from_pylist(rows, schema_of(pq.read_schema(pushed.folder / written))), expected)
    assert [row["id"] for row in rows] == [row["id"] for row in pushed.rows]
    check(pq.read_table(pushed.folder / written), expected)
    assert small == ["distance", "stops", "code", "tags", "prediction", *PROBABILITIES]
    assert "'code'" in refused
    assert "serving_raw" in signatures
    assert "artifacts/Trainer/model/" in damaged
    assert "is damaged: its files have changed" in damaged
    assert restored


def schema_of(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata()


OWN_PUSHER = """
import dataclasses
from pathlib import Path

from tfx.components import Pusher
from tfx.proto.pusher_pb2 import PushDestination


def extend(components):
    model, blessing = components.trainer.outputs["model"], components.evaluator.outputs["blessing"]
    folder = PushDestination.Filesystem(base_directory=str(Path("serving/parcels").absolute()))
    mine = Pusher(model=model, model_blessing=blessing, push_destination=PushDestination(filesystem=folder))
    return dataclasses.replace(components, pusher=mine)
"""


def test_what_a_pusher_of_the_users_pushed_is_in_service(pushed: Pushed) -> None:  # the last one, as it pushes
    (pushed.folder / "own_pusher.py").write_text(OWN_PUSHER)
    before = pushed.version
    done = run(pushed, NEW, "pipeline.extend=own_pusher.extend")
    version = max(before.parent.iterdir(), key=lambda path: int(path.name))
    assert version != before
    assert told(done).endswith(f": 300 rows by version {version.name}"), done.out
    (model,) = json.loads(headrace(pushed.folder, "models", "parcels.yaml", "--json").out)
    assert (model["versions"], model["in_service"]) == ([int(before.name), int(version.name)], True)
    (version / "saved_model.pb").open("ab").write(b"0")
    assert "damaged" in refusal(pushed.predict("--input", "new.parquet", "-o", "refused.parquet"))
