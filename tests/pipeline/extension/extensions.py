"""A user's components and functions of `pipeline.extend` in a folder, and the pipelines that they make."""

from __future__ import annotations

from pathlib import Path

from refused_extensions import REFUSED

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.plan import Node, plan

CONFIG = """\
pipeline: {name: trips, extend: own_parts.nothing}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""
TYPES = """\
from tfx.types import Artifact


class Note(Artifact):
    TYPE_NAME = "OwnNote"
"""
PARTS = """\
import dataclasses

from own_types import Note
from tfx.components import BulkInferrer, CsvExampleGen, InfraValidator, SchemaGen, Trainer
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, OutputDict, Parameter
from tfx.dsl.component.experimental.container_component import create_container_component
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.dsl.components.base.base_executor import BaseExecutor
from tfx.dsl.components.base.executor_spec import ExecutorClassSpec
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.experimental.conditionals.conditional import Cond
from tfx.dsl.experimental.latest_artifacts_resolver import LatestArtifactsResolver
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import infra_validator_pb2, trainer_pb2
from tfx.types import Channel, standard_artifacts
from tfx.types.channel import union
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.types.standard_artifacts import Examples, ExampleStatistics, Schema

number = 3
seen = {}


@component
def Count(examples: InputArtifact[Examples], note: OutputArtifact[Note], column: Parameter[str]) -> OutputDict(n=int):
    return {"n": 1}


@component
def read_note(note: InputArtifact[Note], n: int, again: OutputArtifact[Note]):
    pass


@component
def ReadNote(note: InputArtifact[Note], n: int, again: OutputArtifact[Note]):
    pass


@component
def Infer(statistics: InputArtifact[ExampleStatistics], schema: OutputArtifact[Schema]):
    pass


@component
def Tighten(schema: InputArtifact[Schema], statistics: InputArtifact[ExampleStatistics], tight: OutputArtifact[Schema]):
    pass


@component
def Wrong(statistics: InputArtifact[ExampleStatistics], schema: OutputArtifact[Note]):
    pass


@component
def Around(inferred: InputArtifact[Schema], schema: OutputArtifact[Schema]):
    pass


@component
def Bytes(examples: InputArtifact[Examples]) -> OutputDict(raw=bytes):
    return {"raw": b""}


@component
def Go(examples: InputArtifact[Examples]) -> OutputDict(go=str):
    return {"go": "no"}


@component
def Stores(examples: InputArtifact[Examples], store: Parameter[str]):
    pass


class ModelSpec(ComponentSpec):
    INPUTS = {"examples": ChannelParameter(type=Examples)}
    OUTPUTS = {"note": ChannelParameter(type=Note)}
    PARAMETERS = {
        "run_fn": ExecutionParameter(type=str, optional=True),
        "module_file": ExecutionParameter(type=str, optional=True),
        "custom_config": ExecutionParameter(type=str, optional=True),
    }


class ModelExecutor(BaseExecutor):
    def Do(self, input_dict, output_dict, exec_properties):
        pass


class OwnModel(BaseComponent):
    SPEC_CLASS = ModelSpec
    EXECUTOR_SPEC = ExecutorClassSpec(ModelExecutor)

    def __init__(self, examples, executor=None, **parameters):
        spec = ModelSpec(examples=examples, note=Channel(type=Note), **parameters)
        super().__init__(spec, custom_executor_spec=executor and ExecutorClassSpec(executor))


def examples(components):
    return components.example_gen.outputs["examples"]


def count(components, **parameters):
    return Count(examples=examples(components), **{"column": "fare", **parameters})


def names_a_table(components):
    return [count(components, column="tables.trips")]


def nothing(components):
    return []


def look(components):
    seen.update(components.named())
    return []


def two(components):
    counts = count(components)
    reads = read_note(note=counts.outputs["note"], n=counts.outputs["n"])
    components.transform.add_upstream_node(reads)
    return [counts, reads]


def own(components):
    return [OwnModel(examples(components), run_fn="own_types.Note")]


def reads_transformed(components):
    return [Count(examples=components.transform.outputs["transformed_examples"], column="fare")]


def replaced(components):
    mine = Infer(statistics=components.statistics_gen.outputs["statistics"])
    reads = Tighten(
        schema=components.schema_gen.outputs["schema"], statistics=components.statistics_gen.outputs["statistics"]
    )
    return dataclasses.replace(components, schema_gen=mine, extra=[reads])


def gate_and_pusher(components):
    mine = Infer(statistics=components.statistics_gen.outputs["statistics"])
    return dataclasses.replace(components, data_gate=mine, pusher=count(components))
"""
MODULE = f"{PARTS}\n\n{REFUSED}"


def write_extensions(folder: Path) -> None:
    """Write the config `trips.yaml`, its data, and the modules `own_types` and `own_parts`."""
    files = {
        "trips.yaml": CONFIG,
        "trips.csv": "fare,tip\n" + "".join(f"{row}.5,{row % 2}\n" for row in range(40)),
        "own_types.py": TYPES,
        "own_parts.py": MODULE,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def config(function: str, *overrides: str) -> PipelineConfig:
    return load("trips.yaml", overrides=(f"pipeline.extend=own_parts.{function}", *overrides))


def nodes(function: str, *overrides: str) -> dict[str, Node]:
    return plan(create_pipeline(config(function, *overrides)))
