"""Whether files may have changed since they were last read, told without reading them.

Otherwise an unchanged run over much data would read all of it, only to reuse it. Whoever writes to a file gives it
another time of change (ctime), which no user can set back, and whoever replaces it gives it another inode. So files in
the state that they had when their checksum was last compared are taken as they are, and others are read again. This
misses bits that rot below the file system. A component that reads such a file does notice
(`headrace.components.contents`) and fails; the runner then reads all that the component was given before it trusts it
again.
"""

from __future__ import annotations

from pathlib import Path

from headrace.pipeline.digest import digest_text


def signature(path: Path) -> str:
    """A digest of the names, sizes, times and inodes of the files at or below `path`; no file is read."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    states = [(str(file.relative_to(path)), file.stat()) for file in files]
    return digest_text(
        *(f"{name}={now.st_size} {now.st_mtime_ns} {now.st_ctime_ns} {now.st_ino}" for name, now in states)
    )
