"""`data:` what the raw data is, and how it becomes sharded examples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.section import Name, Section

Paths = Name | Annotated[tuple[Name, ...], Field(min_length=1)]
ColumnType = Literal["int", "float", "string"]
PositiveInt = Annotated[int, Field(gt=0)]


class CsvSource(Section):
    """Comma-separated (or otherwise delimited) text files, UTF-8, plain or gzip (by the ending `.gz`)."""

    kind: Literal["csv"]
    """`csv`."""
    path: Paths
    """A path or glob pattern, or a list of them. Local, or `pkg://package/inside/it/*.csv` for files that an installed
    Python package carries. A relative path starts at the folder the command runs in."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """One character between fields; `"\\t"` for tabs."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """The character around fields that hold delimiters or line breaks; doubled inside a field, it stands for itself."""
    column_names: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Names of the columns for files without a header line; null: every file starts with the same header line."""
    null_values: tuple[str, ...] = ("",)
    """Unquoted texts that mean "missing"; in columns of numbers they do so in quotes too. An empty text always does."""

    @model_validator(mode="after")
    def _marks_can_be_told_apart(self) -> CsvSource:
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote)):
            if mark in "\r\n" or not mark.isascii():
                raise ValueError(f"{name}: {mark!r} cannot be used; any other ASCII character can")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}; they must differ")
        names = self.column_names or ()
        if twice := next((name for number, name in enumerate(names) if name in names[:number]), None):
            raise ValueError(f'column_names: "{twice}" stands there twice')
        return self


class DataConfig(Section):
    """What the raw data is, and how it becomes sharded TFRecords of tf.Example."""

    source: CsvSource
    """Where the rows come from."""
    types: dict[str, ColumnType] = {}
    """Types of single columns (`int`: int64, `float`: float32, `string`: UTF-8). A column not named here takes its type
    from `schema`, else from a pass over all the data: int if every value is one, else float, else string. What would
    lose digits as a number stays a string: codes such as 00123, and integers beyond int64."""
    schema_file: Annotated[Name | None, Field(alias="schema")] = None
    """A curated schema (TensorFlow Metadata, text format). null: it is inferred from the statistics."""
    splits: Annotated[dict[str, PositiveInt], Field(min_length=2)] = {"train": 8, "eval": 1, "test": 1}
    """Hash buckets for each split: `{train: 8, eval: 1, test: 1}` puts 80, 10 and 10 percent of the rows there. Needs
    `train` and `eval`."""
    split_key: Name | None = None
    """Rows with the same value in this column land in the same split; null: the whole row is hashed, so that only
    identical rows land together."""
    shards: Literal["auto"] | PositiveInt = "auto"
    """TFRecord files for each split. auto: ten for each reading host, each over 10 MB and better 100 to 200 MB."""
    readers: PositiveInt = 1
    """Hosts that will read the examples at the same time; only `shards: auto` uses it."""
    shuffle_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the hash that assigns rows to splits and shards."""
    on_anomaly: Literal["stop", "warn"] = "stop"
    """What an anomaly against the schema, a missing label, a label outside its classes, or an infinite value or no
    value at all in a column that a feature reads does to the run."""
