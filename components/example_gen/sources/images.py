"""JPEG and PNG images, by their folders or by an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from headrace.components.example_gen.casting import cast_declared
from headrace.components.example_gen.delimited.files import read_fully
from headrace.components.example_gen.images.decode import pixels
from headrace.components.example_gen.images.header import Header, UnfitError, read_header
from headrace.components.example_gen.images.listing import (
    LABEL,
    Listing,
    index_columns,
    index_files,
    list_images,
    name_of,
)
from headrace.components.example_gen.parts import grouped, part_length
from headrace.components.example_gen.sources.base import TOLD, Reading, Skipped, Spread, Survey
from headrace.components.example_gen.storage import is_remote, open_file, stats
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError
from headrace.configs.sources import ImagesSource

BATCH = 1 << 21
"""Bytes of images in a batch."""

LARGEST = 1 << 30
"""Bytes of an image; a tf.Example cannot be larger than twice this."""

OWN: Mapping[str, Kind] = {"image": "bytes", "height": "int", "width": "int", "channel": "int"}


@dataclass(frozen=True)
class ImageFiles:
    """The images of one config."""

    source: ImagesSource
    reading: Reading = field(default_factory=Reading)
    files: frozenset[str] | None = None

    @classmethod
    def open(cls, source: ImagesSource, files: Sequence[str] | None, reading: Reading) -> ImageFiles:
        """They are looked for when they are needed; of a folder, only those of `files` are read."""
        return cls(source, reading, None if files is None or source.index is not None else frozenset(files))

    @classmethod
    def find(cls, source: ImagesSource) -> list[str]:
        """The index, and all images that are there."""
        paths = {path for path in list_images(source).paths if path is not None and _is_there(path)}
        return sorted({*index_files(source), *paths})

    def __getstate__(self) -> dict[str, object]:
        """Without the listing, of which each part has its own piece."""
        return {"source": self.source, "reading": self.reading}

    def columns(self) -> list[str]:
        """Known from the config, or from the header of the index."""
        others = [LABEL] if self.source.index is None else index_columns(self.source)
        twice = OWN.keys() & set(others)
        if twice:
            raise DataError(
                f"the index has a column {min(twice)!r}, as the images have",
                file=name_of(self.source),
                hint="Give it another name in the index",
            )
        return self.reading.chosen([*OWN, *others])

    def parts(self, spread: Spread) -> list[Listing]:  # noqa: ARG002 - a list of files needs no pass over them
        """The images, grouped by the sizes of their files."""
        self.columns()  # whether they are told apart by their names
        listing = self._listing
        there = [path for path in listing.paths if path is not None and _is_there(path)]
        sizes = {state.path: state.size for state in stats(there)}
        own = [sizes.get(path or "", 0) for path in listing.paths]
        places = grouped(range(len(own)), own, part_length(sum(own)))
        return [listing.take(part[0], part[-1] + 1) for part in places]

    def survey(self, part: Listing, declared: Mapping[str, Kind]) -> Survey:
        """Opens every image; decodes it where the config says so, unless `batches` will and is free to stop."""
        rows = size = 0
        skipped = Skipped()
        full = self.source.check == "decode" and (self.reading.skip_bad or not self.source.decode)
        for image in self._images(part, full=full):
            if isinstance(image, DataError):
                skipped += Skipped(1, (str(image).partition("\n")[0],) if len(skipped.told) < TOLD else ())
                continue
            _, data, header = image
            rows += 1
            size += header.height * header.width * header.channel if self.source.decode else len(data)
        kinds = {**OWN, **part.kinds}
        return Survey(
            {name_of(self.source): rows},
            size + part.known.nbytes,
            {name: declared.get(name) or kinds[name] for name in self.columns()},
            skipped,
        )

    def batches(self, part: Listing, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Images of about two megabytes together."""
        full = self.source.decode or (self.source.check == "decode" and self.reading.skip_bad)
        places: list[int] = []
        images: list[bytes] = []
        headers: list[Header] = []
        size = 0
        for image in self._images(part, full=full):
            if isinstance(image, DataError):
                continue
            place, data, header = image
            places.append(place)
            images.append(data)
            headers.append(header)
            size += len(data)
            if size >= BATCH:
                yield self._batch(part, places, images, headers, kinds)
                places, images, headers, size = [], [], [], 0
        if places:
            yield self._batch(part, places, images, headers, kinds)

    @cached_property
    def _listing(self) -> Listing:
        return list_images(self.source, self.files)

    def _images(self, part: Listing, *, full: bool) -> Iterator[tuple[int, bytes, Header] | DataError]:
        """(place in the part, the bytes that become the feature, header) of each image, or what is wrong with it."""
        labels = part.known.column(0) if self.source.index is None else None
        for place, path in enumerate(part.paths):
            try:
                if labels is not None and not labels[place].is_valid:
                    raise UnfitError("lies in no folder of a class")
                yield (place, *self._image(path, full=full))
            except UnfitError as error:
                bad = DataError(
                    str(error),
                    file=path or name_of(self.source),
                    hint="Mend or remove it; `data.on_bad_record: skip` leaves such files out",
                )
                if not self.reading.skip_bad:
                    raise bad from None
                yield bad

    def _image(self, path: str | None, *, full: bool) -> tuple[bytes, Header]:
        if path is None:
            raise UnfitError(f"a row has no path in its column {self.source.index_column!r}")
        if self.source.index is not None and not _is_there(path):
            raise UnfitError("is in the index, but there is no such file")
        with open_file(path) as stream:
            data = read_fully(stream, LARGEST + 1)
        header = read_header(data)
        if max(len(data), header.height * header.width * header.channel * self.source.decode) > LARGEST:
            raise UnfitError(f"is larger than {LARGEST >> 30} GiB")
        decoded = pixels(data, header) if full else b""
        return decoded if self.source.decode and full else data, header

    def _batch(
        self, part: Listing, places: list[int], images: list[bytes], headers: list[Header], kinds: Mapping[str, Kind]
    ) -> pa.RecordBatch:
        columns = {
            "image": pa.array(images, pa.binary()),
            **{
                name: pa.array([getattr(header, name) for header in headers], pa.int64())
                for name in OWN
                if name != "image"
            },
        }
        known = part.known.take(pa.array(places, pa.int64()))
        columns |= dict(zip(known.schema.names, known.columns, strict=True))
        return pa.RecordBatch.from_arrays(
            [cast_declared(columns[name], kind, name) for name, kind in kinds.items()], list(kinds)
        )


def _is_there(path: str) -> bool:
    return is_remote(path) or Path(path).is_file()
