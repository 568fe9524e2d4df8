"""`report:` what the report of a run shows of the data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.section import Section


class ReportConfig(Section):
    """What the report of a run shows of the data."""

    rows: Literal["none"] | Annotated[int, Field(ge=1, le=100)] = 10
    """How many rows of the evaluated split the report shows: those that the model predicts worst, with the values of
    the columns that it reads. none: for confidential data. No file of the evaluation has a row then, and the report has
    no values that may come from a single one: no extremes, medians or most frequent values of columns, no partial
    dependence, no values in anomalies, and no messages of records, of failures and of the canary. The names of slices
    and of classes stay."""

    @property
    def shows_rows(self) -> bool:
        """Whether it may show values of single rows."""
        return self.rows != "none"
