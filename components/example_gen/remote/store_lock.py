"""A lock in an object store, for what several machines change there and no store can refuse to write.

with held(system, "bucket/models/.models.config.lock"):
    ...

Not every object store supports conditional writes, and pyarrow offers none. So whoever wants the lock writes an object
of its own, a claim, and then lists all claims: of two at once, at least the later one finds the other's, and then
withdraws its own and waits. In a store whose listings show what was written before, one at most continues.

A claim is written again every few seconds. One that is not was left by a process that was killed, and is removed. This
is seen by watching it for a while, so no two clocks are compared.
"""

from __future__ import annotations

import contextlib
import logging
import random
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger(__name__)

RENEW_SECONDS = 5.0
"""How often a claim is written again."""
LEASE_SECONDS = 40.0
"""How long a claim stays as it is until its process counts as killed: longer than a store may take to answer once."""
POLL_SECONDS = 1.0

Claims = dict[str, object]
"""When each claim was written, by its name, as the store says."""


@contextlib.contextmanager
def held(system: Any, path: str, waiting: str = "") -> Iterator[None]:
    """Wait until nobody else holds the lock, and hold it.

    A process that cannot renew its claim for LEASE_SECONDS, because it was suspended or the store did not answer, loses
    the lock without learning of it.

    Args:
        system: the pyarrow.fs.FileSystem.
        path: the start of the claims' names there.
        waiting: a warning that is logged if somebody else holds it; "" for none.

    Raises OSError if the store fails.
    """
    claim = _Claim(system, path)
    try:
        while others := claim.others():
            if waiting:
                logger.warning(waiting)
                waiting = ""
            claim.withdraw()
            claim.outwait(others)
        ended = threading.Event()
        renewing = threading.Thread(target=claim.renew_until, args=(ended,), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
    finally:
        claim.withdraw()


class _Claim:
    """The claim of this process."""

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._folder, _, start = path.rpartition("/")
        self._start, self._name = f"{start}-", f"{start}-{secrets.token_hex(8)}"

    def others(self) -> Claims:
        """Write the claim, and look for those of others."""
        self._write()
        return self._found()

    def withdraw(self) -> None:
        """Let others have the lock."""
        with contextlib.suppress(FileNotFoundError):
            self._remove(self._name)

    def outwait(self, seen: Claims) -> None:
        """Wait until there are no claims of others, and remove those that nobody renews."""
        since = dict.fromkeys(seen, time.monotonic())
        while seen:
            time.sleep(POLL_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311 - so that two do not meet again
            now, time_now = self._found(), time.monotonic()
            since = {name: since[name] if seen.get(name) == at else time_now for name, at in now.items()}
            for name in [name for name, start in since.items() if time_now - start > LEASE_SECONDS]:
                logger.warning(f"{self._folder}/{name}: removed, as the process that held this lock was killed")
                with contextlib.suppress(FileNotFoundError):
                    self._remove(name)
                del now[name]
            seen = now

    def renew_until(self, ended: threading.Event) -> None:
        """Show that this process is alive."""
        while not ended.wait(RENEW_SECONDS):
            with contextlib.suppress(OSError):  # an outage, which whoever uses the store reports
                self._write()

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
            stream.write(b"")

    def _remove(self, name: str) -> None:
        self._system.delete_file(f"{self._folder}/{name}")
