"""Which piece of work a training is: what decides its weights, as one digest.

A checkpoint is only ever continued by the same piece of work: the same settings, data, code and libraries. Data counts
by content: a file of GZIP ends with a checksum of all that is in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import tensorflow as tf

from headrace.configs.checkpoint import KEPT_HOW, KEPT_IN
from headrace.configs.installed import version
from headrace.trainer.checkpointing.checkpoints import Checkpoints

if TYPE_CHECKING:
    from headrace.trainer.job import Job

IRRELEVANT = {"train": {"checkpoint": True, "profile": True}}
"""Settings that have no say in the weights."""
EDGE = 1 << 20
"""Bytes at the beginning and the end of a file that are looked at."""


def checkpoints(job: Job) -> Checkpoints | None:
    """Those of this piece of work; None where the job does not say where they are kept."""
    folder = job.custom_config.get(KEPT_IN)
    if folder is None:
        return None
    return Checkpoints(Path(folder, name_of(job)), job.sections.train.checkpoint.keep)


def name_of(job: Job) -> str:
    """The name of the folder of this piece of work's checkpoints."""
    return job.checkpoint_name or digest(job)[:32]


def digest(job: Job) -> str:
    """Of all that decides the weights, as far as a computer decides them the same way twice."""
    settings = job.sections.model_dump_json(exclude=IRRELEVANT)
    told = {name: value for name, value in job.custom_config.items() if name not in ("config", KEPT_IN, KEPT_HOW)}
    graph = _files([f"{job.transform_output}/*/*", f"{job.transform_output}/*/*/*"])
    examples = _files([*job.train_files, *job.eval_files])
    libraries = [f"{name} {version(name)}" for name in ("tensorflow", "keras", "numpy")]
    parts = [settings, told, graph, examples, job.base_uri, libraries]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _files(patterns: Iterable[str]) -> list[list[str]]:
    """The names and digests of files."""
    found = sorted({file for pattern in patterns for file in tf.io.gfile.glob(pattern)})
    return [[file.rpartition("/")[2], _content(file)] for file in found if not tf.io.gfile.isdir(file)]


def _content(file: str) -> str:
    """Of a file's size, beginning and end."""
    size = tf.io.gfile.stat(file).length
    with tf.io.gfile.GFile(file, "rb") as stream:
        edges = stream.read(EDGE)
        if size > EDGE:
            stream.seek(max(size - EDGE, EDGE))
            edges += stream.read(EDGE)
    return hashlib.sha256(str(size).encode() + edges).hexdigest()
