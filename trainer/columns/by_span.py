"""Analyzers whose sums can be kept for each span of the data, so that Transform reads each span once.

TFT merges what it kept of some spans with what it just computed of others: see CacheablePTransformAnalyzer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import apache_beam as beam
import tensorflow_transform as tft


class Coder(Protocol):
    """Accumulators to bytes and back. Its text stands for the meaning of the bytes in TFT's key of what is kept."""

    def encode_cache(self, accumulator: Any) -> bytes: ...
    def decode_cache(self, encoded_accumulator: bytes) -> Any: ...
    def __repr__(self) -> str: ...


def kept_by_span(combine: beam.CombineFn, coder: Coder, extract: beam.PTransform) -> Any:
    """An analyzer that adds up by `combine` and makes its outputs of the one accumulator by `extract`."""
    return tft.experimental.CacheablePTransformAnalyzer(
        make_accumulators_ptransform=AddUp(Sums(combine), coder),
        merge_accumulators_ptransform=AddUp(SumsOfSums(combine), coder),
        extract_output_ptransform=extract,
        cache_coder=coder,
    )


class AddUp(beam.PTransform):
    """Any number of elements to one accumulator; none to none. Its text, too, is part of TFT's key of what is kept."""

    def __init__(self, combine: Sums, coder: Coder) -> None:
        super().__init__()
        self._combine, self._coder = combine, coder

    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        """Add up."""
        return elements | beam.CombineGlobally(self._combine).without_defaults()

    def __repr__(self) -> str:
        return f"{type(self._combine).__name__} in {self._coder!r}"


class Sums(beam.CombineFn):
    """As another CombineFn, but what comes out is the accumulator."""

    def __init__(self, combine: beam.CombineFn) -> None:
        super().__init__()
        self._combine = combine

    def create_accumulator(self) -> Any:
        """Nothing seen."""
        return self._combine.create_accumulator()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Fold in an element."""
        return self._combine.add_input(accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """One of many."""
        return self._combine.merge_accumulators(accumulators)

    def compact(self, accumulator: Any) -> Any:
        """The same in less memory."""
        return self._combine.compact(accumulator)

    def extract_output(self, accumulator: Any) -> Any:
        """The accumulator."""
        return self._combine.compact(accumulator)


class SumsOfSums(Sums):
    """What goes in are accumulators too."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Fold in an accumulator."""
        return self._combine.merge_accumulators([accumulator, element])
