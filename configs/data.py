"""`data:` what the raw data is, and how it becomes sharded examples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.section import Name, Section
from headrace.configs.sources import SourceConfig

ColumnType = Literal["int", "float", "string", "bytes", "int list", "float list", "string list", "bytes list"]
PositiveInt = Annotated[int, Field(gt=0)]
ShardSize = Annotated[str, Field(pattern=r"^[1-9][0-9]* ?MB$")]
Span = Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Range = Annotated[tuple[Span, ...], Field(min_length=2, max_length=2)]


class DataConfig(Section):
    """What the raw data is, and how it becomes sharded TFRecords of tf.Example."""

    source: SourceConfig
    """Where the rows come from."""
    types: dict[str, ColumnType] = {}
    """Types of single columns (`int`: int64, `float`: float32, `string`: UTF-8, `bytes`; with ` list` behind it where
    an example may have several values). A column not named here takes its type from `schema`, else from the data: from
    the types it is stored in, or, for text such as CSV, from a pass over all of it: int if every value is one, else
    float, else string. What would lose digits as a number stays a string: codes such as 00123, and integers beyond
    int64. A decimal of any source is a float; one without digits behind the point an int, or a string if it may have
    more than 18. `string` keeps all its digits."""
    columns: Literal["all", "used"] | Annotated[tuple[Name, ...], Field(min_length=1)] = "all"
    """The columns to read: `all`; `used`: those that the label, the features, the slices and `split_key` name; or a
    list of them. Rows that differ only in columns not read land in the same split."""
    window: PositiveInt | Literal["all"] = 1
    """How many spans to learn from, counted back from the newest by their numbers (a date counts as a day); only for
    paths with `{SPAN}` or a date in them. Each span is read once and kept."""
    spans: Span | Range | None = None
    """Spans chosen by hand, by number or date (`2026-11-20`): one, from which `window` counts back in the place of the
    newest; or the first and the last, whatever `window` says. null: the newest."""
    run_date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """The day for which is run, such as `2026-11-21`: spans after it, less `delay`, are not looked at; only for paths
    with a date in them. null: all are. `spans` wins."""
    delay: Annotated[int, Field(ge=0)] = 0
    """How many days before `run_date` the newest span lies that may be read: 1 where a day's data is whole only on the
    next."""
    fingerprint: Literal["times", "checksums"] = "times"
    """What tells that a file changed: its size and time of change, or its size and SHA-256, which reads it once more
    but does not mind a file that was only touched."""
    schema_file: Annotated[Name | None, Field(alias="schema")] = None
    """A curated schema (TensorFlow Metadata, text format). null: it is inferred from the statistics."""
    splits: Annotated[dict[str, PositiveInt], Field(min_length=2)] = {"train": 8, "eval": 1, "test": 1}
    """Hash buckets for each split: `{train: 8, eval: 1, test: 1}` puts 80, 10 and 10 percent of the rows there. Needs
    `train` and `eval`."""
    split_key: Name | None = None
    """Rows with the same value in this column land in the same split; null: the whole row is hashed, so that only
    identical rows land together."""
    shards: Literal["auto"] | PositiveInt | ShardSize = "auto"
    """TFRecord files for each split (of each span). auto: ten for each reading host, each over 10 MB and better 100 to
    200 MB; or a number; or the size to aim at, such as `150MB`."""
    readers: PositiveInt = 1
    """Hosts that will read the examples at the same time; only `shards: auto` uses it."""
    shuffle_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the hash that assigns rows to splits, and of the shuffle over the shards."""
    compression: Literal["gzip", "none"] = "gzip"
    """Of the shards."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 1
    """1 is fastest, 9 smallest; only `gzip` has it."""
    on_bad_record: Literal["stop", "skip"] = "stop"
    """What a record does that cannot be read: one with the wrong number of fields, a value not of its declared type, a
    number beyond float32, text that is not UTF-8, a wrong checksum, or the end of a file that was cut off. skip: it is
    left out, counted and reported. A quote out of place in CSV, and a damaged length in a TFRecord file, stop the run
    in any case: where the next record starts is not known."""
    max_bad_fraction: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The run stops where more than this part of the records was left out."""
    on_anomaly: Literal["stop", "warn"] = "stop"
    """What an anomaly against the schema, a missing label, a label outside its classes, an infinite value or no value
    at all in a column that a feature reads, or whole numbers that become the same float32, do to the run."""
