"""Which files belong to which span: wildcards beside numbers, versions, long gaps, and paths written in two ways."""

from pathlib import Path

import pytest

from headrace.common.errors import DataError
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("a\n1\n", encoding="utf-8")


def spans(path: str | tuple[str, ...], **data: object) -> dict[str, list[str]]:
    """The files of each span, from this folder on."""
    here = f"{Path.cwd()}/"
    return {span.name: [file.removeprefix(here) for file in span.paths] for span in found(path, **data).spans}


def found(path: str | tuple[str, ...], **data: object) -> SpanManifest:
    source = CsvSource(kind="csv", path=path)
    return find_spans(DataConfig.model_validate({"source": source, "window": "all", **data}))


def test_wildcard_takes_no_digits_of_the_number_behind_it() -> None:
    write("t/trip-7.csv", "t/trip-17.csv", "t/trip-107.csv")
    every = {"7": ["t/trip-7.csv"], "17": ["t/trip-17.csv"], "107": ["t/trip-107.csv"]}
    assert spans("t/*{SPAN}.csv") == every
    assert spans("t/*{SPAN}.csv", window=1) == {"107": ["t/trip-107.csv"]}


def test_wildcard_for_folders_ends_at_a_folder() -> None:
    write("t/x/17.csv", "t/x/y/107.csv", "t/7.csv")
    assert spans("t/**/{SPAN}.csv") == {"7": ["t/7.csv"], "17": ["t/x/17.csv"], "107": ["t/x/y/107.csv"]}


def test_wildcard_takes_no_digits_of_a_version() -> None:
    write("t/1/a2.csv", "t/1/a12.csv")
    assert spans("t/{SPAN}/*{VERSION}.csv") == {"1": ["t/1/a12.csv"]}


def test_each_pattern_has_its_own_newest_version() -> None:
    write("a/1/v1/x.csv", "a/1/v2/x.csv", "b/1/v1/x.csv")
    paths = ("a/{SPAN}/v{VERSION}/*.csv", "b/{SPAN}/v{VERSION}/*.csv")
    assert spans(paths) == {"1": ["a/1/v2/x.csv", "b/1/v1/x.csv"]}
    assert found(paths).spans[0].version == 2


@pytest.mark.parametrize(("one", "other"), [("t/007.csv", "t/7.csv"), ("t/7/v02.csv", "t/7/v2.csv")])
def test_span_written_in_two_ways_is_refused(one: str, other: str) -> None:
    write(one, other)
    pattern = "t/{SPAN}/v{VERSION}.csv" if "/v" in one else "t/{SPAN}.csv"
    with pytest.raises(DataError, match=r"has the same span and version as .*"):
        spans(pattern)


def test_numbers_far_apart_are_counted_and_not_listed() -> None:
    write("t/3.csv", "t/2026110112345.csv")
    manifest = found("t/{SPAN}.csv")  # listing them all would take days
    assert manifest.missing == tuple(map(str, range(4, 14)))
    assert manifest.missing_count == 2026110112345 - 3 - 1
    assert len(manifest.to_json()) < 2000
    assert SpanManifest.from_json(manifest.to_json()) == manifest


def test_missing_start_of_a_range_is_reported_and_that_of_a_window_is_not() -> None:
    write("2026-11-04.csv", "2026-11-05.csv")
    asked = found("{YYYY}-{MM}-{DD}.csv", spans=("2026-11-02", "2026-11-05"))
    assert (asked.missing, asked.missing_count) == (("2026-11-02", "2026-11-03"), 2)
    assert found("{YYYY}-{MM}-{DD}.csv", window=30).missing_count == 0


def test_number_beyond_all_dates_is_reported_as_it_is() -> None:
    write("2026-11-04.csv")
    with pytest.raises(DataError, match="there is no span 99999999"):
        found("{YYYY}-{MM}-{DD}.csv", spans=99999999)
