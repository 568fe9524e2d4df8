"""The components that evaluate a model, and record and push a blessed one."""

from __future__ import annotations

import json

from tfx.dsl.components.base.base_node import BaseNode
from tfx.types import BaseChannel

from headrace.components.canary.component import NO_LIMIT, Canary
from headrace.components.deploy.baseline import Baseline, RecordBlessing
from headrace.components.deploy.pusher import Pusher
from headrace.components.evaluation import component as evaluation_component
from headrace.components.lite.component import Lite
from headrace.components.stored_models.blessed_record import AUTOMATIC
from headrace.components.stored_models.push import KEEP_ALL
from headrace.components.trigger.component import RecordTraining
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import Components
from headrace.pipeline.dag.data import held_out_spans
from headrace.pipeline.folders import Folders
from headrace.pipeline.training_digest import training_digest
from headrace.trainer.tfx_functions import model_call


def baseline(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode:
    return Baseline(
        model=built.trainer.outputs["model"],
        schema=built.schema_gen.outputs["schema"],
        label=config.label.identity,
        **_lists(folders),
    )


def evaluator(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode:
    return evaluation_component.evaluator(
        examples=built.example_gen.outputs["examples"],
        model=built.trainer.outputs["model"],
        baseline=built.baseline.outputs["baseline"],
        label=config.label,
        evaluate=config.evaluate,
        split=config.evaluated_split,
        call=model_call(config.own_training, config.label_key) if config.own_training else None,
        rows=0 if config.report.rows == "none" else config.report.rows,
    )


def canary(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    """The examination of the exported model, if it may be pushed."""
    if config.canary is None:
        return None
    replay, own = config.canary.replay, config.own_training
    recorded = {} if own else {"model_run": built.trainer.outputs["model_run"]}
    keys = ("transformed_examples", "transform_graph") if replay or recorded else ()
    return Canary(
        model=built.trainer.outputs["model"],
        examples=built.example_gen.outputs["examples"],
        example_splits=json.dumps([config.evaluated_split]),
        count=config.canary.examples,
        latency_p50_ms=config.canary.latency_p50_ms or NO_LIMIT,
        latency_p99_ms=config.canary.latency_p99_ms or NO_LIMIT,
        memory_mb=config.canary.memory_mb or NO_LIMIT,
        replay=replay.model_dump_json() if replay else "",
        **_staging(config),
        **({"preprocessing": own.preprocessing_function_name} if own else {}),
        **{key: built.transform.outputs[key] for key in keys},
        **recorded,
    )


def _staging(config: PipelineConfig) -> dict[str, str]:
    server = config.canary and config.canary.server
    return {"server": server.model_dump_json(), "pipeline": config.pipeline.name} if server else {}


def lite(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    """The conversion for LiteRT, if the config asks for it and the model may be pushed."""
    if config.lite is None:
        return None
    return Lite(
        model=built.trainer.outputs["model"],
        examples=built.example_gen.outputs["examples"],
        settings=config.lite.model_dump_json(),
        example_splits=json.dumps([config.evaluated_split, "train"]),
        canary=None if built.canary is None else built.canary.outputs["blessing"],
    )


def record_blessing(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode:
    pushes = config.push_directory is not None  # else nothing could ever be promoted, or be a baseline
    return RecordBlessing(
        model=built.trainer.outputs["model"],
        blessing=built.evaluator.outputs["blessing"],
        canary=_canary(built),
        **held_out_spans(config, built),
        **({"statistics": built.statistics_gen.outputs["statistics"]} if config.compares_with_blessed_data else {}),
        schema=built.schema_gen.outputs["schema"],
        label=config.label.identity,
        columns=json.dumps(config.feature_columns),
        approval=config.deploy.approval if pushes else AUTOMATIC,
        **_lists(folders),
    )


def pusher(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    if config.push_directory is None:
        return None
    return Pusher(
        model=built.record_blessing.outputs["newest"],
        model_blessing=built.evaluator.outputs["blessing"],
        entry=built.record_blessing.outputs["entry"],
        destination=str(folders.pushed(config.push_directory)),
        keep=config.deploy.keep or KEEP_ALL,
        approval=config.deploy.approval,
        **_lists(folders),
        canary=_canary(built),
    )


def record_training(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    """The component that records, after all others, what was trained on, if later runs depend on it.

    After the predictions too: a run that finds nothing new ends before it predicts, so it would never complete those of
    a run that failed there.
    """
    if config.retrain == "always":
        return None
    record = RecordTraining(
        spans=built.spans.outputs["spans"],
        statistics=built.statistics_gen.outputs["statistics"],
        blessing=built.evaluator.outputs["blessing"],
        canary=_canary(built),
        work=training_digest(config),
        trained=str(folders.trained),
    )
    for node in (
        built.baseline,
        built.evaluator,
        built.canary,
        built.lite,
        built.record_blessing,
        built.pusher,
        built.profile_verdict,
        built.publish_predictions,
    ):
        if node is not None:
            record.add_upstream_node(node)
    return record


def _canary(built: Components) -> BaseChannel | None:
    """The canary's blessing, or that of Lite, which includes it; None if there is neither."""
    last = built.lite or built.canary
    return None if last is None else last.outputs["blessing"]


def _lists(folders: Folders) -> dict[str, str]:
    """The lists of blessed and of pushed models."""
    return {"registry": str(folders.registry), "push_record": str(folders.push_record)}
