"""Look at some data, and write a config for it.

draft = write(Path("trips.yaml"), "trips", {"kind": "csv", "path": "trips.csv"}, "tipped", command)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.common.durable import write_text
from headrace.common.errors import BadRecordError, ContradictionError, DataError, RunError
from headrace.common.names import did_you_mean, join_names
from headrace.components.examples.skips import with_others
from headrace.components.inference.sample import Sample, read_readable, read_sample
from headrace.components.inference.table import infer, labels_of
from headrace.components.spans.source_state import source_patterns
from headrace.configs.rules.data import bad_records_can_be_skipped
from headrace.configs.schema.data import DataConfig, placeholders
from headrace.pipeline.init.csv_format import group_marks, null_values, number_marks
from headrace.pipeline.init.document import WINDOW, Draft, document
from headrace.pipeline.init.splits import unnamed_splits, without_unlabelled

LABEL = "label"
"""The column with the class folders of images and texts."""
MOST_NAMED = 20
"""Columns that a message lists."""
SKIP = "`--on-bad-record skip`"
"""The option for messages, which becomes `data.on_bad_record`."""


def target_file(file: Path, *, force: bool) -> Path:
    """The file, if it can be written. Raises RunError if it exists, except with force, or if its folder does not."""
    if file.exists() and not force:
        raise RunError(f"{file} exists; name another file with --output, or replace it with --force")
    if not file.parent.is_dir():
        raise RunError(f"{file} cannot be written: there is no folder {file.parent}")
    return file


def write(
    file: Path,
    name: str,
    source: dict[str, Any],
    given: tuple[str, ...],
    command: Callable[[Sequence[str]], str],
    *,
    skip_bad: bool = False,
) -> Draft:
    """Write the config of a pipeline of this name.

    Raises RunError without a label that the data has, and if no column can be a feature; DataError if the data cannot
    be read, or the label cannot be predicted.

    Args:
        file: the config, which is replaced.
        name: of the pipeline.
        source: the settings of `data.source`.
        given: the columns to predict; one of them may have several names with commas between them.
        command: the command that writes the config, given the columns.
        skip_bad: skip records that cannot be read, in the config too.
    """
    source, sample, unreadable = _read(source, skip_bad=skip_bad)
    if not given and (source["kind"] == "images" or source.get("labels") == "folders"):
        given = (LABEL,)
    labels = _labels(sample, given)
    unnamed, unlabelled = unnamed_splits(source), dict[str, Any]()
    for label in labels:
        source, lacking = without_unlabelled(source, label)
        unlabelled |= lacking
    table = infer(sample, *labels)
    written = command(labels)
    draft = Draft(name, str(file), source, labels, sample, table, written, unlabelled, unreadable, unnamed, skip_bad)
    if not draft.used:
        reasons = "".join(f"\n  {choice.column}: {choice.comment}" for choice in draft.table.choices[:MOST_NAMED])
        only = f"{labels[0]} is the only column" if len(labels) == 1 else "all columns are labels"
        raise RunError(f"no column is left as a feature:{reasons}" if reasons else only)
    write_text(file, document(draft))
    return draft


def _read(source: dict[str, Any], *, skip_bad: bool) -> tuple[dict[str, Any], Sample, dict[str, str]]:
    """The source, with what its missing values and numbers look like; the sample; and the columns that it lacks, with
    the reason.
    """
    data = _window(source, skip_bad=skip_bad)
    for _, what in bad_records_can_be_skipped(data):
        raise RunError(what)
    try:
        sample, unreadable = read_readable(data)
    except DataError as error:
        raise _naming_others(error, data) from None
    for found in (null_values, number_marks, group_marks):
        settings = found(source, sample.texts())
        if settings:
            source = {**source, **settings}
            sample = read_sample(_window(source, skip_bad=skip_bad), unreadable)
    return source, sample, unreadable


def _naming_others(error: DataError, data: DataConfig) -> DataError:
    """The error, naming the other records that cannot be read too if they are few, and the option that skips them."""
    error = _of_init(error)
    if error.file is None:
        return error
    plain = error.stopping() if isinstance(error, BadRecordError) else error
    contradictions = dict[str, ContradictionError]()
    while True:
        types = {column: each.readable_as for column, each in contradictions.items()}
        try:
            sample, _ = read_readable(data.model_copy(update={"on_bad_record": "skip", "types": types}))
            break
        except ContradictionError as other:
            if other.column is None or other.readable_as is None or other.column in types:
                return plain
            contradictions[other.column] = other
        except DataError:
            return plain
    if not sample.skipped.are_few(sample.rows):
        return plain
    contradictions.pop(error.column or "", None)
    others = map(str, map(_of_init, contradictions.values()))
    return DataError("\n".join([with_others(error, sample.skipped, sample.rows), *others]))


def _of_init(error: DataError) -> DataError:
    """The error with a way out for who has no config yet, in which `data.types` could be set."""
    if isinstance(error, ContradictionError) and error.readable_as is not None:
        hint = (
            f"Correct the data, or write a config with `data.types.{{column}}: {error.readable_as}`, which reads all of"
            ' them, and `features: {"*": auto}`'
        )
        return DataError(error.what, file=error.file, line=error.line, column=error.column, hint=hint)
    return error.skipped_by(SKIP) if isinstance(error, BadRecordError) else error


def _window(source: dict[str, Any], *, skip_bad: bool) -> DataConfig:
    """The newest spans of the source, if it has any, as many as the config will read."""
    data = DataConfig.model_validate({"source": source, "on_bad_record": "skip" if skip_bad else "stop"})
    return data.model_copy(update={"window": WINDOW}) if placeholders(source_patterns(data.source)) else data


def _labels(sample: Sample, given: Sequence[str]) -> tuple[str, ...]:
    """The columns to predict. Raises RunError unless there are some, all different, and the data has them."""
    split = [[one] if one in sample.kinds else one.split(",") for one in given]
    labels = tuple(one.strip() for names in split for one in names if one.strip())
    if not labels:
        raise RunError(_no_label(sample, None))
    for number, label in enumerate(labels):
        if label not in sample.kinds:
            raise RunError(_no_label(sample, label))
        if label in labels[:number]:
            raise RunError(f'--label names "{label}" twice; name each column once')
    return labels


def _no_label(sample: Sample, label: str | None) -> str:
    if label is not None:
        near = did_you_mean(label, sample.names) or f"; the columns are: {join_names(sample.names, MOST_NAMED)}"
        return f'"{label}" is not a column of the data{near}'
    candidates = join_names(labels_of(sample), MOST_NAMED)
    if not candidates:
        shown = join_names(sample.names, MOST_NAMED)
        return f"no column looks like one to predict; name one with --label; the columns are: {shown}"
    return f"name the column to predict with --label; it could be: {candidates}"
