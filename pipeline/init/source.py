"""The source that a path, folder, URL or database names, as `data.source`.

given_source("trips.csv")                          # {"kind": "csv", "path": "trips.csv"}
given_source("train.csv", others=["test.csv"])     # {"kind": "csv", "path": {"train": "train.csv", "test": "test.csv"}}
given_source("trips/{YYYY}-{MM}-{DD}.csv")         # the format is that of the newest day's file
given_source("sqlite:///shop.db", table="orders")  # {"kind": "sql", "url": ..., "table": "orders"}
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from headrace.common.errors import DataError, RunError
from headrace.common.names import join_names
from headrace.components.example_gen.paths import is_remote
from headrace.components.example_gen.sources import open_source
from headrace.components.example_gen.sources.csv.thousands import MARKS
from headrace.components.example_gen.sources.datasets.streams import is_dataset, splits_of_folder
from headrace.components.example_gen.sources.jsonl.array import kind_of_json
from headrace.components.example_gen.sources.streams import open_truncated, read_fully
from headrace.components.example_gen.spans.find import find_spans
from headrace.components.example_gen.storage import resolve
from headrace.configs.loading.editing import to_flow
from headrace.configs.schema.data import DataConfig, placeholder_error, placeholders
from headrace.configs.schema.sources import SourceConfig
from headrace.configs.schema.sources.endings import JSON, KIND_OF_ENDING, KNOWN, known_ending
from headrace.pipeline.init.splits import split_named_by, splits_of, without_split
from headrace.pipeline.validate import DELIMITERS, other_delimiter

DATABASES = (".db", ".sqlite", ".sqlite3")
READ = 1 << 20
"""Bytes of a file by which its encoding is told, and whether it starts with comments."""
COMMENTS = ("#", "%")
IMAGES = (".jpg", ".jpeg", ".png")
_OF_IMAGES = """\
data: {{source: {{kind: images, path: {path}}}}}
label: {{key: label, kind: auto}}
features: {{image: {{column: image, height: 128, width: 128}}}}
model: {{kind: image}}
"""
FILES = ("pkg",)
"""Schemes of paths, besides those of object stores."""
_SOURCE: TypeAdapter[SourceConfig] = TypeAdapter(SourceConfig)


def given_source(given: str, table: str | None = None, others: Sequence[str] = ()) -> dict[str, Any]:
    """The settings of the source. Raises RunError if it is not clear what kind it is, and DataError if it cannot be
    read.

    Args:
        given: a path, folder or URL.
        table: the table of a database.
        others: the paths of other splits; the names of all say which they are.
    """
    if others:
        return _by_split(splits_of([given, *others]))
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+]*)://", given)
    if scheme and not is_remote(given) and scheme[1] not in FILES:
        if table is None:
            raise RunError(f"{given} is a database; name the table with --table, such as --table orders")
        return _valid({"kind": "sql", "url": given, "table": table})
    if table is not None:
        raise RunError(f"--table is for databases, such as sqlite:///shop.db, and {given} is a path")
    settings = _folder(given) if not scheme and Path(given).is_dir() and not _is_dataset(given) else _file(given)
    return _as_written(_valid(settings))


def _by_split(paths: dict[str, Any]) -> dict[str, Any]:
    """The files of each split, in the format of those of train."""
    own = {split: [path] if isinstance(path, str) else path for split, path in paths.items()}
    kinds = {path: _file(path)["kind"] for each in own.values() for path in each}
    other = next((path for path, kind in kinds.items() if kind != kinds[own["train"][0]]), None)
    if other is not None:
        raise RunError(f"{other} is of another kind than {own['train'][0]}; all splits need files of one kind")
    settings = _as_written(_valid(_file(own["train"][0])))
    return _valid({**settings, "path": paths})


def pipeline_name(source: dict[str, Any]) -> str:
    """A name for the pipeline: that of the file without wildcards, or of the table."""
    path = source.get("table") or source["path"]
    if isinstance(path, dict):
        first = path["train"] if isinstance(path["train"], str) else path["train"][0]
        path = without_split(first if is_remote(first) else str(Path(first).absolute()))
    path = path.rstrip("/")
    last = next((part for part in reversed(path.split("/")) if re.search(r"[A-Za-z0-9]{2}", _stem(part))), "data")
    return re.sub(r"[^a-z0-9]+", "-", _stem(last).lower()).strip("-")[:63].strip("-") or "data"


def _stem(name: str) -> str:
    """`trips` of `trips-{YYYY}-*.csv.gz`."""
    return re.sub(r"\{[^}]*\}|[*?]+|\[[^]]*\]", "", re.sub(r"(\.[A-Za-z]+)+$", "", name))


def _is_dataset(given: str) -> bool:
    return not is_remote(given) and Path(given).is_dir() and is_dataset(given.rstrip("/"))


def _file(given: str) -> dict[str, Any]:
    """The settings for a path, or for the folder of a dataset of Hugging Face."""
    if _is_dataset(given):
        splits = splits_of_folder(folder := given.rstrip("/"))
        return {"kind": "datasets", "path": _named_splits(folder, splits) if splits else given}
    if (ending := known_ending(given)) is not None:
        return {"kind": kind_of_json(_one_of(given)) if ending == JSON else KIND_OF_ENDING[ending], "path": given}
    name = given.rstrip("/")
    if is_remote(given) and not Path(name).suffix:
        return {"kind": "parquet", "path": given}
    if name.endswith(DATABASES):
        raise RunError(f"{given} looks like a database; write it as sqlite:///{given}, with --table")
    raise RunError(f"{given}: the ending names no kind of data; known are {KNOWN}")


def _named_splits(folder: str, splits: Sequence[str]) -> dict[str, Any]:
    """The folders of a DatasetDict that are named as splits are. Raises RunError if none is for training."""
    named = [split for split in splits if split_named_by(split) is not None]
    if "train" not in map(split_named_by, named):
        what = f"is a DatasetDict with {join_names(splits)}, and none of them is named `train`"
        raise RunError(f"{folder} {what}; name the folder to learn from, such as {folder}/{splits[0]}")
    return splits_of([f"{folder}/{split}" for split in named])


def _folder(given: str) -> dict[str, Any]:
    """The files of a folder of one kind, directly in it or, for Parquet, at any depth."""
    found = Counter[str]()
    for file in Path(given).rglob("*.parquet*"):
        found[".parquet"] += file.is_file()
    for file in Path(given).iterdir():
        ending = known_ending(file.name)
        if ending is not None and ending != ".parquet" and file.is_file():
            found[ending + ".gz" * file.name.endswith(".gz")] += 1
    if not found and any(file.suffix.lower() in IMAGES for file in Path(given).rglob("*")):
        hint = "`headrace init` is for tables; with a folder for each class, this is a config (see docs/images.md)"
        raise RunError(f"{given} contains images; {hint}:\n\n{_OF_IMAGES.format(path=to_flow(given))}")
    if len(found) != 1:
        what = f"files of several kinds ({', '.join(sorted(found))})" if found else "no file of a known kind"
        raise RunError(f"{given} contains {what}; name the files, such as '{given.rstrip('/')}/*.csv'")
    (ending,) = found
    if ending == ".parquet":
        return {"kind": "parquet", "path": given}
    files = sorted(str(Path(given, file.name)) for file in Path(given).iterdir() if file.name.endswith(ending))
    named = [file for file in files if split_named_by(file) is not None]
    if len(named) > 1 and "train" in map(split_named_by, named):
        return _by_split(splits_of(named))
    return _file(f"{given.rstrip('/')}/*{ending}")


def _one_of(path: str) -> str:
    """The first file of the newest span, if the path has placeholders. Raises DataError if there is none."""
    if not placeholders(path):
        return path
    if (error := placeholder_error(path)) is not None:
        raise RunError(f"{path}: {error}")
    return find_spans(DataConfig.model_validate({"source": {"kind": "tfrecord", "path": path}})).spans[-1].paths[0]


def _as_written(given: dict[str, Any]) -> dict[str, Any]:
    """The settings with the encoding, the comments and the delimiter of a CSV file."""
    if given["kind"] != "csv" or isinstance(given["path"], dict):  # a folder of splits
        return given
    return {**_format_of({**given, "path": _one_of(given["path"])}), "path": given["path"]}


def _format_of(settings: dict[str, Any]) -> dict[str, Any]:
    with open_truncated(resolve(settings["path"])[0]) as stream:
        text = read_fully(stream, READ)
    encoding, comment = _encoding(text), _comment(text)
    settings = settings if encoding is None else {**settings, "encoding": encoding}
    settings = settings if comment is None else {**settings, "comment": comment}
    other = other_delimiter(_SOURCE.validate_python(settings), _columns({**settings, "duplicate_names": "rename"}))
    settings = settings if other is None else {**settings, "delimiter": other}
    try:
        _columns(settings)
    except DataError:
        settings = {**settings, "duplicate_names": "rename"}
        _columns(settings)
    return settings


def _columns(settings: Mapping[str, Any]) -> list[str]:
    return open_source(_SOURCE.validate_python(settings)).columns()


def _comment(text: bytes) -> str | None:
    """The character that the first lines start with, if the first of them has not the fields of a header."""
    lines = [line.decode("latin-1") for line in text.removeprefix(codecs.BOM_UTF8).splitlines() if line.strip()]
    if not lines or lines[0][0] not in COMMENTS:
        return None
    mark = lines[0][0]
    rest = next((line for line in lines if line[0] != mark), "")
    is_header = [lines[0].count(delimiter) for delimiter in DELIMITERS] == [*map(rest.count, DELIMITERS)]
    return None if not rest or is_header else mark


def _encoding(text: bytes) -> str | None:
    """The encoding of a text that is not UTF-8: that of Western Europe."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return "cp1252" if _decodes(text, "cp1252") else "latin-1"
    return None


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        return bool(text.decode(encoding))
    except UnicodeDecodeError:
        return False


def number_marks(settings: Mapping[str, Any], texts: Iterable[pa.ChunkedArray]) -> dict[str, str]:
    """`decimal` and `thousands` of a CSV file, if with them most of its columns of texts are numbers.

    A comma before three digits is taken for that of a fraction if the delimiter is a semicolon.
    """
    if settings["kind"] != "csv":
        return {}
    delimiter = getattr(_SOURCE.validate_python({**settings}), "delimiter", ",")
    points = [{"thousands": mark} for mark in MARKS if mark != "."]
    commas = [{"decimal": ","}, *({"decimal": ",", "thousands": mark} for mark in MARKS if mark != ",")]
    options = points if delimiter == "," else [*points, *commas] if delimiter != ";" else [*commas, *points]
    columns = [column.unique() for column in texts]
    fitting = [sum(_are_numbers(column, **option) for column in columns) for option in options]
    return options[fitting.index(max(fitting))] if any(fitting) else {}


def _are_numbers(texts: pa.Array, decimal: str = ".", thousands: str | None = None) -> bool:
    """Whether all texts are numbers, and some of them have a mark."""
    groups = rf"|[1-9]\d{{0,2}}({re.escape(thousands)}\d{{3}})+" if thousands else ""
    pattern = rf"^-?(\d+{groups})({re.escape(decimal)}\d+)?$"
    marked = pc.any(pc.match_substring_regex(texts, "[^-0-9]")).as_py()
    return bool(marked and pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _valid(settings: dict[str, Any]) -> dict[str, Any]:
    try:
        _SOURCE.validate_python(settings)
    except ValidationError as error:
        raise RunError(f"the data cannot be read: {error.errors(include_url=False)[0]['msg']}") from None
    return settings
