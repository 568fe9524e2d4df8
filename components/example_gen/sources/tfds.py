"""Datasets that TensorFlow Datasets has prepared. Nothing is downloaded; images stay as they are encoded on disk."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.components.example_gen.columnar.fit import Bad, cut, fit, rows_in_batch
from headrace.components.example_gen.columnar.stored import as_text_kind, beyond_int64
from headrace.components.example_gen.parts import grouped, part_length
from headrace.components.example_gen.prepared.features import Stored, columns, stored
from headrace.components.example_gen.prepared.versions import FEATURES, INFO, feature_names, find_dataset, record_files
from headrace.components.example_gen.sources.base import TOLD, Reading, Skipped, Spread, Survey
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError
from headrace.configs.sources import TfdsSource


@dataclass(frozen=True)
class Piece:
    """Records of one file: `take` of them after the first `skip`; `size`: their bytes, about."""

    path: str
    file_format: str
    skip: int
    take: int
    size: int


@dataclass(frozen=True)
class Part:
    """Pieces, and how the features that are read lie in them."""

    pieces: tuple[Piece, ...]
    features: Mapping[str, Stored]


@dataclass(frozen=True)
class TfdsExamples:
    """The prepared dataset in a folder, which is that of one version."""

    source: TfdsSource
    folder: Path
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: TfdsSource, files: Sequence[str] | None, reading: Reading) -> TfdsExamples:
        """Find the dataset, unless its files are given."""
        if importlib.util.find_spec("tensorflow_datasets") is None:
            raise DataError(
                "`kind: tfds` needs TensorFlow Datasets, which is not installed",
                hint='Install it: pip install "headrace[tfds]"',
            )
        given = next((Path(path).parent for path in files or () if Path(path).name == INFO), None)
        return cls(source, given or find_dataset(source), reading)

    @classmethod
    def find(cls, source: TfdsSource) -> list[str]:
        """The files of the newest version that fits: those that describe it, and the records."""
        folder = find_dataset(source)
        return [str(folder / INFO), str(folder / FEATURES), *map(str, record_files(folder, source.slices))]

    def columns(self) -> list[str]:
        """The names of the features."""
        return self.reading.chosen(feature_names(self.folder))

    def parts(self, spread: Spread) -> list[Part]:  # noqa: ARG002 - nothing to spread
        """The files of the splits, or what slices take of them."""
        builder = _builder(self.folder)
        place = f"{self.source.name.partition(':')[0]} {self.folder.name}"
        print(f"TensorFlow Datasets: {place}, in {self.folder}", flush=True)
        features = {name: stored(name, builder.info.features[name], str(self.folder)) for name in self.columns()}
        pieces = [piece for name in self.source.slices or builder.info.splits for piece in self._pieces(builder, name)]
        _check_apart(pieces)
        sizes = [piece.size for piece in pieces]
        return [Part(own, features) for own in grouped(pieces, sizes, part_length(sum(sizes)))]

    def survey(self, part: Part, declared: Mapping[str, Kind]) -> Survey:
        """From what is known of the dataset; a pass only over uint64, and for rows to leave out."""
        kinds = {name: how.kind for name, how in part.features.items()} | self._looked_up(part)
        skipped = self._skipped(part, {**kinds, **declared}) if self.reading.skip_bad else {}
        found = Survey(kinds=kinds)
        for piece in part.pieces:
            own = skipped.get(piece, Skipped())
            found += Survey({piece.path: piece.take - own.count}, piece.size, {}, own)
        return found

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Each file's records in the order in which they lie there."""
        for piece in part.pieces:
            for batch, start, bad in _read(piece, part.features, kinds):
                if bad and not self.reading.skip_bad:
                    row, (name, what) = next(iter(bad.items()))
                    raise DataError(f"{_place(start + row)} {what}", file=piece.path, column=name)
                yield from cut(batch)

    def _pieces(self, builder: Any, name: str) -> list[Piece]:
        splits = builder.info.splits
        try:
            found = list(splits[name].file_instructions)
        except (ValueError, KeyError) as error:
            told = ", ".join(f"{own} ({splits[own].num_examples} examples)" for own in splits)
            raise DataError(
                f"`data.source.slices`: {name!r} is no slice of this dataset: {error}",
                file=str(self.folder),
                hint=f"Its splits are {told}",
            ) from None
        if not found or any(own.take == 0 or own.take < -1 for own in found):
            raise DataError(f"`data.source.slices`: there are no examples in {name!r}", file=str(self.folder))
        known = [own for own in splits.values() if own.num_examples]
        each = max(1, sum(own.num_bytes for own in known) // max(1, sum(own.num_examples for own in known)))
        takes = [own.examples_in_shard - own.skip if own.take == -1 else own.take for own in found]
        return [
            Piece(str(own.filename), builder.info.file_format.value, own.skip, take, take * each)
            for own, take in zip(found, takes, strict=True)
        ]

    def _looked_up(self, part: Part) -> dict[str, Kind]:
        """The kinds of uint64, which its values decide."""
        unsigned = {name: how for name, how in part.features.items() if how.unsigned}
        wide = dict.fromkeys(unsigned, False)
        for piece in part.pieces if unsigned else ():
            for _, found in _stored_columns(piece, unsigned):
                wide |= {name: wide[name] or beyond_int64(own) for name, own in found.items() if own.type != pa.null()}
        return {name: as_text_kind(unsigned[name].kind) if wide[name] else unsigned[name].kind for name in wide}

    def _skipped(self, part: Part, kinds: Mapping[str, Kind]) -> dict[Piece, Skipped]:
        found: dict[Piece, Skipped] = {}
        for piece in part.pieces:
            for _, start, bad in _read(piece, part.features, kinds):
                told = [
                    str(DataError(f"{_place(start + row)} {what}", file=piece.path, column=name))
                    for row, (name, what) in list(bad.items())[:TOLD]
                ]
                found[piece] = found.get(piece, Skipped()) + Skipped(len(bad), tuple(told))
        return found


def _builder(folder: Path) -> Any:
    import tensorflow_datasets as tfds

    try:
        return tfds.builder_from_directory(folder)
    except Exception as error:
        raise DataError(f"cannot be read as a prepared dataset: {error}", file=str(folder)) from error


def _check_apart(pieces: Sequence[Piece]) -> None:
    """Raise DataError if slices overlap, so that records would be read twice."""
    taken: dict[str, list[tuple[int, int]]] = {}
    for piece in pieces:
        start, end = piece.skip, piece.skip + piece.take
        if any(start < other_end and other < end for other, other_end in taken.get(piece.path, [])):
            raise DataError("`data.source.slices` overlap: some of its records are in two of them", file=piece.path)
        taken.setdefault(piece.path, []).append((start, end))


def _read(
    piece: Piece, features: Mapping[str, Stored], kinds: Mapping[str, Kind]
) -> Iterator[tuple[pa.RecordBatch, int, Bad]]:
    """Batches with the number of their first record, and those that did not fit."""
    for start, found in _stored_columns(piece, {name: features[name] for name in kinds}):
        batch, bad = fit(found, kinds, piece.path)
        yield batch, start, bad


def _stored_columns(piece: Piece, features: Mapping[str, Stored]) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """The number of the first record in the file, and the columns of some of them."""
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    decoder = ExamplesToRecordBatchDecoder()
    start = piece.skip
    for records in _records(piece):
        try:
            batch = decoder.DecodeBatch(records)
        except Exception as error:
            raise DataError(f"holds a record that is no tf.Example: {error}", file=piece.path) from error
        yield start, columns(batch, features, piece.path)
        start += len(records)
    if start != piece.skip + piece.take:
        raise DataError(f"has {start} records; the dataset tells of {piece.skip + piece.take}", file=piece.path)


def _records(piece: Piece) -> Iterator[list[bytes]]:
    import tensorflow as tf
    from tensorflow_datasets.core import file_adapters

    adapter = file_adapters.ADAPTER_FOR_FORMAT[file_adapters.FileFormat(piece.file_format)]
    try:
        found = adapter.make_tf_data(piece.path).skip(piece.skip).take(piece.take)
        rows = rows_in_batch(piece.size, piece.take)
        yield from (batch.tolist() for batch in found.batch(rows).as_numpy_iterator())
    except (tf.errors.OpError, ImportError, OSError) as error:
        raise DataError(f"cannot be read: {error}", file=piece.path) from None


def _place(record: int) -> str:
    return f"record {record} (counted from 0)"
