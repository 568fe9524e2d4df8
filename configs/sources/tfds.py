"""TensorFlow Datasets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.section import Name, Section


class TfdsSource(Section):
    """A dataset that TensorFlow Datasets has prepared on disk. Needs `pip install headrace[tfds]`."""

    kind: Literal["tfds"]
    """`tfds`."""
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(/[^/:\s]+)?(:[0-9*]+\.[0-9*]+\.[0-9*]+)?$")]
    """Name, config and version of the dataset: `mnist`, `mnist:3.*.*`, `glue/sst2:2.0.0`. Of several versions that fit,
    the newest. A new major version may give other examples in a slice; a minor one only adds to them."""
    data_dir: Name = "~/tensorflow_datasets"
    """The folder where it was prepared."""
    slices: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """The dataset's own splits, or slices of them such as `train[:10%]`, to read; null: all of them. The rows are split
    anew by `data.splits`."""
