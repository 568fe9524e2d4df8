"""What predictions of new data are called where they are stored, and the record of their publication."""

from __future__ import annotations

from pydantic import BaseModel

FILE = "predictions"
"""The name of the file in the artifact, without its ending."""
ROWS, SKIPPED = "rows", "skipped_rows"
"""Custom properties of the artifact: how many rows were predicted, and how many could not be read."""
NO_MODEL = "no model is blessed yet, so nothing is predicted"


class PublishedPredictions(BaseModel, frozen=True, extra="forbid"):
    """What PublishPredictions has done.

    Args:
        output: the file with the predictions; None if there are none, as there is no model.
        rows: how many rows it has.
        skipped: how many rows of the input could not be read.
        version: the pushed version of the model that predicted them; None if it is not in `deploy.push`.
        model: the URI of that model.
        spans: the names of the spans that were predicted.
        changed: whether the file was written; False if it had these predictions already, or was left.
        later: the version that came into service while these were predicted, for which the file was left; else None.
    """

    output: str | None = None
    rows: int = 0
    skipped: int = 0
    version: str | None = None
    model: str | None = None
    spans: tuple[str, ...] = ()
    changed: bool = False
    later: str | None = None

    @property
    def words(self) -> str:
        """What was predicted by which version."""
        if self.output is None:
            return NO_MODEL
        spans = f" of {self.spans[0]}" if len(self.spans) == 1 else f" of {len(self.spans)} spans" if self.spans else ""
        left_out = f", {self.skipped:,} unreadable ones left out" if self.skipped else ""
        by = f"version {self.version}" if self.version else "the newest blessed model, which is not pushed"
        left = f"; not published, as version {self.later} came into service meanwhile" if self.later else ""
        return f"{self.rows:,} rows{spans} by {by}{left_out}{left}"
