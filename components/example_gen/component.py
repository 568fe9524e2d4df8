"""ExampleGen as a TFX component."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact, artifact_utils, channel, component_spec, standard_artifacts

from headrace.components.beam_pipelines import always_beam
from headrace.components.example_gen import shared_spans
from headrace.components.example_gen.ingest import Ingested, ingest
from headrace.components.example_gen.manifest import Manifest
from headrace.components.example_gen.sources import is_fork_safe
from headrace.components.example_gen.span_store import SpanStore
from headrace.components.example_gen.spread import BeamSpread, threads_of
from headrace.components.example_gen.storage import is_remote
from headrace.components.example_gen.workers import Workers
from headrace.configs.data import DataConfig

FORKED = 1 << 24
"""Bytes of a span from which on processes are forked, which takes some hundredths of a second. What has fewer is one
part, which is not read side by side anyway."""


class Executor(base_beam_executor.BaseBeamExecutor):
    """Reads the files of the spans manifest and writes sharded examples."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """`input_dict["spans"]`: the manifest; `exec_properties`: as the component takes them."""
        data = DataConfig.model_validate_json(exec_properties["data"])
        manifest = Manifest.from_json(artifact_utils.get_single_instance(input_dict["spans"]).read())
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        store, shared = exec_properties.get("store"), shared_spans.current()
        always = always_beam(self)
        threads = 0 if always else threads_of(self._make_beam_pipeline)
        with Workers(threads) as workers:
            forked = workers if threads and _worth_processes(data, manifest) else None
            if forked is not None and shared is not None:
                forked.start()  # an object store's client starts threads, which forks would not have
            found = ingest(
                data,
                manifest,
                Path(examples.uri),
                lambda work: BeamSpread(self._make_beam_pipeline, work, threads, forked, always=always),
                SpanStore(Path(store) if store else None, exec_properties.get("code", ""), shared),
            )
        _describe(examples, manifest, found)


def _worth_processes(data: DataConfig, manifest: Manifest) -> bool:
    """Whether a span is so large that forking pays, and reading it leaves nothing behind that does not survive that."""
    largest = max(sum(file.size for file in span.files) for span in manifest.spans)
    return largest >= FORKED and is_fork_safe(data.source) and not any(map(is_remote, manifest.paths))


def _describe(examples: artifact.Artifact, manifest: Manifest, found: Ingested) -> None:
    examples.split_names = artifact_utils.encode_split_names(list(found.rows))
    newest = manifest.spans[-1]
    examples.span = newest.number
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
    examples_utils.set_file_format(examples, "tfrecords_gzip")  # what TFX calls TFRecords, which may be plain
    examples.set_string_custom_property("input_fingerprint", manifest.fingerprint)
    examples.set_int_custom_property("span", newest.number)
    if newest.version is not None:
        examples.version = newest.version
        examples.set_int_custom_property("version", newest.version)
    if found.spans:
        examples.set_string_custom_property("spans", json.dumps(dict(found.spans)))
    if found.skipped.count:
        examples.set_string_custom_property("skipped", json.dumps(asdict(found.skipped)))
    for name, lines in (("gaps", found.gaps), ("rounded", found.rounded), ("notes", found.changes)):
        if lines:
            examples.set_string_custom_property(name, json.dumps(list(lines)))
    examples.set_string_custom_property("rows", json.dumps(dict(found.rows)))
    examples.set_string_custom_property("types", json.dumps(dict(found.kinds)))
    examples.set_string_custom_property("plan", found.plan)
    if found.read:
        examples.set_string_custom_property("read", found.read)


class ExampleGenSpec(component_spec.ComponentSpec):
    """Inputs, outputs and parameters of ExampleGen."""

    PARAMETERS = {
        "data": component_spec.ExecutionParameter(type=str),
        "schema_digest": component_spec.ExecutionParameter(type=str),
        "store": component_spec.ExecutionParameter(type=str),
        "code": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {"spans": component_spec.ChannelParameter(type=standard_artifacts.String)}
    OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class ExampleGen(base_beam_component.BaseBeamComponent):
    """Raw data to sharded TFRecords of tf.Example, split by hash buckets.

    ExampleGen(spans=spans.outputs["spans"], data=config.data.model_dump_json(by_alias=True))
    """

    SPEC_CLASS = ExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(self, spans: channel.BaseChannel, data: str, store: str = "", code: str = "") -> None:
        """`data`: the DataConfig as JSON; `store`: the folder where spans are kept between runs, "" for nowhere;
        `code`: a digest of the code that reads them.
        """
        examples = channel.Channel(type=standard_artifacts.Examples)
        digest = _schema_digest(DataConfig.model_validate_json(data))
        super().__init__(
            spec=ExampleGenSpec(spans=spans, data=data, schema_digest=digest, store=store, code=code, examples=examples)
        )


def _schema_digest(data: DataConfig) -> str:
    """Of the schema that gives the types, so that an edit to it is not hidden by the cache; "" where there is none."""
    if data.schema_file is None or not Path(data.schema_file).is_file():
        return ""
    return hashlib.sha256(Path(data.schema_file).read_bytes()).hexdigest()
