"""Prepared datasets as a source. Nothing is downloaded, and images stay encoded as they are on disk."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import DataError, UnreadableColumnError
from headrace.components.examples.parts import grouped, part_length
from headrace.components.examples.skips import Skipped, Skips
from headrace.components.sources.base import (
    HEAD_BYTES,
    HEAD_FILES,
    HEAD_ROWS,
    Head,
    ParallelMap,
    ReadOptions,
    ScanResult,
    first_pieces,
    serial_map,
    undivided,
)
from headrace.components.sources.conversion import BadRows, batch_rows, convert_columns, row_errors, slice_batch
from headrace.components.sources.stored_types import WITHOUT_COLUMN, beyond_int64, text_kind
from headrace.components.sources.tfds.prepared import (
    FEATURES,
    INFO,
    feature_names,
    find_dataset,
    record_files,
)
from headrace.components.sources.tfrecord.frames import frames
from headrace.components.sources.types import Kind, listed
from headrace.configs.schema.sources import TfdsSource

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredFeature:
    """How a feature is stored. unsigned: whether its values are uint64, stored as int64 with the same bits."""

    kind: Kind
    unsigned: bool


@dataclass(frozen=True)
class RecordRange:
    """Records of one file: `take` records after the first `skip`. `size`: an estimate of their bytes."""

    path: str
    file_format: str
    skip: int
    take: int
    size: int


@dataclass(frozen=True)
class TfdsPart:
    """Ranges of records, and how the features to read are stored in them."""

    pieces: tuple[RecordRange, ...]
    features: Mapping[str, StoredFeature]


@dataclass(frozen=True)
class TfdsExamples:
    """The prepared dataset in the folder of one version."""

    source: TfdsSource
    folder: Path
    options: ReadOptions = field(default_factory=ReadOptions)

    @classmethod
    def open(cls, source: TfdsSource, files: Sequence[str] | None, options: ReadOptions) -> TfdsExamples:
        """Find the dataset, unless its files are given."""
        if importlib.util.find_spec("tensorflow_datasets") is None:
            raise DataError(
                "`kind: tfds` needs TensorFlow Datasets, which is not installed",
                hint='Install it: pip install "headrace[tfds]"',
            )
        given = next((Path(path).parent for path in files or () if Path(path).name == INFO), None)
        return cls(source, given or find_dataset(source), options)

    @classmethod
    def find(cls, source: TfdsSource) -> list[str]:
        """The files of the newest version that matches: its description and its records."""
        folder = find_dataset(source)
        return [str(folder / INFO), str(folder / FEATURES), *map(str, record_files(folder, undivided(source.slices)))]

    @staticmethod
    def check_splits(parts: Mapping[str, Sequence[TfdsPart]]) -> None:
        """Raise DataError if slices of two splits overlap."""
        _check_disjoint([piece for own in parts.values() for part in own for piece in part.pieces])

    def columns(self) -> list[str]:
        """The names of the features."""
        return self.options.select(feature_names(self.folder))

    def parts(self, parallel_map: ParallelMap) -> list[TfdsPart]:
        """The files of the splits, or the ranges of them that the slices select."""
        builder = _builder(self.folder)
        dataset = f"{self.source.name.partition(':')[0]} {self.folder.name}"
        logger.info(f"TensorFlow Datasets: {dataset}, in {self.folder}")
        features = {name: _stored(name, builder.info.features[name], str(self.folder)) for name in self.columns()}
        pieces = [piece for name in self.source.slices or builder.info.splits for piece in self._pieces(builder, name)]
        _check_disjoint(pieces, self.source.section)
        sizes = [piece.size for piece in pieces]
        return [TfdsPart(group, features) for group in grouped(pieces, sizes, part_length(sum(sizes)))]

    def head(self) -> Head:
        """The first records of some files; of more, without uint64, whose kind depends on all values."""
        parts = self.parts(serial_map)
        pieces = [piece for part in parts for piece in part.pieces]
        cut = [_first(piece) for piece in pieces[:HEAD_FILES]]
        chosen, _ = first_pieces((piece, piece.take, piece.size) for piece in cut)
        if whole := chosen == pieces:
            return Head(self, TfdsPart(tuple(chosen), parts[0].features), whole=whole, settled=True)
        features = {name: feature for name, feature in parts[0].features.items() if not feature.unsigned}
        source = replace(self, options=replace(self.options, columns=tuple(features)))
        return Head(source, TfdsPart(tuple(chosen), features), whole=whole, settled=True)

    def scan(self, part: TfdsPart, declared: Mapping[str, Kind]) -> ScanResult:
        """Use the metadata of the dataset; read values only of uint64 features, and to find rows to skip."""
        kinds = {name: feature.kind for name, feature in part.features.items()} | self._unsigned_kinds(part)
        result = ScanResult(kinds=kinds)
        for piece in part.pieces:
            skipped = _skipped(piece, part.features, {**kinds, **declared}) if self.options.skip_bad else Skipped()
            result += ScanResult({piece.path: piece.take - skipped.count}, piece.size, {}, skipped)
        return result

    def batches(self, part: TfdsPart, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The records of each file in their order."""
        for piece in part.pieces:
            for batch, start, bad in _read(piece, part.features, kinds):
                if bad and not self.options.skip_bad:
                    raise next(_errors(bad, piece, start))()
                yield from slice_batch(batch)

    def _pieces(self, builder: Any, name: str) -> list[RecordRange]:
        splits = builder.info.splits
        try:
            instructions = list(splits[name].file_instructions)
        except (ValueError, KeyError) as error:
            listing = ", ".join(f"{split} ({splits[split].num_examples} examples)" for split in splits)
            raise DataError(
                f"`{self.source.section}.slices`: {name!r} is not a slice of this dataset: {error}",
                file=str(self.folder),
                hint=f"Its splits are {listing}",
            ) from None
        if not instructions or any(each.take == 0 or each.take < -1 for each in instructions):
            what = f"`{self.source.section}.slices`: there are no examples in {name!r}"
            raise DataError(what, file=str(self.folder))
        known = [split for split in splits.values() if split.num_examples]
        bytes_each = max(
            1, sum(split.num_bytes for split in known) // max(1, sum(split.num_examples for split in known))
        )
        takes = [each.examples_in_shard - each.skip if each.take == -1 else each.take for each in instructions]
        return [
            RecordRange(str(each.filename), builder.info.file_format.value, each.skip, take, take * bytes_each)
            for each, take in zip(instructions, takes, strict=True)
        ]

    def _unsigned_kinds(self, part: TfdsPart) -> dict[str, Kind]:
        """The kinds of the uint64 features, which depend on their values."""
        unsigned = {name: feature for name, feature in part.features.items() if feature.unsigned}
        wide = dict.fromkeys(unsigned, False)
        for piece in part.pieces if unsigned else ():
            for _, columns in _stored_columns(piece, unsigned):
                typed = {name: column for name, column in columns.items() if column.type != pa.null()}
                wide |= {name: wide[name] or beyond_int64(column) for name, column in typed.items()}
        return {name: text_kind(unsigned[name].kind) if wide[name] else unsigned[name].kind for name in wide}


def _first(piece: RecordRange) -> RecordRange:
    """The first records of a range, as many as are looked at before a run."""
    each = max(piece.size // piece.take, 1)
    take = min(piece.take, HEAD_ROWS, max(HEAD_BYTES // each, 1))
    return piece if take == piece.take else replace(piece, take=take, size=take * each)


def _builder(folder: Path) -> Any:
    import tensorflow_datasets as tfds

    try:
        return tfds.builder_from_directory(folder)
    except Exception as error:
        raise DataError(f"cannot be read as a prepared dataset: {error}", file=str(folder)) from error


def _check_disjoint(pieces: Sequence[RecordRange], section: str = "data.source") -> None:
    """Raise DataError if slices overlap, because records would be read twice."""
    taken: dict[str, list[tuple[int, int]]] = {}
    for piece in pieces:
        start, end = piece.skip, piece.skip + piece.take
        if any(start < other_end and other < end for other, other_end in taken.get(piece.path, [])):
            raise DataError(f"two of the slices in `{section}.slices` overlap here", file=piece.path)
        taken.setdefault(piece.path, []).append((start, end))


def _skipped(piece: RecordRange, features: Mapping[str, StoredFeature], kinds: Mapping[str, Kind]) -> Skipped:
    skips = Skips()
    for _, start, bad in _read(piece, features, kinds):
        for error in _errors(bad, piece, start):
            skips.add(error)
    return skips.skipped


def _errors(bad: BadRows, piece: RecordRange, start: int) -> Iterator[Callable[[], DataError]]:
    return row_errors(bad, piece.path, lambda row: f"record {start + row} (counted from 0)")


def _read(
    piece: RecordRange, features: Mapping[str, StoredFeature], kinds: Mapping[str, Kind]
) -> Iterator[tuple[pa.RecordBatch, int, BadRows]]:
    """Yield each batch, the number of its first record in the file, and its bad rows."""
    for start, columns in _stored_columns(piece, {name: features[name] for name in kinds}):
        batch, bad = convert_columns(columns, kinds, piece.path)
        yield batch, start, bad


def _stored_columns(
    piece: RecordRange, features: Mapping[str, StoredFeature]
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield the number of the first of some records in the file, and their columns as they are stored."""
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    decoder = ExamplesToRecordBatchDecoder()
    start = piece.skip
    for records in _records(piece):
        try:
            batch = decoder.DecodeBatch(records)
        except Exception as error:
            raise DataError(f"contains a record that is not a tf.Example: {error}", file=piece.path) from error
        stored = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield (
            start,
            {name: _column(name, stored.get(name), how, len(batch), piece.path) for name, how in features.items()},
        )
        start += len(records)
    if start != piece.skip + piece.take:
        expected = piece.skip + piece.take
        raise DataError(f"has {start} records, but the dataset's metadata says {expected}", file=piece.path)


def _records(piece: RecordRange) -> Iterator[list[bytes]]:
    if piece.file_format == "tfrecord":  # which takes no TensorFlow
        yield from _framed(piece)
        return
    import tensorflow as tf
    from tensorflow_datasets.core import file_adapters

    adapter = file_adapters.ADAPTER_FOR_FORMAT[file_adapters.FileFormat(piece.file_format)]
    try:
        records = adapter.make_tf_data(piece.path).skip(piece.skip).take(piece.take)
        rows = batch_rows(piece.size, piece.take)
        yield from (batch.tolist() for batch in records.batch(rows).as_numpy_iterator())
    except (tf.errors.OpError, ImportError, OSError) as error:
        raise DataError(f"cannot be read: {error}", file=piece.path) from None


def _framed(piece: RecordRange) -> Iterator[list[bytes]]:
    last = piece.skip + piece.take
    for found in frames(piece.path):
        own = found.filter((found.numbers > piece.skip) & (found.numbers <= last))
        if len(own.numbers):
            yield own.records()
        if found.numbers[-1] >= last:
            return


def _stored(name: str, feature: Any, folder: str) -> StoredFeature:
    """How a feature is stored. Raises DataError for anything but a value or a list of values."""
    import tensorflow_datasets as tfds

    on_disk = feature.get_serialized_info()
    inner = feature.feature if isinstance(feature, tfds.features.Sequence) else feature
    if not isinstance(on_disk, tfds.features.TensorInfo):
        raise _unsupported(name, folder, "is made up of features of its own")
    if len(on_disk.shape) > 1:
        raise _unsupported(
            name, folder, f"has shape {tuple(on_disk.shape)}; a column is a single value or one list of values"
        )
    dtype = np.dtype(on_disk.np_dtype)
    kind: Kind
    if dtype.kind in "biu":
        kind = "int"
    elif dtype.kind == "f" or dtype.name == "bfloat16":
        kind = "float"
    elif isinstance(inner, tfds.features.Image):
        kind = "bytes"
    elif np.dtype(inner.np_dtype).kind in "OSU":
        kind = "string"
    else:
        raise _unsupported(name, folder, f"({type(inner).__name__}) is stored in an encoding of TensorFlow Datasets")
    return StoredFeature(listed(kind) if on_disk.shape else kind, dtype == np.uint64)


def _column(name: str, lists: pa.Array | None, feature: StoredFeature, rows: int, file: str) -> pa.Array:
    """A stored column from the lists of values in serialized examples; `lists`: None if no example has any."""
    is_list = feature.kind.endswith(" list")
    if lists is None or pa.types.is_null(lists.type):
        return pa.array([[]] * rows, pa.list_(pa.null())) if is_list else pa.nulls(rows)
    values = lists.flatten()
    if feature.unsigned:
        values = pa.array(values.to_numpy(zero_copy_only=False).view(np.uint64))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int32)
    if is_list:
        offsets = np.append(np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32))
        return pa.ListArray.from_arrays(pa.array(offsets), values)
    if lengths.max(initial=0) > 1:
        raise DataError("an example has multiple values, but the dataset's metadata says one", file=file, column=name)
    last = np.cumsum(lengths) - 1
    return values.take(pa.array(last, mask=lengths == 0))


def _unsupported(name: str, folder: str, what: str) -> DataError:
    return UnreadableColumnError(what, file=folder, column=name, hint=WITHOUT_COLUMN)
