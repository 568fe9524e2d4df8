"""Files that are trusted later: each appears whole or not at all, and stays after a power loss.

write_text(path, '{"models": []}')

with replacing(path) as partial:        # for what is written by a library of its own
    np.savez(partial.open("wb"), ...)

A rename may reach the disk before the bytes of the file that it renames, and then leaves an empty file after a power
loss. So the file is brought to the disk first (fsync), then renamed, then the folder that names it is brought there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".partial"
"""Of names of files that are being written. One that nobody writes any more is removed by the next write."""
_MODE = 0o666


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8. Folders above it are made. Raises OSError, with the old file still in place."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """The same with bytes."""
    with replacing(path) as partial:
        partial.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file to write to; it takes the place of `path` when the block ends well, and is removed if it does not.

    Several processes may do so at once: the last to end wins. The partial file is locked while it is written, which
    tells it from one that a kill has left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear(path)
    descriptor, partial = _partial(path)
    try:
        os.fchmod(descriptor, _MODE & ~_umask())
        yield partial
        os.fsync(descriptor)
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def remove_left(partial: Path) -> None:
    """Remove a partial file, unless a process is at work on it."""
    with contextlib.suppress(OSError), partial.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        partial.unlink()


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk. Without effect on file systems that cannot (some network ones)."""
    with contextlib.suppress(OSError):
        sync_file(path)


def sync_tree(folder: Path) -> None:
    """Bring a folder to the disk with all that is in it, from the inside out."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            sync_folder(path)
        elif not path.is_symlink():
            sync_file(path)
    sync_folder(folder)


def _partial(path: Path) -> tuple[int, Path]:
    """A new file beside `path`, open and locked. Where the file system has no locks, nothing is cleared away either."""
    while True:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=SUFFIX)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # else another write took it for one that was left behind, before the lock
            return descriptor, Path(name)
        os.close(descriptor)


def _clear(path: Path) -> None:
    """Remove the partial files of this name whose process was killed."""
    for left in path.parent.iterdir():
        if left.name.startswith(f".{path.name}.") and left.name.endswith(SUFFIX):
            remove_left(left)


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
