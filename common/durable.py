"""Durable writes: a file appears whole or not at all, and survives a power loss.

write_text(path, '{"models": []}')

with replacing(path) as partial:        # for a library that writes the file itself
    np.savez(partial.open("wb"), ...)

The disk may see a rename before the bytes of the renamed file, and after a power loss the file would be empty. So the
file is flushed to the disk first (fsync), then renamed, and then its folder is flushed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PARTIAL_SUFFIX = ".partial"
"""Suffix of files that are being written. The next write removes those whose writer is gone."""
_MODE = 0o666
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8, and create its folder if needed. If it raises OSError, the old file is untouched."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a binary file; see `write_text`."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def write_output(path: Path, text: str) -> None:
    """Write a text file that the user named: as `write_text` does, but through links, into devices and pipes such as
    /dev/stdout, and only into a folder that exists. Raises OSError with that name.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    try:
        write_text(path.resolve(), text)
    except OSError as error:
        error.filename = str(path)
        raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block ends, or is removed if the block raises.

    Multiple processes may replace the same file; the last one wins. The temporary file is locked while it is written,
    which distinguishes it from one that a killed process left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_orphans(path)
    with _naming(path):
        descriptor, partial = _partial(path)
    try:
        os.fchmod(descriptor, _MODE & ~_umask())
        with _naming(path, partial):
            yield partial
            os.fsync(descriptor)
            partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


@contextlib.contextmanager
def working_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder next to `path` for intermediate files, which is removed when the block ends.

    It is locked meanwhile, and those whose process was killed are removed first.
    """
    prefix = f".{path.name}.work-"
    for orphan in path.parent.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(OSError), _locked_folder(orphan):
            shutil.rmtree(orphan)
    with _naming(path):
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=prefix))
    with contextlib.ExitStack() as lock:
        with contextlib.suppress(OSError):  # of a file system without locks, whose orphans stay
            lock.enter_context(_locked_folder(folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _naming(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Let an error name the file that could not be written, instead of a temporary one that says nothing to users.

    partial: the temporary file; None for any that an error names. A full disk is reported without a name at all.
    """
    try:
        yield
    except OSError as error:
        named = partial is None or error.filename in {partial, str(partial)}
        if named or (error.filename is None and error.errno in _FULL):
            error.filename = str(path)
            del error.filename2  # of a rename; None would be printed
        raise


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises OSError if a process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_orphan(partial: Path) -> None:
    """Remove a partial file, unless a process is writing it."""
    with contextlib.suppress(OSError), partial.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        partial.unlink()


def sync_file(path: Path) -> None:
    """Flush a file's content, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Flush the entries of a folder to the disk. No effect on file systems that cannot, such as some network ones."""
    with contextlib.suppress(OSError):
        sync_file(path)


def sync_tree(folder: Path) -> None:
    """Flush a folder and everything in it to the disk, innermost first."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            sync_folder(path)
        elif not path.is_symlink():
            sync_file(path)
    sync_folder(folder)


def _partial(path: Path) -> tuple[int, Path]:
    """Create a temporary file next to `path`, open and locked if the file system has locks."""
    while True:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL_SUFFIX)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # otherwise another write removed it before it was locked
            return descriptor, Path(name)
        os.close(descriptor)


def _remove_orphans(path: Path) -> None:
    """Remove the partial files of `path` whose writer was killed."""
    for orphan in path.parent.iterdir():
        if orphan.name.startswith(f".{path.name}.") and orphan.name.endswith(PARTIAL_SUFFIX):
            remove_orphan(orphan)


def _umask() -> int:
    """The process's file mode mask. It can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
