"""From an edit of `train.epochs` to the training that it asks for: when its first epoch has ended, and the whole run.

    python -m benchmarks.edited_run             tables
    python -m benchmarks.edited_run --json      the figures as JSON

configs/taxi.yaml runs once in a fresh folder, and then again with another number of epochs each time, so that all that
comes before the Trainer is reused. The first epoch is known to have ended from the Trainer's log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import measure
from benchmarks.tables import Section, Table

CONFIG = measure.PROJECT / "configs" / "taxi.yaml"
RUNS = Path("runs", "chicago-taxi", "runs")
EPOCHS, QUICK = (4, 5, 6, 7, 8), (4,)
"""The number of epochs of each run; all differ from that of the config."""
SECONDS = 0.01
"""The interval between two looks at the log."""
FIRST_EPOCH = "epoch 1/"
"""What the line in the Trainer's log begins with that is written when the first epoch has ended."""
POINTS = {"epoch": "until the first epoch has ended", "run": "the whole run"}


def measure_all(epochs: Sequence[int]) -> dict[str, measure.Figures]:
    """The medians over runs with these numbers of epochs, by POINTS."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _command(folder).wait()
        found = [_edited(folder, each) for each in epochs]
    return {point: {**measure.medians([one[point] for one in found]), "runs": len(found)} for point in POINTS}


def _edited(folder: Path, epochs: int) -> dict[str, measure.Figures]:
    """One run with another number of epochs."""
    before = {*(folder / RUNS).iterdir()}
    started, used = time.time(), measure.processor_seconds()
    process = _command(folder, "--set", f"train.epochs={epochs}")
    found: dict[str, measure.Figures] = {}
    while process.poll() is None:
        if "epoch" not in found and _first_epoch_ended(folder, before):
            wall, cpu = time.time() - started, measure.tree_seconds(process.pid)
            found["epoch"] = {"wall_seconds": wall, "cpu_seconds": cpu}
        time.sleep(SECONDS)
    if process.returncode or "epoch" not in found:
        raise SystemExit(
            f"the run with {epochs} epochs failed:\n{(folder / 'log').read_text(encoding='utf-8')[-3000:]}"
        )
    found["run"] = {"wall_seconds": time.time() - started, "cpu_seconds": measure.processor_seconds() - used}
    return found


def _command(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "headrace", "run", os.fspath(CONFIG), *options]
        return subprocess.Popen(command, cwd=folder, env=measure.environment(), stdout=log, stderr=log)


def _first_epoch_ended(folder: Path, before: set[Path]) -> bool:
    """Whether the log of the run in progress says so."""
    logs = [run / "logs" / "Trainer.log" for run in (folder / RUNS).iterdir() if run not in before]
    return any(log.exists() and FIRST_EPOCH in log.read_text(encoding="utf-8", errors="replace") for log in logs)


def section(found: Mapping[str, measure.Figures]) -> Section:
    """The table and the notes."""
    rows = [
        [words, f"{of['wall_seconds']:.1f}", f"{of['cpu_seconds']:.1f}", f"{of['runs']:.0f}"]
        for point, words in POINTS.items()
        for of in [found[point]]
    ]
    notes = (
        "From the start of the command. The first epoch, 47 steps and an evaluation, takes some tenths of a second"
        " besides the tracing of its graphs, so its end is a little after the first step.",
    )
    return Section(
        "A run with another `train.epochs`",
        [("Taxi, all before the Trainer reused", Table(["", "wall s", "CPU s", "runs"], rows))],
        notes,
    )


def main() -> None:
    """Measure and print."""
    quick = {"--quick": {"action": "store_true"}}
    measure.command(__doc__, lambda given: measure_all(QUICK if given.quick else EPOCHS), section, options=quick)


if __name__ == "__main__":
    main()
