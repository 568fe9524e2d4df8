"""What `headrace init` finds in a CSV file: its marks, encoding and missing values, its label and its features."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError, RunError
from headrace.common.exact_integers import EXACT_IN_FLOAT32
from headrace.configs.loading.loader import load
from headrace.configs.schema.sources import CsvSource
from headrace.pipeline.api import load_checked
from headrace.pipeline.init.document import Draft
from headrace.pipeline.init.source import given_source
from headrace.pipeline.init.write import write


def described(folder: Path, label: str = "y", *, skip_bad: bool = False) -> Draft:
    """What init makes of `x.csv` in a folder; the config is `x.yaml`."""
    source = given_source(str(folder / "x.csv"))
    command = "headrace init {0[0]}".format
    return write(folder / "x.yaml", "rows", source, (label,), command, skip_bad=skip_bad)


def with_bad_rows(folder: Path, *bad: int) -> None:
    """A table `x.csv` of 40 rows, some of which have too few fields."""
    rows = ["broken" if number in bad else f"{number % 2},{number * 7 % 40}.5" for number in range(40)]
    (folder / "x.csv").write_text("\n".join(["y,size", *rows, ""]), encoding="utf-8")


def test_a_header_with_another_delimiter_sets_it(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a;b;c\n1;2;3\n")
    assert given_source(str(tmp_path / "x.csv"))["delimiter"] == ";"


def test_all_rows_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    with_bad_rows(tmp_path, 5, 9)
    with pytest.raises(DataError, match=r"x\.csv:7: the row has 1 field") as caught:
        described(tmp_path)
    assert "x.csv:11: the row has 1 field" in str(caught.value)
    assert "`--on-bad-record skip`" in str(caught.value)
    assert "data.on_bad_record" not in str(caught.value)


def test_where_most_rows_cannot_be_read_nothing_is_said_of_skipping_them(tmp_path: Path) -> None:
    with_bad_rows(tmp_path, *range(25))
    with pytest.raises(DataError, match=r"x\.csv:2: the row has 1 field") as caught:
        described(tmp_path)
    assert "skip" not in str(caught.value)


@pytest.mark.parametrize(("bad", "most"), [((), 0.01), ((5, 9), 0.1), (range(13), 0.7), (range(25), 1.0)])
def test_rows_that_cannot_be_read_are_skipped_in_the_config_too(tmp_path: Path, bad: Any, most: float) -> None:
    with_bad_rows(tmp_path, *bad)
    draft = described(tmp_path, skip_bad=True)
    assert (draft.sample.rows, draft.sample.skipped.count) == (40 - len(bad), len(bad))
    config = load_checked(str(tmp_path / "x.yaml"), None, (), data=True).config
    assert (config.data.on_bad_record, config.data.max_bad_fraction) == ("skip", most)


def test_rows_of_a_database_cannot_be_skipped(tmp_path: Path) -> None:
    source = {"kind": "sql", "url": f"sqlite:///{tmp_path}/x.db", "table": "rows"}
    with pytest.raises(RunError, match=r"`skip` .* sql\b"):
        write(tmp_path / "x.yaml", "rows", source, ("y",), str, skip_bad=True)


def test_a_european_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [f"{number % 2};{number},5;Köln\n" for number in range(40)]
    (tmp_path / "x.csv").write_bytes("".join(["y;größe;stadt\n", *rows]).encode("latin-1"))
    path = str(tmp_path / "x.csv")
    assert given_source(path) == {"kind": "csv", "path": path, "encoding": "cp1252", "delimiter": ";"}
    described(tmp_path)
    config = load(yaml.safe_load((tmp_path / "x.yaml").read_text()))
    assert isinstance(config.data.source, CsvSource)
    assert config.data.source.decimal == ","
    (feature,) = config.declared_features.values()
    assert feature.model_dump(include={"column", "key"}) == {"column": "numeric", "key": "größe"}


@pytest.mark.parametrize(
    ("header", "values", "expected"),
    [
        ("y,n", ['"1,234"', "5"], {"thousands": ","}),
        ("y;n", ["1.234,5", "7"], {"delimiter": ";", "decimal": ",", "thousands": "."}),
        ("y;n", ["1,234", "2,345"], {"delimiter": ";", "decimal": ","}),
        ("y;n", ["1,234,567", "2,345"], {"delimiter": ";", "thousands": ","}),
        ("y;n", ["1.234.567", "2"], {"delimiter": ";", "decimal": ",", "thousands": "."}),
        ("y\tn", ["1'234.5", "2"], {"delimiter": "\t", "thousands": "'"}),
        ("y;n", ["1\u00a0234,5", "2"], {"delimiter": ";", "decimal": ",", "thousands": "\u00a0"}),
        ("# made by hand\n# 2026\ny,n", ["1", "2"], {"comment": "#"}),
        ("#y,n", ["1", "2"], {}),
        ("y,n,n", ["1,2", "2,3"], {"duplicate_names": "rename"}),
        ("y,", ["1", "2"], {"duplicate_names": "rename"}),
        ("y,n", ["NA", "2"], {"null_values": ("", "NA")}),
        ("y,n", ["n/a", "21.11.2026"], {"null_values": ("", "n/a")}),
        ("y;n", ["-", "1.234,5"], {"delimiter": ";", "null_values": ("", "-"), "decimal": ",", "thousands": "."}),
        ("y,n", ["NA", "DE"], {}),
        ("y,n", ["007", "008"], {}),
    ],
)
def test_a_csv_file_is_read_as_it_is_found(tmp_path: Path, header: str, values: list[str], expected: Any) -> None:
    delimiter = next(mark for mark in ";\t," if mark in header.splitlines()[-1])
    rows = [f"{number % 2}{delimiter}{values[number % 3 // 2]}" for number in range(60)]
    (tmp_path / "x.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    draft = described(tmp_path, "#y" if header.startswith("#y") else "y")
    assert draft.source == {"kind": "csv", "path": str(tmp_path / "x.csv"), **expected}
    load(yaml.safe_load((tmp_path / "x.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("points", "grouped"), [("{}.117", True), ("{}.5", False), ("v{}.117", False)])
def test_points_before_three_digits_group_them_beside_decimal_commas(
    tmp_path: Path, points: str, grouped: bool
) -> None:
    rows = [f"{number % 2};{number},5;{points.format(number % 9 + 1)}" for number in range(60)]
    (tmp_path / "x.csv").write_text("\n".join(["y;a;b", *rows, ""]), encoding="utf-8")
    draft = described(tmp_path)
    assert draft.source["decimal"] == ","
    assert draft.source.get("thousands") == ("." if grouped else None)
    assert (draft.sample.kinds["b"] == "int") is grouped


NUMBERS = st.one_of(
    st.integers(-12, 12).map(str),
    st.integers(-9, 9).flatmap(lambda n: st.sampled_from([f"{n}.0", f"{n}.00", f"{n}.50", f"{n}.5", f" {n}.5"])),
    st.floats(-1e9, 1e9).map(repr),
    st.tuples(st.floats(-9, 9), st.integers(-30, 30)).map(lambda parts: f"{parts[0]:.2f}e{parts[1]}"),
    st.sampled_from(["16777216.0", "16777217.0", "0.123456789012", "0.123456789013", "1E20", "2e20", "-0.0", "007"]),
)
WORDS = st.sampled_from(["yes", "no", "Yes", "True", "False", "true", "false", "0", "1", "y", "n", "a,b", '"'])


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NUMBERS, min_size=2, max_size=3) | st.lists(NUMBERS | WORDS, min_size=2, max_size=2), st.booleans())
@example(["1.50", "2.50"], False)
@example(["1.50", "1.5", "2.5"], True)
@example(["0.123456789012", "0.123456789013"], False)
@example(["0", "-0.0"], False)
@example(["0", "0.0", "16777217.0"], False)
def test_a_label_of_any_two_values_gives_a_config_that_fits_the_data(
    tmp_path: Path, values: list[str], gaps: bool
) -> None:
    labels = [*values, ""] if gaps else values
    with open(tmp_path / "x.csv", "w", encoding="utf-8", newline="") as file:
        rows = [(f"{row}.25", labels[row % len(labels)]) for row in range(60)]
        csv.writer(file).writerows([("n", "y"), *rows])
    different = {*map(as_number, values)}
    if len(different) == 1:
        with pytest.raises(DataError, match="only one value"):
            described(tmp_path)
        return
    described(tmp_path)
    label = load_checked(str(tmp_path / "x.yaml"), None, (), data=True).config.label
    if len({*values}) == 2:
        assert label.kind == "binary"
    elif label.kind == "regression":
        exact = all(isinstance(one, float) and one.is_integer() and abs(one) <= EXACT_IN_FLOAT32 for one in different)
        assert len(different) == 3 or not exact


def as_number(value: str) -> float | str:
    try:
        return value if value == "007" else float(value)
    except ValueError:
        return value


@pytest.mark.parametrize(
    ("mark", "numbers", "rows", "expected"),
    [
        ("k. A.", 40, 3, "numeric"),
        ("refused", 20, 2, "numeric"),
        ("k. A.", 19, 3, "vocabulary"),
        ("over 9", 40, 3, "vocabulary"),
        ("k. A.", 40, 1, "vocabulary"),
    ],
)
def test_one_text_among_many_numbers_is_a_missing_one(
    tmp_path: Path, mark: str, numbers: int, rows: int, expected: str
) -> None:
    values = [mark] * rows + [str(number) for number in range(numbers)] * 10
    text = "".join(f"{number % 2},{value}\n" for number, value in enumerate(values))
    (tmp_path / "x.csv").write_text(f"y,n\n{text}", encoding="utf-8")
    draft = described(tmp_path)
    assert draft.source.get("null_values") == (("", mark) if expected == "numeric" else None)
    assert yaml.safe_load((tmp_path / "x.yaml").read_text())["features"]["n"]["column"] == expected


@pytest.mark.parametrize("label", ["y", "kind"])
def test_a_text_among_numbers_that_is_a_class_elsewhere_stays(tmp_path: Path, label: str) -> None:
    kinds = ["studio", "flat", "house"]
    rows = [(number % 2, kinds[number % 3], "studio" if number % 3 == 0 else number % 40) for number in range(300)]
    text = "".join(f"{y},{kind},{rooms}\n" for y, kind, rooms in rows)
    (tmp_path / "x.csv").write_text(f"y,kind,rooms\n{text}", encoding="utf-8")
    draft = described(tmp_path, label)
    assert "null_values" not in draft.source
    assert "missing" not in yaml.safe_load((tmp_path / "x.yaml").read_text())["label"]


def test_empty_parts_of_label_name_no_column(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "a,sold\n" + "".join(f"{row * 37 % 101}.5,{row * row % 7 % 2}\n" for row in range(80))
    )
    draft = described(tmp_path, "sold,")
    assert draft.labels == ("sold",)


def test_the_features_that_are_counted_are_those_that_are_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "day,n,sold\n"
        + "".join(f"2024-{1 + row % 12:02}-{1 + row % 28:02},{row * 37 % 101}.5,{row % 3 // 2}\n" for row in range(300))
    )
    draft = described(tmp_path, "sold")
    assert draft.used == 2
    assert draft.features == len(load(tmp_path / "x.yaml").declared_features) > 2
