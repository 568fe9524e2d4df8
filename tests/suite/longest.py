"""Long files first, so that no process is left with one of them when the others have ended.

Processes get whole files in the order in which tests are collected (`--dist loadfile --no-loadscope-reorder`).
"""

from __future__ import annotations

import pytest

LONGEST = (
    "test_verify",
    "test_pydoc",
    "test_killed_runs",
    "test_flink",
    "test_beam_direct",
    "test_predict",
    "test_taxi",
    "test_models_text",
    "test_several_values",
    "test_input_pipeline",
    "test_staged_nights",
    "test_one_folder",
    "test_several_pods",
    "test_precision",
    "test_statistics",
    "test_profile",
    "test_canary_server_runs",
    "test_tuner",
    "test_distributed",
    "test_components",
    "test_added_kinds",
    "test_run",
    "test_cluster",
    "test_code_changes",
    "test_service",
)
"""The files that take more than about 35 CPU seconds, the longest first (`pytest --cpu`). A file that is missing here
costs time alone.
"""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their files, in place; all others stay in their order."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))
