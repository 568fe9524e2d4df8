"""UTF-8 in every process, whatever the locale: for the contents of files, for their names, and for what is logged.

TensorFlow, Arrow and SQLite take names and texts as UTF-8 anyhow. Where Python took them by a locale such as
`de_DE.ISO-8859-1`, one `Köln` would be two different folders.
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
"""What the locale C says of itself; it promises nothing about the terminal."""


def use_utf8() -> None:
    """Run this process in Python's UTF-8 mode (PEP 540), and let the terminal have its own encoding.

    Replaces the process by one in that mode where the locale asks for another encoding, so it has to come first.
    """
    own = _own_encoding()
    if own != UTF8 and not sys.flags.utf8_mode:
        sys.stdout.flush()
        os.environ["PYTHONUTF8"] = "1"  # for the processes that this one starts
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - itself
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        with contextlib.suppress(OSError):  # a file that became a pipe after Python had opened it
            if stream.isatty() and own not in (UTF8, ASCII):
                stream.reconfigure(encoding=own)
            stream.reconfigure(errors="backslashreplace")


def _own_encoding() -> str:
    try:
        return codecs.lookup(locale.getencoding()).name
    except LookupError:  # one that Python does not know
        return ASCII
