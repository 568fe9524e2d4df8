"""A digest of everything except the data that decides which model is trained: settings, code, files and libraries.

`schedule.retrain` compares it with that of the last training. Imports no TFX.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from headrace.common.digests import digest_path, digest_text
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.data import JUDGING_SETTINGS
from headrace.configs.schema.optimizer import optimizer_config
from headrace.pipeline.code.digest import sources_digest, stack_versions

SPAN_SETTINGS = {"source", "window", "spans", "run_date", "delay", "fingerprint"}
"""The settings of `data:` that decide which spans are read."""
SECTIONS = {"label", "features", "model", "train", "tune", "evaluate"}
CODE = (
    "headrace.components.example_gen.component",
    "headrace.components.statistics.component",
    "headrace.components.gates.data_gate",
    "headrace.components.transform.component",
    "headrace.components.evaluation.component",
    "headrace.trainer.preprocessing",
    "headrace.trainer.run",
)
TFX_FUNCTIONS = "headrace.trainer.tfx_functions"
"""The module that calls the user's preprocessing_fn and run_fn."""


def training_digest(config: PipelineConfig) -> str:
    """The same digest for the same training, on whatever data."""
    settings = config.model_dump_json(by_alias=True, include=SECTIONS)
    data = config.data.model_dump_json(by_alias=True, exclude=SPAN_SETTINGS | JUDGING_SETTINGS)
    calls = [TFX_FUNCTIONS] if config.preprocessing or config.own_training else []
    code = sources_digest(*CODE, *calls, *modules(config))
    versions = json.dumps(stack_versions(), sort_keys=True)
    extend = [config.pipeline.extend] if config.pipeline.extend else []
    return digest_text(settings, data, code, file_digests(named_files(config)), versions, *extend)


def modules(config: PipelineConfig) -> list[str]:
    """The modules of all kinds that the config uses, and of all functions of the user's own."""
    extend = [_module(config.pipeline.extend)] if config.pipeline.extend else []
    return [*data_modules(config), *feature_modules(config), *training_modules(config), *extend]


def data_modules(config: PipelineConfig) -> list[str]:
    """The modules of the reader of the data, and of the user's function that supplies it, if there is one."""
    return config.data.source.modules()


def feature_modules(config: PipelineConfig) -> list[str]:
    """The modules of the feature columns, or of the preprocessing_fn that computes all features."""
    if config.preprocessing is not None:
        return [_module(config.preprocessing.function)]
    return [module for feature in config.declared_features.values() for module in feature.modules()]


def training_modules(config: PipelineConfig) -> list[str]:
    """The modules of the model, its inputs and the user's own optimizer, or of the run_fn that does the training."""
    if config.own_training is not None:
        return config.model.modules()
    optimizer = optimizer_config(config.train.optimizer)
    return [*feature_modules(config), *config.model.modules(), *([_module(optimizer.kind)] if optimizer.is_own else ())]


def named_files(config: PipelineConfig) -> list[str | None]:
    """The files and folders that the config names besides the data."""
    return [config.data.schema_file, *feature_files(config), *model_files(config)]


def feature_files(config: PipelineConfig) -> list[str]:
    """The files that feature columns read."""
    return [file for feature in config.declared_features.values() for file in feature.files().values()]


def model_files(config: PipelineConfig) -> list[str]:
    """The files and folders that the model is built from."""
    saved = [kind.saved_models().values() for kind in (config.model, *config.declared_features.values())]
    return [*config.model.files().values(), *(folder for each in saved for folder in each)]


def _module(dotted_path: str) -> str:
    return dotted_path.rpartition(".")[0]


def file_digests(files: Sequence[str | None]) -> str:
    """JSON: path to digest, for files and folders. Those that do not exist are left out."""
    return json.dumps({file: digest_path(Path(file)) for file in files if file and Path(file).exists()}, sort_keys=True)
