"""Images of all kinds in rows of data, and the pixels that Pillow makes of them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

ROWS = 64
FEATURES: dict[str, dict[str, Any]] = {
    "small": {"column": "image", "key": "picture", "height": 8, "width": 8, "channels": 1},
    "color": {"column": "image", "key": "picture", "height": 10, "width": 6},
    "exact": {"column": "image", "key": "picture", "height": 10, "width": 6, "stored": "float32"},
    "padded": {"column": "image", "key": "picture", "height": 9, "width": 9, "fit": "pad", "missing": 128},
    "cropped": {"column": "image", "key": "picture", "height": 8, "width": 4, "fit": "crop"},
    "large": {"column": "image", "key": "picture", "height": 40, "width": 50},
    "raw": {
        "column": "image", "size_keys": ["high", "wide", "deep"], "height": 6, "width": 6, "stored": "float32",
        "missing": 51,
    },
}  # fmt: skip
SCHEMA = """
    feature { name: "picture" type: BYTES } feature { name: "raw" type: BYTES }
    feature { name: "high" type: INT } feature { name: "wide" type: INT } feature { name: "deep" type: INT }
    feature { name: "dark" type: INT }
"""
KINDS = ["gray", "rgb", "rgba", "gray with alpha", "16 bits", "palette", "jpeg", None]


def encoded(kind: str | None, rng: np.random.Generator, dark: bool) -> bytes | None:
    """An image file of that kind, of a shape of its own."""
    if kind is None:
        return None
    height, width = (int(side) for side in rng.integers(5, 30, 2))
    shape = {"gray": (), "rgba": (4,), "gray with alpha": (2,), "16 bits": (), "palette": ()}.get(kind, (3,))
    pixels = rng.integers(0, 120 if dark else 256, (height, width, *shape)).astype(np.uint8)
    if kind == "jpeg":  # smooth, as photographs are, or decoders would differ
        pixels = np.asarray(Image.fromarray(pixels[:3, :3] // 4 + 60).resize((width, height), Image.Resampling.BICUBIC))
    image = Image.fromarray(pixels.astype(np.uint16) * 256 + 7) if kind == "16 bits" else Image.fromarray(pixels)
    if kind == "palette":
        image = image.convert("RGB").quantize(16)
    file = io.BytesIO()
    image.save(file, "jpeg" if kind == "jpeg" else "png", **({"quality": 95} if kind == "jpeg" else {}))
    return file.getvalue()


def make_rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    rows = []
    for number in range(ROWS):
        dark = number % 2 == 0
        height, width, depth = int(rng.integers(3, 20)), int(rng.integers(3, 20)), (1, 3, 4)[number % 3]
        raw = rng.integers(0, 120 if dark else 256, (height, width, depth)).astype(np.uint8)
        row = {"picture": encoded(KINDS[number // 2 % len(KINDS)], rng, dark), "dark": int(dark)}
        row |= {"raw": raw.tobytes(), "high": height, "wide": width, "deep": depth} if number % 9 else {}
        rows.append(row)
    return rows


def serialized(row: dict[str, Any]) -> bytes:
    example = tf.train.Example()
    for name, value in row.items():
        if isinstance(value, bytes):
            example.features.feature[name].bytes_list.value.append(value)
        elif value is not None:
            example.features.feature[name].int64_list.value.append(value)
    return example.SerializeToString()


def opened(row: dict[str, Any], name: str) -> np.ndarray | None:
    """The image of a row as float64 [height, width, 1, 3 or 4], decoded by Pillow."""
    if name == "raw":
        shape = [row.get(key, 0) for key in ("high", "wide", "deep")]
        return np.frombuffer(row["raw"], np.uint8).reshape(shape).astype(np.float64) if "raw" in row else None
    if row["picture"] is None:
        return None
    image: Image.Image = Image.open(io.BytesIO(row["picture"]))
    if image.mode.startswith("I"):
        return (np.asarray(image).astype(np.int64) // 256)[:, :, np.newaxis].astype(np.float64)
    image = image.convert("RGB") if image.mode == "P" else image
    pixels = np.asarray(image, np.float64)
    return pixels[:, :, np.newaxis] if pixels.ndim == 2 else pixels


def resized(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """By Pillow, whose bilinear filter smooths where an image becomes smaller."""
    channels = [
        Image.fromarray(pixels[:, :, channel].astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR)
        for channel in range(pixels.shape[2])
    ]
    return np.stack([np.asarray(channel, np.float64) for channel in channels], axis=2)


def expected(row: dict[str, Any], name: str) -> np.ndarray:
    """Pixels from 0 to 255, without rounding."""
    feature = FEATURES[name]
    height, width, channels = feature["height"], feature["width"], feature.get("channels", 3)
    pixels = opened(row, name)
    if pixels is None:
        return np.full((height, width, channels), feature.get("missing", 0), np.float64)
    colored = pixels.shape[2] >= 3
    if channels == 1:
        pixels = pixels[:, :, :3] @ np.array([[0.2989], [0.587], [0.114]]) if colored else pixels[:, :, :1]
    else:
        pixels = pixels[:, :, :3] if colored else np.repeat(pixels[:, :, :1], 3, axis=2)
    high, wide = pixels.shape[:2]
    if feature.get("fit") == "pad":
        ratio = max(high / height, wide / width)
        inside = resized(pixels, round(high / ratio), round(wide / ratio))
        frame = np.zeros((height, width, channels))
        top, left = (height - inside.shape[0]) // 2, (width - inside.shape[1]) // 2
        frame[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
        return frame
    if feature.get("fit") == "crop":
        kept_high, kept_wide = min(high, wide * height // width), min(wide, high * width // height)
        top, left = (high - kept_high) // 2, (wide - kept_wide) // 2
        pixels = pixels[top : top + kept_high, left : left + kept_wide]
    return resized(pixels, height, width)
