"""BigQuery."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from configs.section import Name, Section


class BigquerySource(Section):
    """A query or a table of BigQuery, read through its Storage Read API."""

    kind: Literal["bigquery"]
    """`bigquery`."""
    project: Name
    """The project that pays for the reading."""
    table: Name | None = None
    """The table to read: `project.dataset.table` or `dataset.table`. Give this or `query`."""
    query: Name | None = None
    """The query to read, in GoogleSQL."""
    row_filter: Name | None = None
    """Rows of the table to read, as in a WHERE clause; null: all."""

    @model_validator(mode="after")
    def _one_thing_to_read(self) -> BigquerySource:
        if (self.table is None) == (self.query is None):
            raise ValueError("give either `table` or `query`")
        if self.row_filter is not None and self.table is None:
            raise ValueError("`row_filter` goes with `table`; a query has its own WHERE")
        return self
