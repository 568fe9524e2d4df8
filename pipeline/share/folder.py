"""The folder of a shared page: the page, its data as JSON, and copies of TensorBoard's logs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headrace.common.errors import RunError
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.share.logs import LOGS, copy_logs
from headrace.pipeline.share.page import FORMAT, page_data, render
from headrace.pipeline.share.runs import shared

PAGE, DATA = "index.html", "share.json"


def write_share(
    folders: Sequence[RunFolder],
    target: Path,
    *,
    name: str,
    description: str = "",
    logs: bool = True,
    left_out: Sequence[str] = (),
) -> Path:
    """Write a shared page and return the path of its `index.html`.

    A page that is already there is replaced once the new one is complete; other files in the folder stay.

    Args:
        folders: The runs, in the order of the page.
        target: The folder to write.
        name: The page's title.
        description: Plain text under the title.
        logs: Whether to copy TensorBoard's logs too.
        left_out: Names of runs that the page leaves out because they have no training.

    Raises:
        RunError: `target` holds something that is not a shared page.
    """
    if target.exists() and name_of(target) is None and not (target.is_dir() and not any(target.iterdir())):
        raise RunError(f"{target} already exists and was not written by `headrace share`; choose another output folder")
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
    """The name of the shared page in a folder; None if the folder holds none."""
    try:
        data = json.loads((target / DATA).read_text(encoding="utf-8"))
        return str(data["name"]) if 1 <= data["format"] <= FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _replace(target: Path, new: Path, old: Path) -> None:
    """Replace the logs, the data and last the page; other files stay."""
    for name in (LOGS, DATA, PAGE):
        if (target / name).exists():
            (target / name).replace(old / name)
        if (new / name).exists():
            (new / name).replace(target / name)
