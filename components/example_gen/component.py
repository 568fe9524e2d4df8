"""ExampleGen as a TFX component."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact, artifact_utils, channel, component_spec, standard_artifacts

from headrace.common.storage.files import is_remote
from headrace.components.beam_pipelines import BeamComponent, always_beam
from headrace.components.example_gen.beam_map import BeamMap, local_threads
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.example_gen.required import RequiredColumn
from headrace.components.example_gen.span_store import SpanStore
from headrace.components.example_gen.workers import ForkedWorkers
from headrace.components.sources import is_fork_safe
from headrace.components.spans import shared_spans
from headrace.components.spans.manifest import SpanManifest
from headrace.components.spans.split_spans import SPLIT_SPANS
from headrace.configs.schema.data import DataConfig

FORK_BYTES = 1 << 24
"""Bytes of a span from which processes are forked, which takes some tens of milliseconds. A smaller span is a single
part, which is not read in parallel."""


class Executor(base_beam_executor.BaseBeamExecutor):
    """Reads the files in the manifest of spans and writes sharded examples."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """`input_dict["spans"]`: the manifest; `exec_properties`: the component's parameters."""
        data = DataConfig.model_validate_json(exec_properties["data"])
        manifest = SpanManifest.from_json(artifact_utils.get_single_instance(input_dict["spans"]).read())
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        store, shared = exec_properties.get("store"), shared_spans.current()
        always = always_beam(self)
        threads = 0 if always else local_threads(self._make_beam_pipeline)
        with ForkedWorkers(threads) as workers:
            forked = workers if threads and _worth_forking(data, manifest) else None
            if forked is not None and shared is not None:
                forked.start()  # before an object store's client starts threads, which forks would not have
            result = ingest(
                data,
                manifest,
                Path(examples.uri),
                lambda work: BeamMap(self._make_beam_pipeline, work, threads, forked, always=always),
                SpanStore(Path(store) if store else None, exec_properties.get("code", ""), shared),
                required=RequiredColumn.from_json(exec_properties.get("required")),
            )
        _describe(examples, manifest, result)


def _worth_forking(data: DataConfig, manifest: SpanManifest) -> bool:
    """Whether a span is large enough for forking to pay, and reading it starts nothing that does not survive a fork."""
    largest = max(sum(file.size for file in span.files) for span in manifest.spans)
    return largest >= FORK_BYTES and is_fork_safe(data.source) and not any(map(is_remote, manifest.paths))


def _describe(examples: artifact.Artifact, manifest: SpanManifest, result: IngestResult) -> None:
    """Set the properties of the artifact."""
    examples.split_names = artifact_utils.encode_split_names(list(result.rows))
    newest = manifest.spans[-1]
    examples.span = newest.number
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
    examples_utils.set_file_format(examples, "tfrecords_gzip")  # TFX's name for TFRecords, compressed or not
    examples.set_string_custom_property("input_fingerprint", manifest.fingerprint)
    examples.set_int_custom_property("span", newest.number)
    if newest.version is not None:
        examples.version = newest.version
        examples.set_int_custom_property("version", newest.version)
    if result.spans:
        examples.set_string_custom_property("spans", json.dumps(dict(result.spans)))
        examples.set_string_custom_property("span_rows", json.dumps(dict(result.span_rows)))
    if result.roles:
        examples.set_string_custom_property(SPLIT_SPANS, json.dumps(dict(result.roles)))
    if result.skipped.count:
        examples.set_string_custom_property("skipped", json.dumps(asdict(result.skipped)))
    if result.dropped:
        examples.set_int_custom_property("dropped", result.dropped)
    for name, lines in (("gaps", result.gaps), ("rounded", result.rounded), ("notes", result.changes)):
        if lines:
            examples.set_string_custom_property(name, json.dumps(list(lines)))
    examples.set_string_custom_property("rows", json.dumps(dict(result.rows)))
    examples.set_string_custom_property("types", json.dumps(dict(result.kinds)))
    examples.set_string_custom_property("plan", result.plan)
    if result.read:
        examples.set_string_custom_property("read", result.read)


class ExampleGenSpec(component_spec.ComponentSpec):
    """Inputs, outputs and parameters of ExampleGen."""

    PARAMETERS = {
        **dict.fromkeys(("data", "schema_digest", "store", "code"), component_spec.ExecutionParameter(type=str)),
        "required": component_spec.ExecutionParameter(type=str, optional=True),
    }
    INPUTS = {"spans": component_spec.ChannelParameter(type=standard_artifacts.String)}
    OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class ExampleGen(BeamComponent):
    """Raw data to sharded TFRecords of tf.Example, split by hash buckets.

    ExampleGen(spans=spans.outputs["spans"], data=config.data.model_dump_json(by_alias=True))
    """

    SPEC_CLASS = ExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self, spans: channel.BaseChannel, data: str, store: str = "", code: str = "", required: str | None = None
    ) -> None:
        """Create the component.

        Args:
            spans: the output of Spans.
            data: the DataConfig as JSON.
            store: the folder where spans are stored between runs; "" for nowhere.
            code: a digest of the code that reads them.
            required: the RequiredColumn without a value in which a row is dropped, as JSON; None for none.
        """
        digest = _schema_digest(DataConfig.model_validate_json(data))
        super().__init__(spans=spans, data=data, schema_digest=digest, store=store, code=code, required=required)


def _schema_digest(data: DataConfig) -> str:
    """A digest of the schema that declares types, so that an edit to it invalidates the cache; "" if there is none."""
    if data.schema_file is None or not Path(data.schema_file).is_file():
        return ""
    return hashlib.sha256(Path(data.schema_file).read_bytes()).hexdigest()
