"""The answers of the model in memory, recorded by the Trainer, for the Canary to compare with those of the export.

record_answers(run_dir, signatures, eval_files, spec)        # the Trainer
recorded = RecordedAnswers.read(run_dir)                     # the Canary; None if there is no record

The record has what the model predicts for the first transformed examples of the eval split, and not the examples:
Transform keeps their order, so whoever has the raw ones finds them again. It is in the training's own folder, which is
not pushed.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.packing import Column, Feature
from headrace.trainer.input.reading import records_of
from headrace.trainer.input.transformed_columns import are_columns, column_files, open_columns
from headrace.trainer.signatures import Signatures

logger = logging.getLogger(__name__)

FILE_NAME = "answers.npz"
EXAMPLES, AT_ONCE = 128, 32
"""Examples that are asked at most, and in one call."""
MOST_VALUES = 1 << 20
"""No more examples are asked once there are so many numbers, as with the probabilities of all words."""
_SPLIT, _WHY_NOT, _OUTPUT = "split", "why_not", "output/"
"""Names of the arrays in the file; that of an output comes after `_OUTPUT`."""


@dataclass(frozen=True)
class RecordedAnswers:
    """What the model in memory answered.

    split: whose first examples it was asked, in the order of the files; outputs: those of `serving_default` by name,
    [examples, ...], texts as bytes with dtype object; why_not: why there are none.
    """

    split: str
    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    why_not: str = ""

    @property
    def examples(self) -> int:
        """How many examples were asked."""
        return len(next(iter(self.outputs.values()), ()))

    def write(self, folder: Path) -> None:
        """Write the file; the same answers give the same bytes."""
        arrays: dict[str, Any] = {_SPLIT: np.array(self.split), _WHY_NOT: np.array(self.why_not)}
        for name, array in self.outputs.items():
            arrays[f"{_OUTPUT}{name}"] = array.astype("S") if array.dtype == object else array
        np.savez_compressed(folder / FILE_NAME, **arrays)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The record in a training's folder; None if there is none, or another version wrote it."""
        try:
            with np.load(folder / FILE_NAME) as file:
                outputs = {name.removeprefix(_OUTPUT): file[name] for name in file.files if name.startswith(_OUTPUT)}
                split, why_not = str(file[_SPLIT]), str(file[_WHY_NOT])
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return None
        texts = {name: array.astype(object) if array.dtype.kind == "S" else array for name, array in outputs.items()}
        return cls(split, texts, why_not)


def record_answers(
    folder: Path, signatures: Signatures, patterns: Sequence[str], spec: Mapping[str, Feature], count: int = EXAMPLES
) -> None:
    """Ask the model in memory, layer by layer, without any of the graphs that are exported.

    Args:
        folder: of the training.
        signatures: of the model.
        patterns: of the files with the transformed examples of the eval split.
        spec: of the transformed examples.
        count: examples to ask at most.
    """
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(pattern))
    split = Path(files[0]).parent.name.removeprefix("Split-")
    examples = {name: column for name, column in _first(files, spec, count).items() if name in signatures.model_inputs}
    try:
        with _layer_by_layer(), tf.device("CPU"):
            answers = RecordedAnswers(split, _asked(signatures, examples))
    except Exception as error:  # layers of the user's may do what only a graph can
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        answers = RecordedAnswers(split, why_not=f"the model in memory did not answer: {reason}")
        logger.warning(f"{answers.why_not}; the Canary cannot compare the export with it")
    answers.write(folder)


def _asked(signatures: Signatures, examples: Mapping[str, Column]) -> dict[str, NDArray[Any]]:
    rows = next(iter(examples.values())).shape[0]
    parts: list[dict[str, NDArray[Any]]] = []
    for first in range(0, rows, AT_ONCE):
        features = {name: _rows(column, first, min(first + AT_ONCE, rows)) for name, column in examples.items()}
        parts.append({name: np.asarray(tensor) for name, tensor in signatures.answers(features).items()})
        if sum(array.size for part in parts for array in part.values()) > MOST_VALUES:
            break
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _rows(column: Column, first: int, last: int) -> Column:
    if isinstance(column, tf.SparseTensor):
        return tf.sparse.slice(column, [first, 0], [last - first, column.dense_shape[1]])
    return column[first:last]


@contextlib.contextmanager
def _layer_by_layer() -> Iterator[None]:
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _first(files: Sequence[str], spec: Mapping[str, Feature], count: int) -> Mapping[str, Column]:
    """The first transformed examples of a split, in the order of the files."""
    if not are_columns(files):
        records = itertools.chain.from_iterable(map(records_of, files))
        serialized = [record.numpy() for record in itertools.islice(records, count)]
        found: Mapping[str, Column] = tf.io.parse_example(tf.constant(serialized, tf.string), dict(spec))
        return found
    read, rows = list[str](), 0
    for file in column_files(str(Path(files[0]).parent)):
        read.append(file)
        rows += open_columns(file).num_rows
        if rows >= count:
            break
    return MappedRows(read, spec).unpack((tf.range(min(rows, count), dtype=tf.int64)[:, tf.newaxis],))
