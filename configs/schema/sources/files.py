"""Sources that are files of records: JSON text, Parquet, Avro, workbooks and TFRecords, and what all files share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.configs.schema.section import Name, PositiveInt
from headrace.configs.schema.sources.base import Lists, SourceBase

Paths = Name | Annotated[tuple[Name, ...], Field(min_length=1)]
"""A path or glob pattern, or a list of them."""
PathsBySplit = Annotated[dict[str, Paths], Field(min_length=1)]
"""The paths of each split."""


class FileSource(SourceBase):
    """Files that are found by their paths."""

    by_split: ClassVar[tuple[str, ...]] = ("path",)

    path: Paths | PathsBySplit
    """A path or glob pattern, or a list of them: local, `s3://bucket/...`, `gs://bucket/...`, or
    `pkg://package/inside/it/*.csv` for files inside an installed Python package. A relative path starts at the
    folder in which the command runs. `{SPAN}`, `{VERSION}`, or `{YYYY}`, `{MM}` and `{DD}` in a path divide the data
    into spans. `{train: train.csv, test: test.csv}` gives each split its own files; an `eval` that is not named is cut
    from `train` by hash, in the proportion of the numbers in `data.splits`."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The paths, of all splits."""
        paths = list(self.path.values()) if isinstance(self.path, dict) else [self.path]
        return tuple(path for each in paths for path in ([each] if isinstance(each, str) else each))


class JsonlSource(FileSource):
    """Text files with one JSON object per line, UTF-8, plain or gzip (with the extension `.gz`).

    Lists become multivalued features; `null` and absent keys are missing values; true and false become 1 and 0. A key
    with numbers on some lines and strings on others needs a declared type: as `string`, numbers keep the text in which
    they are written. The columns that `types` and other settings can name are the keys on the first 200 lines of the
    first eight files, and those in `data.columns`.

    The values in a nested object are columns that are named by all keys that lead to them: `{"user": {"age": 3}}` has
    the column `user.age`. A list of objects gives a multivalued column for each of their keys: `{"items": [{"price":
    1}, {"price": 2}]}` has the column `items.price` with the values 1 and 2. An object in it without the key, or with
    null, adds no value, so the lists of two keys may differ in length. An object where other records have a single
    value or a list of values is a bad record (see `data.on_bad_record`). Lists of lists, also within a list of
    objects, and lists with null cannot be read; leave them out with `data.columns`.
    """

    implementation: ClassVar[str] = "headrace.components.sources.jsonl.source.JsonlFiles"
    found_by_paths: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    gzipped: ClassVar[bool] = True
    lists: ClassVar[Lists] = "declared"

    kind: Literal["jsonl"]
    """`jsonl`."""


class JsonSource(FileSource):
    """Files that each contain one JSON array of objects (`[{...}, {...}]`), UTF-8, plain or gzip (with the extension
    `.gz`), on one line or on several.

    Objects are read as those of `jsonl`, and a file is never held in memory as a whole, but it is read by one process
    from its start to its end. For large data, several files or JSON lines are therefore faster. If a bracket is missing
    in an array, the objects after it cannot be told apart, which stops the run even with `on_bad_record: skip`.
    """

    implementation: ClassVar[str] = "headrace.components.sources.jsonl.array.JsonArrays"
    found_by_paths: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = (".json",)
    gzipped: ClassVar[bool] = True
    lists: ClassVar[Lists] = "declared"

    kind: Literal["json"]
    """`json`."""


class ParquetSource(FileSource):
    """Parquet files; a folder stands for all `*.parquet` files below it.

    Columns get their stored types: integers and booleans (0 and 1) become ints; floats and durations (in seconds)
    become floats; decimals as described at `data.types`; texts, dates (`2026-11-21`), times and timestamps (`2026-11-21
    12:30:00.000`; with a time zone, in UTC and with a trailing `Z`) become strings; binary becomes bytes; lists of
    these become multivalued features. `data.types` can override this: a date as `int` is the number of days, a
    timestamp the number of whole seconds, since 1970-01-01 UTC. The fields of a struct are columns such as
    `user.age`, and those of a list of structs are multivalued. Maps and lists of lists cannot be read; leave them out
    with `data.columns`. All files must have the same columns.
    """

    implementation: ClassVar[str] = "headrace.components.sources.parquet.source.ParquetFiles"
    endings: ClassVar[tuple[str, ...]] = (".parquet",)

    kind: Literal["parquet"]
    """`parquet`."""
    partitions: Literal["hive", "none"] = "hive"
    """hive: a folder called `name=value` on a file's path is a column `name`, an int if all its values are integers,
    else a string, unless the files contain a column of that name. none: folder names are ignored."""


class DatasetsSource(FileSource):
    """Datasets that the `datasets` library of Hugging Face stored with `save_to_disk`; the library is not needed.

    `path` is the folder of a dataset, or names its `.arrow` files. A DatasetDict has a folder for each split: `path:
    {train: reviews/train, test: reviews/test}`. Columns get their stored types, as from Parquet; a `ClassLabel`, or a
    list of them, is read as the names of the classes, and its -1 as a missing value; `data.types` with `int` reads the
    numbers instead. An `Image` is read as bytes, the content of the file. Structs, such as `Audio`, and lists of lists
    cannot be read; leave them out with `data.columns`. All files must have the same columns. Files in the folder that
    do not belong to the dataset, such as the library's cache, are ignored.
    """

    implementation: ClassVar[str] = "headrace.components.sources.datasets.source.StoredDatasets"
    endings: ClassVar[tuple[str, ...]] = (".arrow",)

    kind: Literal["datasets"]
    """`datasets`."""


class AvroSource(FileSource):
    """Avro files (object container files, `*.avro`), uncompressed or with the codecs deflate, bzip2 and xz; snappy,
    zstandard and lz4 need `pip install 'fastavro[codecs]'`.

    Columns get the types of the schema, mapped as for Parquet: enums and UUIDs become strings, fixed becomes bytes,
    arrays become multivalued features, and a union with null is a column with missing values. A record within a record
    gives columns such as `user.age`, and an array of records `items.price`, as in `jsonl`. Maps, and unions of several
    types other than numbers, cannot be read; leave them out with `data.columns`. Files may differ in their columns, but
    not in whether a column holds numbers. The columns that `types` and other settings can name are those of the first
    eight files, and those in `data.columns`. Large files are read in parallel. A damaged block stops the run, but Avro
    has no checksums (except with snappy), so a wrong byte within a value goes unnoticed.
    """

    implementation: ClassVar[str] = "headrace.components.sources.avro.source.AvroFiles"
    found_by_paths: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = (".avro",)

    kind: Literal["avro"]
    """`avro`."""


class ExcelSource(FileSource):
    """One sheet of each workbook: `.xlsx`, `.xlsm`, `.xlsb`, `.xls` or `.ods`.

    Cells have types, and a column gets the one that holds all of its cells: int (whole numbers, false and true as 0 and
    1), float, or string, also if cells are of several types: `TRUE`, `3`, `2.5`. Dates and times are strings such as
    `2024-01-31`, `2024-01-31 12:30:00` (if a cell of the column has a time) and `12:30:00`; durations are seconds.
    Numbers that are stored as text are text, unless `data.types` says otherwise. A formula counts with the value that
    Excel stored, and an error such as `#N/A` is missing. Of merged cells, the first has the value. Empty rows, and
    columns without name and values, are left out; hidden rows are not. The whole sheet is held in memory, at most
    1,048,576 rows.
    """

    implementation: ClassVar[str] = "headrace.components.sources.excel.source.ExcelFiles"
    found_by_paths: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")

    kind: Literal["excel"]
    """`excel`."""
    sheet: Name | PositiveInt | None = None
    """The name of the sheet, or its number, from 1. null: the first sheet."""
    header_row: PositiveInt | None = None
    """The number of the row with the names of the columns, as Excel counts; rows above it are ignored. null: the first
    of the upper 20 rows that has different texts in all columns with values below, so titles are ignored; if there is
    none, the first row that is not empty."""
    null_values: tuple[str, ...] = ()
    """Texts of cells that are missing values, such as `k. A.`, in all columns. Empty cells always are."""


class TfrecordSource(FileSource):
    """Existing TFRecord files, plain or gzip (detected from the first bytes), rewritten into shards of planned size.

    A feature with at most one value in each record is a single-valued column; any other is multivalued. The columns
    that `types` and other settings can name are the features of the first 100 records of the first eight files (of
    fewer files if these have 50,000 features or more in total), and those in `data.columns`.
    """

    implementation: ClassVar[str] = "headrace.components.sources.tfrecord.source.TfrecordFiles"
    found_by_paths: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = (".tfrecord", ".tfrecords")
    gzipped: ClassVar[bool] = True

    kind: Literal["tfrecord"]
    """`tfrecord`."""
    payload: Literal["example", "sequence_example", "prediction_log"] = "example"
    """What a record is: a tf.Example; a tf.SequenceExample; or a PredictionLog of TensorFlow Serving's request logging.

    Feature lists of a tf.SequenceExample become multivalued features with the values of all steps in order; if any step
    does not have exactly one value, a column `<name>.lengths` has the number of values of each step. The request in a
    PredictionLog gives a row for each tf.Example in it, or for each row of its named tensors (see docs/gates.md)."""
