"""The charts that pages draw themselves, in a real browser: the engine, and Google Charts' API drawn with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from browsing import watched

from headrace.pipeline.charts import script
from headrace.pipeline.tensorboard.server import charts

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVIL = "</title><img src=x onerror=alert(1)>"


def computed(browser: Browser, code: str, engine: str = script()) -> Any:
    """The value of an expression on an empty page with the engine."""
    with watched(browser, "about:blank") as page:
        page.page.set_content("<!doctype html><body></body>")
        page.page.add_script_tag(content=engine)
        value = page.page.evaluate(code)
        assert page.errors == []
        return value


def drawn(browser: Browser, chart: str, rows: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What a chart of Google's API shows: the texts, the tooltips, and where the dots are."""
    given = f"{json.dumps(rows)}, {json.dumps(options)}"
    return dict(
        computed(
            browser,
            f"""((rows, options) => {{
              const place = document.body.appendChild(document.createElement('div'));
              const chart = new google.visualization.{chart}(place);
              chart.draw(google.visualization.arrayToDataTable(rows), {{width: 400, height: 300, ...options}});
              const texts = [...place.querySelectorAll('svg > text')].map((one) => one.firstChild.data);
              const titles = [...place.querySelectorAll('circle > title, rect > title')].map((one) => one.textContent);
              const dots = [...place.querySelectorAll('circle')].map((one) => Number(one.getAttribute('cx')));
              return {{texts, titles, dots, images: place.querySelectorAll('img').length}};
            }})({given})""",
            charts().decode(),
        )
    )


@pytest.mark.parametrize(("log", "middle"), [(False, 50.5), (True, 10.0)])
def test_a_scale_maps_both_ways_and_its_ticks_are_inside(browser: Browser, log: bool, middle: float) -> None:
    found = computed(
        browser,
        f"""(() => {{
          const scale = headraceCharts.scale([1, 100], [20, 220], {{log: {str(log).lower()}}});
          return {{ends: [scale(1), scale(100)], middle: scale.invert(120), ticks: scale.ticks(6)}};
        }})()""",
    )
    assert found["ends"] == [20, 220]
    assert found["middle"] == pytest.approx(middle)
    assert len(found["ticks"]) >= 3
    assert all(1 <= tick <= 100 for tick in found["ticks"])


def test_a_scale_of_one_value_has_a_place_for_it(browser: Browser) -> None:
    assert computed(browser, "headraceCharts.scale([7, 7], [0, 100], {pad: 0.06})(7)") == pytest.approx(50)
    assert computed(browser, "headraceCharts.scale(headraceCharts.extent([]), [0, 100])(0)") == pytest.approx(50)


def test_a_curve_is_interrupted_where_it_has_no_value(browser: Browser) -> None:
    assert computed(browser, "headraceCharts.path([[0, 1], [2, 3], null, [4, 5]])") == "M0.0 1.0L2.0 3.0M4.0 5.0"


def test_text_is_never_markup(browser: Browser) -> None:
    found = drawn(browser, "ColumnChart", [["step", EVIL], [EVIL, 1.0], ["b", 2.0]], {"title": EVIL})
    assert found["texts"][0] == EVIL
    assert found["titles"][0] == f"{EVIL}: {EVIL} 1"
    assert found["images"] == 0


def test_a_line_over_numbers_has_its_points_at_them(browser: Browser) -> None:
    rows = [["x", "a", "b"], [0, 1.0, None], [10, 3.0, 2.0], [100, 2.0, 5.0]]
    found = drawn(browser, "LineChart", rows, {"hAxis": {"title": "bytes"}})
    assert found["titles"] == ["0: a 1", "10: a 3", "100: a 2", "10: b 2", "100: b 5"]  # none where there is no value
    first, second, third = found["dots"][:3]
    assert second - first == pytest.approx((third - first) / 10, rel=0.01)
    assert {"0", "50", "100", "bytes"} <= set(found["texts"])


def test_an_axis_that_is_to_be_logarithmic_is(browser: Browser) -> None:
    rows = [["x", "a"], [1, 1.0], [10, 10.0], [100, 100.0]]
    found = drawn(browser, "ScatterChart", rows, {"hAxis": {"scaleType": "log"}, "vAxis": {"scaleType": "log"}})
    first, second, third = found["dots"]
    assert second - first == pytest.approx(third - second, rel=0.01)


def test_rows_with_names_have_equal_places(browser: Browser) -> None:
    found = drawn(browser, "LineChart", [["step", "a"], ["train 1", 1.0], ["train 2", 4.0], ["train 3", 2.0]], {})
    first, second, third = found["dots"]
    assert second - first == pytest.approx(third - second, rel=0.01)
    assert {"train 1", "train 2", "train 3", "a"} <= set(found["texts"])
