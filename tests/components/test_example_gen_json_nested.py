"""Nested JSON: the columns that pandas.json_normalize makes of objects, and those of lists of objects."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_rows import read_source, values_of

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.jsonl import blocks as blocks_module
from headrace.components.sources.jsonl import fast
from headrace.components.sources.nested import check_objects
from headrace.components.sources.streams import LineRange
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import JsonlSource

SCALAR = {"n": st.integers(-9, 9), "x": st.floats(-9, 9), "s": st.text(max_size=3), "t": st.just("2024-01-31")}
HOME = st.fixed_dictionaries({}, optional={**SCALAR, "lists": st.lists(st.integers(0, 9), max_size=3)})
USER = st.fixed_dictionaries({}, optional={**SCALAR, "home": HOME})
ROW = st.fixed_dictionaries({"id": st.integers(0, 9)}, optional={"user": st.none() | USER, **SCALAR})


def read(path: Path, *args: Any, **how: Any) -> tuple[ScanResult, list[dict[str, Any]]]:
    return read_source(JsonlSource(kind="jsonl", path=str(path)), *args, **how)


def read_text(tmp_path: Path, text: str, *args: Any, **how: Any) -> tuple[ScanResult, list[dict[str, Any]]]:
    (tmp_path / "f.jsonl").write_text(text, encoding="utf-8")
    return read(tmp_path / "f.jsonl", *args, **how)


def read_rows(folder: Path, rows: list[dict[str, Any]], chunk: int, *, by_line: bool) -> list[dict[str, Any]]:
    """What is read of a file with these rows, in blocks of `chunk` bytes; by_line: without pyarrow."""
    path = folder / "f.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "CHUNK", chunk)
        if by_line:
            patch.setattr(fast.BlockReader, "read", lambda *_: None)
        return read(path)[1]


def normalized(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as pandas flattens them."""
    flat = [pd.json_normalize(row).astype(object).to_dict("records")[0] for row in rows]
    return [values_of(row) for row in flat]


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=12), chunk=st.sampled_from([60, 1 << 21]), by_line=st.booleans())
def test_objects_are_the_columns_that_pandas_makes_of_them(
    *, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], chunk: int, by_line: bool
) -> None:
    found = read_rows(tmp_path_factory.mktemp("nested"), rows, chunk, by_line=by_line)
    assert [values_of(row) for row in found] == normalized(rows)


ITEM = st.fixed_dictionaries({}, optional={"price": st.integers(0, 9) | st.none(), "name": st.text(max_size=2)})
BASKET = st.fixed_dictionaries(
    {"id": st.integers(0, 9)},
    optional={"items": st.lists(ITEM, max_size=3) | st.none(), "in": st.just({"a": [{"b": 1}]})},
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(BASKET, min_size=1, max_size=8), chunk=st.sampled_from([60, 1 << 21]), by_line=st.booleans())
def test_a_list_of_objects_is_a_list_of_the_values_of_each_key(
    *, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], chunk: int, by_line: bool
) -> None:
    found = read_rows(tmp_path_factory.mktemp("nested"), rows, chunk, by_line=by_line)
    expected = [
        values_of(
            {
                "id": row["id"],
                **{
                    f"items.{key}": [item[key] for item in row.get("items") or () if item.get(key) is not None]
                    for key in ("price", "name")
                },
                "in.a.b": [1] if "in" in row else None,
            }
        )
        for row in rows
    ]
    assert [values_of(row) for row in found] == expected


def test_nested_blocks_are_read_by_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "CHUNK", 4000)
    taken: list[bool] = []
    own = fast.BlockReader.read

    def reported(*args: Any) -> Any:
        taken.append((found := own(*args)) is not None)
        return found

    monkeypatch.setattr(fast.BlockReader, "read", reported)
    rows = [{"u": {"n": i, "when": "2024-01-31", "e": None}, "l": [{"p": i / 2}] * (i % 3)} for i in range(500)]
    scan, found = read_text(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert scan.kinds == {"u.n": "int", "u.when": "string", "u.e": "missing", "l.p": "float list"}
    assert [row["l.p"] for row in found] == [[i / 2] * (i % 3) or None for i in range(500)]
    assert all(taken)
    assert len(taken) > 10


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"c":[{"d":[1]},{"d":[2]}]}', "a list with a list"),
        ('{"c":[{"d":1},null]}', "a list with"),
        ('{"c":[{},null]}', "a list with"),
        ('{"c":{"d":1,"d":2}}', "twice"),
        ('{"c":{"d":1},"c.d":2}', "twice"),
        ('{"c":[{"d":1,"d":2}]}', "twice"),
        ('{"c":[{"d":{"e":"x"}}, {"d":{"e":1}}]}', "a list of strings and other values"),
    ],
)
def test_what_no_column_can_hold_is_reported_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_text(tmp_path, '{"a":1}\n' * 9 + line + "\n")
    assert caught.value.line == 10
    assert str(caught.value.column).startswith("c")


def test_null_in_the_place_of_an_object_is_no_column_of_its_own(tmp_path: Path) -> None:
    scan, rows = read_text(tmp_path, '{"u":null,"l":[]}\n{"u":{"n":1},"l":[{"p":1}]}\n{"u":{},"l":null}\n')
    assert scan.kinds == {"u.n": "int", "l.p": "int list"}
    assert [values_of(row) for row in rows] == [{}, {"u.n": 1, "l.p": [1]}, {}]


def test_an_object_in_the_place_of_a_value_is_a_bad_record(tmp_path: Path) -> None:
    text = '{"u":1}\n{"u":{"n":2}}\n{"u":3}\n'
    with pytest.raises(DataError, match="an object here") as caught:
        read_text(tmp_path, text)
    assert (caught.value.line, caught.value.column) == (2, "u")
    scan, rows = read_text(tmp_path, text, skip_bad=True)
    assert (scan.skipped.count, rows) == (1, [{"u": 1}, {"u": 3}])
    assert values_of(read_text(tmp_path, text, columns=("u.n",))[1][1]) == {"u.n": 2}


@pytest.mark.parametrize("objects_first", [True, False])
def test_objects_and_values_of_a_key_in_different_parts_stop_the_run(tmp_path: Path, *, objects_first: bool) -> None:
    lines = ['{"a":1,"u":{"n":1}}\n', '{"a":1,"u":2}\n']
    for name, line in zip("pq", lines if objects_first else lines[::-1], strict=True):
        (tmp_path / f"{name}.jsonl").write_text('{"a":1}\n' * 300 + line, encoding="utf-8")
    source = JsonlSource(kind="jsonl", path=f"{tmp_path}/*.jsonl")
    opened = open_source(source)
    scans = [opened.scan((LineRange(f"{tmp_path}/{name}.jsonl"),), {}) for name in "pq"]
    assert [scan.kinds.get("u.n") for scan in scans] == (["int", None] if objects_first else [None, "int"])
    with_object = f"{tmp_path}/{'p' if objects_first else 'q'}.jsonl"
    assert sum(scans, ScanResult()).objects == {"u": with_object}
    with pytest.raises(DataError, match=r"'u\.n'") as caught:
        check_objects(sum(scans, ScanResult()).kinds, sum(scans, ScanResult()).objects)
    assert (caught.value.file, caught.value.column) == (with_object, "u")


@pytest.mark.parametrize("value", ["2", "null"])
def test_examples_are_not_written_of_a_key_with_objects_in_one_split_and_values_in_another(
    tmp_path: Path, value: str
) -> None:
    paths = {split: f"{tmp_path}/{split}.jsonl" for split in ("train", "eval")}
    for split, own in zip(paths, ('{"n":1}', value), strict=True):
        Path(paths[split]).write_text('{"a":1,"u":null}\n' * 300 + f'{{"a":1,"u":{own}}}\n' * 9, encoding="utf-8")
    data = DataConfig.model_validate({"source": {"kind": "jsonl", "path": paths}, "splits": {"train": 1, "eval": 1}})
    if value == "null":
        result = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
        assert (dict(result.rows), result.kinds["u.n"]) == ({"train": 309, "eval": 309}, "int")
        return
    with pytest.raises(DataError, match="object in others") as caught:
        ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    assert (caught.value.file, caught.value.column) == (paths["train"], "u")
    assert list((tmp_path / "out").iterdir()) == []


def test_objects_and_values_of_a_key_after_the_first_lines_stop_the_run(tmp_path: Path) -> None:
    text = '{"a":1}\n' * 300 + '{"a":1,"u":{"n":1}}\n{"a":1,"u":2}\n'
    with pytest.raises(DataError, match=r"'u\.n'") as caught:
        read_text(tmp_path, text, skip_bad=True)
    assert caught.value.column == "u"
    assert "data.columns" in caught.value.hint


@pytest.mark.parametrize("by_line", [False, True])
@pytest.mark.parametrize("chunk", [30, 1 << 21])
def test_a_dot_in_a_flat_name_makes_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, *, by_line: bool
) -> None:
    monkeypatch.setattr(blocks_module, "CHUNK", chunk)
    if by_line:
        monkeypatch.setattr(fast.BlockReader, "read", lambda *_: None)
    rows: list[dict[str, Any]] = [{"x": 1, "x.1": 2.5, "x.1.y": "a"}, {"x.1": 3.5}, {"x": 4, "x.1": None, "x.1.y": "b"}]
    text = "\n".join(map(json.dumps, rows))
    scan, found = read_text(tmp_path, text)
    assert scan.kinds == {"x": "int", "x.1": "float", "x.1.y": "string"}
    assert [values_of(row) for row in found] == [values_of(row) for row in rows]
    assert [values_of(row) for row in read_text(tmp_path, text, columns=("x", "x.1"))[1]][2] == {"x": 4}
    scan, found = read_text(tmp_path, text + '\n{"x": {"z": 1}}\n{"x": 5}', skip_bad=True)
    assert (scan.skipped.count, found[-1]["x"], list(scan.kinds)) == (1, 5, ["x", "x.1", "x.1.y"])


def test_flat_names_may_start_with_a_column_that_is_null_at_first(tmp_path: Path) -> None:
    scan, rows = read_text(tmp_path, '{"x":null,"x.1":1}\n' * 300 + '{"x":7,"x.1":2}\n')
    assert (scan.kinds, rows[-1]) == ({"x": "int", "x.1": "int"}, {"x": 7, "x.1": 2})


def test_nested_columns_can_be_chosen_and_declared(tmp_path: Path) -> None:
    text = '{"u":{"n":7,"s":"x","deep":[[1]]},"v":[[2]]}\n{"u":{"n":8,"s":null}}\n'
    rows = read_text(tmp_path, text, {"u.n": "string"}, columns=("u.n", "u.s"))[1]
    assert rows == [{"u.n": "7", "u.s": "x"}, {"u.n": "8", "u.s": None}]
    source = JsonlSource(kind="jsonl", path=str(tmp_path / "f.jsonl"))
    assert open_source(source).columns() == ["u.n", "u.s", "u.deep", "v"]
    lengths = open_source(source, options=ReadOptions(("u.n",)))
    assert lengths.columns() == ["u.n"]


@pytest.mark.parametrize("depth", [90, 490, 900])
def test_deep_nesting_is_read_or_refused(tmp_path: Path, depth: int) -> None:
    line = '{"a":' * depth + '{"when":"2024-01-31","e":null}' + "}" * depth
    try:
        rows = read_text(tmp_path, line)[1]
    except DataError as error:
        assert depth > 100
        assert "nested too deeply" in error.what  # noqa: PT017
    else:
        assert rows == [{"a." * depth + "when": "2024-01-31", "a." * depth + "e": None}]
