"""Convert a model to LiteRT's format, and run the file with LiteRT's interpreter.

content = convert(device, "int8", device.feeds(features))
predictions = LiteModel(content)(device.feeds(features))        # float32 [batch, outputs]
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.lite.python.convert_phase import ConverterError

from headrace.components.lite.graph import Arrays, DeviceModel, NotConvertedError
from headrace.configs.schema.deploy import LitePrecision
from headrace.trainer.served_model import PREDICTIONS

_MISSING = re.compile(r"^(?:TF Select|Custom) ops: (.+)$", re.MULTILINE)
_LONGEST = 200


def convert(device: DeviceModel, precision: LitePrecision, representative: Arrays) -> bytes:
    """The content of a `.tflite` file, of LiteRT's built-in operations alone. Raises NotConvertedError.

    representative: inputs from whose values the ranges of the 8-bit numbers follow. All are fed at once, as the
    converter fixes the shape of the first ones.
    """
    converter = tf.lite.TFLiteConverter.from_concrete_functions([device.function], device.owner)
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if precision == "int8":
        converter.representative_dataset = lambda: iter([dict(representative)])
    try:
        with _quiet():
            return bytes(converter.convert())
    except (ConverterError, RuntimeError, ValueError) as error:
        raise NotConvertedError(_why(str(error))) from None


class LiteModel:
    """A converted model in LiteRT's interpreter, on the CPU. Raises NotConvertedError if it cannot run."""

    def __init__(self, content: bytes) -> None:
        with _quiet():
            self._interpreter = tf.lite.Interpreter(model_content=content)
        self._predict = self._interpreter.get_signature_runner()

    @property
    def operations(self) -> list[str]:
        """The kinds of operations in it, sorted."""
        return sorted({one["op_name"] for one in self._interpreter._get_ops_details()} - {"DELEGATE"})

    def __call__(self, feeds: Arrays) -> NDArray[np.float32]:
        """The predictions, [batch, outputs]."""
        try:
            found: NDArray[np.float32] = self._predict(**feeds)[PREDICTIONS]
        except (RuntimeError, ValueError) as error:
            raise NotConvertedError(f"the converted model cannot run: {_first_line(str(error))}") from None
        return found


class _quiet(warnings.catch_warnings):  # noqa: N801 - a context manager
    """Without the warning that the interpreter will move to another package."""

    def __enter__(self) -> Any:
        found = super().__enter__()
        warnings.simplefilter("ignore")
        return found


def _why(error: str) -> str:
    """The operations that LiteRT does not have, or else what the converter says."""
    missing = sorted({name for found in _MISSING.findall(error) for name in found.split(", ")})
    if missing:
        return f"it cannot be converted: LiteRT has no operation {', '.join(missing)}"
    return f"it cannot be converted: {_first_line(error)}"


def _first_line(text: str) -> str:
    line = next(_lines(text), "the converter does not say why")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())
