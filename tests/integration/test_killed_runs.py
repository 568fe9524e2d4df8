"""Whole runs that are killed at random moments, and what the next one finds.

HEADRACE_TEST_KILLS=200 makes a long campaign of it; HEADRACE_TEST_SEED draws other moments.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Finished, headrace, outputs_on_disk, processes_in, started_at_once, versions, wait_until
from parcels import write_parcels

from headrace.components.deploy.registry import Registry

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("HEADRACE_TEST_KILLS", "4"))
SEED = int(os.environ.get("HEADRACE_TEST_SEED", "1"))
COMPONENTS = {
    "Pusher": 0.3, "ExampleGen": 1.0, "Trainer": 4.0, "RecordBlessing": 0.3, "Transform": 3.0, "Evaluator": 1.0,
    "StatisticsGen": 1.0,
}  # fmt: skip
"""How long after its beginning a kill may come, in seconds."""
CONFIG = """\
pipeline: {name: parcels}
data:
  source: {kind: csv, path: parcels.csv}
label: {key: late, kind: binary}
features:
  distance: {column: numeric}
  carrier: {column: vocabulary}
model: {hidden: [8]}
train: {epochs: 6, batch_size: 32, checkpoint: {every_steps: 10}}
deploy: {keep: 3}
"""


def kill_one(folder: Path, component: str, seconds: float, epochs: int) -> None:
    """Kill a run that computes everything, so long after a component began."""
    going = started_at_once(folder, "run", "parcels.yaml", "--fresh", "--set", f"train.epochs={epochs}")
    going.wait_for(rf" {component} +running")
    wait_until(lambda: going.process.poll() is not None, seconds)
    going.process.send_signal(signal.SIGKILL)
    going.finish()
    assert wait_until(lambda: not processes_in(folder))


def in_service(folder: Path) -> dict[str, bytes] | None:
    """The files of the newest version."""
    newest = max((name for name in versions(folder) if name.isdecimal()), key=int, default=None)
    return None if newest is None else _files(folder / "serving" / "parcels" / newest)


def blessed(folder: Path) -> list[dict[str, bytes]]:
    """The files of the blessed models, newest last."""
    models = Registry.read(folder / "runs" / "parcels" / "blessed.json").models
    return [_files(Path(entry.uri) / "Format-Serving") for entry in models]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_next_run_after_each_kill_finds_all_in_order(new_folder: Callable[[str], Path]) -> None:
    folder, draw = new_folder("killed"), random.Random(SEED)
    write_parcels(folder / "parcels.csv", 600)
    (folder / "parcels.yaml").write_text(CONFIG)
    counts: Counter[str] = Counter()
    for number in range(KILLS):
        component = list(COMPONENTS)[number] if number < 2 else draw.choice(list(COMPONENTS))
        kill_one(folder, component, draw.uniform(0, COMPONENTS[component]), 2 + number % 3)
        counts[component] += 1
        served = in_service(folder)
        assert served is None or served in blessed(folder)
        counts["versions"] = len(versions(folder))
    done = headrace(folder, "run", "parcels.yaml")
    _in_order(folder, done)
    again = headrace(folder, "run", "parcels.yaml")
    assert again.ran() == set()
    assert "damaged" not in done.out + again.out
    print(f"{KILLS} kills: {dict(counts)}")


def _in_order(folder: Path, done: Finished) -> None:
    home = folder / "runs" / "parcels"
    assert done.code == 0, done.out + done.err
    assert in_service(folder) == blessed(folder)[-1]
    assert all(name.isdecimal() for name in versions(folder))
    assert len(versions(folder)) <= 3
    assert not list(home.glob("tmp/*"))
    assert not list(home.rglob("*.partial"))
    assert not list(home.glob("checkpoints/*/*.npz"))
    records = [json.loads(path.read_text())["status"] for path in home.glob("runs/*/run.json")]
    assert set(records) <= {"done", "interrupted"}
    whole = {path.parts[2] for path in outputs_on_disk(home)}
    assert whole <= {path.name for path in home.glob("runs/*")}
