"""Executed first (`FIRST` in forks.py), this counts a pod's changes to the file system, and kills it right before one.

The pod notes each change as a line, and `killed` before it dies. Of what it starts, only its own process is counted;
all of it dies.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
from pathlib import Path

ASKED = "HEADRACE_TEST_DYING_POD"
"""Environment variable with JSON: the `folder` to watch, the file for `notes`, and before which change to die (`at`);
null for none.
"""
KILLED = "killed"
_OWN = "HEADRACE_TEST_DYING_POD_PROCESS"
_LAST = re.compile(r"(open|rename) \S*output_metadata\.json")
"""The component's last change, with which it says what it has made. It dies here if the number has not come before."""


class Changes:
    """The changes of the pod's process."""

    def __init__(self, notes: str, at: int | None) -> None:
        self._notes, self._at, self._own = Path(notes), at, os.getpid()

    def before(self, number: int, change: str) -> None:
        """Note a change that is about to be made, and die if it is time."""
        if os.getpid() != self._own:
            return
        self._note(change)
        if self._at is not None and (number == self._at or _LAST.match(change)):
            self._note(KILLED)
            os.killpg(0, signal.SIGKILL)

    def _note(self, what: str) -> None:
        descriptor = os.open(self._notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{what}\n".encode())
        os.close(descriptor)


if __name__ == "__main__" and os.environ.setdefault(_OWN, str(os.getpid())) == str(os.getpid()):
    os.setsid()
    request = json.loads(os.environ[ASKED])
    watch = runpy.run_path(str(Path(__file__).parents[1] / "components" / "dying.py"))["watch"]
    watch(request["folder"], Changes(request["notes"], request["at"]).before)
