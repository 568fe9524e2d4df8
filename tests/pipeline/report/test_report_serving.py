"""What the report says of the model server of `deploy.serving`."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.results.serving import ServingOutcome

Run = Any  # what the fixtures of conftest.py give
EVIL = "<script>alert(1)</script>"
OUTCOMES = [
    (
        ServingOutcome(version=17, address="http://serving:8501 and serving:8500", seconds=2.5, config_updated=True),
        ("in service", "TensorFlow Serving at http://serving:8501 and serving:8500", "17, AVAILABLE after 2.5 s",
         "Config file updated"),
    ),
    (
        ServingOutcome(version=17, config_updated=True),
        ("not asked", "names no address", "17, not confirmed", "Config file updated"),
    ),
    (
        ServingOutcome(version=17, address="s:8500", error=f"out of memory {EVIL}", rejected=True, restored=16),
        ("rolled back", "rejected version 17; version 16 is in service", f"out of memory {EVIL}", "Rolled back to 16"),
    ),
    (
        ServingOutcome(version=17, address="s:8500", error="out of memory", rejected=True),
        ("rejected version 17.", "out of memory", "Config file unchanged"),
    ),
    (
        ServingOutcome(version=17, address="s:8500", error="s:8500 does not answer"),
        ("not confirmed", "It is not known", "does not answer"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "said"), OUTCOMES)
def test_report_says_which_server_has_which_version_and_what_was_rolled_back(
    whole: Run, outcome: ServingOutcome, said: tuple[str, ...]
) -> None:
    outcome.write(whole.folder)
    page = whole.report()
    text = " ".join(page.all_text().split())
    assert ("The model server has what was pushed" in text) == (outcome.seconds is not None)
    for words in said:
        assert words in text, text[text.index("Serving") :][:600]
    assert not {"script"} & {tag for tag, _ in page.tags}
    assert ("a", {"href": "#serving"}) in page.tags


def test_report_of_a_run_without_a_server_has_no_such_section(whole: Run) -> None:
    page = whole.report()
    assert ("section", {"id": "serving"}) not in page.tags
    assert ("a", {"href": "#serving"}) not in page.tags
