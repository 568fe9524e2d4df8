"""From the config to the spans and files that a run reads, as they are now."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from headrace.common.errors import DataError
from headrace.components.example_gen.sources import find_files, source_patterns, source_state
from headrace.components.example_gen.spans.manifest import Span, SpanManifest
from headrace.components.example_gen.spans.patterns import SpanFile, glob_of, match_files, span_name, span_window
from headrace.components.example_gen.storage import FileState, checksum, each_once, resolve, stats
from headrace.configs.schema.data import DataConfig, placeholders

MAX_NAMED = 10
"""Missing spans, and files with several names, that are reported individually."""


def find_spans(data: DataConfig) -> SpanManifest:
    """The spans that a run would read now. Raises DataError if there are none, or not those in `data.spans`."""
    checksums = data.fingerprint == "checksums"
    state = source_state(data.source)
    if state is not None:
        return SpanManifest((Span(0, tuple(state)),), checksums)
    patterns = source_patterns(data.source)
    if not placeholders(patterns):
        paths, others = find_files(data.source), dict[str, str]()
        if getattr(data.source, "index", None) is None:  # an index may name an image in several rows
            paths, others = each_once(paths)
        return SpanManifest((Span(0, _states(paths, checksums=checksums)),), checksums, repeated=_repeated(others))
    spans = _by_span(patterns)
    if not spans:
        raise DataError(f"no file has a span in its path that matches {patterns[0]!r}")
    first, last = span_window(data, list(spans))
    _check_there(spans, first, last, patterns[0])
    chosen = {number: files for number, files in spans.items() if first <= number <= last}
    start = first if isinstance(data.spans, tuple) else max(first, min(spans))
    others = {name: path for files in chosen.values() for name, path in _once(files).items()}
    missing = islice((number for number in range(start, last) if number not in spans), MAX_NAMED)
    return SpanManifest(
        tuple(_span(number, files, patterns[0], checksums=checksums) for number, files in chosen.items()),
        checksums,
        tuple(span_name(number, patterns[0]) for number in missing),
        last + 1 - start - len(chosen),
        _repeated(others),
    )


def date_of_run(data: DataConfig, manifest: SpanManifest) -> str:
    """The date, as YYYY-MM-DD, as of which the data of a run is judged: `data.run_date`, or today (UTC).

    If `data.spans` selects the spans, as in a backfill, that of the last one plus `data.delay`, so that it does not
    depend on when the run starts; "" for spans without dates.
    """
    if data.spans is not None:
        name = manifest.spans[-1].name
        return str(dt.date.fromisoformat(name) + dt.timedelta(data.delay)) if "-" in name else ""
    return data.run_date or str(dt.datetime.now(dt.UTC).date())


def _files(pattern: str) -> list[str]:
    """Files that may match. Raises DataError, with the pattern as the config has it, if there are none."""
    try:
        return resolve(glob_of(pattern))
    except DataError as error:
        what = error.what.replace(glob_of(pattern), pattern)
        raise DataError(what, file=error.file and pattern, hint=error.hint) from None


def _once(files: list[SpanFile]) -> dict[str, str]:
    """Remove all but one name of each file of a span; returns the other names, each with the chosen one."""
    chosen, others = each_once(file.path for file in files)
    by_path = {file.path: file for file in files}
    files[:] = [by_path[path] for path in chosen]
    return others


def _repeated(others: Mapping[str, str]) -> tuple[str, ...]:
    """A line about each of the first files that have other names, and one about the rest."""
    named = islice(others.items(), MAX_NAMED)
    lines = [f"{name} is another name of {chosen}, which is read once" for name, chosen in named]
    more = f"{len(others) - MAX_NAMED:,} more paths are other names of files that are read once"
    return (*lines, more) if len(others) > MAX_NAMED else tuple(lines)


def _states(paths: Sequence[str], *, checksums: bool) -> tuple[FileState, ...]:
    states = stats(sorted(paths))
    if checksums:
        states = [FileState(state.path, state.size, checksum(state.path)) for state in states]
    return tuple(states)


def _by_span(patterns: Sequence[str]) -> dict[int, list[SpanFile]]:
    """The files of each span, from all patterns."""
    spans: dict[int, list[SpanFile]] = defaultdict(list)
    for pattern in patterns:
        for number, files in _newest(match_files(pattern, _files(pattern))).items():
            spans[number] += files
    return {number: spans[number] for number in sorted(spans)}


def _newest(found: Iterable[SpanFile]) -> dict[int, list[SpanFile]]:
    """The files of each span of one pattern, in the newest version of the span.

    Raises DataError if two paths spell a span differently, such as 7 and 007: one is probably a copy of the other.
    """
    spans: dict[int, list[SpanFile]] = defaultdict(list)
    for file in found:
        spans[file.span].append(file)
    for number, files in spans.items():
        newest = max(file.version or 0 for file in files)
        spans[number] = [file for file in files if (file.version or 0) == newest]
        other = next((file for file in spans[number] if file.digits != spans[number][0].digits), None)
        if other is not None:
            raise DataError(
                f"has the same span and version as {spans[number][0].path}, with other digits",
                file=other.path,
                hint="Remove one of the two, or rename it",
            )
    return spans


def _check_there(spans: Mapping[int, object], first: int, last: int, pattern: str) -> None:
    """Raise DataError if `data.spans` names spans that do not exist."""
    if first > last:
        raise DataError(
            f"`data.spans` starts with {span_name(first, pattern)}, after its end, {span_name(last, pattern)}"
        )
    if last not in spans:
        names = [span_name(number, pattern) for number in spans]
        raise DataError(
            f"there is no span {span_name(last, pattern)}",
            hint=f"There are {len(names)}, from {names[0]} to {names[-1]}; `data.spans` chooses among them",
        )


def _span(number: int, files: Sequence[SpanFile], pattern: str, *, checksums: bool) -> Span:
    states = _states([found.path for found in files], checksums=checksums)
    versions = [found.version for found in files if found.version is not None]
    return Span(number, states, span_name(number, pattern), max(versions, default=None))
