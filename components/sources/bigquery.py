"""BigQuery tables and queries as a source, through the Storage Read API.

A read session shows a table as it was when the session was created, in streams that are read independently; each stream
is a part. This is the API behind Beam's ReadFromBigQuery(method=DIRECT_READ), but the record batches remain columns,
where Beam would build a dictionary of each row.

Credentials are the application default credentials; none is ever in the config.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from headrace.common.errors import DataError, UnreachableError
from headrace.common.storage.files import UNKNOWN, FileState
from headrace.components.sources.base import (
    HEAD_ROWS,
    Head,
    ParallelMap,
    ReadOptions,
    ScanResult,
    first_pieces,
    seconds_left,
)
from headrace.components.sources.conversion import convert_columns, slice_batch
from headrace.components.sources.stored_types import ConversionError, stored_kind
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import BigquerySource

if TYPE_CHECKING:
    from google.cloud.bigquery import Client
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

CREDENTIALS_HINT = (
    "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service"
    " account that may read the data"
)
ROLES_HINT = (
    "Reading needs the roles BigQuery Read Session User and BigQuery Data Viewer; a query also needs BigQuery Job User"
)


@dataclass(frozen=True)
class ReadStream:
    """A stream of a read session. schema: the serialized Arrow schema; rows, size: estimates by BigQuery."""

    name: str
    schema: bytes
    rows: int
    size: int


@dataclass(frozen=True)
class BigqueryRows:
    source: BigquerySource
    options: ReadOptions = field(default_factory=ReadOptions)

    no_head: ClassVar[str] = "BigQuery charges for those of a query or a row_filter"

    @classmethod
    def open(cls, source: BigquerySource, files: Sequence[str] | None, options: ReadOptions) -> BigqueryRows:
        """Open nothing yet."""
        is_free = source.table is not None and not source.row_filter
        return (BigqueryTable if is_free else cls)(source, options)

    @classmethod
    def state(cls, source: BigquerySource) -> list[FileState]:
        """The size and the time of change of a table; of a query, a state that never repeats."""
        if source.table is None:
            return [FileState(_label(source), UNKNOWN, uuid.uuid4().hex)]
        with translated_errors(_label(source)):
            table = rest_client(source.project).get_table(_table(source))
        if table.modified is None or table.table_type not in {"TABLE", "SNAPSHOT"}:
            raise DataError(
                f"is of type {table.table_type}, which the Storage Read API does not support",
                file=_label(source),
                hint="Read it with a query: `query: SELECT * FROM ...`",
            )
        return [FileState(_label(source), table.num_bytes or 0, table.modified.isoformat())]

    def __getstate__(self) -> dict[str, Any]:
        """The state without the session, which the parts name."""
        return {"source": self.source, "options": self.options}

    def columns(self) -> list[str]:
        """The columns according to BigQuery. Those of a query come from a dry run, which is free."""
        from google.cloud.bigquery import QueryJobConfig

        with translated_errors(_label(self.source)):
            client = rest_client(self.source.project)
            if self.source.table is not None:
                schema = client.get_table(_table(self.source)).schema
            else:
                dry = QueryJobConfig(dry_run=True, use_query_cache=False)
                schema = client.query(self.source.query, job_config=dry, location=self.source.location).schema
        return self.options.select([column.name for column in schema])

    def parts(self, parallel_map: ParallelMap) -> list[ReadStream]:
        """The streams into which BigQuery splits the table, or the table that the query's job wrote, in one session."""
        return self._streams

    def scan(self, part: ReadStream, declared: Mapping[str, Kind]) -> ScanResult:
        """Use the schema and the estimates of the session; nothing is read."""
        kinds: dict[str, Kind] = {}
        for column in pa.ipc.read_schema(pa.py_buffer(part.schema)):
            try:
                kinds[column.name] = declared.get(column.name) or stored_kind(column.type)
            except ConversionError as error:
                hint = "Read its fields with a query, or leave the column out of `data.columns`"
                raise DataError(str(error), file=_label(self.source), column=column.name, hint=hint) from None
        return ScanResult({_label(self.source): part.rows}, part.size, kinds)

    def batches(self, part: ReadStream, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The record batches of the stream. Google's client resumes by itself after a lost connection."""
        schema = pa.ipc.read_schema(pa.py_buffer(part.schema))
        start = 0
        with translated_errors(_label(self.source)):
            for response in storage_client().read_rows(part.name):
                packed = response.arrow_record_batch.serialized_record_batch
                batch = pa.ipc.read_record_batch(pa.py_buffer(packed), schema)
                if batch.num_rows != response.row_count:
                    raise DataError(
                        f"a batch of {response.row_count} rows contains {batch.num_rows}", file=_label(self.source)
                    )
                yield from slice_batch(self._convert(batch, kinds, start))
                start += batch.num_rows

    def _convert(self, batch: pa.RecordBatch, kinds: Mapping[str, Kind], start: int) -> pa.RecordBatch:
        columns = {name: batch.column(name) for name in kinds}
        converted, bad = convert_columns(columns, kinds, _label(self.source))
        for row, (name, what) in bad.items():
            hint = f"It is row {start + row + 1} of a stream. Declare another type in `data.types.{{column}}`"
            raise DataError(what, file=_label(self.source), column=name, hint=hint)
        return converted

    @cached_property
    def _streams(self) -> list[ReadStream]:
        from google.cloud.bigquery_storage_v1 import types

        with translated_errors(_label(self.source)):
            options = types.ReadSession.TableReadOptions(
                selected_fields=list(self.options.columns or ()),
                row_restriction=self.source.row_filter or "",
            )
            wanted = types.ReadSession(
                table=_path(self._destination()), data_format=types.DataFormat.ARROW, read_options=options
            )
            session = storage_client().create_read_session(
                parent=f"projects/{self.source.project}", read_session=wanted, max_stream_count=self.source.streams
            )
        if not session.streams:
            raise DataError("there are no rows", file=_label(self.source))
        count = len(session.streams)
        rows, size = max(session.estimated_row_count // count, 1), session.estimated_total_bytes_scanned // count
        schema = session.arrow_schema.serialized_schema
        return [ReadStream(stream.name, schema, rows, size) for stream in session.streams]

    def _destination(self) -> Any:
        """The table, or the one with the rows of the query, which BigQuery keeps for a day."""
        if self.source.table is not None:
            return _table(self.source)
        job = rest_client(self.source.project).query(self.source.query, location=self.source.location)
        job.result(max_results=0)
        return job.destination


class BigqueryTable(BigqueryRows):
    """A table without a filter, whose first rows BigQuery lists for free (`tabledata.list`)."""

    def head(self) -> Head:
        """Raises UnreachableError if BigQuery does not list the rows, or not soon."""
        from google.cloud.bigquery.retry import DEFAULT_RETRY

        limit = seconds_left()
        retry = DEFAULT_RETRY if limit is None else DEFAULT_RETRY.with_timeout(limit)
        try:
            with translated_errors(_label(self.source)):
                client = rest_client(self.source.project)
                table = client.get_table(_table(self.source), retry=retry, timeout=limit)
                names = {*self.options.select([column.name for column in table.schema])}
                fields = [column for column in table.schema if column.name in names]
                found = client.list_rows(
                    table, selected_fields=fields, max_results=HEAD_ROWS, timeout=limit, retry=retry
                )
                pages = ((page, page.num_rows, page.nbytes) for page in found.to_arrow_iterable())
                listed = tuple(first_pieces(pages)[0])
        except (DataError, OSError) as error:
            raise UnreachableError(str(error)) from None
        rows = sum(page.num_rows for page in listed)
        schema = (listed[0].schema if listed else pa.schema([])).serialize().to_pybytes()
        part = ReadStream("", schema, rows, sum(page.nbytes for page in listed))
        return Head(ListedRows(self.source, self.options, listed), part, whole=rows == found.total_rows, settled=True)


@dataclass(frozen=True)
class ListedRows(BigqueryRows):
    """The first rows of a table, by pages."""

    pages: tuple[pa.RecordBatch, ...] = ()

    def columns(self) -> list[str]:
        return self.options.select(self.pages[0].schema.names if self.pages else [])

    def batches(self, part: ReadStream, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """A batch for each page."""
        start = 0
        for page in self.pages:
            yield from slice_batch(self._convert(page, kinds, start))
            start += page.num_rows


def _table(source: BigquerySource) -> Any:
    from google.cloud.bigquery import TableReference

    try:
        return TableReference.from_string(source.table or "", default_project=source.project)
    except ValueError:
        raise DataError(
            f"`{source.section}.table` is {source.table!r}, which is neither project.dataset.table nor dataset.table"
        ) from None


def _path(table: Any) -> str:
    """The name of a table in the Storage Read API."""
    return f"projects/{table.project}/datasets/{table.dataset_id}/tables/{table.table_id}"


def _label(source: BigquerySource) -> str:
    """The name of the data in messages."""
    return f"bigquery {source.table}" if source.table is not None else f"bigquery {source.project} (query)"


def rest_client(project: str) -> Client:
    """The client for tables and for queries, which run as jobs."""
    from google.cloud.bigquery import Client

    return Client(project=project)


def storage_client() -> BigQueryReadClient:
    """The client for rows (Storage Read API)."""
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

    return BigQueryReadClient()


@contextmanager
def translated_errors(name: str) -> Iterator[None]:
    """Turn errors of the clients into DataErrors about `name`."""
    try:
        from google.api_core import exceptions as api
        from google.auth import exceptions as auth
    except ImportError as error:
        raise DataError(
            f"`kind: bigquery` needs the package {error.name}, which is not installed",
            hint="pip install google-cloud-bigquery google-cloud-bigquery-storage",
        ) from error
    try:
        yield
    except auth.DefaultCredentialsError:
        raise DataError("there are no credentials for Google Cloud", file=name, hint=CREDENTIALS_HINT) from None
    except auth.GoogleAuthError as error:
        raise DataError(f"Google Cloud rejects the credentials: {error}", file=name, hint=CREDENTIALS_HINT) from None
    except (api.Forbidden, api.Unauthorized) as error:
        raise DataError(f"BigQuery denies access: {error.message}", file=name, hint=ROLES_HINT) from None
    except api.NotFound as error:
        raise DataError(f"BigQuery does not find it: {error.message}", file=name) from None
    except api.RetryError as error:
        raise DataError(f"BigQuery does not answer: {error.cause}", file=name) from None
    except api.GoogleAPICallError as error:
        raise DataError(f"BigQuery failed: {error.message}", file=name) from None
