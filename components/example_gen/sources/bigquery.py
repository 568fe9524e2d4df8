"""Tables and queries of BigQuery, by its Storage Read API.

A read session shows a table as it was when the session was made, in streams that are read independently of each other;
each is a part. It is the API behind Beam's ReadFromBigQuery(method=DIRECT_READ); here its record batches go straight
on as columns, where Beam would make a dictionary of each row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.components.example_gen.bigquery import clients
from headrace.components.example_gen.columnar.fit import cut, fit
from headrace.components.example_gen.columnar.stored import UnfitError, stored_kind
from headrace.components.example_gen.sources.base import Reading, Spread, Survey
from headrace.components.example_gen.storage import UNKNOWN, FileState
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError
from headrace.configs.sources import BigquerySource


@dataclass(frozen=True)
class Stream:
    """A stream of a read session: its name, the Arrow schema as bytes, and BigQuery's estimates of rows and bytes."""

    name: str
    schema: bytes
    rows: int
    size: int


@dataclass(frozen=True)
class BigqueryRows:
    """The rows of one config."""

    source: BigquerySource
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: BigquerySource, files: Sequence[str] | None, reading: Reading) -> BigqueryRows:  # noqa: ARG003
        """Nothing is opened yet."""
        return cls(source, reading)

    @classmethod
    def state(cls, source: BigquerySource) -> list[FileState]:
        """Of a table its size and when it was changed; a query is never known to give the same again."""
        if source.table is None:
            return [FileState(_label(source), UNKNOWN, uuid.uuid4().hex)]
        with clients.telling(_label(source)):
            table = clients.rest(source.project).get_table(_table(source))
        if table.modified is None or table.table_type not in {"TABLE", "SNAPSHOT"}:
            raise DataError(
                f"is of the type {table.table_type}, which the Storage Read API does not read",
                file=_label(source),
                hint="Read it by a query: `query: SELECT * FROM ...`",
            )
        return [FileState(_label(source), table.num_bytes or 0, table.modified.isoformat())]

    def __getstate__(self) -> dict[str, Any]:
        """Without the session, which the parts name."""
        return {"source": self.source, "reading": self.reading}

    def columns(self) -> list[str]:
        """Asks BigQuery: of a query by a dry run, which costs nothing."""
        from google.cloud.bigquery import QueryJobConfig

        with clients.telling(_label(self.source)):
            client = clients.rest(self.source.project)
            if self.source.table is not None:
                schema = client.get_table(_table(self.source)).schema
            else:
                dry = QueryJobConfig(dry_run=True, use_query_cache=False)
                schema = client.query(self.source.query, job_config=dry, location=self.source.location).schema
        return self.reading.chosen([column.name for column in schema])

    def parts(self, spread: Spread) -> list[Stream]:  # noqa: ARG002 - BigQuery cuts the table
        """The streams of one session; of a query, over the table that its job wrote."""
        return self._streams

    def survey(self, part: Stream, declared: Mapping[str, Kind]) -> Survey:
        """From the session's schema and estimates: nothing is read."""
        kinds: dict[str, Kind] = {}
        for column in pa.ipc.read_schema(pa.py_buffer(part.schema)):
            try:
                kinds[column.name] = declared.get(column.name) or stored_kind(column.type)
            except UnfitError as error:
                hint = "Read its fields by a query, or leave the column out of `data.columns`"
                raise DataError(str(error), file=_label(self.source), column=column.name, hint=hint) from None
        return Survey({_label(self.source): part.rows}, part.size, kinds)

    def batches(self, part: Stream, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The stream's own record batches. Google's client goes on by itself where a connection breaks off."""
        schema = pa.ipc.read_schema(pa.py_buffer(part.schema))
        seen = 0
        with clients.telling(_label(self.source)):
            for response in clients.storage().read_rows(part.name):
                packed = response.arrow_record_batch.serialized_record_batch
                batch = pa.ipc.read_record_batch(pa.py_buffer(packed), schema)
                if batch.num_rows != response.row_count:
                    raise DataError(
                        f"a batch of {response.row_count} rows holds {batch.num_rows}", file=_label(self.source)
                    )
                yield from cut(self._fitted(batch, kinds, seen))
                seen += batch.num_rows

    def _fitted(self, batch: pa.RecordBatch, kinds: Mapping[str, Kind], seen: int) -> pa.RecordBatch:
        columns = {name: batch.column(name) for name in kinds}
        fitted, bad = fit(columns, kinds, _label(self.source))
        for row, (name, what) in bad.items():
            hint = f"It is row {seen + row + 1} of a stream; declare another type in `data.types.{name}`"
            raise DataError(what, file=_label(self.source), column=name, hint=hint)
        return fitted

    @cached_property
    def _streams(self) -> list[Stream]:
        from google.cloud.bigquery_storage_v1 import types

        with clients.telling(_label(self.source)):
            options = types.ReadSession.TableReadOptions(
                selected_fields=list(self.reading.columns or ()),
                row_restriction=self.source.row_filter or "",
            )
            wanted = types.ReadSession(
                table=_path(self._destination()), data_format=types.DataFormat.ARROW, read_options=options
            )
            session = clients.storage().create_read_session(
                parent=f"projects/{self.source.project}", read_session=wanted, max_stream_count=self.source.streams
            )
        if not session.streams:
            raise DataError("there are no rows", file=_label(self.source))
        many = len(session.streams)
        rows, size = max(session.estimated_row_count // many, 1), session.estimated_total_bytes_scanned // many
        schema = session.arrow_schema.serialized_schema
        return [Stream(stream.name, schema, rows, size) for stream in session.streams]

    def _destination(self) -> Any:
        """The table, or that with the query's rows, which BigQuery keeps for a day."""
        if self.source.table is not None:
            return _table(self.source)
        job = clients.rest(self.source.project).query(self.source.query, location=self.source.location)
        job.result(max_results=0)
        return job.destination


def _table(source: BigquerySource) -> Any:
    from google.cloud.bigquery import TableReference

    try:
        return TableReference.from_string(source.table or "", default_project=source.project)
    except ValueError:
        raise DataError(
            f"`data.source.table` is {source.table!r}, which is neither project.dataset.table nor dataset.table"
        ) from None


def _path(table: Any) -> str:
    """As the Storage Read API names a table."""
    return f"projects/{table.project}/datasets/{table.dataset_id}/tables/{table.table_id}"


def _label(source: BigquerySource) -> str:
    """The data's name in messages."""
    return f"bigquery {source.table}" if source.table is not None else f"bigquery {source.project} (query)"
