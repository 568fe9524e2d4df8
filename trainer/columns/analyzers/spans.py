"""Analyzers whose accumulators TFT can cache for each span of the data, so that Transform reads each span once.

TFT merges the cached accumulators of some spans with those it just computed (see `headrace.components.span_analysis`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import apache_beam as beam
import tensorflow as tf
from tensorflow_transform import analyzer_nodes, nodes


class AccumulatorCoder(Protocol):
    """Converts accumulators to bytes and back. Its repr is part of TFT's cache key, so it must identify the format."""

    def encode_cache(self, accumulator: Any) -> bytes: ...
    def decode_cache(self, encoded_accumulator: bytes) -> Any: ...
    def __repr__(self) -> str: ...


class AnalyzerOutput(NamedTuple):
    """A tensor that an analyzer returns."""

    dtype: tf.DType
    shape: Sequence[int]
    asset: bytes | None = None
    """If the tensor names a file: the file's placeholder content until it is known."""


def analyze_by_span(
    inputs: Sequence[tf.Tensor],
    combine: beam.CombineFn,
    coder: AccumulatorCoder,
    extract: beam.PTransform,
    outputs: Sequence[AnalyzerOutput],
    name: str,
) -> tuple[tf.Tensor, ...]:
    """Accumulate batches of tensors with `combine`, and turn the final accumulator into the outputs with `extract`.

    Corresponds to tft.experimental.ptransform_analyzer with a CacheablePTransformAnalyzer, which can have a single
    output only.
    """
    accumulator = [analyzer_nodes.TensorInfo(tf.string, [], None)]  # never becomes a tensor
    infos = [
        analyzer_nodes.TensorInfo(
            one.dtype, list(one.shape), one.asset and analyzer_nodes.TemporaryAssetInfo(one.asset, "text")
        )
        for one in outputs
    ]
    steps = (
        ("of_batches", CombineAll(AccumulateInputs(combine), coder), True, None, accumulator),
        ("of_span", CombineAll(MergeAccumulators(combine), coder), True, coder, accumulator),
        ("of_all", CombineAll(MergeAccumulators(combine), coder), False, None, accumulator),
        ("outputs", extract, False, None, infos),
    )
    with tf.compat.v1.name_scope(name):
        values: Sequence[Any] = [analyzer_nodes.get_input_tensors_value_nodes(list(inputs))]
        for step, ptransform, by_span, cache_coder, tensor_infos in steps:
            with tf.compat.v1.name_scope(step):
                values = nodes.apply_multi_output_operation(
                    analyzer_nodes.PTransform,
                    *values,
                    ptransform=ptransform,
                    output_tensor_info_list=tensor_infos,
                    is_partitionable=by_span,
                    cache_coder=cache_coder,
                )
        return tuple(map(analyzer_nodes.wrap_as_tensor, values))


class CombineAll(beam.PTransform):
    """Combines any number of elements into one accumulator, and none into none. Its repr is part of TFT's cache key."""

    def __init__(self, combine: AccumulateInputs, coder: AccumulatorCoder) -> None:
        super().__init__()
        self._combine, self._coder = combine, coder

    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        return elements | beam.CombineGlobally(self._combine).without_defaults()

    def __repr__(self) -> str:
        return f"{type(self._combine).__name__} in {self._coder!r}"


class AccumulateInputs(beam.CombineFn):
    """Wraps a CombineFn so that its output is the accumulator."""

    def __init__(self, combine: beam.CombineFn) -> None:
        super().__init__()
        self._combine = combine

    def create_accumulator(self) -> Any:
        """As the wrapped CombineFn."""
        return self._combine.create_accumulator()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """As the wrapped CombineFn."""
        return self._combine.add_input(accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """As the wrapped CombineFn."""
        return self._combine.merge_accumulators(accumulators)

    def compact(self, accumulator: Any) -> Any:
        """As the wrapped CombineFn."""
        return self._combine.compact(accumulator)

    def extract_output(self, accumulator: Any) -> Any:
        return self._combine.compact(accumulator)


class MergeAccumulators(AccumulateInputs):
    """The same for elements that are accumulators."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return self._combine.merge_accumulators([accumulator, element])
