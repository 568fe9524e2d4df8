"""Text files as texts, or as windows of words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.example_gen.casting import cast_declared
from headrace.components.example_gen.delimited.files import is_gzip
from headrace.components.example_gen.parts import cut, grouped, part_length
from headrace.components.example_gen.paths import fixed_folder
from headrace.components.example_gen.sources.base import Reading, Skipped, Spread, Survey
from headrace.components.example_gen.span_paths import glob_of
from headrace.components.example_gen.storage import resolve, stats
from headrace.components.example_gen.text.read import Stretch, Texts, decoded, lines, whole
from headrace.components.example_gen.text.strings import strings
from headrace.components.example_gen.text.windows import Windows, windows
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError
from headrace.configs.sources import TextSource

GZIP_RATIO = 4
"""How much longer than its gzip file a text is taken to be."""

KINDS: Mapping[str, Kind] = {"text": "string", "words": "string list", "next_word": "string"}


@dataclass(frozen=True)
class TextFiles:
    """The texts of one config, in the order of their paths. `folder`: where the names of files start in a key."""

    source: TextSource
    files: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)
    folder: str = ""

    @classmethod
    def open(cls, source: TextSource, files: Sequence[str] | None, reading: Reading) -> TextFiles:
        """Find the files, unless they are given. Raises DataError for a regular expression that is none."""
        try:
            pc.match_substring_regex(pa.array([""]), source.keep or "")
        except pa.ArrowInvalid as error:
            raise DataError(f"`data.source.keep` is no regular expression of RE2: {error}") from None
        found = tuple(sorted(files if files is not None else resolve(source.path)))
        patterns = [source.path] if isinstance(source.path, str) else source.path
        return cls(source, found, reading, fixed_folder([glob_of(pattern) for pattern in patterns]))

    def columns(self) -> list[str]:
        """Known from the config."""
        names = ["text"] if self.source.window is None else ["words", "next_word"]
        return self.reading.chosen([*names, *([self.source.text_key] if self.source.text_key else [])])

    def parts(self, spread: Spread) -> list[tuple[Stretch, ...]]:  # noqa: ARG002 - nothing has to be looked through
        """The files, cut where texts are lines and the file is not packed, and grouped."""
        sizes = [state.size * (GZIP_RATIO if is_gzip(state.path) else 1) for state in stats(self.files)]
        length = part_length(sum(sizes))
        pieces, own = [], []
        for path, size in zip(self.files, sizes, strict=True):
            whole_file = self.source.unit != "line" or is_gzip(path)
            ranges = [(0, None)] if whole_file else cut(size, length)
            pieces += [Stretch(path, start, end) for start, end in ranges]
            own += [size // len(ranges)] * len(ranges)
        return grouped(pieces, own, length)

    def survey(self, part: tuple[Stretch, ...], declared: Mapping[str, Kind]) -> Survey:  # noqa: ARG002
        """One pass over the texts; the windows are counted without being made."""
        rows = size = 0
        skipped = Skipped()
        for texts, _, left_out in self._texts(part):
            found = self._windows(texts) if self.source.window else None
            rows += len(texts) if found is None else len(found.starts)
            size += texts.nbytes if found is None else found.size
            skipped += left_out
        kinds: dict[str, Kind] = {name: KINDS.get(name, "string") for name in self.columns()}
        return Survey({self._name: rows}, size, kinds, skipped)

    def batches(self, part: tuple[Stretch, ...], kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Some lines, files or windows at a time."""
        for texts, keys, _ in self._texts(part):
            if self.source.window is None:
                yield from self._batch({"text": texts}, keys, kinds)
                continue
            for words, next_word, own in self._windows(texts).batches():
                yield from self._batch({"words": words, "next_word": next_word}, keys.take(pa.array(own)), kinds)

    @property
    def _name(self) -> str:
        """Of all the files together: one that has no text to give is no mistake."""
        return self.source.path if isinstance(self.source.path, str) else ", ".join(self.source.path)

    def _texts(self, part: tuple[Stretch, ...]) -> Iterator[tuple[pa.StringArray, pa.StringArray, Skipped]]:
        """The texts that are kept, what tells them apart, and what could not be read."""
        read = {"file": whole, "string": strings}.get(self.source.unit)
        found = read([own.path for own in part]) if read else chain.from_iterable(map(lines, part))
        for texts in found:
            values, places, skipped = decoded(texts, skip_bad=self.reading.skip_bad)
            values = pc.utf8_trim_whitespace(values)
            kept = self._kept(values)
            places = places[np.asarray(kept)]
            keys = _keys(texts, places, self.folder) if self.source.text_key else pa.nulls(len(places))
            yield values.filter(kept), keys, skipped

    def _kept(self, texts: pa.StringArray) -> pa.BooleanArray:
        lengths = pc.utf8_length(texts)
        tests = [pc.greater_equal(lengths, max(self.source.min_length, 1))]
        if self.source.max_length is not None:
            tests.append(pc.less_equal(lengths, self.source.max_length))
        if self.source.keep is not None:
            tests.append(pc.match_substring_regex(texts, self.source.keep))
        return reduce(pc.and_, tests)

    def _windows(self, texts: pa.StringArray) -> Windows:
        assert self.source.window is not None  # noqa: S101 - the callers have looked
        return windows(texts, self.source.window, self.source.stride, lowercase=self.source.lowercase)

    def _batch(
        self, columns: dict[str, pa.Array], keys: pa.StringArray, kinds: Mapping[str, Kind]
    ) -> Iterator[pa.RecordBatch]:
        if self.source.text_key is not None:
            columns[self.source.text_key] = keys
        if len(keys):
            arrays = [cast_declared(columns[name], kind, name) for name, kind in kinds.items()]
            yield pa.RecordBatch.from_arrays(arrays, names=list(kinds))


def _keys(texts: Texts, places: np.ndarray, folder: str) -> pa.StringArray:
    """`name.txt:120`: the file's path from the folder on, and the byte at which the text starts."""
    names = {path: path.removeprefix(f"{folder}/") for path in set(texts.paths)}
    files = pa.array([names[texts.paths[place]] for place in places], pa.string())
    return pc.binary_join_element_wise(files, pa.array(texts.offsets[places]).cast(pa.string()), ":")
