"""Tracebacks for logs, which others read too."""

from __future__ import annotations

import sys
import traceback

from headrace.configs.credentials import without


def traceback_of(error: BaseException) -> str:
    """As Python prints it, without credentials: the libraries' errors repeat the URLs that they failed at."""
    return without("".join(traceback.format_exception(error)))


def write_traceback(error: BaseException) -> None:
    """To standard error."""
    sys.stderr.write(traceback_of(error))
    sys.stderr.flush()
