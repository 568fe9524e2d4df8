"""Columns kept from the survey are those that a second reading would give, or are not used."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.example_gen.delimited import blocks
from components.example_gen.kept import Kept
from components.example_gen.sources import in_place, open_source
from configs.sources import CsvSource

CELLS = st.sampled_from(["", "1", "-7", "0.5", "1e300", "nan", "9007199254740993", "007", "text", "é", '"x,y"', '"NA"'])
CELLS |= st.sampled_from(["NA", "2020-01-01", "true", "12:30"])


def surveyed(path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[Any, Kept]:
    path.mkdir(exist_ok=True, parents=True)
    file, folder = path / "data.csv", path / "columns"
    file.write_text("\n".join(["a,b", *lines, ""]), encoding="utf-8")
    folder.mkdir(exist_ok=True)
    monkeypatch.setattr(blocks, "CHUNK", 16)
    source = open_source(CsvSource(kind="csv", path=str(file), **more), [str(file)])
    return source, Kept.survey(source, source.parts(in_place), {}, in_place, folder)


def tables(source: Any, kept: Kept) -> list[pa.Table]:
    kinds = dict(kept.found.kinds)
    read = [pa.Table.from_batches(source.batches(part, kinds)) for part in kept.parts]
    kept_ = [pa.Table.from_batches(kept.batches(number, kinds)) for number in range(len(kept.parts))]
    return [pa.concat_tables(read).combine_chunks(), pa.concat_tables(kept_).combine_chunks()]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30))
def test_columns_that_fit_are_those_of_a_second_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, str]]
) -> None:
    rows = [row for row in rows if row != ("", "")] or [("1", "1")]
    source, kept = surveyed(tmp_path, [f"{a},{b}" for a, b in rows], monkeypatch, null_values=("NA",))
    if kept.fits(kept.found.kinds):
        read, again = tables(source, kept)
        assert read.schema == again.schema
        assert str(read.to_pydict()) == str(again.to_pydict())


def test_a_column_that_widens_to_float_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, kept = surveyed(tmp_path, [*(["1,"] * 20), *(["0.5,2"] * 20)], monkeypatch)
    assert kept.found.kinds == {"a": "float", "b": "int"}
    assert kept.fits(kept.found.kinds)
    read, again = tables(source, kept)
    assert read.equals(again)


def test_a_column_that_widens_to_text_has_to_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, kept = surveyed(tmp_path, [*(["1,1"] * 20), *(["text,2"] * 20)], monkeypatch)
    assert kept.found.kinds == {"a": "string", "b": "int"}
    assert not kept.fits(kept.found.kinds)


def test_nothing_is_kept_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = surveyed(tmp_path, ["1,2"], monkeypatch)
    kept = Kept.survey(source, source.parts(in_place), {}, in_place, None)
    assert kept.found.kinds == {"a": "int", "b": "int"}
    assert not kept.fits(kept.found.kinds)
