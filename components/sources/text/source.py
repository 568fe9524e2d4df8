"""Text files as a source of texts, or of windows of words."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import DataError
from headrace.common.storage.files import is_remote, resolve, stats
from headrace.common.storage.paths import fixed_folder
from headrace.components.examples.parts import part_length
from headrace.components.examples.skips import Skipped
from headrace.components.sources.base import HEAD_FILES, Head, ParallelMap, ReadOptions, ScanResult, first_pieces
from headrace.components.sources.conversion import cast_declared
from headrace.components.sources.files import note_of_empty
from headrace.components.sources.streams import LineRange, first_ranges, line_ranges, text_size
from headrace.components.sources.text.read import Texts, decode, read_files, read_lines, read_strings, text_blocks
from headrace.components.sources.types import Kind
from headrace.components.spans.patterns import glob_of
from headrace.configs.schema.data import placeholders
from headrace.configs.schema.sources import TextSource

FIRST_FILES = 1000
"""How many texts are read before a run, if files are the texts."""
BATCH = 1 << 21
"""Bytes of words in a batch of windows."""

LABEL = "label"
"""The column with the folder of each text's file."""
TEXT_KINDS: Mapping[str, Kind] = {"text": "string", "words": "string list", "next_word": "string"}


@dataclass(frozen=True)
class TextFiles:
    """The texts of one config, in the order of their paths. `folder`: the keys of texts give paths relative to it."""

    source: TextSource
    files: tuple[str, ...]
    options: ReadOptions = field(default_factory=ReadOptions)
    folder: str = ""

    fork_safe: ClassVar[bool] = True

    @classmethod
    def open(cls, source: TextSource, files: Sequence[str] | None, options: ReadOptions) -> TextFiles:
        """Find the files, unless they are given. Raises DataError for an invalid regular expression."""
        try:
            pc.match_substring_regex(pa.array([""]), source.keep or "")
        except pa.ArrowInvalid as error:
            raise DataError(f"`{source.section}.keep` is not a valid RE2 regular expression: {error}") from None
        found = tuple(sorted(files if files is not None else resolve(source.patterns)))
        return cls(source, found, options, fixed_folder([glob_of(pattern) for pattern in source.patterns]))

    def columns(self) -> list[str]:
        """The columns that the config implies."""
        names = ["text"] if self.source.window is None else ["words", "next_word"]
        return self.options.select([*names, *([self.source.text_key] if self.source.text_key else []), *self._labels])

    def parts(self, parallel_map: ParallelMap) -> list[tuple[LineRange, ...]]:
        """The files in groups, cut if lines are the texts."""
        states = stats(self.files)
        length = part_length(sum(map(text_size, states)))
        return line_ranges(states, length, splittable=self.source.unit == "line")

    def head(self) -> Head:
        """The first texts of the first files, in turn of each folder if folders are the labels."""
        files = self.files if self.source.labels != "folders" else _in_turn(self.files)
        files = files[: FIRST_FILES if self.source.unit == "file" else HEAD_FILES]
        if self.source.unit == "line":
            found = (text_blocks(LineRange(path), self.source.section) for path in files)
            mark = b"\n" if self.source.window is None else b" "  # windows are about as many as words
            ranges, everything = first_ranges(chain.from_iterable(found), lambda one: one.text.count(mark) + 1)
            part = [LineRange(one.path, 0, one.end) for one in ranges]
        else:
            chosen, everything = first_pieces((LineRange(one.path), 1, text_size(one)) for one in stats(files))
            part = [*chosen]
        part.sort(key=lambda one: one.path)
        notes = note_of_empty(self._empty_folders(), "texts")
        return Head(self, tuple(part), whole=everything and len(files) == len(self.files), settled=True, notes=notes)

    def scan(self, part: tuple[LineRange, ...], declared: Mapping[str, Kind]) -> ScanResult:
        """Read the texts; count the windows without building them."""
        rows = size = 0
        skipped = Skipped()
        for texts, _, bad in self._texts(part):
            windows = self._windows(texts) if self.source.window else None
            rows += len(texts) if windows is None else len(windows.starts)
            size += texts.nbytes if windows is None else windows.size
            skipped += bad
        kinds: dict[str, Kind] = {name: TEXT_KINDS.get(name, "string") for name in self.columns()}
        return ScanResult({self._name: rows}, size, kinds, skipped)

    def batches(self, part: tuple[LineRange, ...], kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        for texts, origins, _ in self._texts(part):
            if self.source.window is None:
                yield from _batch({"text": texts}, origins, kinds)
                continue
            for words, next_word, indices in self._windows(texts).batches():
                yield from _batch({"words": words, "next_word": next_word}, origins.take(pa.array(indices)), kinds)

    @property
    def _labels(self) -> list[str]:
        return [LABEL] if self.source.labels == "folders" else []

    def _empty_folders(self) -> list[str]:
        """The names of class folders without a text, as far as they are on this machine and the same in all spans."""
        folders = {pattern.rpartition("/")[0] for pattern in self.source.patterns if not is_remote(pattern)}
        patterns = [folder for folder in folders if "*" in folder and "**" not in folder and not placeholders([folder])]
        found = {str(Path(path).absolute().parent) for path in self.files}
        there = (Path(path).absolute() for pattern in patterns for path in glob.glob(str(Path(pattern).expanduser())))
        return sorted({path.name for path in there if path.is_dir() and str(path) not in found} if self._labels else ())

    @property
    def _name(self) -> str:
        """One name for all files, so that a file without a text is not an error."""
        return ", ".join(self.source.patterns)

    def _texts(self, part: tuple[LineRange, ...]) -> Iterator[tuple[pa.StringArray, pa.Table, Skipped]]:
        """Yield the texts that pass the filters, where each comes from, and the texts that could not be read."""
        paths, section = [lines.path for lines in part], self.source.section
        if self.source.unit == "line":
            blocks: Iterator[Texts] = chain.from_iterable(read_lines(lines, section) for lines in part)
        else:
            blocks = read_files(paths) if self.source.unit == "file" else read_strings(paths, section)
        for texts in blocks:
            values, indices, skipped = decode(texts, skip_bad=self.options.skip_bad)
            values = pc.utf8_trim_whitespace(values)
            passed = self._filter(values)
            indices = indices[np.asarray(passed)]
            yield values.filter(passed), self._origins(texts, indices), skipped

    def _origins(self, texts: Texts, indices: np.ndarray) -> pa.Table:
        """The columns that say where these texts come from, if the config asks for any."""
        columns = {self.source.text_key: _keys(texts, indices, self.folder)} if self.source.text_key else {}
        if self.source.labels == "folders":
            folders = (texts.paths[index].rpartition("/")[0] for index in indices)
            columns[LABEL] = pa.array([folder.rpartition("/")[2] for folder in folders], pa.string())
        return pa.table(columns)

    def _filter(self, texts: pa.StringArray) -> pa.BooleanArray:
        """Which texts have the wanted length and content (bool [n])."""
        lengths = pc.utf8_length(texts)
        tests = [pc.greater_equal(lengths, max(self.source.min_length, 1))]
        if self.source.max_length is not None:
            tests.append(pc.less_equal(lengths, self.source.max_length))
        if self.source.keep is not None:
            tests.append(pc.match_substring_regex(texts, self.source.keep))
        return reduce(pc.and_, tests)

    def _windows(self, texts: pa.StringArray) -> Windows:
        assert self.source.window is not None  # noqa: S101 - the callers have checked it
        return find_windows(texts, self.source.window, self.source.stride, lowercase=self.source.lowercase)


def _batch(columns: dict[str, pa.Array], origins: pa.Table, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
    """The texts or windows, with where each comes from; nothing if there are none."""
    columns |= {
        name: column.combine_chunks() for name, column in zip(origins.column_names, origins.columns, strict=True)
    }
    arrays = [cast_declared(columns[name], kind, name) for name, kind in kinds.items()]
    if arrays and len(arrays[0]):
        yield pa.RecordBatch.from_arrays(arrays, names=list(kinds))


def _in_turn(files: Sequence[str]) -> tuple[str, ...]:
    """The files in the order of their numbers within their folders: the first ones of all folders come first."""
    numbers = Counter[str]()
    placed = list[tuple[int, str]]()
    for path in files:
        folder = path.rpartition("/")[0]
        placed.append((numbers[folder], path))
        numbers[folder] += 1
    return tuple(path for _, path in sorted(placed))


def _keys(texts: Texts, indices: np.ndarray, folder: str) -> pa.StringArray:
    """Keys such as `name.txt:120`: the path relative to the folder, and the byte at which the text starts."""
    names = {path: path.removeprefix(f"{folder}/") for path in set(texts.paths)}
    files = pa.array([names[texts.paths[index]] for index in indices], pa.string())
    return pc.binary_join_element_wise(files, pa.array(texts.offsets[indices]).cast(pa.string()), ":")


@dataclass(frozen=True)
class Windows:
    """All windows of some texts.

    words [m]: the words of all texts, in order; starts (int64 [n]): the index of the first word of each window; texts
    (int64 [n]): the index of the text that each window belongs to; width: the number of words in a window.
    """

    words: pa.StringArray
    starts: np.ndarray
    texts: np.ndarray
    width: int

    @property
    def size(self) -> int:
        """An estimate of the bytes of the words in all windows."""
        return len(self.starts) * (self.width + 1) * self._word_size

    @property
    def _word_size(self) -> int:
        return self.words.nbytes // max(len(self.words), 1)

    def batches(self) -> Iterator[tuple[pa.ListArray, pa.StringArray, np.ndarray]]:
        """Yield (words [n, width], the next word [n], the index of the text [n]), about BATCH bytes at a time."""
        step = max(BATCH // ((self.width + 1) * max(self._word_size, 1)), 1)
        for first in range(0, len(self.starts), step):
            starts = self.starts[first : first + step]
            indices = (starts[:, None] + np.arange(self.width)).ravel()
            offsets = np.arange(len(starts) + 1, dtype=np.int32) * self.width
            windows = pa.ListArray.from_arrays(pa.array(offsets), self.words.take(pa.array(indices)))
            yield windows, self.words.take(pa.array(starts + self.width)), self.texts[first : first + step]


def find_windows(texts: pa.StringArray, width: int, stride: int, *, lowercase: bool) -> Windows:
    """The windows of `width` words, `stride` words apart, that are followed by another word of the same text."""
    split = pc.utf8_split_whitespace(pc.utf8_lower(texts) if lowercase else texts)
    offsets = np.asarray(split.offsets)
    counts = np.maximum((np.diff(offsets) - width - 1) // stride + 1, 0)
    text = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)  # of each window in its text
    return Windows(split.values, offsets[:-1][text] + number * stride, text, width)
