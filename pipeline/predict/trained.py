"""A model in this process that predicts tables at once, and is loaded as a whole only if more is asked of it.

model = TrainedModel(folder)
model.predict(frame)                    # loads one signature
model.signatures["serving_raw"]         # loads all of them, and whatever else `tf.saved_model.load` returns
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.environment import quiet
from headrace.configs.schema.predict import Probabilities
from headrace.pipeline.predict.scoring import Form, predict_table

if TYPE_CHECKING:
    import pyarrow as pa


class TrainedModel:
    """A SavedModel. All of its public attributes but `predict` are those of what `tf.saved_model.load` returns.

    The first use of one of them raises RunError if TensorFlow cannot load the model.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._whole: Any = None

    def predict(
        self,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        prefix: str = "",
        probabilities: Probabilities = "auto",
        batch_size: int | None = None,
    ) -> pa.Table:
        """The predictions for a pandas DataFrame, a pyarrow Table or {name: array}; see `headrace.predict`."""
        form = Form(columns=columns, prefix=prefix, probabilities=probabilities, batch_size=batch_size)
        return predict_table(self._folder, data, form)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a notebook asks for `_repr_html_` and the like, which should load nothing
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with self._lock:
            if self._whole is None:
                self._whole = _load(self._folder)
        return getattr(self._whole, name)

    def __repr__(self) -> str:
        return f"<Model {self._folder}>"


def _load(folder: Path) -> Any:
    with quiet():
        import tensorflow as tf

        from headrace.components.predict.model import not_loaded

        try:
            return tf.saved_model.load(str(folder))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise not_loaded(folder, error) from None
