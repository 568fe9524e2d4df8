"""JPEG and PNG images as a source, labeled by their folders or by an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa

from headrace.common.errors import BadRecordError, DataError
from headrace.common.figures import plural
from headrace.common.storage.files import is_remote, open_file, stats
from headrace.components.examples.parts import grouped, part_length
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import HEAD_ROWS, Head, ParallelMap, ReadOptions, ScanResult
from headrace.components.sources.conversion import cast_declared
from headrace.components.sources.files import note_of_empty
from headrace.components.sources.images.image import BadImageError, ImageHeader, decode_pixels, read_header
from headrace.components.sources.images.listing import (
    Listing,
    empty_folders,
    index_files,
    list_images,
    name_of,
    others,
)
from headrace.components.sources.streams import read_fully
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import ImagesSource

BATCH = 1 << 21
"""Bytes of images in a batch."""

WAY_OUT = "Repair or remove it"
TRIED = 32
"""How many images are opened before a run."""
LARGEST = 1 << 30
"""Bytes of an image. A tf.Example cannot be larger than twice this."""

IMAGE_KINDS: Mapping[str, Kind] = {"image": "bytes", "height": "int", "width": "int", "channel": "int"}
"""The columns that every image has."""


Image = tuple[int, bytes, ImageHeader]
"""The index of an image in its part, the bytes that become the feature, and its header."""


@dataclass(frozen=True)
class ImageFiles:
    """The images of one config."""

    source: ImagesSource
    options: ReadOptions = field(default_factory=ReadOptions)
    files: frozenset[str] | None = None

    @classmethod
    def open(cls, source: ImagesSource, files: Sequence[str] | None, options: ReadOptions) -> ImageFiles:
        """Open nothing yet. Of a folder, only the images in `files` are read."""
        return cls(source, options, None if files is None or source.index is not None else frozenset(files))

    @classmethod
    def find(cls, source: ImagesSource) -> list[str]:
        """The index and all images that exist."""
        paths = {path for path in list_images(source).paths if path is not None and _exists(path)}
        return sorted({*index_files(source), *paths})

    def __getstate__(self) -> dict[str, object]:
        """The state without the listing, as each part has its piece of it."""
        return {"source": self.source, "options": self.options}

    def columns(self) -> list[str]:
        """The columns of the images, then the label, the file or the columns of the index."""
        known = others(self.source)
        repeated = IMAGE_KINDS.keys() & set(known)
        if repeated:
            raise DataError(
                f"the index has a column {min(repeated)!r}, which every image has already",
                file=name_of(self.source),
                hint="Rename the column of the index",
            )
        return self.options.select([*IMAGE_KINDS, *known])

    def parts(self, parallel_map: ParallelMap) -> list[Listing]:
        """The images, grouped by the sizes of their files."""
        self.columns()  # raises DataError for repeated names
        listing = self._listing
        existing = [path for path in listing.paths if path is not None and _exists(path)]
        size_of = {state.path: state.size for state in stats(existing)}
        sizes = [size_of.get(path or "", 0) for path in listing.paths]
        groups = grouped(range(len(sizes)), sizes, part_length(sum(sizes)))
        return [listing.take(group[0], group[-1] + 1) for group in groups]

    def head(self) -> Head:
        """What is known of images from all over the list without opening them. Some are opened to see whether they can
        be read.
        """
        self.columns()  # raises DataError for repeated names
        listing, skip_bad = self._listing, self.options.skip_bad
        self._try(listing)
        step = -(-len(listing.paths) // HEAD_ROWS)
        part = listing.every(step, labelled=self.source.index is None and skip_bad)
        notes = note_of_empty(empty_folders(self.source, listing), "images")
        source = ListedColumns(self.source, self.options)
        return Head(source, part, whole=step == 1 and not skip_bad, settled=True, notes=notes)

    def _try(self, listing: Listing) -> None:
        """Open some images. Raises DataError for one that cannot be read or, if such are skipped, if none can."""
        outside = listing.known.column(0).is_null().index(True).as_py() if self.source.index is None else -1
        if outside >= 0 and not self.options.skip_bad:
            tried = listing.take(outside, outside + 1)
        else:
            tried = listing.every(-(-len(listing.paths) // TRIED))
        skips = Skips(reported=1)
        if not sum(1 for _ in self._images(tried, skips, full=False)):
            what = f"none of {plural(len(tried.paths), 'image')} from all over the data can be read"
            raise DataError(f"{what}: {skips.skipped.reported[0]}", file=name_of(self.source))

    def scan(self, part: Listing, declared: Mapping[str, Kind]) -> ScanResult:
        """Open every image. Decode it if the config says so, unless `batches` will do that and may raise errors."""
        rows = size = 0
        skips = Skips()
        full = self.source.check == "decode" and (self.options.skip_bad or not self.source.decode)
        for _, data, header in self._images(part, skips, full=full):
            rows += 1
            size += header.height * header.width * header.channel if self.source.decode else len(data)
        kinds = {**IMAGE_KINDS, **part.kinds}
        return ScanResult(
            {name_of(self.source): rows},
            size + part.known.nbytes,
            {name: declared.get(name) or kinds[name] for name in self.columns()},
            skips.skipped,
        )

    def batches(self, part: Listing, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Batches of images with about BATCH bytes."""
        full = self.source.decode or (self.source.check == "decode" and self.options.skip_bad)
        images: list[Image] = []
        size = 0
        for image in self._images(part, Skips(reported=0), full=full):
            images.append(image)
            size += len(image[1])
            if size >= BATCH:
                yield self._batch(part, images, kinds)
                images, size = [], 0
        if images:
            yield self._batch(part, images, kinds)

    @cached_property
    def _listing(self) -> Listing:
        return list_images(self.source, self.files)

    def _images(self, part: Listing, skips: Skips, *, full: bool) -> Iterator[Image]:
        """The images that can be read. `full`: decode their pixels; `skips`: counts the others."""
        labels = part.known.column(0) if self.source.index is None else None
        for index, path in enumerate(part.paths):
            try:
                if labels is not None and not labels[index].is_valid:
                    raise BadImageError("is not in a class folder")
                image = index, *self._read(path, full=full)
            except BadImageError as error:
                make_error = partial(BadRecordError, str(error), file=path or name_of(self.source), hint=WAY_OUT)
                if not self.options.skip_bad:
                    raise make_error() from None
                skips.add(make_error)
            else:
                yield image

    def _read(self, path: str | None, *, full: bool) -> tuple[bytes, ImageHeader]:
        if path is None:
            raise BadImageError(f"a row has no path in its column {self.source.index_column!r}")
        if self.source.index is not None and not _exists(path):
            raise BadImageError("is in the index, but the file does not exist")
        with open_file(path) as stream:
            data = read_fully(stream, LARGEST + 1)
        header = read_header(data)
        if max(len(data), header.height * header.width * header.channel * self.source.decode) > LARGEST:
            raise BadImageError(f"is larger than {LARGEST >> 30} GiB")
        decoded = decode_pixels(data, header) if full else b""
        return decoded if self.source.decode and full else data, header

    def _batch(self, part: Listing, images: Sequence[Image], kinds: Mapping[str, Kind]) -> pa.RecordBatch:
        indices, contents, headers = zip(*images, strict=True)
        columns = {"image": pa.array(contents, pa.binary())}
        for name in ("height", "width", "channel"):
            columns[name] = pa.array([getattr(header, name) for header in headers], pa.int64())
        known = part.known.take(pa.array(indices, pa.int64()))
        columns |= dict(zip(known.schema.names, known.columns, strict=True))
        return pa.RecordBatch.from_arrays(
            [cast_declared(columns[name], kind, name) for name, kind in kinds.items()], list(kinds)
        )


@dataclass(frozen=True)
class ListedColumns:
    """The columns of images that are known without opening them."""

    source: ImagesSource
    options: ReadOptions

    def columns(self) -> list[str]:
        return self.options.select(others(self.source))

    def parts(self, parallel_map: ParallelMap) -> list[Listing]:
        return [list_images(self.source)]

    def scan(self, part: Listing, declared: Mapping[str, Kind]) -> ScanResult:
        kinds = {name: declared.get(name) or part.kinds[name] for name in self.columns()}
        return ScanResult({name_of(self.source): len(part.paths)}, part.known.nbytes, kinds)

    def batches(self, part: Listing, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        columns = [cast_declared(part.known.column(name), kind, name) for name, kind in kinds.items()]
        if columns:
            yield pa.RecordBatch.from_arrays(columns, [*kinds])


def _exists(path: str) -> bool:
    return is_remote(path) or Path(path).is_file()
