"""What xprof's own converters say of a profile, without a browser.

xprof keeps what it computed in files beside the profile. Beside the Trainer's they would change the files of an
artifact, which then counts as damaged; so xprof works on a copy.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.components.profile_verdict.result import Operation

Table = list[dict[str, Any]]
"""Rows by the names of their columns."""

_NOT_OF_THE_STEPS = ("Dataset", "IDLE")
_INSIDE = re.compile(r".*(?:StatefulPartitionedCall|PartitionedCall|cond/then/_\d+|while/body/_\d+)/")
"""What stands before an operation's own name where it runs in a loop or a function."""


@dataclass(frozen=True)
class Xprof:
    """Of one profile."""

    input_share: float | None
    """Of the average step, the part that xprof counts as waiting for input; None where it found no steps."""
    operations: tuple[Operation, ...]
    """The most expensive first."""
    allocators: Mapping[str, int]
    """Bytes that were taken at a time, at most, by the name of a device's memory; none on a CPU."""


def ask_xprof(session: Path) -> Xprof:
    """Run the converters on the profile in this folder."""
    from xprof.convert import raw_to_tool_data

    def tool(name: str) -> Any:
        data, _ = raw_to_tool_data.xspace_to_tool_data(files, name, {})
        return json.loads(data) if data else []

    with tempfile.TemporaryDirectory() as folder:
        files = [shutil.copy2(file, folder) for file in sorted(session.glob("*.xplane.pb"))]
        return Xprof(
            _input_share(tool("input_pipeline_analyzer")),
            _operations(tool("framework_op_stats")),
            _allocators(tool("memory_profile")),
        )


def _input_share(tables: Sequence[Mapping[str, Any]]) -> float | None:
    said: Mapping[str, str] = next((table["p"] for table in tables if "input_conclusion" in table.get("p", {})), {})
    step, waited = float(said.get("steptime_ms_average", 0)), float(said.get("infeed_time_ms_avg", 0))
    return waited / step if step else None


def _operations(tables: Sequence[Mapping[str, Any]]) -> tuple[Operation, ...]:
    seconds: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for row in _rows(tables[0]) if tables else []:
        if row["type"] not in _NOT_OF_THE_STEPS:
            key = (_INSIDE.sub("", row["operation"]), row["type"], row["host_or_device"].lower())
            seconds[key] += row["total_self_time"] * 1e-6
            counts[key] += int(row["occurrences"])
    whole = {place: sum(time for key, time in seconds.items() if key[2] == place) for place in ("host", "device")}
    found = [Operation(*key, time, time / (whole[key[2]] or 1), counts[key]) for key, time in seconds.items()]
    return tuple(sorted(found, key=lambda operation: -operation.seconds))


def _rows(table: Mapping[str, Any]) -> Table:
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


def _allocators(said: Any) -> dict[str, int]:
    profiles = said.get("memoryProfilePerAllocator", {}) if isinstance(said, dict) else {}
    return {
        name: int(profile.get("profileSummary", {}).get("peakBytesUsageLifetime", 0))
        for name, profile in profiles.items()
    }
