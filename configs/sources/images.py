"""Images."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from configs.section import Name, Section
from configs.sources.base import Paths


class ImagesSource(Section):
    """JPEG and PNG images: a folder with a folder for each class, or an index that names them.

    The columns are `image` (its bytes), `height`, `width`, `channel`, and `label` (the name of the folder that it is
    in) or the columns of the index.
    """

    kind: Literal["images"]
    """`images`."""
    path: Name | None = None
    """The folder whose folders are the classes; with an `index`, where its relative paths start. null: at the index."""
    index: Paths | None = None
    """CSV or Parquet files with a row for each image."""
    index_column: Name = "image"
    """The column of the index that holds the path of the image."""
    decode: bool = False
    """false: `image` is the file as it is (JPEG or PNG); true: raw bytes, height x width x channel uint8."""

    @model_validator(mode="after")
    def _something_to_read(self) -> ImagesSource:
        if self.path is None and self.index is None:
            raise ValueError("needs a `path` (a folder with a folder for each class) or an `index`")
        return self
