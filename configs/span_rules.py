"""The rules for spans: placeholders in paths, `data.window` and `data.spans`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence

from headrace.configs.data import DataConfig
from headrace.configs.sources import FileSource
from headrace.configs.span_fields import DATE, placeholders, what_is_wrong
from headrace.configs.tree import Where

Finding = tuple[Where, str]


def placeholders_are_right(data: DataConfig) -> Iterator[Finding]:
    for where, path in _paths(data):
        wrong = what_is_wrong(path)
        if wrong:
            yield where, wrong


def paths_count_spans_alike(data: DataConfig) -> Iterator[Finding]:
    (_, first), *others = _paths(data) or [((), "")]
    for where, path in others:
        if placeholders(path) != placeholders(first) and not what_is_wrong(path):
            yield where, f"has {_listed(path)}, and the first path has {_listed(first)}; all must have the same ones"


def window_needs_spans(data: DataConfig) -> Iterator[Finding]:
    chosen = {"window": data.window != 1, "spans": data.spans is not None, "run_date": data.run_date is not None}
    for name in (name for name, is_set in chosen.items() if is_set):
        if not isinstance(data.source, FileSource):
            yield ("data", name), f"only files come in spans, and this source is {data.source.kind}; remove it"
        elif not placeholders(path for _, path in _paths(data)):
            what = "there are no spans: no path has {SPAN}, or {YYYY}, {MM} and {DD}; put them in, or remove this"
            yield ("data", name), what


def chosen_spans_exist(data: DataConfig) -> Iterator[Finding]:
    """Dates must be dates, and only paths with dates have such spans."""
    given = data.spans if isinstance(data.spans, tuple) else (data.spans,)
    dated = placeholders(path for _, path in _paths(data)) >= DATE
    where: Where = ("data", "spans")
    for span in (span for span in given if isinstance(span, str)):
        if not is_date(span):
            yield where, f"{span} is no date"
        elif not dated:
            yield where, f"{span} is a date, and the path counts its spans by {{SPAN}}: give a number"
    if len(given) == 2 and type(given[0]) is type(given[1]) and given[0] > given[1]:  # type: ignore[operator]
        yield where, f"the range starts with {given[0]}, after its end, {given[1]}"


def run_date_is_a_day_of_dated_spans(data: DataConfig) -> Iterator[Finding]:
    if data.run_date is None:
        return
    if not is_date(data.run_date):
        yield ("data", "run_date"), f"{data.run_date} is no date"
    numbered = "SPAN" in placeholders(path for _, path in _paths(data))
    if numbered:
        yield ("data", "run_date"), "the path counts its spans by {SPAN}, so no day tells which there are; remove it"


def _paths(data: DataConfig) -> Sequence[tuple[Where, str]]:
    """Each path and its place."""
    if not isinstance(data.source, FileSource):
        return []
    where: Where = ("data", "source", "path")
    if isinstance(data.source.path, str):
        return [(where, data.source.path)]
    return [((*where, number), path) for number, path in enumerate(data.source.path)]


def _listed(path: str) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(placeholders(path))) or "no placeholders"


def is_date(text: str) -> bool:
    """Whether it is a day that there is, as YYYY-MM-DD."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


RULES: tuple[Callable[..., Iterator[Finding]], ...] = (
    placeholders_are_right,
    paths_count_spans_alike,
    window_needs_spans,
    chosen_spans_exist,
    run_date_is_a_day_of_dated_spans,
)
