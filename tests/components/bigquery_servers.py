"""BigQuery as Google's own clients see it: servers on this machine that speak the REST API and the Storage Read API."""

import contextlib
import datetime as dt
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import bigquery_worker
import grpc
import pyarrow as pa
import pytest
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client
from google.cloud.bigquery_storage_v1 import BigQueryReadClient, types
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

from headrace.components.sources import bigquery

SERVICE = "google.cloud.bigquery.storage.v1.BigQueryRead"
FIELDS = [
    {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
    {"name": "fare", "type": "NUMERIC"},
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
    {"name": "at", "type": "TIMESTAMP"},
]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("fare", pa.decimal128(38, 9)), ("tags", pa.list_(pa.string())),
     ("at", pa.timestamp("us", "UTC"))]
)  # fmt: skip


def rows(start: int, stop: int) -> pa.RecordBatch:
    made = [
        {"id": i, "fare": Decimal(i) / 4 if i % 3 else None, "tags": ["a"] * (i % 3), "at": i * 1_000_000}
        for i in range(start, stop)
    ]
    return pa.RecordBatch.from_pylist(made, SCHEMA)


def _listed(value: Any) -> Any:
    """A value as the REST API writes it."""
    if isinstance(value, list):
        return [{"v": one} for one in value]
    if isinstance(value, dt.datetime):
        return str(round(value.timestamp() * 1_000_000))
    return None if value is None else str(value)


@dataclass
class Google:
    """What the servers hold, and what they were asked."""

    streams: dict[str, list[pa.RecordBatch]] = field(
        default_factory=lambda: {"s/0": [rows(0, 40), rows(40, 50)], "s/1": [], "s/2": [rows(50, 120)]}
    )
    modified: int = 1_700_000_000_000
    kind: str = "TABLE"
    sessions: list[types.CreateReadSessionRequest] = field(default_factory=list)
    reads: list[types.ReadRowsRequest] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    lists: list[Mapping[str, list[str]]] = field(default_factory=list)
    schema: pa.Schema = SCHEMA
    fields: list[dict[str, str]] = field(default_factory=lambda: FIELDS)
    breaks: int = 0
    refuses: grpc.StatusCode | None = None

    def create_read_session(
        self, request: types.CreateReadSessionRequest, context: grpc.ServicerContext
    ) -> types.ReadSession:
        """What CreateReadSession does."""
        if self.refuses is not None:
            context.abort(self.refuses, "not for you")
        self.sessions.append(request)
        made = types.ReadSession(request.read_session)
        made.name = "projects/p/locations/us/sessions/1"
        made.arrow_schema = types.ArrowSchema(serialized_schema=self.schema.serialize().to_pybytes())
        made.streams = [types.ReadStream(name=name) for name in self.streams]
        made.estimated_row_count, made.estimated_total_bytes_scanned = 120, 12_000
        return made

    def read_rows(
        self, request: types.ReadRowsRequest, context: grpc.ServicerContext
    ) -> Iterator[types.ReadRowsResponse]:
        """What ReadRows does; `breaks` times it breaks off after the first batch."""
        self.reads.append(request)
        start = 0
        for batch in self.streams[request.read_stream]:
            if start >= request.offset:
                packed = types.ArrowRecordBatch(serialized_record_batch=batch.serialize().to_pybytes())
                yield types.ReadRowsResponse(arrow_record_batch=packed, row_count=batch.num_rows)
                if self.breaks:
                    self.breaks -= 1
                    context.abort(grpc.StatusCode.UNAVAILABLE, "broke off")
            start += batch.num_rows

    def listed(self, query: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """What tabledata.list does, with 50 rows on a page."""
        if self.refuses is not None:
            return 403, {"error": {"code": 403, "message": "not for you"}}
        self.lists.append(query)
        every = [row for batches in self.streams.values() for batch in batches for row in batch.to_pylist()]
        start, names = int(query.get("pageToken", ["0"])[0]), query["selectedFields"][0].split(",")
        stop = min(start + 50, start + int(query["maxResults"][0]))
        chosen = [{"f": [{"v": _listed(row[name])} for name in names]} for row in every[start:stop]]
        more = {"pageToken": str(stop)} if stop < len(every) else {}
        return 200, {"totalRows": str(len(every)), "rows": chosen, **more}

    def answer(
        self, method: str, path: str, body: dict[str, Any], query: Mapping[str, list[str]]
    ) -> tuple[int, dict[str, Any]]:
        """What the REST API does."""
        if path.endswith("/tables/t/data"):
            return self.listed(query)
        if "/tables/" in path:
            if not path.endswith("/tables/t"):
                return 404, {"error": {"code": 404, "message": "Not found: Table"}}
            reported = {"tableReference": {"projectId": "p", "datasetId": "d", "tableId": "t"}, "type": self.kind}
            schema, modified = {"fields": self.fields}, str(self.modified)
            return 200, {**reported, "schema": schema, "lastModifiedTime": modified, "numBytes": "12000"}
        reference = {"projectId": "p", "jobId": "j", "location": "EU"}
        if method == "POST":
            self.jobs.append(body)
            job = body["configuration"]["query"]
            if "nope" in job["query"]:
                return 400, {"error": {"code": 400, "message": "Unrecognized name: nope at [1:8]"}}
            table = {"projectId": "p", "datasetId": "_anonymous", "tableId": "results"}
            return 200, {
                "jobReference": reference,
                "configuration": {"query": {**job, "destinationTable": table}, "jobType": "QUERY"},
                "status": {"state": "DONE"},
                "statistics": {"query": {"schema": {"fields": self.fields}, "statementType": "SELECT"}},
            }
        return 200, {
            "jobComplete": True,
            "jobReference": reference,
            "totalRows": "120",
            "schema": {"fields": self.fields},
        }


@contextlib.contextmanager
def storage_server(google: Google) -> Iterator[str]:
    methods = {
        "CreateReadSession": grpc.unary_unary_rpc_method_handler(
            google.create_read_session, types.CreateReadSessionRequest.deserialize, types.ReadSession.serialize
        ),
        "ReadRows": grpc.unary_stream_rpc_method_handler(
            google.read_rows, types.ReadRowsRequest.deserialize, types.ReadRowsResponse.serialize
        ),
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


@contextlib.contextmanager
def rest_server(google: Google) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            path, _, query = self.path.partition("?")
            status, reported = google.answer(self.command, path, body, parse_qs(query))
            text = json.dumps(reported).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET  # noqa: N815 - the base class's name

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def google_at_hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    """Servers that the clients of the source talk to, with three streams of a table."""
    held = Google()
    with storage_server(held) as storage, rest_server(held) as rest:

        def rest_client(project: str) -> Client:
            options = ClientOptions(api_endpoint=rest)
            return Client(project=project, credentials=AnonymousCredentials(), client_options=options)

        def storage_client() -> BigQueryReadClient:
            return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=grpc.insecure_channel(storage)))

        monkeypatch.setattr(bigquery, "rest_client", rest_client)
        monkeypatch.setattr(bigquery, "storage_client", storage_client)
        monkeypatch.setenv(bigquery_worker.ADDRESS, storage)
        yield held
