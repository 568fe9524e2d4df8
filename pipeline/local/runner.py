"""Running the whole DAG on this machine: what can run runs at once, what is known already is reused.

    record = run(config, config_file, display)

A component's cache key is its own digest (executor, properties, sources, library versions) with the identities of its
inputs. What a cacheable component made is known by its URI, which no other execution shares; what an uncached one made
is known by its content, so that what follows is reused as long as nothing really changed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.config import PipelineConfig
from configs.errors import RunError
from configs.writer import to_yaml
from pipeline.digest import digest_path, digest_text
from pipeline.folders import Folders
from pipeline.local.client import WarmProcess
from pipeline.local.lock import locked
from pipeline.local.metadata import Metadata
from pipeline.local.record import ArtifactRecord, NodeRecord, RunRecord, Status
from pipeline.local.rows import rows_in, rows_out
from pipeline.local.wire import Stored
from pipeline.terminal import Display

Outputs = dict[str, Stored]


def run(config: PipelineConfig, config_file: str, display: Display, *, reuse: bool = True) -> tuple[RunRecord, Path]:
    """Run the pipeline; its record and the folder of the run. `reuse=False` runs every component anew.

    A component that fails, or a Ctrl-C, ends as a record with that status, not as an exception. Raises RunError if
    another run is going on, or if the pipeline cannot be built.
    """
    folders = Folders.of(config)
    folders.artifacts.mkdir(parents=True, exist_ok=True)
    with locked(folders.home):
        run_id, run_dir = _new_run(folders)
        (run_dir / "config.yaml").write_text(to_yaml(config))
        record = RunRecord(run_id, config.pipeline.name, config_file, time.time())
        metadata = Metadata(folders.metadata, config.pipeline.name, run_id)
        _clear_abandoned(folders, metadata)
        with WarmProcess(config, run_dir / "logs" / "start.log") as warm, _stoppable():
            _Run(folders, run_dir, record, display, metadata, warm, reuse=reuse).carry_out()
    return record, run_dir


def _new_run(folders: Folders) -> tuple[str, Path]:
    """A new folder for a run, named by the time, with a number where that second is taken."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for name in (stamp, *(f"{stamp}-{number}" for number in range(2, 100))):
        run_dir = folders.runs / name
        with contextlib.suppress(FileExistsError):
            (run_dir / "logs").mkdir(parents=True)
            return name, run_dir
    raise RunError(f"no free name for a run in {folders.runs}; wait a second")


def _clear_abandoned(folders: Folders, metadata: Metadata) -> None:
    """Remove what runs that were killed left half-written, and close their books."""
    for execution_id, node_id in metadata.abandoned():
        metadata.fail(execution_id, canceled=True)
        _remove_outputs(folders, node_id, execution_id)
    shutil.rmtree(folders.home / "tmp", ignore_errors=True)
    for path in folders.runs.glob("*/run.json"):
        with contextlib.suppress(ValueError, TypeError, KeyError):  # another version's record is left as it is
            record = RunRecord.read(path.parent)
            if record.status.ended:
                continue
            record.status = Status.INTERRUPTED
            for node in record.nodes:
                node.status = Status.INTERRUPTED if node.status is Status.RUNNING else node.status
            record.write(path.parent)


def _remove_outputs(folders: Folders, node: str, execution_id: int) -> None:
    for path in folders.artifacts.glob(f"{node}/*/{execution_id}"):
        shutil.rmtree(path)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let a second Ctrl-C not break off the clean-up after the first."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    ) -> None:
        self._folders, self._run_dir, self._record, self._display = folders, run_dir, record, display
        self._metadata, self._warm, self._reuse = metadata, warm, reuse
        self._nodes: dict[str, dict[str, Any]] = {}
        self._outputs: dict[str, Outputs] = {}
        self._running: dict[str, _Execution] = {}

    def carry_out(self) -> None:
        """Run to the end, whatever the end is."""
        self._tell()
        try:
            self._nodes = {node["id"]: node for node in self._warm.nodes()}
            self._record.nodes = [NodeRecord(id_, list(node["upstream"])) for id_, node in self._nodes.items()]
            self._start_ready()
            while self._running:
                for message in self._warm.events():
                    self._end(message["node"], message["code"])
                self._start_ready()
            failed = [node for node in self._record.nodes if node.status is Status.FAILED]
            self._conclude(Status.FAILED if failed else Status.DONE, failed[0].error if failed else None)
        except KeyboardInterrupt:
            with _undisturbed():
                self._interrupt()
                self._conclude(Status.INTERRUPTED, None)
        except RunError as error:
            self._interrupt()
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
                if all(status in (Status.DONE, Status.CACHED) for status in upstream):
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
        key = self._cache_key(spec)
        node.started, node.rows_in = time.time(), rows_in(inputs, spec["splits"])
        found = self._metadata.find(key) if self._reuse and spec["cacheable"] else None
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
        scratch = self._folders.home / "tmp" / str(execution_id)
        scratch.mkdir(parents=True)
        execution = _Execution(execution_id, key, inputs, scratch / "result.json", scratch)
        base = self._folders.artifacts / node.id
        uris = {
            name: str(base / name / str(execution_id) / "value") if is_value else str(base / name / str(execution_id))
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

    def _end(self, id_: str, code: int) -> None:
        """Take the result of a component that has ended."""
        node, execution = self._record.node(id_), self._running.pop(id_)
        result = _result(execution.result, code)
        shutil.rmtree(execution.scratch, ignore_errors=True)
        if "outputs" in result:
            made = {name: [Stored.from_json(parts)] for name, parts in result["outputs"].items()}
            stored = self._metadata.complete(execution.id, execution.key, execution.inputs, made)
            self._finish(node, Status.DONE, stored)
        else:
            self._metadata.fail(execution.id)
            _remove_outputs(self._folders, id_, execution.id)
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
        """Kill what runs, and leave nothing half-written."""
        self._warm.kill()
        for id_, execution in self._running.items():
            self._metadata.fail(execution.id, canceled=True)
            _remove_outputs(self._folders, id_, execution.id)
            shutil.rmtree(execution.scratch, ignore_errors=True)
        self._running.clear()
        for node in self._record.nodes:
            if node.status is Status.RUNNING:
                node.status, node.finished = Status.INTERRUPTED, time.time()

    def _cache_key(self, spec: Mapping[str, Any]) -> str:
        known = {
            key: [self._identity(producer, output) for producer, output in channels]
            for key, channels in spec["inputs"].items()
        }
        return digest_text(spec["id"], spec["digest"], json.dumps(known, sort_keys=True))

    def _identity(self, producer: str, output: str) -> str:
        stored = self._outputs[producer][output]
        own = self._folders.artifacts / producer
        if self._nodes[producer]["cacheable"] or not Path(stored.uri).is_relative_to(own):
            return stored.uri
        return digest_path(Path(stored.uri))


def _result(path: Path, code: int) -> dict[str, Any]:
    """What a component left behind; an error in its place if it died without a word."""
    if path.exists():
        result: dict[str, Any] = json.loads(path.read_text())
        return result
    if code < 0:
        name = signal.Signals(-code).name
        why = "; the machine may have run out of memory" if name == "SIGKILL" else ""
        return {"error": f"its process was ended by {name}{why}"}
    return {"error": f"its process ended with exit code {code} and left no result"}
