"""ExampleGen by spans: which files a run reads, what it keeps of them, and what it says."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import apache_beam as beam
import pytest
import tensorflow as tf
from tfx.types import artifact_utils, standard_artifacts

from components.example_gen.component import Executor
from components.example_gen.find import find_spans
from components.example_gen.sources.csv import CsvFiles
from components.example_gen.span_store import SpanStore
from configs.data import DataConfig
from configs.errors import DataError
from configs.sources import CsvSource

FIRST_TWO = ("2026-01-01", "2026-01-02")
DAYS = "in/{YYYY}-{MM}-{DD}.csv"
SPLITS = {"train": 2, "eval": 1}
Examples: TypeAlias = standard_artifacts.Examples


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(path: str | tuple[str, ...], **data: Any) -> DataConfig:
    return DataConfig.model_validate({"source": CsvSource(kind="csv", path=path), "splits": SPLITS, **data})


def write(path: str, first: int = 0, rows: int = 40, header: str = "id,word", **values: str) -> Path:
    """A CSV file of rows of its own."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    names = header.split(",")
    lines = [
        ",".join(values.get(name, str(first + row) if name == "id" else f"w{row}") for name in names)
        for row in range(rows)
    ]
    file.write_text("\n".join([header, *lines]) + "\n")
    return file


def days(*dates: str) -> None:
    for number, date in enumerate(dates):
        write(f"in/{date}.csv", 1000 * number)


def read(data: DataConfig) -> list[str]:
    """The names of the spans that a run reads."""
    return [span.name for span in find_spans(data).spans]


def generate(folder: Path, data: DataConfig, *, store: bool = True) -> Examples:
    """The artifact of a run in `folder`, which keeps spans from run to run."""
    spans, examples = standard_artifacts.String(), Examples()
    number = len(list(folder.glob("run-*")))
    spans.uri, examples.uri = str(folder / f"spans-{number}"), str(folder / f"run-{number}")
    spans.write(find_spans(data).to_json())
    executor = Executor(Executor.Context(make_beam_pipeline_fn=lambda: beam.Pipeline(argv=["--runner=FnApiRunner"])))
    properties = {"data": data.model_dump_json(by_alias=True), "store": str(folder / "store") if store else ""}
    executor.Do({"spans": [spans]}, {"examples": [examples]}, properties)
    return examples


def told(examples: Examples, name: str) -> Any:
    text = examples.get_string_custom_property(name)
    return json.loads(text) if text else []


def rows_of(examples: Examples, name: str = "id", span: str = "") -> dict[str, list[Any]]:
    """The values of a column, of one span or of all, split by split."""
    found = {}
    for split in artifact_utils.decode_split_names(examples.split_names):
        files = sorted(map(str, Path(examples.uri, f"Split-{split}").glob(f"data_tfrecord-{span}*")))
        records = [tf.train.Example.FromString(one.numpy()) for one in tf.data.TFRecordDataset(files, "GZIP")]
        found[split] = sorted((_value(record.features.feature[name]) for record in records), key=str)
    return found


def _value(feature: tf.train.Feature) -> Any:
    kind = feature.WhichOneof("kind")
    return getattr(feature, kind).value[0] if kind else None


def ids(examples: Examples) -> list[int]:
    return sorted(value for values in rows_of(examples).values() for value in values)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a part of each file was looked at or read, and the header of each file."""
    count: Counter[str] = Counter()

    def counted(method: str) -> Any:
        plain = getattr(CsvFiles, method)

        def call(self: CsvFiles, *args: Any, **more: Any) -> Any:
            count.update(f"{method} {Path(file).name}" for file in self.files)
            return plain(self, *args, **more)

        return call

    for method in ("columns", "survey_keeping", "batches"):
        monkeypatch.setattr(CsvFiles, method, counted(method))
    return count


# which files


@pytest.mark.parametrize(
    ("pattern", "files", "newest"),
    [
        ("in/{SPAN}/a.csv", ["in/9/a.csv", "in/10/a.csv"], "10"),
        ("in/{SPAN:2}-a.csv", ["in/09-a.csv", "in/10-a.csv", "in/11-b.csv", "in/7-a.csv"], "10"),
        ("in/{SPAN:2}{VERSION:2}.csv", ["in/0901.csv", "in/1001.csv"], "10"),
        (DAYS, ["in/2026-02-28.csv", "in/2026-03-01.csv", "in/notes.csv"], "2026-03-01"),
        ("in/{YYYY}/{MM}/{DD}/*.csv", ["in/2025/12/31/a.csv", "in/2026/01/01/b.csv"], "2026-01-01"),
        ("in/{YYYY}/{YYYY}{MM}{DD}.csv", ["in/2026/20260101.csv", "in/2026/20250202.csv"], "2026-01-01"),
        ("./in/**/day-{SPAN}.csv", ["in/a/b/day-1.csv", "in/day-2.csv"], "2"),
        (".in/{SPAN}.csv", [".in/3.csv"], "3"),
        ("in/../in/{SPAN}.csv", ["in/3.csv"], "3"),
        ("in/[ab]-{SPAN}?.csv", ["in/a-3x.csv", "in/b-4y.csv", "in/c-5z.csv"], "4"),
    ],
)
def test_pattern_finds_its_spans(folder: Path, pattern: str, files: list[str], newest: str) -> None:
    for file in files:
        write(file)
    assert read(config(pattern)) == [newest]
    assert read(config(pattern, window="all"))[-1] == newest
    assert read(config(str(folder / pattern)))[-1] == newest


def test_of_several_versions_the_newest_is_read(folder: Path) -> None:
    for span, version in ((1, 1), (1, 2), (1, 10), (2, 3)):
        write(f"in/{span}/v{version}/a.csv", 100 * span + version, rows=20)
    manifest = find_spans(config("in/{SPAN}/v{VERSION}/*.csv", window=2))
    assert [(span.number, span.version) for span in manifest.spans] == [(1, 10), (2, 3)]
    examples = generate(folder, config("in/{SPAN}/v{VERSION}/*.csv", window=2))
    assert ids(examples) == [*range(110, 130), *range(203, 223)]
    assert (examples.span, examples.version) == (2, 3)
    write("in/2/v4/a.csv", 900, rows=20)
    assert ids(generate(folder, config("in/{SPAN}/v{VERSION}/*.csv", window=2)))[-20:] == list(range(900, 920))


def test_files_of_several_patterns_make_up_a_span(folder: Path) -> None:
    write("in/a-1.csv", 0, rows=20)
    write("in/b-1.csv", 50, rows=20)
    write("in/b-2.csv", 90, rows=20)
    data = config(("in/a-{SPAN}.csv", "in/b-{SPAN}.csv"), window="all")
    assert [len(span.files) for span in find_spans(data).spans] == [2, 1]
    assert ids(generate(folder, data)) == [*range(20), *range(50, 70), *range(90, 110)]


def test_window_counts_days_not_files(folder: Path) -> None:
    days("2026-02-20", "2026-02-27", "2026-03-01")
    assert read(config(DAYS, window=2)) == ["2026-03-01"]
    assert read(config(DAYS, window=3)) == ["2026-02-27", "2026-03-01"]
    assert read(config(DAYS, window="all")) == ["2026-02-20", "2026-02-27", "2026-03-01"]


def test_spans_chosen_by_hand_take_the_place_of_the_newest(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")
    assert read(config(DAYS, spans="2026-01-02")) == ["2026-01-02"]
    assert read(config(DAYS, spans="2026-01-03", window=2)) == ["2026-01-02", "2026-01-03"]
    assert read(config(DAYS, spans=("2026-01-01", "2026-01-03"))) == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert read(config(DAYS, spans=20455)) == ["2026-01-02"]  # days since 1970, as TFX counts them


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("2026-01-09", "there is no span 2026-01-09\n  There are 2, from 2026-01-01 to 2026-01-02"),
        (("2026-01-01", "2026-01-09"), "there is no span 2026-01-09"),
        (("2026-01-02", "2026-01-01"), "starts with 2026-01-02, after its end"),
        ("2026-02-30", "'2026-02-30' is no date"),
    ],
)
def test_span_that_is_not_there_is_told_with_those_that_are(folder: Path, chosen: Any, message: str) -> None:
    days("2026-01-01", "2026-01-02")
    with pytest.raises(DataError) as error:
        find_spans(config(DAYS, spans=chosen))
    assert message in str(error.value)


def test_pattern_without_files_is_told_as_it_stands_in_the_config(folder: Path) -> None:
    with pytest.raises(DataError, match=r"no file matches 'in/\{YYYY\}-\{MM\}-\{DD\}\.csv'"):
        find_spans(config(DAYS))
    write("in/one.csv")
    with pytest.raises(DataError, match="no file has a span in its path"):
        find_spans(config("in/{SPAN:3}*.csv"))


def test_date_that_does_not_exist_names_the_file(folder: Path) -> None:
    days("2026-01-01", "2026-02-30")
    with pytest.raises(DataError, match=r"2026-02-30\.csv: there is no such date"):
        find_spans(config(DAYS))


def test_missing_days_are_told(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-04", "2026-01-06")
    examples = generate(folder, config(DAYS, window=4))
    assert told(examples, "gaps") == ["there is no data for 2026-01-03, 2026-01-05"]
    assert list(told(examples, "spans")) == ["2026-01-04", "2026-01-06"]
    assert told(generate(folder, config(DAYS, window=1)), "gaps") == []
    days("2026-03-01")
    (note,) = told(generate(folder, config(DAYS, window="all")), "gaps")
    assert note.endswith("2026-01-13, 2026-01-14 and 45 more")


# what is kept


def test_only_the_new_span_is_read(folder: Path, reads: Counter[str]) -> None:
    days("2026-01-01", "2026-01-02")
    first = generate(folder, config(DAYS, window=2))
    assert set(reads) == {f"{what} {day}.csv" for what in ("columns", "survey_keeping") for day in FIRST_TWO}
    reads.clear()
    write("in/2026-01-03.csv", 2000)
    second = generate(folder, config(DAYS, window=2))
    assert {name.split()[1] for name in reads} == {"2026-01-03.csv"}
    assert ids(second) == [*range(1000, 1040), *range(2000, 2040)]
    assert told(first, "spans")["2026-01-02"] == told(second, "spans")["2026-01-02"]
    assert second.get_string_custom_property("read") == "read now: 2026-01-03"
    reads.clear()
    third = generate(folder, config(DAYS, window=3))
    assert not reads
    assert third.get_string_custom_property("read") == "read now: none, all were kept"
    assert ids(third) == ids(generate(folder, config(DAYS, window=3), store=False))


def test_kept_span_does_not_depend_on_its_raw_file(folder: Path) -> None:
    """Its content is replaced by nonsense of the same size and time, and nobody looks."""
    days("2026-01-01", "2026-01-02")
    generate(folder, config(DAYS, window=2))
    file = Path("in/2026-01-01.csv")
    before = file.stat()
    file.write_bytes(b"\xff" * before.st_size)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    write("in/2026-01-03.csv", 2000)
    assert len(ids(generate(folder, config(DAYS, window=3)))) == 120
    with pytest.raises(DataError):
        generate(folder, config(DAYS, window=3, fingerprint="checksums"))


def test_shards_of_a_span_carry_its_name_and_are_shared_with_the_store(folder: Path) -> None:
    days("2026-01-01", "2026-01-02")
    examples = generate(folder, config(DAYS, window=2, shards=2))
    names = [path.name for path in sorted(Path(examples.uri, "Split-train").iterdir())]
    assert names == [f"data_tfrecord-{day}-0000{shard}-of-00002.gz" for day in FIRST_TWO for shard in range(2)]
    key = told(examples, "spans")["2026-01-01"]
    kept = folder / "store" / key / "Split-train" / "data_tfrecord-00000-of-00002.gz"
    assert kept.samefile(Path(examples.uri, "Split-train", names[0]))


def test_changed_file_is_told_and_only_its_span_read_again(folder: Path, reads: Counter[str]) -> None:
    days("2026-01-01", "2026-01-02")
    generate(folder, config(DAYS, window=2))
    reads.clear()
    changed = write("in/2026-01-01.csv", 5000, rows=50)
    examples = generate(folder, config(DAYS, window=2))
    assert {name.split()[1] for name in reads} == {"2026-01-01.csv"}
    (note,) = told(examples, "notes")
    assert note.startswith(f"{changed.absolute()} changed since it was last read (")
    assert ids(examples) == [*range(1000, 1040), *range(5000, 5050)]
    assert told(generate(folder, config(DAYS, window=2)), "notes") == []


def test_change_is_told_until_it_was_read(folder: Path) -> None:
    days("2026-01-01")
    generate(folder, config(DAYS))
    Path("in/2026-01-01.csv").write_text("id,word\n1,2,3\n")
    with pytest.raises(DataError):
        generate(folder, config(DAYS))
    write("in/2026-01-01.csv", 7000)
    assert len(told(generate(folder, config(DAYS)), "notes")) == 1


def test_touched_file_is_read_again_unless_checksums_are_compared(folder: Path, reads: Counter[str]) -> None:
    days("2026-01-01", "2026-01-02")
    file = Path("in/2026-01-01.csv")
    for fingerprint, again in (("times", {"2026-01-01.csv"}), ("checksums", set())):
        data = config(DAYS, window=2, fingerprint=fingerprint)
        generate(folder, data)
        reads.clear()
        os.utime(file, (1, 1))
        examples = generate(folder, data)
        assert {name.split()[1] for name in reads} == again
        assert len(told(examples, "notes")) == len(again)
        os.utime(file, (2, 2))


def test_span_that_vanished_is_told_and_left_out(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-03")
    generate(folder, config(DAYS, window=3))
    Path("in/2026-01-02.csv").unlink()
    examples = generate(folder, config(DAYS, window=3))
    assert told(examples, "gaps") == ["there is no data for 2026-01-02"]
    assert ids(examples) == [*range(40), *range(2000, 2040)]


def test_file_that_vanishes_after_it_was_listed_is_told(folder: Path) -> None:
    days("2026-01-01", "2026-01-02")
    data = config(DAYS, window=2)
    listed = find_spans(data).to_json()
    Path("in/2026-01-02.csv").unlink()
    spans, examples = standard_artifacts.String(), Examples()
    spans.uri, examples.uri = str(folder / "spans"), str(folder / "out")
    spans.write(listed)
    executor = Executor(Executor.Context(make_beam_pipeline_fn=lambda: beam.Pipeline(argv=["--runner=FnApiRunner"])))
    with pytest.raises(DataError, match=r"2026-01-02\.csv: cannot be read: No such file"):
        executor.Do({"spans": [spans]}, {"examples": [examples]}, {"data": data.model_dump_json(by_alias=True)})
    assert not list((folder / "out").iterdir())


def test_wider_type_in_one_span_rewrites_the_others_and_moves_no_row(folder: Path, reads: Counter[str]) -> None:
    write("in/1.csv", 0)
    first = generate(folder, config("in/{SPAN}.csv", window=2))
    assert told(first, "types") == {"id": "int", "word": "string"}
    write("in/2.csv", 1000, id="0.5", rows=20)
    reads.clear()
    both = generate(folder, config("in/{SPAN}.csv", window=2))
    assert told(both, "types") == {"id": "float", "word": "string"}
    assert set(reads) == {"batches 1.csv", "columns 2.csv", "survey_keeping 2.csv"}
    assert rows_of(both, span="1-") == rows_of(first)
    assert all(isinstance(value, float) for values in rows_of(both, span="1-").values() for value in values)
    reads.clear()
    generate(folder, config("in/{SPAN}.csv", spans=1))  # as it was written first
    assert not reads


def test_column_that_only_some_spans_have_is_missing_in_the_others(folder: Path) -> None:
    write("in/1.csv", 0, rows=20)
    write("in/2.csv", 100, rows=20, header="id,word,tip")
    for types in ({}, {"tip": "bytes"}):
        examples = generate(folder, config("in/{SPAN}.csv", window=2, types=types))
        values = rows_of(examples, "tip", span="1-")
        assert set(values["train"] + values["eval"]) == {None}
        assert None not in rows_of(examples, "tip", span="2-")["train"]
    with pytest.raises(DataError, match="'tipp', which is no column"):
        generate(folder, config("in/{SPAN}.csv", window=2, types={"tipp": "int"}))


def test_row_keeps_its_split_whatever_the_window(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-03")
    wide = rows_of(generate(folder, config(DAYS, window="all")))
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        alone = rows_of(generate(folder, config(DAYS, spans=day), store=False))
        for split, values in alone.items():
            assert set(values) <= set(wide[split])


def test_settings_that_do_not_touch_the_data_keep_it(folder: Path, reads: Counter[str]) -> None:
    days("2026-01-01", "2026-01-02")
    generate(folder, config(DAYS, window=2))
    reads.clear()
    generate(folder, config(DAYS, window=2, on_anomaly="warn", max_bad_fraction=0.5))
    assert not reads
    generate(folder, config(DAYS, window=2, shuffle_seed=1))
    assert {name.split()[0] for name in reads} == {"batches"}


def test_removed_store_costs_only_time(folder: Path) -> None:
    days("2026-01-01", "2026-01-02")
    first = generate(folder, config(DAYS, window=2))
    shutil.rmtree(folder / "store")
    second = generate(folder, config(DAYS, window=2))
    assert (rows_of(first), told(first, "spans")) == (rows_of(second), told(second, "spans"))


@pytest.mark.parametrize("damage", ["folder", "split", "shard", "empty", "cut"])
def test_span_whose_shards_are_not_all_there_is_read_again(folder: Path, reads: Counter[str], damage: str) -> None:
    days("2026-01-01", "2026-01-02")
    data = config(DAYS, window=2, shards=2)
    before = generate(folder, data)
    whole, key = rows_of(before), told(before, "spans")["2026-01-01"]
    shutil.rmtree(before.uri)
    shard = folder / "store" / key / "Split-train" / "data_tfrecord-00001-of-00002.gz"
    if damage in ("folder", "split"):
        shutil.rmtree(shard.parent.parent if damage == "folder" else shard.parent)
    elif damage == "shard":
        shard.unlink()
    else:
        os.truncate(shard, 0 if damage == "empty" else shard.stat().st_size - 1)
    for again in ({"batches 2026-01-01.csv"}, set()):
        reads.clear()
        assert rows_of(generate(folder, data)) == whole
        assert set(reads) == again


@pytest.mark.parametrize("text", ["{", "", "[]", "null", "1", '{"rows": 1}', "{}", "\0\0", "[1]"])
def test_store_that_cannot_be_read_counts_as_empty(folder: Path, text: str) -> None:
    days("2026-01-01")
    whole = rows_of(generate(folder, config(DAYS)))
    kept = list((folder / "store").rglob("*.json"))
    assert {path.name for path in kept} == {"seen.json", "survey.json", "columns.json", "ingested.json"}
    for path in kept:
        sound = path.read_text()
        path.write_text(text)
        again = generate(folder, config(DAYS))
        assert rows_of(again) == whole
        assert told(again, "notes") == []
        assert path.read_text() == sound or (path.name, text) == ("columns.json", "[]")


def test_shards_are_on_disk_before_they_are_said_to_be_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days("2026-01-01")
    synced: set[int] = set()
    plain = os.fsync

    def fsync(opened: int) -> None:
        assert not list((folder / "store").glob("*/ingested.json"))
        synced.add(os.fstat(opened).st_ino)
        plain(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    generate(folder, config(DAYS))
    (kept,) = (folder / "store").glob("*/ingested.json")
    assert {path.stat().st_ino for path in kept.parent.glob("Split-*/*")} <= synced
    assert len(list(kept.parent.glob("Split-*/*"))) == 2


def test_one_span_is_told_with_its_version(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for version in (1, 3):
        write(f"in/7/v{version}/a.csv", version, rows=20)
    days("2026-01-01")
    numbered = generate(folder, config("in/{SPAN}/v{VERSION}/*.csv"))
    assert numbered.get_string_custom_property("plan").startswith("span 7, version 3: ")
    dated = generate(folder, config(DAYS))
    assert dated.get_string_custom_property("plan").startswith("span 2026-01-01: ")
    assert "; read now: 2026-01-01\n" in capfd.readouterr().out
    plain = generate(folder, config("in/2026-01-01.csv"))
    assert "span" not in plain.get_string_custom_property("plan")
    assert not plain.get_string_custom_property("read")


@pytest.mark.parametrize("killed_in", ["_write", "_put"])
def test_kill_leaves_nothing_half_kept(folder: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str) -> None:
    """The store is killed at each step in turn; the run after it gives what an undisturbed one does."""
    days("2026-01-01", "2026-01-02")
    data = config(DAYS, window=2)
    whole = rows_of(generate(folder, data, store=False))
    plain, calls = getattr(SpanStore, killed_in), 0

    def killed(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        plain(*args)

    at = 0
    monkeypatch.setattr(SpanStore, killed_in, killed if killed_in == "_write" else staticmethod(killed))
    generate(folder, data)
    steps, at = calls, 1
    assert steps >= 6
    while at <= steps:
        shutil.rmtree(folder / "store")
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            generate(folder, data)
        assert rows_of(generate(folder, data)) == whole
        at += 1


def test_data_without_placeholders_keeps_nothing(folder: Path) -> None:
    write("in/a.csv")
    examples = generate(folder, config("in/a.csv"))
    assert told(examples, "spans") == []
    assert [path.name for path in (folder / "store").iterdir()] == ["seen.json"]
    write("in/a.csv", 500, rows=41)
    assert len(told(generate(folder, config("in/a.csv")), "notes")) == 1
