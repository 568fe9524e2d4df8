"""Run a pipeline on this machine.

record, run_dir = run(config, config_file, display)

What happens around the components: the folder is locked, leftovers of killed runs are removed, a run without a reason
to train ends before TensorFlow is imported, and the scheduler and the fork server, which an unchanged run does not
start, run the rest.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.common.durable import PARTIAL_SUFFIX, remove_orphan
from headrace.common.errors import HeadraceError, RunError
from headrace.components.gates.arrival import judge_without_new_data
from headrace.components.spans.find import find_spans
from headrace.components.trigger.decision import NO, TrainingRecord, decide
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.pipeline.code.commit import commit_of
from headrace.pipeline.folders import Folders, locked, processes_file
from headrace.pipeline.interrupts import interrupted_once
from headrace.pipeline.local.lazy_server import LazyServer
from headrace.pipeline.local.metadata import Metadata
from headrace.pipeline.local.scheduler import Scheduler, remove_outputs
from headrace.pipeline.local.server_process import EarlyProcess
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.terminal import Display
from headrace.pipeline.training_digest import training_digest
from headrace.pipeline.versions import write_versions

PARTIAL = (".", "runs/*", "spans", "spans/*", "spans/*/*", "checkpoints/*")
"""Folders of the pipeline in which a killed process may leave a partly written file."""


def run(
    config: PipelineConfig,
    config_file: str,
    display: Display,
    *,
    early: EarlyProcess | None = None,
    reuse: bool = True,
    obey_retrain: bool = True,
    cleared: Callable[[], None] = lambda: None,
    pushed: Callable[[Path], None] = lambda _: None,
) -> tuple[RunRecord, Path]:
    """Run the pipeline; returns the record and the folder of the run.

    early: may have started the process of the fork server; reuse: False runs every component, whatever the cache holds;
    obey_retrain: False trains even if `schedule.retrain` sees no reason to; cleared: called when the records of killed
    runs are marked, before anything runs; pushed: called with the folder of the run after a push, before what follows.

    A run with no reason to train ends as a success whose record says why in `ended`. A failed component or Ctrl-C ends
    in a record with that status, not in an exception. Raises RunError if another run is in progress, or if the pipeline
    cannot be built.
    """
    folders = Folders.of(config)
    with _named_errors(folders), locked(folders.home):
        run_id, run_dir = _new_run(folders)
        with _without_trace(run_dir):
            (run_dir / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
            write_versions(run_dir)
            metadata = Metadata(folders.metadata, config.pipeline.name, run_id)
        record = RunRecord(run_id, config.full_name, config_file, time.time())
        if commit := commit_of(Path(config_file).absolute().parent):
            record.commit, record.dirty = commit
        clear_killed_runs(folders, metadata)
        cleared()
        ended = nothing_new(config, folders) if obey_retrain else None
        if ended is not None:
            return _end_early(record, run_dir, display, ended), run_dir
        log = run_dir / "logs" / "start.log"
        processes = processes_file(folders.home)
        lazy = LazyServer(config, folders.plan, log, processes, early=early, start=not reuse)
        with lazy as server, interrupted_once():
            scheduler = Scheduler(
                folders, run_dir, record, display, metadata, server, reuse=reuse, obey_retrain=obey_retrain
            )
            scheduler.run(pushed)
    return record, run_dir


def clear_killed_runs(folders: Folders, metadata: Metadata) -> None:
    """Remove incomplete outputs of killed runs, and mark their records. The caller holds the folder's lock."""
    for execution_id, node, run_id in metadata.unfinished():
        remove_outputs(folders, node, run_id)
        metadata.fail(execution_id, canceled=True)
    shutil.rmtree(folders.scratch, ignore_errors=True)
    for pattern in PARTIAL:
        for path in folders.home.glob(f"{pattern}/.*{PARTIAL_SUFFIX}"):
            remove_orphan(path)
    for path in folders.runs.glob("*/run.json"):
        with contextlib.suppress(ValueError, TypeError, KeyError):  # damaged or of another version: left unchanged
            record = RunRecord.read(path.parent)
            if not record.status.ended:
                _mark_interrupted(record)
                record.write(path.parent)


def nothing_new(config: PipelineConfig, folders: Folders) -> str | None:
    """Why there is no reason to train, decided in a fraction of a second without TensorFlow; None if there may be one.

    Errors in the data, and data that is too old for a gate, are left to the run to report.
    """
    if config.retrain == "always" or not folders.trained.exists():
        return None
    try:
        spans, trained = find_spans(config.data), TrainingRecord.read(folders.trained)
        decision = decide(spans, trained, training_digest(config), config.retrain, config.drift_limits)
        if decision.go == NO and judge_without_new_data(config.freshness_of_spans, config.data, spans).stopping:
            return None
    except HeadraceError:
        return None
    return decision.why if decision.go == NO else None


@contextlib.contextmanager
def _without_trace(run_dir: Path) -> Iterator[None]:
    """Remove the folder of a run that cannot begin, such as on a full disk: no record would say what it is."""
    try:
        yield
    except (OSError, RunError):
        shutil.rmtree(run_dir, ignore_errors=True)
        raise


@contextlib.contextmanager
def _named_errors(folders: Folders) -> Iterator[None]:
    """Create the pipeline's folder, and turn errors of the file system into messages that name the path."""
    try:
        folders.artifacts.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise _file_system_error(folders, error.filename or folders.home, error.strerror or str(error)) from error


def _file_system_error(folders: Folders, path: str | Path, why: str) -> RunError:
    return RunError(
        f"{path}: {why}.\n  The run writes to {folders.home} (`pipeline.root`): free some space or grant access there,"
        " or set another folder. The next run reuses every component that finished in this one."
    )


def _new_run(folders: Folders) -> tuple[str, Path]:
    """Create the folder of a run, named by the time, with a number if that second is taken."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for name in (stamp, *(f"{stamp}-{number}" for number in range(2, 100))):
        run_dir = folders.runs / name
        with contextlib.suppress(FileExistsError):
            (run_dir / "logs").mkdir(parents=True)
            return name, run_dir
    raise RunError(f"no free name for a run in {folders.runs}; try again in a second")


def _end_early(record: RunRecord, run_dir: Path, display: Display, why: str) -> RunRecord:
    """Conclude the record of a run that ends as a success before any component runs."""
    now = time.time()
    record.nodes = [NodeRecord("Spans", status=Status.DONE, started=record.started, finished=now)]
    record.status, record.ended, record.finished = Status.DONE, why, now
    record.write(run_dir)
    display.update(record)
    return record


def _mark_interrupted(record: RunRecord) -> None:
    record.status = Status.INTERRUPTED
    for node in record.nodes:
        if node.status is Status.RUNNING:
            node.status = Status.INTERRUPTED
