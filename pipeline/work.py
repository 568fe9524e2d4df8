"""A digest of all that decides which model comes of given data: settings, code, files, libraries. Imports no TFX."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.configs.config import PipelineConfig
from headrace.configs.features import CustomFeature
from headrace.configs.models import ImageModel, OwnModel
from headrace.configs.optimizer import optimizer_config
from headrace.configs.sources import ArraysSource
from headrace.pipeline.digest import digest_path, digest_text
from headrace.pipeline.sources import sources_digest, stack_versions

FOUND_BY = {"source", "window", "spans", "run_date", "delay", "fingerprint"}
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


def work_digest(config: PipelineConfig) -> str:
    """The same for the same work, on whatever data."""
    settings = config.model_dump_json(by_alias=True, include=SECTIONS)
    data = config.data.model_dump_json(by_alias=True, exclude=FOUND_BY | {"on_anomaly"})
    code = sources_digest(*CODE, *(hook.rpartition(".")[0] for hook in hooks(config)))
    files = [config.data.schema_file, *(getattr(one, "file", None) for one in config.features.values())]
    versions = json.dumps(stack_versions(), sort_keys=True)
    return digest_text(settings, data, code, file_digests([*files, *model_files(config)]), versions)


def hooks(config: PipelineConfig) -> list[str]:
    """The dotted paths of the user's own functions."""
    features = [one.function for one in config.features.values() if isinstance(one, CustomFeature)]
    return [*data_hooks(config), *features, *training_hooks(config)]


def data_hooks(config: PipelineConfig) -> list[str]:
    """The dotted path of the function that gives the data, where one does."""
    source = config.data.source
    return [source.function] if isinstance(source, ArraysSource) and source.function else []


def training_hooks(config: PipelineConfig) -> list[str]:
    """The dotted paths of what training uses of the user's own."""
    optimizer = optimizer_config(config.train.optimizer)
    return [config.model.kind] * isinstance(config.model, OwnModel) + [optimizer.kind] * optimizer.is_own


def model_files(config: PipelineConfig) -> list[str]:
    """What the model is made from, beside its settings."""
    backbone = config.model.backbone if isinstance(config.model, ImageModel) else None
    return [backbone.saved_model] if backbone else []


def file_digests(files: list[str | None]) -> str:
    """Of files and folders by their paths; those that are not there are left out."""
    return json.dumps({file: digest_path(Path(file)) for file in files if file and Path(file).exists()}, sort_keys=True)
