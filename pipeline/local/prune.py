"""Find and remove the files of old runs.

    plan = plan_prune(folders, keep=10, older_than=time.time())
    plan.freed                         # bytes on disk
    remove(folders, plan)

The newest runs stay, the one whose model was blessed last, the one whose model is in service, and those whose models
await approval. So does everything that they refer to, whichever run wrote it: their artifacts, so that they can be
inspected and reused; the newest blessed models and their baselines; the statistics that drift is measured from; and the
stored spans that they were trained on. Of a run that trained or judged one of these models, at least the record stays,
and what `headrace lineage` and the model card read. The caller holds the folder's lock, so that no run is in progress.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace.common.errors import RunError
from headrace.components.example_gen.span_store import keys_used_by
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.folders import Folders
from headrace.pipeline.results.record import RunRecord, Status

ArtifactId = tuple[str, ...]
"""The component, output and run of an artifact: the last three names of its folder."""
TRACED = {
    "Spans": "spans",
    "StatisticsGen": "statistics",
    "SchemaGen": "schema",
    "DataVerdict": "verdict",
    "Tuner": "best_hyperparameters",
    "Trainer": "model_run",
    "Evaluator": "evaluation",
    "Canary": "blessing",
    "Lite": "blessing",
}
"""Components to their outputs, all of them small, that say where a model comes from and how good it is."""


@dataclass(frozen=True)
class RunFiles:
    """The folder of one run. record: None if it cannot be read; started: Unix seconds."""

    folder: Path
    record: RunRecord | None
    started: float

    @property
    def made_a_model(self) -> bool:
        """Whether it finished, and did not end early without a reason to train."""
        return self.record is not None and self.record.status is Status.DONE and self.record.ended is None

    def uris(self) -> Iterator[str]:
        """The URIs of all its artifacts, whichever run made them."""
        for node in self.record.nodes if self.record else ():
            yield from (artifact.uri for artifact in node.outputs.values())

    def traced(self) -> Iterator[str]:
        """The URIs of what is read to trace its model."""
        yield from (uri for component, key in TRACED.items() for uri in self.output(component, key))

    def output(self, component: str, key: str) -> Iterator[str]:
        """The URI of an output of a component; nothing if it has none."""
        for node in self.record.nodes if self.record else ():
            if node.id == component and key in node.outputs:
                yield node.outputs[key].uri

    def spans(self) -> Iterator[str]:
        """The keys of the spans that it was trained on."""
        for node in self.record.nodes if self.record else ():
            for artifact in node.outputs.values():
                yield from json.loads(str(artifact.properties.get("spans") or "{}")).values()


@dataclass(frozen=True)
class PrunePlan:
    """The runs that stay, those of which the record and little else stays, and the folders to remove, each once."""

    kept: Sequence[RunFiles]
    records: Sequence[RunFiles]
    runs: Sequence[Path]
    artifacts: Sequence[Path]
    spans: Sequence[Path]
    checkpoints: Sequence[Path]

    @property
    def folders(self) -> list[Path]:
        """Everything to remove; the records of runs last, so that a prune that was killed can be repeated."""
        return [*self.artifacts, *self.spans, *self.checkpoints, *self.runs]

    @cached_property
    def freed(self) -> int:
        """Bytes freed on disk. A file with another hard link elsewhere frees none."""
        states = [file.lstat() for folder in self.folders for file in _files(folder)]
        names = Counter((state.st_dev, state.st_ino) for state in states)
        whole = {(state.st_dev, state.st_ino): state for state in states}
        return sum(state.st_blocks * 512 for known, state in whole.items() if names[known] == state.st_nlink)


def plan_prune(folders: Folders, keep: int, older_than: float, push: Path | None = None) -> PrunePlan:
    """Decide what to remove.

    The newest `keep` runs that made a model stay, and all runs newer than the oldest of them; runs that began at
    `older_than` (Unix seconds) or later; the runs of the newest blessed model, of the one in service and of those that
    await approval; and what those need. Of the runs of the newest `keep` blessed models, the records stay. push: the
    folder of `deploy.push`; another that models were pushed to counts while its last version is there. Raises RunError
    if the record of a run that stays cannot be read.
    """
    registry, in_service = Registry.read(folders.registry), _in_service(folders, push)
    blessed = [entry for entry in registry.models if not entry.awaiting_approval]
    waiting = [entry.uri for entry in registry.waiting]
    runs = sorted(_runs(folders), key=lambda run: (run.started, run.folder.name))
    made = [run.started for run in runs if run.made_a_model]
    since = min(older_than, made[-keep]) if len(made) > keep else 0.0
    served = {_artifact_id(uri)[-1] for uri in (*(entry.uri for entry in blessed[-1:]), *in_service, *waiting)}
    kept = [run for run in runs if run.started >= since or run.folder.name in served]
    if since and (unreadable := [run.folder for run in kept if run.record is None]):
        raise RunError(
            f"{unreadable[0]}: cannot tell what this run needs, as its run.json is damaged or of another version.\n"
            "  Remove that folder; what other runs need stays in any case."
        )
    names = {run.folder.name for run in kept}
    traced = list(_runs_of([*(entry.uri for entry in blessed[-keep:]), *in_service, *waiting], runs))
    records = [run for run in runs if run in traced and run.folder.name not in names]
    referenced = [
        *_blessed_and_trained([*blessed[-keep:], *registry.waiting], TrainingRecord.read(folders.trained)),
        *(uri for run in kept for uri in run.uris()),
        *(uri for run in records for uri in run.traced()),
        *in_service,
    ]
    needed = {_artifact_id(uri) for uri in referenced}
    artifacts = sorted(path for path in folders.artifacts.glob("*/*/*/") if path.name not in names)
    keys = {stored for run in kept for key in run.spans() for stored in keys_used_by(folders.spans, key)}
    return PrunePlan(
        kept,
        records,
        [run.folder for run in runs if run not in kept and run not in records],
        [path for path in artifacts if _artifact_id(str(path)) not in needed] if since else [],
        _unused(folders.spans, since, keys),
        _unused(folders.checkpoints, since),
    )


def remove(folders: Folders, plan: PrunePlan) -> None:
    """Remove the folders of the plan, each atomically if the file system allows it."""
    for number, path in enumerate(plan.folders):
        doomed = folders.scratch / f"pruned-{number}"  # if this process is killed, the next run removes the rest
        try:
            folders.scratch.mkdir(exist_ok=True)
            shutil.rmtree(doomed, ignore_errors=True)
            path.rename(doomed)
        except OSError:  # another file system, or a full disk
            doomed = path
        shutil.rmtree(doomed)


def _runs(folders: Folders) -> Iterator[RunFiles]:
    for folder in folders.runs.glob("*/"):
        try:
            record = RunRecord.read(folder)
        except FileNotFoundError:  # killed before it wrote a record
            began = folder.stat().st_mtime
            yield RunFiles(folder, RunRecord(folder.name, "", "", began, status=Status.INTERRUPTED), began)
        except (ValueError, TypeError, KeyError):
            yield RunFiles(folder, None, folder.stat().st_mtime)
        else:
            yield RunFiles(folder, record, record.started)


def _blessed_and_trained(blessed: Iterable[Entry], trained: TrainingRecord) -> Iterator[str]:
    """The URIs of blessed models, their `.tflite` files, their baselines and the statistics of their data, and of the
    statistics that the last models were trained on.
    """
    for entry in blessed:
        yield entry.uri
        yield from (uri for uri in (entry.compared_with, entry.statistics, entry.lite) if uri is not None)
    yield from (data.statistics for data in (trained.judged, trained.blessed) if data is not None)


def _in_service(folders: Folders, push: Path | None) -> list[str]:
    """The models that were pushed last, one for each destination, as of several profiles, that has not been removed."""
    home, last = folders.push_record.parent, PushRecord.read(folders.push_record).last
    there = (one for path, one in last.items() if path == str(push) or Path(path, one.version).is_dir())
    return [str(home / one.uri) for one in there]


def _runs_of(models: Iterable[str], runs: Sequence[RunFiles]) -> Iterator[RunFiles]:
    """The runs that say where models come from: the one that trained it, or the first left that reused it, and the last
    one that evaluated it. models: their URIs; runs: the oldest first.
    """
    for model in map(_artifact_id, models):
        having = [run for run in runs if model in map(_artifact_id, run.output("Trainer", "model"))]
        yield from [run for run in having if run.folder.name == model[-1]] or having[:1]
        yield from [run for run in having if any(run.output("Evaluator", "evaluation"))][-1:]


def _artifact_id(uri: str) -> ArtifactId:
    """The same for a value and its folder, and after the pipeline's folder was moved."""
    parts = Path(uri.removeprefix("file://")).parts
    return parts[-4:-1] if parts[-1] == "value" else parts[-3:]


def _unused(store: Path, since: float, needed: Collection[str] = ()) -> list[Path]:
    """Folders that no run needs, and to which nothing was written since."""
    candidates = (path for path in store.glob("*/") if path.name not in needed)
    return sorted(path for path in candidates if max(_modified(path)) < since)


def _modified(folder: Path) -> Iterator[float]:
    yield folder.stat().st_mtime
    yield from (file.lstat().st_mtime for file in _files(folder))


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
