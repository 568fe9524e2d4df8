"""ExampleGen by spans, run after run: what is read again, and what follows a change."""

import os
from collections import Counter
from pathlib import Path

import pytest
from span_runs import (
    DAYS,
    FIRST_TWO,
    config,
    days,
    generate,
    ids,
    reported,
    rows_of,
    write,
)

from headrace.common.errors import DataError


def test_only_the_new_span_is_read(folder: Path, reads: Counter[str]) -> None:
    days("2026-01-01", "2026-01-02")
    first = generate(folder, config(DAYS, window=2))
    assert set(reads) == {f"{what} {day}.csv" for what in ("columns", "scan_rows") for day in FIRST_TWO}
    reads.clear()
    write("in/2026-01-03.csv", 2000)
    second = generate(folder, config(DAYS, window=2))
    assert {name.split()[1] for name in reads} == {"2026-01-03.csv"}
    assert ids(second) == [*range(1000, 1040), *range(2000, 2040)]
    assert reported(first, "spans")["2026-01-02"] == reported(second, "spans")["2026-01-02"]
    assert second.get_string_custom_property("read") == "read now: 2026-01-03"
    reads.clear()
    third = generate(folder, config(DAYS, window=3))
    assert not reads
    assert third.get_string_custom_property("read") == "read now: none, all were stored"
    assert ids(third) == ids(generate(folder, config(DAYS, window=3), store=False))


def test_a_column_that_names_the_split_does_so_in_every_span_and_every_window(folder: Path) -> None:
    for day, first in (("2026-01-01", 0), ("2026-01-02", 1000)):
        lines = [f"{first + row},{('train', 'dev', 'train')[row % 3]}" for row in range(30)]
        Path("in").mkdir(exist_ok=True)
        Path("in", f"{day}.csv").write_text("\n".join(["id,fold", *lines]) + "\n", encoding="utf-8")
    by_fold = {"split_column": "fold", "split_values": {"eval": ("dev",)}}
    for window, starts in ((2, (0, 1000)), (1, (1000,))):
        found = rows_of(generate(folder, config(DAYS, window=window, **by_fold)))
        every = [start + row for start in starts for row in range(30)]
        assert {split: sorted(ids) for split, ids in found.items()} == {
            "train": [row for row in every if row % 1000 % 3 != 1],
            "eval": [row for row in every if row % 1000 % 3 == 1],
        }
    with pytest.raises(DataError, match=r"split 'test' is empty.*\n.*'fold'"):
        generate(folder, config(DAYS, **by_fold, splits={"train": 8, "eval": 1, "test": 1}))
    with pytest.raises(DataError, match=r"`data\.split_column` is 'day', .*not a column"):
        generate(folder, config(DAYS, split_column="day"))


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


def test_changed_file_is_reported_and_only_its_span_read_again(folder: Path, reads: Counter[str]) -> None:
    days("2026-01-01", "2026-01-02")
    generate(folder, config(DAYS, window=2))
    reads.clear()
    changed = write("in/2026-01-01.csv", 5000, rows=50)
    examples = generate(folder, config(DAYS, window=2))
    assert {name.split()[1] for name in reads} == {"2026-01-01.csv"}
    (note,) = reported(examples, "notes")
    assert note.startswith(f"{changed.absolute()} changed since it was last read (")
    assert ids(examples) == [*range(1000, 1040), *range(5000, 5050)]
    assert reported(generate(folder, config(DAYS, window=2)), "notes") == []


def test_change_is_reported_until_it_was_read(folder: Path) -> None:
    days("2026-01-01")
    generate(folder, config(DAYS))
    Path("in/2026-01-01.csv").write_text("id,word\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError):
        generate(folder, config(DAYS))
    write("in/2026-01-01.csv", 7000)
    assert len(reported(generate(folder, config(DAYS)), "notes")) == 1


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
        assert len(reported(examples, "notes")) == len(again)
        os.utime(file, (2, 2))


def test_wider_type_in_one_span_rewrites_the_others_and_moves_no_row(folder: Path, reads: Counter[str]) -> None:
    write("in/1.csv", 0)
    first = generate(folder, config("in/{SPAN}.csv", window=2))
    assert reported(first, "types") == {"id": "int", "word": "string"}
    write("in/2.csv", 1000, id="0.5", rows=20)
    reads.clear()
    both = generate(folder, config("in/{SPAN}.csv", window=2))
    assert reported(both, "types") == {"id": "float", "word": "string"}
    assert set(reads) == {"batches 1.csv", "columns 2.csv", "scan_rows 2.csv"}
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
    with pytest.raises(DataError, match="'tipp', which is no"):
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


def test_schema_that_lies_elsewhere_keeps_the_spans_and_one_of_other_types_does_not(
    folder: Path, reads: Counter[str]
) -> None:
    """In a pod the curated schema that came along is in another folder each night."""
    days("2026-01-01", "2026-01-02")
    texts = {
        name: f'feature {{ name: "id" type: {kind} }}' for name, kind in (("a", "INT"), ("b", "INT"), ("c", "FLOAT"))
    }
    for name, text in texts.items():
        Path(f"{name}.pbtxt").write_text(text, encoding="utf-8")
    generate(folder, config(DAYS, window=2, schema="a.pbtxt"))
    reads.clear()
    generate(folder, config(DAYS, window=2, schema="b.pbtxt"))
    assert not reads
    other = generate(folder, config(DAYS, window=2, schema="c.pbtxt"))
    assert reported(other, "types")["id"] == "float"
    assert {name.split()[1] for name in reads} == {"2026-01-01.csv", "2026-01-02.csv"}
