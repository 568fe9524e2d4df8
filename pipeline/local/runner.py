"""Running the whole DAG on this machine: what can run runs at once, what is known already is reused.

    record = run(config, config_file, display)

A component's cache key is its own digest (executor, properties, sources, library versions) with the identities of its
inputs. What a cacheable component made is known by its URI, which no other execution shares; what an uncached one made
is known by its content, so that what follows is reused as long as nothing really changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_metadata.errors import StatusError

from headrace.components.trigger.decision import GO, NO, WHY
from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.configs.writer import to_yaml
from headrace.pipeline.cache.parts import Input, KeyParts, key_of
from headrace.pipeline.digest import digest_path
from headrace.pipeline.folders import Folders
from headrace.pipeline.local import abandoned
from headrace.pipeline.local.client import WarmProcess
from headrace.pipeline.local.early import nothing_new
from headrace.pipeline.local.lock import at_work, locked
from headrace.pipeline.local.metadata import Metadata, cause
from headrace.pipeline.local.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.local.rows import rows_in, rows_out
from headrace.pipeline.local.signals import stoppable, undisturbed
from headrace.pipeline.local.wire import FULL_DISK, Stored
from headrace.pipeline.report.versions import write_versions
from headrace.pipeline.terminal import Display

Outputs = dict[str, Stored]
GRACE_SECONDS = 30.0
"""How long a component may take to end by itself: a Trainer writes a checkpoint. As Kubernetes has it."""


def run(
    config: PipelineConfig, config_file: str, display: Display, *, reuse: bool = True, heed: bool = True
) -> tuple[RunRecord, Path]:
    """Run the pipeline; its record and the folder of the run. `reuse=False` runs every component anew; `heed=False`
    trains whether there is a reason to or not.

    A run that has nothing to train for (`schedule.retrain`) ends as a success whose record says so in `ended`. A
    component that fails, or a Ctrl-C, ends as a record with that status, not as an exception. Raises RunError if
    another run is going on, or if the pipeline cannot be built.
    """
    folders = Folders.of(config)
    with _writable(folders), locked(folders.home):
        run_id, run_dir = _new_run(folders)
        (run_dir / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
        write_versions(run_dir)
        record = RunRecord(run_id, config.pipeline.name, config_file, time.time())
        metadata = Metadata(folders.metadata, config.pipeline.name, run_id)
        abandoned.clear(folders, metadata)
        early = nothing_new(config, folders) if heed else None
        if early is not None:
            return _over(record, run_dir, display, early), run_dir
        with WarmProcess(config, run_dir / "logs" / "start.log", at_work(folders.home)) as warm, stoppable():
            _Run(folders, run_dir, record, display, metadata, warm, reuse=reuse, heed=heed).carry_out()
    return record, run_dir


@contextlib.contextmanager
def _writable(folders: Folders) -> Iterator[None]:
    """Make the pipeline's folder; say where it is when something in it cannot be written or read."""
    try:
        folders.artifacts.mkdir(parents=True, exist_ok=True)
        yield
    except StatusError as error:
        raise _unwritable(folders, folders.metadata, cause(error)) from error
    except OSError as error:
        raise _unwritable(folders, error.filename or folders.home, error.strerror or str(error)) from error


def _unwritable(folders: Folders, place: str | Path, why: str) -> RunError:
    return RunError(
        f"{place}: {why}.\n  The run keeps its things in {folders.home} (`pipeline.root`): make room or give access"
        " there, or set another folder. The next run takes what is finished from this one."
    )


def _new_run(folders: Folders) -> tuple[str, Path]:
    """A new folder for a run, named by the time, with a number where that second is taken."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for name in (stamp, *(f"{stamp}-{number}" for number in range(2, 100))):
        run_dir = folders.runs / name
        with contextlib.suppress(FileExistsError):
            (run_dir / "logs").mkdir(parents=True)
            return name, run_dir
    raise RunError(f"no free name for a run in {folders.runs}; wait a second")


def _over(record: RunRecord, run_dir: Path, display: Display, why: str) -> RunRecord:
    """The record of a run that ends, as a success, before any component had to run."""
    now = time.time()
    record.nodes = [NodeRecord("Spans", status=Status.DONE, started=record.started, finished=now)]
    record.status, record.ended, record.finished = Status.DONE, why, now
    record.write(run_dir)
    display.update(record)
    return record


@dataclass
class _Execution:
    """A component that is running."""

    id: int
    key: str
    inputs: dict[str, list[Stored]]
    result: Path
    scratch: Path


class _Run:
    """The state of one run."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        folders: Folders,
        run_dir: Path,
        record: RunRecord,
        display: Display,
        metadata: Metadata,
        warm: WarmProcess,
        *,
        reuse: bool,
        heed: bool,
    ) -> None:
        self._folders, self._run_dir, self._record, self._display = folders, run_dir, record, display
        self._metadata, self._warm, self._reuse = metadata, warm, reuse
        self._heed = heed
        self._nodes: dict[str, dict[str, Any]] = {}
        self._outputs: dict[str, Outputs] = {}
        self._running: dict[str, _Execution] = {}
        self._stopped: dict[str, str] = {}  # components that found nothing to go on for, and why

    def carry_out(self) -> None:
        """Run to the end, whatever the end is."""
        try:
            self._tell()
            self._nodes = {node["id"]: node for node in self._warm.nodes()}
            self._record.nodes = [NodeRecord(id_, list(node["upstream"])) for id_, node in self._nodes.items()]
            self._start_ready()
            while self._running:
                for message in self._warm.events():
                    self._measure(message)
                    self._end(message["node"], message["code"])
                self._start_ready()
            failed = [node for node in self._record.nodes if node.status is Status.FAILED]
            self._conclude(Status.FAILED if failed else Status.DONE, failed[0].error if failed else None)
        except KeyboardInterrupt:
            with undisturbed():
                self._interrupt()
                self._conclude(Status.INTERRUPTED, None)
        except Exception as error:
            self._interrupt()
            with contextlib.suppress(OSError):  # the disk may be full
                self._conclude(Status.FAILED, str(error))
            raise

    def _conclude(self, status: Status, error: str | None) -> None:
        self._record.status, self._record.error, self._record.finished = status, error, time.time()
        self._tell()

    def _tell(self) -> None:
        self._record.write(self._run_dir)
        self._display.update(self._record)

    def _start_ready(self) -> None:
        """Start, or take from the cache, every component whose upstream has ended well; skip those whose has not."""
        progress = True
        while progress:
            progress = False
            for node in self._record.nodes:
                upstream = [self._record.node(id_).status for id_ in node.upstream]
                if node.status is not Status.WAITING or not all(status.ended for status in upstream):
                    continue
                stopped = any(id_ in self._stopped for id_ in node.upstream)
                if not stopped and all(status in (Status.DONE, Status.CACHED) for status in upstream):
                    self._start(node)
                else:
                    node.status = Status.SKIPPED
                self._tell()
                progress = True

    def _start(self, node: NodeRecord) -> None:
        spec = self._nodes[node.id]
        inputs = {
            key: [self._outputs[producer][output] for producer, output in channels]
            for key, channels in spec["inputs"].items()
        }
        key, known = self._cache_key(spec)
        self._keep_parts(spec, key, known)
        node.started, node.rows_in = time.time(), rows_in(inputs, spec["splits"])
        found = self._metadata.find(key) if self._reuse and spec["cacheable"] else None
        node.damaged = self._metadata.take_damages()
        if found is not None:
            execution_id = self._metadata.begin(node.id, spec["kind"], spec["parameters"])
            self._metadata.reuse(execution_id, key, inputs, {name: [item] for name, item in found.items()})
            self._finish(node, Status.CACHED, found)
            return
        node.status = Status.RUNNING
        node.log = str(self._run_dir / "logs" / f"{node.id}.log")
        self._running[node.id] = self._launch(node, spec, key, inputs)

    def _launch(
        self, node: NodeRecord, spec: Mapping[str, Any], key: str, inputs: dict[str, list[Stored]]
    ) -> _Execution:
        execution_id = self._metadata.begin(node.id, spec["kind"], spec["parameters"])
        scratch = self._folders.scratch / str(execution_id)
        scratch.mkdir(parents=True)
        execution = _Execution(execution_id, key, inputs, scratch / "result.json", scratch)
        base, run_id = self._folders.artifacts / node.id, self._record.run_id
        uris = {
            name: str(base / name / run_id / "value") if is_value else str(base / name / run_id)
            for name, is_value in spec["outputs"].items()
        }
        self._warm.run(
            node=node.id,
            inputs={name: [stored.to_json() for stored in group] for name, group in inputs.items()},
            outputs=uris,
            log=node.log,
            scratch=str(scratch),
            result=str(execution.result),
        )
        return execution

    def _measure(self, message: Mapping[str, Any]) -> None:
        """Write down what a component that has ended took."""
        node = self._record.node(message["node"])
        seconds = node.seconds(time.time())
        node.peak_bytes, node.cpus = message["peak"], round(message["cpu"] / seconds, 2) if seconds else None

    def _end(self, id_: str, code: int) -> None:
        """Take the result of a component that has ended."""
        node, execution = self._record.node(id_), self._running.pop(id_)
        result = _result(execution.result, code)
        shutil.rmtree(execution.scratch, ignore_errors=True)
        if "outputs" in result:
            made = {name: [Stored.from_json(parts)] for name, parts in result["outputs"].items()}
            stored = self._metadata.complete(execution.id, execution.key, execution.inputs, made)
            node.beam = result["beam"]
            self._finish(node, Status.DONE, stored)
            if self._heed and self._nodes[id_]["decides"] and _text(stored[GO]) == NO:
                self._stopped[id_] = self._record.ended = _text(stored[WHY])
        else:
            abandoned.remove_outputs(self._folders, id_, self._record.run_id)
            self._metadata.fail(execution.id)
            self._metadata.distrust(execution.inputs)
            node.error, node.expected = result["error"], result.get("expected", False)
            self._finish(node, Status.FAILED, {})
        self._tell()

    def _finish(self, node: NodeRecord, status: Status, outputs: Outputs) -> None:
        node.status, node.finished, node.rows_out = status, time.time(), rows_out(outputs)
        node.outputs = {
            name: ArtifactRecord(stored.type.name, stored.uri, stored.properties) for name, stored in outputs.items()
        }
        self._outputs[node.id] = outputs

    def _interrupt(self) -> None:
        """End what runs, and leave nothing half-written."""
        self._warm.stop(len(self._running), GRACE_SECONDS)
        self._warm.kill()
        for id_, execution in self._running.items():
            abandoned.remove_outputs(self._folders, id_, self._record.run_id)
            # After a statement that failed, as on a full disk, the store takes no other; the next run marks these.
            with contextlib.suppress(RunError, StatusError):
                self._metadata.fail(execution.id, canceled=True)
            shutil.rmtree(execution.scratch, ignore_errors=True)
        self._running.clear()
        for node in self._record.nodes:
            if node.status is Status.RUNNING:
                node.status, node.finished = Status.INTERRUPTED, time.time()

    def _cache_key(self, spec: Mapping[str, Any]) -> tuple[str, dict[str, list[str]]]:
        """The key, and what stands in it for each input."""
        known = {
            key: [self._identity(producer, output) for producer, output in channels]
            for key, channels in spec["inputs"].items()
        }
        return key_of(spec["id"], spec["digest"], known), known

    def _keep_parts(self, spec: Mapping[str, Any], key: str, known: Mapping[str, list[str]]) -> None:
        """For `headrace explain-cache`."""
        inputs = {
            name: Input(producer, output, known[name][0], self._outputs[producer][output].uri)
            for name, ((producer, output), *_) in spec["inputs"].items()
        }
        parts = KeyParts(key=key, **spec["parts"], inputs=inputs, cacheable=spec["cacheable"], reuse=self._reuse)
        parts.write(self._run_dir, spec["id"])

    def _identity(self, producer: str, output: str) -> str:
        stored = self._outputs[producer][output]
        own = self._folders.artifacts / producer
        if self._nodes[producer]["cacheable"] or not Path(stored.uri).is_relative_to(own):
            return stored.uri
        return digest_path(Path(stored.uri))


def _text(stored: Stored) -> str:
    return Path(stored.uri).read_text(encoding="utf-8")


def _result(path: Path, code: int) -> dict[str, Any]:
    """What a component left behind; an error in its place if it died without a word."""
    if path.exists():
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return result
    if code == FULL_DISK:
        why = f"{path.parent}: {os.strerror(FULL_DISK)}"
        return {"error": f"{why}\n  Make room there, or set another `pipeline.root`", "expected": True}
    if code < 0:
        name = signal.Signals(-code).name
        why = "; the machine may have run out of memory" if name == "SIGKILL" else ""
        return {"error": f"its process was ended by {name}{why}"}
    return {"error": f"its process ended with exit code {code} and left no result"}
