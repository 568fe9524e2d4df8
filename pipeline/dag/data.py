"""The components from raw data to transformed examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfx.components.example_validator.component import ExampleValidator
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.base.base_node import BaseNode

from headrace.components.example_gen.component import ExampleGen
from headrace.components.example_gen.required import RequiredColumn
from headrace.components.gates.data_gate import DataGate
from headrace.components.gates.data_verdict import DataVerdict
from headrace.components.gates.log_columns import as_read
from headrace.components.gates.serving import ServingLog, ServingStatistics
from headrace.components.schema import check_float64, read_schema
from headrace.components.schema_gen import SchemaGen
from headrace.components.spans.component import Spans
from headrace.components.statistics.component import StatisticsGen
from headrace.components.transform.component import Transform
from headrace.components.trigger.component import Drift, LookForNew
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import Components
from headrace.configs.schema.data import JUDGING_SETTINGS, DataConfig
from headrace.configs.schema.transform import Materialize
from headrace.pipeline.code.digest import sources_digest
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

LOG_LISTED = {"source", "window", "delay", "fingerprint"}
"""The settings of a model server's log that decide which of it is compared."""
LOG_READ = {"source", "types", "on_bad_record", "max_bad_fraction"}
"""Those that decide how it is read."""


def spans(config: PipelineConfig, _built: Components, folders: Folders) -> BaseNode:
    """The component that finds the spans to read and, with `schedule.retrain`, decides whether any of them are new."""
    data = _read(config).model_dump_json(by_alias=True, include=SPAN_SETTINGS)
    if config.retrain == "always":
        code = sources_digest("headrace.components.spans.component", *data_modules(config))
        return Spans(data=data, code=code)
    spans = LookForNew(
        data=data,
        retrain=config.retrain,
        limits=config.drift_limits,
        work=training_digest(config),
        trained=str(folders.trained),
        **({"freshness": config.freshness_of_spans} if config.freshness_of_spans else {}),
    )
    return spans.with_id("Spans")


def example_gen(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode:
    required = RequiredColumn.of(config.label)
    ignored = SPAN_SETTINGS - {"source"} | JUDGING_SETTINGS
    return ExampleGen(
        spans=built.spans.outputs["spans"],
        data=_read(config).model_dump_json(by_alias=True, exclude=ignored),
        store=str(folders.spans),
        code=sources_digest("headrace.components.example_gen.component", *config.data.source.own_modules()),
        required=required.to_json() if required else None,
    )


def _read(config: PipelineConfig) -> DataConfig:
    """The section `data:` with the names of the columns to read, and of the one whose classes are stratified."""
    names = {"columns": config.read_columns or "all", "stratify": config.stratified or False}
    return config.data.model_copy(update=names)


def held_out_spans(config: PipelineConfig, built: Components) -> dict[str, Any]:
    """What a component needs to know which spans are held out; nothing if the rows of each span are split."""
    if not config.data.split_spans:
        return {}
    return {"split_spans": json.dumps(config.data.split_spans), "spans": built.spans.outputs["spans"]}


def statistics_gen(_config: PipelineConfig, built: Components, folders: Folders) -> BaseNode:
    return StatisticsGen(
        examples=built.example_gen.outputs["examples"],
        store=str(folders.spans),
        code=sources_digest("headrace.components.statistics.component"),
    )


def schema_gen(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode:
    if config.data.schema_file is None:
        return SchemaGen(statistics=built.statistics_gen.outputs["statistics"], infer_feature_shape=False)
    check_float64(read_schema(config.data.schema_file), config.data.schema_file, config.data.float64_columns)
    return ImportSchemaGen(schema_file=str(Path(config.data.schema_file).absolute())).with_id("SchemaGen")


def example_validator(_config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode:
    return ExampleValidator(
        statistics=built.statistics_gen.outputs["statistics"], schema=built.schema_gen.outputs["schema"]
    )


def serving_log(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    """The component that lists the requests that a model server logged, with `gates.skew`."""
    skew = config.gates.skew
    if skew is None:
        return None
    return ServingLog(
        data=skew.data(config.data).model_dump_json(by_alias=True, include=LOG_LISTED),
        code=sources_digest("headrace.components.gates.serving_log", *skew.source.modules()),
        as_of=built.spans.outputs["as_of"],
    )


def serving_statistics(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    skew = config.gates.skew
    if skew is None or built.serving_log is None:
        return None
    return ServingStatistics(
        log=built.serving_log.outputs["log"],
        data=as_read(skew.data(config.data), config.compared_columns).model_dump_json(by_alias=True, include=LOG_READ),
        columns=json.dumps(config.compared_columns),
        code=sources_digest("headrace.components.gates.serving", *skew.source.own_modules()),
    )


def data_verdict(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    """The component that holds the data against `gates:`, if there are any."""
    if not config.gates.any_set:
        return None
    skew = built.serving_statistics
    return DataVerdict(
        examples=built.example_gen.outputs["examples"],
        statistics=built.statistics_gen.outputs["statistics"],
        schema=built.schema_gen.outputs["schema"],
        spans=built.spans.outputs["spans"],
        as_of=built.spans.outputs["as_of"],
        gates=config.gates.model_dump_json(exclude=None if skew else {"skew"}),
        columns=json.dumps(config.compared_columns),
        store=str(folders.spans),
        code=sources_digest("headrace.components.statistics.component"),
        **({"registry": str(folders.registry)} if config.compares_with_blessed_data else {}),
        **({"serving": skew.outputs["statistics"], "labels": json.dumps(config.label.columns)} if skew else {}),
    )


def data_gate(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode:
    return DataGate(
        statistics=built.statistics_gen.outputs["statistics"],
        anomalies=built.example_validator.outputs["anomalies"],
        label=config.label.unweighted.model_dump_json(),
        columns=json.dumps(config.feature_columns),
        single=json.dumps(config.single_columns),
        rounded=json.dumps(config.rounded_columns),
        on_anomaly=config.data.on_anomaly,
        **({"computed_label": 1} if config.preprocessing else {}),
        **({"judged": built.data_verdict.outputs["verdict"]} if built.data_verdict else {}),
    )


def drift(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    """The component that measures drift, if the config trains only on drift."""
    if config.retrain != "drift":
        return None
    drift = Drift(
        examples=built.example_gen.outputs["examples"],
        statistics=built.statistics_gen.outputs["statistics"],
        schema=built.schema_gen.outputs["schema"],
        spans=built.spans.outputs["spans"],
        found=built.spans.outputs["go"],
        limits=config.drift_limits,
        columns=json.dumps(sorted({*config.label.columns, *config.feature_columns})),
        trained=str(folders.trained),
        store=str(folders.spans),
        code=sources_digest("headrace.components.statistics.component"),
    )
    drift.add_upstream_node(built.data_gate)
    return drift


def _materialize(config: PipelineConfig) -> Materialize:
    """`transform.materialize`; `auto` also writes TFRecords for a tf.data service, which reads and parses them."""
    served = config.train.input.service is not None and config.transform.materialize == "auto"
    return "always" if served or config.own_training is not None else config.transform.materialize


def transform(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode:
    transform = Transform(
        examples=built.example_gen.outputs["examples"],
        schema=built.schema_gen.outputs["schema"],
        **_preprocessing(config),
        disable_statistics=True,
        disable_analyzer_cache=True,  # TFX's own cache; ours is the store of spans
        store=str(folders.spans),
        code=sources_digest("headrace.components.transform.component"),
        materialize=_materialize(config),
    )
    transform.add_upstream_node(built.drift or built.data_gate)
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
        LABEL: config.label.identity,
        LABEL_KEY: config.label_key,
        "sources": sources_digest(TFX_FUNCTIONS, *modules),
    }
    return {"preprocessing_fn": f"{TFX_FUNCTIONS}.preprocessing_fn", "custom_config": custom_config}
