"""The source that a path, folder, URL or database names, as `data.source`.

given_source("trips.csv")                          # {"kind": "csv", "path": "trips.csv"}
given_source("train.csv", others=["test.csv"])     # {"kind": "csv", "path": {"train": "train.csv", "test": "test.csv"}}
given_source("trips/{YYYY}-{MM}-{DD}.csv")         # the format is that of the newest day's file
given_source("sqlite:///shop.db", table="orders")  # {"kind": "sql", "url": ..., "table": "orders"}
given_source("photos")                             # {"kind": "images", "path": "photos"}, if its folders are classes
given_source("my_module.rows")                     # {"kind": "python", "function": "my_module.rows"}
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.common.errors import RunError
from headrace.common.names import join_names, plain_letters
from headrace.common.storage.paths import is_remote
from headrace.components.sources.datasets.streams import is_dataset, splits_of_folder
from headrace.components.sources.jsonl.array import kind_of_json
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig, placeholder_error, placeholders
from headrace.configs.schema.sources.endings import JSON, kind_of_ending, known_ending, known_endings, source_from
from headrace.pipeline.code.modules import find, why_not_importable
from headrace.pipeline.init.csv_format import format_of
from headrace.pipeline.init.splits import split_named_by, splits_of, without_split

logger = logging.getLogger(__name__)

DATABASES = (".db", ".sqlite", ".sqlite3")
IMAGES = (".jpg", ".jpeg", ".png")
TEXTS = (".txt",)
NEXT_WORD = "; texts without a class can be learned for their next word (docs/model_kinds.md#the-next-word)"
FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
"""The dotted path of a function."""
FILES = ("pkg",)
"""Schemes of paths, besides those of object stores."""


def given_source(
    given: str, table: str | None = None, others: Sequence[str] = (), query: str | None = None
) -> dict[str, Any]:
    """The settings of the source. Raises RunError if it is not clear what kind it is, and DataError if it cannot be
    read.

    Args:
        given: a path, folder or URL.
        table: the table of a database.
        others: the paths of other splits; the names of all say which they are.
        query: a SELECT in place of the table.
    """
    if others:
        return _by_split(splits_of([given, *others]))
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+]*)://", given)
    if scheme and not is_remote(given) and scheme[1] not in FILES:
        if (table is None) == (query is None):
            what = "name the table with --table, such as --table orders, or give --query"
            raise RunError(f"{given} is a database; {what}{', not both' if table else ''}")
        return _valid({"kind": "sql", "url": given, **({"table": table} if table else {"query": query})})
    if table is not None or query is not None:
        option = "--query" if table is None else "--table"
        raise RunError(f"{option} is for databases, such as sqlite:///shop.db, and {given} is a path")
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
    """A name for the pipeline: that of the file without wildcards, of the table or database, or of the module."""
    if "query" in source:
        return _plain(_stem(source["url"].rpartition("/")[2]))
    if "function" in source:
        return _plain(source["function"].rpartition(".")[0])
    path = source.get("table") or source["path"]
    if isinstance(path, dict):
        first = path["train"] if isinstance(path["train"], str) else path["train"][0]
        path = without_split(first if is_remote(first) else str(Path(first).absolute()))
    return _plain(next((name for part in reversed(path.rstrip("/").split("/")) if (name := _telling(part))), "data"))


def _telling(part: str) -> str:
    """The name of a file or folder, if it says what the data is: a single letter or digit does if it is not the rest of
    a pattern, such as that of `v{VERSION}`.
    """
    name = plain_letters(_stem(part))
    least = 2 if re.search(r"[{}*?\[\]]", part) else 1
    return name if re.search(f"[A-Za-z0-9]{{{least}}}", name) else ""


def _plain(name: str) -> str:
    """The name in lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", plain_letters(name).lower()).strip("-")[:63].strip("-") or "data"


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
        return {"kind": kind_of_json(_one_of(given)) if ending == JSON else kind_of_ending(ending), "path": given}
    name = given.rstrip("/")
    if is_remote(given) and not Path(name).suffix:
        return {"kind": "parquet", "path": given}
    if given.endswith(".py"):
        how = f"its generator function, such as {Path(given).stem}.rows"
        raise RunError(f"{given} is a Python file; name {how}, from the folder that the file is in")
    if FUNCTION.fullmatch(given) and find(given.rpartition(".")[0]) is not None:
        if (why := why_not_importable(given)) is not None:
            raise RunError(why)
        return {"kind": "python", "function": given}
    if ":" in given and FUNCTION.fullmatch(dotted := given.replace(":", ".")):
        raise RunError(f"{given} is not a file; write the path of a Python function with dots: {dotted}")
    if name.endswith(DATABASES):
        raise RunError(f"{given} looks like a database; write it as sqlite:///{given}, with --table")
    raise RunError(f"{given}: the ending is not that of a known kind of data: {known_endings()}")


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
    if not found and (classes := _in_class_folders(given)) is not None:
        return classes
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


def _in_class_folders(given: str) -> dict[str, Any] | None:
    """Images or texts in a folder for each class, or for each split with folders for its classes; None for a folder
    without any. Raises RunError for images, and for texts alone, that are in no folder of a class.
    """
    endings = Counter(file.suffix.lower() for file in Path(given).rglob("*") if file.is_file())
    kind = "images" if any(map(endings.get, IMAGES)) else "text"
    own = IMAGES if kind == "images" else TEXTS
    if not any(map(endings.get, own)):
        return None
    loose = sorted(file.name for file in Path(given).iterdir() if file.suffix.lower() in own)
    if loose and kind == "text" and len(loose) < sum(map(endings.__getitem__, own)):
        logger.warning("note: %s: left out %s, beside the class folders", given, join_names(loose, 8))
    elif loose:
        hint = NEXT_WORD if kind == "text" else " (docs/images.md)"
        raise RunError(f"{given} contains {loose[0]}, which is in no folder that is named after its class{hint}")
    folders = sorted(str(each) for each in Path(given).iterdir() if each.is_dir() and not each.name.startswith("."))
    splits = [split_named_by(folder) for folder in folders]
    path: Any = splits_of(folders) if "train" in splits and None not in splits else given.rstrip("/")
    if kind == "images":
        return {"kind": "images", "path": path}
    (ending,) = TEXTS
    files = f"/*/*{ending}"
    path = path + files if isinstance(path, str) else {split: f"{folder}{files}" for split, folder in path.items()}
    return {"kind": "text", "path": path, "unit": "file", "labels": "folders"}


def _one_of(path: str) -> str:
    """The first file of the newest span, if the path has placeholders. Raises DataError if there is none."""
    if not placeholders(path):
        return path
    if (error := placeholder_error(path)) is not None:
        raise RunError(f"{path}: {error}")
    return find_spans(DataConfig.model_validate({"source": {"kind": "tfrecord", "path": path}})).spans[-1].paths[0]


def _as_written(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with the format of a CSV file, except of a folder of splits, in the format of train."""
    if settings["kind"] != "csv" or isinstance(settings["path"], dict):
        return settings
    return {**format_of({**settings, "path": _one_of(settings["path"])}), "path": settings["path"]}


def _valid(settings: dict[str, Any]) -> dict[str, Any]:
    source_from(settings)
    return settings
