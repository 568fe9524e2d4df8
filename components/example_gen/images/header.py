"""What the bytes of a JPEG or PNG file say of it, and whether they are whole, without the pixels.

JPEG: ITU-T T.81, annex B. PNG: the W3C's PNG specification, chapters 5 and 11.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
OTHERS = {b"GIF8": "GIF", b"BM": "BMP", b"RIFF": "WebP", b"II*\x00": "TIFF", b"MM\x00*": "TIFF", b"%PDF": "PDF"}

_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
"""By color type: gray, RGB, palette, gray and alpha, RGBA."""
_JPEG_CHANNELS = {1: 1, 3: 3, 4: 3}
"""By components. CMYK and YCCK are decoded to RGB."""
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of frames, which hold the size; the three others are tables and a reserved one."""
_ALONE = {0x01, *range(0xD0, 0xD9)}
"""Markers without a segment."""
_START_OF_SCAN, _END = 0xDA, b"\xff\xd9"


class UnfitError(Exception):
    """Why a file cannot be read as an image, in words that follow its path."""


@dataclass(frozen=True)
class Header:
    """The size of an image in pixels, and the channels that it is decoded to."""

    height: int
    width: int
    channel: int


def read_header(data: bytes) -> Header:
    """Of a JPEG or PNG file, told by its first bytes, whatever its name. Raises UnfitError for anything else, for one
    that is cut off, and for a PNG with a wrong checksum.
    """
    if data.startswith(JPEG):
        return _jpeg(data)
    if data.startswith(PNG):
        return _png(data)
    if not data.strip(b"\x00"):
        raise UnfitError("holds nothing but zeros" if data else "is empty")
    named = next((name for start, name in OTHERS.items() if data.startswith(start)), None)
    raise UnfitError(f"is {named or 'something else'}, neither a JPEG nor a PNG image")


def _png(data: bytes) -> Header:
    at, found, transparent, pixels = len(PNG), None, False, False
    while True:
        if at + 12 > len(data):
            raise UnfitError("is a PNG image that is cut off")
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise UnfitError("is a PNG image that is cut off")
        if zlib.crc32(memoryview(data)[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise UnfitError(f"is a damaged PNG image: the checksum of {name!r} at byte {at} is wrong")
        if found is None:
            found = _png_size(name, data[at + 8 : end - 4])
        transparent |= name == b"tRNS"
        pixels |= name == b"IDAT"
        if name == b"IEND":
            break
        at = end
    if not pixels:
        raise UnfitError("is a PNG image without pixels")
    height, width, color = found
    return Header(height, width, 4 if color == 3 and transparent else _PNG_CHANNELS[color])


def _png_size(name: bytes, chunk: bytes) -> tuple[int, int, int]:
    if name != b"IHDR" or len(chunk) != 13:
        raise UnfitError("is a damaged PNG image: it does not start with IHDR")
    width, height, _, color = struct.unpack_from(">IIBB", chunk)
    if not width or not height or color not in _PNG_CHANNELS:
        raise UnfitError(f"is a damaged PNG image: {width} x {height} pixels of color type {color}")
    return height, width, color


def _jpeg(data: bytes) -> Header:
    at, found = 2, None
    while True:
        while data[at : at + 2] == b"\xff\xff":  # a marker may have any number of these before it
            at += 1
        if at + 4 > len(data):
            raise UnfitError("is a JPEG image that is cut off")
        if data[at] != 0xFF:
            raise UnfitError(f"is a damaged JPEG image: no marker stands at byte {at}")
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
        raise UnfitError("is a damaged JPEG image: no size stands before its pixels")
    if data.rfind(_END) < at:
        raise UnfitError("is a JPEG image that is cut off")
    return found


def _jpeg_size(segment: bytes) -> Header:
    if len(segment) < 6:
        raise UnfitError("is a JPEG image that is cut off")
    bits, height, width, components = struct.unpack_from(">BHHB", segment)
    if bits != 8 or not height or not width or components not in _JPEG_CHANNELS:
        raise UnfitError(
            f"is a JPEG image that cannot be decoded: {width} x {height} pixels of {components} components,"
            f" {bits} bits each"
        )
    return Header(height, width, _JPEG_CHANNELS[components])
