"""The functions that Python programs call, `headrace.run` and the others of `headrace.__all__`.

The command line calls them too, or the variants below them that return more.
"""

from headrace.pipeline.api.lifecycle import compare, lineage, models, promote, promote_model, roll_back, rollback
from headrace.pipeline.api.loading import load, load_checked, validate
from headrace.pipeline.api.outputs import compile, predict, share, share_runs  # noqa: A004 - named like the command
from headrace.pipeline.api.running import load_to_run, notifying, register_after_run, run, run_loaded, runs, write_pages
from headrace.pipeline.api.serving import serve_after_run

__all__ = [
    "compare",
    "compile",
    "lineage",
    "load",
    "load_checked",
    "load_to_run",
    "models",
    "notifying",
    "predict",
    "promote",
    "promote_model",
    "register_after_run",
    "roll_back",
    "rollback",
    "run",
    "run_loaded",
    "runs",
    "serve_after_run",
    "share",
    "share_runs",
    "validate",
    "write_pages",
]
