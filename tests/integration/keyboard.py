"""A page used by the keyboard alone, in a real browser that was asked for `reduced_motion`, as scrolling takes time.

stops = walked(page)                # Tab from the top of the page to its end
assert_usable(page, stops)          # all that can be operated is among them, in reading order, seen and operable
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Page

MOST = 400
"""Presses of Tab after which a page counts as a trap."""
OPERABLE = "a[href], button, input, select, textarea, summary, [tabindex]"
"""What can be operated; a scrolling region is too, by the arrow keys."""
NUMBERED = f"""() => {{
  const seen = (one) => one.checkVisibility({{visibilityProperty: true}}) && !one.disabled && one.tabIndex >= 0;
  const all = [...document.querySelectorAll(`{OPERABLE}`)].filter(seen);
  all.forEach((one, place) => one.setAttribute("data-place", place));
  return all.length;
}}"""
FOCUSED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  for (let before = NaN, frames = 0; before !== scrollY && frames < 200; frames += 1) {
    before = scrollY;  // until the page has scrolled to the focus
    await frame();
    await frame();
  }
  const one = document.activeElement;
  if (!one || one === document.body || one === document.documentElement) return null;
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  return {
    place: one.dataset.place === undefined ? null : Number(one.dataset.place),
    tag: one.localName,
    kind: one.type ?? "",
    words: (one.getAttribute("aria-label") ?? one.textContent).trim().slice(0, 40),
    outlined: one.matches(":focus-visible") && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    inside: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
    scrolls: one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight,
  };
}"""
CLICKS = """() => {
  window.clicked = 0;
  document.activeElement.addEventListener("click", () => { window.clicked += 1; });
}"""


class Stop(NamedTuple):
    """What has the focus after a press of Tab.

    place: among all that can be operated, in the order of the page; None for what the browser adds, as a region that
    scrolls; tag, kind: of the element; words: its beginning; outlined: whether the focus is seen; inside: whether it is
    in the window; scrolls: whether it has more than fits.
    """

    place: int | None
    tag: str
    kind: str
    words: str
    outlined: bool
    inside: bool
    scrolls: bool


def unfold(page: Page) -> None:
    """Open all that is folded, by the keyboard."""
    for number in range(page.locator("details").count()):
        details = page.locator("details").nth(number)
        if details.get_attribute("open") is None:
            details.locator("summary").first.focus()
            page.keyboard.press("Enter")
            assert details.get_attribute("open") is not None


def to_the_top(page: Page) -> None:
    """Move the focus before everything on the page."""
    page.locator(OPERABLE).first.focus()
    page.keyboard.press("Shift+Tab")


def walked(page: Page, key: str = "Tab") -> list[Stop]:
    """Every stop from where the focus is to the end of the page. Fails if the focus never leaves it, or gets stuck."""
    page.evaluate(NUMBERED)
    stops: list[Stop] = []
    for _ in range(MOST):
        page.keyboard.press(key)
        found = page.evaluate(FOCUSED)
        if found is None and stops:
            return stops
        if found is None:
            continue  # the focus came from the top of the page, by Shift+Tab
        stop = Stop(**found)
        if stops and stop.place is not None and stop.place == stops[0].place:
            return stops  # from the end to the top again
        assert not stops or stop != stops[-1] or stop.place is None, f"the focus stays at {stop}"
        stops.append(stop)
    raise AssertionError(f"the focus did not leave the page after {MOST} presses; at last at {stops[-1]}")


def assert_usable(page: Page, stops: list[Stop]) -> None:
    """Everything that can be operated is reached, once and in the order of the page, and its focus is seen."""
    number = page.evaluate(NUMBERED)
    reached = [stop.place for stop in stops if stop.place is not None]
    missing = [place for place in range(number) if place not in reached]
    assert not missing, [page.locator(f'[data-place="{place}"]').evaluate("one => one.outerHTML") for place in missing]
    assert reached == [*range(number)], reached
    faults = {
        "the focus cannot be seen": [stop for stop in stops if not stop.outlined],
        "it is outside of the window": [stop for stop in stops if not stop.inside],
        "nothing can be done there": [stop for stop in stops if stop.place is None and not stop.scrolls],
    }
    assert not any(faults.values()), faults


def assert_operable(page: Page) -> dict[str, int]:
    """Press the keys of everything that can be operated, and see that they work; returns how many of each kind."""
    counted: dict[str, int] = {}
    page.evaluate(NUMBERED)
    for one in page.query_selector_all("[data-place]"):
        what = one.evaluate("one => one.type || (one.matches('summary, a, svg') ? one.localName : '')")
        if what and one.is_visible():  # and not replaced by what an earlier one did
            one.focus()
            assert _works(page, one, what), one.evaluate("one => one.outerHTML")
            counted[what] = counted.get(what, 0) + 1
    return counted


def _leads(page: Page, target: str) -> bool:
    """Whether Enter follows the link with the focus to its target; not tried if that is another file."""
    if not target.startswith("#"):
        return True
    page.keyboard.press("Enter")
    return bool(page.evaluate("decodeURIComponent(location.hash)") == target)


def _works(page: Page, one: Any, what: str) -> bool:
    """Whether the keys for an element of this kind do what they should."""
    if what == "summary":
        states = []
        for key in ("Enter", "Space"):
            page.keyboard.press(key)
            states.append(one.evaluate("one => one.parentElement.open"))
        return states[0] is not states[1]
    if what in ("button", "submit"):
        page.evaluate(CLICKS)
        for key in ("Enter", "Space"):
            page.keyboard.press(key)
        return bool(page.evaluate("window.clicked") == 2)
    if what == "a":
        return _leads(page, one.evaluate("one => one.getAttribute('href')"))
    if what in CHANGES:
        before = one.input_value()
        for key in CHANGES[what]:
            page.keyboard.press(key)
            if one.input_value() != before:
                return True
        return what == "select-one" and one.evaluate("one => one.options.length") == 1
    return True


CHANGES = {
    "range": ("ArrowRight",),
    "number": ("ArrowUp",),
    "select-one": ("ArrowDown", "ArrowUp"),
    "search": ("x",),
    "text": ("x",),
}
"""The keys, one of which changes the value of an input."""
