"""The components from raw data to transformed examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfx import components as stock
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.base.base_node import BaseNode
from tfx.types import channel

from headrace.components.example_gen.component import ExampleGen
from headrace.components.example_gen.spans.component import Spans
from headrace.components.gates.data_gate import DataGate
from headrace.components.schema import read_schema
from headrace.components.schema_gen import SchemaGen
from headrace.components.statistics.component import StatisticsGen
from headrace.components.transform.component import Transform
from headrace.components.trigger.component import Drift, LookForNew
from headrace.configs.config import PipelineConfig
from headrace.pipeline.code.digest import sources_digest
from headrace.pipeline.extension.components import DataComponents
from headrace.pipeline.folders import Folders
from headrace.pipeline.training_digest import (
    SPAN_SETTINGS,
    TFX_FUNCTIONS,
    data_modules,
    feature_files,
    feature_modules,
    file_digests,
    training_digest,
)
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tfx_functions import LABEL, LABEL_KEY, PREPROCESSING


def data(config: PipelineConfig, folders: Folders) -> DataComponents:
    read = config.data.model_copy(update={"columns": config.read_columns or "all"})
    spans = _spans(config, folders, read.model_dump_json(by_alias=True, include=SPAN_SETTINGS))
    example_gen = ExampleGen(
        spans=spans.outputs["spans"],
        data=read.model_dump_json(by_alias=True, exclude=SPAN_SETTINGS - {"source"} | {"on_anomaly"}),
        store=str(folders.spans),
        code=sources_digest("headrace.components.example_gen.component", *config.data.source.own_modules()),
    )
    statistics_gen = StatisticsGen(
        examples=example_gen.outputs["examples"],
        store=str(folders.spans),
        code=sources_digest("headrace.components.statistics.component"),
    )
    statistics = statistics_gen.outputs["statistics"]
    schema_gen = _schema_gen(config, statistics)
    validator = stock.ExampleValidator(statistics=statistics, schema=schema_gen.outputs["schema"])
    gate = DataGate(
        statistics=statistics,
        anomalies=validator.outputs["anomalies"],
        label=config.label.model_dump_json(),
        columns=json.dumps(config.feature_columns),
        single=json.dumps(config.single_columns),
        rounded=json.dumps(config.rounded_columns),
        on_anomaly=config.data.on_anomaly,
        **({"computed_label": 1} if config.preprocessing else {}),
    )
    return DataComponents(
        spans=spans,
        example_gen=example_gen,
        statistics_gen=statistics_gen,
        schema_gen=schema_gen,
        example_validator=validator,
        data_gate=gate,
    )


def _spans(config: PipelineConfig, folders: Folders, data: str) -> BaseNode:
    """The component that finds the spans to read and, with `schedule.retrain`, decides whether any of them are new."""
    if config.retrain == "always":
        code = sources_digest("headrace.components.example_gen.spans.component", *data_modules(config))
        return Spans(data=data, code=code)
    spans = LookForNew(
        data=data,
        retrain=config.retrain,
        limits=config.drift_limits,
        work=training_digest(config),
        trained=str(folders.trained),
    )
    return spans.with_id("Spans")


def _schema_gen(config: PipelineConfig, statistics: channel.BaseChannel) -> BaseNode:
    if config.data.schema_file is None:
        return SchemaGen(statistics=statistics, infer_feature_shape=False)
    read_schema(config.data.schema_file)
    return ImportSchemaGen(schema_file=str(Path(config.data.schema_file).absolute())).with_id("SchemaGen")


def drift(config: PipelineConfig, folders: Folders, data: DataComponents) -> BaseNode | None:
    """The component that measures drift, if the config trains only on drift."""
    if config.retrain != "drift":
        return None
    drift = Drift(
        examples=data.example_gen.outputs["examples"],
        statistics=data.statistics_gen.outputs["statistics"],
        schema=data.schema_gen.outputs["schema"],
        spans=data.spans.outputs["spans"],
        found=data.spans.outputs["go"],
        limits=config.drift_limits,
        columns=json.dumps(sorted({config.label.key, *config.feature_columns})),
        trained=str(folders.trained),
        store=str(folders.spans),
        code=sources_digest("headrace.components.statistics.component"),
    )
    drift.add_upstream_node(data.data_gate)
    return drift


def transform(config: PipelineConfig, folders: Folders, data: DataComponents, gate: BaseNode) -> BaseNode:
    """gate: what must let the data pass."""
    transform = Transform(
        examples=data.example_gen.outputs["examples"],
        schema=data.schema_gen.outputs["schema"],
        **_preprocessing(config),
        disable_statistics=True,
        disable_analyzer_cache=True,  # TFX's own cache; ours is the store of spans
        store=str(folders.spans),
        code=sources_digest("headrace.components.transform.component"),
    )
    transform.add_upstream_node(gate)
    return transform


def _preprocessing(config: PipelineConfig) -> dict[str, Any]:
    """The function that Transform traces, ours or the one that calls the user's, and its arguments."""
    modules = feature_modules(config)
    if config.preprocessing is None:
        custom_config = {
            "config": TrainerSections.for_transform(config).to_json(),
            "sources": sources_digest("headrace.trainer.preprocessing", *modules),
            "files": file_digests(feature_files(config)),
        }
        return {"preprocessing_fn": "headrace.trainer.preprocessing.preprocessing_fn", "custom_config": custom_config}
    custom_config = {
        PREPROCESSING: config.preprocessing.model_dump_json(),
        LABEL: config.label.model_dump_json(),
        LABEL_KEY: config.label_key,
        "sources": sources_digest(TFX_FUNCTIONS, *modules),
    }
    return {"preprocessing_fn": f"{TFX_FUNCTIONS}.preprocessing_fn", "custom_config": custom_config}
