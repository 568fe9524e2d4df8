"""The features section: a description of each feature column of the config."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.configs.config import PipelineConfig


@dataclass(frozen=True)
class FeatureRow:
    """One feature: its kind, the data columns it reads, what it computes, and the parts of the model that use it."""

    name: str
    kind: str
    reads: tuple[str, ...]
    what: str
    parts: str


def describe_features(config: PipelineConfig) -> list[FeatureRow]:
    """One row for each feature, in the config's order; one for all of them if the user's function computes them."""
    if config.preprocessing is not None:
        reads = config.preprocessing.keys or ("all columns",)
        label = f", and the label as {config.label_key}"
        what = f"{config.preprocessing.function}: features that the config does not list{label}"
        return [FeatureRow("features of a function", "function", reads, what, "as the run_fn uses them")]
    features = config.declared_features
    return [
        FeatureRow(
            name,
            feature.column,
            feature.data_columns(name, features),
            feature.description(),
            "as the run_fn uses it" if config.own_training else feature.model_parts(config.model),
        )
        for name, feature in features.items()
    ]
