"""Check the first rows of the data: values that a run would reject, and labels and splits that would fail it.

check = check_rows(config, spans, columns)
check.rejected, check.notes     # each with the setting that it concerns
check.seen.by_split             # {"": 10_240}
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.common.errors import ContradictionError, DataError, UnreachableError, UnreadableColumnError
from headrace.components.examples.skips import lenient, with_others
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.alike import ColumnMistake
from headrace.configs.loading.loader import RowsSeen
from headrace.configs.rules.rule import (
    Violation,
    ViolationMessage,
    about,
    mistake_of,
    named,
    others_of,
    own_of,
    settings_of,
)
from headrace.configs.schema.features import MULTIVALUED_HINT
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources.base import source_setting
from headrace.pipeline.preview.columns import ColumnViolation, columns_that, group_alike, known_facts
from headrace.pipeline.preview.dates import date_violations, freshness_violations
from headrace.pipeline.preview.features import empty_columns, feature_notes, feature_violations
from headrace.pipeline.preview.labels import label_violations, stray_label_notes, weight_violations
from headrace.pipeline.preview.leaks import leak_notes
from headrace.pipeline.preview.numbers import infinite_numbers, lost_digits, not_numbers, number_columns
from headrace.pipeline.preview.splits import split_notes, split_violations
from headrace.pipeline.preview.values import value_mismatches
from headrace.pipeline.preview.vectors import vector_violations

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.example_gen.head import FirstRows
    from headrace.components.sources import Source
    from headrace.components.spans.manifest import Span
    from headrace.pipeline.preview.features import Facts

MAX_SLICES, ROWS_OF_SLICE = 100, 10
"""Distinct values of a column beyond which its slices mean little, if each has fewer rows than this on average."""
MAX_FRACTIONS = 20
"""The same for numbers with fractions, which are measurements if there are more: no two rows need have the same."""
Chosen = tuple[str, ...] | None


@dataclass
class RowsCheck:
    """What a run would reject, as far as the first rows of the newest span show it, and what it would accept although
    it is probably a mistake.

    seen: how many rows were looked at; mistyped: columns for which no rows could be read, with a value that is not of
    the declared type, of one that no feature can hold, or of contradictory ones; unreadable: all but the first.
    """

    rejected: list[Violation] = field(default_factory=list)
    notes: list[Violation] = field(default_factory=list)
    seen: RowsSeen = field(default_factory=RowsSeen)
    mistyped: dict[str, ColumnMistake] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)


def check_rows(
    config: PipelineConfig,
    spans: Sequence[Span],
    columns: Collection[str],
    inferred_labels: Collection[str] = (),
    without: Collection[str] = (),
) -> RowsCheck:
    """Check the first rows of the newest span, of each split that has its own data.

    inferred_labels: the tasks whose label has `kind: auto`, "" for the only label; without: columns not to read.
    """
    check, counts, whole, why = RowsCheck(), dict[str, int](), set[str](), ""
    own, more = list[Violation](), list[Violation]()
    where, splits = source_setting(config.data.source), dict.fromkeys(spans[-1].splits) or [""]
    for split in splits:
        try:
            found = _first_rows(config, spans, _chosen(config, columns, without), split)
        except UnreachableError as error:
            found, own, more = None, [], [(where, f"the rows were not looked at: {error}")]
        except DataError as error:
            found = None
            own, more = _check_unread(config, spans, error, _chosen(config, columns, without), split, check)
        else:
            own, more = ([], []) if found is None else _check_split(config, spans, found)
            why = getattr(config.data.source.load_implementation(), "no_head", "") if found is None else why
            more += [] if found is None else stray_label_notes(config, found, inferred_labels)
            gate = config.gates.freshness
            if found is not None and gate is not None and split in {"", "train"}:
                (own if gate.on_anomaly == "stop" else more).extend(freshness_violations(gate, found.rows))
        check.rejected += [(where, _in_split(what, split)) for where, what in own]
        check.notes += more if split in {"", "train"} else []
        if found is not None:
            counts[split] = found.rows.num_rows
            whole |= {split} if found.head.whole else set()
    check.seen = RowsSeen((*splits,), counts, frozenset(whole), spans[-1].name, len(spans), why)
    return check


def _check_unread(
    config: PipelineConfig, spans: Sequence[Span], error: DataError, chosen: Chosen, split: str, check: RowsCheck
) -> tuple[list[Violation], list[Violation]]:
    """What is rejected, and what is noted, if rows cannot be read; or nothing yet, but in `check` the column to leave
    out before they are read again.
    """
    apart = isinstance(error, ContradictionError | UnreadableColumnError) and error.column not in config.label.columns
    is_of_records = isinstance(error, ContradictionError) and error.readable_as is None
    if is_of_records or not (apart or error.column in config.data.types):
        try:
            rejected, notes, are_few = _check_readable(config, spans, error, chosen, split)
        except ContradictionError as other:
            error, apart, are_few = other, True, False
        wrong = {} if are_few or apart else _misdeclared(config, spans, chosen, split)
        if wrong:
            check.mistyped |= wrong
            return [], []
        if are_few or not apart:
            return rejected, notes
    column = str(error.column)
    mistake = ColumnMistake.of(error) if apart else _mistyped_values(config, spans, error, split)
    check.mistyped[column] = mistake._replace(found=_in_split(mistake.found, split))
    check.unreadable |= {column} if apart else set()
    return [], []


def _check_readable(
    config: PipelineConfig, spans: Sequence[Span], error: DataError, chosen: Chosen, split: str
) -> tuple[list[Violation], list[Violation], bool]:
    """What is rejected, and what is noted, if records cannot be read: they, and what is wrong with the other rows, if
    they are few, and whether they are. error: the first of them. Raises ContradictionError about a column of the
    other rows.
    """
    where, what = source_setting(config.data.source), ""
    for rows, is_guess in _readable_rows(config, spans, chosen, split):
        what = what or with_others(error, rows.skipped, rows.readable)
        if rows.skipped.are_few(rows.readable):
            head = replace(rows.head, whole=False, settled=rows.head.whole or rows.head.settled)
            unfit, notes = _check_split(config, spans, replace(rows, head=head, complete=False))
            unfit = [each for each in unfit if not (is_guess and _is_about_texts_of_label(each))]
            return [(where, what), *unfit], notes, True
    return [(where, what or str(error))], [], False


def _readable_rows(
    config: PipelineConfig, spans: Sequence[Span], chosen: Chosen, split: str
) -> Iterator[tuple[FirstRows, bool]]:
    """The first rows without those that cannot be read, in each encoding to try, and whether that is a guess."""
    for number, data in enumerate(lenient(config.data)):
        try:
            found = _first_rows(config.model_copy(update={"data": data}), spans, chosen, split)
        except DataError as error:
            if isinstance(error, ContradictionError) and error.column not in {None, *config.label.columns}:
                raise
            return
        if found is not None:
            yield found, number > 0


def _is_about_texts_of_label(violation: Violation) -> bool:
    """Whether it repeats values of the label that another encoding would spell otherwise."""
    where, what = violation
    return where[0] == "label" and not what.isascii()


def _in_split(what: str, split: str) -> str:
    if not split:
        return what
    mistake = mistake_of(what) and (split, mistake_of(what))
    return ViolationMessage(
        f"in the data of {split}: {what}", others=others_of(what), mistake=mistake, own=own_of(what)
    )


def _check_split(
    config: PipelineConfig, spans: Sequence[Span], found: FirstRows
) -> tuple[list[Violation], list[Violation]]:
    """What is rejected, and what is noted, of the rows of one split that has its own data, or of undivided data."""
    numbers, facts = number_columns(config), known_facts(found.rows, found.kinds)
    notes = [(source_setting(config.data.source), what) for what in found.head.notes]
    notes += [*group_alike(_slices(config, found, facts)), *lost_digits(config, found.rows, numbers)]
    odd, unseen = value_mismatches(config.declared_features, found.rows, found.kinds, whole=_whole(found, spans))
    unfit, doubtful = feature_violations(config, found.rows, found.kinds, facts, certain=_settled(found, spans))
    notes += [*unseen, *doubtful, *feature_notes(config, found.rows, found.kinds, facts, whole=_whole(found, spans))]
    notes += leak_notes(config, found.rows, found.kinds, facts)
    rejected = [*_rejected(config, spans, found, numbers), *unfit, *odd]
    said = {where for each in rejected for where in settings_of(each)}
    rejected += _lists(config, found.rows, said)
    empty = [*empty_columns(config, found.rows, found.kinds, facts)]
    (rejected if config.data.on_anomaly == "stop" and _whole(found, spans) else notes).extend(empty)
    if not rejected and found.complete and _whole(found, spans):
        notes += split_notes(config, found.rows)
    return rejected, notes


def _rejected(
    config: PipelineConfig, spans: Sequence[Span], found: FirstRows, numbers: Mapping[str, KeyPath]
) -> Iterator[Violation]:
    yield from not_numbers(config, found, numbers)
    yield from date_violations(config.declared_features, found.rows)
    yield from vector_violations(config.declared_features, found.rows)
    if config.data.on_anomaly == "stop":
        yield from infinite_numbers(found, numbers)
        for name, part in config.label.parts.items() if config.preprocessing is None else ():
            if part.key in found.rows.column_names:
                column, where = found.rows.column(part.key), part.setting(name)
                yield from label_violations(part, column, whole=_whole(found, spans), section=where)
    if config.label.weight in found.rows.column_names:
        yield from weight_violations(config.label, found.rows)
    yield from split_violations(config, found.rows, whole=_whole(found, spans), complete=found.complete)


def _slices(config: PipelineConfig, found: FirstRows, facts: Facts) -> Iterator[ColumnViolation]:
    """Slices over columns with so many values that the slices mean little."""
    named: dict[str, KeyPath] = {
        name: ("evaluate", "slices", number, *([] if isinstance(entry, str) else [position]))
        for number, entry in enumerate(config.evaluate.slices)
        for position, name in enumerate([entry] if isinstance(entry, str) else entry)
    }
    for name, where in named.items():
        if found.kinds.get(name, "missing") == "missing" or name not in found.rows.column_names:
            continue
        known = facts(name)
        fractions = known.scalar == "float" and known.present > 0 and not known.is_whole
        if known.distinct > (MAX_FRACTIONS if fractions else max(MAX_SLICES, known.present // ROWS_OF_SLICE)):
            values = "numbers with fractions" if fractions else "values"
            what = f"{known.distinct:,} different {values} in its first {known.rows:,} rows"
            becomes = "each of which becomes a slice; slice over"
            one = f"has {what}, {becomes} a column with fewer, such as ranges of its values"
            several = (
                f"have many values, the first {what}, {becomes} columns with fewer, such as ranges of their values"
            )
            yield ColumnViolation(where, name, fractions, one, several)


def _lists(config: PipelineConfig, rows: pa.Table, said: Collection[KeyPath]) -> Iterator[Violation]:
    """Lists of more than one value, in columns that a feature or the label reads as single values.

    said: settings of columns with lists of texts, of which the other checks say more.
    """
    if config.data.on_anomaly != "stop":
        return
    single = config.single_columns
    one_label = {part.key: part.setting(name) for name, part in config.label.parts.items() if part.kind != "multilabel"}
    known = frozenset(rows.column_names)
    lengths = {name: _longest(rows.column(name)) for name in (*single, *one_label) if name in known}
    found = {name: most for name, most in lengths.items() if most > 1}
    for column, where in one_label.items():
        most = found.pop(column, 0) if column not in single else 0
        if most and (*where, "key") not in said:
            what = f'column "{column}" holds lists of up to {most:,} values, but a single value is needed'
            yield (*where, "key"), named(what, "lists", own=f"up to {most:,}")
    names = [name for name in found if ("features", single[name]) not in said]
    if names:
        longest = max(found[name] for name in names)
        what = f"{columns_that(names, 'holds', 'hold')} lists of up to {longest:,} values, but a single value is needed"
        yield about([("features", single[name]) for name in names], f"{what}; {MULTIVALUED_HINT}")


def _longest(column: pa.ChunkedArray) -> int:
    """The length of the longest list of a column; 0 if it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    return (pc.max(pc.list_value_length(column)).as_py() or 0) if is_list else 0


def _chosen(config: PipelineConfig, columns: Collection[str], without: Collection[str]) -> Chosen:
    """The columns to read, among those of the data; None: all of them."""
    wanted = config.read_columns
    if wanted is None and without:
        wanted = tuple(columns)
    return None if wanted is None else tuple(name for name in wanted if name in columns and name not in without)


def _first_rows(config: PipelineConfig, spans: Sequence[Span], chosen: Chosen, split: str) -> FirstRows | None:
    from headrace.components.example_gen.head import read_head

    source = _opened(config, spans, chosen, split)
    return read_head(config.data, source, number_columns(config), alone=len(spans) == 1 and not split)


def _opened(config: PipelineConfig, spans: Sequence[Span], chosen: Chosen, split: str) -> Source:
    from headrace.components.sources import ReadOptions, open_source

    given, span = config.data.source, spans[-1]
    if split:
        given, span = given.of_split(split), span.of_split(split)
    return open_source(given, span.paths, ReadOptions(chosen, skip_bad=config.data.on_bad_record == "skip"))


def _mistyped_values(config: PipelineConfig, spans: Sequence[Span], error: DataError, split: str) -> ColumnMistake:
    """The values of a column that are not of its declared type, of which this is the first."""
    from headrace.components.example_gen.head import mistyped_values

    lenient = config.model_copy(update={"data": config.data.model_copy(update={"on_bad_record": "skip"})})
    return mistyped_values(lenient.data, _opened(lenient, spans, (str(error.column),), split), error)


def _misdeclared(config: PipelineConfig, spans: Sequence[Span], chosen: Chosen, split: str) -> dict[str, ColumnMistake]:
    """The columns whose declared types so many values are not of that hardly a record can be read."""
    from headrace.components.example_gen.head import misdeclared

    lenient = config.model_copy(update={"data": config.data.model_copy(update={"on_bad_record": "skip"})})
    found = misdeclared(config.data, _opened(lenient, spans, chosen, split))
    return {column: each._replace(found=_in_split(each.found, split)) for column, each in found.items()}


def _whole(found: FirstRows, spans: Sequence[Span]) -> bool:
    """Whether the first rows are all rows that a run would read."""
    return found.head.whole and len(spans) == 1 and not spans[-1].splits


def _settled(found: FirstRows, spans: Sequence[Span]) -> bool:
    """Whether a run would read the columns of the first rows as the same kinds."""
    return _whole(found, spans) or (found.head.settled and len(spans) == 1)
