"""`train.input:` the tf.data input pipeline."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.section import Name, Section
from headrace.configs.service import GrpcAddress, ServiceConfig

Auto = Literal["auto"]
PositiveInt = Annotated[int, Field(gt=0)]


class InputConfig(Section):
    """The tf.data input pipeline: interleave, batch, parse, cache, shuffle, prefetch. `headrace tune-input` measures
    what is fastest for a config's own data.
    """

    cache: Literal["auto", "memory", "disk", "none"] = "auto"
    """Where parsed examples stay from the first epoch on. auto: in memory if they fit in a quarter of what is free,
    else on disk if they fit in half of what is free there, else nowhere: every epoch reads and parses them."""
    shuffle: Annotated[int, Field(ge=0)] = 16384
    """Examples in the shuffle buffer of the train split; 0: file order. In memory, all are shuffled."""
    deterministic: bool = True
    """Whether the same seed gives the same batches. false: whatever is read first comes first, which is faster where
    files are slow."""
    threads: Auto | PositiveInt = "auto"
    """Threads of the input pipeline's own. auto: one with the cache in memory, or for images one less than there are
    cores; else it shares TensorFlow's."""
    prefetch: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Batches that are made ready ahead of the step. auto: 16, or as many as take 64 MB, but two at least; with
    `autotune`, as many as it chooses."""
    length_buckets: Auto | tuple[PositiveInt, ...] | None = "auto"
    """Batches of examples of similar length, for features with many values, so that little is padding. A list: lengths
    at which one bucket ends and the next begins; null: batches of whatever comes; auto: by length if more than a
    quarter would be padding."""
    read_batch: PositiveInt = 1024
    """Examples that are read and parsed at a time."""
    open_files: PositiveInt = 16
    """Files that are read at the same time, at most."""
    autotune: bool = False
    """Whether tf.data's autotuning chooses, while it runs, how many batches are parsed or loaded at the same time and
    made ready ahead, where `threads` and `prefetch` are `auto`. Off, because the end of an iterator waits for its
    thread, for up to a minute, and reading was no faster with it (docs/training.md)."""
    own_shards: bool = False
    """Whether each worker of `strategy: multi_worker` reads only its share of the train split's files, and makes its
    own part of each batch. Needs `steps_per_epoch`. false: each reads all files, and the weights are those of one
    device."""
    snapshot: Name | None = None
    """A folder on a disk where parsed examples are stored, and read back by later runs of the same transform graph,
    examples and code. Of each split the three snapshots used last are kept."""
    service: GrpcAddress | ServiceConfig | None = None
    """A tf.data service that reads and parses: its address, or settings (see docs/training.md)."""
