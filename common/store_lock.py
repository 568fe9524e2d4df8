"""A lock in an object store, for what several machines change there and no store can refuse to write.

with held(system, "bucket/models/.models.config.lock") as claim:
    ...                 # find out what to write
    claim.check()       # the lock may have been lost meanwhile
    ...                 # write it

Not every object store supports conditional writes, and pyarrow offers none. So whoever wants the lock writes an object
of its own, a claim, and then lists all claims: of two at once, at least the later one finds the other's, and then
withdraws its own and waits. In a store whose listings show what was written before, one at most continues.

A claim names the process that wrote it. It is written again every few seconds. One that is not was left by a process
that was killed, or cannot reach the store, and is removed. This is seen by watching it for a while, so no two clocks
are compared. Whoever holds the lock measures by its own clock how long ago it wrote its claim, and stops before others
may remove it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.common.errors import RunError

logger = logging.getLogger(__name__)

_MOST = 200
"""Bytes of a claim that a message repeats."""
Claims = dict[str, object]
"""When each claim was written, by its name, as the store says."""


def _seconds_since_boot() -> float:
    """Unlike time.monotonic, it counts the time in which the machine is suspended and others may take the lock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))  # macOS counts it in the latter


@dataclass(frozen=True)
class Timing:
    """The clock of a lock, and its durations in seconds.

    Args:
        renew: how often a claim is written again.
        trust: how long after its last renewal a process may still begin to write what the lock protects: long enough
            for a store that is slow, and so much shorter than `lease` that a request of a file system for such writes
            (`filesystems.promptly`) has ended by then.
        lease: how long others see a claim stay as it is until they remove it.
        poll: how often others look for it, at most.
        patience: how long to wait for the lock in all.
        clock: returns seconds that never go back.
        sleep: waits for a number of seconds.
    """

    renew: float = 5.0
    trust: float = 25.0
    lease: float = 40.0
    poll: float = 1.0
    patience: float = 3600.0
    clock: Callable[[], float] = _seconds_since_boot
    sleep: Callable[[float], None] = time.sleep


USUAL = Timing()


class LockedError(RunError):
    """Others held the lock for as long as this process waited."""


@contextlib.contextmanager
def held(system: Any, path: str, waiting: str = "", timing: Timing | None = None) -> Iterator[HeldLock]:
    """Wait until nobody else holds the lock, and hold it.

    Args:
        system: the pyarrow.fs.FileSystem, whose requests take less than the time from `Timing.trust` to `Timing.lease`.
        path: the start of the claims' names there.
        waiting: a warning that is logged if somebody else holds it; "" for none.
        timing: None for USUAL.

    Raises OSError if the store fails while it waits, LockedError if others hold the lock all the time.
    """
    timing = timing or USUAL
    claim, deadline = HeldLock(system, path, timing), timing.clock() + timing.patience
    try:
        while others := claim.others():
            if waiting:
                logger.warning(waiting)
                waiting = ""
            claim.withdraw()
            claim.outwait(others, deadline)
        ended = threading.Event()
        renewing = threading.Thread(target=claim.renew_until, args=(ended,), daemon=True)
        renewing.start()
        try:
            yield claim
        finally:
            ended.set()
            renewing.join()
    finally:
        claim.withdraw()


class HeldLock:
    """The claim of this process to a lock; arguments as of `held`."""

    def __init__(self, system: Any, path: str, timing: Timing) -> None:
        self._system, self._path, self._timing = system, path, timing
        self._folder, _, start = path.rpartition("/")
        self._start, self._name = f"{start}-", f"{start}-{secrets.token_hex(8)}"
        self._renewed = timing.clock()
        self._is_lost = False
        self._holder = (
            f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        )

    def check(self) -> None:
        """Raise RunError if others may have the lock by now, as the claim could not be renewed in time."""
        if self._is_lost or self._is_old():
            seconds = self._timing.clock() - self._renewed
            raise RunError(
                f"the lock {self._path} was lost, because the store did not answer for {seconds:.0f} seconds, or this"
                " process was suspended. Another one may be writing there now, so this one stopped; run again"
            )

    def others(self) -> Claims:
        """Write the claim, and look for those of others. Raises OSError if the store fails."""
        started = self._timing.clock()
        self._write()
        self._renewed = started
        return self._found()

    def withdraw(self) -> None:
        """Let others have the lock. If the store fails, they get it when the claim is too old."""
        try:
            self._system.delete_file(f"{self._folder}/{self._name}")
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning(
                f"{self._folder}/{self._name}: cannot be removed, so others wait up to {self._timing.lease:.0f} seconds"
                f" for this lock: {error}"
            )

    def outwait(self, seen: Claims, deadline: float) -> None:
        """Wait until there are no claims of others, and remove those that nobody renews.

        deadline: on the clock. Raises OSError if the store fails, LockedError at the deadline.
        """
        clock, lease = self._timing.clock, self._timing.lease
        since = dict.fromkeys(seen, clock())
        while seen:
            self._timing.sleep(self._timing.poll * random.uniform(0.5, 1.0))  # noqa: S311 - so that two do not meet again
            now, time_now = self._found(), clock()
            since = {name: since[name] if seen.get(name) == at else time_now for name, at in now.items()}
            for name in [name for name, start in since.items() if time_now - start > lease]:
                logger.warning(
                    f"{self._folder}/{name}: removed, as this claim to a lock was not renewed for {lease:g} s"
                )
                with contextlib.suppress(FileNotFoundError):
                    self._system.delete_file(f"{self._folder}/{name}")
                del now[name]
            seen = now
            if seen and time_now > deadline:
                raise LockedError(self._still_held(next(iter(seen))))

    def _still_held(self, name: str) -> str:
        """Why this one gave up. name: of the claim of the holder."""
        claim, text = f"{self._folder}/{name}", b""
        with contextlib.suppress(OSError), self._system.open_input_stream(claim, compression=None) as stream:
            text = bytes(stream.read(_MOST))
        holder = "".join(letter for letter in text.decode("utf-8", "replace") if letter.isprintable())
        minutes = f"{self._timing.patience / 60:.0f}"
        return (
            f"others held the lock {self._path} for {minutes} minute{'' if minutes == '1' else 's'}. Its holder is"
            f" {holder or 'not known'} (its claim is {claim}).\n  Wait until it has ended, and run again. If it hangs,"
            f" end it: its claim counts for {self._timing.lease:g} seconds more."
        )

    def renew_until(self, ended: threading.Event) -> None:
        """Renew the claim every few seconds."""
        while not ended.wait(self._timing.renew):
            self.renew()

    def renew(self) -> None:
        """Write the claim again, unless others may have removed it: then the lock is lost for good."""
        started = self._timing.clock()
        self._is_lost = self._is_lost or self._is_old()
        if self._is_lost:
            return
        with contextlib.suppress(OSError):  # an outage, which `check` reports if it lasts
            self._write()
            self._is_lost = self._is_old()
            self._renewed = self._renewed if self._is_lost else started

    def _is_old(self) -> bool:
        return self._timing.clock() - self._renewed > self._timing.trust

    def _found(self) -> Claims:
        from pyarrow import fs

        found = self._system.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        return {
            one.base_name: one.mtime
            for one in found
            if one.type == fs.FileType.File and one.base_name.startswith(self._start) and one.base_name != self._name
        }

    def _write(self) -> None:
        with self._system.open_output_stream(f"{self._folder}/{self._name}", compression=None) as stream:
            stream.write(self._holder.encode())
