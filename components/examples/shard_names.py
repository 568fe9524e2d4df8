"""The names of shard files, which are those of TFX's own ExampleGen, with the span's name in them where there is one.

Split-train/data_tfrecord-00000-of-00010.gz
Split-train/data_tfrecord-2026-11-20-00000-of-00010.gz
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_PREFIX = "data_tfrecord"


def shard_path(output: Path, split: str, number: int, shards: int, suffix: str) -> Path:
    """The path of shard `number` of `shards` of a split, where TFX's readers look for it."""
    return output / f"Split-{split}" / f"{_PREFIX}-{number:05d}-of-{shards:05d}{suffix}"


def with_span(name: str, span: str) -> str:
    """The file name of a shard with the name of its span; unchanged for data without spans."""
    return name.replace(_PREFIX, f"{_PREFIX}-{span}") if span else name


def by_span(files: Iterable[str], spans: Iterable[str]) -> dict[str, list[str]]:
    """The shards of each span, in the order of the spans; spans without shards are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        named = re.search(rf"/{_PREFIX}-(.+)-\d{{5}}-of-\d{{5}}[^/]*$", file)
        assert named, file  # noqa: S101 - our own ExampleGen named it
        found[named[1]].append(file)
    return {span: found[span] for span in spans if span in found}
