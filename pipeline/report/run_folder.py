"""A run's folder: the record, the config and the artifacts that the record names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml
from pydantic import ValidationError

from headrace.components.evaluation.result import Evaluation, read_evaluation
from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.pipeline.local.record import ArtifactRecord, RunRecord, Status

CONFIG_FILE = "config.yaml"


@dataclass(frozen=True)
class RunFolder:
    """`<root>/<pipeline>/runs/<run id>/`. What an early end left out is None or empty."""

    path: Path
    record: RunRecord

    @classmethod
    def read(cls, path: Path) -> RunFolder:
        """FileNotFoundError if there is no run record in it."""
        return cls(path, RunRecord.read(path))

    @cached_property
    def config_text(self) -> str:
        """The config as it was loaded, YAML."""
        file = self.path / CONFIG_FILE
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @cached_property
    def config(self) -> PipelineConfig | None:
        """None where there is none, or where another version of Headrace wrote it."""
        try:
            return PipelineConfig.model_validate_json(json.dumps(yaml.safe_load(self.config_text)))
        except (ValidationError, yaml.YAMLError, TypeError):
            return None

    @cached_property
    def evaluation(self) -> Evaluation | None:
        """None where the run did not come so far."""
        directory = self.directory("Evaluator", "evaluation")
        try:
            return None if directory is None else read_evaluation(directory)
        except RunError:
            return None

    def output(self, node_id: str, key: str) -> ArtifactRecord | None:
        """What a component wrote under an output key, if it ended well."""
        for node in self.record.nodes:
            if node.id == node_id and node.status in (Status.DONE, Status.CACHED):
                return node.outputs.get(key)
        return None

    def directory(self, node_id: str, key: str) -> Path | None:
        """Where that output lies, also if the whole pipeline's folder was moved."""
        artifact = self.output(node_id, key)
        if artifact is None:
            return None
        uri = Path(artifact.uri.removeprefix("file://"))
        if not uri.exists() and "artifacts" in uri.parts:
            start = len(uri.parts) - 1 - uri.parts[::-1].index("artifacts")  # the last: the pipeline may lie below one
            inside = uri.parts[start:]
            uri = self.path.absolute().parents[1].joinpath(*inside)
        return uri if uri.exists() else None

    def text(self, node_id: str, key: str) -> str | None:
        """The value of a String artifact."""
        place = self.directory(node_id, key)
        if place is None:
            return None
        file = place / "value" if place.is_dir() else place
        return file.read_text(encoding="utf-8") if file.exists() else None
