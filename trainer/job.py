"""What a training is told, as plain data that can be handed to another process."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow_transform as tft

from headrace.configs.checkpoint import KEPT_HOW, CheckpointConfig
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tuning.trials import Search, in_words
from headrace.trainer.weights.origin import piece_of_work

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs


@dataclass(frozen=True)
class Job:
    """The part of TFX's `fn_args` that training reads."""

    custom_config: dict[str, Any]
    """`config` is TrainerSections as JSON; `checkpoint` CheckpointConfig as JSON, where it is told apart from it."""
    transform_output: str
    """The folder of the transform graph."""
    train_files: list[str] = field(default_factory=list)
    """Patterns of the transformed examples' files."""
    eval_files: list[str] = field(default_factory=list)
    model_run_dir: str = ""
    """Gets training.json, the best weights and TensorBoard logs."""
    base_model: str | None = None
    """The folder of a model to start from."""
    training: str = ""
    """A name that this training has in all workers of a cluster, and no other has."""
    checkpoint_name: str = ""
    """The name of this piece of work among the checkpoints, where another process has looked at the files."""
    has_share: bool = False
    """Whether `train_files` are those of one worker, as `train.input.own_shards` has it, and not of all."""
    tuned: dict[str, Any] = field(default_factory=dict)
    """What a Tuner found: `values`, by the dotted names of the settings, and its whole `search`."""

    @classmethod
    def of(cls, fn_args: FnArgs) -> Job:
        """What `run_fn` was given."""
        known = {name: getattr(fn_args, name) for name in _FIELDS if getattr(fn_args, name, None) is not None}
        hyperparameters = getattr(fn_args, "hyperparameters", None) or {}
        return cls(**known, tuned=hyperparameters.get("headrace", {}))

    @cached_property
    def sections(self) -> TrainerSections:
        """The config's sections, with the values that a Tuner found, and with what is told of checkpoints."""
        found = TrainerSections.from_json(self.custom_config["config"]).tuned(self.tuned.get("values", {}))
        if KEPT_HOW not in self.custom_config:
            return found
        kept = CheckpointConfig.model_validate_json(self.custom_config[KEPT_HOW])
        return found.model_copy(update={"train": found.train.model_copy(update={"checkpoint": kept})})

    @property
    def tuned_words(self) -> dict[str, str]:
        """For the training's record: which values came from the Tuner, and how good they were; empty without one."""
        if not self.tuned:
            return {}
        search = Search.from_plain(self.tuned["search"])
        told = ", ".join(f"{name}: {in_words(value)}" for name, value in self.tuned["values"].items())
        score = f"val_{search.objective} {search.best.score:.5f}" if search.best else "no score"
        number = search.best.number if search.best else 0
        return {"tuned": f"{told} (trial {number} of {len(search.trials)}, {search.algorithm}: {score})"}

    @property
    def transformed(self) -> tft.TFTransformOutput:
        """The transform graph."""
        return tft.TFTransformOutput(self.transform_output)

    @property
    def run_dir(self) -> Path:
        """`model_run_dir` as a path."""
        return Path(self.model_run_dir)

    @property
    def work(self) -> str:
        """A digest of what it was told, but for the model to start from."""
        return piece_of_work(self.custom_config, self.transform_output)

    @property
    def base_uri(self) -> str | None:
        """URI of the Model artifact to start from; None if there is none."""
        there = self.base_model is not None and Path(self.base_model).is_dir()
        return str(Path(self.base_model or "").parent) if there else None

    def to_json(self) -> str:
        """As text, for another process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that `to_json` wrote."""
        return cls(**json.loads(text))


_FIELDS = tuple(each.name for each in dataclasses.fields(Job))
