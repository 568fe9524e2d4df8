"""What the tests of models of texts ask of their one run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tensorflow as tf
from command import Finished, versions

from headrace.components.evaluation.result import Evaluation, read_evaluation


@dataclass(frozen=True)
class TextRun:
    """One run, and the only version that it pushed."""

    folder: Path
    done: Finished

    @cached_property
    def evaluation(self) -> Evaluation:
        return read_evaluation(self.done.uri("Evaluator", "evaluation"))

    @cached_property
    def version(self) -> Path:
        (number,) = versions(self.folder)
        return next((self.folder / "serving").rglob(number))

    def serialized(self, split: str) -> list[bytes]:
        """The examples of a split, as ExampleGen wrote them."""
        files = sorted(map(str, (self.done.uri("ExampleGen", "examples") / f"Split-{split}").iterdir()))
        return [record.numpy() for record in tf.data.TFRecordDataset(files, "GZIP")]
