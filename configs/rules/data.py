"""The rules of `data:`: splits, types, and spans with their placeholders."""

from __future__ import annotations

import datetime as dt
import glob
import re
from collections.abc import Iterator, Sequence

from headrace.common.names import did_you_mean, did_you_mean_or_list, join_or
from headrace.common.storage.paths import REMOTE, is_remote
from headrace.configs.config import PipelineSection
from headrace.configs.rules.further_sources import password_errors
from headrace.configs.rules.rule import Violation, named
from headrace.configs.schema.data import DATE_PLACEHOLDERS, DataConfig, placeholder_error, placeholders
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources import FileSource


def folders_are_not_uris(pipeline: PipelineSection, deploy: DeployConfig) -> Iterator[Violation]:
    """On Kubeflow, both are in the object store anyway, below `kubeflow.pipeline_root`."""
    if "://" in pipeline.root:
        what = f"{pipeline.root} is a URI; use a folder, which on Kubeflow is below kubeflow.pipeline_root"
        yield ("pipeline", "root"), what
    push = deploy.push or ""
    if "://" not in push:
        return
    if not is_remote(push):
        yield ("deploy", "push"), f"{push} is a URI of no object store; use {join_or(REMOTE)}, or a folder"
    elif not push.partition("://")[2].partition("/")[2].strip("/") or glob.has_magic(push):
        what = f"{push} does not name a folder in a bucket; write it as s3://bucket/models/{{name}}"
        yield ("deploy", "push"), what


def splits_include_train_and_eval(data: DataConfig) -> Iterator[Violation]:
    for needed, use in (("train", "for training"), ("eval", "for early stopping")):
        if needed not in data.splits:
            found = f"found {join_or(data.splits)}{did_you_mean(needed, data.splits)}"
            yield ("data", "splits"), f"a split `{needed}` is required {use}; {found}"


def split_names_are_valid(data: DataConfig) -> Iterator[Violation]:
    for name in data.splits:
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            yield ("data", "splits", name), f'"{name}" becomes part of a folder name; use only letters, digits and _'


def splits_with_own_data_are_known(data: DataConfig) -> Iterator[Violation]:
    """`path: {train: a.csv, test: b.csv}`, and the same of other sources."""
    source = data.source
    own = source.split_names
    where: KeyPath = (
        "data",
        "source",
        next((name for name in source.by_split if isinstance(getattr(source, name), dict)), ""),
    )
    for name in own:
        if name not in data.splits:
            yield (*where, name), _unknown_split(data, name)
    if own and "train" not in own:
        yield where, f"has data for {join_or(own)}, but none for `train`, from which the model learns"


def _unknown_split(data: DataConfig, name: str) -> str:
    """By default there are three splits; others must be in `data.splits`."""
    known = [*DataConfig.model_fields["splits"].default]
    known = known if data.splits.keys() <= {*known} else [*data.splits]
    near = "; the split for early stopping is called `eval`" if name.startswith(("val", "dev")) else ""
    return f'"{name}" is not a split{near or did_you_mean_or_list(name, known, "data.splits has")}'


def rows_are_split_in_one_way(data: DataConfig) -> Iterator[Violation]:
    """Splits with data or spans of their own leave only the rows of `train` to divide, by hash."""
    named = {name: getattr(data, name) for name in ("split_column", "split_by")}
    own = "files" if data.source.split_names and isinstance(data.source, FileSource) else "data"
    decided = (
        f"each split has its own {own}"
        if data.source.split_names
        else "data.split_spans says which spans are which split"
    )
    if data.own_splits:
        for name in (name for name, column in named.items() if column is not None):
            yield ("data", name), f"{decided}; remove one of both"
    if data.source.split_names and data.split_spans:
        yield ("data", "split_spans"), f"{decided}; remove one of both"


def stratified_rows_are_split_by_hash(data: DataConfig, label: LabelConfig) -> Iterator[Violation]:
    where: KeyPath = ("data", "stratify")
    if data.stratify is False:
        return
    for name, column in _deciding_columns(data).items():
        yield where, f"{column} (data.{name}) already decides the split of each row; remove one of both"
    if len(data.hashed_splits) == 1:
        yield where, "each split has its own rows, so there is nothing to divide; remove it"
    if data.stratify is True and label.kind not in {"binary", "multiclass"}:
        reasons = {"multilabel": "may have several classes in a row", "multitask": "has several columns"}
        what = reasons.get(label.kind, "has no classes")
        yield where, f"a {label.kind} label {what}; name a column with one class in each row, or remove it"


def split_spans_leave_some_to_train(data: DataConfig) -> Iterator[Violation]:
    where: KeyPath = ("data", "split_spans")
    if not data.split_spans:
        return
    for split in data.split_spans:
        if split == "train":
            yield (*where, split), "`train` has all spans that are not listed; remove it"
        elif split not in data.splits:
            yield (*where, split), _unknown_split(data, split)
    if not placeholders(path for _, path in _paths(data)):
        yield where, "no path contains {SPAN}, or {YYYY}, {MM} and {DD}; add them, or split by time with split_by"
        return
    held_out = sum(data.split_spans.values())
    if not isinstance(data.spans, tuple) and data.window != "all" and data.window <= held_out:
        what = f"takes the newest {held_out} spans, and a window of {data.window} leaves none to train on"
        yield where, f"{what}; set data.window to {held_out + 1} or more"


def one_column_decides_the_split(data: DataConfig) -> Iterator[Violation]:
    named = _deciding_columns(data)
    first, *others = [*named] or [""]
    for name in others:
        yield ("data", name), f"{named[first]} (data.{first}) already decides the split of each row; remove one of both"
    if data.split_column is None and data.split_values:
        yield ("data", "split_values"), "these are values of a `split_column`; name that column, or remove them"


def _deciding_columns(data: DataConfig) -> dict[str, str]:
    """The settings that name the columns which decide the split of a row, and the columns, for messages."""
    columns = {"split_column": data.split_column, "split_by": data.split_by, "split_key": '", "'.join(data.split_keys)}
    return {name: f'"{column}"' for name, column in columns.items() if column}


def groups_can_be_divided(data: DataConfig, label: LabelConfig) -> Iterator[Violation]:
    where: KeyPath = ("data", "split_key")
    if data.split_keys and len(data.hashed_splits) == 1:
        yield where, "each split has its own rows, so there is nothing to divide; remove it"
    if len(data.split_keys) == 1 and data.split_keys[0] in label.columns:
        what = f'"{data.split_keys[0]}" is the label, and all rows with the same label would be in one split'
        yield where, f"{what}; name a column of what the rows belong to, such as a customer"
    for number, name in enumerate(data.split_keys):
        if name in data.split_keys[:number]:
            yield (*where, number), f'"{name}" is named twice'


def rows_of_spans_keep_their_split(data: DataConfig) -> Iterator[Violation]:
    """In a rolling window the times of the newest rows change, and with them what is newest."""
    if data.split_by is not None and placeholders(path for _, path in _paths(data)):
        what = (
            "the paths have spans, and a row would be in another split in each window, so that rows of yesterday's test"
        )
        yield (
            ("data", "split_by"),
            f"{what} would train today's model; use split_spans, split_key or split_column",
        )


def split_values_are_of_one_split(data: DataConfig) -> Iterator[Violation]:
    seen: dict[str, str] = {}
    for split, values in data.split_values.items():
        where: KeyPath = ("data", "split_values", split)
        if split not in data.splits:
            yield where, f'"{split}" is not a split{did_you_mean_or_list(split, data.splits, "data.splits has")}'
        for value in map(str, values):
            if seen.setdefault(value, split) != split:
                yield where, f'"{value}" is also a value of {seen[value]}; a row is in one split'
    for split in data.splits.keys() - data.split_values.keys():
        if split in seen:
            what = f'"{split}" is a split of its own, which has this value unless it is listed here'
            yield ("data", "split_values", seen[split]), f"{what}; remove the value, or list `{split}` with others"


def types_fit_delimited_text(data: DataConfig) -> Iterator[Violation]:
    """A field of a CSV file holds one value, as text."""
    if data.source.kind == "csv":
        for name, kind in data.types.items():
            if kind.endswith(" list") or kind == "bytes":
                what = f"`{kind}` does not apply to CSV, where a field holds one text; use int, float or string"
                yield ("data", "types", name), named(what, "one text", own=kind)


def bad_records_can_be_skipped(data: DataConfig) -> Iterator[Violation]:
    """A database has no unreadable records; what can be wrong is the type of a whole column."""
    if data.on_bad_record == "skip" and data.source.kind in ("sql", "bigquery"):
        what = f"`skip` does not apply to {data.source.kind}, where a value of the wrong type stops the run; use `stop`"
        yield ("data", "on_bad_record"), f"{what}, and exclude such rows with a query"


def password_is_in_a_variable(data: DataConfig) -> Iterator[Violation]:
    yield from password_errors(("data", "source"), data.source)


def placeholders_are_valid(data: DataConfig) -> Iterator[Violation]:
    for where, path in _paths(data):
        if error := placeholder_error(path):
            yield where, error


def paths_have_the_same_placeholders(data: DataConfig) -> Iterator[Violation]:
    (_, first), *others = _paths(data) or [((), "")]
    for where, path in others:
        if placeholders(path) != placeholders(first) and not placeholder_error(path):
            yield where, f"has {_names(path)}, but the first path has {_names(first)}; use the same in all paths"


def window_requires_spans(data: DataConfig) -> Iterator[Violation]:
    chosen = {"window": data.window != 1, "spans": data.spans is not None, "run_date": data.run_date is not None}
    for name in (name for name, is_set in chosen.items() if is_set):
        if not isinstance(data.source, FileSource):
            yield ("data", name), f"only files have spans, and this source is {data.source.kind}; remove {name}"
        elif not placeholders(path for _, path in _paths(data)):
            what = f"no path contains {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}}; add them, or remove {name}"
            yield ("data", name), what


def selected_spans_are_valid(data: DataConfig) -> Iterator[Violation]:
    """Dates must be real dates, and require paths with dates."""
    given = data.spans if isinstance(data.spans, tuple) else (data.spans,)
    dated = placeholders(path for _, path in _paths(data)) >= DATE_PLACEHOLDERS
    where: KeyPath = ("data", "spans")
    for span in (span for span in given if isinstance(span, str)):
        if not is_date(span):
            yield where, f"{span} is not a date"
        elif not dated:
            yield where, f"{span} is a date, but the path numbers its spans by {{SPAN}}; use a number"
    if len(given) == 2 and type(given[0]) is type(given[1]) and given[0] > given[1]:  # type: ignore[operator]
        yield where, f"the range starts with {given[0]}, after its end, {given[1]}"


def run_date_requires_dated_spans(data: DataConfig) -> Iterator[Violation]:
    if data.run_date is None:
        return
    if not is_date(data.run_date):
        yield ("data", "run_date"), f"{data.run_date} is not a date"
    if "SPAN" in placeholders(path for _, path in _paths(data)):
        yield ("data", "run_date"), "the path numbers its spans by {SPAN}, so they have no dates; remove run_date"


def _paths(data: DataConfig) -> Sequence[tuple[KeyPath, str]]:
    """The paths of the source, each with its setting."""
    if not isinstance(data.source, FileSource):
        return []
    where: KeyPath = ("data", "source", "path")
    given = data.source.path
    found = [((*where, split), path) for split, path in given.items()] if isinstance(given, dict) else [(where, given)]
    return [
        (own, each) if isinstance(path, str) else ((*own, number), each)
        for own, path in found
        for number, each in enumerate([path] if isinstance(path, str) else path)
    ]


def _names(path: str) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(placeholders(path))) or "no placeholders"


def is_date(text: str) -> bool:
    """Whether a text is an existing date, as YYYY-MM-DD."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
