"""Code and files of the user's that decide what a component computes."""

from __future__ import annotations

from headrace.configs.config import PipelineConfig
from headrace.pipeline.training_digest import file_digests


def module(dotted_path: str) -> str:
    return dotted_path.rpartition(".")[0]


def files(config: PipelineConfig, *more: str) -> str:
    """Digests of the vocabulary files, which Transform and Trainer read, and of more files and folders, so that an edit
    to one of them runs its readers again.
    """
    return file_digests([*(getattr(feature, "file", None) for feature in config.declared_features.values()), *more])
