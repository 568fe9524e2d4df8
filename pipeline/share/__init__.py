"""A page for one or several runs, to show to others: a folder that needs no server and asks no other for anything.

write_share([find(Path("runs/chicago-taxi"))], Path("shared/taxi"), name="Taxi", description="")
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.configs.errors import RunError

if TYPE_CHECKING:
    from headrace.pipeline.report.run_folder import RunFolder

PAGE, DATA = "index.html", "share.json"


def write_share(  # noqa: PLR0913
    folders: Sequence[RunFolder],
    target: Path,
    *,
    name: str,
    description: str = "",
    logs: bool = True,
    left_out: Sequence[str] = (),
) -> Path:
    """Write the folder; returns its page. Of a page that is there already, what is ours is replaced, and only when the
    new one is ready.

    logs: whether TensorBoard's logs are copied beside; left_out: runs that came to no training, in words. Raises
    RunError where `target` holds something else.
    """
    from headrace.pipeline.share.logs import copy_logs
    from headrace.pipeline.share.page import page_data, render
    from headrace.pipeline.share.runs import shared

    if target.exists() and name_of(target) is None and not (target.is_dir() and not any(target.iterdir())):
        raise RunError(f"{target} is there already, and is no folder of `headrace share`; give another with -o")
    runs = shared(folders)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".share-", dir=target) as folder:
        partial = Path(folder, "new")
        partial.mkdir()
        files = [copy_logs(run, partial) if logs else [] for run in runs]
        data = page_data(name, description, runs, left_out)
        (partial / PAGE).write_text(render(data, runs, files), encoding="utf-8")
        (partial / DATA).write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
        _replace(target, partial, Path(folder))
    return target / PAGE


def name_of(target: Path) -> str | None:
    """The name of the page in a folder; None where there is none of ours."""
    from headrace.pipeline.share.page import FORMAT

    try:
        told = json.loads((target / DATA).read_text(encoding="utf-8"))
        return str(told["name"]) if 1 <= told["format"] <= FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _replace(target: Path, new: Path, old: Path) -> None:
    """Put what is new in the place of what is old, the page last; what else lies there stays."""
    from headrace.pipeline.share.logs import FOLDER

    for name in (FOLDER, DATA, PAGE):
        if (target / name).exists():
            (target / name).replace(old / name)
        if (new / name).exists():
            (new / name).replace(target / name)
