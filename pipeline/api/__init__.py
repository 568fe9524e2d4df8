"""The functions that Python programs call, `headrace.run` and the others of `headrace.__all__`.

The command line calls them too, or the variants below them that return more.
"""

from headrace.pipeline.api.lifecycle import (
    change_on_kubeflow,
    compare,
    lineage,
    models,
    promote,
    promote_model,
    rollback,
    rollback_model,
)
from headrace.pipeline.api.loading import load, load_checked, validate
from headrace.pipeline.api.outputs import compile, predict, share, share_runs  # noqa: A004 - named like the command
from headrace.pipeline.api.running import EndedRun, load_to_run, run, run_to_the_end, runs

__all__ = [
    "EndedRun",
    "change_on_kubeflow",
    "compare",
    "compile",
    "lineage",
    "load",
    "load_checked",
    "load_to_run",
    "models",
    "predict",
    "promote",
    "promote_model",
    "rollback",
    "rollback_model",
    "run",
    "run_to_the_end",
    "runs",
    "share",
    "share_runs",
    "validate",
]
