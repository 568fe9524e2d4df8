"""Check the first requests of a model server's log, which `gates.skew` holds against the data.

rejected, notes = request_violations(config, spans)      # each with the setting that it concerns
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import DataError, UnreachableError
from headrace.common.names import did_you_mean_or_list, join_names
from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.section import KeyPath

if TYPE_CHECKING:
    from headrace.components.sources import Source
    from headrace.components.spans.manifest import Span

LISTED = 12
"""Columns that a message lists."""
WHERE: KeyPath = ("gates", "skew", "source")


def request_violations(config: PipelineConfig, spans: Sequence[Span]) -> tuple[list[Violation], list[Violation]]:
    """What a run would reject in the newest requests, and what the gate would find odd about their columns.

    Nothing while nothing is logged, as before the first push. Of the log are read the columns that the gate compares,
    up to the date of the run. spans: of the training data.
    """
    from headrace.components.example_gen.head import read_head
    from headrace.components.examples.skips import skipped_in_section
    from headrace.components.gates.log_columns import as_logged, as_read
    from headrace.components.gates.serving_log import find_log
    from headrace.components.sources import ReadOptions, open_source
    from headrace.components.spans.find import date_of_run
    from headrace.components.spans.manifest import SpanManifest

    gate = config.gates.skew
    if gate is None:
        return [], []
    data = gate.data(config.data)
    if data.schema_file is not None and not Path(data.schema_file).is_file():
        return [], []  # which is reported as a mistake of `data.schema`
    try:
        data = as_read(data, config.compared_columns)
        manifest = find_log(data, date_of_run(config.data, SpanManifest(tuple(spans))))
        if not manifest.spans:
            return [], []
        with skipped_in_section(data):
            newest, logged = manifest.spans[-1], as_logged(data, manifest, config.compared_columns)
            read = logged.columns if isinstance(logged.columns, tuple) else None
            every, options = (ReadOptions(names, skip_bad=data.on_bad_record == "skip") for names in (None, read))
            columns = open_source(data.source, newest.paths, every, newest.splits).columns()
            log = open_source(data.source, newest.paths, options, newest.splits)
            found = read_head(logged, log, [], alone=len(manifest.spans) == 1, may_lack=True)
    except DataError as error:
        why: list[Violation] = [(WHERE, str(error))]
        return ([], why) if isinstance(error, UnreachableError) else (why, [])
    if found is not None and found.head.whole and not found.rows.num_rows:
        return [], []
    kinds: Mapping[str, str] = {} if found is None else found.kinds
    return [], [(WHERE, what) for what in (*_absent(config, log, columns), *_texts(config, kinds))]


def _absent(config: PipelineConfig, log: Source, columns: list[str]) -> Iterator[str]:
    """Columns that features read, and that no request has."""
    read = [name for name in config.feature_columns if name not in config.label.columns]
    absent = [name for name in read if name not in columns]
    open_ended = getattr(log, "open_ended", False)
    if absent and len(absent) == len(read):
        near = did_you_mean_or_list(absent[0], columns, "those of the log are")
        yield f"the log has none of the columns that features read, such as {absent[0]}{near}"
    elif absent and not open_ended:
        near = did_you_mean_or_list(absent[0], columns, "those of the log are")
        yield f"the log lacks {join_names(absent, LISTED)}, of which all values count as missing{near}"


def _texts(config: PipelineConfig, kinds: Mapping[str, str]) -> Iterator[str]:
    """Columns of text, of which features take numbers."""
    found = [name for name in config.single_columns if kinds.get(name, "").startswith("string")]
    if found:
        what = f"the log holds text in {join_names(found, LISTED)}, where the features need numbers"
        yield f"{what}; the gate will report it"
