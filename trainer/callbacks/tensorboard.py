"""TensorBoard logs: the metrics of each epoch as scalars, and the weights at its end as histograms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework.summary_pb2 import DATA_CLASS_SCALAR, DATA_CLASS_TENSOR, Summary, SummaryMetadata
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.framework.types_pb2 import DT_DOUBLE

BUCKETS = 30
"""Number of buckets of a histogram."""
MAX_VALUES = 1_000_000
"""Maximum number of values of a weight that are counted; of a larger weight, this many at equal distances."""
HISTOGRAM = SummaryMetadata(
    plugin_data=SummaryMetadata.PluginData(plugin_name="histograms"), data_class=DATA_CLASS_TENSOR
)
"""Makes TensorBoard show a tensor of [bucket, (left edge, right edge, count)] as a histogram."""
SCALAR = SummaryMetadata(
    plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"), data_class=DATA_CLASS_SCALAR
).SerializeToString()
"""Makes TensorBoard show a tensor as a curve."""


class Scalars(keras.callbacks.Callback):
    """Writes to `train` and `validation` in the directory, with the names that Keras' own callback uses.

    It only needs TensorFlow: Keras' callback needs the tensorboard package, and its profiler costs a second.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._written: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Write the epoch's metrics, as `epoch_loss` and so on; epochs count from 0, as in Keras."""
        self._write(epoch, logs)
        with self._writer("train").as_default():
            write_weights(self.model, epoch)
        for writer in self._writers.values():
            writer.flush()

    def _write(self, epoch: int, logs: Mapping[str, float] | None) -> None:
        self._written.append({name: float(value) for name, value in (logs or {}).items()})
        for name, value in (logs or {}).items():
            split = "validation" if name.startswith("val_") else "train"
            with self._writer(split).as_default():
                tag = f"epoch_{name.removeprefix('val_')}"
                tf.summary.write(tag, tf.constant(value, tf.float32), epoch, SCALAR)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()

    def state(self) -> dict[str, Any]:
        return {"epochs": self._written}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint.

        The resumed run writes to a directory of its own, and shows the earlier epochs as well, without the histograms.
        """
        self._written = []
        for epoch, logs in enumerate(state["epochs"]):
            self._write(epoch, logs)

    def _writer(self, split: str) -> tf.summary.SummaryWriter:
        if split not in self._writers:
            self._writers[split] = tf.summary.create_file_writer(str(self._directory / split))
        return self._writers[split]


def write_weights(model: keras.Model, step: int) -> None:
    """Write a histogram of each trainable weight to the default writer, under the weight's path.

    All of them are one event, which takes a third of the time.
    """
    summary = Summary()
    for weight in model.trainable_variables:
        if "float" in str(weight.dtype):
            counted = histogram(np.asarray(keras.ops.convert_to_numpy(weight), np.float32))
            value = summary.value.add(tag=f"weights/{_tag(weight.path)}", metadata=HISTOGRAM)
            value.tensor.CopyFrom(_tensor(counted))
    tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step)


def _tensor(array: NDArray[np.float64]) -> TensorProto:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in array.shape])
    return TensorProto(dtype=DT_DOUBLE, tensor_shape=shape, tensor_content=array.astype("<f8").tobytes())


def histogram(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """[buckets, 3]: left edge, right edge and count of BUCKETS buckets of equal width, ignoring non-finite values.

    A single bucket if all values are equal, none if there are no values.
    """
    flat = values.reshape(-1)[:: -(-values.size // MAX_VALUES) or 1].astype(np.float64)
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return np.zeros((0, 3))
    low, high = flat.min(), flat.max()
    if low == high:
        return np.array([[low, high, flat.size]])
    counts, edges = np.histogram(flat, BUCKETS, (low, high))
    return np.stack([edges[:-1], edges[1:], counts], axis=1)


def _tag(path: str) -> str:
    """The path with only the characters that TensorBoard's tags allow."""
    return re.sub(r"[^\w./-]", "_", path)
