"""Messages between the canary and its process: a JSON header, and NumPy arrays as their bytes.

write(pipe, {"feeds": ["x:0"]}, [array])
header, arrays = read(pipe)                 # None at the end of the stream

A message is the length of its header in 8 bytes, the header, and the bytes of the arrays. Texts are arrays of `bytes`
with dtype object; of them the header has the lengths.

The process may hang, so the canary's ends of the pipes have a deadline:

    requests, answers = TimedPipe(process.stdin, select.POLLOUT), TimedPipe(process.stdout, select.POLLIN)
    requests.deadline = answers.deadline = time.monotonic() + 120

A thread that watches each request took longer to start than a small model took to answer.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import select
import time
from collections.abc import Sequence
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

_LENGTH = 8


class Readable(Protocol):
    """What a message is read from."""

    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    """What a message is written to."""

    def write(self, content: bytes, /) -> int: ...

    def flush(self) -> None: ...


def write(file: Writable, header: dict[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> None:
    """Write one message, and flush."""
    described = json.dumps({**header, "arrays": [_describe(array) for array in arrays]}).encode()
    file.write(len(described).to_bytes(_LENGTH, "little"))
    file.write(described)
    for array in arrays:
        file.write(b"".join(array.ravel()) if array.dtype == object else array.tobytes())
    file.flush()


def read(file: Readable) -> tuple[dict[str, Any], list[NDArray[Any]]] | None:
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


def _read_array(file: Readable, described: dict[str, Any]) -> NDArray[Any]:
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


class TimedPipe:
    """One end of an unbuffered pipe. Raises TimeoutError at `deadline`, in seconds of `time.monotonic`.

    event: what to wait for, `select.POLLIN` to read and `select.POLLOUT` to write.
    """

    def __init__(self, file: IO[bytes], event: int) -> None:
        self._file, self._poll, self.deadline = file, select.poll(), math.inf
        self._poll.register(file, event)
        os.set_blocking(file.fileno(), False)

    def read(self, size: int, /) -> bytes:
        """So many bytes, fewer only at the end of the stream."""
        parts, missing = list[bytes](), size
        while missing:
            self._wait()
            parts.append(os.read(self._file.fileno(), missing))
            if not parts[-1]:
                break
            missing -= len(parts[-1])
        return b"".join(parts)

    def write(self, content: bytes, /) -> int:
        """Write all of it. Raises BrokenPipeError if nobody reads any more."""
        left = memoryview(content)
        while left:
            self._wait()
            left = left[os.write(self._file.fileno(), left) :]
        return len(content)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self._file.close()

    def _wait(self) -> None:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0 or not self._poll.poll(None if seconds == math.inf else 1000 * seconds):
            raise TimeoutError
