"""What the evaluation says of single examples, and of what the predictions depend on, from a few kept examples."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow_model_analysis.proto import config_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.evaluation import tfma
from headrace.components.evaluation.examples import PAIRS, agreement, column_names, number_as_text, worst_examples
from headrace.components.evaluation.importance import MOST_EXAMPLES, REPEATS, Explainer
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import Array, LabelMetrics
from headrace.components.evaluation.metrics.regression import RegressionMetrics
from headrace.components.evaluation.ranked_examples import EXAMPLES, RankedExamples
from headrace.components.evaluation.result import Evaluation, Explanation, FeatureImportance, PartialDependence
from headrace.components.evaluation.screening import Plan, measured, planned
from headrace.components.evaluation.transformed_sample import TRANSFORMED, TransformedSample
from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.float64_columns import with_bits, without_bits
from headrace.components.served_graph import served_model
from headrace.configs.schema.evaluate import AUTO
from headrace.configs.schema.metrics import LOSSES
from headrace.trainer.description import ModelDescription
from headrace.trainer.served_model import ModelCall
from headrace.trainer.target import END

WORST, SAMPLE, PAIRED = "worst", "sample", "paired"
"""Which examples are kept: the worst-predicted ones, a sample with all columns, and one of numbers and their labels."""
MOST_NAMES = 12
"""Classes of an example that are named."""
TOP = 4
"""Columns whose partial dependence is computed."""


class Judged(NamedTuple):
    """Labels [n] or [n, classes], predictions [n, outputs] and weights [n] of examples that count."""

    labels: Array
    predictions: Array
    weights: Array


@dataclass(frozen=True)
class Explaining:
    """What to explain. rows: how many of the worst examples are shown; importance: on how many examples it is
    measured, or AUTO; none for 0.
    """

    rows: int
    importance: int

    def keep(
        self, judged: Judged, metrics: LabelMetrics, drawn: NDArray[np.uint64], examples: NDArray[Any]
    ) -> dict[str, RankedExamples]:
        """The examples of a batch to keep. drawn: random numbers, [n]; examples: serialized, [n]."""
        labels, predictions, weights = judged
        found: dict[str, RankedExamples] = {}
        if self.rows:
            losses = metrics.losses(labels, predictions)
            shown = {"label": labels, "prediction": metrics.predicted(predictions), "loss": losses}
            found[WORST] = RankedExamples.of(self.rows, -losses, {**shown, EXAMPLES: examples})
        if self.importance:
            most = MOST_EXAMPLES if self.importance == AUTO else self.importance
            found[SAMPLE] = RankedExamples.of(most, drawn, {"label": labels, "weight": weights, EXAMPLES: examples})
        if isinstance(metrics, RegressionMetrics):
            paired = {"label": labels, "prediction": predictions[:, 0], "weight": weights}
            found[PAIRED] = RankedExamples.of(PAIRS, drawn, paired)
        return {key: one for key, one in found.items() if len(one)}


def loaded_model(path: str, call: ModelCall) -> Any:
    """A SavedModel with the signatures of `call`, which all of a process share: a candidate and a baseline."""
    return _loaded(path, (call.preprocessing_function_name, call.signature_name, TRANSFORMED))


@functools.lru_cache(maxsize=2)
def _loaded(path: str, signatures: tuple[str, ...]) -> Any:
    with contextlib.suppress(ValueError, tf.errors.OpError):  # of which TensorFlow's loader says what is wrong
        if found := served_model(Path(path), signatures):
            return found
    return tf.saved_model.load(path)


def explain(
    evaluation: Evaluation, ranked: Mapping[str, RankedExamples], judge: Judge, settings: Explaining
) -> Evaluation:
    """The evaluation with what the kept examples show."""
    if PAIRED in ranked:
        evaluation = replace(evaluation, agreement=agreement(ranked[PAIRED]))
    if SAMPLE in ranked:
        evaluation = replace(evaluation, explanation=_explanation(ranked[SAMPLE], judge, settings))
    if WORST in ranked:
        important = dict.fromkeys(one.column for one in evaluation.explanation.importance)
        others = [name for name in judge.columns(ranked[WORST]) if name not in important]
        rows = worst_examples(ranked[WORST], [*important, *others], judge.class_name)
        evaluation = replace(evaluation, worst=rows)
    return evaluation


@dataclass(frozen=True)
class Judge:
    """The candidate with its metrics. described: None if a replaced Trainer exported it."""

    model: str
    call: ModelCall
    kind: str
    metrics: LabelMetrics
    described: ModelDescription | None
    task: str = ""

    @classmethod
    def of(cls, model: str, config: config_pb2.EvalConfig, task: str = "") -> Judge:
        """From the SavedModel's folder. task: the name of the label that is judged, if there are several."""
        kind = tfma.label_kind(config)
        spec = next(spec for spec in config.model_specs if not spec.is_baseline)
        try:
            described = ModelDescription.read(Path(model))
        except RunError:
            described = None
        metrics = metrics_of(kind, tfma.decision_threshold(config))
        return cls(model, tfma.model_call(spec), kind, metrics, described, task)

    @property
    def float64(self) -> tuple[str, ...]:
        """The data columns of which the model reads float64."""
        return self.described.float64 if self.described is not None else ()

    def columns(self, ranked: RankedExamples) -> list[str]:
        """The data columns that the model reads; if that is unknown, all but the label."""
        if self.described is not None:
            return list(self.described.features)
        return [name for name in column_names(ranked.columns[EXAMPLES]) if name != self.call.label_key]

    @property
    def class_name(self) -> Callable[[Any], str] | None:
        """What to call the number of a class, or a row with 1 for each of some classes; None for a predicted number."""
        if self.kind == "regression":
            return None
        described = self.described
        names = (described.words or described.label.parts[self.task].class_values) if described else ()
        other = "other words" if self.kind in ("next_word", "text") else ""

        def named(number: float) -> str:
            return str(names[int(number)]) if number < len(names) else other or number_as_text(number)

        if self.kind == "text":
            return lambda row: " ".join(named(number) for number in row if number > END)
        if self.kind == "multilabel":
            return lambda row: join_names(map(named, np.flatnonzero(row).tolist()), MOST_NAMES) or "none"
        return named

    def transformed(self, batch: pa.RecordBatch) -> TransformedSample | None:
        """A sample as the model takes it, if it can be had."""
        reads = self.described.reads if self.described is not None else {}
        return TransformedSample.of(loaded_model(self.model, self.call), self.call, reads, batch, self._serialized)

    def explainer(
        self, batch: pa.RecordBatch, labels: Array, weights: Array, transformed: TransformedSample | None
    ) -> Explainer:
        """One for a sample. transformed: the same sample, or None."""
        loaded = loaded_model(self.model, self.call)

        def predict(rows: pa.RecordBatch) -> Array:
            found = self.call.predictions(loaded, self._serialized(rows)).numpy()
            return np.asarray(found, np.float64).reshape(rows.num_rows, -1)

        def loss(predictions: Array) -> Array:
            return self.metrics.losses(labels, predictions)

        return Explainer(predict, loss, batch, weights, transformed)

    def _serialized(self, rows: pa.RecordBatch) -> tf.Tensor:
        """tf.Examples, string [rows]."""
        return tf.constant(encode(with_bits(rows, self.float64)).to_pylist(), tf.string)


def _explanation(ranked: RankedExamples, judge: Judge, settings: Explaining) -> Explanation:
    columns = judge.columns(ranked)
    labels, weights, serialized = (ranked.columns[name] for name in ("label", "weight", EXAMPLES))
    batch = without_bits(ExamplesToRecordBatchDecoder().DecodeBatch(serialized.tolist()), judge.float64)
    transformed = judge.transformed(batch)
    row_work = transformed.model.row_work if transformed else None
    own = Plan(min(len(ranked), settings.importance))
    plan = planned(len(columns), len(ranked), row_work) if settings.importance == AUTO else own
    if not plan.examples:
        long = f"the model reads {len(columns):,} columns, which would take long"
        return Explanation(note=f"{long}; set `evaluate.importance` to a number of examples")
    rows = plan.examples
    explainer = judge.explainer(
        batch.take(pa.array(np.arange(rows))), labels[:rows], weights[:rows], transformed and transformed.first(rows)
    )
    present = [name for name in columns if batch.schema.get_field_index(name) >= 0]
    try:
        found, screening = measured(explainer, present, plan)
        most = screening.most if screening else 0.0
        if not np.isfinite([most, *(figure for one in found for figure in (one.increase, one.error))]).all():
            return Explanation(note="predictions are not numbers")
        if screening and not found:
            blocks = f"no block of the {screening.columns:,} columns led to one that raises the loss"
            return Explanation(note=f"{blocks} on {plan.examples:,} examples when it is permuted")
        shown = settings.rows and judge.kind not in ("next_word", "text")
        dependence = _dependence(explainer, found, judge.kind) if shown else []
    except tf.errors.OpError as error:
        reason = str(error.message).splitlines()[0]
        return Explanation(note=f"the model refuses examples with values of other examples: {reason}")
    return Explanation(LOSSES[judge.kind], plan.examples, REPEATS, tuple(found), tuple(dependence), screening=screening)


def _dependence(explainer: Explainer, importance: Sequence[FeatureImportance], kind: str) -> list[PartialDependence]:
    """On the most important columns of those that have single values, as far as permuting them changes anything."""
    computed = (
        explainer.dependence(one.column, classes=kind != "regression") for one in importance if one.increase > 0
    )
    return list(itertools.islice((one for one in computed if one is not None), TOP))
