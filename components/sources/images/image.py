"""One image: its header, which shows its size and whether the file is complete, and its pixels.

JPEG: ITU-T T.81, annex B. PNG: the W3C's PNG specification, chapters 5 and 11.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from headrace.common.environment import prepare, quiet
from headrace.components.failed_checks import without_location

JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
OTHERS = {b"GIF8": "GIF", b"BM": "BMP", b"RIFF": "WebP", b"II*\x00": "TIFF", b"MM\x00*": "TIFF", b"%PDF": "PDF"}

_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
"""Channels by color type: grayscale, RGB, palette, grayscale with alpha, RGBA."""
_JPEG_CHANNELS = {1: 1, 3: 3, 4: 3}
"""Channels by components. CMYK and YCCK are decoded to RGB."""
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of frames, which contain the size; the other three are for tables, or reserved."""
_ALONE = {0x01, *range(0xD0, 0xD9)}
"""Markers without a segment."""
_START_OF_SCAN, _END = 0xDA, b"\xff\xd9"


class BadImageError(Exception):
    """A file that cannot be read as an image. The message follows its path."""


@dataclass(frozen=True)
class ImageHeader:
    """The size of an image in pixels, and the number of channels to which it is decoded."""

    height: int
    width: int
    channel: int


def read_header(data: bytes) -> ImageHeader:
    """The header of a JPEG or PNG file, recognized by its first bytes, whatever its name.

    Raises BadImageError for any other format, for a truncated file, and for a PNG file with a wrong checksum.
    """
    if data.startswith(JPEG):
        return _jpeg(data)
    if data.startswith(PNG):
        return _png(data)
    if not data.strip(b"\x00"):
        raise BadImageError("contains nothing but zeros" if data else "is empty")
    named = next((name for start, name in OTHERS.items() if data.startswith(start)), None)
    raise BadImageError(f"is {named or 'something else'}, not a JPEG or PNG image")


def decode_pixels(data: bytes, header: ImageHeader) -> bytes:
    """The pixels as uint8 [height, width, channel], from tf.io.decode_image, which decodes them for training too.

    Raises BadImageError if the image cannot be decoded.
    """
    tf = _tensorflow()
    try:
        decoded = tf.io.decode_image(data, expand_animations=False).numpy()
    except tf.errors.OpError as error:
        reason = without_location(str(error)).partition(". ")[0]
        raise BadImageError(f"cannot be decoded: {reason}") from None
    expected = (header.height, header.width, header.channel)
    if decoded.shape != expected:
        raise BadImageError(f"is decoded to {decoded.shape}, but its header says {expected}")
    return decoded.tobytes()


@cache
def _tensorflow() -> Any:
    """TensorFlow without GPUs, whose memory others need."""
    prepare()
    with quiet():  # it reports that there is no GPU
        import tensorflow as tf

        with suppress(RuntimeError):  # it is in use already
            tf.config.set_visible_devices([], "GPU")
        tf.constant(0)
    return tf


def _png(data: bytes) -> ImageHeader:
    at, found, transparent, pixels = len(PNG), None, False, False
    while True:
        if at + 12 > len(data):
            raise BadImageError("is a truncated PNG image")
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise BadImageError("is a truncated PNG image")
        if zlib.crc32(memoryview(data)[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise BadImageError(f"is a damaged PNG image: the checksum of {name!r} at byte {at} is wrong")
        if found is None:
            found = _png_size(name, data[at + 8 : end - 4])
        transparent |= name == b"tRNS"
        pixels |= name == b"IDAT"
        if name == b"IEND":
            break
        at = end
    if not pixels:
        raise BadImageError("is a PNG image without pixels")
    height, width, color = found
    return ImageHeader(height, width, 4 if color == 3 and transparent else _PNG_CHANNELS[color])


def _png_size(name: bytes, chunk: bytes) -> tuple[int, int, int]:
    if name != b"IHDR" or len(chunk) != 13:
        raise BadImageError("is a damaged PNG image: it does not start with IHDR")
    width, height, _, color = struct.unpack_from(">IIBB", chunk)
    if not width or not height or color not in _PNG_CHANNELS:
        raise BadImageError(f"is a damaged PNG image: {width} x {height} pixels of color type {color}")
    return height, width, color


def _jpeg(data: bytes) -> ImageHeader:
    at, found = 2, None
    while True:
        while data[at : at + 2] == b"\xff\xff":  # any number of these bytes may precede a marker
            at += 1
        if at + 4 > len(data):
            raise BadImageError("is a truncated JPEG image")
        if data[at] != 0xFF:
            raise BadImageError(f"is a damaged JPEG image: there is no marker at byte {at}")
        marker = data[at + 1]
        if marker in _ALONE:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker in _FRAMES:
            found = _jpeg_size(data[at + 4 : at + 2 + length])
        if marker == _START_OF_SCAN or marker == _END[1]:
            break
        at += 2 + length
    if found is None:
        raise BadImageError("is a damaged JPEG image: its size is missing")
    if data.rfind(_END) < at:
        raise BadImageError("is a truncated JPEG image")
    return found


def _jpeg_size(segment: bytes) -> ImageHeader:
    if len(segment) < 6:
        raise BadImageError("is a truncated JPEG image")
    bits, height, width, components = struct.unpack_from(">BHHB", segment)
    if bits != 8 or not height or not width or components not in _JPEG_CHANNELS:
        raise BadImageError(
            f"is a JPEG image that cannot be decoded: {width} x {height} pixels of {components} components,"
            f" {bits} bits each"
        )
    return ImageHeader(height, width, _JPEG_CHANNELS[components])
