"""Run the components that look at the world on every run in the command itself, without TensorFlow or TFX, while no
other component runs.

message = run_light(node, request)

A pod on Kubeflow runs them without both, too (pipeline/kubeflow/pod/light.py).

Spans, Baseline, WarmStart, RecordBlessing, ImportSchemaGen, ModelInService, PredictSpans, PublishPredictions and
ServingLog take milliseconds, and their code needs no TFX: their components are thin layers over the functions that are
called here, with artifacts that have the methods of TFX's.
Whatever goes wrong here is left to the fork server, which runs the component again and reports what is wrong.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from headrace.common.errors import RunError
from headrace.components.bulk_predictor.publishing import find_model_in_service, list_new_data, publish_predictions
from headrace.components.contents import check_whole, seal
from headrace.components.deploy.choices import find_base_model, find_baseline, list_blessed
from headrace.components.gates.blessed_statistics import state_of_blessed
from headrace.components.gates.serving_log import list_log
from headrace.components.schema import read_schema
from headrace.components.spans.find import write_spans
from headrace.pipeline.code.digest import stack_versions
from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd
from headrace.pipeline.local.wire import StoredArtifact, write_result

_OUTPUT = threading.Lock()
IS_NULL = "__is_null__"
"""TFX's custom property of value artifacts."""


def import_schema(schema: LightArtifact, schema_file: str) -> None:
    """What TFX's ImportSchemaGen does."""
    read_schema(schema_file)
    shutil.copyfile(schema_file, Path(schema.uri) / "schema.pbtxt")


LIGHT: Mapping[str, Callable[..., None]] = {
    "headrace.components.spans.component.Spans": write_spans,
    "headrace.components.deploy.baseline.Baseline": find_baseline,
    "headrace.components.deploy.baseline.WarmStart": find_base_model,
    "headrace.components.deploy.baseline.RecordBlessing": list_blessed,
    "headrace.components.bulk_predictor.around.ModelInService": find_model_in_service,
    "headrace.components.bulk_predictor.around.PredictSpans": list_new_data,
    "headrace.components.bulk_predictor.around.PublishPredictions": publish_predictions,
    "headrace.components.gates.serving.ServingLog": list_log,
    "tfx.components.schema_gen.import_schema_gen.component.ImportSchemaGen": import_schema,
}
"""Kind of component, as ML Metadata has it, to what it does."""

STATE = "state outside of the pipeline"
"""What explanations call a change of it."""
READ_OUTSIDE: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "headrace.components.gates.data_verdict.DataVerdict": lambda given: state_of_blessed(given.get("registry", "")),
}
"""Kind of component, as ML Metadata has it, to a digest of what it reads besides its inputs, given its parameters.

It is part of the cache key of DataVerdict, which needs TensorFlow to compare with the statistics of the blessed model's
data: as long as they and its inputs are the same, the verdict of an earlier run is reused.
"""


class LightArtifact:
    """An artifact with those methods of TFX's `Artifact` and `ValueArtifact` that the functions of LIGHT use."""

    def __init__(self, stored: StoredArtifact) -> None:
        self.stored = stored
        self._properties = stored.artifact.custom_properties

    @property
    def mlmd_artifact(self) -> mlmd.Artifact:
        return self.stored.artifact

    @property
    def artifact_type(self) -> mlmd.ArtifactType:
        return self.stored.type

    @property
    def uri(self) -> str:
        return self.stored.artifact.uri

    @uri.setter
    def uri(self, uri: str) -> None:
        self.stored.artifact.uri = uri

    @property
    def value(self) -> str:
        return Path(self.uri).read_bytes().decode()

    @value.setter
    def value(self, value: str) -> None:
        self.set_int_custom_property(IS_NULL, 0)
        Path(self.uri).write_bytes(value.encode())

    def has_custom_property(self, key: str) -> bool:
        return key in self._properties

    def get_int_custom_property(self, key: str) -> int:
        return self._properties[key].int_value if key in self._properties else 0

    def get_string_custom_property(self, key: str) -> str:
        return self._properties[key].string_value if key in self._properties else ""

    def set_int_custom_property(self, key: str, value: int) -> None:
        self._properties[key].int_value = value

    def set_string_custom_property(self, key: str, value: str) -> None:
        self._properties[key].string_value = value


def state_outside(kind: str, parameters: Mapping[str, Any]) -> str | None:
    """A digest of the state that a component reads besides its inputs; None if it is not known, so that it must run."""
    try:
        return READ_OUTSIDE[kind](parameters) if kind in READ_OUTSIDE else None
    except (RunError, OSError):  # the component reports it
        return None


def run_light(node: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a component as a child of the fork server does: write its log and its result. Returns the message about its
    end. Raises whatever goes wrong, and leaves what was written to the caller.

    node: its description in the plan, of a kind in LIGHT; request: what the scheduler asks of the fork server.
    """
    began = time.process_time()
    with _output_to(Path(request["log"])):
        made = _execute(node, request)
    stored = {key: artifact.stored.to_json() for key, artifact in made.items()}
    write_result(Path(request["result"]), {"outputs": stored, "beam": ""})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10  # Linux counts in KiB
    return {"event": "ended", "node": node["id"], "code": 0, "peak": peak, "cpu": time.process_time() - began}


def remove_written(node: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    """Remove what a component wrote here, before another process runs it."""
    Path(request["log"]).unlink(missing_ok=True)
    for key, uri in request["outputs"].items():
        shutil.rmtree(Path(uri).parent if node["outputs"][key] else uri, ignore_errors=True)


def _execute(node: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, LightArtifact]:
    inputs = {key: LightArtifact(StoredArtifact.from_json(parts)) for key, (parts,) in request["inputs"].items()}
    types = {key: mlmd.ArtifactType.FromString(base64.b64decode(type_)) for key, type_ in node["types"].items()}
    outputs = {key: new_output(types[key], uri, node["outputs"][key]) for key, uri in request["outputs"].items()}
    execute_light(node["kind"], node["parameters"], inputs, outputs)
    return outputs


def execute_light(
    kind: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, LightArtifact],
    outputs: Mapping[str, LightArtifact],
) -> None:
    """What `headrace.pipeline.execute` does for these components, with outputs that `new_output` made."""
    uris = {key: artifact.uri for key, artifact in outputs.items()}
    for artifact in inputs.values():
        check_whole(artifact)
    LIGHT[kind](**inputs, **outputs, **parameters)
    for key, artifact in outputs.items():
        if artifact.uri == uris[key]:  # otherwise it is an existing model, sealed when it was made
            seal(artifact)


def new_output(type_: mlmd.ArtifactType, uri: str, is_value: bool) -> LightArtifact:
    """An output before its component runs. is_value: whether it is a file with a text, and not a folder."""
    (Path(uri).parent if is_value else Path(uri)).mkdir(parents=True)
    artifact = LightArtifact(StoredArtifact(mlmd.Artifact(uri=uri), type_))
    artifact.set_string_custom_property("tfx_version", stack_versions()["tfx"])
    return artifact


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Write what this thread prints, and Headrace's log messages from INFO up, to a file and nowhere else.

    One component at a time does so: a program may run several pipelines in threads.
    """
    with _OUTPUT, path.open("a", encoding="utf-8") as log:
        logger, streams = logging.getLogger("headrace"), (sys.stdout, sys.stderr)
        handlers, level, propagates = logger.handlers[:], logger.level, logger.propagate
        logger.handlers[:], logger.propagate = [logging.StreamHandler(log)], False
        logger.setLevel(logging.INFO)
        sys.stdout, sys.stderr = (cast("TextIO", _OfThisThread(log, stream)) for stream in streams)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams
            logger.handlers[:], logger.propagate = handlers, propagates
            logger.setLevel(level)


class _OfThisThread:
    """A stream that writes to a log what the thread that made it prints. Others, such as that of the terminal's table,
    use the stream in whose place it is.
    """

    def __init__(self, log: TextIO, stream: TextIO) -> None:
        self._log, self._stream, self._thread = log, stream, threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log if threading.get_ident() == self._thread else self._stream, name)
