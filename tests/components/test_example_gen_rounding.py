"""What float32 does to columns of doubles: never an infinity in silence, and a note where the loss matters."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.common.storage.paths import resolve
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.examples.tfexample.rounding import (
    COARSE,
    ColumnRounding,
    RoundingAccumulator,
    rounding_notes,
)
from headrace.components.sources import serial_map
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.schema.data import DataConfig

ROWS = 1597
TIMES = 1700000000.5 + 7.0 * np.arange(ROWS)
LARGEST = float(np.finfo(np.float32).max)
doubles = st.floats(-LARGEST, LARGEST)


def roundings(*batches: Any, **how: Any) -> RoundingAccumulator:
    found = RoundingAccumulator(**how)
    for batch in batches:
        found.checked(pa.RecordBatch.from_pydict({"x": pa.array(batch, pa.float64())}))
    return found


@given(st.lists(st.lists(doubles, max_size=20), min_size=1, max_size=5))
def test_a_rounding_added_up_over_batches_is_what_numpy_computes_over_all_of_it(batches: list[list[float]]) -> None:
    found = roundings(*batches)["x"]
    x = np.array([value for batch in batches for value in batch])
    errors = x - x.astype(np.float32).astype(np.float64)
    assert found.count == len(x)
    assert found.vanished == np.sum((x.astype(np.float32) == 0) & (x != 0))
    if len(x):
        assert found.error == np.abs(errors).max()
        assert found.stored == np.float32(found.value)
        scale = np.abs(x).max() or 1.0
        assert found.mean == pytest.approx(x.mean(), rel=1e-9, abs=1e-12 * scale)
        assert found.squares == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-9, abs=1e-24 * scale**2)
        assert found.errors == pytest.approx((errors**2).sum(), rel=1e-9)


@given(st.lists(st.none() | st.floats(width=64), max_size=30))
def test_only_finite_numbers_count_and_those_beyond_float32_are_left_out(values: list[float | None]) -> None:
    found = RoundingAccumulator(skip_bad=True)
    kept = found.checked(pa.RecordBatch.from_pydict({"x": pa.array(values, pa.float64())}))
    with np.errstate(over="ignore"):
        beyond = [value is not None and np.isfinite(value) and np.isinf(np.float32(value)) for value in values]
    assert found.skipped.count == sum(beyond)
    assert repr(kept.column("x").to_pylist()) == repr([v for v, out in zip(values, beyond, strict=True) if not out])
    assert found["x"].count == sum(v is not None and np.isfinite(v) for v in kept.column("x").to_pylist())


def test_lists_are_looked_through_and_a_row_with_two_such_numbers_is_left_out_once() -> None:
    lists = [[1.0], None, [1e39, 2.0, -1e300], [], [0.1]]
    found = RoundingAccumulator(skip_bad=True)
    kept = found.checked(pa.RecordBatch.from_pydict({"x": pa.array(lists, pa.list_(pa.float64()))}))
    assert kept.column("x").to_pylist() == [[1.0], None, [], [0.1]]
    assert (found.skipped.count, found["x"].count) == (1, 2)
    assert "1e+39" in found.skipped.reported[0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (TIMES, True),  # 110 different float32
        (1700000000.5 + np.linspace(0, 86400, 5000), True),  # a day
        (np.array([16777217.0, 16777216.0, 16777218.0, 16777219.0] * 9), True),
        (41.880994471 + np.linspace(-0.1, 0.1, 999), False),  # Chicago's latitudes
        (np.full(99, 0.1), False),
        (np.full(99, 1700000000.5), False),
        (np.random.RandomState(0).lognormal(0, 9, 4000), False),
        (np.random.RandomState(0).uniform(size=4000), False),
        (np.arange(4000) / 8, False),
    ],
)
def test_a_column_is_reported_where_rounding_is_large_beside_its_spread(values: Any, expected: bool) -> None:
    found = roundings(*np.array_split(values, 3))
    share = np.sqrt(np.sum((values - values.astype(np.float32)) ** 2) / max(np.sum((values - values.mean()) ** 2), 1))
    assert bool(list(rounding_notes(found))) is expected
    assert not expected or (found["x"].share == pytest.approx(share) and share > COARSE)


def test_a_note_names_column_example_and_way_out_and_many_are_reported_together() -> None:
    (note,) = rounding_notes(roundings(TIMES))
    assert "'x'" in note
    assert "is stored as 17000" in note
    assert "data.types.x" in note
    own = roundings(TIMES)["x"]
    lines = list(rounding_notes({f"c{number}": own for number in range(40)}))
    assert len(lines) < 10
    assert all(f"'c{number}'" in "\n".join(lines) for number in range(40))


def test_a_label_of_a_regression_gets_no_advice_that_is_refused_there() -> None:
    (note,) = rounding_notes(roundings(TIMES), ["x"])
    assert "float64" not in note
    assert "subtract an offset" in note


def test_a_weight_gets_no_advice_that_is_refused_there() -> None:
    (note,) = rounding_notes(roundings(TIMES), weights=["x"])
    assert "float64" not in note
    assert "round it" in note


def test_numbers_that_vanish_are_reported() -> None:
    (note,) = rounding_notes(roundings([0.0, 0.5, 1e-50, 3.0, 1e-60]))
    assert "'x'" in note
    assert "1e-50" in note
    assert "(2 of them)" in note
    assert ColumnRounding().share == 0


def test_the_message_about_many_small_columns_is_bounded() -> None:
    own = roundings([0.5, 1e-50])["x"]
    assert len(list(rounding_notes({f"c{number}": own for number in range(40)}))) < 10


def ingested(tmp_path: Path, kind: str, values: Any, **data: Any) -> IngestResult:
    """`values` and an id as data of that kind, ingested."""
    folder = tmp_path / "raw"
    folder.mkdir()
    ids = range(len(values))
    table = pa.table({"id": ids, "x": pa.array(values, pa.float64())})
    match kind:
        case "csv":
            text = "id,x\n" + "".join(f"{i},{value!r}\n" for i, value in zip(ids, map(float, values), strict=True))
            (folder / "data").write_text(text)
        case "jsonl":
            rows = ({"id": i, "x": float(value)} for i, value in zip(ids, values, strict=True))
            (folder / "data").write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "parquet":
            pq.write_table(table, folder / "data")
        case "arrays":
            np.savez(folder / "data.npz", id=np.arange(len(values)), x=np.asarray(values))
    path = str(folder / ("data.npz" if kind == "arrays" else "data"))
    config = DataConfig.model_validate({"source": {"kind": kind, "path": path}, **data})
    return ingest(config, SpanManifest.of(resolve(path)), tmp_path / "out", lambda _work: serial_map)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrays"])
def test_each_source_reports_a_column_of_large_decimals(tmp_path: Path, kind: str) -> None:
    found = ingested(tmp_path, kind, TIMES)
    assert [note for note in found.rounded if "'x'" in note]
    assert "'x' loses digits" in found.log


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrays"])
@pytest.mark.parametrize("value", [1e39, -1e300])
def test_each_source_refuses_a_number_beyond_float32_with_its_place(tmp_path: Path, kind: str, value: float) -> None:
    with pytest.raises(DataError, match="float32") as caught:
        ingested(tmp_path, kind, [0.5, 1.5, value, *range(300)])
    assert caught.value.column == "x"
    assert repr(value) in str(caught.value)
    assert kind == "arrays" or Path(caught.value.file or "").name == "data"
    assert "data.types.x" in str(caught.value)
    assert not list((tmp_path / "out").rglob("*"))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrays"])
def test_with_skip_such_rows_are_left_out_and_counted(tmp_path: Path, kind: str) -> None:
    found = ingested(tmp_path, kind, [0.5, 1e39, *range(300)], on_bad_record="skip")
    assert found.skipped.count == 1
    assert "1e+39" in found.skipped.reported[0]
    assert sum(found.rows.values()) == 301
    assert not found.rounded


def test_rows_left_out_count_against_the_fraction_that_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.max_bad_fraction"):
        ingested(tmp_path, "csv", [*range(90), *[1e39] * 10], on_bad_record="skip", max_bad_fraction=0.05)


def test_read_as_text_or_as_whole_numbers_nothing_is_lost(tmp_path: Path) -> None:
    for name in ("text", "whole"):
        (tmp_path / name).mkdir()
    text = ingested(tmp_path / "text", "csv", [0.5, 1e39, *range(300)], types={"x": "string"})
    assert (text.kinds["x"], list(text.rounded), text.skipped.count) == ("string", [], 0)
    whole = ingested(tmp_path / "whole", "parquet", np.trunc(TIMES), types={"x": "int"})
    assert (whole.kinds["x"], list(whole.rounded)) == ("int", [])
