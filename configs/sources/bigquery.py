"""BigQuery."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.section import Name, Section


class BigquerySource(Section):
    """A table or a query of BigQuery, read in parallel through its Storage Read API, with the credentials that Google's
    own tools use (`gcloud auth application-default login`, or GOOGLE_APPLICATION_CREDENTIALS).

    Types are as for Parquet: NUMERIC and BIGNUMERIC are float, unless `data.types` says string, which keeps all their
    digits; repeated columns are multi-valued; records (STRUCT) need a query that names their fields. All streams show
    the table as it was at one moment. BigQuery decides which rows each stream gets, so another run may put the same
    rows into other places of the shards, though never into another split. Views and external tables are read by a
    query.

    What has been tried: the requests and the reading, against servers on this machine that speak the two APIs by
    Google's own client types. What has not, for want of an account: credentials, rights, quotas, the sizes and numbers
    of real streams, streams that live for hours, and BigQuery's own messages.
    """

    kind: Literal["bigquery"]
    """`bigquery`."""
    project: Name
    """The project that pays for the reading."""
    table: Name | None = None
    """The table to read: `project.dataset.table` or `dataset.table`; it is read again when its time of change is
    another. Give this or `query`."""
    query: Name | None = None
    """The query to read, in GoogleSQL. It runs in each run, as a job that writes a temporary table; where nothing has
    changed, BigQuery answers from its cache."""
    row_filter: Name | None = None
    """Rows of the table to read, as in a WHERE clause; null: all."""
    location: Name | None = None
    """Where the query's job runs, such as `EU`; null: where its data lies."""
    streams: Annotated[int, Field(gt=0, le=64)] = 16
    """Streams at most; BigQuery may give fewer."""

    @model_validator(mode="after")
    def _one_thing_to_read(self) -> BigquerySource:
        if (self.table is None) == (self.query is None):
            raise ValueError("give either `table` or `query`")
        if self.row_filter is not None and self.table is None:
            raise ValueError("`row_filter` goes with `table`; a query has its own WHERE")
        if self.location is not None and self.query is None:
            raise ValueError("`location` goes with `query`; a table is where it is")
        return self
