"""Records that were left out, and notes on the data: seen in the report, and text there whatever they hold."""

import json
from typing import Any

EVIL = "<script>alert(1)</script>"
Run = Any  # what the fixtures of conftest.py give


def test_records_left_out_and_notes_are_shown_as_text(whole: Run) -> None:
    properties = whole.record.nodes[0].outputs["examples"].properties
    properties["skipped"] = json.dumps(
        {"count": 100, "reported": [f"/d/f.csv:{line}: {EVIL}" for line in range(2, 22)]}
    )
    properties["notes"] = json.dumps([f"/d/f.csv changed since it was last read {EVIL}"])
    page = whole.report()
    text = page.all_text()
    assert "100 of 500 records (20%) could not be read" in text
    assert text.count(EVIL) >= 21
    assert "/d/f.csv:21: " in text
    assert ("ul", {"class": "places"}) in page.tags  # its bullets hang inside the page's edge
    assert "script" not in {tag for tag, _ in page.tags}


def test_nothing_is_said_where_nothing_was_left_out(whole: Run) -> None:
    assert "left-out" not in {attributes.get("id") for _, attributes in whole.report().tags}
