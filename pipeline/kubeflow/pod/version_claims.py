"""The number of a version in an object store, which one of several pushes at once may take.

    <folder of deploy.push>/../.<its name>-versions/<number>-<pod's own digits>

Numbers are the seconds of the pushes, servers take nothing but integers, and neither every store nor PyArrow has
conditional writes. So before it uploads a version, a pod writes an object for its number, and then looks for those of
others, and for the version itself. Of two at once, at least the later one finds the other's object, or all of what the
other has uploaded, and takes another number. Its object goes once the version is there. That of a killed pod keeps the
number from others, until it is a day old.

This is not a lock of common/store_lock.py: an upload may take longer than a store is out of reach, and whoever lost a
lock meanwhile would go on writing into a version. A claim is never lost, and nobody waits, as there are other numbers.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.store import Store

logger = logging.getLogger(__name__)

Pushed = TypeVar("Pushed")
_WAITS = (1.0, 2.0, 4.0, 8.0)
"""Seconds, at most, before each further try."""
_CLAIM = re.compile(r"(\d+)-[0-9a-f]{16}")


class VersionTakenError(RunError):
    """Another push has taken the number. Nothing was uploaded."""


def claimed_numbers(uri: str, store: Store, oldest: float) -> set[int]:
    """The numbers that pushes have taken and not finished yet. Removes claims that are older than `oldest`.

    uri: that of the folder with the versions; oldest: a Unix time. Raises OSError if the store fails.
    """
    found = set[int]()
    for name, written in store.files(_folder(uri)).items():
        if match := _CLAIM.fullmatch(name):
            if written < oldest:
                store.remove(f"{_folder(uri)}/{name}")
            else:
                found.add(int(match[1]))
    return found


@contextlib.contextmanager
def claimed(uri: str, number: str, store: Store) -> Iterator[None]:
    """Keep a number from others while the block uploads the version.

    uri: that of the folder with the versions. Raises VersionTakenError if another push has it, OSError if the store
    fails.
    """
    name = f"{number}-{secrets.token_hex(8)}"
    claim = f"{_folder(uri)}/{name}"
    store.write(claim, "")
    try:
        others = {other for other in store.children(_folder(uri)) if other.partition("-")[0] == number} - {name}
        if others or store.exists(f"{uri}/{number}"):  # in this order: a claim goes when its version is there
            raise VersionTakenError(f"{uri}/{number}: another run pushed this version in the meantime; run again")
        yield
    finally:
        try:
            store.remove(claim)
        except OSError as error:
            logger.warning(f"{claim} cannot be removed, so the version number {number} is not used again: {error}")


def with_free_number(push: Callable[[], Pushed], sleep: Callable[[float], None] = time.sleep) -> Pushed:
    """What `push` returns, which is called again while another push has its number: it then sees that one's, and takes
    the next. Raises VersionTakenError if that happens again and again.
    """
    for longest in _WAITS:
        try:
            return push()
        except VersionTakenError as error:
            logger.warning(f"{str(error).removesuffix('; run again')}; this one takes another number")
            sleep(random.uniform(0, longest))  # noqa: S311 - so that two do not meet again
    return push()


def _folder(uri: str) -> str:
    above, _, name = uri.rpartition("/")
    return f"{above}/.{name}-versions"
