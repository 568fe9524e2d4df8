"""A run's folder: its record, its config, and the artifacts that the record names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import yaml
from pydantic import ValidationError

from headrace.common import yaml_text
from headrace.common.errors import RunError
from headrace.components.bulk_predictor.record import PublishedPredictions
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import Evaluation, read_evaluation
from headrace.components.gates.verdict import DataVerdicts
from headrace.components.lite.verdict import LiteVerdict
from headrace.configs.config import PipelineConfig
from headrace.pipeline.results.record import ArtifactRecord, RunRecord, Status

CONFIG_FILE = "config.yaml"


@dataclass(frozen=True)
class RunFolder:
    """The folder `<root>/<pipeline>/runs/<run id>/`. Whatever the run did not get to is None or empty."""

    path: Path
    record: RunRecord

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the record of a run. Raises FileNotFoundError if the folder holds none."""
        return cls(path, RunRecord.read(path))

    @property
    def home(self) -> Path:
        """The absolute path of the pipeline's folder `<root>/<pipeline>`."""
        return self.path.absolute().parents[1]

    @cached_property
    def config_text(self) -> str:
        """The config as it was loaded, as YAML."""
        file = self.path / CONFIG_FILE
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @cached_property
    def config(self) -> PipelineConfig | None:
        """The config, or None if there is none or another version of Headrace wrote it."""
        try:
            return PipelineConfig.model_validate_json(json.dumps(yaml_text.parse(self.config_text)))
        except (ValidationError, yaml.YAMLError, TypeError):
            return None

    @cached_property
    def shows_rows(self) -> bool:
        """Whether pages may show values of single rows, as `report.rows` says, even in another version's config."""
        if self.config is not None:
            return self.config.report.shows_rows
        try:
            tree = yaml_text.parse(self.config_text)
        except yaml.YAMLError:
            return False
        section = tree.get("report") if isinstance(tree, dict) else None
        return not (isinstance(section, dict) and section.get("rows") == "none")

    @cached_property
    def evaluation(self) -> Evaluation | None:
        """The Evaluator's result, or None if the run did not get that far."""
        directory = self.directory("Evaluator", "evaluation")
        try:
            return None if directory is None else read_evaluation(directory)
        except RunError:
            return None

    @cached_property
    def canary(self) -> CanaryVerdict | None:
        """The Canary's verdict, or None if there is none."""
        directory = self.directory("Canary", "blessing")
        return None if directory is None else CanaryVerdict.read(directory)

    @cached_property
    def lite(self) -> LiteVerdict | None:
        """The comparison of the `.tflite` file with the model, or None if there is none."""
        directory = self.directory("Lite", "blessing")
        return None if directory is None else LiteVerdict.read(directory)

    @cached_property
    def gates(self) -> DataVerdicts | None:
        """The verdicts of the gates in `gates:`, or None if there are none.

        A run without new data ends before DataVerdict, and has that on its freshness alone.
        """
        texts = filter(None, (self.text(component, "verdict") for component in ("DataVerdict", "Spans")))
        return next((found for found in map(DataVerdicts.model_validate_json, texts) if found.gates), None)

    @cached_property
    def predicted(self) -> PublishedPredictions | None:
        """What the run predicted of the new data in `predict:`, or None if it got to none."""
        text = self.text("PublishPredictions", "published")
        return None if text is None else PublishedPredictions.model_validate_json(text)

    @property
    def blessed(self) -> bool | None:
        """Whether the Evaluator blessed the model and it passed its canary and Lite; None if it was not evaluated."""
        if self.evaluation is None:
            return None
        examined = (self.output(component, "blessing") for component in ("Canary", "Lite"))
        return self.evaluation.blessed and all(one is None or bool(one.properties.get("blessed")) for one in examined)

    def output(self, node_id: str, key: str) -> ArtifactRecord | None:
        """The artifact that a component wrote under an output key; of one that failed, the verdict that it left."""
        for node in self.record.nodes:
            if node.id == node_id and node.status in (Status.DONE, Status.CACHED, Status.FAILED):
                return node.outputs.get(key)
        return None

    def directory(self, node_id: str, key: str) -> Path | None:
        """The folder of that artifact, in the pipeline's folder as it is now, which may have been moved or copied."""
        artifact = self.output(node_id, key)
        if artifact is None:
            return None
        places = (self.place(artifact.uri), Path(artifact.uri.removeprefix("file://")))
        return next((path for path in places if path.exists()), None)

    def place(self, uri: str) -> Path:
        """Where an artifact of this pipeline is, or was, in its folder as it is now; any other stays where it is."""
        path = Path(uri.removeprefix("file://"))
        if "artifacts" not in path.parts:
            return path
        # the last "artifacts": the pipeline may itself lie below a folder of that name
        start = len(path.parts) - 1 - path.parts[::-1].index("artifacts")
        return self.home.joinpath(*path.parts[start:])

    def text(self, node_id: str, key: str) -> str | None:
        """The value of a String artifact."""
        path = self.directory(node_id, key)
        if path is None:
            return None
        file = path / "value" if path.is_dir() else path
        return file.read_text(encoding="utf-8") if file.exists() else None
