"""TensorFlow Datasets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.section import Name, Section


class TfdsSource(Section):
    """A dataset that TensorFlow Datasets has prepared on disk; nothing is downloaded. Needs `pip install
    headrace[tfds]`; preparing a dataset needs `pip install importlib_resources` too. Class labels are ints, images stay
    encoded as they lie on disk, sequences of numbers or texts are multi-valued features. Features within features, and
    tensors of two dimensions or more that are no images, are not read: leave them out with `data.columns`.
    """

    kind: Literal["tfds"]
    """`tfds`."""
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(/[^/:\s]+)?(:([0-9]+|\*)(\.([0-9]+|\*)){2})?$")]
    """Name, config and version of the dataset: `mnist`, `mnist:3.*.*`, `glue/sst2:2.0.0`. Of several versions that fit,
    the newest; the log of ExampleGen says which. A new major version may give other examples in a slice; a minor one
    only adds to them, so `3.*.*` is safe where slices must stay what they are."""
    data_dir: Name = "~/tensorflow_datasets"
    """The folder where it was prepared."""
    slices: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """The dataset's own splits, or slices of them such as `train[:10%]`, to read; null: all of them. They must not
    overlap. The rows are split anew by `data.splits`."""
