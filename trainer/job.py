"""A training job as plain data that another process can receive, and the identity of its work.

A checkpoint is only continued by the same work: the same settings, data, code and libraries. Data is compared by
content: a GZIP file ends with a checksum of everything in it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow_transform as tft

from headrace.common.digests import installed_version
from headrace.configs.schema.train import CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS, CheckpointConfig
from headrace.trainer.budget import NO_BUDGET, Budget, scores_of_row
from headrace.trainer.checkpointing.checkpoints import Checkpoints
from headrace.trainer.sections import TrainerSections
from headrace.trainer.trials import Search, format_value
from headrace.trainer.weights.sidecar import work_digest

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs

IRRELEVANT = {"train": {"checkpoint": True, "profile": True}}
"""Settings that do not affect the weights."""
EDGE = 1 << 20
"""Bytes at the beginning and the end of a file that its digest covers."""


@dataclass(frozen=True)
class Job:
    """The part of TFX's `fn_args` that training reads."""

    custom_config: dict[str, Any]
    """`config` is TrainerSections as JSON; `checkpoint` is CheckpointConfig as JSON, if it is passed separately."""
    transform_output: str
    """Folder of the transform graph."""
    train_files: list[str] = field(default_factory=list)
    """Patterns of the files with the transformed examples of the train split."""
    eval_files: list[str] = field(default_factory=list)
    """The same for the eval split."""
    model_run_dir: str = ""
    """Folder for training.json, the best weights and TensorBoard logs."""
    base_model: str | None = None
    """Folder of a model to start from."""
    training: str = ""
    """A name that all workers of a cluster share and no other training has."""
    checkpoint_name: str = ""
    """Name of the checkpoint folder, if another process computed it from the files."""
    has_share: bool = False
    """Whether `train_files` are the share of one worker, as with `train.input.own_shards`, and not all files."""
    tuned: dict[str, Any] = field(default_factory=dict)
    """What a Tuner found: `values` by the dotted names of the settings, and its whole `search`."""

    @classmethod
    def of(cls, fn_args: FnArgs) -> Job:
        """Create the job from the arguments of `run_fn`."""
        known = {name: getattr(fn_args, name) for name in _FIELDS if getattr(fn_args, name, None) is not None}
        hyperparameters = getattr(fn_args, "hyperparameters", None) or {}
        return cls(**known, tuned=hyperparameters.get("headrace", {}))

    @cached_property
    def sections(self) -> TrainerSections:
        """The config's sections, with a Tuner's values, numbers for `auto`, and the separate checkpoint settings."""
        sections = self._declared
        chosen = {"train": self.budget.applied(sections.train), "model": self.budget.model or sections.model}
        sections = sections.model_copy(update=chosen)
        if CHECKPOINT_SETTINGS not in self.custom_config:
            return sections
        checkpoint = CheckpointConfig.model_validate_json(self.custom_config[CHECKPOINT_SETTINGS])
        return sections.model_copy(update={"train": sections.train.model_copy(update={"checkpoint": checkpoint})})

    @cached_property
    def _declared(self) -> TrainerSections:
        return TrainerSections.from_json(self.custom_config["config"]).tuned(self.tuned.get("values", {}))

    @cached_property
    def budget(self) -> Budget:
        """The numbers for settings that are `auto`: the same for the same files, in every process and on resuming."""
        declared = self._declared
        if declared.model.has_trees:
            return NO_BUDGET
        row_scores = 0 if declared.train.batch_size != "auto" else scores_of_row(declared.label, self.transformed)
        budget = Budget.of(declared.train, self.train_files, row_scores)
        return budget.with_model(declared, self.train_files)

    @property
    def tuned_words(self) -> dict[str, str]:
        """For the training record: the values that the Tuner found and their score; empty without a Tuner."""
        if not self.tuned:
            return {}
        search = Search.from_plain(self.tuned["search"])
        values = ", ".join(f"{name}: {format_value(value)}" for name, value in self.tuned["values"].items())
        score = f"val_{search.objective} {search.best.score:.5f}" if search.best else "no score"
        number = search.best.number if search.best else 0
        return {"tuned": f"{values} (trial {number} of {len(search.trials)}, {search.algorithm}: {score})"}

    @property
    def transformed(self) -> tft.TFTransformOutput:
        return tft.TFTransformOutput(self.transform_output)

    @property
    def run_dir(self) -> Path:
        return Path(self.model_run_dir)

    @property
    def work(self) -> str:
        """A digest of what is trained, apart from the model to start from."""
        return work_digest(self.custom_config, self.transform_output)

    @property
    def base_uri(self) -> str | None:
        """URI of the Model artifact to start from; None if there is none."""
        there = self.base_model is not None and Path(self.base_model).is_dir()
        return str(Path(self.base_model or "").parent) if there else None

    def to_json(self) -> str:
        """Serialize for another process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Parse the output of `to_json`."""
        return cls(**json.loads(text))


_FIELDS = tuple(each.name for each in dataclasses.fields(Job))


def checkpoints(job: Job) -> Checkpoints | None:
    """Return the checkpoints of this work; None if the job names no folder for them."""
    folder = job.custom_config.get(CHECKPOINT_FOLDER)
    if folder is None:
        return None
    return Checkpoints(Path(folder, checkpoint_name(job)), job.sections.train.checkpoint.keep)


def checkpoint_name(job: Job) -> str:
    """Return the name of the folder with this work's checkpoints."""
    return job.checkpoint_name or job_digest(job)[:32]


def job_digest(job: Job) -> str:
    """Return a digest of everything that determines the weights, as far as computers are deterministic."""
    settings = job.sections.model_dump_json(exclude=IRRELEVANT)
    other = {
        name: value
        for name, value in job.custom_config.items()
        if name not in ("config", CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS)
    }
    graph = _file_digests([f"{job.transform_output}/*/*", f"{job.transform_output}/*/*/*"])
    examples = _file_digests([*job.train_files, *job.eval_files])
    names = ("tensorflow", "keras", "numpy", *job.sections.model.libraries())
    libraries = [f"{name} {installed_version(name)}" for name in names]
    parts = [settings, other, graph, examples, job.base_uri, libraries]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _file_digests(patterns: Iterable[str]) -> list[list[str]]:
    files = sorted({file for pattern in patterns for file in tf.io.gfile.glob(pattern)})
    return [[file.rpartition("/")[2], _digest(file)] for file in files if not tf.io.gfile.isdir(file)]


def _digest(file: str) -> str:
    """A digest of a file's size, beginning and end."""
    size = tf.io.gfile.stat(file).length
    with tf.io.gfile.GFile(file, "rb") as stream:
        edges = stream.read(EDGE)
        if size > EDGE:
            stream.seek(max(size - EDGE, EDGE))
            edges += stream.read(EDGE)
    return hashlib.sha256(str(size).encode() + edges).hexdigest()
