"""What holds for the page as a whole: self-contained, escaped, accessible, light to make."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from browsing import assert_accessible, violations, watched
from keyboard import assert_operable, assert_usable, to_the_top, unfold, walked

from headrace.components.evaluation.result import read_evaluation, write_evaluation
from headrace.components.gates.verdict import DataVerdicts, GateRow, GateVerdict
from headrace.pipeline.results.record import NodeRecord, Status
from headrace.pipeline.results.serving import ServingOutcome

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROJECT = Path(__file__).parents[3]
EVIL = "<script>alert(1)</script>"
EVIL_VALUE = '"><img src=x onerror=alert(2)>'
Run = Any  # what the fixtures of conftest.py give


def test_page_refers_to_nothing_outside_itself(whole: Run) -> None:
    page = whole.report()
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "img", "base"}
        for name in ("src", "href", "action", "xlink:href", "srcset", "poster"):
            assert re.fullmatch(r"#[\w-]+|logs/[\w.-]+", attributes.get(name) or "#x")
    html = (whole.folder / "report.html").read_text()
    assert "url(" not in html
    assert "@import" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_names_and_values_from_the_data_are_text_and_never_markup(whole: Run) -> None:
    config = {**yaml.safe_load((whole.folder / "config.yaml").read_text()), "label": {"key": EVIL, "kind": "binary"}}
    (whole.folder / "config.yaml").write_text(yaml.safe_dump(config))
    whole.record.config_file = EVIL
    whole.record.nodes[0].id = EVIL_VALUE
    page = whole.report()
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.all_text().count(EVIL) >= 4  # the header, the column, the label, the config
    assert EVIL_VALUE in page.all_text()


def test_page_passes_axe(whole: Run, browser: Browser) -> None:
    ServingOutcome(version=17, config_updated=True).write(whole.folder)
    assert ("section", {"id": "serving"}) in whole.report().tags
    assert_accessible(browser, (whole.folder / "report.html").as_uri())


def test_metrics_with_intervals_do_not_overlap_on_a_phone(whole: Run, browser: Browser) -> None:
    (path,) = whole.folder.parent.parent.glob("artifacts/Evaluator/evaluation/*")
    evaluation = read_evaluation(path)
    ends = dict.fromkeys(evaluation.metrics, (-0.12345, 0.98765))
    write_evaluation(path, replace(evaluation, intervals=ends, change=ends))
    whole.report()
    with watched(browser, (whole.folder / "report.html").as_uri(), viewport={"width": 390, "height": 844}) as page:
        page.page.goto(page.home)
        assert page.page.locator(".metrics td[data-label]").count() == 9
        assert page.page.evaluate(SPILLED) == []
        assert violations(page.page) == []


SPILLED = """() => [...document.querySelectorAll('.metrics tbody td, .metrics tbody th')].filter((cell) => {
  const text = document.createRange();
  text.selectNodeContents(cell);
  const [inner, outer] = [text.getBoundingClientRect(), cell.getBoundingClientRect()];
  return inner.width && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
}).map((cell) => cell.textContent)"""
"""Cells whose text is wider than they are."""


def test_gates_that_passed_are_folded_and_others_are_read_without_scrolling_sideways(
    whole: Run, browser: Browser
) -> None:
    near = GateRow(what="hour", measure="distance", value="0.05", limit="0.1", excess=-0.5)
    far = GateRow(what="hour", measure="distance", value="0.5", limit="0.1", before="mean 1", now="mean 9", excess=4)
    gates = [GateVerdict.of("gates.skew", "warn", [near]), GateVerdict.of("gates.drift.blessed", "warn", [far])]
    gates.append(GateVerdict.of("gates.rows", "stop", [], note="there is one span"))
    verdict = DataVerdicts(gates=tuple(gates)).model_dump_json()
    (whole.output("DataVerdict", "verdict") / "value").write_text(verdict)
    whole.report()
    with watched(browser, (whole.folder / "report.html").as_uri(), viewport={"width": 390, "height": 844}) as page:
        page.page.goto(page.home)
        shown = page.page.locator("#gates").inner_text()
        assert ("0.05" in shown, "0.5" in shown, "Not judged: there is one span" in shown) == (False, True, True)
        for text in ("0.1", "mean 1", "mean 9", "beyond"):
            cell = page.page.locator("#gates .card:not(details) td", has_text=text).first.bounding_box()
            assert cell is not None
            assert cell["x"] + cell["width"] <= 390 - 16, text
        page.page.get_by_text("gates.skew").click()
        assert "0.05" in page.page.locator("#gates").inner_text()
        assert page.page.evaluate("document.documentElement.scrollWidth") == 390
        assert violations(page.page) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_page_is_used_by_the_keyboard_alone(whole: Run, browser: Browser, width: int) -> None:
    whole.report()
    home, size = (whole.folder / "report.html").as_uri(), {"width": width, "height": 844}
    with watched(browser, home, viewport=size, reduced_motion="reduce") as page:
        page.page.goto(page.home)
        stops = walked(page.page)
        assert_usable(page.page, stops)
        assert stops[0].words == "Skip to the results"
        page.page.goto(page.home)
        unfold(page.page)
        to_the_top(page.page)
        again = walked(page.page)
        assert_usable(page.page, again)
        assert len(again) >= len(stops)
        counted = assert_operable(page.page)
        assert counted.keys() == {"a", "summary"}
        assert counted["a"] > 5
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        assert page.errors == []


def test_page_is_accessible(whole: Run) -> None:
    page = whole.report()
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {(attributes.get("href") or "")[1:] for tag, attributes in page.tags if tag == "a"}
    labels = {
        attributes[name]
        for _, attributes in page.tags
        for name in ("aria-labelledby", "aria-describedby")
        if name in attributes
    }
    assert links | labels <= set(ids)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for tag, attributes in page.tags:
        if tag == "svg":
            assert attributes.get("aria-hidden") or (attributes["role"], bool(attributes["aria-label"])) == (
                "img",
                True,
            )
        if tag == "th":
            assert attributes["scope"] in {"row", "col"}
    assert ("html", {"lang": "en"}) in page.tags


@pytest.mark.slow
def test_report_needs_no_heavy_import(whole: Run) -> None:
    whole.record.write(whole.folder)
    program = (
        "import sys; from pathlib import Path; from headrace.pipeline.report import write_report;"
        f"write_report(Path({str(whole.folder)!r}));"
        "print({'tensorflow', 'apache_beam', 'tfx', 'tfx_bsl', 'pandas', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_tables_of_metrics_and_features_are_read_on_a_phone_without_scrolling_sideways(
    whole: Run, browser: Browser
) -> None:
    whole.report()
    home = (whole.folder / "report.html").as_uri()
    with watched(browser, home, viewport={"width": 390, "height": 844}) as page:
        page.page.goto(home)
        assert page.page.evaluate("document.documentElement.scrollWidth") == 390
        for table in ("metrics", "features", "columns"):
            wide, seen = page.page.evaluate(WIDTHS, f"table.{table}")
            assert wide <= seen, table
        change = page.page.locator(".metrics td", has_text=re.compile("passed|missed")).first.bounding_box()
        assert change is not None
        assert change["x"] + change["width"] <= 390 - 16
        assert page.errors == []


WIDTHS = """(name) => {
  const card = document.querySelector(name).closest(".card");
  return [card.scrollWidth, card.clientWidth];
}"""


def test_what_ran_on_beam_stands_among_the_facts(run: Run) -> None:
    run.record.nodes = [
        NodeRecord("Spans", status=Status.DONE),
        NodeRecord("ExampleGen", status=Status.DONE, beam="direct, 3 pipelines, 21 transforms"),
        NodeRecord("StatisticsGen", status=Status.DONE, beam="direct, 1 pipeline, 14 transforms"),
    ]
    facts = "Beam direct: ExampleGen (3 pipelines, 21 transforms), StatisticsGen (1 pipeline, 14 transforms)"
    assert facts in run.report().all_text()
    run.record.nodes[1].beam = "auto, no pipeline: it ran without Beam"
    run.record.nodes[2].beam = "auto, 1 pipeline, 14 transforms"
    assert "Beam auto: StatisticsGen (1 pipeline, 14 transforms); not used by ExampleGen" in run.report().all_text()
    run.record.nodes = [NodeRecord("ExampleGen", status=Status.CACHED)]
    assert "Beam" not in run.report().all_text()
