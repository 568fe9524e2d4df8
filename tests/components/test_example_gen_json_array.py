"""Files that are one JSON array: what Python's json module reads comes back, in whatever form it is written."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_rows import read_source, values_of

from headrace.common.errors import DataError
from headrace.components.sources import ScanResult, open_source, serial_map
from headrace.components.sources.jsonl import blocks as blocks_module
from headrace.components.sources.jsonl.array import ArrayText
from headrace.configs.schema.sources import JsonlSource, JsonSource

TRICKY = st.text('\\"[]{},:\n\u00e9 a', max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"s": TRICKY},
        optional={
            "n": st.integers(-9, 9),
            "l": st.lists(TRICKY, max_size=3),
            "o": st.fixed_dictionaries({"s": TRICKY}),
        },
    ),
    min_size=1,
    max_size=12,
)


def read(path: Path | str, **how: Any) -> tuple[ScanResult, list[dict[str, Any]]]:
    return read_source(JsonSource(kind="json", path=str(path)), **how)


def read_text(tmp_path: Path, text: str | bytes, **how: Any) -> tuple[ScanResult, list[dict[str, Any]]]:
    (tmp_path / "f.json").write_bytes(text.encode() if isinstance(text, str) else text)
    return read(tmp_path / "f.json", **how)


@settings(max_examples=80, deadline=None)
@given(
    rows=ROWS,
    chunk=st.sampled_from([7, 50, 1 << 21]),
    indent=st.sampled_from([None, 0, 2]),
    separators=st.sampled_from([(",", ":"), (", ", ": "), ("\r\n,\t", " :\n")]),
    ascii_only=st.booleans(),
    around=st.sampled_from([("", ""), ("\ufeff", "\n"), (" \n\n ", " \r\n")]),
)
def test_what_json_writes_comes_back(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    chunk: int,
    indent: int | None,
    separators: tuple[str, str],
    ascii_only: bool,
    around: tuple[str, str],
) -> None:
    path = tmp_path_factory.mktemp("array") / "f.json"
    text = json.dumps(rows, indent=indent, separators=separators, ensure_ascii=ascii_only)
    path.write_bytes((around[0] + text + around[1]).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "CHUNK", chunk)
        scan, found = read(path)
    assert scan.rows == {str(path): len(rows)}
    expected = [{"s": row["s"], "n": row.get("n"), "l": row.get("l"), "o.s": row.get("o", {}).get("s")} for row in rows]
    assert [values_of(row) for row in found] == list(map(values_of, expected))


def test_offsets_stay_those_of_the_file(tmp_path: Path) -> None:
    text = b' [ {"a":"]\\\\\\",\n"} ,\r\n{"a": [1,2]}\n]\n'
    (tmp_path / "f.json").write_bytes(text)
    for size in range(1, len(text) + 1):
        with (tmp_path / "f.json").open("rb") as stream:
            array = ArrayText("f.json", stream)
            read = b"".join(iter(lambda: array.read(size), b""))  # noqa: B023
        assert read == b'   {"a":"]\\\\\\",\n"} \n  {"a": [1,2]}   '


@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_what_pandas_writes_is_read_from_all_files_in_order(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"n": range(1000), "x": [i / 4 for i in range(1000)], "s": [f"t{i}" for i in range(1000)]})
    frame[:600].to_json(tmp_path / f"a.{ending}", orient="records")
    frame[600:].to_json(tmp_path / f"b.{ending}", orient="records", indent=4)
    scan, rows = read(tmp_path / f"*.{ending}")
    assert scan.kinds == {"n": "int", "x": "float", "s": "string"}
    assert list(scan.rows.values()) == [600, 400]
    pd.testing.assert_frame_equal(pd.DataFrame(rows), frame)


BAD = [
    ('{"a":1', "is not one JSON object"),
    ("7", "not a JSON object, but a number"),
    ("[1]", "not a JSON object, but a list"),
    ('{"a":1} {"a":2}', "Extra data"),
    ('{"a":NaN}', "NaN is not a JSON number"),
    ('{"a":{"b":1}}', "an object here"),
    ('{"a":"x\ty"}', "is not one JSON object"),
]


@pytest.mark.parametrize(("element", "words"), BAD[1:])
def test_a_bad_element_is_reported_with_its_line_or_skipped(tmp_path: Path, element: str, words: str) -> None:
    text = "[\n" + '  {"a":\n1},\n' * 5 + f"  {element},\n" + '{"a":2}\n]'
    with pytest.raises(DataError, match=words) as caught:
        read_text(tmp_path, text)
    assert caught.value.line == 12
    assert "jsonl" not in caught.value.hint
    scan, rows = read_text(tmp_path, text, skip_bad=True)
    assert (scan.skipped.count, [row["a"] for row in rows]) == (1, [1, 1, 1, 1, 1, 2])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "the file is empty"),
        (" \n ", 2, "not closed"),
        ('{"a":1}\n{"a":2}', 1, "starts with"),
        ("\n\nnull", 3, "starts with"),
        ('[{"a":1},\n{"a":2}', 2, "`]` is missing"),
        ('[{"a":1},\n{"a":{}', 2, "2 brackets are missing"),
        ('[{"a":1},\n{"a":"x', 2, "in a string"),
        ('[{"a":1}]\n[{"a":2}]', 2, "follows"),
        ('[{"a":1},\n{"a":1}}, {"a":2}]', 2, "follows"),
        ('[{"a":1}]\n]', 2, "follows"),
        ('[{"a":1},\n,{"a":2}]', 2, "no element before this comma"),
        ('[\n\n,{"a":1}]', 3, "no element before this comma"),
        ('[{"a":1},\n{"a":2},\n\n]', 2, "no element after this comma"),
        ('[{"a":1},\n{"a":[1, 2]}\n, \n, {"a":2},]', 4, "no element before this comma"),
        ("[,\n]", 1, "no element before this comma"),
    ],
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_what_is_not_one_array_stops_the_run(
    tmp_path: Path, text: str, line: int, words: str, *, skip_bad: bool
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_text(tmp_path, text, skip_bad=skip_bad)
    assert (Path(str(caught.value.file)).name, caught.value.line) == ("f.json", line)


def test_an_array_as_json_lines_names_the_kind_for_it_and_the_other_way_round(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, '{"a":1}\n')
    assert "kind: jsonl" in caught.value.hint
    opened = open_source(JsonlSource(kind="jsonl", path=str(tmp_path / "f.json")))
    (tmp_path / "f.json").write_text('[{"a":1},\n{"a":2}]', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        opened.scan(opened.parts(serial_map)[0], {})
    assert "kind: json`" in caught.value.hint


def test_a_truncated_gzip_file_keeps_its_whole_elements_where_bad_ones_are_skipped(tmp_path: Path) -> None:
    text = json.dumps([{"a": number} for number in range(5000)], indent=1).encode()
    (tmp_path / "f.json.gz").write_bytes(gzip.compress(text)[:-1000])
    with pytest.raises(DataError, match="truncated"):
        read(tmp_path / "f.json.gz")
    scan, rows = read(tmp_path / "f.json.gz", skip_bad=True)
    assert 100 < len(rows) < 5000
    assert [row["a"] for row in rows] == list(range(len(rows)))
    assert scan.skipped.count == 1


ELEMENT = st.sampled_from(['{"a":1}', '{"a":[1,2],"s":",,]"}', "[1,[]]", '",]"', "7", "null", "[]", "{}"])
GAP = st.sampled_from(["", " ", "\n", "\r\n\t"])


@settings(max_examples=150, deadline=None)
@given(parts=st.lists(st.tuples(GAP, ELEMENT | st.just(""), GAP), max_size=5), size=st.integers(1, 9))
def test_an_array_with_a_missing_element_is_refused_as_by_the_json_module(
    *, tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str, str]], size: int
) -> None:
    text = f"[{','.join(map(''.join, parts))}]".encode()
    path = tmp_path_factory.mktemp("array") / "f.json"
    path.write_bytes(text)
    array = ArrayText(str(path), io.BytesIO(text))
    try:
        expected: Any = json.loads(text)
    except ValueError:
        expected = None
    try:
        lines = b"".join(iter(lambda: array.read(size), b"")).replace(b"\r", b"").split(b"\n")
    except DataError as error:
        assert expected is None
        assert "no element" in error.what  # noqa: PT017
    else:
        assert [json.loads(line) for line in lines if line.strip()] == expected
