"""What `headrace predict` refuses: it names the place and the way out, and leaves no output."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import started_at_once, wait_until
from parcel_arrivals import Pushed, check, pushed_once, refusal, signature_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory, new_folder: Callable[[str], Path]) -> Pushed:
    return pushed_once(tmp_path_factory, new_folder("predict_refusals"))


@pytest.fixture(scope="module")
def expected(pushed: Pushed) -> np.ndarray:
    return signature_rows(pushed.version, pushed.rows)


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
def test_what_cannot_be_predicted_is_named_and_leaves_no_output(
    pushed: Pushed, arguments: tuple[str, ...], words: list[str]
) -> None:
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


@pytest.mark.parametrize(
    ("file", "words"),
    [("variables/variables.data-00000-of-00001", "Checksum does not match"), ("saved_model.pb", "Cannot parse file")],
)
def test_a_damaged_copy_of_a_model_is_refused_with_what_is_wrong_with_it(
    pushed: Pushed, tmp_path: Path, file: str, words: str
) -> None:
    damaged = shutil.copytree(pushed.version, tmp_path / "copied") / file
    content = damaged.read_bytes()
    third = len(content) // 3
    damaged.write_bytes(content[:third] + bytes(third) + content[2 * third :])
    error = refusal(pushed.predict("--input", "new.parquet", "--model", str(tmp_path / "copied"), "-o", "refused.csv"))
    assert f"{tmp_path}/copied is not a SavedModel " in error
    assert words in error
    assert "Graph execution" not in error
    assert "{{" not in error


def test_a_bad_record_is_skipped_counted_and_named(pushed: Pushed) -> None:
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


def test_lists_do_not_go_into_csv(pushed: Pushed) -> None:
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
def test_what_cannot_be_written_is_named_and_stays_as_it_is(pushed: Pushed, output: str, words: str) -> None:
    before = (pushed.folder / "trained.parquet").read_bytes()
    assert words in refusal(pushed.predict("--output", output))
    assert (pushed.folder / "trained.parquet").read_bytes() == before


def test_the_folder_of_the_output_is_created(pushed: Pushed, expected: np.ndarray) -> None:
    done = pushed.predict("--input", "new.parquet", "-o", "scored/today/out.parquet")
    assert done.code == 0, done.err
    check(pq.read_table(pushed.folder / "scored" / "today" / "out.parquet"), expected)


def test_a_killed_command_leaves_the_old_output_and_the_next_removes_what_it_began(pushed: Pushed) -> None:
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
