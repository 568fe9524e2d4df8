"""From the config to what a run reads: spans and their files, as they are now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from headrace.components.example_gen.manifest import Manifest, Span
from headrace.components.example_gen.sources import find_files, source_patterns, source_state
from headrace.components.example_gen.span_paths import Found, glob_of, matched, name_of, window_of
from headrace.components.example_gen.storage import FileState, checksum, each_once, resolve, stats
from headrace.configs.data import DataConfig
from headrace.configs.errors import DataError
from headrace.configs.span_fields import placeholders

TOLD = 10
"""Missing spans that are told by their names, and files with several."""


def find_spans(data: DataConfig) -> Manifest:
    """What a run reads now. Raises DataError if there is nothing, or not what `data.spans` asks for."""
    checksums = data.fingerprint == "checksums"
    state = source_state(data.source)
    if state is not None:
        return Manifest((Span(0, tuple(state)),), checksums)
    patterns = source_patterns(data.source)
    if not placeholders(patterns):
        paths, others = find_files(data.source), dict[str, str]()
        if getattr(data.source, "index", None) is None:  # an index may well name an image in several rows
            paths, others = each_once(paths)
        return Manifest((Span(0, _states(paths, checksums=checksums)),), checksums, repeated=_repeated(others))
    spans = _by_span(patterns)
    if not spans:
        raise DataError(f"no file has a span in its path, as {patterns[0]!r} asks for")
    first, last = window_of(data, list(spans))
    _check_there(spans, first, last, patterns[0])
    chosen = {number: files for number, files in spans.items() if first <= number <= last}
    start = first if isinstance(data.spans, tuple) else max(first, min(spans))
    others = {name: kept for files in chosen.values() for name, kept in _once(files).items()}
    missing = islice((number for number in range(start, last) if number not in spans), TOLD)
    return Manifest(
        tuple(_span(number, files, patterns[0], checksums=checksums) for number, files in chosen.items()),
        checksums,
        tuple(name_of(number, patterns[0]) for number in missing),
        last + 1 - start - len(chosen),
        _repeated(others),
    )


def _files(pattern: str) -> list[str]:
    """Files that may fit. Raises DataError, with the pattern as the config has it, if there are none."""
    try:
        return resolve(glob_of(pattern))
    except DataError as error:
        what = error.what.replace(glob_of(pattern), pattern)
        raise DataError(what, file=error.file and pattern, hint=error.hint) from None


def _once(files: list[Found]) -> dict[str, str]:
    """Leave each file of a span under one name only; the other names, each with the one that is left."""
    kept, others = each_once(file.path for file in files)
    by_path = {file.path: file for file in files}
    files[:] = [by_path[path] for path in kept]
    return others


def _repeated(others: Mapping[str, str]) -> tuple[str, ...]:
    """A line about each of the first files that have other names, and one about the rest."""
    lines = [f"{name} is {kept} under another name, and is read once" for name, kept in islice(others.items(), TOLD)]
    more = f"{len(others) - TOLD:,} more paths are other names of files that are read once"
    return (*lines, more) if len(others) > TOLD else tuple(lines)


def _states(paths: Sequence[str], *, checksums: bool) -> tuple[FileState, ...]:
    states = stats(sorted(paths))
    if checksums:
        states = [FileState(state.path, state.size, checksum(state.path)) for state in states]
    return tuple(states)


def _by_span(patterns: Sequence[str]) -> dict[int, list[Found]]:
    """The files of each span, from all patterns."""
    spans: dict[int, list[Found]] = defaultdict(list)
    for pattern in patterns:
        for number, files in _newest(matched(pattern, _files(pattern))).items():
            spans[number] += files
    return {number: spans[number] for number in sorted(spans)}


def _newest(found: Iterable[Found]) -> dict[int, list[Found]]:
    """The files of each span of one pattern; of a span with several versions, the newest version's.

    Raises DataError for a span that is written in two ways, such as 7 and 007: one is probably a copy of the other.
    """
    spans: dict[int, list[Found]] = defaultdict(list)
    for file in found:
        spans[file.span].append(file)
    for number, files in spans.items():
        newest = max(file.version or 0 for file in files)
        spans[number] = [file for file in files if (file.version or 0) == newest]
        other = next((file for file in spans[number] if file.written != spans[number][0].written), None)
        if other is not None:
            raise DataError(
                f"has the same span and version as {spans[number][0].path}, written in another way",
                file=other.path,
                hint="Remove one of the two, or rename it",
            )
    return spans


def _check_there(spans: Mapping[int, object], first: int, last: int, pattern: str) -> None:
    """Raise DataError if there is nothing where `data.spans` points."""
    if first > last:
        raise DataError(f"`data.spans` starts with {name_of(first, pattern)}, after its end, {name_of(last, pattern)}")
    if last not in spans:
        names = [name_of(number, pattern) for number in spans]
        raise DataError(
            f"there is no span {name_of(last, pattern)}",
            hint=f"There are {len(names)}, from {names[0]} to {names[-1]}; `data.spans` chooses among them",
        )


def _span(number: int, files: Sequence[Found], pattern: str, *, checksums: bool) -> Span:
    states = _states([found.path for found in files], checksums=checksums)
    versions = [found.version for found in files if found.version is not None]
    return Span(number, states, name_of(number, pattern), max(versions, default=None))
