"""Reading CSV: whatever Python's csv module writes comes back, and columns get the types of all their values."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.examples import parts as parts_module
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.csv import blocks as blocks_module
from headrace.components.sources.csv import parse as parse_module
from headrace.components.sources.types import declared_types
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource

FIELD = st.text(st.sampled_from('ab ,;"\n\r\té0'), max_size=6)


def read(source: CsvSource, declared: dict | None = None) -> tuple[dict[str, str], list[tuple]]:
    """The kinds of the columns, and all the rows."""
    opened = open_source(source)
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared or {}) for part in parts), ScanResult())
    kinds = {**scan.kinds, **(declared or {})}
    rows = [row for part in parts for batch in opened.batches(part, kinds) for row in batch.to_pylist()]
    return dict(scan.kinds), [tuple(row[name] for name in opened.columns()) for row in rows]


def read_text(tmp_path: Path, text: str | bytes, **source: Any) -> tuple[dict[str, str], list[tuple]]:
    path = tmp_path / "f.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(CsvSource(kind="csv", path=str(path), **source))


def kind_of(tmp_path: Path, values: list[str], **source: Any) -> str:
    return read_text(tmp_path, "\n".join(["x,y", *(f"{value},-" for value in values), ""]), **source)[0]["x"]


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=12),
    delimiter=st.sampled_from(",;\t"),
    ending=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    chunk=st.sampled_from([5, 32, 1 << 21]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "cp1252"]),
)
def test_what_the_csv_module_writes_comes_back(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    delimiter: str,
    ending: str,
    quoting: Any,
    chunk: int,
    encoding: str,
) -> None:
    # Before 3.13 the module leaves a lone carriage return without quotes if lines end in a line feed.
    assume(quoting == csv.QUOTE_ALL or ending == "\r\n" or not any("\r" in value for row in rows for value in row))
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=ending, quoting=quoting)
    writer.writerows([("first", 'se"cond'), *rows])
    path = tmp_path_factory.mktemp("csv") / "f.csv"
    path.write_text(out.getvalue(), encoding=encoding, newline="")
    source = CsvSource(kind="csv", path=str(path), delimiter=delimiter, encoding=encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "CHUNK", chunk)
        _, found = read(source, {"first": "string", 'se"cond': "string"})
    assert open_source(source).columns() == ["first", 'se"cond']
    assert found == [tuple(value or None for value in row) for row in rows]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", "0", "9223372036854775807", "-9223372036854775808"], "int"),
        (["1", "2.5"], "float"),
        (["1", "nan", "-inf", "1e300"], "float"),
        (["1", "two"], "string"),
        (["", ""], "missing"),
        (["", "3"], "int"),
        (["02134", "10001"], "string"),
        (["-007"], "string"),
        (['"007"'], "string"),
        (["0", "0.5", "-0.5", "100"], "float"),
        (["00.5"], "string"),
        (["0x1F"], "string"),
        (["9223372036854775808"], "string"),
        (["1.5", "18446744073709551615"], "string"),
        (["true", "false"], "string"),
        (["2024-01-31", "2024-02-01"], "string"),
        (["12:30"], "string"),
        (["1_000"], "string"),
        (['"1"', '""'], "int"),
    ],
)
def test_a_column_gets_the_narrowest_type_of_all_its_values(tmp_path: Path, values: list[str], kind: str) -> None:
    assert kind_of(tmp_path, values) == kind


def test_codes_in_a_string_column_leave_the_numbers_beside_them_alone(tmp_path: Path) -> None:
    text = 'cab,n,s\n0694 - 59280,1,"x\n05"\n 0x7,2,y\n"""00",3,05\n'
    assert read_text(tmp_path, text)[0] == {"cab": "string", "n": "int", "s": "string"}
    assert read_text(tmp_path, text + "0694,007,z\n")[0] == {"cab": "string", "n": "string", "s": "string"}


@settings(max_examples=150, deadline=None)
@given(
    numbers=st.lists(st.sampled_from(["0", "7", "-0.5", "10", " 4", "", '"30"', "0e1", "1000"]), max_size=9),
    code=st.sampled_from(["007", "-01", " 02", " +00", "0x1", '"06"', '" -0X2"']),
    delimiter=st.sampled_from(",;|xA"),
    at_once=st.integers(1, 9),
    data=st.data(),
)
def test_a_code_at_any_place_makes_its_column_one_of_strings(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    numbers: list[str],
    code: str,
    delimiter: str,
    at_once: int,
    data: st.DataObject,
) -> None:
    assume(delimiter not in code)
    folder, place = tmp_path_factory.mktemp("csv"), data.draw(st.integers(0, len(numbers)))
    with_code = [*numbers[:place], code, *numbers[place:]]
    kinds = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse_module, "AT_ONCE", at_once)
        for values in (numbers, with_code):
            text = "".join(f"{value}{delimiter}10\n" for value in values)
            kinds.append(read_text(folder, f"n{delimiter}m\n{text}", delimiter=delimiter)[0])
    assert kinds[0].get("n") != "string"
    assert kinds[1] == {"n": "string", "m": "int"}


def test_a_value_in_the_last_block_widens_the_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "CHUNK", 64)
    assert kind_of(tmp_path, [*(["1"] * 500), "2.5"]) == "float"
    assert kind_of(tmp_path, [*([""] * 500), "x"]) == "string"
    assert kind_of(tmp_path, [*(["1"] * 500), "007"]) == "string"
    assert kind_of(tmp_path, ["x", *(["1"] * 500)]) == "string"


def test_types_hold_across_parts_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALLEST_PART", "LARGEST_PART"):
        monkeypatch.setattr(parts_module, name, 100)
    rows = [(str(i), f'"{i},\n""{i}"""') for i in range(200)]
    text = "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows) + "1.5,end\n"
    kinds, found = read_text(tmp_path, text)
    assert kinds == {"a": "float", "b": "string"}
    assert found == [*((float(i), f'{i},\n"{i}"') for i in range(200)), (1.5, "end")]


def test_declared_types_win_over_what_the_values_look_like(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("zip,n,f\n02134,007,3\n")
    kinds = {"zip": "string", "n": "int", "f": "float"}
    assert read(CsvSource(kind="csv", path=str(path)), kinds)[1] == [("02134", 7, 3.0)]


def test_types_come_from_a_schema_and_those_of_the_config_win(tmp_path: Path) -> None:
    (tmp_path / "s.pbtxt").write_text(
        'feature {name: "a" type: BYTES} feature {name: "b" type: FLOAT} feature {name: "c" type: INT} '
        'feature {name: "gone" type: INT}'
    )
    data = DataConfig.model_validate(
        {"source": {"kind": "csv", "path": "-"}, "schema": str(tmp_path / "s.pbtxt"), "types": {"b": "int"}}
    )
    assert declared_types(data, ["a", "b", "c", "d"]) == {"a": "string", "b": "int", "c": "int"}


def test_null_values_are_missing_unless_a_string_quotes_them(tmp_path: Path) -> None:
    kinds, rows = read_text(tmp_path, 'n,s\nNA,NA\n"NA","NA"\n3,""\n,x\n', null_values=("NA",))
    assert kinds == {"n": "int", "s": "string"}
    assert rows == [(None, None), (None, "NA"), (3, None), (None, "x")]


def test_a_column_of_nothing_but_quoted_null_values_is_a_string(tmp_path: Path) -> None:
    kinds, rows = read_text(tmp_path, 'n,s\n1,"NA"\n2,NA\n', null_values=("NA",))
    assert kinds == {"n": "int", "s": "string"}
    assert rows == [(1, "NA"), (2, None)]


def test_blank_lines_are_not_rows(tmp_path: Path) -> None:
    assert read_text(tmp_path, "\n\na,b\r\n\r\n1,2\r\n\r\n\r\n3,4")[1] == [(1, 2), (3, 4)]


def test_names_from_the_config_read_a_file_without_a_header(tmp_path: Path) -> None:
    kinds, rows = read_text(tmp_path, b"\xef\xbb\xbf1;x\n2;y\n", column_names=("n", "s"), delimiter=";")
    assert (kinds, rows) == ({"n": "int", "s": "string"}, [(1, "x"), (2, "y")])


def test_another_quote_character_frees_the_usual_one(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a,b\n'x,''y',5\"\n", quote="'")[1] == [("x,'y", '5"')]


def test_gzip_and_plain_files_read_together_in_the_order_of_their_paths(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("a\n3\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n1\n") + gzip.compress(b"2\n"))
    source = CsvSource(kind="csv", path=(str(tmp_path / "b.csv"), str(tmp_path / "*.gz")))
    assert read(source)[1] == [(1,), (2,), (3,)]


LATIN = "größe,stadt\n1,Köln\n2,Łódź\n".encode("cp1250")


def test_bytes_of_another_encoding_name_the_setting(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"header is not UTF-8.*\n.*data\.source\.encoding"):
        read_text(tmp_path, LATIN)
    with pytest.raises(DataError, match=r"(?s):2: .*not UTF-8.*data\.source\.encoding"):
        read_text(tmp_path, LATIN.replace("größe".encode("cp1250"), b"size"))
    kinds, rows = read_text(tmp_path, LATIN, encoding="cp1250")
    assert kinds == {"größe": "int", "stadt": "string"}
    assert rows == [(1, "Köln"), (2, "Łódź")]


def test_a_byte_that_an_encoding_lacks_is_reported_with_its_line_or_skipped(tmp_path: Path) -> None:
    text = b"x,y\n1,\xe9\n2,\x81\n3,\xe8\n"
    with pytest.raises(DataError, match=r":3: the byte 0x81 is not in cp1252"):
        read_text(tmp_path, text, encoding="windows-1252")
    (tmp_path / "g.csv").write_bytes(text)
    source = CsvSource(kind="csv", path=str(tmp_path / "g.csv"), encoding="cp1252")
    opened = open_source(source, None, ReadOptions(skip_bad=True))
    (part,) = opened.parts(serial_map)
    scan = opened.scan(part, {})
    assert [row["y"] for batch in opened.batches(part, scan.kinds) for row in batch.to_pylist()] == ["é", "è"]
    assert scan.skipped.count == 1


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "cp037", "rot13", "klingon"])
def test_encodings_of_several_bytes_are_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match=encoding):
        CsvSource(kind="csv", path="x.csv", encoding=encoding)


def test_a_decimal_comma_is_read_and_a_point_is_then_none(tmp_path: Path) -> None:
    kinds, rows = read_text(tmp_path, 'x;y;z\n1,5;3;1.5\n-0,25;4;"2,5"\n', delimiter=";", decimal=",")
    assert kinds == {"x": "float", "y": "int", "z": "string"}
    assert rows == [(1.5, 3, "1.5"), (-0.25, 4, "2,5")]
    with pytest.raises(ValueError, match="delimiter and decimal are both ','"):
        CsvSource(kind="csv", path="x.csv", decimal=",")


def test_files_that_end_in_tsv_have_tabs(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("x\ty\n1\t2,5\n")
    assert read(CsvSource(kind="csv", path=str(tmp_path / "f.tsv")))[1] == [(1, "2,5")]
    assert CsvSource(kind="csv", path=("a.tsv", "b.tsv.gz")).delimiter == "\t"
    assert CsvSource(kind="csv", path=("a.tsv", "b.csv")).delimiter == ","
    assert CsvSource(kind="csv", path="a.tsv", delimiter=";").delimiter == ";"


def test_a_type_for_no_column_is_refused(tmp_path: Path) -> None:
    data = DataConfig(source=CsvSource(kind="csv", path="-"), types={"fair": "int"})
    with pytest.raises(DataError, match="fair") as caught:
        declared_types(data, ["fare", "tips"])
    assert "fare" in caught.value.hint
