"""Which images there are, and what is known of each: the folder it is in, or its row in an index."""

from __future__ import annotations

import glob
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.components.example_gen.paths import PACKAGE, inside_package, is_remote, resolve
from headrace.components.example_gen.sources.base import Source, Survey, in_place
from headrace.components.example_gen.storage import is_folder
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError
from headrace.configs.sources import CsvSource, ImagesSource, ParquetSource

LABEL = "label"
IGNORED = {"Thumbs.db", "ehthumbs.db", "desktop.ini", "__MACOSX"}
"""Files and folders that desktops leave behind; those that start with a dot are ignored too."""


@dataclass(frozen=True)
class Listing:
    """Some images. `paths`: None where there is no path; `known`: the other columns, texts where `texts`, with a row
    for each path; `kinds`: what their values fit in.
    """

    paths: tuple[str | None, ...]
    known: pa.RecordBatch
    kinds: dict[str, Kind]

    def take(self, start: int, stop: int) -> Listing:
        """Some of them in a row, without holding on to the others."""
        places = pa.array(range(start, stop), pa.int64())
        return Listing(self.paths[start:stop], self.known.take(places), self.kinds)


def list_images(source: ImagesSource, files: Collection[str] | None = None) -> Listing:
    """All the images, or those of a folder that are in `files`, in the order of their paths or of the index."""
    return _of_folder(source, files) if source.index is None else _of_index(source)


def index_files(source: ImagesSource) -> list[str]:
    """The files of the index."""
    return [] if source.index is None else resolve(source.index)


def index_columns(source: ImagesSource) -> list[str]:
    """The names of the index's columns but that of the images' paths. Raises DataError if that is missing."""
    names = _index(source)[0].columns()
    if source.index_column not in names:
        raise DataError(
            f"`data.source.index_column` is {source.index_column!r}, which is no column",
            file=str(source.index),
            hint=f"The columns are {', '.join(names)}",
        )
    return [name for name in names if name != source.index_column]


def name_of(source: ImagesSource) -> str:
    """What the images are called together."""
    return str(source.index if source.index is not None else source.path)


def _of_folder(source: ImagesSource, files: Collection[str] | None) -> Listing:
    root = _folder(source.path or "")
    if not is_folder(root):
        raise DataError("is no folder", file=source.path, hint="`data.source.path` names the folder of the classes")
    found = resolve(f"{glob.escape(root)}/**/*")
    named = [(path, path.removeprefix(f"{root}/").split("/")) for path in found]
    images = [
        (path, inside) for path, inside in named if not IGNORED & set(inside) and (files is None or path in files)
    ]
    if not images:
        raise DataError("there are no images in it", file=source.path)
    labels = pa.array([inside[0] if len(inside) > 1 else None for _, inside in images], pa.string())
    known = pa.RecordBatch.from_arrays([labels], names=[LABEL])
    return Listing(tuple(path for path, _ in images), known, {LABEL: "string"})


def _of_index(source: ImagesSource) -> Listing:
    """CSV is read as texts, so that whatever type is declared finds them as they were written."""
    index, texts = _index(source)
    others = index_columns(source)
    parts = index.parts(in_place)
    kinds = sum((index.survey(part, {}) for part in parts), Survey()).kinds
    read: dict[str, Kind] = {name: "string" if texts else kind for name, kind in kinds.items()}
    read[source.index_column] = "string"
    batches = [batch for part in parts for batch in index.batches(part, read) if batch.num_rows]
    if not batches:
        raise DataError("the index has no rows", file=name_of(source))
    table = pa.Table.from_batches(batches).combine_chunks()
    base = _folder(source.path if source.path is not None else index_files(source)[0].rpartition("/")[0])
    paths = table.column(source.index_column).to_pylist()
    arrays = [table.column(name).chunk(0) for name in others]
    known = pa.RecordBatch.from_arrays(arrays, names=others)
    return Listing(tuple(_below(base, path) for path in paths), known, {name: kinds[name] for name in others})


def _index(source: ImagesSource) -> tuple[Source, bool]:
    """The index, and whether it is text."""
    from headrace.components.example_gen.sources import open_source

    files = index_files(source)
    parquet = [path.endswith(".parquet") for path in files]
    if any(parquet) != all(parquet):
        raise DataError("an index is of CSV or of Parquet files, not of both", file=files[parquet.index(True)])
    if all(parquet):
        return open_source(ParquetSource(kind="parquet", path=tuple(files)), files), False
    return open_source(CsvSource(kind="csv", path=tuple(files)), files), True


def _folder(path: str) -> str:
    """As the paths of files in it start."""
    if is_remote(path):
        return path.replace("minio://", "s3://", 1).rstrip("/")
    return inside_package(path).rstrip("/") if path.startswith(PACKAGE) else str(Path(path).expanduser().absolute())


def _below(base: str, path: str | None) -> str | None:
    if path is None or is_remote(path) or path.startswith("/"):
        return path
    return f"{base}/{path}" if is_remote(base) else str(Path(base) / path)
