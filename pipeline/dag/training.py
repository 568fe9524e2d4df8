"""The components that train a model, and that judge how its training ran."""

from __future__ import annotations

import json
from typing import Any

from tfx.components.trainer.component import Trainer
from tfx.dsl.components.base.base_node import BaseNode
from tfx.proto import trainer_pb2
from tfx.types import channel

from headrace.components.deploy.baseline import WarmStart
from headrace.components.profile.component import ProfileGate, ProfileVerdict
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import Components
from headrace.configs.schema.models import RunFnModel
from headrace.configs.schema.train import CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS
from headrace.pipeline.code.digest import sources_digest
from headrace.pipeline.dag.data import held_out_spans
from headrace.pipeline.folders import Folders
from headrace.pipeline.training_digest import TFX_FUNCTIONS, feature_files, file_digests, model_files, training_modules
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tfx_functions import KEYS, LABEL, LABEL_KEY, TRAINING

Channels = dict[str, channel.BaseChannel]


def _transformed(built: Components) -> Channels:
    """What Tuner and Trainer read."""
    return {
        "examples": built.transform.outputs["transformed_examples"],
        "transform_graph": built.transform.outputs["transform_graph"],
        "schema": built.schema_gen.outputs["schema"],
    }


def tuner(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    """The hyperparameter search, if the config asks for one. Its trials take no profile and no warm start."""
    if config.tune is None:
        return None
    from tfx.components.tuner.component import Tuner  # imports KerasTuner

    sections = TrainerSections.of(config)
    unused = {"profile": None, "warm_start": False}
    sections = sections.model_copy(update={"train": sections.train.model_copy(update=unused)})
    return Tuner(
        tuner_fn="headrace.trainer.tuning.tuner.tuner_fn",
        **_transformed(built),
        custom_config={
            "config": sections.to_json(),
            CHECKPOINT_FOLDER: str(folders.checkpoints),
            "tune": config.tune.model_dump_json(),
            "sources": sources_digest("headrace.trainer.tuning.tuner", *training_modules(config)),
            "files": file_digests([*feature_files(config), *model_files(config)]),
        },
    )


def warm_start(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    """With `train.warm_start`, the component that finds the model that the training starts from."""
    if config.own_training is not None or not config.train.warm_start:
        return None
    return WarmStart(
        transform_graph=built.transform.outputs["transform_graph"],
        schema=built.schema_gen.outputs["schema"],
        training=json.dumps(_training(config)),
        label=config.label.identity,
        registry=str(folders.registry),
        push_record=str(folders.push_record),
        **held_out_spans(config, built),
    )


def trainer(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode:
    if config.own_training is not None:
        return _own_trainer(config, config.own_training, _transformed(built))
    checkpoints = {
        CHECKPOINT_FOLDER: str(folders.checkpoints),
        CHECKPOINT_SETTINGS: config.train.checkpoint.model_dump_json(),
    }
    return Trainer(
        run_fn="headrace.trainer.run.run_fn",
        **_transformed(built),
        base_model=built.warm_start.outputs["base"] if built.warm_start else None,
        hyperparameters=built.tuner.outputs["best_hyperparameters"] if built.tuner else None,
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
        custom_config={**_training(config), **checkpoints},
    )


def _own_trainer(config: PipelineConfig, training: RunFnModel, transformed: Channels) -> BaseNode:
    """The Trainer with the user's run_fn."""
    return Trainer(
        run_fn=f"{TFX_FUNCTIONS}.run_fn",
        **transformed,
        train_args=trainer_pb2.TrainArgs(num_steps=training.train_steps),
        eval_args=trainer_pb2.EvalArgs(num_steps=training.eval_steps),
        custom_config={
            TRAINING: training.model_dump_json(),
            LABEL: config.label.identity,
            LABEL_KEY: config.label_key,
            KEYS: config.preprocessing and config.preprocessing.keys,
            "sources": sources_digest(TFX_FUNCTIONS, *training_modules(config)),
        },
    )


def _training(config: PipelineConfig) -> dict[str, Any]:
    """What decides which model our own training makes of the transformed examples."""
    return {
        "config": TrainerSections.of(config).to_json(),
        "sources": sources_digest("headrace.trainer.run", *training_modules(config)),
        "files": file_digests([*feature_files(config), *model_files(config)]),
    }


def profile_verdict(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    """The verdict on the training's profile, if there is one."""
    return None if config.train.profile is None else ProfileVerdict(model_run=built.trainer.outputs["model_run"])


def profile_gate(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    """The gate behind the verdict, if there is a limit: a model whose training waited too long is not pushed."""
    limit = config.train.profile.fail_if_input_bound_above if config.train.profile else None
    if built.profile_verdict is None or limit is None:
        return None
    return ProfileGate(verdict=built.profile_verdict.outputs["verdict"], limit=limit)
