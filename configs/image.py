"""`column: image`: a feature that is an image."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.section import Name, Section

Pixels = Annotated[int, Field(ge=1, le=4096)]


class ImageFeature(Section):
    """An image, decoded and brought to a fixed size in the Transform graph, so that the exported model takes images as
    they are: JPEG or PNG files (or GIF, BMP and WebP), or raw bytes. The model sees float32 of shape [batch, height,
    width, channels] between 0 (black) and 1. Only `kind: image` and models of your own see it.
    """

    column: Literal["image"]
    """`image`."""
    key: Name | None = None
    """The data column with the bytes; null: the one with the feature's own name."""
    size_keys: Annotated[tuple[Name, ...], Field(min_length=3, max_length=3)] | None = None
    """For raw bytes, height x width x channels uint8: the data columns with height, width and number of channels, such
    as `[height, width, channel]` of an `images` source with `decode: true`. null: an image is a file."""
    height: Pixels
    """Rows of pixels that every image is brought to."""
    width: Pixels
    """Pixels in a row that every image is brought to."""
    channels: Literal[1, 3] = 3
    """3: red, green and blue (grey images have all three alike); 1: grey (0.2989 red + 0.587 green + 0.114 blue). An
    alpha channel is dropped."""
    fit: Literal["stretch", "pad", "crop"] = "stretch"
    """How an image of another shape is brought to that size. stretch: its sides change by different factors; pad: all
    of it is shown, in the middle, with black beside it; crop: its middle is shown. Bilinear, with smoothing where the
    image becomes smaller."""
    stored: Literal["uint8", "float32"] = "uint8"
    """How a pixel of the resized image is kept until the model sees it: as one byte, rounded to 0 to 255 and scaled on
    the device, or as four, without rounding."""
    missing: Annotated[int, Field(ge=0, le=255)] = 0
    """What a missing image is: all its pixels are this grey, 0 (black) to 255 (white)."""
