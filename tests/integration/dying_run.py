"""Kills a run right before one of its changes to the file system, or a while after it: at the first of several moments.

Each process of the run executes this file first (`FIRST` in forks.py), and notes its changes as lines:

    command Trainer 3 open …/run.json…      the command's, counted from the moment at which it starts a component
    component Trainer 17 rename …           a component's own, in its process, or in the command if that computes it
    killed Trainer                          it was that component's moment
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
"""Environment variable with JSON: the `folder` to watch, the file for `notes`, and the `moments`, at most one for each
component: the `process` and the `component` of a change, its number (`at`), how many seconds `after` it, and whether
the component dies `alone`.
"""
COMMAND = "HEADRACE_TEST_DYING_COMMAND"
"""Environment variable that the command sets for the processes that it starts: its process id."""
START = "start"
"""What a command does before its first component."""
LAUNCHED = 1
"""The number of the command's change with which it launches a component, unless that is reused."""
KILLED = "killed"
COMMANDS_FIRST = re.compile(r"open .*/keys/(\w+)\.json")
"""The command's first change for a component, which it is about to launch or to reuse."""
OWN_FIRST = re.compile(rf"open .*/logs/(?!{START}\.)(\w+)\.log")
OWN_LAST = re.compile(r"rename .*result\.json")
LAUNCH = re.compile(r"mkdir .*/tmp/\d+")


class Changes:
    """The changes of this process, and of those that it forks."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._moments = {moment["component"]: moment for moment in asked["moments"]}
        self._notes = os.open(asked["notes"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._command = int(os.environ.setdefault(COMMAND, str(os.getpid())))
        self._is_command = self._command == os.getpid()
        self._whose = "command" if self._is_command else "component"
        self._component, self._number, self._launched = START, 0, True
        self._before = 0

    def before(self, _: int, change: str) -> None:
        """Note a change that is about to be made, and die if it is time."""
        self._enter(change)
        self._note(self._whose, self._component, self._number, change)
        moment = self._moments.get(self._component)
        if moment is not None and self._is_time(moment, change):
            self._die(moment)
        self._number += 1
        if self._is_command and self._whose == "component" and OWN_LAST.match(change):
            self._whose, self._number = "command", self._before

    def _enter(self, change: str) -> None:
        """Begin to count anew if the change is the first for a component, or the component's own first: in a process
        of its own, or in the command, which computes what takes milliseconds.
        """
        if self._is_command and (first := COMMANDS_FIRST.match(change)):
            if self._component == START and START in self._moments:
                self._die(self._moments[START])  # fewer changes than in the undisturbed run
            self._whose, self._component, self._number, self._launched = "command", first[1], 0, False
        elif first := OWN_FIRST.match(change):
            self._before = self._number
            self._whose, self._component, self._number, self._launched = "component", first[1], 0, True
        elif self._is_command and self._number == LAUNCHED and LAUNCH.match(change):
            self._launched = True

    def _is_time(self, moment: dict[str, Any], change: str) -> bool:
        """Whether to die before a change for the component: the one that was asked for, or, before that or the time
        comes, its own last one. The command does not die for a component that it reuses.
        """
        if self._whose == "component" and OWN_LAST.match(change):
            return moment["process"] == "component" or moment["after"] > 0
        launched = self._launched or self._number < LAUNCHED
        return self._whose == moment["process"] and self._number == moment["at"] and launched

    def _die(self, moment: dict[str, Any]) -> None:
        pid = os.getpid() if moment["alone"] else self._command
        if moment["after"] and self._whose == "command":
            threading.Thread(target=self._kill, args=(pid, moment["component"], moment["after"]), daemon=True).start()
            return
        self._kill(pid, moment["component"])
        threading.Event().wait()  # a component, until the processes of the killed command are ended

    def _kill(self, pid: int, component: str, seconds: float = 0) -> None:
        time.sleep(seconds)
        self._note(KILLED, component)
        os.kill(pid, signal.SIGKILL)

    def _note(self, *words: object) -> None:
        os.write(self._notes, f"{' '.join(map(str, words))}\n".encode())


if __name__ == "__main__":
    request = json.loads(os.environ[ASKED])
    watch = runpy.run_path(str(Path(__file__).parents[1] / "components" / "dying.py"))["watch"]
    watch(request["folder"], Changes(request).before)
