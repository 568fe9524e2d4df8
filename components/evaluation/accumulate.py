"""From files of examples to the accumulators of each model and slice, and the examples that are kept."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.pvalue import TaggedOutput
from tensorflow_model_analysis.proto import config_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.common.errors import RunError
from headrace.components.evaluation import tfma
from headrace.components.evaluation.explain import Explaining, Judged, loaded_model
from headrace.components.evaluation.intervals import folds_of, mixed_positions
from headrace.components.evaluation.measured import KeyedAccumulator, ModelSlice
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import Array, MetricAccumulator, RunningTotal
from headrace.components.evaluation.ranked_examples import RankedExamples
from headrace.components.evaluation.slices import assign_slices
from headrace.components.evaluation.weights import example_weights
from headrace.components.file_groups import FileGroup
from headrace.components.transform.shards import read_records

RANKED = "kept"
"""The output with the examples that are kept."""


class AccumulateFiles(beam.DoFn):
    """Groups of files to accumulators by model and slice, each with the group's number.

    A second output, RANKED, has examples of the candidate's, by what they are kept for. models: the SavedModel's
    directory by the model's name, that of the candidate first; kind: of the label; split: its name, for messages.
    """

    def __init__(
        self,
        models: Mapping[str, str],
        kind: str,
        config: config_pb2.EvalConfig,
        split: str,
        explaining: Explaining,
    ) -> None:
        self._paths, self._kind = models, kind
        self._metrics = metrics_of(kind, tfma.decision_threshold(config), tfma.measured_names(config))
        self._split, self._weight = split, tfma.weight_column(config)
        self._calls = {spec.name: tfma.model_call(spec) for spec in config.model_specs}
        self._slicings = [list(spec.feature_keys) for spec in config.slicing_specs]
        self._models: dict[str, tf.Module] = {}
        self._candidate, self._explaining = next(iter(models)), explaining

    def setup(self) -> None:
        """Load the models."""
        self._decoder = ExamplesToRecordBatchDecoder()
        self._models = {name: loaded_model(path) for name, path in self._paths.items()}

    def process(self, group: FileGroup) -> Iterator[tuple[ModelSlice, tuple[int, MetricAccumulator]] | TaggedOutput]:
        """Accumulate the files for every model and slice. Raises RunError if the models are not comparable."""
        totals: defaultdict[ModelSlice, RunningTotal] = defaultdict(RunningTotal)
        ranked: dict[str, RankedExamples] = {}
        for file in group.files:
            start, name = 0, zlib.crc32(Path(file).name.encode())
            for examples in read_records(file):
                number = int(examples.shape[0])
                for key, accumulator in self._process_batch(examples, (start, number, name), ranked):
                    totals[key].add(accumulator)
                start += number
        yield from ((key, (group.number, total.merged())) for key, total in totals.items())
        yield from (TaggedOutput(RANKED, (key, (group.number, one))) for key, one in ranked.items())

    def _process_batch(
        self, examples: tf.Tensor, place: tuple[int, int, int], ranked: dict[str, RankedExamples]
    ) -> Iterator[KeyedAccumulator]:
        """The accumulators of serialized examples [n]. place: the arguments of `folds_of`; ranked: the candidate's
        examples kept so far, to which those of this batch are added.
        """
        serialized, folds, drawn = examples.numpy(), folds_of(*place), mixed_positions(*place)
        batch = self._decoder.DecodeBatch(serialized.tolist())
        assignments = [assign_slices(batch, columns) for columns in self._slicings]
        weights, widths = example_weights(batch, self._weight, self._split), set()
        for name in self._models:
            labels, predictions = self._predict(name, examples)
            widths.add(predictions.shape[1])
            if len(widths) > 1 and self._kind != "next_word":  # whose classes depend on the data of each model
                raise RunError(_not_comparable(self._paths[name]))
            usable = self._metrics.usable(labels)
            yield (name, None), MetricAccumulator.of_count(float(np.sum(~usable)))
            used = usable & (weights > 0)
            judged = Judged(labels[used], predictions[used], weights[used])
            if name == self._candidate:
                for key, one in self._explaining.keep(judged, self._metrics, drawn[used], serialized[used]).items():
                    ranked[key] = ranked[key].merge([one]) if key in ranked else one
            for keys, groups in ((each.keys, each.groups[used]) for each in assignments):
                found = self._metrics.accumulate(
                    judged.labels, judged.predictions, groups, len(keys), judged.weights, folds[used]
                )
                yield from (((name, key), one) for key, one in zip(keys, found, strict=True) if one.examples.any())

    def _predict(self, name: str, examples: tf.Tensor) -> tuple[Array, Array]:
        """Labels [n], or [n, classes], and predictions [n, outputs], float64, of serialized examples [n]."""
        call, model = self._calls[name], self._models[name]
        if call.why_not(model):
            raise RunError(_not_comparable(self._paths[name]))
        found, predictions = call(model, examples)
        number = int(examples.shape[0])
        labels = found.numpy().astype(np.float64).reshape((number, -1)[: self._metrics.label_rank])
        outputs = predictions.numpy().astype(np.float64).reshape(number, -1)
        if self._kind == "multilabel" and labels.shape != outputs.shape:
            raise RunError(
                f"the model {self._paths[name]} returns {labels.shape[1]:,} labels for each example, and"
                f" {outputs.shape[1]:,} predictions; a multilabel label needs one of both for each class"
            )
        return labels, outputs


def _not_comparable(path: str) -> str:
    return (
        f"the model {path} was made for another label, or has other classes or signatures, so it cannot be the"
        " baseline.\n"
        "  Delete blessed.json in the pipeline's folder, or give the pipeline another name."
    )


def accumulate_here(
    accumulate: AccumulateFiles, groups: Sequence[FileGroup]
) -> tuple[list[KeyedAccumulator], dict[str, RankedExamples]]:
    """What the Beam pipeline gathers, without Beam: the accumulators of each model and slice, and the kept examples.

    The accumulators of a key are merged in the order of the groups, as there, so the sums have the same rounding.
    """
    totals: dict[ModelSlice, list[MetricAccumulator]] = {}
    ranked: dict[str, list[RankedExamples]] = {}
    accumulate.setup()
    for group in groups:
        for found in accumulate.process(group):
            if isinstance(found, TaggedOutput):
                key, (_, examples) = found.value
                ranked.setdefault(key, []).append(examples)
            else:
                model_slice, (_, accumulator) = found
                totals.setdefault(model_slice, []).append(accumulator)
    return [(key, merge(parts)) for key, parts in totals.items()], {key: merge(parts) for key, parts in ranked.items()}


def merge(parts: Sequence[Any]) -> Any:
    """Accumulators, or kept examples, as one."""
    return parts[0].merge(parts[1:]) if parts[1:] else parts[0]
