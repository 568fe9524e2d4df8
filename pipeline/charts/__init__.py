"""The script with which pages draw charts themselves: the shared page and TensorBoard's profile page.

The charts of the report need no script; `pipeline/report/charts.py` draws them.
"""

from __future__ import annotations

from pathlib import Path

ENGINE = Path(__file__).parent / "charts.js"


def script(*files: Path) -> str:
    """The engine, followed by the scripts in these files, which use it."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (ENGINE, *files))
