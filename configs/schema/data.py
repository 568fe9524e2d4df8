"""`data:` what the raw data is, and how it becomes sharded examples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.section import Name, PositiveInt, Section
from headrace.configs.schema.sources import SourceConfig

ColumnType = Literal["int", "float", "string", "bytes", "int list", "float list", "string list", "bytes list"]
DeclaredType = ColumnType | Literal["float64"]
ShardSize = Annotated[str, Field(pattern=r"^[1-9][0-9]* ?MB$")]
SpanId = Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
SpanRange = Annotated[tuple[SpanId, ...], Field(min_length=2, max_length=2)]

PLACEHOLDER = re.compile(r"\{(?P<name>SPAN|VERSION|YYYY|MM|DD)(?::(?P<width>[1-9]))?\}")
"""A placeholder in a path, which divides the data into spans."""
DATE_PLACEHOLDERS = frozenset({"YYYY", "MM", "DD"})
BITS_SUFFIX = ":float64"
"""What follows a column's name in the name of the one that holds its float64 values, in the examples."""


def bits_column(column: str) -> str:
    """The column of the examples that holds the float64 values of another as int64: the bits of each."""
    return f"{column}{BITS_SUFFIX}"


def read_as(declared: DeclaredType) -> ColumnType:
    """The type as which a column is read."""
    return "float" if declared == "float64" else declared


@dataclass(frozen=True)
class Judging:
    """Marks a setting that judges data after it was read, so that a change does not read the data again."""


class DataConfig(Section):
    """What the raw data is, and how it becomes sharded TFRecords of tf.Example."""

    source: SourceConfig
    """Where the rows come from."""
    types: dict[str, DeclaredType] = {}
    """Types of individual columns: `int` (int64), `float` (float32), `string` (UTF-8) or `bytes`, with ` list` appended
    if an example may have multiple values; or `float64`, for numbers of which float32 would lose digits that a feature
    needs, such as seconds since 1970 with fractions: features are then computed from all digits. The type of any other
    column comes from `schema`, or else from the data: the stored type, or, for text such as CSV, a pass over all
    values: int if every value is an integer, else float if every value is a number, else string. Values that would lose
    digits as numbers stay strings: codes such as 00123, and integers beyond int64. A declared `int` may have zeros
    after the point, such as 12345.0. A decimal from any source is a float; a decimal type without fractional digits is
    an int, or a string if it allows more than 18 digits. `string` keeps all digits."""
    columns: Literal["all", "used"] | Annotated[tuple[Name, ...], Field(min_length=1)] = "all"
    """The columns to read: `all`; `used`, those named by the label (with its weight), the features, the slices,
    `split_key`, `split_by`, `split_column`, `stratify` and `gates.freshness.column`; or a list. Rows that differ only
    in columns that are not read get the same split."""
    window: PositiveInt | Literal["all"] = 1
    """How many spans to train on, counted back from the newest by number (a date counts as a day). Requires a path with
    `{SPAN}` or a date. Each span is read once and then stored."""
    spans: SpanId | SpanRange | None = None
    """Spans selected by number or date (`2026-11-20`): one span, from which `window` counts back instead of from the
    newest; or the first and the last, in which case `window` is ignored. null: the newest."""
    run_date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """The date of the run, such as `2026-11-21`: spans after it, minus `delay`, are ignored. Requires a path with a
    date. null: no limit. `spans` takes precedence."""
    delay: Annotated[int, Field(ge=0)] = 0
    """Days between the newest span that may be read and `run_date`: 1 if a day's data is only complete on the next
    day."""
    fingerprint: Literal["times", "checksums"] = "times"
    """How changed files are detected. times: by size and modification time. checksums: by size and SHA-256, which reads
    each file once more but ignores a mere change of the time."""
    schema_file: Annotated[Name | None, Field(alias="schema")] = None
    """A curated schema (TensorFlow Metadata, text format). null: the schema is inferred from the statistics."""
    splits: Annotated[dict[str, PositiveInt], Field(min_length=2)] = {"train": 8, "eval": 1, "test": 1}
    """Number of hash buckets per split: `{train: 8, eval: 1, test: 1}` assigns 80, 10 and 10 percent of the rows.
    `train` and `eval` are required. Of splits with data of their own (a mapping in `source`, or `split_spans`), only
    `train` is hashed, into itself and the splits that have none; the default is then without those that are not
    needed."""
    split_key: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Rows with the same value in this column get the same split, as all rows of a customer, a patient or a session
    should, so that a model is judged on those that it did not learn from; or a list of columns, such as `[shop,
    customer]`, for rows with the same values in all of them. A row without a value is in no group and is split by
    itself. null: the whole row is hashed, so identical rows stay together, unless a table consists of few different
    rows (at most 1000, each ten times on average)."""
    split_by: Name | None = None
    """A column of dates (ISO 8601) or numbers by whose order rows are split: the oldest are the first of `splits`, the
    newest the last, in the proportions given there. Rows of the same time stay together. Not for spans, which
    `split_spans` divides. null: rows are split by hash."""
    split_spans: dict[str, PositiveInt] = {}
    """How many of the newest spans of a run each of these splits gets, the last one the newest: `{eval: 1, test: 1}`
    tests on the newest span, and trains on all but the newest two. Empty: the rows of each span are split."""
    stratify: bool | Name = False
    """true: give each split the same share of every class of the label, as closely as their rows allow; or the name of
    another column whose classes count. Rows of a class are split by hash. Takes one more pass over the data."""
    split_column: Name | None = None
    """A column that names the split of each row, for data that is divided already. Every row needs the name of one of
    `splits`, or a value that `split_values` lists. The numbers in `splits` then only estimate how many rows each gets,
    for the number of shards. null: rows are split by hash."""
    split_values: dict[str, Annotated[tuple[str | int, ...], Field(min_length=1)]] = {}
    """The values of `split_column` for each split, such as `{train: [0, 1, 2], eval: [3], test: [4]}`. A split that is
    not listed has its own name as its value."""
    shards: Literal["auto"] | PositiveInt | ShardSize = "auto"
    """TFRecord files per split (and span). auto: ten per reading host, each larger than 10 MB and preferably 100 to 200
    MB; or a number; or a target size such as `150MB`."""
    readers: PositiveInt = 1
    """Hosts that will read the examples at the same time; used only by `shards: auto`."""
    shuffle_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the hash that assigns rows to splits, and of the shuffle across shards."""
    compression: Literal["gzip", "none"] = "gzip"
    """Compression of the shard files."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 1
    """Level of gzip compression: 1 is fastest, 9 smallest. Not used by `compression: none`."""
    on_bad_record: Literal["stop", "skip"] = "stop"
    """What to do with a record that cannot be read: wrong number of fields, a value that does not match its declared
    type, a number beyond float32, text that is not UTF-8, a wrong checksum, or a truncated file. stop: stop the run.
    skip: leave the record out, count it and report it. A misplaced quote in CSV, and a damaged length in a TFRecord
    file, always stop the run, because the start of the next record is unknown."""
    max_bad_fraction: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Stop the run if more than this fraction of records is skipped."""
    on_anomaly: Annotated[Literal["stop", "warn"], Judging()] = "stop"
    """What to do about problems in the data: an anomaly against the schema, a missing label, a label outside its
    classes, an infinite value or no value at all in a column that a feature reads, or integers that become the same
    float32. stop: stop the run. warn: train anyway, with a warning."""

    @property
    def float64_columns(self) -> tuple[str, ...]:
        """The columns whose float64 values are in the examples, too."""
        return tuple(name for name, kind in self.types.items() if kind == "float64")

    @property
    def split_keys(self) -> tuple[str, ...]:
        return (self.split_key,) if isinstance(self.split_key, str) else self.split_key or ()

    @property
    def own_splits(self) -> tuple[str, ...]:
        """The splits that have data or spans of their own; none if all rows are divided in one way."""
        return self.source.split_names or (("train", *self.split_spans) if self.split_spans else ())

    @property
    def hashed_splits(self) -> dict[str, int]:
        """The hash buckets that divide the rows of no particular split, or those of `train` if splits have their own
        rows.
        """
        own = frozenset(self.own_splits) - {"train"}
        return {split: buckets for split, buckets in self.splits.items() if split not in own}

    @model_validator(mode="after")
    def _default_splits(self) -> DataConfig:
        """By default, no further split is cut from data that is divided already, except the `eval` that must be."""
        if self.own_splits and "splits" not in self.model_fields_set:
            needed = {*self.own_splits, "train", "eval"}
            splits = {split: buckets for split, buckets in self.splits.items() if split in needed}
            object.__setattr__(self, "splits", splits)  # the model is frozen from now on
        return self


def skip_setting(data: DataConfig) -> str:
    """What skips records that cannot be read, in the section of the config that the source was in, for messages."""
    return f"`{data.source.section.removesuffix('.source')}.on_bad_record: skip`"


def data_from_json(text: str, section: str) -> DataConfig:
    """What a component got as JSON, with the section of the config that its source was in, for messages."""
    data = DataConfig.model_validate_json(text)
    return data.model_copy(update={"source": data.source.in_section(section)})


JUDGING_SETTINGS = frozenset(name for name, field in DataConfig.model_fields.items() if Judging() in field.metadata)


def placeholders(paths: str | Iterable[str]) -> frozenset[str]:
    """The names of the placeholders in one path or in multiple paths."""
    paths = [paths] if isinstance(paths, str) else paths
    return frozenset(found["name"] for path in paths for found in PLACEHOLDER.finditer(path))


def placeholder_error(path: str) -> str | None:
    """What is wrong with the placeholders of a path, or None."""
    names = placeholders(path)
    unknown = re.search(r"\{[^}]*\}?", PLACEHOLDER.sub("", path))
    if unknown:
        return f"`{unknown[0]}` is not a placeholder; available are {{SPAN}}, {{VERSION}}, {{YYYY}}, {{MM}} and {{DD}}"
    if names & DATE_PLACEHOLDERS and "SPAN" in names:
        return "has both {SPAN} and a date; use only one of them to number the spans"
    if names & DATE_PLACEHOLDERS and not names >= DATE_PLACEHOLDERS:
        missing = ", ".join(f"{{{name}}}" for name in ("YYYY", "MM", "DD") if name not in names)
        return f"the date lacks {missing}"
    if names == {"VERSION"}:
        return "{VERSION} is the version of a span; add {SPAN} or a date"
    return None
