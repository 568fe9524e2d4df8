"""Bad data: each mistake reported with its file, line and column, and nothing left of the output."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import BadRecordError, DataError
from headrace.common.storage.paths import resolve
from headrace.components.example_gen.checks import check_fraction
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples import parts as parts_module
from headrace.components.examples.skips import Skipped
from headrace.components.sources import serial_map
from headrace.components.sources.csv import blocks as blocks_module
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.rules.data import types_fit_delimited_text
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource

GOOD = "".join(f'{i},"text, {i}\nmore",{i / 2}\n' for i in range(400))
HEAD = "id,text,number\n"
LINE = 802
"""The line after the header and GOOD, whose records take two lines each."""


def failure(folder: Path, files: dict[str, str | bytes], **data: Any) -> DataError:
    """The error of ingesting these files; asserts that no output stays."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    source = CsvSource(kind="csv", path=str(folder / "*"))
    out = folder.parent / "out"
    with pytest.raises(DataError) as caught:
        ingest(
            DataConfig(source=source, **data),
            SpanManifest.of(resolve(source.path)),
            out,
            lambda _work: serial_map,
        )
    assert not out.exists() or list(out.rglob("*")) == []
    return caught.value


def test_an_error_of_a_worker_process_keeps_what_skips_the_record() -> None:
    error = BadRecordError("is short", file="a.csv", line=3, column="x", hint="Fill it", setting="`--skip`")
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found)) == (BadRecordError, str(error))
    assert str(found).endswith("Or skip such records with `--skip`")
    assert type(error.stopping()) is DataError
    assert "--skip" not in str(error.stopping())


def place(error: DataError) -> tuple[str | None, int | None, str | None]:
    return (Path(error.file).name if error.file else None, error.line, error.column)


@pytest.mark.parametrize(
    ("content", "expected", "words"),
    [
        ("", ("f.csv", None, None), "empty"),
        ("\n\n", ("f.csv", None, None), "empty"),
        (HEAD, ("f.csv", None, None), "no rows"),
        (HEAD.strip(), ("f.csv", None, None), "no rows"),
        (HEAD + "\n\n", ("f.csv", None, None), "no rows"),
        (
            HEAD + GOOD + "7,x\n" + GOOD,
            ("f.csv", LINE, None),
            "it ends before 'number'",
        ),
        (HEAD + GOOD + "7,x,1,2\n" + GOOD, ("f.csv", LINE, None), "there are 3 columns; it continues after 'number'"),
        (HEAD + GOOD + "7,x,1,2", ("f.csv", LINE, None), "4 fields"),
        (HEAD + "1,2,3\n" + '7,8,"x\n9,9,9\n', ("f.csv", 3, None), "opens field 3 here and never closes"),
        (HEAD + GOOD + '7,"8\n,8",9\n7,"x\ny', ("f.csv", LINE + 2, None), "opens field 2 here and never closes"),
        ((HEAD + GOOD).encode() + b"7,\xff\xfe,1\n", ("f.csv", LINE, "text"), "not UTF-8"),
        (HEAD.encode() + b"1,\xe9,1\n", ("f.csv", 2, "text"), "not UTF-8"),
        (HEAD + '1,"x,2\n2,"y,3\n', ("f.csv", 2, None), "on line 3, is followed by 'y,3'"),
        (HEAD + GOOD + '1,"x,2\n' + GOOD, ("f.csv", LINE, None), f"on line {LINE + 1}, is followed by 'text, 0'"),
        (HEAD + '1,"x"y,2\n', ("f.csv", 2, None), "followed by 'y,2'"),
        (HEAD + GOOD + '"1\n,1",x,"y"z\n', ("f.csv", LINE + 1, None), "opens field 3 here; "),
        (HEAD + '1,""x,2\n', ("f.csv", 2, None), "followed by 'x,2'"),
        (HEAD + '1,"x" ,2\r\n', ("f.csv", 2, None), "followed by ' ,2'"),
        ('id,"text"x,number\n1,2,3\n', ("f.csv", 1, None), "followed by 'x,number'"),
        (b"id,\xff\n1,2\n", ("f.csv", 1, None), "not UTF-8"),
        ((HEAD + GOOD).encode("utf-16"), ("f.csv", None, None), "UTF-16"),
        ("id,text,id\n1,2,3\n", ("f.csv", 1, "id"), "twice"),
        ("id,,x\n1,2,3\n", ("f.csv", 1, None), "column 2 of the header has no name"),
        ("id,x\r1,2\r3,4\r", ("f.csv", 1, None), "carriage return"),
    ],
)
@pytest.mark.parametrize("chunk", [1 << 21, 300])
def test_a_bad_file_is_reported_with_its_place(
    *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes, expected: tuple, words: str, chunk: int
) -> None:
    monkeypatch.setattr(blocks_module, "CHUNK", chunk)
    error = failure(tmp_path / "in", {"f.csv": content})
    assert place(error) == expected
    assert words in str(error)


@pytest.mark.parametrize("part", [1 << 24, 1000])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_a_number_that_does_not_parse_is_reported_with_line_column_and_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, part: int
) -> None:
    monkeypatch.setattr(parts_module, "SMALLEST_PART", part)
    monkeypatch.setattr(parts_module, "LARGEST_PART", part)
    error = failure(tmp_path / "in", {"f.csv": HEAD + GOOD + "twelve,x,1\n" + GOOD}, types={"id": kind})
    assert place(error) == ("f.csv", LINE, "id")
    assert "'twelve' is not" in error.what
    assert "data.types.id: string" in str(error)


def test_an_integer_beyond_int64_is_refused_where_int_is_declared(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"f.csv": HEAD + "9223372036854775808,x,1\n"}, types={"id": "int"})
    assert place(error) == ("f.csv", 2, "id")


def test_lines_are_counted_in_the_unpacked_text_of_a_gzip_file(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"f.csv.gz": gzip.compress((HEAD + GOOD + "7,x\n").encode())})
    assert place(error) == ("f.csv.gz", LINE, None)


def test_crlf_counts_as_one_line_break(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"f.csv": (HEAD + GOOD + "7,x\n").replace("\n", "\r\n")})
    assert place(error) == ("f.csv", LINE, None)


def test_a_gzip_file_cut_off_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress((HEAD + GOOD).encode())
    error = failure(tmp_path / "in", {"f.csv.gz": packed[:-30]})
    assert place(error)[0] == "f.csv.gz"
    assert "truncated" in error.what


def test_a_gzip_file_with_damage_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress((HEAD + GOOD * 20).encode()))
    packed[len(packed) // 2] ^= 255
    error = failure(tmp_path / "in", {"f.csv.gz": bytes(packed)})
    assert place(error)[0] == "f.csv.gz"


def test_plain_text_under_a_gzip_name_is_refused(tmp_path: Path) -> None:
    assert "not valid gzip" in failure(tmp_path / "in", {"f.csv.gz": HEAD + GOOD}).what


@pytest.mark.parametrize(
    ("header", "words"),
    [("id,text,other\n", "column 3 is 'other', but 'number' in"), ("id,text\n", "has 2 columns, but")],
)
def test_files_with_differing_headers_are_refused(tmp_path: Path, header: str, words: str) -> None:
    error = failure(tmp_path / "in", {"a.csv": HEAD + GOOD, "b.csv": header + "1,2\n"})
    assert place(error) == ("b.csv", 1, None)
    assert words in error.what


def test_one_file_without_rows_among_others_is_refused(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"a.csv": HEAD + GOOD, "b.csv": HEAD})
    assert place(error)[0] == "b.csv"


def test_a_split_without_rows_is_refused(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"f.csv": HEAD + "1,x,2\n"})
    assert "is empty" in error.what
    assert "1 rows" in error.what


def test_equal_rows_are_named_as_why_a_split_is_empty(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"f.csv": HEAD + "1,x,2\n" * 9})
    assert "9 rows" in error.what
    assert error.hint.startswith("All equal rows")


def test_few_values_of_the_split_key_are_named_as_why_a_split_is_empty(tmp_path: Path) -> None:
    rows = "".join(f"{row},x,2\n" for row in range(500))
    error = failure(tmp_path / "in", {"f.csv": HEAD + rows}, split_key="text")
    assert "'text' (`data.split_key`)" in error.hint


def test_a_split_key_that_is_not_a_column_is_refused(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"f.csv": HEAD + GOOD}, split_key="nunber")
    assert "'number'" in error.hint


def test_a_pattern_without_files_is_refused_with_the_nearest_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file matches") as caught:
        resolve(str(tmp_path / "none" / "*.csv"))
    assert str(tmp_path) in caught.value.hint


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a directory"):
        resolve(str(tmp_path))


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(DataError, match="'no_such_package', which is not installed"):
        resolve("pkg://no_such_package/*.csv")


def test_a_column_asked_for_that_is_nowhere_is_refused(tmp_path: Path) -> None:
    error = failure(tmp_path / "in", {"f.csv": HEAD + GOOD}, columns=("id", "nunber"))
    assert "'nunber', which is no" in error.what
    assert "'number'" in error.hint


@pytest.mark.parametrize("kind", ["int list", "bytes"])
def test_a_type_that_csv_cannot_hold_is_found_in_the_config(kind: Any) -> None:
    data = DataConfig(source=CsvSource(kind="csv", path="x"), types={"id": kind})
    ((where, what),) = types_fit_delimited_text(data)
    assert where == ("data", "types", "id")
    assert f"`{kind}`" in what
    assert "CSV" in what


def test_the_fraction_of_bad_records_is_of_all_records_and_may_be_reached() -> None:
    data = DataConfig.model_validate({"source": {"kind": "csv", "path": "/d/*.csv"}, "max_bad_fraction": 0.1})
    check_fraction(data, Skipped(1, ("line 3",)), rows=9)
    with pytest.raises(DataError, match=r"2 of 11 records cannot be read.*max_bad_fraction.*0\.1"):
        check_fraction(data, Skipped(2, ("line 3",)), rows=9)
