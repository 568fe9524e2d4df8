"""Arrow IPC streams as the `datasets` library of Hugging Face writes them, and the folders that they are in.

trips/                        of `Dataset.save_to_disk`
    state.json                names the files of the dataset; others, such as `cache-*.arrow`, are not part of it
    data-00000-of-00002.arrow
trips/                        of `DatasetDict.save_to_disk`
    dataset_dict.json         {"splits": ["train", "test"]}
    train/  test/             a dataset each

The schema of a stream says under `huggingface` which columns are classes, and with which names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import arrow_file, is_folder, is_remote, open_file
from headrace.components.sources.arrow_files import arrow_errors, has_files

STATE, DICT = "state.json", "dataset_dict.json"
ENDING = ".arrow"
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end of a stream. Without it, rows may be missing."""
FILE_MAGIC = b"ARROW1"
"""The start of Arrow's other format, which is not a stream."""


def folder_pattern(path: str) -> str:
    """The path, or if it names folders, the pattern of the files in them. Raises DataError for a folder of splits."""
    if path.endswith(ENDING):
        return path
    folder = path.rstrip("/")
    splits = splits_of_folder(folder) if is_folder(folder) else []
    if splits:
        own = ", ".join(f"{split}: {folder}/{split}" for split in splits)
        what = f"is a DatasetDict with the splits {', '.join(splits)}"
        raise DataError(what, file=path, hint=f"Name the folder of each: `path: {{{own}}}`")
    return f"{folder}/data*{ENDING}"  # `data-00000-of-00001.arrow`, of old versions `dataset.arrow`


def splits_of_folder(folder: str) -> list[str]:
    """The splits of the DatasetDict in a folder; none if it is another folder."""
    return [*map(str, _content(f"{folder}/{DICT}").get("splits") or ())]


def is_dataset(folder: str) -> bool:
    """Whether a folder holds a dataset that `save_to_disk` wrote, with or without splits."""
    return has_files(f"{folder}/{DICT}") or (has_files(f"{folder}/{STATE}") and has_files(f"{folder}/data*{ENDING}"))


def listed(files: Sequence[str]) -> list[str]:
    """The files that belong to the datasets of their folders, sorted; those of a folder without a list all belong."""
    folders: dict[str, list[str]] = {}
    for file in sorted(files):
        folders.setdefault(file.rpartition("/")[0], []).append(file)
    found = list[str]()
    for folder, own in folders.items():
        names = _listed_in(folder)
        found += own if names is None else [file for file in own if file in names]
    if not found:
        raise DataError(f"is not a file that {STATE} beside it lists", file=sorted(files)[0])
    return found


def check_complete(files: Sequence[str]) -> None:
    """Raise DataError if a file that the list in its folder names is missing."""
    for folder in dict.fromkeys(file.rpartition("/")[0] for file in files):
        for path in _listed_in(folder) or ():
            if path not in files and not has_files(path):
                what = f"lists {path.removeprefix(f'{folder}/')}, which is not there"
                hint = "Copy the whole folder, or write it again with `save_to_disk`"
                raise DataError(what, file=f"{folder}/{STATE}", hint=hint)


def _listed_in(folder: str) -> list[str] | None:
    """The files of the dataset in a folder; None if no list is there. Raises DataError if they are not its rows."""
    file = f"{folder}/{STATE}"
    state = _content(file)
    if state.get("_indices_data_files"):
        what = "lists a file of indices, which says what rows of the others count; `datasets` once wrote such files"
        raise DataError(what, file=file, hint="Write only those rows: `load_from_disk(...).save_to_disk(...)`")
    entries = state.get("_data_files")
    try:
        return None if entries is None else [f"{folder}/{entry['filename']}" for entry in entries]
    except (TypeError, KeyError):
        raise DataError("does not list files as `save_to_disk` does", file=file) from None


@contextmanager
def opened(path: str) -> Iterator[pa.ipc.RecordBatchStreamReader]:
    """The reader of a file, mapped into memory if it is local. Errors inside the block are DataErrors that name it."""
    from pyarrow import ipc

    _check_marks(path)
    with (
        arrow_errors(path, "is a damaged Arrow stream"),
        arrow_file(path) if is_remote(path) else pa.memory_map(path) as file,
    ):
        yield ipc.open_stream(file, options=ipc.IpcReadOptions(use_threads=False))


def batches_of(path: str, start: int = 0, stop: int | None = None) -> Iterator[pa.RecordBatch]:
    """Its record batches with these numbers. Those before them are passed over without being read."""
    with opened(path) as reader:
        yield from islice(reader, start, stop)


def features_of(schema: pa.Schema) -> Mapping[str, Any]:
    """What `datasets` says of each column; empty if it did not write the file."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def class_names(feature: Any) -> tuple[str, ...]:
    """The names of a feature of classes, or of a list of them; none of any other."""
    while isinstance(feature, list) or (isinstance(feature, dict) and isinstance(feature.get("feature"), dict)):
        feature = (feature or [None])[0] if isinstance(feature, list) else feature["feature"]
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return ()
    return tuple(map(str, feature.get("names") or ()))


def is_image(feature: Any, arrow: pa.DataType) -> bool:
    """Whether a column holds images, each a file with its path."""
    is_struct = pa.types.is_struct(arrow) and arrow.get_field_index("bytes") >= 0
    return is_struct and isinstance(feature, dict) and feature.get("_type") == "Image"


def _check_marks(path: str) -> None:
    with open_file(path) as stream:
        start = stream.read(len(FILE_MAGIC))
        size = stream.seek(0, 2)
        stream.seek(max(size - len(END), 0))
        end = stream.read(len(END))
    if not size:
        raise DataError("the file is empty", file=path)
    if start == FILE_MAGIC:
        hint = "Write it with `pyarrow.ipc.new_stream` or as Parquet, which `kind: parquet` reads"
        raise DataError("is an Arrow file with random access, and `datasets` writes streams", file=path, hint=hint)
    if start[:4] != END[:4]:
        raise DataError(f"is not an Arrow stream: it starts with {start!r}", file=path)
    if end != END:
        raise DataError("is truncated: it starts like an Arrow stream, but does not end like one", file=path)


def _content(path: str) -> dict[str, Any]:
    """A JSON object; empty if there is no such file."""
    if not has_files(path):
        return {}
    with open_file(path) as stream:
        text = stream.read()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError("is not a JSON object, as `save_to_disk` writes it", file=path)
    return found
