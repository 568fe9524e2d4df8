"""Messages between the canary and its process: a JSON header, and NumPy arrays as their bytes.

write(pipe, {"feeds": ["x:0"]}, [array])
header, arrays = read(pipe)                 # None at the end of the stream

A message is the length of its header in 8 bytes, the header, and the bytes of the arrays. Texts are arrays of `bytes`
with dtype object; of them the header has the lengths.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = 8


def write(file: IO[bytes], header: dict[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> None:
    """Write one message, and flush."""
    described = json.dumps({**header, "arrays": [_describe(array) for array in arrays]}).encode()
    file.write(len(described).to_bytes(_LENGTH, "little"))
    file.write(described)
    for array in arrays:
        file.write(b"".join(array.ravel()) if array.dtype == object else array.tobytes())
    file.flush()


def read(file: IO[bytes]) -> tuple[dict[str, Any], list[NDArray[Any]]] | None:
    """Read one message; None if the stream ends before or within it."""
    start = file.read(_LENGTH)
    if len(start) < _LENGTH:
        return None
    described = file.read(int.from_bytes(start, "little"))
    try:
        header = json.loads(described)
        return header, [_read_array(file, one) for one in header.pop("arrays")]
    except ValueError:  # the writer died
        return None


def _describe(array: NDArray[Any]) -> dict[str, Any]:
    lengths = [len(text) for text in array.ravel()] if array.dtype == object else None
    return {"shape": array.shape, "type": None if lengths is not None else array.dtype.str, "lengths": lengths}


def _read_array(file: IO[bytes], described: dict[str, Any]) -> NDArray[Any]:
    """Raises ValueError if the stream ends before the array does."""
    shape, lengths = described["shape"], described["lengths"]
    if lengths is None:
        type_ = np.dtype(described["type"])
        return np.frombuffer(file.read(math.prod(shape) * type_.itemsize), type_).reshape(shape)
    content = file.read(sum(lengths))
    if len(content) < sum(lengths):
        raise ValueError("the stream ends within an array")
    ends = np.cumsum([0, *lengths])
    texts = np.empty(len(lengths), object)
    texts[:] = [content[start:end] for start, end in itertools.pairwise(ends)]
    return texts.reshape(shape)
