"""The part of the config that Transform and Trainer see, as one JSON string in their `custom_config`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from headrace.configs.checkpoint import CheckpointConfig
from headrace.configs.config import PipelineConfig
from headrace.configs.features import Feature
from headrace.configs.label import LabelConfig
from headrace.configs.models import ModelConfig, WideAndDeepModel
from headrace.configs.section import Section
from headrace.configs.train import TrainConfig
from headrace.configs.tune import with_values

_OF_THE_MODEL = ("embedding", "deep", "wide", "combiner")


class TrainerSections(Section):
    """What Transform and Trainer need of the config: `TrainerSections.of(config).to_json()` travels in `custom_config`
    under the key `config`, and `TrainerSections.from_json` reads it at the other end.
    """

    label: LabelConfig
    """What is predicted."""
    features: Annotated[dict[str, Feature], Field(min_length=1)]
    """Which columns mean what."""
    model: ModelConfig = WideAndDeepModel()
    """What is trained."""
    train: TrainConfig = TrainConfig()
    """How it is trained."""
    several_values: Literal["refuse", "first"] = "refuse"
    """What a served model does with an example that has several values of a number or of the label: it refuses them, as
    the data gate does before training, or takes the first, where `data.on_anomaly: warn` lets it train on such."""

    @classmethod
    def of(cls, config: PipelineConfig) -> TrainerSections:
        """The sections of a whole config."""
        return cls(
            label=config.label,
            features=config.features,
            model=config.model,
            train=_trained(config.train),
            several_values="first" if config.data.on_anomaly == "warn" else "refuse",
        )

    @classmethod
    def for_transform(cls, config: PipelineConfig) -> TrainerSections:
        """What Transform computes from: a change of any other setting leaves its output valid."""
        return cls(label=config.label, features={name: _computed(one) for name, one in config.features.items()})

    def tuned(self, values: Mapping[str, JsonValue]) -> TrainerSections:
        """The same with other values of the settings of these dotted names, such as `train.learning_rate`."""
        changed = with_values(json.loads(self.to_json()), values)
        return TrainerSections.from_json(json.dumps(changed))

    def to_json(self) -> str:
        """One line of JSON; equal sections give equal text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> TrainerSections:
        """The sections that `to_json` wrote."""
        return cls.model_validate_json(text)


def _computed(feature: Feature) -> Feature:
    """A feature without the settings that only the model heeds."""
    fields = type(feature).model_fields
    return feature.model_copy(update={name: fields[name].default for name in _OF_THE_MODEL if name in fields})


def _trained(train: TrainConfig) -> TrainConfig:
    """Without the settings that change nothing in a training: they leave a trained model valid."""
    profile = train.profile and train.profile.model_copy(update={"fail_if_input_bound_above": None})
    return train.model_copy(update={"profile": profile, "checkpoint": CheckpointConfig()})
