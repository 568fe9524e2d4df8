"""The rules of `gates:`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.common.names import did_you_mean
from headrace.configs.rules.further_sources import password_errors, path_errors, split_errors, window_errors
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.data import DATE_PLACEHOLDERS, DataConfig, placeholders
from headrace.configs.schema.features import Feature
from headrace.configs.schema.gates import DistanceGate, GatesConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources import FileSource


def earlier_spans_are_read(gates: GatesConfig, data: DataConfig) -> Iterator[Violation]:
    """A comparison with spans that are not in the window would have nothing to compare with."""
    found = _placeholders(data)
    one_span = bool(found) and (data.window == 1 and not isinstance(data.spans, tuple))
    what = "requires earlier spans, but `data.window: 1` reads a single one; increase the window"
    if gates.rows is not None and one_span:
        for name in ("max_decrease", "max_increase", "max_missing_spans"):
            if getattr(gates.rows, name) is not None:
                yield ("gates", "rows", name), f"{what}, or remove {name}"
    if gates.rows is not None and gates.rows.max_missing_spans is not None and not found:
        yield ("gates", "rows", "max_missing_spans"), f"{_NO_SPANS}, or remove it"
    if gates.drift.earlier_spans is None:
        return
    if one_span:
        yield ("gates", "drift", "earlier_spans"), f"{what}, or use `blessed`"
    elif not found:
        yield ("gates", "drift", "earlier_spans"), f"{_NO_SPANS}, or use `blessed`"


_NO_SPANS = "requires data in spans: add {SPAN}, or {YYYY}, {MM} and {DD}, to the path"


def freshness_has_dates(gates: GatesConfig, data: DataConfig) -> Iterator[Violation]:
    if gates.freshness is not None and gates.freshness.column is None and not _placeholders(data) >= DATE_PLACEHOLDERS:
        what = "requires a date: add {YYYY}, {MM} and {DD} to the path, or name a `column` of dates or times"
        yield ("gates", "freshness"), what


def gates_are_of_features(gates: GatesConfig, features: dict[str, Feature], label: LabelConfig) -> Iterator[Violation]:
    read = {column for name, one in features.items() for column in one.data_columns(name, features)} | {*label.columns}
    compared: tuple[tuple[KeyPath, DistanceGate | None], ...] = (
        (("gates", "drift", "blessed"), gates.drift.blessed),
        (("gates", "drift", "earlier_spans"), gates.drift.earlier_spans),
        (("gates", "skew"), gates.skew),
    )
    for where, gate in compared:
        for column in gate.columns if gate is not None else ():
            if column not in read:
                yield (*where, "columns", column), f'no feature reads a column "{column}"{did_you_mean(column, read)}'


LOG: KeyPath = ("gates", "skew", "source")


def log_has_spans_in_its_paths(gates: GatesConfig) -> Iterator[Violation]:
    if gates.skew is not None:
        yield from path_errors(LOG, gates.skew.source)
        yield from window_errors(LOG[:-1], gates.skew.source, gates.skew.window)
        if gates.skew.delay and not gates.skew.placeholders >= DATE_PLACEHOLDERS:
            what = (
                "counts days, and no path of gates.skew.source contains {YYYY}, {MM} and {DD}; add them, or remove it"
            )
            yield (*LOG[:-1], "delay"), what


def log_has_no_splits(gates: GatesConfig) -> Iterator[Violation]:
    if gates.skew is not None:
        yield from split_errors(LOG, gates.skew.source, "a log of requests has")


def password_of_log_is_in_a_variable(gates: GatesConfig) -> Iterator[Violation]:
    if gates.skew is not None:
        yield from password_errors(LOG, gates.skew.source)


def _placeholders(data: DataConfig) -> frozenset[str]:
    return placeholders(data.source.patterns) if isinstance(data.source, FileSource) else frozenset()
