"""The parts of the config that Transform and Trainer see, as one JSON string in their `custom_config`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from headrace.common.errors import TrainingError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.features import Feature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelConfig, RunFnModel, WideAndDeepModel
from headrace.configs.schema.section import Section
from headrace.configs.schema.train import CheckpointConfig, TrainConfig
from headrace.configs.schema.tune import with_values

MODEL_SETTINGS = {"embedding", "deep", "wide", "combiner", "fine_tune"}
"""Settings of a feature that only the model reads."""


class TrainerSections(Section):
    """What Transform and Trainer need of the config.

    `TrainerSections.of(config).to_json()` is stored in `custom_config` under the key `config`, and
    `TrainerSections.from_json` parses it in the component.
    """

    label: LabelConfig
    """What is predicted."""
    features: Annotated[dict[str, Feature], Field(min_length=1)]
    """The features by name."""
    model: ModelConfig = WideAndDeepModel()
    """The model to train."""
    train: TrainConfig = TrainConfig()
    """How to train it."""
    float64: tuple[str, ...] = ()
    """The data columns of which features read float64 values, sorted."""
    several_values: Literal["refuse", "first"] = "refuse"
    """What a served model does with an example that has several values of a number or of the label.

    refuse: fail, as the data gate does before training; first: use the first value, as in training with
    `data.on_anomaly: warn`."""

    @classmethod
    def of(cls, config: PipelineConfig) -> TrainerSections:
        """Take the sections from a whole config. Raises TrainingError if the training is a function of the user's."""
        if isinstance(config.model, RunFnModel):
            raise TrainingError(f"model.run_fn: {config.model.run_fn} does the training, so `train:` does not apply")
        return cls(
            label=_without_choice_of_rows(config.label),
            features=config.declared_features,
            model=config.model,
            train=_without_irrelevant(config.train),
            float64=config.float64_columns,
            several_values="first" if config.data.on_anomaly == "warn" else "refuse",
        )

    @classmethod
    def for_transform(cls, config: PipelineConfig) -> TrainerSections:
        """Keep what Transform computes from: its output stays valid when any other setting changes."""
        features = {name: _without_model_settings(feature) for name, feature in config.declared_features.items()}
        label = _without_choice_of_rows(config.label).unweighted
        return cls(label=label, features=features, float64=config.float64_columns)

    def tuned(self, values: Mapping[str, JsonValue]) -> TrainerSections:
        """Replace the values of settings, named by dotted names such as `train.learning_rate`."""
        changed = with_values(json.loads(self.to_json()), values)
        return TrainerSections.from_json(json.dumps(changed))

    def to_json(self) -> str:
        """Return one line of JSON; equal sections give equal text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> TrainerSections:
        """Parse the output of `to_json`."""
        return cls.model_validate_json(text)


def _without_model_settings(feature: Feature) -> Feature:
    fields = type(feature).model_fields
    return feature.model_copy(update={name: fields[name].default for name in MODEL_SETTINGS if name in fields})


def _without_choice_of_rows(label: LabelConfig) -> LabelConfig:
    """Reset what only ExampleGen reads: all but the choice that rows without a value belong to no class."""
    return label if label.missing == "none" else label.model_copy(update={"missing": "refuse"})


def _without_irrelevant(train: TrainConfig) -> TrainConfig:
    """Reset the settings that do not affect the trained model, so that it stays valid when they change."""
    profile = train.profile and train.profile.model_copy(update={"fail_if_input_bound_above": None})
    return train.model_copy(update={"profile": profile, "checkpoint": CheckpointConfig()})
