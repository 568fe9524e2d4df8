"""Reading JSON lines: what Python's json module reads comes back, and what it cannot be sure of is reported."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.examples import parts as parts_module
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.jsonl import blocks as blocks_module
from headrace.components.sources.jsonl import fast
from headrace.configs.schema.sources import JsonlSource

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=5) | st.sampled_from(["2024-01-31", "2024-01-31T12:00:00", "12:30", "null", "[null]", "NaN"])
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = {"int": INT64 | st.booleans(), "float": INT64 | FLOAT, "string": TEXT}


def read(
    path: str, declared: dict | None = None, columns: tuple[str, ...] | None = None, *, skip_bad: bool = False
) -> tuple[ScanResult, list[dict[str, Any]]]:
    """What the scan says, and all the rows."""
    opened = open_source(JsonlSource(kind="jsonl", path=path), options=ReadOptions(columns, skip_bad))
    cut = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared or {}) for part in cut), ScanResult())
    kinds = {**scan.kinds, **(declared or {})}
    return scan, [row for part in cut for batch in opened.batches(part, kinds) for row in batch.to_pylist()]


def read_text(
    tmp_path: Path, text: str | bytes, declared: dict | None = None, **how: Any
) -> tuple[ScanResult, list[dict]]:
    (tmp_path / "f.jsonl").write_bytes(text.encode() if isinstance(text, str) else text)
    return read(str(tmp_path / "f.jsonl"), declared, **how)


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Objects whose keys have one kind each, scalar or list, null here and there."""
    columns = {}
    for name in ("a", "b", "é"):
        value = SCALARS[draw(st.sampled_from(sorted(SCALARS)))]
        several = draw(st.sampled_from([value, st.lists(value, max_size=3), value | st.lists(value, max_size=2)]))
        columns[name] = st.none() | several
    return draw(st.lists(st.fixed_dictionaries({}, optional=columns), min_size=1, max_size=15))


def expected_kind(values: list[Any]) -> str:
    """The narrowest kind of the values of a key."""
    items = [item for value in values if value is not None for item in (value if isinstance(value, list) else [value])]
    listed = any(isinstance(value, list) and value for value in values)
    inner = (
        "missing" if not items else
        "string" if isinstance(items[0], str) else
        "int" if all(isinstance(item, int) for item in items) else "float"
    )  # fmt: skip
    return f"{inner} list" if listed else inner


def expected_value(value: Any, kind: str) -> Any:
    if kind.startswith("float") and value is not None:
        value = [float(item) for item in value] if isinstance(value, list) else float(value)
    if kind.endswith(" list"):
        return value if value is None or isinstance(value, list) else [value]
    return None if value == [] else value


@settings(max_examples=150, deadline=None)
@given(
    table=tables(),
    chunk=st.sampled_from([20, 150, 1 << 21]),
    length=st.sampled_from([40, 1 << 24]),
    ascii_only=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n", "\n\n", " \n"]),
    mark=st.booleans(),
)
def test_what_json_writes_comes_back(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    table: list[dict[str, Any]],
    chunk: int,
    length: int,
    ascii_only: bool,
    ending: str,
    mark: bool,
) -> None:
    assume(any(table))
    path = tmp_path_factory.mktemp("jsonl") / "f.jsonl"
    text = ending.join(json.dumps(row, ensure_ascii=ascii_only) for row in table) + ending
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "CHUNK", chunk)
        patch.setattr(parts_module, "SMALLEST_PART", length)
        scan, rows = read(str(path))
    names = {name for row in table for name in row}
    assert scan.kinds == {name: expected_kind([row.get(name) for row in table]) for name in names}
    assert scan.rows == {str(path): len(table)}
    assert rows == [{name: expected_value(row.get(name), scan.kinds[name]) for name in rows[0]} for row in table]


def test_most_blocks_are_read_by_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "CHUNK", 4000)
    taken: list[bool] = []
    monkeypatch.setattr(fast.BlockReader, "read", _reported(fast.BlockReader.read, taken))
    rows: list[dict[str, Any]] = [
        {"n": i, "x": i / 2, "ok": i % 2 == 0, "when": f"2024-01-{i % 28 + 1:02d}", "tags": ["a"] * (i % 3), "s": None}
        for i in range(1000)
    ]
    found = read_text(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))[1]
    assert found == [{**row, "ok": int(row["ok"])} for row in rows]
    assert len(taken) > 20
    assert all(taken)


def _reported(function: Any, results: list[bool]) -> Any:
    def call(*args: Any) -> Any:
        found = function(*args)
        results.append(found is not None)
        return found

    return call


BAD = [
    (b'{"a":1', "not one JSON object"),
    (b"[1, 2]", "not a JSON object, but a list"),
    (b"7", "not a JSON object, but a number"),
    (b"null", "not a JSON object, but null"),
    (b'{"a":1} {"a":2}', "not one JSON object: Extra data"),
    (b'{"a":1}, ', "not one JSON object: Extra data"),
    (b'{"a":"\xe9"}', "not UTF-8"),
    (b'{"a":1}\0', "zero bytes"),
    (b'{"a":{"c":1}}', "an object here, but not in other records"),
    (b'{"a":[{"c":1}]}', "an object here, but not in other records"),
    (b'{"a":[[1]]}', "a list with a list"),
    (b'{"a":[1,null]}', "a list with null"),
    (b'{"a":[null,1]}', "a list with null"),
    (b'{"a":[{},1]}', "a list with an object"),
    (b'{"a":NaN}', "NaN is not a JSON number"),
    (b'{"a":-Infinity}', "-Infinity is not a JSON number"),
    (b'{"a":1e999}', "beyond the largest float"),
    (b'{"a":18446744073709551615}', "beyond int64"),
    (b'{"a":-9223372036854775809}', "beyond int64"),
    (b'{"a":' + b"9" * 6000 + b"}", "beyond"),
    (b'{"a":1,"a":2}', "twice"),
    (b'{"a":"\\ud800"}', "half of a surrogate pair"),
    (b'{"a":01}', "not one JSON object"),
    (b"{'a':1}", "not one JSON object"),
    (b'{"a":"x\ty"}', "not one JSON object"),
    (b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}", "nested too deeply"),
    (b'{"a":' * 20000 + b"1" + b"}" * 20000, "nested too deeply"),
]


@pytest.mark.parametrize(("line", "words"), BAD)
def test_a_bad_line_is_reported_with_its_place(tmp_path: Path, line: bytes, words: str) -> None:
    good = b'{"a":1,"b":"x"}\n{"a":2.5}\n' * 50
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, good + line + b"\n" + good)
    assert (Path(str(caught.value.file)).name, caught.value.line) == ("f.jsonl", 101)
    assert words in caught.value.what


@pytest.mark.parametrize("pruned", [None, ("a",), ("a", "c")])
@pytest.mark.parametrize("chunk", [1 << 21, 64])
def test_bad_lines_are_left_out_where_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pruned: tuple[str, ...] | None, chunk: int
) -> None:
    monkeypatch.setattr(blocks_module, "CHUNK", chunk)
    good: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2.5}] * 50
    text = b"".join(
        json.dumps(row).encode() + b"\n" + line + b"\n" for row, (line, _) in zip(good, BAD * 4, strict=False)
    )
    scan, rows = read_text(tmp_path, text, columns=pruned, skip_bad=True)
    assert [row["a"] for row in rows] == [row["a"] for row in good]
    assert sum(scan.rows.values()) == 100
    assert scan.skipped.count == 100
    assert len(scan.skipped.reported) == 20
    assert scan.skipped.reported[0].startswith(f"{tmp_path}/f.jsonl:2: ")


def test_numbers_and_strings_in_one_key_are_refused_even_where_bad_lines_are_left_out(tmp_path: Path) -> None:
    text = '{"a":1}\n' * 500 + '{"a":"x"}\n'
    for skip_bad in (False, True):
        with pytest.raises(DataError, match=r"a string here, .*number") as caught:
            read_text(tmp_path, text, skip_bad=skip_bad)
        assert caught.value.line == 501
        assert "data.types.a: string" in str(caught.value)


def test_numbers_declared_as_string_keep_the_text_they_are_written_in(tmp_path: Path) -> None:
    text = '{"a":1.50}\n{"a":"x"}\n{"a":18446744073709551615}\n{"a":true}\n{}\n'
    scan, rows = read_text(tmp_path, text, {"a": "string"})
    assert scan.kinds == {"a": "string"}
    assert [row["a"] for row in rows] == ["1.50", "x", "18446744073709551615", "true", None]


@pytest.mark.parametrize("exactly", [False, True])
def test_declared_integers_may_be_written_as_floats(tmp_path: Path, exactly: bool) -> None:
    also = ', "b": [1, null]}' if exactly else "}"  # a null in a list is what pyarrow is not trusted with
    text = "".join(f'{{"n": {n}{"}" if row else also}\n' for row, n in enumerate(["12345.0", "null", "-7.00", "8"]))
    kinds = {"n": "int"}
    assert [row["n"] for row in read_text(tmp_path, text, kinds, columns=("n",))[1]] == [12345, None, -7, 8]
    with pytest.raises(DataError, match=r"jsonl:2: column 'n': 2\.5 is not an int"):
        read_text(tmp_path, '{"n": 1.0}\n{"n": 2.5}\n', kinds)


def test_an_integer_beyond_int64_is_a_float_where_no_digit_is_lost(tmp_path: Path) -> None:
    scan, rows = read_text(tmp_path, '{"a":100000000000000000000}\n{"a":1}\n')
    assert scan.kinds == {"a": "float"}
    assert [row["a"] for row in rows] == [1e20, 1.0]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("int", "1.5", "1.5 is not an int"),
        ("int", '"7"', '"7" is not an int'),
        ("float", '"x"', '"x" is not a float'),
        ("int", "[1]", "is a list, not an int"),
        ("int list", '["x"]', 'a list with "x"'),
    ],
)
def test_a_value_not_of_its_declared_type_is_reported(tmp_path: Path, kind: str, value: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, '{"a":null}\n{"a":' + value + "}\n", {"a": kind})
    assert (caught.value.line, caught.value.column) == (2, "a")
    assert words in caught.value.what


def test_scalars_of_a_list_column_are_lists_of_one(tmp_path: Path) -> None:
    scan, rows = read_text(tmp_path, '{"a":1}\n{"a":[2,3]}\n{"a":[]}\n{"a":null}\n')
    assert scan.kinds == {"a": "int list"}
    assert [row["a"] for row in rows] == [[1], [2, 3], [], None]


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    text = '{"a":1,"b":{"c":1},"d":"x"}\n{"a":2,"b":3}\n'
    scan, rows = read_text(tmp_path, text, columns=("a", "d"))
    assert scan.kinds == {"a": "int", "d": "string"}
    assert rows == [{"a": 1, "d": "x"}, {"a": 2, "d": None}]


def test_columns_come_from_the_first_lines(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"b":1}\nnonsense\n{"a":1,"b":{"x":1}}\n')
    source = JsonlSource(kind="jsonl", path=str(tmp_path / "f.jsonl"))
    assert open_source(source).columns() == ["b", "a"]


def test_a_gzip_file_cut_off_keeps_its_whole_lines_where_bad_ones_are_left_out(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(b'{"a":%d}\n' % i for i in range(1000)))
    (tmp_path / "f.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match="truncated"):
        read(str(tmp_path / "f.jsonl.gz"))
    scan, rows = read(str(tmp_path / "f.jsonl.gz"), skip_bad=True)
    assert 100 < len(rows) < 1000
    assert [row["a"] for row in rows] == list(range(len(rows)))
    assert scan.skipped.count == 1
    assert f":{len(rows) + 1}: " in scan.skipped.reported[0]
