"""The list of images with their known columns: the name of the class folder, or a row of an index."""

from __future__ import annotations

import glob
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import is_folder, open_file
from headrace.common.storage.paths import PACKAGE, inside_package, is_remote, resolve
from headrace.components.sources.base import ReadOptions, ScanResult, Source, serial_map, undivided
from headrace.components.sources.csv.source import CsvFiles
from headrace.components.sources.images.image import JPEG, PNG
from headrace.components.sources.parquet.source import ParquetFiles
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import CsvSource, ImagesSource, ParquetSource

LABEL, FILE = "label", "file"
IGNORED = {"Thumbs.db", "ehthumbs.db", "desktop.ini", "__MACOSX"}
"""Files and folders that desktops leave behind. Hidden ones are ignored too."""


@dataclass(frozen=True)
class Listing:
    """Some images.

    paths: None for an index row without a path; known: the other columns, with a row for each path; kinds: the kinds of
    these columns, to which their values can be cast.
    """

    paths: tuple[str | None, ...]
    known: pa.RecordBatch
    kinds: dict[str, Kind]

    def every(self, step: int, *, labelled: bool = False) -> Listing:
        """One image in `step`. labelled: of those whose first known column has a value."""
        chosen = [*range(len(self.paths))]
        if labelled:
            valid = self.known.column(0).is_valid().to_pylist()
            chosen = [number for number in chosen if valid[number]]
        indices = chosen[::step]
        paths = tuple(self.paths[number] for number in indices)
        return Listing(paths, self.known.take(pa.array(indices, pa.int64())), self.kinds)

    def take(self, start: int, stop: int) -> Listing:
        """The images from `start` to `stop`, copied so that the others can be freed."""
        indices = pa.array(range(start, stop), pa.int64())
        return Listing(self.paths[start:stop], self.known.take(indices), self.kinds)


def list_images(source: ImagesSource, files: Collection[str] | None = None) -> Listing:
    """All images, in the order of their paths or of the index. Of a folder, only those in `files`; None: all."""
    return _list_folder(source, files) if source.index is None else _list_index(source)


def index_files(source: ImagesSource) -> list[str]:
    return [] if source.index is None else resolve(source.index)


def index_columns(source: ImagesSource) -> list[str]:
    """The names of the columns of the index, except the images' paths. Raises DataError if that column is missing."""
    names = _open_index(source)[0].columns()
    if source.index_column not in names:
        raise DataError(
            f"`{source.section}.index_column` is {source.index_column!r}, which is not a column",
            file=str(source.index),
            hint=f"The columns are {', '.join(names)}",
        )
    return [name for name in names if name != source.index_column]


def name_of(source: ImagesSource) -> str:
    """The name of the whole data set in messages."""
    return str(source.index if source.index is not None else source.path)


def others(source: ImagesSource) -> list[str]:
    """The columns that do not come from the images themselves."""
    if source.index is not None:
        return index_columns(source)
    return [LABEL if source.labels == "folders" else FILE]


def empty_folders(source: ImagesSource, listing: Listing) -> list[str]:
    """The names of class folders without a file, as far as they are on this machine."""
    root = _folder(undivided(source.path) or "")
    if source.index is not None or source.labels != "folders" or is_remote(root):
        return []
    found = {*listing.known.column(0).to_pylist()}
    folders = (entry.name for entry in Path(root).iterdir() if entry.is_dir())
    return sorted(name for name in folders if name not in {*found, *IGNORED} and not name.startswith("."))


def has_images(folder: str) -> bool:
    """Whether there are images in a folder itself, and not only in folders in it."""
    return any(_is_image(path) for path in files_in(folder) if path.rpartition("/")[2] not in IGNORED)


def files_in(folder: str) -> list[str]:
    """The files in a folder itself; none if it is not a folder."""
    root = _folder(folder)
    try:
        return resolve(f"{glob.escape(root)}/*") if is_folder(root) else []
    except DataError:  # only folders, or something that reading will name
        return []


def _is_image(path: str) -> bool:
    with open_file(path) as stream:
        return stream.read(len(PNG)).startswith((JPEG, PNG))


def _list_folder(source: ImagesSource, files: Collection[str] | None) -> Listing:
    path = undivided(source.path) or ""
    root = _folder(path)
    if not is_folder(root):
        hint = f"`{source.section}.path` must be the folder of the class folders"
        raise DataError("is not a folder", file=path, hint=hint)
    found = resolve(f"{glob.escape(root)}/**/*")
    named = [(path, path.removeprefix(f"{root}/").split("/")) for path in found]
    images = [
        (path, inside) for path, inside in named if not IGNORED & set(inside) and (files is None or path in files)
    ]
    if not images:
        raise DataError("the folder contains no images", file=path)
    labels = [inside[0] if len(inside) > 1 else None for _, inside in images]
    name, values = (LABEL, labels) if source.labels == "folders" else (FILE, ["/".join(inside) for _, inside in images])
    known = pa.RecordBatch.from_arrays([pa.array(values, pa.string())], names=[name])
    return Listing(tuple(path for path, _ in images), known, {name: "string"})


def _list_index(source: ImagesSource) -> Listing:
    """CSV is read as strings, so that a declared type is cast from the original text."""
    index, is_text = _open_index(source)
    others = index_columns(source)
    parts = index.parts(serial_map)
    kinds = sum((index.scan(part, {}) for part in parts), ScanResult()).kinds
    read: dict[str, Kind] = {name: "string" if is_text else kind for name, kind in kinds.items()}
    read[source.index_column] = "string"
    batches = [batch for part in parts for batch in index.batches(part, read) if batch.num_rows]
    if not batches:
        raise DataError("the index has no rows", file=name_of(source))
    table = pa.Table.from_batches(batches).combine_chunks()
    path = undivided(source.path)
    base = _folder(path if path is not None else index_files(source)[0].rpartition("/")[0])
    paths = table.column(source.index_column).to_pylist()
    arrays = [table.column(name).chunk(0) for name in others]
    known = pa.RecordBatch.from_arrays(arrays, names=others)
    return Listing(tuple(_resolved(base, path) for path in paths), known, {name: kinds[name] for name in others})


def _open_index(source: ImagesSource) -> tuple[Source, bool]:
    """The index, and whether it is CSV."""
    files = index_files(source)
    parquet = [path.endswith(".parquet") for path in files]
    if any(parquet) != all(parquet):
        raise DataError("an index consists of CSV or of Parquet files, not both", file=files[parquet.index(True)])
    if all(parquet):
        return ParquetFiles.open(ParquetSource(kind="parquet", path=tuple(files)), files, ReadOptions()), False
    return CsvFiles.open(CsvSource(kind="csv", path=tuple(files)), files, ReadOptions()), True


def _folder(path: str) -> str:
    """The path of a folder in the form in which the paths of its files start."""
    if is_remote(path):
        return path.replace("minio://", "s3://", 1).rstrip("/")
    return inside_package(path).rstrip("/") if path.startswith(PACKAGE) else str(Path(path).expanduser().absolute())


def _resolved(base: str, path: str | None) -> str | None:
    if path is None or is_remote(path) or path.startswith("/"):
        return path
    return f"{base}/{path}" if is_remote(base) else str(Path(base) / path)
