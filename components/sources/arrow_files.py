"""What the kinds of files that Arrow reads have in common: Parquet, and the streams of `datasets`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import reading, resolve
from headrace.common.storage.paths import is_remote
from headrace.components.spans.patterns import glob_of


@contextlib.contextmanager
def arrow_errors(path: str, damaged: str) -> Iterator[None]:
    """Turn errors of Arrow and of the system into DataErrors that name the file.

    damaged: what is said of a file that Arrow cannot read, before Arrow's reason.
    """
    with reading(path):
        try:
            yield
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise _damaged(path, damaged, error) from None
        except OSError as error:
            if is_remote(path) or error.errno is not None:
                raise
            raise _damaged(path, damaged, error) from None


def has_files(path: str) -> bool:
    """Whether a path or pattern, with placeholders or without, names a file that exists."""
    try:
        return bool(resolve(glob_of(path)))
    except DataError:
        return False


def _damaged(path: str, damaged: str, error: Exception) -> DataError:
    return DataError(f"{damaged}: {' '.join(str(error).split())}", file=path)
