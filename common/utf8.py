"""UTF-8 in every process, whatever the locale: for the contents and names of files, and for logs.

TensorFlow, Arrow and SQLite use UTF-8 for names and texts in any case. If Python followed a locale such as
`de_DE.ISO-8859-1`, `Köln` would be two different folders.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import locale
import os
import sys

UTF8 = "utf-8"
ASCII = "ascii"
"""The encoding of the C locale, which says nothing about the terminal."""


def use_utf8() -> None:
    """Run this process in Python's UTF-8 mode (PEP 540), while the terminal keeps its own encoding.

    If the locale asks for another encoding, the process is replaced by one in UTF-8 mode, so call this first.
    """
    own = _own_encoding()
    if own != UTF8 and not sys.flags.utf8_mode:
        sys.stdout.flush()
        os.environ["PYTHONUTF8"] = "1"  # for child processes
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - this program again
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        with contextlib.suppress(OSError):  # a file that turned into a pipe after Python opened it
            if stream.isatty() and own not in (UTF8, ASCII):
                stream.reconfigure(encoding=own)
            stream.reconfigure(errors="backslashreplace")


def _own_encoding() -> str:
    try:
        return codecs.lookup(locale.getencoding()).name
    except LookupError:  # unknown to Python
        return ASCII


def is_utf8(text: bytes) -> bool:
    """Whether bytes are a text in UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
