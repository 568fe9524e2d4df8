"""Sources that are not files: databases, BigQuery, TensorFlow Datasets, and arrays and rows from Python."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from headrace.common.credentials import has_password
from headrace.configs.schema.section import DottedPath, KeyPath, Name
from headrace.configs.schema.sources.base import SourceBase

ValueBySplit = Name | Annotated[dict[str, Name], Field(min_length=1)]
"""One value, or one for each split."""
Slices = Annotated[tuple[Name, ...], Field(min_length=1)]


class SqlSource(SourceBase):
    """A table or a query of any database that SQLAlchemy supports. Needs `pip install headrace[sql]`, and a driver for
    databases other than PostgreSQL and SQLite.

    Integers and booleans (as 0 and 1) become int; floats become float; decimals as described at `data.types`; dates and
    times become string (`2024-01-31`, `2024-01-31 12:30:00`, with a time zone in UTC: `2024-01-31 11:30:00Z`); binary
    values become bytes; arrays become multivalued features; JSON becomes string; NULL is a missing value. PostgreSQL
    reports the column types; with other databases they are inferred from the values, which takes a pass over the data.
    A value that does not match its column's type stops the run, so `on_bad_record: skip` is rejected.

    PostgreSQL shows all readers the same snapshot of the data. With other databases each reader has its own
    transaction; a run then stops with an error if the number of rows differs from the earlier count, or if
    `fingerprint_query` gives another result at the end of a range. Without that query, a value that changes during the
    read goes unnoticed, so read while nothing writes.

    `{SPAN}` and date placeholders are for paths and have no meaning here; put the limits into the query.
    """

    implementation: ClassVar[str] = "headrace.components.sources.sql.source.SqlRows"
    by_split: ClassVar[tuple[str, ...]] = ("table", "query")

    kind: Literal["sql"]
    """`sql`."""
    url: Name
    """SQLAlchemy URL of the database, such as `postgresql+psycopg://reader@db.example/shop` or
    `sqlite:////data/shop.db`, without a password."""
    password_env: Name | None = None
    """Environment variable with the password. null: no password."""
    table: ValueBySplit | None = None
    """The table (or view) to read, optionally as `schema.table`. Set either this or `query`. A mapping such as
    `{train: rides_2025, test: rides_2026}` gives each split its own, here and in `query`."""
    query: ValueBySplit | None = None
    """The SELECT to read. With `key` it runs once per range, as a subquery."""
    key: Name | None = None
    """An integer column by which the rows are divided into ranges that are read in parallel, each in the order of the
    key; ideally a primary key or an indexed column. If multiple rows can share a value, or without a key, the bytes of
    the shards depend on the order in which the database returns rows. null: one reader."""
    ranges: Annotated[int, Field(ge=1, le=64)] = 8
    """Number of ranges of `key`, with about the same number of rows each."""
    fingerprint_query: Name | None = None
    """A SELECT of a few values that change whenever the data does, such as
    `select count(*), max(changed_at) from trips`. null: the data is read again in each run."""

    @field_validator("url")
    @classmethod
    def _without_password(cls, url: str) -> str:
        if not re.match(r"[\w+]+://", url):
            raise ValueError("is not a SQLAlchemy URL, which starts with `dialect://` or `dialect+driver://`")
        if has_password(url):
            raise ValueError(
                "contains a password, which would end up in logs and artifacts; put the password into an environment"
                " variable, and the variable's name into `password_env`"
            )
        return url

    @model_validator(mode="after")
    def _table_or_query(self) -> SqlSource:
        if (self.table is None) == (self.query is None):
            raise ValueError("set either `table` or `query`")
        return self


class BigquerySource(SourceBase):
    """A BigQuery table or query, read in parallel through the Storage Read API, with the credentials of Google's own
    tools (`gcloud auth application-default login`, or GOOGLE_APPLICATION_CREDENTIALS).

    Types are mapped as for Parquet: NUMERIC and BIGNUMERIC become float, unless `data.types` declares string, which
    keeps all digits; repeated columns are multivalued; records (STRUCT) need a query that names their fields. All
    streams read the same snapshot of the table. BigQuery decides which rows each stream gets, so another run may put
    the same rows into other positions within the shards, but never into another split. Views and external tables need a
    query.

    Tested: requests and reading, against local servers that speak both APIs with Google's own client types. Not tested
    (we had no account): credentials, permissions, quotas, the size and number of real streams, streams that last for
    hours, and BigQuery's own error messages.
    """

    implementation: ClassVar[str] = "headrace.components.sources.bigquery.BigqueryRows"
    by_split: ClassVar[tuple[str, ...]] = ("table", "query")

    kind: Literal["bigquery"]
    """`bigquery`."""
    project: Name
    """The project that is billed for the read."""
    table: ValueBySplit | None = None
    """The table to read: `project.dataset.table` or `dataset.table`. It is read again when its modification time
    changes. Set either this or `query`. A mapping gives each split its own, here and in `query`."""
    query: ValueBySplit | None = None
    """The query to read, in GoogleSQL. It runs in each run, as a job that writes a temporary table; if nothing has
    changed, BigQuery answers from its cache."""
    row_filter: Name | None = None
    """Rows of the table to read, as in a WHERE clause. null: all."""
    location: Name | None = None
    """Location of the query job, such as `EU`. null: the location of its data."""
    streams: Annotated[int, Field(ge=1, le=64)] = 16
    """Maximum number of streams; BigQuery may provide fewer."""

    @model_validator(mode="after")
    def _table_or_query(self) -> BigquerySource:
        if (self.table is None) == (self.query is None):
            raise ValueError("set either `table` or `query`")
        if self.row_filter is not None and self.table is None:
            raise ValueError("`row_filter` requires `table`; put the condition into the query's WHERE clause")
        if self.location is not None and self.query is None:
            raise ValueError("`location` requires `query`; a table has its own location")
        return self


class TfdsSource(SourceBase):
    """A dataset that TensorFlow Datasets has prepared on disk; nothing is downloaded. Needs `pip install
    headrace[tfds]`; preparing a dataset needs `pip install importlib_resources` too.

    Class labels become ints, images stay encoded as they are on disk, sequences of numbers or texts become multivalued
    features. Nested features, and tensors of two or more dimensions other than images, cannot be read; leave them out
    with `data.columns`.
    """

    implementation: ClassVar[str] = "headrace.components.sources.tfds.source.TfdsExamples"
    by_split: ClassVar[tuple[str, ...]] = ("slices",)

    kind: Literal["tfds"]
    """`tfds`."""
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(/[^/:\s]+)?(:([0-9]+|\*)(\.([0-9]+|\*)){2})?$")]
    """Name, config and version of the dataset: `mnist`, `mnist:3.*.*`, `glue/sst2:2.0.0`. If multiple versions match,
    the newest is used; the log of ExampleGen says which. A new major version may change the examples in a slice; a
    minor version only adds to them, so use `3.*.*` if slices must not change."""
    data_dir: Name = "~/tensorflow_datasets"
    """The folder in which it was prepared."""
    slices: Slices | Annotated[dict[str, Name | Slices], Field(min_length=1)] | None = None
    """The dataset's own splits, or slices of them such as `train[:10%]`, to read. null: all. They must not overlap. The
    rows are split again according to `data.splits`, unless a mapping such as `{train: train, test: test}` says which
    slices are which split."""

    def of_split(self, split: str) -> TfdsSource:
        """The slices of one split."""
        own = super().of_split(split)
        return own.model_copy(update={"slices": (own.slices,)}) if isinstance(own.slices, str) else own


class ArraysSource(SourceBase):
    """NumPy arrays or pandas objects, returned by a function of yours or stored in a `.npz` file.

    Missing values are NaN, NA and NaT in pandas objects, None, and masked entries; a NaN in a NumPy array is a NaN, or
    a missing value in a column that is read as int. A pandas index is ignored. Types are mapped as for Parquet.
    """

    implementation: ClassVar[str] = "headrace.components.sources.arrays.source.Arrays"
    by_split: ClassVar[tuple[str, ...]] = ("function", "path")
    endings: ClassVar[tuple[str, ...]] = (".npz",)

    kind: Literal["arrays"]
    """`arrays`."""
    function: DottedPath | Annotated[dict[str, DottedPath], Field(min_length=1)] | None = None
    """Dotted path to a function without parameters that returns {name: array of n rows}, a pandas DataFrame, or a
    pyarrow Table. It runs at the start of each run, and again to read the data if the content is new. The result is
    held in memory. Two-dimensional arrays become multivalued columns. Set either this or `path`. A
    mapping gives each split its own, here and in `path`."""
    path: ValueBySplit | None = None
    """A `.npz` file as `numpy.savez` writes it, with one array per column."""

    @model_validator(mode="after")
    def _function_or_path(self) -> ArraysSource:
        if (self.function is None) == (self.path is None):
            raise ValueError("set either `function` or `path`")
        return self

    def functions(self) -> dict[KeyPath, str]:
        if isinstance(self.function, dict):
            return {("function", split): function for split, function in self.function.items()}
        return {("function",): self.function} if self.function else {}


class PythonSource(SourceBase):
    """Rows that a generator function of yours yields. They are converted as they come and never held as a whole.

    A row is a dictionary from columns to values: numbers, booleans (0 and 1), strings, bytes, dates, decimals, or lists
    and one-dimensional NumPy arrays of these, which become multivalued; None and absent keys are missing values. A
    nested dictionary gives columns such as `user.age`, as in `jsonl`. A pyarrow Table or RecordBatch, or a pandas
    DataFrame, is many rows at once, which is faster. Types are mapped as for Parquet. A column with numbers in some
    rows and strings in others needs a declared type. The columns that `types` and other settings can name are those of
    the first 200 rows, or of the first table, and those in `data.columns`.

    The function is called several times, and only once in a run to its end, unless the rows have to be read again for
    their types. It must yield the same rows each time.
    """

    implementation: ClassVar[str] = "headrace.components.sources.python.source.PythonRows"
    by_split: ClassVar[tuple[str, ...]] = ("function",)

    kind: Literal["python"]
    """`python`."""
    function: DottedPath | Annotated[dict[str, DottedPath], Field(min_length=1)]
    """Dotted path to a generator function without parameters, or to one that returns an iterator. A mapping gives each
    split its own."""
    fingerprint: DottedPath | None = None
    """Dotted path to a function without parameters that returns a value, such as a date or a count, that changes
    whenever the data does. null: the rows are read again only if the code of the function's module changes, or of one
    that it imports."""

    def functions(self) -> dict[KeyPath, str]:
        own: dict[KeyPath, str] = {} if self.fingerprint is None else {("fingerprint",): self.fingerprint}
        if isinstance(self.function, dict):
            return {("function", split): function for split, function in self.function.items()} | own
        return {("function",): self.function} | own

    def own_modules(self) -> list[str]:
        functions = self.functions().values()
        return [*super().own_modules(), *(function.rpartition(".")[0] for function in functions)]
