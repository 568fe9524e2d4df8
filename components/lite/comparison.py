"""Convert a SavedModel to LiteRT's format, and compare the two on real examples.

verdict, content = examine(serving_dir, LiteConfig(precision="int8"), evaluated, representative)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.checksums import checksum
from headrace.components.canary.inputs import texts
from headrace.components.canary.signatures import TRANSFORMED, Inputs, make_inputs, read_signatures
from headrace.components.lite.convert import LiteModel, convert
from headrace.components.lite.graph import DeviceModel, NotConvertedError
from headrace.components.lite.verdict import MODEL_FILE, LiteInput, LiteVerdict
from headrace.configs.schema.deploy import LiteConfig
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.description import ModelDescription
from headrace.trainer.served_model import PREDICTIONS

SURE = 0.5
"""The probability from which a class counts as predicted."""
BATCH = 256
"""The most examples in one call of the interpreter."""


def examine(
    model: Path, lite: LiteConfig, evaluated: Sequence[bytes], representative: Sequence[bytes], folder: Path
) -> LiteVerdict:
    """Write the `.tflite` file into a folder, unless the model cannot be converted; returns what there is to say of it.

    model: folder of the SavedModel; evaluated, representative: serialized tf.Examples.
    """
    verdict = LiteVerdict(
        precision=lite.precision,
        saved_model_size=_size(model),
        max_difference=lite.max_difference,
        min_agreement=lite.min_agreement,
    )
    try:
        return _Comparison(model, lite).verdict(verdict, evaluated, representative, folder)
    except NotConvertedError as error:
        return verdict.model_copy(update={"reasons": (str(error),)})


class Differences(NamedTuple):
    """Between two arrays of predictions [examples, outputs]; see LiteVerdict. unknown: examples without a number."""

    largest: float
    difference: float
    mean: float
    agreement: float | None
    unknown: int


def compare(expected: NDArray[Any], found: NDArray[Any], label: LabelConfig) -> Differences:
    """Compare predictions; those of `expected` that are not finite are not compared."""
    finite = np.isfinite(expected)
    unknown = int((finite & ~np.isfinite(found)).any(axis=1).sum())
    apart = np.abs(expected.astype(np.float64) - found)[finite & np.isfinite(found)]
    largest = float(np.abs(expected[finite]).max(initial=0.0))
    scale = largest or 1.0
    agreement = None if label.kind == "regression" else _agreement(expected, found, label)
    mean = float(apart.mean()) / scale if apart.size else 0.0
    return Differences(largest, float(apart.max(initial=0.0)) / scale, mean, agreement, unknown)


def _agreement(expected: NDArray[Any], found: NDArray[Any], label: LabelConfig) -> float:
    """The fraction of the examples with the same class as the Evaluator's accuracy has it, or with the same classes."""
    if label.kind == "multilabel" or expected.shape[1] == 1:
        return float(np.mean(((expected > SURE) == (found > SURE)).all(axis=1)))
    return float(np.mean(expected.argmax(axis=1) == found.argmax(axis=1)))


class _Comparison:
    """A model in both formats."""

    def __init__(self, model: Path, lite: LiteConfig) -> None:
        self._lite, self._description = lite, ModelDescription.read(model)
        self._loaded = tf.saved_model.load(str(model))
        self._device = DeviceModel.of(self._loaded)
        self._signature = read_signatures(model)[TRANSFORMED]

    def verdict(
        self, verdict: LiteVerdict, evaluated: Sequence[bytes], representative: Sequence[bytes], folder: Path
    ) -> LiteVerdict:
        ranges = self._features(representative) if self._lite.precision == "int8" else {}
        content = convert(self._device, self._lite.precision, self._device.feeds(ranges) if ranges else {})
        (folder / MODEL_FILE).write_bytes(content)
        converted = LiteModel(content)
        expected, predicted = map(np.concatenate, zip(*self._predictions(converted, evaluated), strict=True))
        found = compare(expected, predicted, self._description.label)
        return verdict.model_copy(
            update={
                "reasons": tuple(self._reasons(found)),
                "contents": checksum(folder / MODEL_FILE),
                "size": len(content),
                "inputs": tuple(
                    LiteInput(name=name, dtype=spec.dtype.name, shape=tuple(spec.shape[1:]))
                    for name, spec in self._device.inputs.items()
                ),
                "outputs": expected.shape[1],
                "operations": tuple(converted.operations),
                "examples": len(evaluated),
                "representative": len(representative) if ranges else 0,
                "largest": found.largest,
                "difference": found.difference,
                "mean_difference": found.mean,
                "agreement": found.agreement,
            }
        )

    def _features(self, examples: Sequence[bytes]) -> Inputs:
        return make_inputs(self._signature, self._loaded, texts(examples), self._description).inputs

    def _predictions(
        self, converted: LiteModel, examples: Sequence[bytes]
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Those of the SavedModel and of the file, for one example as a device asks, and then for batches."""
        predict = self._loaded.signatures[TRANSFORMED]
        for batch in _batches(examples):
            features = self._features(batch)
            expected = predict(**{name: tf.constant(array) for name, array in features.items()})[PREDICTIONS].numpy()
            yield expected, converted(self._device.feeds(features))

    def _reasons(self, found: Differences) -> Iterator[str]:
        lite = self._lite
        if found.unknown:
            yield f"it predicts no number for {found.unknown:,} examples for which the SavedModel does"
        if lite.max_difference is not None and found.difference > lite.max_difference:
            yield (
                f"the predictions of the {lite.precision} file differ from the SavedModel's by up to"
                f" {found.difference:.3g}; deploy.lite.max_difference allows {lite.max_difference:g}"
            )
        if lite.min_agreement is not None and found.agreement is not None and found.agreement < lite.min_agreement:
            yield (
                f"the {lite.precision} file predicts the SavedModel's class for {100 * found.agreement:.4g}% of the"
                f" examples; deploy.lite.min_agreement asks for {100 * lite.min_agreement:.4g}%"
            )


def _batches(examples: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    yield examples[:1]
    yield from (examples[start : start + BATCH] for start in range(1, len(examples), BATCH))


def _size(model: Path) -> int:
    """Bytes of the graph and the weights, without assets and the files for training again."""
    files = [model / "saved_model.pb", *(model / "variables").glob("*")]
    return sum(file.stat().st_size for file in files if file.is_file())
