"""A real browser for tests, and pages that remember what they asked for and what went wrong.

def test_the_page_opens(browser: Browser, tmp_path: Path) -> None:
    with watched(browser, (tmp_path / "index.html").as_uri()) as page:
        page.goto(page.home)
        page.wait_for("text=Training")
        assert page.left == [] and page.errors == []

`browser` is a fixture of tests/conftest.py. Where there is no Chromium the test is skipped, with the reason.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 180_000
"""Milliseconds to wait for anything: the machine may be busy."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LAID_OPEN = """() => {
  for (const one of document.querySelectorAll('details:not([open])')) one.open = true;
  const flat = new CSSStyleSheet();
  flat.replaceSync('*, ::before, ::after { background-image: none !important }');
  document.adoptedStyleSheets = [flat];
}"""


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """Headless Chromium from the system; skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    binary = next((found for name in NAMES if (found := shutil.which(name))), None)
    if binary is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def violations(page: Page) -> list[str]:
    """What axe finds against WCAG 2.0 to 2.2, levels A and AA, and its own best practices: each rule, and where it is
    broken.

    What is folded is unfolded first, and stays so. Axe judges no contrast in front of an image, so the shadows at the
    ends of tables that scroll are taken away.
    """
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(LAID_OPEN)
    found = Axe().run(page, options={"runOnly": RULES}).response
    undecided = [node for rule in found["incomplete"] for node in rule["nodes"]]
    assert not [node["target"] for node in undecided if any("gradient" in why["message"] for why in node["any"])]
    found = found["violations"]
    return [f"{rule['id']}: {', '.join(str(node['target'][0]) for node in rule['nodes'])}" for rule in found]


def assert_accessible(browser: Browser, home: str) -> None:
    """The page at an address passes axe and is read without scrolling sideways.

    So it is on a phone and on a wide screen, by day and by night, without a network.
    """
    for scheme, width in itertools.product(("light", "dark"), (390, 1280)):
        size = {"width": width, "height": 844}
        with watched(browser, home, viewport=size, color_scheme=scheme, offline=True) as page:
            page.page.goto(page.home)
            assert violations(page.page) == [], f"{scheme}, {width} pixels"
            assert page.page.evaluate("document.documentElement.scrollWidth") == width, scheme
            assert page.errors == []


@dataclass
class Watched:
    """A page under watch."""

    page: Page
    home: str
    """An address; requests to other places than its host count as `left`."""
    left: list[str] = field(default_factory=list)
    """Requests that went elsewhere, whether they were answered or not."""
    errors: list[str] = field(default_factory=list)
    """What the console shows as an error, and exceptions that nobody caught."""

    def frame(self, part: str) -> Frame:
        """The frame whose address holds this; waits until it is there."""
        for _ in range(PATIENCE // 100):
            for frame in self.page.frames:
                if part in frame.url:
                    return frame
            self.page.wait_for_timeout(100)
        raise AssertionError(f"no frame with {part!r}; there are {[frame.url for frame in self.page.frames]}")

    def _asked(self, request: Any) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and (url.scheme, url.netloc) != urlsplit(self.home)[:2]:
            self.left.append(request.url)


@contextlib.contextmanager
def watched(browser: Browser, home: str, **context: Any) -> Iterator[Watched]:
    """A new page, which shares nothing with others.

    context: as of Playwright's `new_context`, such as `viewport`, `color_scheme` or `offline`.
    """
    opened = browser.new_context(**context)
    page = opened.new_page()
    page.set_default_timeout(PATIENCE)
    reported = Watched(page, home)
    page.on("request", reported._asked)
    page.on("pageerror", lambda error: reported.errors.append(str(error)))
    page.on("console", lambda said: reported.errors.append(said.text) if said.type == "error" else None)
    try:
        yield reported
    finally:
        opened.close()
