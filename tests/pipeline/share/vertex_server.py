"""A server that speaks Vertex AI's TensorBoard and Metadata services as far as an upload needs them, over TLS.

    python vertex_server.py CERTIFICATE KEY FILE

Messages are of Google's own types, looked up by the method's name. Prints its port; when its input closes it writes
into FILE, as JSON, what was created and every point that was written.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.cloud.aiplatform_v1 import types

COLLECTIONS = {"TensorboardExperiment": "experiments", "TensorboardRun": "runs", "TensorboardTimeSeries": "timeSeries"}
"""Kinds whose resource names do not follow from the kind itself."""


class Vertex(grpc.GenericRpcHandler):
    """Keeps what it is given, by its resource name."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.points: dict[str, list[Any]] = {}
        self.own: dict[str, Callable[[Any], Any]] = {
            "GetTensorboard": lambda asked: types.Tensorboard(name=asked.name, blob_storage_path_prefix="bucket/logs"),
            "GetMetadataStore": lambda asked: types.MetadataStore(name=asked.name),
            "BatchCreateTensorboardTimeSeries": self.create_series,
            "ListTensorboardTimeSeries": self.list_series,
            "WriteTensorboardExperimentData": self.write,
        }

    def service(self, handler_call_details: Any) -> Any:
        """How a method of that name answers; its request's type is called after it."""
        method = handler_call_details.method.rpartition("/")[2]
        request = getattr(types, f"{method}Request")

        def respond(message: Any, context: grpc.ServicerContext) -> Any:
            found = self.own[method](message) if method in self.own else self.answer(method, message)
            return found if found is not None else context.abort(grpc.StatusCode.NOT_FOUND, "there is none")

        return grpc.unary_unary_rpc_method_handler(
            respond, request.deserialize, lambda message: type(message).serialize(message)
        )

    def answer(self, method: str, message: Any) -> Any:
        """What Get, Create and Update methods have in common; an empty answer for all others."""
        verb, kind = re.match("(Get|Create|Update)?(.*)", method).groups()  # type: ignore[union-attr]
        field = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
        if verb == "Get":
            return self.kept.get(message.name)
        if verb is None:
            return getattr(types, f"{method}Response")()
        resource = getattr(message, field)
        if verb == "Create":
            collection = COLLECTIONS.get(kind, f"{kind.lower()}s")
            number = getattr(message, f"{field}_id") or f"n{len(self.kept)}"
            resource.name = f"{message.parent}/{collection}/{number}"
        self.kept[resource.name] = resource
        return resource

    def create_series(self, message: Any) -> Any:
        made = [self.answer("CreateTensorboardTimeSeries", each) for each in message.requests]
        return types.BatchCreateTensorboardTimeSeriesResponse(tensorboard_time_series=made)

    def list_series(self, message: Any) -> Any:
        found = [kept for name, kept in self.kept.items() if name.startswith(f"{message.parent}/timeSeries/")]
        return types.ListTensorboardTimeSeriesResponse(tensorboard_time_series=found)

    def write(self, message: Any) -> Any:
        for run in message.write_run_data_requests:
            for data in run.time_series_data:
                series = f"{run.tensorboard_run}/timeSeries/{data.tensorboard_time_series_id}"
                found = [[point.step, point.scalar.value if "scalar" in point else None] for point in data.values]
                self.points.setdefault(series, []).extend(found)
        return types.WriteTensorboardExperimentDataResponse()

    def reported(self) -> dict[str, Any]:
        """Everything, as JSON has it; points by run and tag."""
        points = {}
        for series, found in self.points.items():
            run = series.partition("/timeSeries/")[0].rpartition("/")[2]
            points[f"{run} {self.kept[series].display_name}"] = found
        return {"kept": {name: type(kept).__name__ for name, kept in self.kept.items()}, "points": points}


def main(certificate: str, key: str, file: str) -> None:
    """Serve until the input closes."""
    vertex = Vertex()
    server = grpc.server(ThreadPoolExecutor(4), handlers=[vertex])
    credentials = grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(certificate).read_bytes())])
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None)
    Path(file).write_text(json.dumps(vertex.reported()), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
