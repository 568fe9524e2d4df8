"""TensorBoard logs: each epoch's metrics as scalars, and the weights at its end as histograms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.framework.summary_pb2 import DATA_CLASS_SCALAR, SummaryMetadata

from headrace.trainer.callbacks.histograms import write_weights

METADATA = SummaryMetadata(
    plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"), data_class=DATA_CLASS_SCALAR
).SerializeToString()
"""What makes TensorBoard show a tensor as a curve."""


class Scalars(keras.callbacks.Callback):
    """Writes into `train` and `validation` under the directory, as Keras' own callback does, under the same names.

    Written with TensorFlow alone: Keras' callback needs the tensorboard package, and its profiler costs a second.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._written: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Write the epoch's metrics, as `epoch_loss` and so on; the epochs count from 0, as Keras has it."""
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
                tf.summary.write(f"epoch_{name.removeprefix('val_')}", tf.constant(value, tf.float32), epoch, METADATA)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Close the files."""
        for writer in self._writers.values():
            writer.close()

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"epochs": self._written}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint: another run writes into a directory of its own, and shows the earlier epochs too,
        without the histograms.
        """
        self._written = []
        for epoch, logs in enumerate(state["epochs"]):
            self._write(epoch, logs)

    def _writer(self, split: str) -> tf.summary.SummaryWriter:
        if split not in self._writers:
            self._writers[split] = tf.summary.create_file_writer(str(self._directory / split))
        return self._writers[split]
