"""Long files first, so that no process is left with one of them when the others have ended.

Processes get whole files in the order in which tests are collected (`--dist loadfile --no-loadscope-reorder`).
"""

from __future__ import annotations

import pytest

LONGEST = (
    "test_verify",
    "test_model_search",
    "test_pydoc",
    "test_flink",
    "test_tuner",
    "test_canary_server_runs",
    "test_killed_runs",
    "test_unchanged",
    "test_registration_runs",
    "test_cluster",
    "test_distributed",
    "test_one_folder",
    "test_predict",
    "test_beam_direct",
    "test_code_changes",
    "test_taxi",
    "test_several_pods",
    "test_components",
    "test_staged_nights",
    "test_added_kinds",
    "test_run",
    "test_share_page",
    "test_several_values",
    "test_checkpoints",
    "test_transform_spans",
    "test_input_pipeline",
    "test_text_to_text",
    "test_service",
    "test_profile",
    "test_api",
    "test_precision",
    "test_example_gen_storage_errors",
    "test_push_outage",
    "test_notebook",
    "test_how_tos",
    "test_nightly_tutorial",
    "test_statistics",
    "test_serving_runs",
    "test_tfx_functions",
    "test_nights",
    "test_models_text",
)
"""The files that take more than about 35 seconds of a run with two workers, the longest first: seconds on the clock
(`pytest --durations=0`), as what waits keeps its worker, too. A file that is missing here costs time
alone: as the last of its worker, it leaves the other cores idle.
"""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their files, in place; all others stay in their order."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))
