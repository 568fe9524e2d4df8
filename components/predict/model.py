"""Predictions of an exported model for batches of columns, and the columns that they become.

    predictor = Predictor(folder, description)
    values = predictor(batch)                       # float32 [rows, outputs], of the model's own signature
    columns = PredictionColumns(description.label)  # `prediction`, then `probability_<class>` for each class or word
                                                    # (the former alone for a number and for a text)
    columns.of(values)

The batch goes through the signature that model servers call, loaded [as they load it](serving_graph.py), as what its
parser would make of the tf.Examples that ExampleGen would write ([parsed.py](parsed.py)); if the signature parses them
in another way, as these examples. So what is computed here is what is served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.errors import DataError, RunError
from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.float64_columns import with_bits
from headrace.components.failed_checks import reason_of, without_location
from headrace.components.predict.call_size import rows_per_call
from headrace.components.predict.serving_graph import LoadedSignature, load
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.predict import Probabilities
from headrace.trainer.description import ModelDescription
from headrace.trainer.served_model import ModelCall, task_output
from headrace.trainer.tasks import tasks_of

MAX_CLASSES = 10_000
"""The most classes or words that get a column each by default: 40 KB of float32 a row, some 400 KB of JSON."""

PREDICTION, PROBABILITY = "prediction", "probability"
LIKELY = 0.5
"""The probability above which a class of a binary or multilabel label is predicted, as the Evaluator's default is."""
JOINERS = ("|", ";", ",", "\n")
"""What may stand between the classes of an example in one text: the first that no class contains."""
Values = NDArray[Any]
"""float32, or texts as objects of type `bytes`: [rows, outputs]."""


@dataclass(frozen=True)
class PredictionColumns:
    """The columns that a model's predictions become.

    label: what the model predicts; words: of a next_word label; prefix: precedes the names; joined: whether several
    classes of an example are one text instead of a list; probabilities: which of them, as in `PredictConfig`.
    """

    label: LabelConfig
    words: Sequence[str] = ()
    prefix: str = ""
    joined: bool = False
    probabilities: Probabilities = "auto"

    @classmethod
    def by(
        cls,
        model: ModelDescription,
        prefix: str = "",
        *,
        joined: bool = False,
        probabilities: Probabilities = "auto",
    ) -> PredictionColumns:
        return cls(model.label, model.words, prefix, joined, probabilities)

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types."""
        return self.of(self.no_rows).schema

    @property
    def no_rows(self) -> Values:
        """Predictions [0, width]."""
        return np.zeros((0, self.width), object if self.label.kind == "text" else np.float32)

    @property
    def width(self) -> int:
        """How many values the model predicts for each example."""
        return len(self.words) + 1 if self.label.kind == "next_word" else self.label.num_classes

    def of(self, values: Values) -> pa.RecordBatch:
        """Predictions [rows, width] as columns; of several labels, those of each task prefixed with its name."""
        if self.label.tasks is not None:
            return self._of_tasks(values)
        kind = self.label.kind
        if kind in ("regression", "text"):
            columns = {PREDICTION: pa.array(values[:, 0], pa.float32() if kind == "regression" else pa.string())}
        else:
            columns = self._classes(values)
        return pa.RecordBatch.from_pydict({f"{self.prefix}{name}": column for name, column in columns.items()})

    def _of_tasks(self, values: Values) -> pa.RecordBatch:
        found: dict[str, pa.Array] = {}
        for task in tasks_of(self.label):
            own = replace(self, label=task.label, prefix=f"{self.prefix}{task_output(task.name, '')}")
            batch = own.of(values[:, task.output_slice])
            found |= dict(zip(batch.schema.names, batch.columns, strict=True))
        return pa.RecordBatch.from_pydict(found)

    def _classes(self, values: Values) -> dict[str, pa.Array]:
        kind = self.label.kind
        if kind == "binary":
            values = np.column_stack([np.float32(1) - values[:, 0], values[:, 0]])
            best = (values[:, 1] > LIKELY).astype(np.int64)
        elif kind == "next_word":
            values = values[:, : len(self.words)]  # the last is for all other words
            best = values.argmax(axis=1)
        else:
            best = values.argmax(axis=1)
        chosen = self._likely(values > LIKELY) if kind == "multilabel" else self._names.take(pa.array(best))
        return {PREDICTION: chosen, **self._probabilities(values)}

    def _likely(self, chosen: NDArray[np.bool_]) -> pa.Array:
        """The chosen classes of each row (bool [rows, classes]): lists, or texts if they are joined."""
        ends = np.concatenate([[0], chosen.sum(axis=1).cumsum()]).astype(np.int32)
        classes = self._names.take(pa.array(np.nonzero(chosen)[1]))
        if not self.joined:
            return pa.ListArray.from_arrays(pa.array(ends), classes)
        texts = pa.ListArray.from_arrays(pa.array(ends), classes.cast(pa.string()))
        return pc.binary_join(texts, self._separator)

    @property
    def _separator(self) -> str:
        """What joins classes: what divides the label's, or else a mark that none contains."""
        within = "".join(map(str, self.label.class_values))
        return self.label.separator or next((mark for mark in JOINERS if mark not in within), JOINERS[0])

    def _probabilities(self, values: Values) -> dict[str, pa.Array]:
        """What is written of the probabilities [rows, classes]."""
        chosen = self.probabilities
        if chosen == "auto":
            chosen = "all" if values.shape[1] <= MAX_CLASSES or self.label.kind == "multilabel" else "best"
        if chosen == "best":
            return {PROBABILITY: pa.array(values.max(axis=1, initial=0.0))}
        names = self._names.to_pylist() if chosen == "all" else []
        columns = np.ascontiguousarray(values.T)
        return {f"{PROBABILITY}_{name}": pa.array(columns[number]) for number, name in enumerate(names)}

    @cached_property
    def _names(self) -> pa.Array:
        """The classes in the order of the predictions: int64 or string."""
        return pa.array(self.words or self.label.class_values)


class RefusedRecordError(DataError):
    """A record that the model refuses.

    Args:
        reason: why.
        row: its place among the rows that were given, from 0.
    """

    def __init__(self, reason: str, row: int) -> None:
        self.reason, self.row = reason, row
        super().__init__(f"the model cannot predict record {row + 1:,}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.row)

    def at(self, record: str, file: str | None) -> DataError:
        """The same error, with where the data has the record."""
        return DataError(f"the model cannot predict {record}: {self.reason}", file=file)


@dataclass(frozen=True)
class Predictor:
    """A model that predicts batches of columns.

    folder: the SavedModel; description: its own; batch_size: the most examples in a call, None to choose. It can be
    pickled; a process loads the model when it first predicts.
    """

    folder: Path
    description: ModelDescription
    batch_size: int | None = None
    _call: ModelCall = field(init=False)

    def __post_init__(self) -> None:
        model = self.description
        call = ModelCall(model.label.columns[0], model.signature, model.preprocessing, model.prediction_key)
        object.__setattr__(self, "_call", call)

    def load(self) -> None:
        """Load the model into this process. Raises RunError if that fails."""
        _loaded(self.folder, self._call)

    def __call__(self, batch: pa.RecordBatch) -> Values:
        """The predictions [rows, outputs] for the columns that the model reads.

        Raises RefusedRecordError for the first record that the model refuses, and RunError for a model that cannot be
        loaded or called.
        """
        if not batch.num_rows:
            return PredictionColumns.by(self.description).no_rows
        rows = with_bits(batch, self.description.float64)
        most = self.rows_per_call(rows.nbytes // rows.num_rows)
        found = [self._predict(rows.slice(at, most), at) for at in range(0, rows.num_rows, most)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def rows_per_call(self, length: int) -> int:
        """The most rows in a call, whose features have about `length` bytes each. Raises RunError as `load` does."""
        if self.batch_size is not None:
            return self.batch_size
        loaded = _loaded(self.folder, self._call)
        widest = loaded.values_per_row if isinstance(loaded, LoadedSignature) else None
        return rows_per_call(widest, length, PredictionColumns.by(self.description).width)

    def _predict(self, rows: pa.RecordBatch, first: int) -> Values:
        """first: the place of the first row among all that were given."""
        try:
            return self._run(rows)
        except tf.errors.InvalidArgumentError as error:
            row = self._refused(rows)
            own = self._error(rows.slice(row, 1))
            if own is None:
                raise RunError(f"the model {self.folder} cannot be called: {reason_of(str(error.message))}") from None
            raise RefusedRecordError(reason_of(str(own.message)), first + row) from None

    def _refused(self, rows: pa.RecordBatch) -> int:
        """The first row that the model refuses, by halving; the last if it refuses none alone."""
        start, count = 0, rows.num_rows
        while count > 1:
            half = count // 2
            if self._error(rows.slice(start, half)):
                count = half
            else:
                start, count = start + half, count - half
        return start

    def _error(self, rows: pa.RecordBatch) -> tf.errors.InvalidArgumentError | None:
        try:
            self._run(rows)
        except tf.errors.InvalidArgumentError as error:
            return error
        return None

    def _run(self, rows: pa.RecordBatch) -> Values:
        loaded = _loaded(self.folder, self._call)
        found = loaded.of_columns(rows) if isinstance(loaded, LoadedSignature) else None
        if found is None:
            found = loaded(tf.constant(encode(rows).to_numpy(zero_copy_only=False)))
        values = found.numpy()
        return np.asarray(values, object if values.dtype == object else np.float32).reshape(rows.num_rows, -1)


@lru_cache(maxsize=1)
def _loaded(folder: Path, call: ModelCall) -> Callable[[tf.Tensor], tf.Tensor]:
    """What predicts serialized examples."""
    try:
        return load(folder, call) or partial(call.predictions, tf.saved_model.load(str(folder)))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise not_loaded(folder, error) from None


def not_loaded(folder: Path, error: Exception) -> RunError:
    """What to raise where TensorFlow cannot load a model."""
    reason = without_location(str(error)).removesuffix(".")
    return RunError(
        f"{folder} is not a SavedModel that TensorFlow can load: {reason}.\n  Copy the model again from where it was"
        " exported; `headrace models` lists the versions of a config."
    )
