"""List a blessed model in `blessed.json`, under the lock of that file.

record_blessing(home / "blessed.json", model.uri, datetime.now(UTC), made_for, contents)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.common.locks import wait_and_hold
from headrace.components.stored_models.blessed_record import Entry, MadeFor, Registry


def record_blessing(
    path: Path,
    uri: str,
    now: datetime,
    made_for: MadeFor | None = None,
    contents: str | None = None,
    *,
    awaits_approval: bool = False,
    statistics: str | None = None,
    lite: str | None = None,
) -> None:
    """Make a blessed model the newest in `blessed.json`, unless it is so already or a rollback withdrew it.

    awaits_approval: list it as awaiting approval instead; statistics: URI of those of its data, if gates need them;
    lite: folder with its `.tflite` file, which may have changed since.

    Runs that share the folder (pods with one volume) wait for each other, so that no blessing is lost.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path):
        registry = Registry.read(path)
        known = registry.find(uri)
        if known and known.lite != lite:
            registry = registry.converted(uri, lite)
            registry.write(path)
            known = registry.find(uri)
        if known and (known == registry.newest or known.withdrawn_at):
            return
        compared_with = next(iter(registry.predecessors(uri)), None)
        at = time_after(registry.last_change, now)
        entry = Entry(
            uri=uri,
            blessed_at=at,
            compared_with=compared_with,
            made_for=made_for,
            contents=contents,
            statistics=statistics,
            lite=lite,
        )
        if not awaits_approval:
            registry.with_newest(entry).write(path)
        elif known is None:
            registry.with_newest(entry.model_copy(update={"awaiting_approval": True})).write(path)
        elif known.compared_with != compared_with:
            registry.judged_again(uri, at, compared_with).write(path)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """Hold the lock under which `blessed.json` is read, changed and written."""
    with wait_and_hold(path.with_name(f".{path.name}.lock")):
        yield


def time_after(latest: Entry | None, now: datetime) -> str:
    """The time of a blessing: now, but at least a second after the latest one, as these times order the list.

    The latest one may lie in the future if the clock of another machine is ahead.
    """
    last = datetime.fromtimestamp(0, UTC)
    if latest is not None:
        with contextlib.suppress(ValueError):  # not a time, in a list that was written by hand
            last = datetime.fromisoformat(max(latest.blessed_at, latest.judged))
            last = last if last.tzinfo else last.replace(tzinfo=UTC)
    return max(now, last + timedelta(seconds=1)).isoformat(timespec="seconds")
