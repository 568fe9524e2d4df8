"""Sources that are files: delimited and JSON text, Parquet, Avro, workbooks, TFRecords, running text and images."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from headrace.common.errors import HeaderError
from headrace.configs.schema.section import Name, PositiveInt
from headrace.configs.schema.sources.base import Lists, SourceBase

Paths = Name | Annotated[tuple[Name, ...], Field(min_length=1)]
"""A path or glob pattern, or a list of them."""
PathsBySplit = Annotated[dict[str, Paths], Field(min_length=1)]
"""The paths of each split."""
DELIMITERS = (";", "\t", "|", ",")
"""Delimiters in common use."""
USUAL_ENCODING = "cp1252"
"""What text that is not UTF-8 most often is."""


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


class CsvSource(FileSource):
    """Comma-separated (or otherwise delimited) text files, plain or gzip (with the extension `.gz`)."""

    implementation: ClassVar[str] = "headrace.components.sources.csv.source.CsvFiles"
    found_by_paths: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    gzipped: ClassVar[bool] = True
    lists: ClassVar[Lists] = "none"

    kind: Literal["csv"]
    """`csv`."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """The character between fields; `"\\t"` for tabs, which is the default if the files end in `.tsv`."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """The character around fields that contain delimiters or line breaks. Doubled within a field, it stands for
    itself."""
    column_names: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Column names, for files without a header line. null: every file starts with the same header line."""
    null_values: tuple[str, ...] = ("",)
    """Unquoted texts that mean "missing"; in columns of numbers, quoted ones too. An empty text is always missing."""
    encoding: Name = "utf-8"
    """How characters are stored: UTF-8, or any encoding of one byte per character that Python knows and that contains
    ASCII, such as `cp1252` or `latin-1` (Western Europe), `cp1250`, `iso8859-15` or `koi8-r`."""
    decimal: Literal[".", ","] = "."
    """The character before the fraction of a number."""
    thousands: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """The character between groups of digits, such as the comma of `1,234,567` or a space, also one that does not
    break. Groups have three digits, or two before the last one (`12,34,567`); other texts, such as `1.2.2026`, are not
    numbers. The delimiter can be used too, for numbers in quotes. null: none."""
    comment: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Skip lines that start with this character, before the header too. null: none. It starts no comment later in a
    line or in a quoted field."""
    duplicate_names: Literal["error", "rename"] = "error"
    """What to do if a name occurs twice in the header, or a column has none. error: stop. rename: the second column
    called `price` becomes `price_2`, the third `price_3`, or the next number that no other column has, and a first
    column without a name, such as the index that pandas writes, becomes `unnamed_1`; the log of ExampleGen lists
    them."""

    def other_delimiter(self, columns: Sequence[str]) -> str | None:
        """The delimiter that a header which is a single column seems to have, or None."""
        most = max(DELIMITERS, key=columns[0].count) if len(columns) == 1 else self.delimiter
        return most if most != self.delimiter and most in columns[0] else None

    def check_delimiter(self, columns: Sequence[str]) -> None:
        """Raise HeaderError if the header seems to have another delimiter."""
        if delimiter := self.other_delimiter(columns):
            what = f"the header is a single column, {json.dumps(columns[0], ensure_ascii=False)}"
            way = f"set data.source.delimiter: {json.dumps(delimiter)}"
            raise HeaderError(f"{what}; {way}", setting=("delimiter", delimiter))

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        try:
            name = codecs.lookup(encoding).name.removesuffix("-sig")
            ascii_letters = [bytes([code]).decode(name) for code in range(128)]
            others = bytes(range(128, 256)).decode(name, "replace")
        except (LookupError, UnicodeError):
            raise ValueError(f"{encoding} is not an encoding that can be read; use utf-8, cp1252 or latin-1") from None
        if name != "utf-8" and (ascii_letters != [*map(chr, range(128))] or len(others) != 128):
            raise ValueError(f"{encoding} does not store each character in one byte; convert the files to UTF-8")
        return name

    @model_validator(mode="after")
    def _tabs_of_tsv_files(self) -> CsvSource:
        is_tsv = all(re.search(r"[.]tsv([.]gz)?$", path) for path in self.patterns)
        if "delimiter" not in self.model_fields_set and is_tsv:
            object.__setattr__(self, "delimiter", "\t")  # the model is frozen from now on
        return self

    @model_validator(mode="after")
    def _distinct_characters(self) -> CsvSource:
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote), ("comment", self.comment)):
            if mark is not None and (mark in "\r\n" or not mark.isascii()):
                raise ValueError(f"{name}: {mark!r} cannot be used; use another ASCII character, not a line break")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}; they must differ")
        if self.decimal == self.delimiter:
            raise ValueError(f"delimiter and decimal are both {self.decimal!r}; set the delimiter, such as ';'")
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote)):
            if mark == self.comment:
                raise ValueError(f"comment and {name} are both {mark!r}; they must differ")
        return self

    @model_validator(mode="after")
    def _mark_between_digits(self) -> CsvSource:
        if self.thousands is None:
            return self
        if self.thousands in "\r\n\t+-" or self.thousands.isalnum():
            what = f"thousands: {self.thousands!r} cannot be used"
            raise ValueError(f"{what}; use a mark or a space, such as ',', '.', ' ' or \"'\"")
        for name, mark in (("decimal", self.decimal), ("quote", self.quote), ("comment", self.comment)):
            if mark == self.thousands:
                raise ValueError(f"thousands and {name} are both {mark!r}; they must differ")
        return self

    @model_validator(mode="after")
    def _distinct_column_names(self) -> CsvSource:
        names = self.column_names or ()
        if duplicate := next((name for number, name in enumerate(names) if name in names[:number]), None):
            raise ValueError(f'column_names: "{duplicate}" appears twice')
        return self


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


class TextSource(FileSource):
    """Text files, UTF-8, plain or gzip (with the extension `.gz`).

    The column is `text`, or with a `window` the columns are `words` (multivalued) and `next_word`, for training a model
    that predicts the next word; `labels: folders` adds `label`. White space at both ends of a text is removed, and
    empty texts are skipped. Words are separated by white space and include their punctuation. A window does not cross
    texts; a text with no word after its first `window` words gives no example.
    """

    implementation: ClassVar[str] = "headrace.components.sources.text.source.TextFiles"
    found_by_paths: ClassVar[bool] = True

    kind: Literal["text"]
    """`text`."""
    unit: Literal["line", "file", "string"] = "line"
    """What one text is: a line, a whole file (of at most 256 MiB), or a string in a Python file, such as a
    docstring."""
    window: PositiveInt | None = None
    """Words in an example; the word that follows is its label. null: each text is an example."""
    stride: PositiveInt = 1
    """Words from the start of one window to the start of the next."""
    lowercase: bool = False
    """Convert words to lower case; used only with `window`."""
    min_length: Annotated[int, Field(ge=0)] = 1
    """Skip texts with fewer characters."""
    max_length: PositiveInt | None = None
    """Skip texts with more characters. null: no limit."""
    keep: str | None = None
    """Skip texts in which this regular expression (RE2) does not match anywhere. null: use all texts."""
    text_key: Name | None = None
    """Name of a column that says where each example comes from: the file and the byte offset of the text, such as
    `notes.txt:120`. Files in folders below the part of `path` without wildcards and placeholders (with multiple paths,
    below their common part) are named with these folders, so `notes/*/*.txt` gives `june/a.txt:120`. With
    `data.split_key` set to it, all windows of a text get the same split; otherwise windows that share most of their
    words get different ones. null: no such column."""
    labels: Literal["none", "folders"] = "none"
    """Whether the folder of a file says what its texts are. folders: the column `label` is the name of the folder that
    the file is in, as in `reviews/good/17.txt`. none: there is no such column."""

    @model_validator(mode="after")
    def _consistent_settings(self) -> TextSource:
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(f"max_length is {self.max_length}, which is below min_length ({self.min_length})")
        if self.text_key in {"text", "words", "next_word", "label"}:
            raise ValueError(f'text_key: "{self.text_key}" is the name of another column; choose a different one')
        return self


class ImagesSource(SourceBase):
    """JPEG and PNG images, detected from their first bytes: a folder with one folder per class, or an index of files.

    The columns are `image` (the bytes), `height`, `width`, `channel`, and either `label` (the name of the class
    folder), the other columns of the index, or `file` (with `labels: none`). Hidden files and those that desktops
    create (`Thumbs.db`, `desktop.ini`) are ignored. Any other file that is not an image, a damaged image, and a row of
    the index without its image are bad records (see `data.on_bad_record`).

    `height`, `width` and `channel` are those that `tf.io.decode_image` returns: 16 bits become 8, palettes RGB or RGBA,
    CMYK becomes RGB, the first of multiple frames counts, and the EXIF orientation is not applied. Not all damage can
    be detected: a JPEG image with a wrong byte among its pixels still decodes.
    """

    implementation: ClassVar[str] = "headrace.components.sources.images.source.ImageFiles"
    by_split: ClassVar[tuple[str, ...]] = ("path", "index")
    content_column: ClassVar[str | None] = "image"

    kind: Literal["images"]
    """`images`."""
    path: Name | Annotated[dict[str, Name], Field(min_length=1)] | None = None
    """The folder whose subfolders are the classes, with images at any depth: local, `pkg://`, `s3://` or `gs://`. With
    an `index`: the folder at which its relative paths start; null: the folder of the first index file. A mapping such
    as `{train: photos/train, test: photos/test}` gives each split its own, of this and of `index`."""
    index: Paths | PathsBySplit | None = None
    """CSV or Parquet files (with the extension `.parquet`) with one row per image."""
    index_column: Name = "image"
    """The column of the index with the path of the image."""
    labels: Literal["folders", "none"] = "folders"
    """Without an index: what the folders in `path` say. folders: they are the classes, and an image outside of them is
    a bad record. none: nothing, for new images to predict; they may be in `path` itself, and the column `file` has
    their paths below it, such as `1.png`."""
    decode: bool = False
    """false: `image` is the unchanged file (JPEG or PNG); true: raw bytes, height x width x channel uint8."""
    check: Literal["decode", "header"] = "decode"
    """How damaged images are detected with `decode: false`. decode: decode each image once, about a millisecond for 500
    x 400 pixels. header: check only the format, the size, the end of the file and, for PNG, the checksums."""

    @model_validator(mode="after")
    def _path_or_index(self) -> ImagesSource:
        if self.path is None and self.index is None:
            raise ValueError("needs a `path` (a folder with one folder per class) or an `index`")
        if self.labels == "none" and self.index is not None:
            raise ValueError(
                "`labels: none` is for a folder; the columns of an `index` are read as they are. Remove one"
            )
        return self
