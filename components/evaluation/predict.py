"""The Beam half: each model's labels and predictions for a batch, tallied by slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation import MEASURES
from headrace.components.evaluation.slices import SliceKey, Slicing, slicing
from headrace.components.evaluation.tally import Array, Tally
from headrace.configs.errors import RunError

RAW = "__raw_record__"
"""The column of a batch that holds the serialized examples."""
Keyed = tuple[tuple[str, SliceKey | None], Tally]
"""((model's name, slice), tally). For the slice None the tally's only sum is the number of examples left out."""


class TallyBatches(beam.DoFn):
    """From record batches (with RAW) to tallies. models: the SavedModel's directory of each model by name."""

    def __init__(self, models: Mapping[str, str], kind: str, config: config_pb2.EvalConfig) -> None:
        self._paths, self._kind = models, kind
        self._specs = {spec.name: spec for spec in config.model_specs}
        self._slicings = [list(spec.feature_keys) for spec in config.slicing_specs]
        self._models: dict[str, tf.Module] = {}

    def setup(self) -> None:
        """Load the models."""
        self._models = {name: tf.saved_model.load(path) for name, path in self._paths.items()}

    def process(self, batch: pa.RecordBatch) -> Iterator[Keyed]:
        """Tally one batch for every model and slice."""
        examples = tf.constant(batch.column(RAW).flatten().to_pylist())
        slicings = [slicing(batch, columns) for columns in self._slicings]
        shapes = set()
        for name in self._models:
            labels, predictions = self._predict(name, examples)
            shapes.add(predictions.shape[1])
            if len(shapes) > 1 and self._kind != "next_word":  # whose classes follow from the data of each model
                raise RunError(_not_comparable(self._paths[name]))
            yield from self._tally(name, labels, predictions, slicings)

    def _predict(self, name: str, examples: tf.Tensor) -> tuple[Array, Array]:
        spec, signatures = self._specs[name], self._models[name].signatures
        (predictions,) = signatures[spec.signature_name](examples=examples).values()
        features = signatures[spec.preprocessing_function_names[0]](examples=examples)
        if spec.label_key not in features:
            raise RunError(_not_comparable(self._paths[name]))
        labels = features[spec.label_key].numpy().astype(np.float64).reshape(-1)
        return labels, predictions.numpy().astype(np.float64).reshape(len(labels), -1)

    def _tally(self, name: str, labels: Array, predictions: Array, slicings: Sequence[Slicing]) -> Iterator[Keyed]:
        measure = MEASURES[self._kind]
        usable = measure.usable(labels)
        yield (name, None), Tally(np.array([np.sum(~usable)], np.float64), np.zeros(0, np.int64), np.zeros((0, 2)))
        for keys, groups in ((each.keys, each.groups) for each in slicings):
            tallies = measure.tally(labels[usable], predictions[usable], groups[usable], len(keys))
            for key, tally in zip(keys, tallies, strict=True):
                if tally.sums[0]:
                    yield (name, key), tally


def _not_comparable(path: str) -> str:
    return (
        f"the model {path} was made for another label or other classes, so it cannot be compared with.\n"
        "  Delete blessed.json in the pipeline's folder, or give the pipeline another name."
    )
