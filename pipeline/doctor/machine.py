"""Checks of the machine: processor, memory, disk."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.doctor.result import CheckResult, note, ok, problem

GIB = 1024**3
_MEMORY_TIGHT, _MEMORY_TOO_SMALL = 4 * GIB, 2 * GIB  # the taxi example peaks near 2 GiB
_DISK_TIGHT, _DISK_TOO_SMALL = 5 * GIB, GIB // 2


def cpu(cpuinfo: Path = Path("/proc/cpuinfo"), architecture: str = platform.machine()) -> Iterator[CheckResult]:
    """Check for AVX: without it, TensorFlow's x86-64 wheels crash with an illegal instruction."""
    if architecture not in ("x86_64", "AMD64") or not cpuinfo.exists():
        yield ok(f"{os.cpu_count()} processors, {architecture}")
        return
    flags = next((line for line in cpuinfo.read_text(encoding="utf-8").splitlines() if line.startswith("flags")), "")
    if "avx" in flags.split():
        yield ok(f"{os.cpu_count()} processors, with AVX")
    else:
        yield problem(
            "the processor has no AVX; TensorFlow's wheels crash with `Illegal instruction`",
            "use another machine; on a virtual machine, expose the host's processor (for QEMU: -cpu host)",
        )


def memory(
    meminfo: Path = Path("/proc/meminfo"), control_group: Path = Path("/sys/fs/cgroup")
) -> Iterator[CheckResult]:
    """Check the free memory of the machine, or of the container if it has less."""
    amounts = (_available(meminfo), _below_limit(control_group))
    free = min((amount for amount in amounts if amount is not None), default=None)
    if free is None:
        return
    text = f"{free / GIB:.1f} GiB of memory free"
    if free < _MEMORY_TOO_SMALL:
        yield problem(f"{text}; a run of the taxi example needs 2", "stop other programs, or raise the limit")
    elif free < _MEMORY_TIGHT:
        yield note(f"{text}: enough for small data", "set `train.input.cache: none` if a run is killed")
    else:
        yield ok(text)


def _available(meminfo: Path) -> int | None:
    if not meminfo.exists():
        return None
    fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines() if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else None


def _below_limit(control_group: Path) -> int | None:
    try:
        limit = (control_group / "memory.max").read_text(encoding="utf-8").strip()
        used = (control_group / "memory.current").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(limit) - int(used) if limit.isdigit() else None


def disk(root: Path) -> Iterator[CheckResult]:
    """Check the space and the permissions of the folder for runs."""
    folder = root.absolute()
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield problem(f"{folder} is not writable; runs are written to {root}", "set `pipeline.root` to another folder")
        return
    free = shutil.disk_usage(folder).free
    text = f"{free / GIB:.1f} GiB of disk free in {folder}"
    if free < _DISK_TOO_SMALL:
        yield problem(text, "remove old runs, or set `pipeline.root` to another disk")
    elif free < _DISK_TIGHT:
        yield note(text, "remove old runs before training on large data")
    else:
        yield ok(text)


def temporary_files() -> Iterator[CheckResult]:
    """Check that the temporary folder is writable; Beam and TensorFlow use it."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"headrace")
    except OSError as error:
        yield problem(f"temporary files cannot be written: {error}", "set TMPDIR to a writable folder")
    else:
        yield ok(f"temporary files go to {tempfile.gettempdir()}")
