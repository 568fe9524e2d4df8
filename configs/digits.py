"""The data of digits.yaml, and how data comes in from a function: scikit-learn's handwritten digits as PNG images.

Needs scikit-learn and Pillow; `make env` installs both.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any


def images() -> dict[str, Any]:
    """1,797 images of 8 x 8 grey pixels, and which digit each shows."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    grey = (digits.images * 255 / 16).round().astype(np.uint8)  # the pixels are 0 to 16
    return {"image": np.array([png(image) for image in grey], object), "digit": digits.target}


def png(pixels: Any) -> bytes:
    """A PNG file of an image, height x width."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()
