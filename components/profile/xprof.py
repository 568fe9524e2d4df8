"""xprof's own analysis of a profile, without a browser.

xprof caches its results in files next to the profile. Next to the Trainer's profile they would change the files of an
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

from headrace.components.profile.result import OperationTime

_NOT_IN_STEPS = ("Dataset", "IDLE")
_FUNCTION_PREFIX = re.compile(r".*(?:StatefulPartitionedCall|PartitionedCall|cond/then/_\d+|while/body/_\d+)/")
"""What precedes an operation's own name if it runs in a loop or a function."""


@dataclass(frozen=True)
class XprofResults:
    """xprof's results for one profile."""

    input_share: float | None
    """The share of the mean step that xprof counts as waiting for input; None if it found no steps."""
    operations: tuple[OperationTime, ...]
    """The most expensive first."""
    allocators: Mapping[str, int]
    """Peak bytes in use by the name of a device's memory; empty on a CPU."""


def run_xprof(session: Path) -> XprofResults:
    """Run xprof's converters on the profile in a folder."""
    from xprof.convert import raw_to_tool_data

    def tool(name: str) -> Any:
        data, _ = raw_to_tool_data.xspace_to_tool_data(files, name, {})
        return json.loads(data) if data else []

    with tempfile.TemporaryDirectory() as folder:
        files = [shutil.copy2(file, folder) for file in sorted(session.glob("*.xplane.pb"))]
        return XprofResults(
            _input_share(tool("input_pipeline_analyzer")),
            _operations(tool("framework_op_stats")),
            _allocators(tool("memory_profile")),
        )


def _input_share(tables: Sequence[Mapping[str, Any]]) -> float | None:
    averages: Mapping[str, str] = next((table["p"] for table in tables if "input_conclusion" in table.get("p", {})), {})
    step, waited = float(averages.get("steptime_ms_average", 0)), float(averages.get("infeed_time_ms_avg", 0))
    return waited / step if step else None


def _operations(tables: Sequence[Mapping[str, Any]]) -> tuple[OperationTime, ...]:
    seconds: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for row in _rows(tables[0]) if tables else []:
        if row["type"] not in _NOT_IN_STEPS:
            key = (_FUNCTION_PREFIX.sub("", row["operation"]), row["type"], row["host_or_device"].lower())
            seconds[key] += row["total_self_time"] * 1e-6
            counts[key] += int(row["occurrences"])
    totals = {place: sum(time for key, time in seconds.items() if key[2] == place) for place in ("host", "device")}
    found = [OperationTime(*key, time, time / (totals[key[2]] or 1), counts[key]) for key, time in seconds.items()]
    return tuple(sorted(found, key=lambda operation: -operation.seconds))


def _rows(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a Google Charts table, by the names of their columns."""
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


def _allocators(memory_profile: Any) -> dict[str, int]:
    profiles = memory_profile.get("memoryProfilePerAllocator", {}) if isinstance(memory_profile, dict) else {}
    return {
        name: int(profile.get("profileSummary", {}).get("peakBytesUsageLifetime", 0))
        for name, profile in profiles.items()
    }
