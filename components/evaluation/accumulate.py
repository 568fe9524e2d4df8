"""From files of examples to the accumulators of each model and slice, and the examples that are kept."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
from apache_beam.pvalue import TaggedOutput
from numpy.typing import NDArray
from tensorflow_model_analysis.proto import config_pb2

from headrace.common.errors import RunError
from headrace.components.evaluation import tfma
from headrace.components.evaluation.explain import Explaining, Judged, loaded_model
from headrace.components.evaluation.intervals import folds_of, mixed_positions
from headrace.components.evaluation.measured import KeyedAccumulator, ModelSlice
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import Array, ExampleGroups, MetricAccumulator, RunningTotal
from headrace.components.evaluation.ranked_examples import RankedExamples
from headrace.components.evaluation.slices import SliceAssignment, assign_slices
from headrace.components.file_groups import FileGroup
from headrace.components.served_graph import ServedModel
from headrace.components.transform.record_blocks import RecordBlock, rows_at_once, serialized_blocks
from headrace.trainer.served_model import ModelCall

Accumulated = tuple[list[KeyedAccumulator], dict[str, RankedExamples]]
"""The accumulators of each model and slice, and the kept examples, of a label."""
ACCUMULATORS, RANKED = "accumulators", "kept"
"""The outputs with the accumulators of a label, and with the examples that are kept, before the label's name."""


def output(what: str, task: str) -> str:
    """The name of a label's output. task: "" if it is the only one."""
    return f"{what} {task}" if task else what


@dataclass(frozen=True)
class ExampleBatch:
    """Examples of a file, with what does not depend on the label.

    examples: serialized, string [n]; folds, drawn: of `folds_of` and `mixed_positions`; outputs: what each model has
    computed of them.
    """

    examples: tf.Tensor
    serialized: NDArray[np.object_]
    folds: NDArray[np.int64]
    drawn: NDArray[np.uint64]
    slices: Sequence[SliceAssignment]
    weights: Array
    outputs: dict[str, tuple[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]]] = field(default_factory=dict)


class LabelAccumulation:
    """What is accumulated for one label.

    models: the SavedModel's directory by the model's name, that of the candidate first; kind: of the label.
    """

    def __init__(
        self, models: Mapping[str, str], kind: str, config: config_pb2.EvalConfig, explaining: Explaining
    ) -> None:
        self._paths, self._kind, self._candidate, self._explaining = models, kind, next(iter(models)), explaining
        self._metrics = metrics_of(kind, tfma.decision_threshold(config), tfma.measured_names(config))
        self.calls = {spec.name: tfma.model_call(spec) for spec in config.model_specs}

    def accumulate(
        self, batch: ExampleBatch, models: Mapping[str, Any], ranked: dict[str, RankedExamples]
    ) -> Iterator[KeyedAccumulator]:
        """The accumulators of a batch. ranked: the candidate's examples kept so far, to which those of this batch are
        added. Raises RunError if the models are not comparable.
        """
        widths = set()
        for name, model in models.items():
            labels, predictions = self._predict(name, model, batch)
            widths.add(predictions.shape[1])
            if len(widths) > 1 and self._kind != "next_word":  # whose classes depend on the data of each model
                raise RunError(_not_comparable(self._paths[name]))
            usable = self._metrics.usable(labels)
            yield (name, None), MetricAccumulator.of_count(float(np.sum(~usable)))
            used = usable & (batch.weights > 0)
            judged = Judged(labels[used], predictions[used], batch.weights[used])
            if name == self._candidate:
                keep(ranked, self._explaining.keep(judged, self._metrics, batch.drawn[used], batch.serialized[used]))
            for keys, groups in ((each.keys, each.groups[used]) for each in batch.slices):
                labels, predictions, weights = judged
                examples = ExampleGroups(labels, predictions, groups, len(keys), weights, batch.folds[used])
                found = self._metrics.accumulate(examples)
                yield from (((name, key), one) for key, one in zip(keys, found, strict=True) if one.examples.any())

    def _predict(self, name: str, model: Any, batch: ExampleBatch) -> tuple[Array, Array]:
        """Labels [n], or [n, classes], and predictions [n, outputs], float64. The model is called once for all labels,
        which have the same signatures.
        """
        call = self.calls[name]
        if call.why_not(model):
            raise RunError(_not_comparable(self._paths[name]))
        if name not in batch.outputs:
            batch.outputs[name] = call.outputs(model, batch.examples)
        found, predictions = call.of(*batch.outputs[name])
        number = len(batch.serialized)
        labels = found.numpy().astype(np.float64).reshape((number, -1)[: self._metrics.label_rank])
        outputs = predictions.numpy().astype(np.float64).reshape(number, -1)
        if self._kind == "multilabel" and labels.shape != outputs.shape:
            raise RunError(
                f"the model {self._paths[name]} returns {labels.shape[1]:,} labels for each example, and"
                f" {outputs.shape[1]:,} predictions; a multilabel label needs one of both for each class"
            )
        return labels, outputs


class AccumulateFiles(beam.DoFn):
    """Groups of files to accumulators by model and slice, each with the group's number; each label has its own output.

    A second output of each label has examples of the candidate's, by what they are kept for. labels: by the label's
    name, "" if it is the only one; models: the SavedModel's directory by the model's name, that of the candidate first;
    config: of any label, for the slices and the weights; split: its name, for messages.
    """

    def __init__(
        self,
        labels: Mapping[str, LabelAccumulation],
        models: Mapping[str, str],
        config: config_pb2.EvalConfig,
        split: str,
    ) -> None:
        self.labels, self._paths = labels, models
        self._split, self._weight = split, tfma.weight_column(config)
        self._slicings = [list(spec.feature_keys) for spec in config.slicing_specs]
        self._columns = {self._weight}.union(*self._slicings)
        self._models: dict[str, Any] = {}

    @property
    def outputs(self) -> list[str]:
        return [output(what, task) for what in (ACCUMULATORS, RANKED) for task in self.labels]

    def setup(self) -> None:
        """Load the models."""
        for name, path in self._paths.items():
            calls = [label.calls[name] for label in self.labels.values()]
            self._models[name] = _asked(loaded_model(path, calls[0]), calls)

    def process(self, group: FileGroup) -> Iterator[TaggedOutput]:
        """Accumulate the files for every label, model and slice. Raises RunError if the models are not comparable."""
        for task, (found, ranked) in self.of_group(group).items():
            for key, accumulator in found:
                yield TaggedOutput(output(ACCUMULATORS, task), (key, (group.number, accumulator)))
            for what, one in ranked.items():
                yield TaggedOutput(output(RANKED, task), (what, (group.number, one)))

    def of_group(self, group: FileGroup) -> dict[str, Accumulated]:
        """What `process` returns of a group, by the label's name. Several threads may call it."""
        totals: dict[str, defaultdict[ModelSlice, RunningTotal]] = {
            task: defaultdict(RunningTotal) for task in self.labels
        }
        ranked: dict[str, dict[str, RankedExamples]] = {task: {} for task in self.labels}
        for batch in self._batches(group):
            for task, label in self.labels.items():
                for key, accumulator in label.accumulate(batch, self._models, ranked[task]):
                    totals[task][key].add(accumulator)
        return {
            task: ([(key, total.merged()) for key, total in totals[task].items()], ranked[task]) for task in self.labels
        }

    def _batches(self, group: FileGroup) -> Iterator[ExampleBatch]:
        for file in group.files:
            start, name = 0, zlib.crc32(Path(file).name.encode())
            rows, _ = rows_at_once(file)
            for block in serialized_blocks(file, rows):
                yield self._batch(block, (start, len(block), name))
                start += len(block)

    def _batch(self, block: RecordBlock, place: tuple[int, int, int]) -> ExampleBatch:
        """place: the arguments of `folds_of`."""
        records = block.records()
        columns = block.columns_named(self._columns)
        return ExampleBatch(
            tf.constant(records, tf.string),
            np.array(records, np.object_),
            folds_of(*place),
            mixed_positions(*place),
            [assign_slices(columns, names) for names in self._slicings],
            example_weights(columns, self._weight, self._split),
        )


def _asked(model: Any, calls: Sequence[ModelCall]) -> Any:
    """The model with the outputs alone that the calls of its labels take, if it was loaded so that it can."""
    if not isinstance(model, ServedModel) or any(call.why_not(model) for call in calls):
        return model
    preprocess, predict = calls[0].preprocessing_function_name, calls[0].signature_name
    inputs, outputs = model.signatures[predict].inputs, model.signatures[predict].structured_outputs
    names = {preprocess: {*inputs, *(call.label_key for call in calls)}}
    names[predict] = {*names.get(predict, ()), *(call.output_name(outputs) for call in calls)}
    return ServedModel({name: model.signatures[name].of(own) for name, own in names.items()})


def _not_comparable(path: str) -> str:
    return (
        f"the model {path} was made for another label, or has other classes or signatures, so it cannot be the"
        " baseline.\n"
        "  Delete blessed.json in the pipeline's folder, or give the pipeline another name."
    )


def accumulate_here(
    accumulate: AccumulateFiles, groups: Sequence[FileGroup], workers: int
) -> Callable[[str], Accumulated]:
    """What the Beam pipeline gathers of each label, by threads without Beam, by the label's name.

    What a group adds is merged at once, in the order of the groups, so the sums have the same rounding as there, and
    memory does not grow with the number of groups.
    """
    totals: dict[str, defaultdict[Any, RunningTotal]] = {task: defaultdict(RunningTotal) for task in accumulate.labels}
    ranked: dict[str, dict[str, RankedExamples]] = {task: {} for task in accumulate.labels}
    accumulate.setup()
    with ThreadPoolExecutor(workers) as pool:
        for of_group in pool.map(accumulate.of_group, groups):
            for task, (found, kept) in of_group.items():
                for key, one in found:
                    totals[task][key].add(one)
                keep(ranked[task], kept)
    return lambda task: ([(key, total.merged()) for key, total in totals[task].items()], ranked[task])


def keep(ranked: dict[str, RankedExamples], others: Mapping[str, RankedExamples]) -> None:
    """Add examples to those that are kept for the same."""
    for key, one in others.items():
        ranked[key] = ranked[key].merge([one]) if key in ranked else one


def merged(parts: Sequence[MetricAccumulator]) -> MetricAccumulator:
    """The total of accumulators, added up as `accumulate_here` does."""
    total = RunningTotal()
    for part in parts:
        total.add(part)
    return total.merged()


def merged_ranked(parts: Sequence[RankedExamples]) -> RankedExamples:
    """The first of all kept examples."""
    return parts[0].merge(parts[1:])


def example_weights(batch: pa.RecordBatch, column: str, split: str) -> Array:
    """The weights from the raw data column that `label.weight` names, float64 [rows]; ones if `column` is "".

    Raises RunError unless every example has one number that is finite and not negative.
    """
    if not column:
        return np.ones(batch.num_rows)
    weights = np.full(batch.num_rows, np.nan)
    position = batch.schema.get_field_index(column)
    if position >= 0 and not pa.types.is_null(batch.schema.types[position]):
        lists = batch.column(position)
        lengths, values = np.asarray(lists.value_lengths().fill_null(0)), lists.flatten()
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            weights[lengths == 1] = np.asarray(values, np.float64)[np.repeat(lengths == 1, lengths)]
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise RunError(
            f"label.weight: column {column!r}, split {split}: {np.sum(wrong):,} of {len(wrong):,} examples read at once"
            f" have no valid weight (the first is {weights[wrong][0]:g}). A weight must be a number from 0 up: correct"
            " the column, or fill it in"
        )
    return weights
