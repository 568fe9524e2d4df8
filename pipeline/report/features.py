"""The features section: a description of each feature column of the config, and the kind of model that uses them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.configs.config import PipelineConfig
from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.table_model import FEW_EXAMPLES, TableModel
from headrace.pipeline.report.training import TrainingHistory


@dataclass(frozen=True)
class FeatureRow:
    """One feature: its kind, the data columns it reads, what it computes, and the parts of the model that use it."""

    name: str
    kind: str
    reads: tuple[str, ...]
    what: str
    parts: str


def describe_features(config: PipelineConfig, training: TrainingHistory | None = None) -> list[FeatureRow]:
    """One row for each feature, in the config's order; one for all of them if the user's function computes them.

    training: says which kind of model `auto` or the default became.
    """
    if config.preprocessing is not None:
        reads = config.preprocessing.keys or ("all columns",)
        label = f", and the label as {config.label_key}"
        what = f"{config.preprocessing.function}: features that the config does not list{label}"
        return [FeatureRow("features of a function", "function", reads, what, "as the run_fn uses them")]
    features, model = config.declared_features, config.model
    kind = training.kind if training else ""
    if isinstance(model, TableModel):
        model = model.for_table(FEW_EXAMPLES + 1 if kind == "wide_and_deep" else 0, features, config.train)
    elif isinstance(model, AutoModel) and kind:
        model = model.model_of_kind(kind)
    return [
        FeatureRow(
            name,
            feature.column,
            feature.data_columns(name, features),
            feature.description(),
            "as the run_fn uses it" if config.own_training else feature.model_parts(model),
        )
        for name, feature in features.items()
    ]


def trained_kind(config: PipelineConfig, training: TrainingHistory | None = None) -> str:
    """The kind of model that was trained, or the name of the function that trained it.

    Before a training, of the default what it depends on.
    """
    if config.own_training:
        return config.own_training.run_fn
    if training and training.kind:
        return training.kind
    model = config.model
    return model.description(config.declared_features, config.train) if isinstance(model, TableModel) else model.kind
