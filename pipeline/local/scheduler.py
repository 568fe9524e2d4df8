"""Schedule the components of one run: start those whose upstream has ended, reuse what is known, record the results.

A component's cache key is its own digest (executor, properties, sources, library versions) with the identities of its
inputs. An output of a cacheable component is identified by its URI, which no other execution shares; an output of any
other component by its content, so that everything downstream is reused as long as nothing really changed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.common.digests import digest_path
from headrace.common.errors import RunError
from headrace.components.stored_models.push_record import PushRecord, note_own_push
from headrace.components.trigger.decision import GO, NO, WHY
from headrace.pipeline.cache_key import KeyInput, KeyParts, cache_key
from headrace.pipeline.folders import Folders
from headrace.pipeline.interrupts import uninterrupted
from headrace.pipeline.local.lazy_server import LazyServer
from headrace.pipeline.local.light import STATE, state_outside
from headrace.pipeline.local.metadata import PUSHED_TO, Metadata
from headrace.pipeline.local.wire import FULL_DISK, StoredArtifact, total_rows
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.terminal import Display

logger = logging.getLogger(__name__)

Outputs = dict[str, StoredArtifact]
GRACE_SECONDS = 30.0
"""How long an interrupted component may take to end: a Trainer writes a checkpoint. Kubernetes' default is the same."""

PUSHER, PUSHED = "Pusher", "pushed_model"
_WAY_OUT = "If this run pushes no other, restore its files, or remove it: model servers then load the previous version"


@dataclass
class _Execution:
    """A component that is running."""

    id: int
    key: str
    inputs: dict[str, list[StoredArtifact]]
    result: Path
    scratch: Path


class Scheduler:
    """The state of one run."""

    def __init__(
        self,
        folders: Folders,
        run_dir: Path,
        record: RunRecord,
        display: Display,
        metadata: Metadata,
        server: LazyServer,
        *,
        reuse: bool,
        obey_retrain: bool,
    ) -> None:
        self._folders, self._run_dir, self._record, self._display = folders, run_dir, record, display
        self._metadata, self._server = metadata, server
        self._reuse, self._obey_retrain = reuse, obey_retrain
        self._nodes: dict[str, dict[str, Any]] = {}
        self._outputs: dict[str, Outputs] = {}
        self._running: dict[str, _Execution] = {}
        self._pushed: Callable[[Path], None] = lambda _: None
        self._stopped: dict[str, str] = {}  # components that decided to end the run early, and why

    def run(self, pushed: Callable[[Path], None]) -> None:
        """Run all components and conclude the record, whether they succeed, fail or are interrupted.

        pushed: called with the run's folder once the Pusher has pushed a version, before what comes after it starts.
        """
        self._pushed = pushed
        try:
            self._publish()
            self._nodes = {node["id"]: node for node in self._server.nodes()}
            self._metadata.register(self._nodes.values())
            self._record.nodes = [NodeRecord(id_, list(node["upstream"])) for id_, node in self._nodes.items()]
            self._start_ready()
            while self._running:
                for message in self._server.events():
                    self._record_usage(message)
                    self._end(message["node"], message["code"])
                self._start_ready()
            failed = [node for node in self._record.nodes if node.status is Status.FAILED]
            self._conclude(Status.FAILED if failed else Status.DONE, failed[0].error if failed else None)
        except KeyboardInterrupt:
            with uninterrupted():
                self._interrupt()
                self._conclude(Status.INTERRUPTED, None)
        except Exception as error:
            self._interrupt()
            for node in self._record.nodes:
                if node.status is Status.WAITING:
                    node.status = Status.SKIPPED
            with contextlib.suppress(OSError):  # the disk may be full
                self._conclude(Status.FAILED, str(error))
            self._display.update(self._record)
            raise

    def _conclude(self, status: Status, error: str | None) -> None:
        self._record.status, self._record.error, self._record.finished = status, error, time.time()
        self._publish()

    def _publish(self) -> None:
        self._record.write(self._run_dir)
        self._display.update(self._record)

    def _start_ready(self) -> None:
        """Start or reuse every component whose upstream succeeded; skip those whose upstream did not."""
        progress = True
        while progress:
            progress = False
            for node in self._record.nodes:
                upstream = [self._record.node(id_).status for id_ in node.upstream]
                if node.status is not Status.WAITING or not all(status.ended for status in upstream):
                    continue
                stopped = any(id_ in self._stopped for id_ in node.upstream)
                if not stopped and all(status in (Status.DONE, Status.CACHED) for status in upstream):
                    with self._failing(node):
                        self._start(node)
                else:
                    node.status = Status.SKIPPED
                self._display.update(self._record)
                progress = True
        self._record.write(self._run_dir)  # once for all that ended or started, as each time is flushed to the disk

    def _start(self, node: NodeRecord) -> None:
        spec = self._nodes[node.id]
        inputs = {
            key: [self._outputs[producer][output] for producer, output in channels]
            for key, channels in spec["inputs"].items()
        }
        outside = state_outside(spec["kind"], spec["parameters"])
        key, identities = self._cache_key(spec, outside)
        self._write_key_parts(spec, key, identities, outside)
        node.started = time.time()
        node.rows_in = total_rows(
            (stored for key, group in inputs.items() if key != "transformed_examples" for stored in group),
            spec["splits"],
        )  # of the Canary, those are the rows of its `examples` once more
        reusable = self._reuse and (spec["cacheable"] or outside is not None)
        found = self._metadata.find(key) if reusable else None
        node.damaged = self._metadata.take_damages()
        if found is not None:
            made = {name: [item] for name, item in found.items()}
            execution = self._metadata.execution(node.id, spec["kind"], spec["parameters"])
            self._metadata.reuse(execution, key, inputs, made)
            self._finish(node, Status.CACHED, found)
            _note_push(self._folders, spec, inputs, found, reused=True)
            return
        self._server.ready_for(node.id)
        node.started = time.time()  # the server may have had to start first
        node.damaged += _damaged_in_service(spec["parameters"], node.damaged)
        node.status = Status.RUNNING
        node.log = str(self._run_dir / "logs" / f"{node.id}.log")
        self._launch(node, spec, key, inputs)

    def _launch(
        self, node: NodeRecord, spec: Mapping[str, Any], key: str, inputs: dict[str, list[StoredArtifact]]
    ) -> None:
        execution_id = self._metadata.begin(node.id, spec["kind"], spec["parameters"])
        scratch = self._folders.scratch / str(execution_id)
        scratch.mkdir(parents=True)
        result = scratch / "result.json"
        self._running[node.id] = _Execution(execution_id, key, inputs, result, scratch)
        base, run_id = self._folders.artifacts / node.id, self._record.run_id
        uris = {
            name: str(base / name / run_id / "value") if is_value else str(base / name / run_id)
            for name, is_value in spec["outputs"].items()
        }
        self._server.run(
            node=node.id,
            inputs={name: [stored.to_json() for stored in group] for name, group in inputs.items()},
            outputs=uris,
            log=node.log,
            scratch=str(scratch),
            result=str(result),
        )

    def _record_usage(self, message: Mapping[str, Any]) -> None:
        """Record the memory and CPU time of a component that has ended."""
        node = self._record.node(message["node"])
        seconds = node.seconds(time.time())
        node.peak_bytes, node.cpus = message["peak"], round(message["cpu"] / seconds, 2) if seconds else None

    def _end(self, id_: str, code: int) -> None:
        """Deal with a component that has ended."""
        node, execution = self._record.node(id_), self._running.pop(id_)
        result = _result(execution.result, code)
        shutil.rmtree(execution.scratch, ignore_errors=True)
        with self._failing(node):
            self._take_over(node, execution, result)
        self._display.update(self._record)

    def _take_over(self, node: NodeRecord, execution: _Execution, result: Mapping[str, Any]) -> None:
        """Record the outputs of a component, or why it failed."""
        outputs = result.get("outputs", result.get("verdicts", {}))
        made = {name: [StoredArtifact.from_json(parts)] for name, parts in outputs.items()}
        if "outputs" in result:
            stored = self._metadata.complete(execution.id, execution.key, execution.inputs, made)
            node.beam = result["beam"]
            self._finish(node, Status.DONE, stored)
            _note_push(self._folders, self._nodes[node.id], execution.inputs, stored)
            if node.id == PUSHER and PUSHED in stored and stored[PUSHED].properties.get("pushed"):
                self._pushed(self._run_dir)
            if self._obey_retrain and self._nodes[node.id]["decides"] and stored[GO].text == NO:
                self._stopped[node.id] = self._record.ended = stored[WHY].text
            return
        node.error, node.expected = result["error"], result.get("expected", False)
        node.error_class = result.get("error_class")
        remove_outputs(self._folders, node.id, self._record.run_id, left=made)
        self._metadata.fail(execution.id)
        left = self._metadata.leave(execution.id, made) if made else {}
        self._metadata.distrust(execution.inputs)
        self._finish(node, Status.FAILED, left)

    @contextlib.contextmanager
    def _failing(self, node: NodeRecord) -> Iterator[None]:
        """If a component cannot be started, or its result cannot be recorded, it has failed, and the run ends."""
        try:
            yield
        except (RunError, OSError) as error:
            self._running.pop(node.id, None)
            remove_outputs(self._folders, node.id, self._record.run_id)
            node.status, node.finished, node.outputs = Status.FAILED, time.time(), {}
            node.error, node.expected = node.error or str(error), True
            raise

    def _finish(self, node: NodeRecord, status: Status, outputs: Outputs) -> None:
        node.status, node.finished, node.rows_out = status, time.time(), total_rows(outputs.values())
        node.outputs = {
            name: ArtifactRecord(stored.type.name, stored.uri, stored.properties) for name, stored in outputs.items()
        }
        self._outputs[node.id] = outputs

    def _interrupt(self) -> None:
        """End everything that runs, and remove incomplete outputs."""
        self._server.stop(GRACE_SECONDS)
        self._server.kill()
        for id_, execution in self._running.items():
            remove_outputs(self._folders, id_, self._record.run_id)
            # After a failed statement, as on a full disk, the store accepts no other; the next run marks these.
            with contextlib.suppress(RunError):
                self._metadata.fail(execution.id, canceled=True)
            shutil.rmtree(execution.scratch, ignore_errors=True)
        self._running.clear()
        for node in self._record.nodes:
            if node.status is Status.RUNNING:
                node.status, node.finished = Status.INTERRUPTED, time.time()

    def _cache_key(self, spec: Mapping[str, Any], outside: str | None) -> tuple[str, dict[str, list[str]]]:
        """The cache key, and the identities of the inputs that went into it."""
        identities = {
            key: [self._identity(producer, output) for producer, output in channels]
            for key, channels in spec["inputs"].items()
        }
        return cache_key(spec["id"], spec["digest"], identities, outside), identities

    def _write_key_parts(
        self, spec: Mapping[str, Any], key: str, identities: Mapping[str, list[str]], outside: str | None
    ) -> None:
        """Store the parts of the key with the run, for `headrace explain-cache`."""
        inputs = {
            name: KeyInput(producer, output, identities[name][0], self._outputs[producer][output].uri)
            for name, ((producer, output), *_) in spec["inputs"].items()
        }
        fields = dict(spec["parts"])
        if outside is not None:
            fields["settings"] = {**fields["settings"], STATE: outside}
        cacheable = spec["cacheable"] or outside is not None
        KeyParts(key=key, **fields, inputs=inputs, cacheable=cacheable, reuse=self._reuse).write(
            self._run_dir, spec["id"]
        )

    def _identity(self, producer: str, output: str) -> str:
        stored = self._outputs[producer][output]
        own = self._folders.artifacts / producer
        if self._nodes[producer]["cacheable"] or not Path(stored.uri).is_relative_to(own):
            return stored.uri
        return digest_path(Path(stored.uri))


def remove_outputs(folders: Folders, node: str, run_id: str, left: Collection[str] = ()) -> None:
    """Remove everything that a component wrote in a run. left: outputs that stay, as the verdict of a gate."""
    for path in folders.artifacts.glob(f"{node}/*/{run_id}"):
        if path.parent.name not in left:
            shutil.rmtree(path)


def _damaged_in_service(parameters: Mapping[str, Any], named: list[str]) -> list[str]:
    """A message if a component is about to push, and the version in service is damaged and not yet named."""
    destination, record = parameters.get("destination"), parameters.get("push_record")
    if destination is None or record is None:
        return []
    with contextlib.suppress(RunError, OSError):  # the component reports these itself
        version = PushRecord.read(Path(record)).damaged_version(Path(destination))
        if version is not None and not any(str(version) in text for text in named):
            return [f"{version} is damaged: its files are not the ones that were pushed. {_WAY_OUT}"]
    return []


def _note_push(
    folders: Folders,
    spec: Mapping[str, Any],
    inputs: Mapping[str, list[StoredArtifact]],
    outputs: Outputs,
    *,
    reused: bool = False,
) -> None:
    """Note the push of a Pusher of the user's, which does not do so itself."""
    if spec["id"] != PUSHER or "push_record" in spec["parameters"] or PUSHED not in outputs:
        return
    said = outputs[PUSHED].properties
    if not said.get("pushed") or not said.get(PUSHED_TO):
        return
    version, models = Path(str(said[PUSHED_TO])).absolute(), [one.uri for group in inputs.values() for one in group]
    if why := note_own_push(folders.push_record, folders.registry, models, version, reused=reused):
        logger.warning("Pusher pushed %s, which is not noted as in service: %s", said[PUSHED_TO], why)


def _result(path: Path, code: int) -> dict[str, Any]:
    """The result file of a component, or an error made from its exit code if it left none."""
    if path.exists():
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return result
    if code == FULL_DISK:
        why = f"{path.parent}: {os.strerror(FULL_DISK)}"
        return {"error": f"{why}\n  Free some space there, or set another `pipeline.root`", "expected": True}
    if code < 0:
        name = signal.Signals(-code).name
        why = "; the machine may have run out of memory" if name == "SIGKILL" else ""
        return {"error": f"its process was ended by {name}{why}"}
    return {"error": f"its process ended with exit code {code} and left no result"}
