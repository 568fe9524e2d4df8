"""The shared page in a real browser, from disk and without a network."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import violations, watched
from keyboard import assert_operable, assert_usable, to_the_top, unfold, walked

from headrace.components.evaluation.result import read_evaluation, write_evaluation
from headrace.pipeline.share.find import find
from headrace.pipeline.share.folder import write_share

if TYPE_CHECKING:
    from browsing import Watched
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

Two = Callable[[], list[Path]]
EVIL = "</script><script>alert(1)</script>"
EVIL_VALUE = "\"><img src=x onerror=alert(2)> it's"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def folder(two: Two, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two runs, its name hostile."""
    target = tmp_path_factory.mktemp("shared") / "page"
    write_share([find(run) for run in two()], target, name=EVIL, description=EVIL_VALUE)
    return target


@contextmanager
def opened(browser: Browser, folder: Path, **context: Any) -> Iterator[Watched]:
    """The page from disk; at the end nothing may have left it, and nothing gone wrong."""
    with watched(browser, (folder / "index.html").as_uri(), offline=True, **context) as page:
        asked: list[str] = []
        page.page.on("request", lambda request: asked.append(request.url))
        page.page.on("dialog", lambda dialog: page.errors.append(f"a dialog: {dialog.message}"))
        page.page.goto(page.home)
        page.page.wait_for_selector("#plots .curve")
        yield page
        assert asked == [page.home]
        assert page.errors == []


def plot(page: Watched, title: str) -> Any:
    return page.page.locator("#plots figure").filter(has=page.page.get_by_role("heading", name=title, exact=True))


def reported(page: Watched, title: str, share: float) -> dict[str, str]:
    """What hovering at a share of a plot's width tells: the heading under "", then each line's value."""
    picture = plot(page, title).locator("svg")
    box = picture.bounding_box()
    picture.hover(position={"x": 54 + share * (box["width"] - 64), "y": box["height"] / 2})
    tip = plot(page, title).locator(".tip")
    tip.wait_for(state="visible")
    rows = [row.locator("span:not(.dot), b").all_text_contents() for row in tip.locator("p").all()]
    return {"": tip.locator("> b").text_content(), **dict(rows)}


def lines(page: Watched, title: str) -> list[str]:
    return [path.get_attribute("d") for path in plot(page, title).locator("path.curve:not(.faint)").all()]


def press(page: Watched, name: str) -> None:
    page.page.locator("#controls").get_by_role("button", name=name, exact=True).click()


def test_hovering_shows_the_values_of_every_run(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        assert reported(page, "loss", 0.52) == {
            "": "epoch 2", "20260102-000000 train": "0.6", "20260101-000000 train": "0.5",
            "20260102-000000 eval": "0.5", "20260101-000000 eval": "0.4",
        }  # fmt: skip
        assert reported(page, "loss", 0.97)[""] == "epoch 3"
        assert reported(page, "auc", 0.0)["20260101-000000 eval"] == "0.7"
        plot(page, "auc").locator("svg").press("ArrowRight")
        assert plot(page, "auc").locator(".tip > b").text_content() == "epoch 2"


def test_runs_and_splits_can_be_hidden(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        assert len(lines(page, "loss")) == 4
        press(page, "20260101-000000")
        assert set(reported(page, "loss", 0.5)) == {"", "20260102-000000 train", "20260102-000000 eval"}
        press(page, "train")
        assert set(reported(page, "loss", 0.5)) == {"", "20260102-000000 eval"}
        press(page, "20260102-000000")
        assert lines(page, "loss") == []
        assert "nothing to show" in plot(page, "loss").text_content()
        assert page.page.locator("#slice-table tbody tr").count() == 1
        press(page, "20260101-000000")
        press(page, "train")
        assert len(lines(page, "loss")) == 2


def test_smoothing_log_scale_and_time_change_the_curves(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        plain = lines(page, "loss")
        page.page.locator("#smoothing").fill("0.6")
        assert len(plot(page, "loss").locator("path.faint").all()) == 4
        expected = (0.6 * 0.4 * 1.0 + 0.4 * 0.5) / (1 - 0.6**2)  # the mean of 1 and 0.5, weighted
        assert reported(page, "loss", 0.5)["20260101-000000 train"] == f"{expected:.4g}"
        page.page.locator("#smoothing").fill("0")
        assert lines(page, "loss") == plain
        press(page, "Log scale")
        assert lines(page, "loss") != plain
        assert reported(page, "loss", 0.5)["20260101-000000 train"] == "0.5"
        page.page.get_by_role("combobox", name="Over").select_option("relative")
        assert reported(page, "loss", 0.0)[""] == "2 s"  # the end of the second run's first epoch
        assert reported(page, "loss", 1.0)[""] == "6 s"
        assert "since the training began" in str(plot(page, "loss").text_content())


def test_slices_are_compared_by_any_metric(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        rows = page.page.locator("#slice-table tbody tr")

        def shown() -> list[list[str]]:
            return [row.locator("th, td").all_text_contents() for row in rows.all()]

        assert shown() == [
            ["all", "100", "0.9000", "0.8000"],
            ["2", "60", "0.7000", "0.8000"],
            ["1", "40", "0.8000", "0.8000"],
        ]
        assert rows.nth(1).locator(".better").text_content() == "0.8000"
        page.page.get_by_role("combobox", name="Metric").select_option("binary_crossentropy")
        assert rows.nth(0).locator(".better").text_content() == "0.4000"  # less is better
        page.page.get_by_role("combobox", name="By").select_option("company")
        assert [row[0] for row in shown()][1:3] == [EVIL_VALUE, "(empty)"]
        assert rows.nth(3).locator("th").text_content() == "long " * 40 + "x" * 200
        scroll, seen = page.page.locator("#slice-table").evaluate(
            "one => [one.parentElement.scrollWidth, one.parentElement.clientWidth]"
        )
        assert scroll <= seen


def test_values_have_their_intervals_and_none_is_marked_that_may_be_best_by_chance(
    browser: Browser, pipeline: Any, tmp_path: Path
) -> None:
    overall, second = [(0.85, 0.95), (0.75, 0.92)], [(0.68, 0.72), (0.78, 0.82)]
    runs = []
    for number in range(2):
        runs.append(pipeline.add(f"2026010{number + 1}-000000", shift=0.1 * number))
        path = pipeline.home / "artifacts" / "Evaluator" / "evaluation" / runs[-1].name
        found = read_evaluation(path)
        first, other, *rest = found.slices
        slices = (first, replace(other, intervals={"auc": second[number]}), *rest)
        write_evaluation(path, replace(found, intervals={"auc": overall[number]}, slices=slices))
    write_share([find(run) for run in runs], tmp_path / "page", name="taxi")
    with opened(browser, tmp_path / "page", viewport=PHONE) as page:
        rows = page.page.locator("#slice-table tbody tr")
        assert rows.nth(0).locator("td").nth(1).text_content() == "0.90000.8500 to 0.9500"
        assert rows.nth(0).locator("td small").all_text_contents() == ["0.8500 to 0.9500", "0.7500 to 0.9200"]
        assert rows.nth(0).locator(".better").count() == 0  # the interval of the second contains the first
        assert rows.nth(1).locator("td small").all_text_contents() == ["0.6800 to 0.7200", "0.7800 to 0.8200"]
        assert rows.nth(1).locator(".better").all_text_contents() == ["0.80000.7800 to 0.8200"]
        assert violations(page.page) == []


def test_weights_are_drawn_for_each_epoch_and_run(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        page.page.wait_for_selector("#histogram-plots .ridge")
        first = page.page.locator("#histogram-plots figure").first
        assert page.page.locator("#histogram-plots figure").count() == 4
        assert first.locator(".ridge").count() == 3
        assert "epoch 3" in str(first.text_content())
        assert "32 values" in str(first.text_content())
        first.locator("svg").hover(position={"x": 100, "y": 61})
        assert "epoch 1" in str(first.text_content())
        page.page.locator("#histogram-controls select").select_option("1")
        page.page.wait_for_selector("#histogram-plots .ridge.run1")
        assert page.page.locator("#histogram-plots .ridge.run1").count() == 12


def test_names_from_data_are_shown_as_they_are(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        assert page.page.locator("h1").text_content() == EVIL
        assert page.page.locator(".description").text_content() == EVIL_VALUE
        assert plot(page, EVIL).count() == 1
        assert page.page.locator("img").count() == 0
        assert page.page.evaluate("document.scripts.length") == 2
        assert EVIL_VALUE in str(page.page.locator("#run-1").text_content())


def test_all_parts_of_a_run_are_there(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        page.page.locator("#overview a", has_text="20260102-000000").click()
        second = page.page.locator("#run-2[open]")
        second.wait_for()
        text = second.inner_text()
        for part in ("Evaluation", "Profile", "input-bound", "train.input.cache", "Config", "tensorflow"):
            assert part in text
        rows = page.page.locator("#differences tbody tr").all()
        assert [row.locator("th, td").all_text_contents() for row in rows] == [
            ["model.hidden", "[128, 64]", "[32]"],
            ["train.learning_rate", "0.001", "0.01"],
        ]
        press_only = page.page.get_by_role("button", name="Only what differs")
        assert page.page.locator("#parameters tbody tr:visible").count() > 10
        press_only.click()
        assert page.page.locator("#parameters tbody tr:visible").count() == 2
        ids = page.page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_passes_axe_on_a_wide_screen(browser: Browser, folder: Path, scheme: str) -> None:
    with opened(browser, folder, viewport={"width": 1280, "height": 844}, color_scheme=scheme) as page:
        for details in page.page.locator("details").all():
            details.evaluate("one => { one.open = true }")
        assert page.page.evaluate("document.documentElement.scrollWidth") == 1280
        assert violations(page.page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_on_a_phone_by_day_and_by_night(browser: Browser, folder: Path, scheme: str) -> None:
    with opened(browser, folder, viewport=PHONE, color_scheme=scheme, has_touch=True) as page:
        for details in page.page.locator("details").all():
            details.evaluate("one => { one.open = true }")
        assert page.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        assert violations(page.page) == []
        plotted = page.page.locator("#plots figure").first.bounding_box()
        assert plotted is not None
        assert plotted["width"] > 300
        contrast = page.page.evaluate(CONTRAST)
        assert min(contrast.values()) >= 3, contrast
        assert contrast["body"] >= 7
        plot(page, "loss").locator("svg").tap()
        assert plot(page, "loss").locator(".tip").is_visible()


CONTRAST = """() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const paper = getComputedStyle(document.body).backgroundColor;
  const card = getComputedStyle(document.querySelector('.card')).backgroundColor;
  const ink = (selector) => getComputedStyle(document.querySelector(selector)).color;
  const found = {body: ratio(ink('body'), paper), soft: ratio(ink('.soft'), paper)};
  for (const number of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
    const probe = document.createElement('i');
    probe.className = `dot run${number}`;
    document.body.append(probe);
    found[number] = ratio(getComputedStyle(probe).backgroundColor, card);
    probe.remove();
  }
  return found;
}"""


def test_more_runs_than_colours_are_distinguished_by_their_strokes(browser: Browser, two: Two, tmp_path: Path) -> None:
    runs = [tmp_path / f"run-{number:02}" for number in range(12)]
    for run in runs:
        shutil.copytree(two()[0], run)
    write_share([find(run) for run in runs], tmp_path / "page", name="Twelve", logs=False)
    with opened(browser, tmp_path / "page") as page:
        curves = plot(page, "loss").locator("path.curve").all()
        marks = [(curve.get_attribute("class"), curve.get_attribute("stroke-dasharray")) for curve in curves]
        assert len(set(marks)) == 24  # of each run train and eval
        dots = page.page.locator("#controls .chip .dot")
        looks = [dot.evaluate(LOOK) for dot in dots.all()]
        assert len(looks) == len(set(looks)) == 12
        heads = page.page.locator("#overview tbody .dot").evaluate_all("all => all.map((one) => one.className)")
        assert heads == dots.evaluate_all("all => all.map((one) => one.className)")


LOOK = """one => {
  const style = getComputedStyle(one);
  return [style.backgroundColor, style.backgroundImage, style.width].join(' ');
}"""


def test_a_page_of_one_run_has_no_comparison(browser: Browser, two: Two, tmp_path: Path) -> None:
    write_share([find(two()[0])], tmp_path / "one", name="One")
    with opened(browser, tmp_path / "one") as page:
        assert reported(page, "loss", 0.5) == {"": "epoch 2", "train": "0.5", "eval": "0.4"}
        assert page.page.locator("#slices, #differences").filter(visible=True).count() == 0
        assert page.page.locator("#run-1-slices-1").is_visible()


@pytest.mark.parametrize(("runs", "width"), [(1, 1280), (2, 390)])
def test_page_of_one_run_and_comparison_are_used_by_the_keyboard_alone(
    browser: Browser, two: Two, tmp_path: Path, runs: int, width: int
) -> None:
    write_share([find(run) for run in two()[:runs]], tmp_path / "page", name="Keys")
    size = {"width": width, "height": 844}
    with opened(browser, tmp_path / "page", viewport=size, reduced_motion="reduce") as page:
        stops = walked(page.page)
        assert_usable(page.page, stops)
        unfold(page.page)
        to_the_top(page.page)
        again = walked(page.page)
        assert_usable(page.page, again)
        assert len(again) > len(stops)
        counted = assert_operable(page.page)
        assert counted.keys() >= {"a", "button", "range", "select-one", "summary"}
        assert page.page.evaluate("document.documentElement.scrollWidth") == width


def test_a_plot_tells_its_values_to_the_arrow_keys_and_escape_closes_them(browser: Browser, folder: Path) -> None:
    with opened(browser, folder) as page:
        tip = plot(page, "loss").locator(".tip")
        plot(page, "loss").locator("svg").focus()
        page.page.keyboard.press("ArrowRight")
        first = tip.locator("> b").text_content()
        page.page.keyboard.press("ArrowRight")
        assert tip.locator("> b").text_content() != first
        assert tip.is_visible()
        page.page.keyboard.press("Escape")
        assert not tip.is_visible()
        assert page.page.evaluate("document.activeElement.localName") == "svg"
        page.page.keyboard.press("ArrowRight")
        page.page.keyboard.press("Tab")
        assert not tip.is_visible()


def test_from_a_server_it_asks_for_nothing_but_itself(browser: Browser, folder: Path) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        home = f"http://127.0.0.1:{server.server_address[1]}/"
        with watched(browser, home) as page:
            asked: list[str] = []
            page.page.on("request", lambda request: asked.append(request.url))
            page.page.goto(home)
            page.page.wait_for_selector("#plots .curve")
            page.page.wait_for_timeout(300)
            assert {address for address in asked if not address.endswith("favicon.ico")} == {home}
            assert page.left == []
        server.shutdown()
