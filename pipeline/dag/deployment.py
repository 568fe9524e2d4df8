"""The components that evaluate a model, and record and push a blessed one."""

from __future__ import annotations

import json

from tfx.dsl.components.base.base_node import BaseNode

from headrace.components.deploy.baseline import Baseline, RecordBlessing
from headrace.components.deploy.pusher import KEEP_ALL, Pusher
from headrace.components.evaluation import component as evaluation_component
from headrace.components.trigger.component import RecordTraining
from headrace.configs.config import PipelineConfig
from headrace.pipeline.extension.components import DataComponents
from headrace.pipeline.folders import Folders
from headrace.pipeline.training_digest import training_digest
from headrace.trainer.tfx_functions import model_call


def baseline(config: PipelineConfig, folders: Folders, data: DataComponents, trainer: BaseNode) -> BaseNode:
    return Baseline(
        model=trainer.outputs["model"],
        schema=data.schema_gen.outputs["schema"],
        label=config.label.model_dump_json(),
        **_lists(folders),
    )


def evaluator(config: PipelineConfig, data: DataComponents, trainer: BaseNode, baseline: BaseNode) -> BaseNode:
    return evaluation_component.evaluator(
        examples=data.example_gen.outputs["examples"],
        model=trainer.outputs["model"],
        baseline=baseline.outputs["baseline"],
        label=config.label,
        evaluate=config.evaluate,
        split=config.evaluated_split,
        call=model_call(config.own_training, config.label_key) if config.own_training else None,
    )


def record_blessing(
    config: PipelineConfig,
    folders: Folders,
    data: DataComponents,
    trainer: BaseNode,
    evaluation: BaseNode,
) -> BaseNode:
    return RecordBlessing(
        model=trainer.outputs["model"],
        blessing=evaluation.outputs["blessing"],
        schema=data.schema_gen.outputs["schema"],
        label=config.label.model_dump_json(),
        columns=json.dumps(config.feature_columns),
        **_lists(folders),
    )


def pusher(config: PipelineConfig, folders: Folders, evaluation: BaseNode, recorded: BaseNode) -> BaseNode | None:
    if config.push_directory is None:
        return None
    return Pusher(
        model=recorded.outputs["newest"],
        model_blessing=evaluation.outputs["blessing"],
        entry=recorded.outputs["entry"],
        destination=str(folders.pushed(config.push_directory)),
        keep=config.deploy.keep or KEEP_ALL,
        push_record=str(folders.push_record),
    )


def record_training(
    config: PipelineConfig, folders: Folders, data: DataComponents, evaluation: BaseNode
) -> BaseNode | None:
    """The component that records, after all others, what was trained on, if later runs depend on it."""
    if config.retrain == "always":
        return None
    return RecordTraining(
        spans=data.spans.outputs["spans"],
        statistics=data.statistics_gen.outputs["statistics"],
        blessing=evaluation.outputs["blessing"],
        work=training_digest(config),
        trained=str(folders.trained),
    )


def _lists(folders: Folders) -> dict[str, str]:
    """The lists of blessed and of pushed models."""
    return {"registry": str(folders.registry), "push_record": str(folders.push_record)}
