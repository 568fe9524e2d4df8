"""A digest of everything except the data that decides which model is trained: settings, code, files and libraries.

`schedule.retrain` compares it with that of the last training. Imports no TFX.
"""

from __future__ import annotations

import json
from pathlib import Path

from headrace.common.digests import digest_path, digest_text
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.features import CustomFeature
from headrace.configs.schema.models import CustomModel, ImageModel
from headrace.configs.schema.optimizer import optimizer_config
from headrace.configs.schema.sources import ArraysSource
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
    data = config.data.model_dump_json(by_alias=True, exclude=SPAN_SETTINGS | {"on_anomaly"})
    calls = [TFX_FUNCTIONS] if config.preprocessing or config.own_training else []
    code = sources_digest(*CODE, *calls, *(path.rpartition(".")[0] for path in user_functions(config)))
    files = [
        config.data.schema_file,
        *(getattr(feature, "file", None) for feature in config.declared_features.values()),
    ]
    versions = json.dumps(stack_versions(), sort_keys=True)
    return digest_text(settings, data, code, file_digests([*files, *model_files(config)]), versions)


def user_functions(config: PipelineConfig) -> list[str]:
    """The dotted paths of all functions of the user's own."""
    functions = [*data_functions(config), *feature_functions(config), *training_functions(config)]
    return [*functions, *([config.pipeline.extend] if config.pipeline.extend else [])]


def feature_functions(config: PipelineConfig) -> list[str]:
    """The dotted paths of the user's own features, or of the preprocessing_fn that computes all of them."""
    if config.preprocessing is not None:
        return [config.preprocessing.function]
    return [one.function for one in config.declared_features.values() if isinstance(one, CustomFeature)]


def data_functions(config: PipelineConfig) -> list[str]:
    """The dotted path of the function that supplies the data, if there is one."""
    source = config.data.source
    return [source.function] if isinstance(source, ArraysSource) and source.function else []


def training_functions(config: PipelineConfig) -> list[str]:
    """The dotted paths of the user's own model and optimizer, or of the run_fn that does all of the training."""
    if config.own_training is not None:
        return [config.own_training.run_fn]
    optimizer = optimizer_config(config.train.optimizer)
    return [config.model.kind] * isinstance(config.model, CustomModel) + [optimizer.kind] * optimizer.is_own


def model_files(config: PipelineConfig) -> list[str]:
    """The files and folders that the model is built from."""
    backbone = config.model.backbone if isinstance(config.model, ImageModel) else None
    return [backbone.saved_model] if backbone else []


def file_digests(files: list[str | None]) -> str:
    """JSON: path to digest, for files and folders. Those that do not exist are left out."""
    return json.dumps({file: digest_path(Path(file)) for file in files if file and Path(file).exists()}, sort_keys=True)
