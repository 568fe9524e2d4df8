"""From the config to the spans and files that a run reads, as they are now."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from headrace.common.errors import DataError, NoDataError
from headrace.common.storage.files import FileState, checksum, each_once, resolve, stats
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.components.spans.patterns import SpanFile, glob_of, match_files, span_name, span_window
from headrace.components.spans.source_state import find_files, may_share_files, source_patterns, source_state
from headrace.configs.schema.data import DataConfig, placeholders
from headrace.configs.schema.sources import SourceConfig

MAX_NAMED = 10
"""Missing spans, and files with several names, that are reported individually."""


def find_spans(data: DataConfig) -> SpanManifest:
    """The spans that a run would read now. Raises DataError if there are none, or not those in `data.spans`."""
    checksums = data.fingerprint == "checksums"
    sources = data.source.by_splits()
    states = {split: source_state(one) for split, one in sources.items()}
    if None not in states.values():
        found, splits = _with_splits([(state, split) for split, own in states.items() for state in own or ()])
        return SpanManifest((Span(0, found, splits=splits),), checksums)
    patterns = [pattern for one in sources.values() for pattern in source_patterns(one)]
    if not placeholders(patterns):
        files, others = _all_files(sources)
        return SpanManifest((_span(0, files, "", checksums=checksums),), checksums, repeated=_repeated(others))
    spans = _by_span(sources)
    if not spans:
        raise NoDataError(f"no file has a span in its path that matches {patterns[0]!r}")
    first, last = span_window(data, list(spans))
    _check_there(spans, first, last, patterns[0])
    chosen = {number: files for number, files in spans.items() if first <= number <= last}
    start = first if isinstance(data.spans, tuple) else max(first, min(spans))
    others = {name: path for files in chosen.values() for name, path in _once(files, data.source.section).items()}
    missing = islice(_missing(spans, range(start, last + 1), [*sources], patterns[0]), MAX_NAMED)
    incomplete = sum(len({file.split for file in files}) < len(sources) for files in chosen.values())
    return SpanManifest(
        tuple(_span(number, files, patterns[0], checksums=checksums) for number, files in chosen.items()),
        checksums,
        tuple(missing),
        last + 1 - start - len(chosen) + incomplete,
        _repeated(others),
    )


def write_spans(data: str, spans: Any, as_of: Any, code: str = "") -> None:  # noqa: ARG001 - the component has it
    """What the component Spans does, for its artifacts or others with the same methods."""
    config = DataConfig.model_validate_json(data)
    manifest = find_spans(config)
    spans.value, as_of.value = manifest.to_json(), date_of_run(config, manifest)


def date_of_run(data: DataConfig, manifest: SpanManifest) -> str:
    """The date, as YYYY-MM-DD, as of which the data of a run is judged: `data.run_date`, or today (UTC).

    If `data.spans` selects the spans, as in a backfill, that of the last one plus `data.delay`, so that it does not
    depend on when the run starts; "" for spans without dates.
    """
    if data.spans is not None:
        name = manifest.spans[-1].name
        return str(dt.date.fromisoformat(name) + dt.timedelta(data.delay)) if "-" in name else ""
    return data.run_date or str(dt.datetime.now(dt.UTC).date())


def _all_files(sources: Mapping[str, SourceConfig]) -> tuple[list[SpanFile], dict[str, str]]:
    """The files of a source without spans, and the other names of each."""
    files = [SpanFile(path, 0, None, split=split) for split, one in sources.items() for path in find_files(one)]
    (one, *_) = sources.values()
    shared = getattr(one, "index", None) is not None  # which may name an image in several rows
    shared = shared or ("" not in sources and may_share_files(one))
    return files, {} if shared else _once(files, one.section)


def _missing(
    spans: Mapping[int, Sequence[SpanFile]], numbers: Iterable[int], splits: Sequence[str], pattern: str
) -> Iterator[str]:
    """The spans without data, and those without data of some of the splits, with these."""
    for number in numbers:
        found = {file.split for file in spans.get(number, ())}
        absent = [split for split in splits if split not in found]
        if absent:
            name = span_name(number, pattern)
            yield f"{name} ({', '.join(absent)})" if found else name


def _files(pattern: str) -> list[str]:
    """Files that may match. Raises DataError, with the pattern as the config has it, if there are none."""
    try:
        return resolve(glob_of(pattern))
    except DataError as error:
        what = error.what.replace(glob_of(pattern), pattern)
        raise type(error)(what, file=error.file and pattern, hint=error.hint) from None


def _once(files: list[SpanFile], section: str) -> dict[str, str]:
    """Remove all but one name of each file of a span; returns the other names, each with the chosen one.

    Raises DataError for a file that two splits have.
    """
    chosen, others = each_once(file.path for file in files)
    by_path = {file.path: file for file in files}
    for file in files:
        one = by_path[others.get(file.path, file.path)]
        if one.split != file.split:
            same = "" if one.path == file.path else f"is the same file as {one.path}, and "
            what = f"{same}belongs to both {file.split} and {one.split}, so that the model would be judged on what it"
            raise DataError(f"{what} learned", file=file.path, hint=f"Correct the paths in `{section}`")
    files[:] = [by_path[path] for path in chosen]
    return others


def _repeated(others: Mapping[str, str]) -> tuple[str, ...]:
    """A line about each of the first files that have other names, and one about the rest."""
    named = islice(others.items(), MAX_NAMED)
    lines = [f"{name} is another name of {chosen}, which is read once" for name, chosen in named]
    more = f"{len(others) - MAX_NAMED:,} more paths are other names of files that are read once"
    return (*lines, more) if len(others) > MAX_NAMED else tuple(lines)


def _by_span(sources: Mapping[str, SourceConfig]) -> dict[int, list[SpanFile]]:
    """The files of each span, from all patterns."""
    spans: dict[int, list[SpanFile]] = defaultdict(list)
    for split, source in sources.items():
        for pattern in source_patterns(source):
            for number, files in _newest(match_files(pattern, _files(pattern))).items():
                spans[number] += [replace(file, split=split) for file in files]
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
    files = sorted(files, key=lambda file: (file.path, file.split))
    states = stats([file.path for file in files])
    if checksums:
        states = [FileState(state.path, state.size, checksum(state.path)) for state in states]
    found, splits = _with_splits([(state, file.split) for state, file in zip(states, files, strict=True)])
    versions = [file.version for file in files if file.version is not None]
    name = span_name(number, pattern) if pattern else ""
    return Span(number, found, name, max(versions, default=None), splits)


def _with_splits(named: Sequence[tuple[FileState, str]]) -> tuple[tuple[FileState, ...], tuple[str, ...]]:
    """The states, and the split of each if there are any."""
    return tuple(state for state, _ in named), tuple(split for _, split in named if split)
