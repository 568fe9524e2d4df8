"""Columns of images: the size to which a network gets them, and whether in color, by the first files.

settings, comment = image_settings(facts)     # {"column": "image", "height": 128, "width": 128}, "240 x 320 pixels"
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headrace.components.inference.facts import ColumnFacts
from headrace.components.sources.images.image import BadImageError, ImageHeader, read_header
from headrace.components.sources.images.source import IMAGE_KINDS

MAX_HEADERS = 200
"""Images whose headers are read."""
PIXELS = 128
"""Height and width to which larger images are scaled."""
SIZE_KEYS = frozenset(IMAGE_KINDS) - {"image"}
"""Columns in which a source of images says what the header of each says."""


def image_settings(facts: ColumnFacts) -> tuple[dict[str, Any], str] | None:
    """The feature of a column of JPEG and PNG files, and what was found; None if they are something else."""
    headers = _headers(facts)
    if not headers:
        return None
    heights, widths = sorted({one.height for one in headers}), sorted({one.width for one in headers})
    small = max(heights[-1], widths[-1]) <= PIXELS
    height, width = (heights[-1], widths[-1]) if small else (PIXELS, PIXELS)
    gray = all(one.channel <= 2 for one in headers)  # 2: with an alpha channel
    least, most = f"{heights[0]} x {widths[0]}", f"{heights[-1]} x {widths[-1]}"
    what = f"{most} pixels" if least == most else f"from {least} up to {most} pixels"
    scaled = "" if small else "; scaled down, since training takes longer with larger ones"
    settings = {"column": "image", "height": height, "width": width, **({"channels": 1} if gray else {})}
    return settings, f"{what}{', gray' * gray}{scaled}"


def may_say_size(name: str, names: Collection[str]) -> bool:
    """Whether a column may only say how high or wide the images beside it are, or how many channels they have."""
    return name in SIZE_KEYS and set(names) >= {*SIZE_KEYS, "image"}


def are_images(facts: ColumnFacts) -> bool:
    """Whether the first values of a column are JPEG and PNG files."""
    return bool(_headers(facts))


def smallest_side(features: Sequence[Mapping[str, Any]]) -> int | None:
    """The least height or width of the images among the settings of features; None if there are none."""
    sides = [min(each["height"], each["width"]) for each in features if each["column"] == "image"]
    return min(sides, default=None)


def _headers(facts: ColumnFacts) -> list[ImageHeader]:
    """The headers of the first values; none if one of them is not an image."""
    if facts.kind != "bytes":
        return []
    try:
        return [read_header(value) for value in facts.values.slice(0, MAX_HEADERS).to_pylist()]
    except BadImageError:
        return []
