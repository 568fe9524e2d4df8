"""Kills a run right before one of its changes to the file system, or a while after it.

Each process of the run executes this file first (`FIRST` in forks.py), and notes its changes as lines:

    command Trainer 3 open …/run.json…      the command's, counted from the moment at which it starts a component
    component Trainer 17 rename …           a component's own
"""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import threading
import time
from pathlib import Path
from typing import Any

ASKED = "HEADRACE_TEST_DYING_RUN"
"""Environment variable with JSON: the `folder` to watch, the file for `notes`, and, if the run is to be killed, the
`process` and the `component` of the change, its number (`at`), how many seconds `after` it, and whether the component
dies `alone`.
"""
COMMAND = "HEADRACE_TEST_DYING_COMMAND"
"""Environment variable that the command sets for the processes that it starts: its process id."""
FIRST_CHANGE = {"command": re.compile(r"open .*/keys/(\w+)\.json"), "component": re.compile(r"open .*/logs/(\w+)\.log")}
LAST_CHANGE = re.compile(r"rename .*result\.json")
LAUNCH = re.compile(r"mkdir .*/tmp/\d+")
"""The command's second change for a component, unless that is reused."""


class Changes:
    """The changes of this process, and of those that it forks."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._command = int(os.environ.setdefault(COMMAND, str(os.getpid())))
        self._process = "command" if self._command == os.getpid() else "component"
        self._component, self._number = "start", 0

    def before(self, _: int, change: str) -> None:
        """Note a change that is about to be made, and die if it is the one."""
        if first := FIRST_CHANGE[self._process].match(change):
            self._component, self._number = first[1], 0
        with Path(self._asked["notes"]).open("a", encoding="utf-8") as notes:
            notes.write(f"{self._process} {self._component} {self._number} {change}\n")
        if self._component == self._asked.get("component") and self._is_the_one(change):
            self._die()
        self._number += 1

    def _is_the_one(self, change: str) -> bool:
        """Whether to die before a change for the component: the one that was asked for, or at the latest the last one.
        A component that is reused makes none, as it ended beside one that was killed earlier; so the command dies.
        """
        if self._process == self._asked["process"]:
            return self._number == self._asked["at"] or LAST_CHANGE.match(change) is not None
        return self._process == "command" and self._number == 1 and not LAUNCH.match(change)

    def _die(self) -> None:
        pid = os.getpid() if self._asked["alone"] else self._command
        if self._asked["after"]:
            threading.Thread(target=_kill, args=(pid, self._asked["after"]), daemon=True).start()
            return
        _kill(pid)
        threading.Event().wait()  # a component, until the processes of the killed command are ended


def _kill(pid: int, seconds: float = 0) -> None:
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    request = json.loads(os.environ[ASKED])
    watch = runpy.run_path(str(Path(__file__).parents[1] / "components" / "dying.py"))["watch"]
    watch(request["folder"], Changes(request).before)
