"""A page for one or several runs, to show to others: a folder that needs no server and asks no other for anything.

write_share([find(Path("runs/chicago-taxi"))], Path("shared/taxi"), name="Taxi", description="")
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from configs.errors import RunError

if TYPE_CHECKING:
    from pipeline.report.run_folder import RunFolder

PAGE, DATA = "index.html", "share.json"


def write_share(
    folders: Sequence[RunFolder], target: Path, *, name: str, description: str = "", logs: bool = True
) -> Path:
    """Write the folder, all of it or nothing; returns its page. One that was written before is replaced.

    logs: whether TensorBoard's logs are copied beside. Raises RunError where `target` is something else.
    """
    from pipeline.share.logs import copy_logs
    from pipeline.share.page import page_data, render
    from pipeline.share.runs import shared

    if target.exists() and not _ours(target):
        raise RunError(f"{target} is there already, and is no folder of `headrace share`; give another with -o")
    runs = shared(folders)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        files = [copy_logs(run, partial) if logs else [] for run in runs]
        data = page_data(name, description, runs)
        (partial / PAGE).write_text(render(data, runs, files), encoding="utf-8")
        (partial / DATA).write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target / PAGE


def _ours(target: Path) -> bool:
    return target.is_dir() and ((target / DATA).is_file() or not any(target.iterdir()))
