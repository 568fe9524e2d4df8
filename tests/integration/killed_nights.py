"""Nights of a pipeline that has every component, undisturbed or killed, and what they leave.

calm = Nights(folder, tuned=False)
calm.next_day()
done = calm.run()
done = killed.run(kills=[Moment("component", "Pusher", 17)])     # right before this change to the file system
done = calm.run(*ONLY_PREDICTS)                                  # the same config's pipeline that only predicts

Both predict the day's new data: each run at its end, and the second pipeline into files of its own.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import dying_run
import numpy as np
from command import Finished, headrace, outputs_on_disk, processes_in, wait_until
from compared_outputs import compared
from forks import FIRST

from headrace.components.stored_models.blessed_record import Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.results.record import RunRecord

CONFIG = """\
pipeline: {name: nightly}
data: {source: {kind: csv, path: "days/{YYYY}-{MM}-{DD}.csv"}, window: 2}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
  kind: {column: vocabulary}
model: {kind: wide_and_deep, hidden: [8]}
train:
  epochs: 3
  batch_size: 32
  checkpoint: {every_steps: 5}
  warm_start: true
  profile: {batches: [3, 4], fail_if_input_bound_above: 1.0}
evaluate: {metrics: [auc], thresholds: {auc: {min: 0.5}}, better_than_constant: false}
deploy: {keep: 2, lite: {examples: 50}}
gates:
  rows: {min: 100, max_missing_spans: 0}
  drift: {blessed: {on_anomaly: warn}, earlier_spans: {on_anomaly: warn}}
  skew: {source: {kind: jsonl, path: "log/{YYYY}-{MM}-{DD}.jsonl"}, window: 1, on_anomaly: warn}
predict:
  source: {kind: csv, path: "new/{YYYY}-{MM}-{DD}.csv"}
  output: scored/{YYYY}-{MM}-{DD}.csv
schedule: {cron: "0 5 * * *", retrain: drift}
"""
PROFILE = """\
predict: {only: true, output: "scored/only-{YYYY}-{MM}-{DD}.csv", columns: [fare]}
"""
ONLY_PREDICTS = ("--profile", "only")
"""Options of the pipeline that trains nothing. Its predictions have other columns, so none are reused."""
TUNE = "tune: {max_trials: 2, epochs: 1, parameters: {train.learning_rate: {min: 0.001, max: 0.01}}}"
ROWS = 400
STAMP = re.compile(r"\d{10}\.\S+?\.\d+\.\d+\.v2|\d{4}(_\d\d){5}")
"""What varies in names: the time and the process of TensorBoard's files."""


@dataclass(frozen=True)
class Moment:
    """When a run is killed: right before change number `at` of a process (`command` or `component`) for a component, or
    this many seconds after it. alone: only the component's process is killed.
    """

    process: str
    component: str
    at: int
    after: float = 0
    alone: bool = False

    def __str__(self) -> str:
        what = "its process alone" if self.alone else "the run"
        when = f"{self.after:.2f} s after" if self.after else "before"
        return f"{self.component}: {what}, {when} change {self.at} of the {self.process}"


class Nights:
    """The pipeline in a folder, with or without a search for hyperparameters."""

    def __init__(self, folder: Path, *, tuned: bool) -> None:
        self.folder, self.home = folder, folder / "runs" / "nightly"
        self.days = 0
        for name in ("days", "log", "new"):
            (folder / name).mkdir()
        (folder / "nightly.yaml").write_text(CONFIG + TUNE * tuned)
        (folder / "nightly.only.yaml").write_text(PROFILE)
        self.next_day()

    def next_day(self) -> None:
        """The data of another day, which differs from the day before enough to be trained on; the requests that a
        server logged on it; and as much new data without labels.
        """
        self.days += 1
        random, scale = np.random.default_rng(self.days), 2 ** (self.days % 5)
        fares, kinds = random.gamma(10, scale, ROWS).round(2).tolist(), random.choice(["a", "b"], ROWS).tolist()
        flips = (random.random(ROWS) < 0.1).tolist()
        rows = list(zip(fares, kinds, strict=True))
        tips = [(fare > 10 * scale) != flip for fare, flip in zip(fares, flips, strict=True)]
        lines = [f"{fare:.2f},{kind},{tip:d}" for (fare, kind), tip in zip(rows, tips, strict=True)]
        requests = [json.dumps({"fare": fare, "kind": kind}) for fare, kind in rows]
        self._write("days", "csv", ["fare,kind,tip", *lines])
        self._write("log", "jsonl", requests)
        self._write("new", "csv", ["fare,kind", *(f"{fare:.2f},{kind}" for fare, kind in reversed(rows))])

    def _write(self, folder: str, ending: str, lines: list[str]) -> None:
        (self.folder / folder / f"{self.newest_day}.{ending}").write_text("\n".join([*lines, ""]))

    @property
    def newest_day(self) -> str:
        return str(dt.date(2026, 1, 1) + dt.timedelta(days=self.days))

    @property
    def trained_on_newest_day(self) -> bool:
        """Whether the record of trainings says so, as it does at the end of a night."""
        last = TrainingRecord.read(self.home / "trained.json").judged
        return last is not None and last.spans[-1] == self.newest_day

    def run(self, *options: str, kills: Iterable[Moment] = ()) -> Finished:
        """Run the pipeline, and wait until none of its processes is left.

        kills: when it may die, each for another component; it does so at the one that comes first.
        """
        self._notes.unlink(missing_ok=True)
        asked = {"folder": str(self.folder), "notes": str(self._notes), "moments": [*map(asdict, kills)]}
        first = {FIRST: dying_run.__file__, dying_run.ASKED: json.dumps(asked)}
        done = headrace(self.folder, "run", "nightly.yaml", *options, **first)
        assert wait_until(lambda: not processes_in(self.folder))
        return done

    @property
    def _notes(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-changes.txt")

    @property
    def changes(self) -> Counter[tuple[str, str]]:
        """How many changes to the file system the last run made, by process and component."""
        return Counter((process, component) for process, component, *_ in self._noted)

    @property
    def died(self) -> list[str]:
        """The components at whose moment the last run died: two may have come at once."""
        return list(dict.fromkeys(component for what, component, *_ in self._noted if what == dying_run.KILLED))

    @property
    def _noted(self) -> list[list[str]]:
        return [line.split() for line in self._notes.read_text(encoding="utf-8").splitlines()]

    @property
    def served(self) -> list[dict[str, bytes]]:
        """The versions of the model, newest last."""
        return [_files(self._serving / name) for name in self.versions]

    @property
    def versions(self) -> list[str]:
        return sorted(path.name for path in self._serving.glob("*") if path.name.isdecimal())

    @property
    def _serving(self) -> Path:
        return self.folder / "serving" / "nightly"

    @property
    def blessed(self) -> list[dict[str, bytes]]:
        """The blessed models, newest last."""
        return [_files(Path(uri) / "Format-Serving") for uri in self.blessings]

    @property
    def blessings(self) -> list[str]:
        """The URIs of the blessed models, newest last."""
        return [entry.uri for entry in Registry.read(self.home / "blessed.json").models]

    @property
    def pushes(self) -> list[str]:
        """The URI of the model of every version ever pushed, newest last."""
        path = self.home / "pushed.json"
        (models,) = PushRecord.read(path).models.values()
        return [str(path.parent / models[version]) for version in sorted(models)]

    @property
    def converted(self) -> dict[str, set[str]]:
        """The names of the files beside each version, by the version."""
        return {path.name: set(_files(path)) for path in (self._serving / "lite").glob("*")}

    @property
    def predicted(self) -> dict[str, bytes]:
        """The published files of predictions."""
        return _files(self.folder / "scored")

    @property
    def predictions(self) -> set[bytes]:
        """The contents of all that BulkPredictor has written."""
        return set(_files(self.home / "artifacts" / "BulkPredictor").values())

    def outputs(self, run: RunRecord) -> dict[str, object]:
        """What is compared of the files of a run's outputs, whichever run wrote them."""
        return dict(self._outputs(run))

    def _outputs(self, run: RunRecord) -> Iterator[tuple[str, object]]:
        for node in run.nodes:
            for output, artifact in node.outputs.items():
                path = Path(artifact.uri)
                for file in path.rglob("*") if path.is_dir() else [path]:
                    name = str(file.relative_to(path)) if file != path else ""
                    full = f"{node.id}/{output}/{STAMP.sub('*', name)}"
                    if file.is_file():
                        yield full, compared(self.folder, file, full)

    def unknown(self) -> set[Path]:
        """Outputs on disk of which ML Metadata knows nothing, unless they are empty and of a run: those of a component
        that gave its output another URI.
        """
        with closing(sqlite3.connect(self.home / "metadata.sqlite")) as store:
            uris = [Path(uri) for (uri,) in store.execute("select uri from Artifact")]
        known = {(uri.parent if uri.name == "value" else uri).relative_to(self.home / "artifacts") for uri in uris}
        runs = {path.name for path in self.home.glob("runs/*")}
        return {
            path
            for path in outputs_on_disk(self.home) - known
            if path.name not in runs or _files(self.home / "artifacts" / path)
        }

    def leftovers(self) -> list[Path]:
        """Partial files, scratch folders, pushes that were broken off, and checkpoints of trainings."""
        patterns = ("tmp/*", "**/*.partial", "checkpoints/*/*.npz")
        broken = [path for path in (self.folder / "serving").rglob(".*") if path.is_dir()]
        return broken + [path for pattern in patterns for path in self.home.glob(pattern)]


def weights(model: dict[str, bytes]) -> bytes:
    return model["assets.extra/model.weights.h5"]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
