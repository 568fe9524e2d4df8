"""Images."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from headrace.configs.section import Name, Section
from headrace.configs.sources.base import Paths


class ImagesSource(Section):
    """JPEG and PNG images, told by their first bytes and not by their names: a folder with a folder for each class, or
    an index that names them.

    The columns are `image` (its bytes), `height`, `width`, `channel`, and `label` (the name of the class's folder) or
    the other columns of the index. Hidden files and what desktops leave behind (`Thumbs.db`, `desktop.ini`) are passed
    over; anything else that is no image, or a damaged one, is a bad record (see `data.on_bad_record`), and so is a row
    of the index whose image is not there.

    `height`, `width` and `channel` are those that `tf.io.decode_image` gives: 16 bits become 8, palettes RGB or RGBA,
    CMYK becomes RGB, of several frames the first counts, and EXIF's orientation is not applied. Not all damage can be
    seen: a JPEG image with a wrong byte amid its pixels still decodes.
    """

    kind: Literal["images"]
    """`images`."""
    path: Name | None = None
    """The folder whose folders are the classes, with the images in them at any depth: local, `pkg://`, `s3://` or
    `gs://`. With an `index`: the folder where its relative paths start; null: the folder of the index's first file."""
    index: Paths | None = None
    """CSV or Parquet files (by the ending `.parquet`) with a row for each image."""
    index_column: Name = "image"
    """The column of the index that holds the path of the image."""
    decode: bool = False
    """false: `image` is the file as it is (JPEG or PNG); true: raw bytes, height x width x channel uint8."""
    check: Literal["decode", "header"] = "decode"
    """How damaged images are found where they stay as they are. decode: each is decoded once, about a millisecond for
    500 x 400 pixels; header: only the format, the size and, for PNG, the checksums are looked at, and whether the file
    is whole."""

    @model_validator(mode="after")
    def _something_to_read(self) -> ImagesSource:
        if self.path is None and self.index is None:
            raise ValueError("needs a `path` (a folder with a folder for each class) or an `index`")
        return self
