"""The artifact that BulkPredictor writes."""

from __future__ import annotations

from tfx.types.artifact import Artifact


class Predictions(Artifact):
    """One file, `predictions` with the ending of its format; no file if there was no model to predict with.

    Custom properties: `rows` and `skipped_rows` (record.py).
    """

    TYPE_NAME = "Predictions"
