"""The whole config, and the rules that span its sections."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.beam import BeamConfig
from headrace.configs.data import DataConfig
from headrace.configs.deploy import DeployConfig
from headrace.configs.evaluate import EvaluateConfig
from headrace.configs.features import Feature, NumericFeature, data_columns, single_columns
from headrace.configs.kubeflow import KubeflowConfig
from headrace.configs.label import LabelConfig
from headrace.configs.models import ModelConfig, WideAndDeepModel
from headrace.configs.schedule import Retrain, ScheduleConfig
from headrace.configs.section import Name, Section
from headrace.configs.train import TrainConfig
from headrace.configs.tune import TuneConfig


class PipelineSection(Section):
    """The pipeline's name and where its runs are kept."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    """Lower-case letters, digits and dashes."""
    root: Name = "runs"
    """Directory for artifacts, metadata, logs and reports; the pipeline gets a folder of its own name in it."""


class PipelineConfig(Section):
    """One pipeline: raw data to a trained, judged, pushed model."""

    pipeline: PipelineSection
    """The pipeline's name and where its runs are kept."""
    data: DataConfig
    """What the raw data is, and how it becomes sharded examples."""
    label: LabelConfig
    """What is predicted."""
    features: Annotated[dict[str, Feature], Field(min_length=1)]
    """Which columns mean what: a name, and the kind of feature column (`column:`) with its settings. Missing is a value
    that is absent, NaN, an empty text or the least int64. Of several values of one example the first counts, or all
    with `multivalued: true`."""
    model: ModelConfig = WideAndDeepModel()
    """What is trained."""
    train: TrainConfig = TrainConfig()
    """How it is trained."""
    tune: TuneConfig | None = None
    """Which settings are tried out before the training; null: none."""
    evaluate: EvaluateConfig = EvaluateConfig()
    """What "good enough" means."""
    deploy: DeployConfig = DeployConfig()
    """Where a blessed model goes."""
    beam: BeamConfig = BeamConfig()
    """How the Beam components run."""
    kubeflow: KubeflowConfig = KubeflowConfig()
    """How the pipeline runs on Kubeflow Pipelines."""
    schedule: ScheduleConfig | None = None
    """When the pipeline runs on Kubeflow by itself; null: never."""

    @property
    def retrain(self) -> Retrain:
        """What a run needs to train."""
        return "always" if self.schedule is None else self.schedule.retrain

    @property
    def drift_limits(self) -> str:
        """What counts as drift, as JSON."""
        return "" if self.schedule is None else self.schedule.drift.model_dump_json()

    @property
    def push_directory(self) -> str | None:
        """Where a blessed model is pushed, with the pipeline's name in its place; None: nowhere."""
        return self.deploy.push and self.deploy.push.replace("{name}", self.pipeline.name)

    @property
    def feature_columns(self) -> list[str]:
        """The data columns that features read."""
        read = [data_columns(name, feature, self.features) for name, feature in self.features.items()]
        return sorted({column for columns in read for column in columns})

    @property
    def read_columns(self) -> tuple[str, ...] | None:
        """The data columns that are read, as `data.columns` has it; None: all."""
        if self.data.columns != "used":
            return None if self.data.columns == "all" else self.data.columns
        named = [[entry] if isinstance(entry, str) else entry for entry in self.evaluate.slices]
        split_key = [self.data.split_key] if self.data.split_key else []
        slices = [column for entry in named for column in entry]
        return tuple(sorted({self.label.key, *self.feature_columns, *slices, *split_key, *self.data.types}))

    @property
    def single_columns(self) -> dict[str, str]:
        """The data columns that a feature takes one number of, each with the name of the first such feature."""
        return single_columns(self.features)

    @property
    def rounded_columns(self) -> dict[str, tuple[str, str]]:
        """The data columns that a numeric feature rounds to float32 without scaling them by their statistics, each with
        the name of the first such feature and its `normalize`.
        """
        named = [
            (feature.key or name, (name, feature.normalize))
            for name, feature in self.features.items()
            if isinstance(feature, NumericFeature) and feature.normalize in ("none", "log")
        ]
        return dict(reversed(named))

    @property
    def evaluated_split(self) -> str:
        """The split that is evaluated: the one named, else `test` where there is one, else `eval`."""
        return self.evaluate.split or ("test" if "test" in self.data.splits else "eval")
