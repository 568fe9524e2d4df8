"""Long files first, so that no process is left with one of them when the others have ended.

Processes get whole files in the order in which tests are collected (`--dist loadfile --no-loadscope-reorder`).
"""

from __future__ import annotations

import pytest

LONGEST = (
    "test_canary_server_runs",
    "test_verify",
    "test_tuner",
    "test_cluster",
    "test_input_columns",
    "test_model_search",
    "test_killed_runs",
    "test_unchanged",
    "test_service",
    "test_share_page",
    "test_beam_direct",
    "test_code_changes",
    "test_input_pipeline",
    "test_run",
    "test_stored_versions",
    "test_distributed",
    "test_checkpoints",
    "test_pydoc",
    "test_flink",
    "test_added_kinds",
    "test_staged_nights",
    "test_registration_runs",
    "test_predict_inputs",
    "test_several_values",
    "test_transform_spans",
    "test_taxi",
    "test_transform_materialize",
    "test_nightly_tutorial",
    "test_several_pods",
    "test_components",
    "test_kserve_follow",
    "test_columns",
)
"""The files that take more than about 30 seconds of a run with two workers, the longest first: seconds on the clock
(`pytest --durations=0`), as what waits keeps its worker, too; and test_columns, so that what TFT writes for it is
there when other files need it. A file that is missing here costs time alone: as the last of its worker, it leaves the
other cores idle.
"""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their files, in place; all others stay in their order."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))
