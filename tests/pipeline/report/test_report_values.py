"""Values of columns that are long, that cannot be seen, or that turn the text around them."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from browsing import violations, watched
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList, NumericStatistics

from headrace.components.evaluation.result import SliceMetrics, read_evaluation, write_evaluation
from headrace.pipeline.report.formatting import value_in_words, visible, with_code

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TURNED = "\u202egpj.exe"
LONG = "Blue Ribbon Taxi Association " * 12 + "x" * 400
Run = Any  # what the fixtures of conftest.py give


def slice_of(value: str) -> SliceMetrics:
    return SliceMetrics(f"company = {value}", {"auc": 0.9, "binary_crossentropy": 0.4}, 50, None)


def add_slices(run: Run, *values: str) -> None:
    directory = run.artifacts / "Evaluator" / "evaluation" / "1"
    reported = read_evaluation(directory)
    write_evaluation(directory, dataclasses.replace(reported, slices=(*reported.slices, *map(slice_of, values))))


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("`<>&")))
def test_what_a_sentence_has_in_backticks_is_code_and_the_rest_is_escaped(text: str) -> None:
    found = str(with_code(text))
    plain = found.replace("<code>", "").replace("</code>", "")
    assert found.count("<code>") == found.count("</code>")
    assert not {"<", ">", '"', "'"} & {*plain}
    pairs = re.findall("`[^`\n]+`", html.escape(visible(text)))
    assert found.count("<code>") == len(pairs)


def test_code_in_a_sentence_shows_no_credential() -> None:
    assert str(with_code("use `s3://me:hunter2@host/a` & <b>")) == "use <code>s3://me:***@host/a</code> &amp; &lt;b&gt;"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("Blue Ribbon", "Blue Ribbon"),
        ("", "(empty)"),
        (" ", '" "'),
        ("a ", '"a "'),
        ("a  b", '"a  b"'),
        ("a\tb\n", r'"a\tb\n"'),
        (TURNED, r"\u202egpj.exe"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("שלום", "שלום"),
        ("می\u200cروم", "می\u200cروم"),  # Persian is spelled with joiners that have no width
        ("\ud800", r"\ud800"),
    ],
)
def test_a_value_is_written_so_that_all_of_it_is_seen(value: str, words: str) -> None:
    assert value_in_words(value) == words


@given(st.text())
def test_what_is_visible_is_plain_text_of_one_direction_at_a_time(text: str) -> None:
    for shown in (visible(text), value_in_words(text)):
        shown.encode()
        turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        assert not {unicodedata.bidirectional(character) for character in shown} & turning
        assert {one for one in shown if unicodedata.category(one) == "Cc"} <= set("\t\n\r")
    assert value_in_words(text).strip()


def test_slices_of_odd_values_are_distinguished(whole: Run) -> None:
    add_slices(whole, "", " ", TURNED)
    page = whole.report()
    assert {"(empty)", '" "', r"\u202egpj.exe"} <= set(page.table("company", "Examples"))
    assert TURNED not in (whole.folder / "report.html").read_text()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_value_leaves_the_table_of_slices_on_the_page(whole: Run, browser: Browser, width: int) -> None:
    add_slices(whole, "short", LONG)
    whole.report()
    home = (whole.folder / "report.html").as_uri()
    with watched(browser, home, viewport={"width": width, "height": 844}) as page:
        page.page.goto(home)
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        table = page.page.locator("table.slices", has_text="Blue Ribbon")
        head = table.get_by_role("rowheader", name="Blue Ribbon").bounding_box()
        assert head is not None
        assert head["width"] <= 28 * 15 + 20
        assert head["height"] < 100  # three lines, and all of it once it has the focus
        table.locator(".long").focus()
        unfolded = table.get_by_role("rowheader", name="Blue Ribbon").bounding_box()
        assert unfolded is not None
        assert unfolded["height"] > 100
        scroll, seen = table.evaluate("one => [one.parentElement.scrollWidth, one.parentElement.clientWidth]")
        assert scroll <= seen if width > 1000 else scroll <= 2 * seen


WIDE = 120


@pytest.fixture
def wide(run: Run) -> Run:
    """A run on many columns, in an order that is not that of their names."""
    order = [f"c{(7 * number) % WIDE:03}" for number in range(WIDE)]
    types = json.dumps(dict.fromkeys(order, "float"))
    run.output("ExampleGen", "examples", {"rows": '{"train": 1}', "types": types})
    made = DatasetFeatureStatisticsList()
    made.datasets.add(num_examples=1)
    for name in sorted(order):
        column = made.datasets[0].features.add(type=1, num_stats=NumericStatistics(min=1, max=2, mean=1.5, median=1))
        column.path.step.append(name)
        column.num_stats.common_stats.num_non_missing = 1
    split = run.output("StatisticsGen", "statistics") / "Split-train"
    split.mkdir()
    (split / "FeatureStats.pb").write_bytes(made.SerializeToString())
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    features = {name: {"column": "numeric"} for name in order}
    (run.folder / "config.yaml").write_text(yaml.safe_dump({**config, "features": features}, sort_keys=False))
    return run


def test_many_columns_keep_the_file_s_order_and_fold(wide: Run) -> None:
    page = wide.report()
    order = [f"c{(7 * number) % WIDE:03}" for number in range(WIDE)]
    for first, second in (("Column", "Type"), ("Feature", "Kind")):
        tables = [table for table in page.tables if [cell.strip() for cell in table[0][:2]] == [first, second]]
        assert [len(table) - 1 for table in tables] == [50, 50, 20]
        assert [row[0].strip() for table in tables for row in table[1:]] == order
    assert sum(tag == "details" and "folded" in (each["class"] or "") for tag, each in page.tags) == 4
    assert f"50 more: {order[50]} to {order[99]}" in page.all_text()


@pytest.mark.slow
def test_what_is_folded_is_accessible(wide: Run, browser: Browser) -> None:
    wide.report()
    home = (wide.folder / "report.html").as_uri()
    with watched(browser, home, viewport={"width": 390, "height": 844}) as page:
        page.page.goto(home)
        assert violations(page.page) == []
        page.page.evaluate('document.querySelectorAll("details.folded").forEach((each) => { each.open = true; })')
        assert violations(page.page) == []
        assert page.page.evaluate("document.documentElement.scrollWidth") == 390
