"""The DAG: one TFX `Pipeline` from a config, the same object for every runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfx import components as stock
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.base import base_node
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import trainer_pb2
from tfx.types import channel

from headrace.components.deploy.baseline import Baseline, RecordBlessing, WarmStart
from headrace.components.deploy.pusher import KEEP_ALL, Pusher
from headrace.components.evaluation.component import evaluator
from headrace.components.example_gen.component import ExampleGen
from headrace.components.example_gen.spans.component import Spans
from headrace.components.gates.data_gate import DataGate
from headrace.components.profile.component import ProfileGate, ProfileVerdict
from headrace.components.schema import read_schema
from headrace.components.schema_gen import SchemaGen
from headrace.components.statistics.component import StatisticsGen
from headrace.components.transform.component import Transform
from headrace.components.trigger.component import Drift, LookForNew, RecordTraining
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.models import RunFnModel
from headrace.configs.schema.train import CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS
from headrace.pipeline.code.digest import sources_digest
from headrace.pipeline.folders import Folders
from headrace.pipeline.training_digest import (
    SPAN_SETTINGS,
    TFX_FUNCTIONS,
    data_functions,
    feature_functions,
    file_digests,
    model_files,
    training_digest,
    training_functions,
)
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tfx_functions import LABEL, LABEL_KEY, PREPROCESSING, TRAINING, model_call

AFTER_PROFILE_GATE = frozenset({"RecordBlessing", "Pusher"})
"""The components that must not run for a model whose training waited too long for input, if the config sets a limit."""


def create_pipeline(config: PipelineConfig, folders: Folders | None = None) -> Pipeline:
    """Build the whole pipeline. Raises DataError if a curated schema cannot be read.

    folders: the pipeline's folders; None for those that the config names, on this machine.
    """
    folders = folders or Folders.of(config)
    nodes = [*_data(config, folders)]
    example_gen, schema_gen, gate = nodes[1], nodes[3], nodes[-1]
    examples, schema = example_gen.outputs["examples"], schema_gen.outputs["schema"]
    transform = _transform(config, folders, examples, schema)
    drift = _drift(config, folders, nodes)
    transform.add_upstream_node(drift[0] if drift else gate)
    tuners = _tuner(config, folders, transform, schema)
    hyperparameters = next((tuner.outputs["best_hyperparameters"] for tuner in tuners), None)
    warm_start, trainer = _trainer(config, folders, transform, schema, hyperparameters)
    evaluated = _evaluate_and_push(config, folders, examples, schema, trainer.outputs["model"])
    profiled = _profile(config, trainer)
    for node in evaluated:
        if len(profiled) > 1 and node.id in AFTER_PROFILE_GATE:
            node.add_upstream_node(profiled[-1])
    recorded = _record_training(config, folders, nodes, evaluated, profiled)
    nodes += [*drift, transform, *tuners, *warm_start, trainer, *profiled, *evaluated, *recorded]
    return Pipeline(config.pipeline.name, str(folders.artifacts), components=nodes, enable_cache=True)


def _data(config: PipelineConfig, folders: Folders) -> list[base_node.BaseNode]:
    """The components from raw data to examples that passed the gate."""
    read = config.data.model_copy(update={"columns": config.read_columns or "all"})
    spans = _spans(config, folders, read.model_dump_json(by_alias=True, include=SPAN_SETTINGS))
    example_gen = ExampleGen(
        spans=spans.outputs["spans"],
        data=read.model_dump_json(by_alias=True, exclude=SPAN_SETTINGS - {"source"} | {"on_anomaly"}),
        store=str(folders.spans),
        code=sources_digest("headrace.components.example_gen.component"),
    )
    statistics_gen = StatisticsGen(
        examples=example_gen.outputs["examples"],
        store=str(folders.spans),
        code=sources_digest("headrace.components.statistics.component"),
    )
    statistics = statistics_gen.outputs["statistics"]
    schema_gen = _schema(config, statistics)
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
    return [spans, example_gen, statistics_gen, schema_gen, validator, gate]


def _spans(config: PipelineConfig, folders: Folders, data: str) -> base_node.BaseNode:
    """The component that finds the spans to read and, with `schedule.retrain`, decides whether any of them are new."""
    if config.retrain == "always":
        code = sources_digest("headrace.components.example_gen.spans.component", *map(_module, data_functions(config)))
        return Spans(data=data, code=code)
    spans = LookForNew(
        data=data,
        retrain=config.retrain,
        limits=config.drift_limits,
        work=training_digest(config),
        trained=str(folders.trained),
    )
    return spans.with_id("Spans")


def _drift(config: PipelineConfig, folders: Folders, data: list[base_node.BaseNode]) -> list[base_node.BaseNode]:
    """The component that measures drift, if the config trains only on drift."""
    if config.retrain != "drift":
        return []
    spans, example_gen, statistics_gen, schema_gen, _, gate = data
    drift = Drift(
        examples=example_gen.outputs["examples"],
        statistics=statistics_gen.outputs["statistics"],
        schema=schema_gen.outputs["schema"],
        spans=spans.outputs["spans"],
        found=spans.outputs["go"],
        limits=config.drift_limits,
        columns=json.dumps(sorted({config.label.key, *config.feature_columns})),
        trained=str(folders.trained),
        store=str(folders.spans),
        code=sources_digest("headrace.components.statistics.component"),
    )
    drift.add_upstream_node(gate)
    return [drift]


def _record_training(
    config: PipelineConfig,
    folders: Folders,
    data: list[base_node.BaseNode],
    evaluated: list[base_node.BaseNode],
    profiled: list[base_node.BaseNode],
) -> list[base_node.BaseNode]:
    """The component that records, after all others, what was trained on, if later runs depend on it."""
    if config.retrain == "always":
        return []
    recorded = RecordTraining(
        spans=data[0].outputs["spans"],
        statistics=data[2].outputs["statistics"],
        blessing=evaluated[1].outputs["blessing"],
        work=training_digest(config),
        trained=str(folders.trained),
    )
    for node in (*evaluated, *profiled):
        recorded.add_upstream_node(node)
    return [recorded]


def _schema(config: PipelineConfig, statistics: channel.BaseChannel) -> base_node.BaseNode:
    if config.data.schema_file is None:
        return SchemaGen(statistics=statistics, infer_feature_shape=False)
    read_schema(config.data.schema_file)
    return ImportSchemaGen(schema_file=str(Path(config.data.schema_file).absolute())).with_id("SchemaGen")


def _transform(
    config: PipelineConfig, folders: Folders, examples: channel.BaseChannel, schema: channel.BaseChannel
) -> Transform:
    return Transform(
        examples=examples,
        schema=schema,
        **_preprocessing(config),
        disable_statistics=True,
        disable_analyzer_cache=True,  # TFX's own cache; ours is the store of spans
        store=str(folders.spans),
        code=sources_digest("headrace.components.transform.component"),
    )


def _preprocessing(config: PipelineConfig) -> dict[str, Any]:
    """The function that Transform traces, ours or the one that calls the user's, and its arguments."""
    modules = map(_module, feature_functions(config))
    if config.preprocessing is None:
        custom_config = {
            "config": TrainerSections.for_transform(config).to_json(),
            "sources": sources_digest("headrace.trainer.preprocessing", *modules),
            "files": _files(config),
        }
        return {"preprocessing_fn": "headrace.trainer.preprocessing.preprocessing_fn", "custom_config": custom_config}
    custom_config = {
        PREPROCESSING: config.preprocessing.model_dump_json(),
        LABEL: config.label.model_dump_json(),
        LABEL_KEY: config.label_key,
        "sources": sources_digest(TFX_FUNCTIONS, *modules),
    }
    return {"preprocessing_fn": f"{TFX_FUNCTIONS}.preprocessing_fn", "custom_config": custom_config}


def _tuner(
    config: PipelineConfig, folders: Folders, transform: Transform, schema: channel.BaseChannel
) -> list[stock.Tuner]:
    """The hyperparameter search, if the config asks for one. Its trials take no profile and no warm start."""
    if config.tune is None:
        return []
    sections = TrainerSections.of(config)
    unused = {"profile": None, "warm_start": False}
    sections = sections.model_copy(update={"train": sections.train.model_copy(update=unused)})
    tuner = stock.Tuner(
        tuner_fn="headrace.trainer.tuning.tuner.tuner_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        custom_config={
            "config": sections.to_json(),
            CHECKPOINT_FOLDER: str(folders.checkpoints),
            "tune": config.tune.model_dump_json(),
            "sources": sources_digest("headrace.trainer.tuning.tuner", *map(_module, training_functions(config))),
            "files": _files(config, *model_files(config)),
        },
    )
    return [tuner]


def _trainer(
    config: PipelineConfig,
    folders: Folders,
    transform: Transform,
    schema: channel.BaseChannel,
    hyperparameters: channel.BaseChannel | None,
) -> tuple[list[base_node.BaseNode], stock.Trainer]:
    """The Trainer and, with `train.warm_start`, the component that finds the model it starts from."""
    if config.own_training is not None:
        return [], _own_trainer(config, config.own_training, transform, schema)
    custom_config = {
        "config": TrainerSections.of(config).to_json(),
        "sources": sources_digest("headrace.trainer.run", *map(_module, training_functions(config))),
        "files": _files(config, *model_files(config)),
    }
    warm_start = []
    if config.train.warm_start:
        warm_start.append(
            WarmStart(
                transform_graph=transform.outputs["transform_graph"],
                schema=schema,
                training=json.dumps(custom_config),
                label=config.label.model_dump_json(),
                registry=str(folders.registry),
                push_record=str(folders.push_record),
            )
        )
    checkpoints = {
        CHECKPOINT_FOLDER: str(folders.checkpoints),
        CHECKPOINT_SETTINGS: config.train.checkpoint.model_dump_json(),
    }
    trainer = stock.Trainer(
        run_fn="headrace.trainer.run.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        base_model=warm_start[0].outputs["base"] if warm_start else None,
        hyperparameters=hyperparameters,
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
        custom_config={**custom_config, **checkpoints},
    )
    return warm_start, trainer


def _own_trainer(
    config: PipelineConfig, training: RunFnModel, transform: Transform, schema: channel.BaseChannel
) -> stock.Trainer:
    """The Trainer with the user's run_fn."""
    return stock.Trainer(
        run_fn=f"{TFX_FUNCTIONS}.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        train_args=trainer_pb2.TrainArgs(num_steps=training.train_steps),
        eval_args=trainer_pb2.EvalArgs(num_steps=training.eval_steps),
        custom_config={
            TRAINING: training.model_dump_json(),
            LABEL: config.label.model_dump_json(),
            LABEL_KEY: config.label_key,
            "sources": sources_digest(TFX_FUNCTIONS, *map(_module, training_functions(config))),
        },
    )


def _profile(config: PipelineConfig, trainer: stock.Trainer) -> list[base_node.BaseNode]:
    """The verdict on the training's profile, if there is one, and the gate, if there is a limit."""
    profile = config.train.profile
    if profile is None:
        return []
    verdict = ProfileVerdict(model_run=trainer.outputs["model_run"])
    if profile.fail_if_input_bound_above is None:
        return [verdict]
    return [verdict, ProfileGate(verdict=verdict.outputs["verdict"], limit=profile.fail_if_input_bound_above)]


def _evaluate_and_push(
    config: PipelineConfig,
    folders: Folders,
    examples: channel.BaseChannel,
    schema: channel.BaseChannel,
    model: channel.BaseChannel,
) -> list[base_node.BaseNode]:
    label = config.label.model_dump_json()
    lists = {"registry": str(folders.registry), "push_record": str(folders.push_record)}
    baseline = Baseline(model=model, schema=schema, label=label, **lists)
    evaluation = evaluator(
        examples=examples,
        model=model,
        baseline=baseline.outputs["baseline"],
        label=config.label,
        evaluate=config.evaluate,
        split=config.evaluated_split,
        call=model_call(config.own_training, config.label_key) if config.own_training else None,
    )
    blessing = evaluation.outputs["blessing"]
    columns = json.dumps(config.feature_columns)
    recorded = RecordBlessing(model=model, blessing=blessing, schema=schema, label=label, columns=columns, **lists)
    nodes = [baseline, evaluation, recorded]
    if config.push_directory is not None:
        pushed = Pusher(
            model=recorded.outputs["newest"],
            model_blessing=blessing,
            entry=recorded.outputs["entry"],
            destination=str(folders.pushed(config.push_directory)),
            keep=config.deploy.keep or KEEP_ALL,
            push_record=str(folders.push_record),
        )
        nodes.append(pushed)
    return nodes


def _module(dotted_path: str) -> str:
    return dotted_path.rpartition(".")[0]


def _files(config: PipelineConfig, *more: str) -> str:
    """Digests of the vocabulary files, which Transform and Trainer read, and of more files and folders, so that an edit
    to one of them runs its readers again.
    """
    return file_digests([*(getattr(feature, "file", None) for feature in config.declared_features.values()), *more])
