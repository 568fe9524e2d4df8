"""Analyzers whose sums can be kept for each span of the data, so that Transform reads each span once.

TFT merges what was kept of some spans with what it just computed of others (see `headrace.components.span_analysis`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import apache_beam as beam
import tensorflow as tf
from tensorflow_transform import analyzer_nodes, nodes


class Coder(Protocol):
    """Accumulators to bytes and back. Its text stands for the meaning of the bytes in TFT's key of what is kept."""

    def encode_cache(self, accumulator: Any) -> bytes: ...
    def decode_cache(self, encoded_accumulator: bytes) -> Any: ...
    def __repr__(self) -> str: ...


class Output(NamedTuple):
    """A tensor that comes out of an analyzer. `asset`: the content of the file that it names until it is known; None:
    it names no file.
    """

    dtype: tf.DType
    shape: Sequence[int]
    asset: bytes | None = None


def analyze(  # noqa: PLR0913, PLR0917 - each is one of the analyzer's parts
    inputs: Sequence[tf.Tensor],
    combine: beam.CombineFn,
    coder: Coder,
    extract: beam.PTransform,
    outputs: Sequence[Output],
    name: str,
) -> tuple[tf.Tensor, ...]:
    """Add up the batches of some tensors by `combine`, and make the outputs of the one accumulator by `extract`.

    As tft.experimental.ptransform_analyzer does with a CacheablePTransformAnalyzer, which may have one output only.
    """
    sums = [analyzer_nodes.TensorInfo(tf.string, [], None)]  # never a tensor
    infos = [
        analyzer_nodes.TensorInfo(
            one.dtype, list(one.shape), one.asset and analyzer_nodes.TemporaryAssetInfo(one.asset, "text")
        )
        for one in outputs
    ]
    steps = (
        ("of_batches", AddUp(Sums(combine), coder), True, None, sums),
        ("of_span", AddUp(SumsOfSums(combine), coder), True, coder, sums),
        ("of_all", AddUp(SumsOfSums(combine), coder), False, None, sums),
        ("outputs", extract, False, None, infos),
    )
    with tf.compat.v1.name_scope(name):
        values: Sequence[Any] = [analyzer_nodes.get_input_tensors_value_nodes(list(inputs))]
        for step, ptransform, by_span, kept_by, told in steps:
            with tf.compat.v1.name_scope(step):
                values = nodes.apply_multi_output_operation(
                    analyzer_nodes.PTransform,
                    *values,
                    ptransform=ptransform,
                    output_tensor_info_list=told,
                    is_partitionable=by_span,
                    cache_coder=kept_by,
                )
        return tuple(map(analyzer_nodes.wrap_as_tensor, values))


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
