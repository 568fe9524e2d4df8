"""The report of a run: one self-contained HTML page.

path = write_report(Path("runs/chicago-taxi/runs/20260730-120304"))
"""

from __future__ import annotations

from pathlib import Path

from headrace.common.durable import write_text

FILE_NAME = "report.html"


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into a run's folder, with whatever the run got to, and return its path.

    Raises FileNotFoundError if the folder holds no run record.
    """
    from headrace.pipeline.report.page import render_page
    from headrace.pipeline.results.run_folder import RunFolder

    page = render_page(RunFolder.read(run_dir))
    write_text(run_dir / FILE_NAME, page)
    return run_dir / FILE_NAME
