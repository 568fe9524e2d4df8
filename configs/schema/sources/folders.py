"""Files whose folders may be the classes: running text and images."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.section import Name, PositiveInt
from headrace.configs.schema.sources.base import SourceBase
from headrace.configs.schema.sources.files import FileSource, Paths, PathsBySplit


class TextSource(FileSource):
    """Text files, UTF-8, plain or gzip (with the extension `.gz`).

    The column is `text`, or with a `window` the columns are `words` (multivalued) and `next_word`, for training a model
    that predicts the next word; `labels: folders` adds `label`. White space at both ends of a text is removed, and
    empty texts are skipped. Words are separated by white space and include their punctuation. A window does not cross
    texts; a text with no word after its first `window` words gives no example.
    """

    implementation: ClassVar[str] = "headrace.components.sources.text.source.TextFiles"
    found_by_paths: ClassVar[bool] = True

    kind: Literal["text"]
    """`text`."""
    unit: Literal["line", "file", "string"] = "line"
    """What one text is: a line, a whole file (of at most 256 MiB), or a string in a Python file, such as a
    docstring."""
    window: PositiveInt | None = None
    """Words in an example; the word that follows is its label. null: each text is an example."""
    stride: PositiveInt = 1
    """Words from the start of one window to the start of the next."""
    lowercase: bool = False
    """Convert words to lower case; used only with `window`."""
    min_length: Annotated[int, Field(ge=0)] = 1
    """Skip texts with fewer characters."""
    max_length: PositiveInt | None = None
    """Skip texts with more characters. null: no limit."""
    keep: str | None = None
    """Skip texts in which this regular expression (RE2) does not match anywhere. null: use all texts."""
    text_key: Name | None = None
    """Name of a column that says where each example comes from: the file and the byte offset of the text, such as
    `notes.txt:120`. Files in folders below the part of `path` without wildcards and placeholders (with multiple paths,
    below their common part) are named with these folders, so `notes/*/*.txt` gives `june/a.txt:120`. With
    `data.split_key` set to it, all windows of a text get the same split; otherwise windows that share most of their
    words get different ones. null: no such column."""
    labels: Literal["none", "folders"] = "none"
    """Whether the folder of a file says what its texts are. folders: the column `label` is the name of the folder that
    the file is in, as in `reviews/good/17.txt`. none: there is no such column."""

    @model_validator(mode="after")
    def _consistent_settings(self) -> TextSource:
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(f"max_length is {self.max_length}, which is below min_length ({self.min_length})")
        if self.text_key in {"text", "words", "next_word", "label"}:
            raise ValueError(f'text_key: "{self.text_key}" is the name of another column; choose a different one')
        return self


class ImagesSource(SourceBase):
    """JPEG and PNG images, detected from their first bytes: a folder with one folder per class, or an index of files.

    The columns are `image` (the bytes), `height`, `width`, `channel`, and either `label` (the name of the class
    folder), the other columns of the index, or `file` (with `labels: none`). Hidden files and those that desktops
    create (`Thumbs.db`, `desktop.ini`) are ignored. Any other file that is not an image, a damaged image, and a row of
    the index without its image are bad records (see `data.on_bad_record`).

    `height`, `width` and `channel` are those that `tf.io.decode_image` returns: 16 bits become 8, palettes RGB or RGBA,
    CMYK becomes RGB, the first of multiple frames counts, and the EXIF orientation is not applied. Not all damage can
    be detected: a JPEG image with a wrong byte among its pixels still decodes.
    """

    implementation: ClassVar[str] = "headrace.components.sources.images.source.ImageFiles"
    by_split: ClassVar[tuple[str, ...]] = ("path", "index")
    content_column: ClassVar[str | None] = "image"

    kind: Literal["images"]
    """`images`."""
    path: Name | Annotated[dict[str, Name], Field(min_length=1)] | None = None
    """The folder whose subfolders are the classes, with images at any depth: local, `pkg://`, `s3://` or `gs://`. With
    an `index`: the folder at which its relative paths start; null: the folder of the first index file. A mapping such
    as `{train: photos/train, test: photos/test}` gives each split its own, of this and of `index`."""
    index: Paths | PathsBySplit | None = None
    """CSV or Parquet files (with the extension `.parquet`) with one row per image."""
    index_column: Name = "image"
    """The column of the index with the path of the image."""
    labels: Literal["folders", "none"] = "folders"
    """Without an index: what the folders in `path` say. folders: they are the classes, and an image outside of them is
    a bad record. none: nothing, for new images to predict; they may be in `path` itself, and the column `file` has
    their paths below it, such as `1.png`."""
    decode: bool = False
    """false: `image` is the unchanged file (JPEG or PNG); true: raw bytes, height x width x channel uint8."""
    check: Literal["decode", "header"] = "decode"
    """How damaged images are detected with `decode: false`. decode: decode each image once, about a millisecond for 500
    x 400 pixels. header: check only the format, the size, the end of the file and, for PNG, the checksums."""

    @model_validator(mode="after")
    def _path_or_index(self) -> ImagesSource:
        if self.path is None and self.index is None:
            raise ValueError("needs a `path` (a folder with one folder per class) or an `index`")
        if self.labels == "none" and self.index is not None:
            raise ValueError(
                "`labels: none` is for a folder; the columns of an `index` are read as they are. Remove one"
            )
        return self
