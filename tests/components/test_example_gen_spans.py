"""ExampleGen by spans: which files a run reads, and what it says of those that are not there."""

from pathlib import Path
from typing import Any

import beam_here
import pytest
from span_runs import DAYS, Examples, config, days, generate, ids, read, reported, write
from tfx.types import standard_artifacts

from headrace.common.errors import DataError
from headrace.components.example_gen.component import Executor
from headrace.components.spans.find import find_spans


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


def test_a_run_of_a_day_reads_up_to_that_day_less_the_delay_and_including_it(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-03")
    for delay, last in ((0, "2026-01-03"), (1, "2026-01-02"), (2, "2026-01-01")):
        assert read(config(DAYS, run_date="2026-01-03", delay=delay)) == [last]
    with pytest.raises(DataError, match="no span up to 2025-12-31"):
        find_spans(config(DAYS, run_date="2026-01-03", delay=3))


def test_spans_chosen_by_hand_take_the_place_of_the_newest(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")
    assert read(config(DAYS, spans="2026-01-02")) == ["2026-01-02"]
    assert read(config(DAYS, spans="2026-01-03", window=2)) == ["2026-01-02", "2026-01-03"]
    assert read(config(DAYS, spans=("2026-01-01", "2026-01-03"))) == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert read(config(DAYS, spans=20455)) == ["2026-01-02"]  # days since 1970, as TFX counts them


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("2026-01-09", "no span 2026-01-09\n  There are 2, from 2026-01-01 to 2026-01-02"),
        (("2026-01-01", "2026-01-09"), "there is no span 2026-01-09"),
        (("2026-01-02", "2026-01-01"), "starts with 2026-01-02, after its end"),
        ("2026-02-30", "'2026-02-30'"),
    ],
)
def test_span_that_is_not_there_is_reported_with_those_that_are(folder: Path, chosen: Any, message: str) -> None:
    days("2026-01-01", "2026-01-02")
    with pytest.raises(DataError) as error:
        find_spans(config(DAYS, spans=chosen))
    assert message in str(error.value)


def test_pattern_without_files_is_reported_as_it_stands_in_the_config(folder: Path) -> None:
    with pytest.raises(DataError, match=r"no file matches 'in/\{YYYY\}-\{MM\}-\{DD\}\.csv'"):
        find_spans(config(DAYS))
    write("in/one.csv")
    with pytest.raises(DataError, match=r"no file .*span"):
        find_spans(config("in/{SPAN:3}*.csv"))


def test_date_that_does_not_exist_names_the_file(folder: Path) -> None:
    days("2026-01-01", "2026-02-30")
    with pytest.raises(DataError, match=r"2026-02-30\.csv: the date"):
        find_spans(config(DAYS))


def test_missing_days_are_reported(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-04", "2026-01-06")
    examples = generate(folder, config(DAYS, window=4))
    assert reported(examples, "gaps") == ["there is no data for 2026-01-03, 2026-01-05"]
    assert list(reported(examples, "spans")) == ["2026-01-04", "2026-01-06"]
    assert reported(generate(folder, config(DAYS, window=1)), "gaps") == []
    days("2026-03-01")
    (note,) = reported(generate(folder, config(DAYS, window="all")), "gaps")
    assert note.endswith("2026-01-13, 2026-01-14 and 45 more")


def test_file_that_vanishes_after_it_was_listed_is_reported(folder: Path) -> None:
    days("2026-01-01", "2026-01-02")
    data = config(DAYS, window=2)
    listed = find_spans(data).to_json()
    Path("in/2026-01-02.csv").unlink()
    spans, examples = standard_artifacts.String(), Examples()
    spans.uri, examples.uri = str(folder / "spans"), str(folder / "out")
    spans.write(listed)
    executor = Executor(Executor.Context(make_beam_pipeline_fn=beam_here.pipeline))
    with pytest.raises(DataError, match=r"2026-01-02\.csv: cannot be read: No such file"):
        executor.Do({"spans": [spans]}, {"examples": [examples]}, {"data": data.model_dump_json(by_alias=True)})
    assert not list((folder / "out").iterdir())


def test_span_that_vanished_is_reported_and_left_out(folder: Path) -> None:
    days("2026-01-01", "2026-01-02", "2026-01-03")
    generate(folder, config(DAYS, window=3))
    Path("in/2026-01-02.csv").unlink()
    examples = generate(folder, config(DAYS, window=3))
    assert reported(examples, "gaps") == ["there is no data for 2026-01-02"]
    assert ids(examples) == [*range(40), *range(2000, 2040)]


def test_one_span_is_reported_with_its_version(folder: Path, log: pytest.LogCaptureFixture) -> None:
    for version in (1, 3):
        write(f"in/7/v{version}/a.csv", version, rows=20)
    days("2026-01-01")
    numbered = generate(folder, config("in/{SPAN}/v{VERSION}/*.csv"))
    assert numbered.get_string_custom_property("plan").startswith("span 7, version 3: ")
    dated = generate(folder, config(DAYS))
    assert dated.get_string_custom_property("plan").startswith("span 2026-01-01: ")
    assert any(message.endswith("; read now: 2026-01-01") for message in log.messages)
    plain = generate(folder, config("in/2026-01-01.csv"))
    assert "span" not in plain.get_string_custom_property("plan")
    assert not plain.get_string_custom_property("read")
