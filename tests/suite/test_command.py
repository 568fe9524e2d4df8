"""Commands that the tests start, and what they read of them."""

from __future__ import annotations

from pathlib import Path

from command import headrace, started_at_once


def test_lines_that_came_with_the_one_that_was_waited_for_are_there(tmp_path: Path) -> None:
    going = started_at_once(tmp_path, "--help")
    going.wait_for("^Usage: ")  # the command writes all of it at once
    done = going.finish()
    assert (done.code, done.err) == (0, "")
    assert len(done.lines) > 10
    assert done.out == headrace(tmp_path, "--help").out
