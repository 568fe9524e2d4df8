"""The page of `headrace compare`: what it shows, that names and values are text, and how it is read in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import assert_accessible, violations, watched
from keyboard import assert_operable, assert_usable, to_the_top, walked

from headrace.pipeline.models.comparison import Comparison
from headrace.pipeline.models.comparison_page import comparison_page

if TYPE_CHECKING:
    from browsing import Watched
    from playwright.sync_api import Browser

EVIL = '<script>alert(1)</script>\u202e"><img src=x onerror=alert(2)>'
SHOWN = EVIL.replace("\u202e", "\\u202e")
URL = "postgresql://ml:hunter2@db/trips"
FOUND = Comparison(
    pipeline=EVIL,
    names=("1795402861", "20261122-030003", EVIL),
    runs=("20261121-030004", "20261122-030003", "20261123-030004"),
    metrics={
        "auc": (0.91, 0.96, 0.9),
        "recall": (0.7, 0.72, 0.5),
        "crossentropy": (0.3, 0.4, 0.2),
        "calibration": (1.1, 0.9, 1.0),
        "precision": (None, 0.5, 0.5),
    },
    intervals={
        "auc": ((0.9, 0.92), (0.95, 0.97), (0.89, 0.91)),
        "recall": ((0.6, 0.8), (0.7, 0.74), None),
    },
    settings={"data.source.url": (URL, EVIL, None)},
    data={"spans": ("1 to 2 (2)", "2 to 3 (2)", "3"), f"rows of {EVIL}": ("90,112", "91,764", "90,001")},
    code={"commit": ("77ab01d3e0c5b1d94c7a8f3a2b6c1d0e9f8a7b6c+dirty",) * 3},
)
SIZES = {390: {"width": 390, "height": 844}, 1280: {"width": 1280, "height": 844}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "comparison.html"
    path.write_text(comparison_page(FOUND), encoding="utf-8")
    return path.as_uri()


def rows(page: Watched, section: str) -> dict[str, list[str]]:
    """The rows of a section's table: the text of each cell, by that of the first."""
    found = [row.locator("th, td").all_inner_texts() for row in page.page.locator(f"#{section} tbody tr").all()]
    return {name.replace("\u200b", ""): [" ".join(cell.split()) for cell in cells] for name, *cells in found}


def test_it_shows_metrics_with_intervals_settings_data_and_code_and_runs_no_script(browser: Browser, home: str) -> None:
    with watched(browser, home, offline=True) as page:
        page.page.on("dialog", lambda dialog: page.errors.append(f"a dialog: {dialog.message}"))
        page.page.goto(page.home)
        assert page.page.locator("h1").inner_text() == SHOWN
        listed = page.page.locator(".compared li").all_inner_texts()
        assert listed == [
            "1795402861 trained by the run 20261121-030004",
            "20261122-030003",
            f"{SHOWN} trained by the run 20261123-030004",
        ]
        assert page.page.locator("#metrics thead th").all_inner_texts() == ["Metric", *FOUND.names[:2], SHOWN]
        assert rows(page, "metrics")["auc"] == [
            "0.9100 0.9000 to 0.9200",
            "0.9600 0.9500 to 0.9700",
            "0.9000 0.8900 to 0.9100",
        ]
        assert rows(page, "metrics")["precision"] == ["\N{EN DASH}", "0.5000", "0.5000"]
        (values,) = rows(page, "settings").values()
        assert values == ["postgresql://ml:***@db/trips", SHOWN, "\N{EN DASH}"]
        assert rows(page, "data") == {
            "spans": ["1 to 2 (2)", "2 to 3 (2)", "3"],
            f"rows of {SHOWN}": ["90,112", "91,764", "90,001"],
        }
        assert rows(page, "code") == {"commit": list(FOUND.code["commit"])}
        assert (page.left, page.errors) == ([], [])


def test_the_best_value_is_marked_unless_it_may_be_best_by_chance(browser: Browser, home: str) -> None:
    with watched(browser, home, offline=True) as page:
        page.page.goto(page.home)
        best = {
            row.locator("th").inner_text(): row.locator(".better").all_inner_texts()
            for row in page.page.locator("#metrics tbody tr").all()
        }
    assert {name: [cell.split()[0] for cell in cells] for name, cells in best.items()} == {
        "auc": ["0.9600"],
        "recall": [],  # 0.72 lies in the interval of 0.7
        "crossentropy": ["0.2000"],
        "calibration": [],  # neither way is better
        "precision": [],  # all that is known is the same
    }


def test_what_was_not_recorded_or_does_not_differ_is_said(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "comparison.html"
    path.write_text(comparison_page(Comparison("taxi", ("1", "2"), ("1", "2"), {}, {}, {}, {})), encoding="utf-8")
    with watched(browser, path.as_uri(), offline=True) as page:
        page.page.goto(page.home)
        assert page.page.locator("table").count() == 0
        assert "None were recorded" in page.page.locator("#metrics").inner_text()
        assert "the settings are the same" in page.page.locator("#settings").inner_text()
        assert violations(page.page) == []


def test_it_passes_axe(browser: Browser, home: str) -> None:
    assert_accessible(browser, home)


def test_two_runs_are_side_by_side_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    path, long = tmp_path / "comparison.html", ("77ab01d3e0c5b1d94c7a8f3a2b6c1d0e9f8a7b6c",) * 2
    found = Comparison("taxi", ("1", "2"), ("1", "2"), {"auc": (0.9, 0.8)}, {}, {}, {"commit": long})
    path.write_text(comparison_page(found), encoding="utf-8")
    with watched(browser, path.as_uri(), viewport=SIZES[390], offline=True) as page:
        page.page.goto(page.home)
        for section in ("metrics", "code"):
            name, first, second = page.page.locator(f"#{section} tbody tr > *").all()
            boxes = [cell.bounding_box() for cell in (name, first, second)]
            above, left, right = ((box["x"], box["y"], box["width"]) for box in boxes if box is not None)
            assert above[1] < left[1] == right[1]
            assert left[0] + left[2] <= right[0]
            assert right[0] + right[2] <= 390 - 16


@pytest.mark.parametrize("width", SIZES)
def test_it_is_used_by_the_keyboard_alone(browser: Browser, home: str, width: int) -> None:
    with watched(browser, home, viewport=SIZES[width], reduced_motion="reduce", offline=True) as page:
        page.page.goto(page.home)
        to_the_top(page.page)
        stops = walked(page.page)
        assert_usable(page.page, stops)
        assert_operable(page.page)
        assert len(stops) > 4
