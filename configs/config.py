"""The whole config: every section, and what follows from more than one of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.data import DataConfig, placeholders
from headrace.configs.schema.deploy import CanaryConfig, DeployConfig, LiteConfig
from headrace.configs.schema.evaluate import EvaluateConfig
from headrace.configs.schema.features import (
    Feature,
    Features,
    NumericFeature,
    PreprocessingFunction,
    single_columns,
)
from headrace.configs.schema.gates import GatesConfig
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import AnyModelConfig, RunFnModel
from headrace.configs.schema.notify import AnyReceiver
from headrace.configs.schema.predict import ONLY_PREDICTS, PredictConfig
from headrace.configs.schema.report import ReportConfig
from headrace.configs.schema.schedule import Retrain, ScheduleConfig
from headrace.configs.schema.section import DottedPath, Name, Section, defaults_of
from headrace.configs.schema.sources import FileSource, SourceBase
from headrace.configs.schema.table_model import TableModel
from headrace.configs.schema.train import TrainConfig
from headrace.configs.schema.transform import TransformConfig
from headrace.configs.schema.tune import TuneConfig


class PipelineSection(Section):
    """The pipeline's name, and where its runs are stored."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    """Name of the pipeline."""
    root: Name = "runs"
    """Directory for artifacts, metadata, logs and reports; the pipeline gets a subfolder with its name."""
    extend: DottedPath | None = None
    """Dotted path to a function of yours, such as `mine.components.extend`: from the components by name to further TFX
    components, or to others in place of ours (see docs/components.md). null: none."""


class PipelineConfig(Section):
    """One pipeline: from raw data to a trained, evaluated and pushed model."""

    pipeline: PipelineSection
    """The pipeline's name, and where its runs are stored."""
    data: DataConfig
    """What the raw data is, and how it becomes sharded examples."""
    label: LabelConfig
    """What is predicted."""
    features: Features
    """What the columns mean: a name, and the kind of feature column (`column:`) with its settings. A value is missing
    if it is absent, NaN, an empty text or the smallest int64. If an example has multiple values, the first counts, or
    all with `multivalued: true`. `auto` in place of the settings, and patterns such as `"x*"` in place of the name,
    stand for columns of the data (see docs/init.md). Instead of feature columns, `function:` names the
    preprocessing_fn of an existing TFX pipeline."""
    transform: TransformConfig = defaults_of(TransformConfig)
    """How Transform stores the transformed examples."""
    gates: GatesConfig = defaults_of(GatesConfig)
    """What arriving data must be like for a run to train on it (see docs/gates.md)."""
    model: AnyModelConfig = defaults_of(TableModel)
    """What is trained."""
    train: TrainConfig = defaults_of(TrainConfig)
    """How the model is trained."""
    tune: TuneConfig | None = None
    """The search for hyperparameters before the training. null: none."""
    evaluate: EvaluateConfig = defaults_of(EvaluateConfig)
    """What "good enough" means."""
    report: ReportConfig = defaults_of(ReportConfig)
    """What the report of a run shows of the data."""
    deploy: DeployConfig = defaults_of(DeployConfig)
    """Where a blessed model is pushed."""
    predict: PredictConfig | None = None
    """New data that each run predicts at its end, with the model in service. null: none."""
    beam: BeamConfig = defaults_of(BeamConfig)
    """How the Beam components run."""
    kubeflow: KubeflowConfig = defaults_of(KubeflowConfig)
    """How the pipeline runs on Kubeflow Pipelines."""
    schedule: ScheduleConfig | None = None
    """When the pipeline runs on Kubeflow on its own. null: never."""
    notify: dict[Name, AnyReceiver] = {}
    """Who is told how a run ended: receivers by name (see docs/notify.md). A receiver that cannot be reached is
    reported, and does not fail the run. For runs on Kubeflow, `kubeflow.notify` is needed too."""

    @property
    def retrain(self) -> Retrain:
        """When a run trains, if the pipeline trains at all."""
        return "always" if self.schedule is None or self.only_predicts else self.schedule.retrain

    @property
    def only_predicts(self) -> bool:
        """Whether the pipeline predicts with the model in service and does nothing else."""
        return self.predict is not None and self.predict.only

    @property
    def full_name(self) -> str:
        """What runs are called, here and on Kubeflow. Those that only predict share the folder of the training's."""
        return f"{self.pipeline.name}{ONLY_PREDICTS}" if self.only_predicts else self.pipeline.name

    @property
    def drift_limits(self) -> str:
        """The limits of drift, as JSON; empty without a schedule."""
        return "" if self.schedule is None else self.schedule.drift.model_dump_json()

    @property
    def in_spans(self) -> bool:
        """Whether the data comes in spans."""
        return isinstance(self.data.source, FileSource) and bool(placeholders(self.data.source.patterns))

    @property
    def sources(self) -> tuple[SourceBase, ...]:
        """Where data comes from: what is trained on, the new data to predict, and the log of the model server."""
        further = (one.source for one in (self.predict, self.gates.skew) if one is not None)
        return (self.data.source, *further)

    @property
    def compares_with_blessed_data(self) -> bool:
        """Whether a gate compares the data with that of the blessed model."""
        return self.gates.compare_with_blessed(spans=self.in_spans)

    @property
    def freshness_of_spans(self) -> str:
        """The gate for the age of the newest span, as JSON; empty if there is none, or a column counts for it."""
        gate = self.gates.freshness
        return "" if gate is None or gate.column is not None else gate.model_dump_json()

    @property
    def push_directory(self) -> str | None:
        """Where a blessed model is pushed, with the pipeline's name filled in; None for nowhere."""
        return self.deploy.push and self.deploy.push.replace("{name}", self.pipeline.name)

    @property
    def canary(self) -> CanaryConfig | None:
        """How a model is examined before it is pushed; None if it is not, or if none is pushed."""
        return None if self.deploy.push is None else self.deploy.canary

    @property
    def lite(self) -> LiteConfig | None:
        """How a model is converted for LiteRT before it is pushed; None if it is not, or if none is pushed."""
        return None if self.deploy.push is None else self.deploy.lite

    @property
    def declared_features(self) -> dict[str, Feature]:
        """The feature columns by name; empty if a function of the user's computes the features."""
        return {} if isinstance(self.features, PreprocessingFunction) else self.features

    @property
    def preprocessing(self) -> PreprocessingFunction | None:
        """The user's preprocessing_fn, if there is one."""
        return self.features if isinstance(self.features, PreprocessingFunction) else None

    @property
    def own_training(self) -> RunFnModel | None:
        """The user's run_fn, if there is one."""
        return self.model if isinstance(self.model, RunFnModel) else None

    @property
    def label_key(self) -> str:
        """The label's name among the transformed features."""
        return (self.preprocessing and self.preprocessing.label_key) or self.label.key

    @property
    def feature_columns(self) -> list[str]:
        """The data columns that features read, as far as the config names them."""
        if self.preprocessing is not None:
            return sorted({*(self.preprocessing.keys or ())} - {*self.label.columns})
        read = [one.data_columns(name, self.declared_features) for name, one in self.declared_features.items()]
        return sorted({column for columns in read for column in columns})

    @property
    def compared_columns(self) -> list[str]:
        """The data columns that gates compare; empty for all."""
        own_columns = self.preprocessing is not None and self.preprocessing.keys is None
        return [] if own_columns else sorted({*self.label.columns, *self.feature_columns})

    @property
    def float64_columns(self) -> tuple[str, ...]:
        """The data columns of which features read float64 values."""
        return tuple(sorted({*self.data.float64_columns} & {*self.feature_columns}))

    @property
    def read_columns(self) -> tuple[str, ...] | None:
        """The data columns that are read, according to `data.columns`; None for all."""
        if self.preprocessing is not None and self.preprocessing.keys is None and self.data.columns == "used":
            return None
        if self.data.columns != "used":
            return None if self.data.columns == "all" else self.data.columns
        named = [[entry] if isinstance(entry, str) else entry for entry in self.evaluate.slices]
        data = self.data
        split_by = [name for name in (*data.split_keys, data.split_by, data.split_column, self.stratified) if name]
        slices = [column for entry in named for column in entry]
        named_by_label = [*self.label.columns, *([self.label.weight] if self.label.weight else [])]
        times = [self.gates.freshness.column] if self.gates.freshness and self.gates.freshness.column else []
        return tuple(sorted({*named_by_label, *self.feature_columns, *slices, *split_by, *times, *self.data.types}))

    @property
    def stratified(self) -> str | None:
        """The column of whose classes each split gets its share, or None."""
        return self.label.key if self.data.stratify is True else self.data.stratify or None

    @property
    def single_columns(self) -> dict[str, str]:
        """The data columns of which a feature takes one number, each with the name of the first such feature."""
        return single_columns(self.declared_features)

    @property
    def rounded_columns(self) -> dict[str, tuple[str, str]]:
        """The data columns that a numeric feature rounds to float32 without scaling them by their statistics.

        Each has the name of the first such feature and its `normalize`.
        """
        named = [
            (feature.key or name, (name, feature.normalize))
            for name, feature in self.declared_features.items()
            if isinstance(feature, NumericFeature) and feature.normalize in ("none", "log")
        ]
        return dict(reversed(named))

    @property
    def evaluated_split(self) -> str:
        """The evaluated split: the configured one, else `test` if it exists, else `eval`."""
        return self.evaluate.split or ("test" if "test" in self.data.splits else "eval")
