"""What an error looks like in a log, and what of it the user sees.

A log gets the whole traceback. If code of the user's is in it, the part from there on follows, after OWN_CODE. That
part is what the terminal and the report show: the frames of Headrace, TFX, Keras and TensorFlow above it say nothing
about the user's mistake. A HeadraceError without code of the user's, such as a ConfigError, shows no traceback there.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from headrace.common.credentials import redact
from headrace.common.errors import HeadraceError

OWN_CODE = "traceback of your own code:"
WHOLE = "(the whole traceback is above)"
_OURS = str(Path(__file__).parents[1]) + "/"
_LIBRARIES = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/lib64/python3",
    "<frozen ",
    "__autograph_generated_file",
)


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, and then that of the user's code, if there is any.

    Credentials are redacted: libraries repeat URLs in their errors.
    """
    whole = redact("".join(traceback.format_exception(error)))
    own = own_traceback(error)
    return f"{whole}\n{OWN_CODE} {WHOLE}\n{own}" if own else whole


def own_traceback(error: BaseException) -> str:
    """The frames from the user's first on, and the error that was raised there, redacted; "" without such a frame.

    Of a chain of errors it is the first that the user's code met. A HeadraceError that the user's code raised itself,
    such as the GateError of a gate of theirs, is a message of theirs, and needs no frames.
    """
    found = ""
    for each in _chain(error):
        stack = traceback.extract_tb(each.__traceback__)
        own = [number for number, frame in enumerate(stack) if not in_a_library(frame.filename)]
        if isinstance(each, HeadraceError):
            if own and own[-1] == len(stack) - 1:
                break
        elif own:
            lines = [*traceback.format_list(stack[own[0] :]), *traceback.format_exception_only(each)]
            found = redact("".join(lines))
    return found


_TYPED = ("<ipython-input", "<stdin>")
"""What a person typed. Other code without a file, such as a dataclass' `__init__`, is generated."""


def write_traceback(error: BaseException) -> None:
    """Write `traceback_of(error)` to standard error."""
    sys.stderr.write(traceback_of(error))
    sys.stderr.flush()


def in_a_library(file: str) -> bool:
    """Whether a frame's file is Headrace's, an installed package's or Python's own, rather than the user's."""
    if not Path(file).is_absolute():  # typed, generated, or compiled: its sources are named as its builder had them
        return not file.startswith(_TYPED) and not Path(file).is_file()
    return file.startswith(_OURS) or any(part in file for part in _LIBRARIES)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it came from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
