"""Configs that `headrace init` writes: any table gives one that loads, and names each column once."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError, RunError
from headrace.components.inference import sample as sample_module
from headrace.components.inference.columns import LEFT_OUT
from headrace.components.inference.sample import Sample, read_sample
from headrace.components.inference.table import infer
from headrace.components.sources.types import ARROW, Kind
from headrace.components.spans.find import find_spans
from headrace.configs.loading.loader import load
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.features import VocabularyFeature
from headrace.configs.schema.features.calendar import pattern_of
from headrace.pipeline.init.dated import dated_path
from headrace.pipeline.init.document import WIDTH, Draft, document
from headrace.pipeline.init.source import given_source
from headrace.pipeline.init.write import write

ROWS = 40
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
VALUES: dict[Kind, Any] = {
    "int": st.integers(-(2**40), 2**40) | st.integers(0, 3),
    "float": st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0]),
    "string": TEXTS | st.sampled_from(["yes", "no", "2026-11-21", "a|b", "it is not: so # bad", "'", "1.0", "null"]),
    "string list": st.lists(TEXTS, max_size=3),
}


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    kinds: dict[str, Kind] = {name: draw(st.sampled_from([*VALUES])) for name in names}
    kinds[names[0]] = "int"
    columns = {}
    for name, kind in kinds.items():
        pool = draw(st.lists(VALUES[kind] | st.none(), min_size=1, max_size=ROWS))
        columns[name] = pa.array([pool[row % len(pool)] for row in range(ROWS)], ARROW[kind])
    columns[names[0]] = pa.array([row % 3 // 2 for row in range(ROWS)], pa.int64())
    return Sample(pa.table(columns), kinds, whole=True)


@pytest.mark.slow
@settings(deadline=None)
@given(samples())
def test_any_table_gives_a_config_that_loads_and_tells_of_each_column(sample: Sample) -> None:
    label = sample.names[0]
    found = infer(sample, label)
    draft = Draft(
        "rows", "rows.yaml", {"kind": "parquet", "path": "x.parquet"}, (label,), sample, found, "headrace init"
    )
    text = document(draft)
    if not draft.used:
        return
    config = load(yaml.safe_load(text))
    assert config.label.key == label
    features = config.declared_features.items()
    read = {column for name, feature in features for column in feature.column_settings(name).values()}
    left_out = {choice.column for choice in found.choices if choice.group == LEFT_OUT}
    assert read == {*sample.names} - left_out - {label}


@pytest.mark.slow
@settings(deadline=None)
@given(samples())
def test_any_two_labels_become_tasks_with_metrics_and_thresholds_of_their_own(sample: Sample) -> None:
    first, *others = sample.names
    if not others:
        return
    second = others[0]
    table = sample.table.set_column(1, second, pa.array([row % 5 // 3 for row in range(ROWS)], pa.int64()))
    both = Sample(table, {**sample.kinds, second: "int"}, whole=True)
    found = infer(both, first, second)
    draft = Draft("rows", "rows.yaml", {"kind": "parquet", "path": "x.parquet"}, (first, second), both, found, "init")
    text = document(draft)
    if not draft.used:
        return
    config = load(yaml.safe_load(text))
    assert config.label.columns == (first, second)
    assert [*config.label.kinds.values()] == ["binary", "binary"]
    assert [*config.evaluate.thresholds] == [f"{name}/auc" for name in config.label.kinds]
    features = config.declared_features.items()
    read = {column for name, feature in features for column in feature.column_settings(name).values()}
    assert not read & {first, second}


@pytest.mark.parametrize("first", ["contradiction", "broken"])
def test_json_records_that_contradict_others_hide_no_bad_ones(tmp_path: Path, first: str) -> None:
    rows = [json.dumps({"x": row * 7 % 40, "z": row / 2, "y": row % 2}) for row in range(60)]
    bad = {"contradiction": '{"x": "many", "z": 1, "y": 0}', "broken": '{"x": 1'}
    rows[5], rows[9] = bad.pop(first), bad.popitem()[1]
    rows[30], rows[40] = '{"x": 1,,', '{"x": 1, "z": "two", "y": 0}'
    (tmp_path / "a.jsonl").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        write(tmp_path / "a.yaml", "a", {"kind": "jsonl", "path": str(tmp_path / "a.jsonl")}, ("y",), str)
    assert sorted(map(int, re.findall(r"a\.jsonl:(\d+): ", str(caught.value)))) == [6, 10, 31, 41]
    assert ("`--on-bad-record skip`" in str(caught.value)) is (first == "broken")
    assert str(caught.value).count("write a config with `data.types.") == 2 == str(caught.value).count("data.types")


@pytest.mark.parametrize(
    ("name", "values", "suggested"),
    [
        ("customer_id", [f"C{row // 3}" for row in range(300)], True),
        ("userId", [row // 3 for row in range(300)], True),
        ("patient", [row // 3 if row % 5 else None for row in range(300)], True),
        ("customer_id", [f"C{row}" for row in range(300)], False),
        ("customer_id", [f"C{row % 20}" for row in range(300)], False),
        ("amount", [row // 3 for row in range(300)], False),
        ("Kundennr", [row // 3 for row in range(300)], True),
        ("Patienten-Nummer", [row // 3 for row in range(300)], True),
        ("Hausnummer", [row // 3 for row in range(300)], False),
    ],
)
def test_a_column_of_customers_is_suggested_as_the_split_key(name: str, values: list[Any], suggested: bool) -> None:
    table = pa.table({"y": [0, 1, 0, 1] * 75, "x": [row % 37 / 2 for row in range(300)], name: values})
    kind: Kind = "string" if isinstance(values[0], str) else "int"
    sample = Sample(table, {"y": "int", "x": "float", name: kind}, whole=True)
    source = {"kind": "csv", "path": "x.csv"}
    text = document(Draft("rows", "rows.yaml", source, ("y",), sample, infer(sample, "y"), "headrace init"))
    assert (f"\n  # split_key: {name}\n" in text) is suggested
    assert load(yaml.safe_load(text)).data.split_key is None
    if suggested:
        edited = text.replace("  # split_key:", "  split_key:")
        assert load(yaml.safe_load(edited)).data.split_keys == (name,)


def written(tmp_path: Path, table: pa.Table, label: str) -> str:
    """The config that is written for a Parquet file."""
    pq.write_table(table, tmp_path / "rows.parquet")
    source = given_source(str(tmp_path / "rows.parquet"))
    write(tmp_path / "rows.yaml", "rows", source, (label,), lambda labels: f"headrace init --label {labels[0]}")
    text = (tmp_path / "rows.yaml").read_text(encoding="utf-8")
    load(yaml.safe_load(text))
    return text


@pytest.mark.parametrize(("rare", "stratified"), [(30, True), (1000, False)])
def test_of_a_rare_class_each_split_gets_its_share(tmp_path: Path, rare: int, stratified: bool) -> None:
    table = pa.table({"fault": ["yes"] * rare + ["no"] * (3000 - rare), "x": [row % 37 / 2 for row in range(3000)]})
    assert (yaml.safe_load(written(tmp_path, table, "fault"))["data"].get("stratify", False)) is stratified


@pytest.mark.parametrize(("sorted_", "step"), [(True, 1), (False, 7)])
def test_rows_in_the_order_of_time_are_noticed(tmp_path: Path, sorted_: bool, step: int) -> None:
    start = dt.datetime(2026, 1, 1)
    times = [(start + dt.timedelta(hours=row * step % 300)).isoformat() for row in range(300)]
    table = pa.table({"sold": [row % 37 / 2 for row in range(300)], "at": times, "x": [row % 5 for row in range(300)]})
    text = written(tmp_path, table, "sold")
    assert ("\n  # split_by: at\n" in text) is sorted_
    edited = yaml.safe_load(text.replace("  # split_by:", "  split_by:"))
    assert load(edited).data.split_by == ("at" if sorted_ else None)


def test_columns_that_no_feature_can_hold_are_left_out_with_the_reason(tmp_path: Path) -> None:
    rows = 200
    tags, names = pa.array([[("k", row)] for row in range(rows)], pa.map_(pa.string(), pa.int64())), [[["a"]]] * rows
    table = pa.table({"y": [row % 2 for row in range(rows)], "tags": tags, "x": [row / 3 for row in range(rows)]})
    text = written(tmp_path, table.append_column("names", pa.array(names)), "y")
    assert yaml.safe_load(text)["data"]["columns"] == "used"
    assert [*yaml.safe_load(text)["features"]] == ["x"]
    assert "all 200 rows of 4 columns" in text
    assert re.search(r"# tags: .*map", text)
    assert re.search(r"# names: .*list", text)


@pytest.mark.parametrize("lines", [True, False])
def test_lists_of_lists_in_json_are_left_out_too(tmp_path: Path, lines: bool) -> None:
    records = [{"y": row % 2, "boxes": [[row, 1], [2, 3]], "x": row / 3} for row in range(100)]
    file, config = tmp_path / ("a.jsonl" if lines else "a.json"), tmp_path / "a.yaml"
    file.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records), encoding="utf-8")
    write(config, "a", given_source(str(file)), ("y",), lambda labels: f"headrace init --label {labels[0]}")
    text = config.read_text(encoding="utf-8")
    assert [*yaml.safe_load(text)["features"]] == ["x"]
    assert "# boxes: is a list with a list" in text


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_day_in_parquet_become_their_hour(tmp_path: Path, unit: str) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    arrow = pa.time32(unit) if unit in {"s", "ms"} else pa.time64(unit)
    times = pa.array([row * 1741 % 86400 * per_second for row in range(200)], arrow)
    table = pa.table({"y": [row % 2 for row in range(200)], "starts": times, "x": [row / 3 for row in range(200)]})
    text = written(tmp_path, table, "y")
    settings = yaml.safe_load(text)["features"]["starts_hour"]
    assert (settings["key"], settings["column"], settings["part"]) == ("starts", "datetime", "hour")
    pattern = re.compile(pattern_of(settings["format"]).regex)
    stored = pq.read_table(tmp_path / "rows.parquet").column("starts")
    assert all(pattern.fullmatch(time) for time in stored.cast(pa.string()).to_pylist())


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "json", "sqlite"])
def test_booleans_are_described_as_the_data_has_them(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    rows = [{"y": row % 3 == 0, "a": None if row < 5 else row % 5 == 0, "n": row % 7 // 6} for row in range(200)]
    source = {"kind": kind, "path": str(file)}
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif kind == "sqlite":
        with contextlib.closing(sqlite3.connect(file)) as database, database:
            database.execute("create table trips (y boolean, a boolean, n integer)")
            database.executemany("insert into trips values (:y, :a, :n)", rows)
        source = {"kind": "sql", "url": f"sqlite:///{file}", "table": "trips"}
    else:
        lines = [json.dumps(row) for row in rows]
        file.write_text("\n".join(lines) if kind == "jsonl" else f"[{', '.join(lines)}]")
    config = tmp_path / "rows.yaml"
    write(config, "rows", source, ("y",), lambda _: "headrace init")
    text = config.read_text()
    assert re.search(r"label: .*# true in 34%", text)
    assert re.search(r"a: \{column: boolean\} +# false or true \(20%\)", text)
    assert re.search(r"n: \{column: boolean\} +# 0 or 1 \(14%\)", text)


def test_lines_are_broken_and_comments_stay_comments() -> None:
    values = [f"a rather long value of the column, number {number % 30:02}: # no comment" for number in range(300)]
    table = pa.table({"y": [0, 1] * 150, "long\nname": values})
    sample = Sample(table, {"y": "int", "long\nname": "string"}, whole=True)
    source = {"kind": "csv", "path": "x.csv"}
    draft = Draft("rows", "rows.yaml", source, ("y",), sample, infer(sample, "y"), "headrace init")
    text = document(draft)
    assert max(map(len, text.splitlines())) <= WIDTH
    (feature,) = load(yaml.safe_load(text)).declared_features.values()
    assert isinstance(feature, VocabularyFeature)
    assert feature.values == tuple(sorted(set(values)))


@pytest.mark.slow
def test_of_a_large_table_only_the_first_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"{tmp_path}/shop.db"
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute("create table orders (id integer primary key, price real)")
        database.executemany("insert into orders values (?, ?)", [(n, n / 7) for n in range(100_000)])
    data = DataConfig.model_validate({"source": given_source(f"sqlite:///{file}", "orders")})
    everything = read_sample(data)
    assert (everything.rows, everything.whole) == (100_000, True)
    monkeypatch.setattr(sample_module, "MAX_BYTES", 1 << 16)
    some = read_sample(data)
    assert 0 < some.rows < 100_000
    assert not some.whole


def nights(folder: Path, rows: int, *texts: str) -> dict[str, Any]:
    """Days of CSV files, from the first of November, with a header and this row many times; and their source."""
    for day, text in enumerate(texts, 1):
        (folder / f"2026-11-{day:02}.csv").write_text("city;price;sold\n" + text * rows, encoding="cp1252")
    return given_source(f"{folder}/{{YYYY}}-{{MM}}-{{DD}}.csv")


def test_dates_in_the_path_make_a_window_of_days(tmp_path: Path) -> None:
    source = nights(tmp_path, 20, "Bern;1,5;0\n", "Bern;2,5;1\n", "Zürich;3,5;1\n")
    file = tmp_path / "sales.yaml"
    draft = write(file, "sales", source, ("sold",), lambda labels: f"headrace init --label {labels[0]}")
    assert draft.sample.spans == ("2026-11-01", "2026-11-02", "2026-11-03")
    assert (draft.sample.rows, draft.sample.whole) == (60, True)
    written = yaml.safe_load(file.read_text())
    path = f"{tmp_path}/{{YYYY}}-{{MM}}-{{DD}}.csv"
    format_ = {"delimiter": ";", "encoding": "cp1252", "decimal": ","}
    assert written["data"]["source"] == {"kind": "csv", "path": path, **format_}
    assert written["data"]["window"] == 30
    assert written["features"]["city"] == {"column": "vocabulary", "values": ["Bern", "Zürich"]}
    assert "60 rows of 3 spans, 2026-11-01 to 2026-11-03, in 3 columns" in " ".join(file.read_text().split("\n# "))


def test_a_column_that_only_some_days_have_is_missing_on_the_others(tmp_path: Path) -> None:
    (tmp_path / "2026-11-01.csv").write_text("fare,sold\n1,0\n2,1\n")
    (tmp_path / "2026-11-02.csv").write_text("sold,fare,city\n1,3.5,Bern\n")
    source = {"kind": "csv", "path": f"{tmp_path}/{{YYYY}}-{{MM}}-{{DD}}.csv"}
    sample = read_sample(DataConfig.model_validate({"source": source, "window": 30}))
    assert sample.table.to_pydict() == {"fare": [1.0, 2.0, 3.5], "sold": [0, 1, 1], "city": [None, None, "Bern"]}
    assert (sample.kinds, sample.whole) == ({"fare": "float", "sold": "int", "city": "string"}, True)


def test_of_large_days_as_many_are_read_as_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = nights(tmp_path, 100, "Bern;1,5;0\n", "Bern;2,5;1\n", "Bern;3,5;1\n")
    size = (tmp_path / "2026-11-03.csv").stat().st_size
    data = DataConfig.model_validate({"source": source, "window": 3})
    monkeypatch.setattr(sample_module, "WHOLE_BYTES", 2 * size + 1)
    two = read_sample(data)
    assert (two.spans, two.rows, two.whole) == (("2026-11-02", "2026-11-03"), 200, False)
    newest = read_sample(data.model_copy(update={"window": 1}))
    assert (newest.spans, newest.rows, newest.whole) == (("2026-11-03",), 100, True)


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (("2026-11-01", "2026-11-02"), "{YYYY}-{MM}-{DD}"),
        (("trips_20261101_v2", "trips_20261102_v2"), "trips_{YYYY}{MM}{DD}_v2"),
        (("2026-11-01",), None),  # one file
        (("2026-11-01", "b-2026-11-02"), None),
        (("2026-13-01", "2026-14-02"), None),  # no months
        (("20261101-20261102", "20261102-20261103"), None),
        (("part-00000001", "part-00000002"), None),
    ],
)
def test_files_with_dates_in_their_names_have_a_path_by_day(
    tmp_path: Path, names: tuple[str, ...], path: str | None
) -> None:
    for name in names:
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n")
    found = dated_path({"kind": "csv", "path": f"{tmp_path}/*.csv"})
    assert found == (path and f"{tmp_path}/{path}.csv")
    if found:
        assert given_source(found) == {"kind": "csv", "path": found}


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (("2026-11-01/a", "2026-11-02/a"), "{YYYY}-{MM}-{DD}/*.parquet"),
        (("day=20261101/a", "day=20261101/b", "day=20261102/c"), "day={YYYY}{MM}{DD}/*.parquet"),
        (("2026/11/01/a", "2026/11/02/b"), "{YYYY}/{MM}/{DD}/*.parquet"),
        (("2026-11-01/a-2026-11-01", "2026-11-02/a-2026-11-02"), "{YYYY}-{MM}-{DD}/a-{YYYY}-{MM}-{DD}.parquet"),
        (("2026-11-01/a", "2026-11-01/b"), None),  # one day
        (("2026-11-01/a", "2026-11-02/b/c"), None),
        (("x-2026-11-01/a", "y-2026-11-02/a"), None),
        (("2026-11-01/a", "others/a"), None),
    ],
)
def test_folders_with_dates_in_their_names_have_a_path_by_day(
    tmp_path: Path, names: tuple[str, ...], path: str | None
) -> None:
    for name in names:
        file = tmp_path / "rides" / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [1], "y": [2]}), file)
    found, again = (
        dated_path({"kind": "parquet", "path": f"{tmp_path}/{given}"}) for given in ("rides", "rides/**/*.parquet")
    )
    assert found == again == (path and f"{tmp_path}/rides/{path}")
    if found:
        assert given_source(found) == {"kind": "parquet", "path": found}
        spans = find_spans(DataConfig.model_validate({"source": {"kind": "parquet", "path": found}, "window": 9})).spans
        assert [len(span.files) for span in spans] == ([2, 1] if len(names) == 3 else [1, 1])


def test_a_date_that_lacks_its_day_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=re.escape("{YYYY}-{MM}.csv: the date lacks {DD}")):
        given_source(f"{tmp_path}/{{YYYY}}-{{MM}}.csv")


@pytest.mark.parametrize(
    ("values", "metric"),
    [([row % 2 for row in range(ROWS)], "auc"), ([row * row * 0.7 for row in range(ROWS)], "r_squared")],
    ids=["binary", "regression"],
)
def test_a_draft_says_how_to_compare_with_the_model_in_service(values: list[float], metric: str) -> None:
    table = pa.table({"y": values, "x": [row % 7 for row in range(ROWS)]})
    sample = Sample(table, {"y": "float" if isinstance(values[1], float) else "int", "x": "int"}, whole=True)
    draft = Draft("r", "r.yaml", {"kind": "parquet", "path": "x"}, ("y",), sample, infer(sample, "y"), "headrace init")
    text = document(draft)
    (suggested,) = re.findall(r"# Add `(.*)` to refuse one that is worse than the model in\b", text)
    config = yaml.safe_load(text)
    config["evaluate"]["thresholds"][metric] |= yaml.safe_load(f"{{{suggested}}}")
    assert load(config).evaluate.thresholds[metric].not_worse_than_baseline_by == 0.01
