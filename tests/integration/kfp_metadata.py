"""ML Metadata over gRPC, as Kubeflow's driver and launcher speak with it: the library's own store behind a port.

python kfp_metadata.py DATABASE

It prints its address, and ends when its standard input is closed. The library's release cannot filter (its
`filter_query` went with ZetaSQL); the one filter that Kubeflow sends is applied here.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store
from ml_metadata.proto import metadata_store_pb2, metadata_store_service_pb2

if TYPE_CHECKING:
    from headrace.pipeline.kubeflow.verify.driver import TaskRun

SERVICE = "ml_metadata.MetadataStoreService"
OF_ONE_GRAPH = re.compile(r"custom_properties\.parent_dag_id\.int_value = (\d+)")
LARGEST = 100 << 20
"""Bytes in a message, as Kubeflow's client has it."""


def serve(database: Path) -> tuple[grpc.Server, str]:
    """Start serving the store in a file; the server, which ends when nobody holds it, and its address."""
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = str(database)
    store = metadata_store.CreateMetadataStore(config.SerializeToString(), b"")
    lock = threading.Lock()
    methods = metadata_store_service_pb2.DESCRIPTOR.services_by_name["MetadataStoreService"].methods
    handlers = {
        method.name: grpc.unary_unary_rpc_method_handler(_call(method.name, store, lock))
        for method in methods
        if hasattr(metadata_store, method.name)
    }
    options = [("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST)]
    server = grpc.server(ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


def _call(name: str, store: Any, lock: threading.Lock) -> Callable[[bytes, Any], bytes]:
    """Messages go through as they are."""
    method = getattr(metadata_store, name)

    def call(request: bytes, context: Any) -> bytes:
        graph = None
        if name == "GetExecutionsByContext":
            request, graph = _without_filter(request)
        with lock:
            answer, message, status = method(store, request)
        if status:
            code = next(code for code in grpc.StatusCode if code.value[0] == status)
            context.abort(code, message.decode())
        return bytes(answer) if graph is None else _of_graph(answer, graph)

    return call


def _without_filter(request: bytes) -> tuple[bytes, int | None]:
    """The request without its filter, and the graph that it asks for."""
    asked = metadata_store_service_pb2.GetExecutionsByContextRequest.FromString(request)
    filtered = asked.options.filter_query
    asked.options.ClearField("filter_query")
    found = OF_ONE_GRAPH.fullmatch(filtered)
    assert found or not filtered, filtered
    return asked.SerializeToString(), int(found[1]) if found else None


def _of_graph(answer: bytes, graph: int) -> bytes:
    """The answer with the executions of one graph."""
    reported = metadata_store_service_pb2.GetExecutionsByContextResponse.FromString(answer)
    kept = [one for one in reported.executions if one.custom_properties["parent_dag_id"].int_value == graph]
    del reported.executions[:]
    reported.executions.extend(kept)
    filtered: bytes = reported.SerializeToString()
    return filtered


def ended_tasks(database: Path, run_id: str) -> dict[str, TaskRun]:
    """What the tasks of a run left, by name."""
    from ml_metadata.metadata_store.metadata_store import MetadataStore

    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = str(database)
    store = MetadataStore(config)
    run = store.get_context_by_type_and_name("system.PipelineRun", run_id)
    found = {one.custom_properties["task_name"].string_value: one for one in store.get_executions_by_context(run.id)}
    return {name: _ended(store, execution) for name, execution in found.items() if name}


def _ended(store: Any, execution: Any) -> TaskRun:
    from headrace.pipeline.kubeflow.verify.driver import TaskRun

    outputs = execution.custom_properties["outputs"].struct_value
    events = store.get_events_by_execution_ids([execution.id])
    made = {one.artifact_id: one.path.steps[0].key for one in events if one.type == metadata_store_pb2.Event.OUTPUT}
    artifacts = {
        made[one.id]: {
            "uri": one.uri,
            "metadata": {name: _plain(value) for name, value in one.custom_properties.items()},
        }
        for one in store.get_artifacts_by_id(list(made))
    }
    cached = execution.last_known_state == metadata_store_pb2.Execution.CACHED
    return TaskRun(artifacts, dict(outputs), cached)


def _plain(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


if __name__ == "__main__":
    held, address = serve(Path(sys.argv[1]))
    print(address, flush=True)
    sys.stdin.read()
