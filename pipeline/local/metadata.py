"""Executions, artifacts and their lineage, in ML Metadata on SQLite, with the types that TFX uses.

The same store is the cache: it finds the finished execution that had a cache key, and the outputs of it. They are
reused only if their files are unchanged. Reading all files of an unchanged run to check that would cost as much as
running it, so a file whose size, inode and times (ctime cannot be set back by a user) are those of the last checksum
comparison counts as unchanged, and only others are read. This misses bits that rot below the file system. A component
that reads such a file notices (`headrace.components.contents`) and fails; the next run then reads all files that the
component was given before it trusts them again.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.common.checksums import PREFIX, checksum
from headrace.common.digests import digest_text
from headrace.common.errors import RunError
from headrace.components.contents import CONTENTS, UNFINISHED
from headrace.components.stored_models.blessed_record import IN_SERVICE, IN_SERVICE_CONTENTS
from headrace.components.stored_models.push import refresh
from headrace.components.stored_models.stored_versions import shown
from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd
from headrace.pipeline.local.store import LocalMetadata
from headrace.pipeline.local.wire import StoredArtifact

Artifacts = Mapping[str, list[StoredArtifact]]
CACHE_KEY = "cache_key"
"""Context type whose instances are named by cache keys, which makes looking up a key's executions an indexed query."""
NODE = "headrace_node"
"""Custom property of executions: the node's id. The others are the component's parameters, as in TFX."""
RUN = "headrace_run"
"""Custom property of executions: the id of the run."""
SIGNATURE = "headrace_signature"
"""Custom property of artifacts: the `signature` of their files when the checksum was last compared."""
PUSHED_TO = "pushed_destination"
"""Custom property of a pushed model: the folder outside the pipeline that it was copied to."""


def signature(path: Path) -> str:
    """A digest of the names, sizes, times and inodes of the files at or below `path`. Reads no file."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    states = [(str(file.relative_to(path)), file.stat()) for file in files]
    return digest_text(
        *(f"{name}={now.st_size} {now.st_mtime_ns} {now.st_ctime_ns} {now.st_ino}" for name, now in states)
    )


class Metadata:
    """The store of one pipeline. Only one process may write to it. Every method raises RunError if the store fails."""

    def __init__(self, path: Path, pipeline: str, run_id: str) -> None:
        self._store = LocalMetadata(path)
        self._types = {
            name: self._store.put_context_type(mlmd.ContextType(name=name))
            for name in ("pipeline", "pipeline_run", "node", CACHE_KEY)
        }
        self._pipeline, self._run_id = pipeline, run_id
        self._damages: list[str] = []

    def register(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Record the types of all components and of their outputs, as the plan has them, in one transaction.

        Each by itself, as it is first used, would be a transaction that is flushed to the disk.
        """
        executions, artifacts = dict[str, mlmd.ExecutionType](), dict[str, mlmd.ArtifactType]()
        for node in nodes:
            executions[node["kind"]] = mlmd.ExecutionType(name=node["kind"])
            for text in node["types"].values():
                type_ = mlmd.ArtifactType.FromString(base64.b64decode(text))
                artifacts[type_.name] = type_
        self._store.put_types(artifacts.values(), executions.values())

    def begin(self, node: str, kind: str, parameters: Mapping[str, str | int | float]) -> int:
        """Record a running execution of a node with its parameters; returns the execution's id.

        kind: TFX's name for this kind of component.
        """
        execution = self.execution(node, kind, parameters)
        execution.last_known_state = mlmd.Execution.RUNNING
        (execution_id, _, _) = self._store.put_execution(execution, [], self._contexts(node), True)
        return int(execution_id)

    def complete(
        self, execution_id: int, cache_key: str, inputs: Artifacts, outputs: Artifacts
    ) -> dict[str, StoredArtifact]:
        """Record the inputs and outputs of an execution; returns the outputs with their ids."""
        (execution,) = self._store.get_executions_by_id([execution_id])
        execution.last_known_state = mlmd.Execution.COMPLETE
        self._finish(execution, cache_key, inputs, outputs)
        return self._outputs(execution_id)

    def reuse(self, execution: mlmd.Execution, cache_key: str, inputs: Artifacts, outputs: Artifacts) -> None:
        """Record a new execution (see `execution`) that reuses the outputs of an earlier one, in one transaction."""
        execution.last_known_state = mlmd.Execution.CACHED
        self._finish(execution, cache_key, inputs, outputs)

    def fail(self, execution_id: int, *, canceled: bool = False) -> None:
        """Mark an execution as failed or canceled, without outputs."""
        (execution,) = self._store.get_executions_by_id([execution_id])
        execution.last_known_state = mlmd.Execution.CANCELED if canceled else mlmd.Execution.FAILED
        self._store.put_executions([execution])

    def leave(self, execution_id: int, outputs: Artifacts) -> dict[str, StoredArtifact]:
        """Record the verdicts of a gate that failed its execution to stop the run; returns them with their ids."""
        (execution,) = self._store.get_executions_by_id([execution_id])
        made = [(self._typed(stored), _event(mlmd.Event.OUTPUT, key, n)) for key, n, stored in _each(outputs)]
        self._store.put_execution(execution, made, [], True)
        return self._outputs(execution_id)

    def find(self, cache_key: str) -> dict[str, StoredArtifact] | None:
        """The outputs of the latest execution with this key whose files are unchanged; None if there is none."""
        context = self._store.get_context_by_type_and_name(CACHE_KEY, cache_key)
        if context is None:
            return None
        executions = self._store.get_executions_by_context(context.id)
        complete = [item.id for item in executions if item.last_known_state == mlmd.Execution.COMPLETE]
        damages: list[str] = []
        for execution_id in sorted(complete, reverse=True):
            outputs = self._outputs(execution_id)
            damage = self._damage(outputs)
            if damage is None:
                self._damages += [f"{found}; the outputs of an earlier run are reused" for found in damages[:1]]
                return outputs
            damages += [damage] if damage else []
        self._damages += [f"{found}; it is recomputed" for found in damages[:1]]  # the latest is the one reported
        return None

    def take_damages(self) -> list[str]:
        """The damage that kept outputs from being reused, for each `find` since the last call."""
        damages, self._damages = self._damages, []
        return damages

    def distrust(self, inputs: Artifacts) -> None:
        """Let the next `find` read these files again, because a component that was given them failed."""
        for _, _, stored in _each(inputs):
            stored.artifact.custom_properties[SIGNATURE].string_value = ""
        self._store.put_artifacts([stored.artifact for _, _, stored in _each(inputs)])

    def unfinished(self) -> Iterator[tuple[int, str, str]]:
        """The id, node and run of every execution that a killed run left unfinished."""
        for execution in self._store.get_executions():
            if execution.last_known_state == mlmd.Execution.RUNNING:
                properties = execution.custom_properties
                yield execution.id, properties[NODE].string_value, properties[RUN].string_value

    def execution(self, node: str, kind: str, parameters: Mapping[str, str | int | float]) -> mlmd.Execution:
        """An execution of a node, of which nothing is recorded yet; see `begin`."""
        execution = mlmd.Execution(type_id=self._store.put_execution_type(mlmd.ExecutionType(name=kind)))
        for key, value in parameters.items():
            _set(execution.custom_properties[key], value)
        execution.custom_properties[NODE].string_value = node
        execution.custom_properties[RUN].string_value = self._run_id
        return execution

    def _finish(self, execution: mlmd.Execution, cache_key: str, inputs: Artifacts, outputs: Artifacts) -> None:
        used = [(stored.artifact, _event(mlmd.Event.INPUT, key, n)) for key, n, stored in _each(inputs)]
        made = [(self._typed(stored), _event(mlmd.Event.OUTPUT, key, n)) for key, n, stored in _each(outputs)]
        key_context = mlmd.Context(type_id=self._types[CACHE_KEY], name=cache_key)
        contexts = [*self._contexts(execution.custom_properties[NODE].string_value), key_context]
        self._store.put_execution(execution, [*used, *made], contexts, True)

    def _typed(self, stored: StoredArtifact) -> mlmd.Artifact:
        artifact = mlmd.Artifact()
        artifact.CopyFrom(stored.artifact)
        artifact.state = mlmd.Artifact.LIVE
        path = Path(artifact.uri)
        if CONTENTS not in artifact.custom_properties:
            artifact.custom_properties[CONTENTS].string_value = checksum(path)
        artifact.custom_properties[SIGNATURE].string_value = signature(path)
        artifact.type_id = self._store.put_artifact_type(stored.type, can_add_fields=True, can_omit_fields=True)
        return artifact

    def _damage(self, outputs: Mapping[str, StoredArtifact]) -> str | None:
        """Why outputs cannot be reused: a message if files are damaged, "" for another reason, None if they can."""
        found = [self._damage_of(stored) for stored in outputs.values()]
        return max((reason for reason in found if reason is not None), default=None)

    def _damage_of(self, stored: StoredArtifact) -> str | None:
        """The same for one output: its files must be unchanged and not for their own run alone, and a pushed model must
        be the newest version.
        """
        path, pushed_to = Path(stored.uri), str(stored.properties.get(PUSHED_TO) or "")
        contents = str(stored.properties.get(CONTENTS, ""))
        known = path.exists() and contents.startswith(PREFIX)  # else it is gone, or of an earlier version of Headrace
        if not known or stored.properties.get(UNFINISHED):
            return ""
        now = signature(path)
        if now != stored.properties.get(SIGNATURE):
            if checksum(path) != contents:
                return f"{path} is damaged: its files have changed since they were written"
            stored.artifact.custom_properties[SIGNATURE].string_value = now
            self._store.put_artifacts([stored.artifact])
        return _damage_of_push(stored, pushed_to, contents)

    def _outputs(self, execution_id: int) -> dict[str, StoredArtifact]:
        events = self._store.get_events_by_execution_ids([execution_id])
        keys = {event.artifact_id: event.path.steps[0].key for event in events if event.type == mlmd.Event.OUTPUT}
        artifacts = self._store.get_artifacts_by_id(list(keys))
        types = {item.id: item for item in self._store.get_artifact_types_by_id([a.type_id for a in artifacts])}
        return {keys[artifact.id]: StoredArtifact(artifact, types[artifact.type_id]) for artifact in artifacts}

    def _contexts(self, node: str) -> list[mlmd.Context]:
        names = {"pipeline": self._pipeline, "pipeline_run": self._run_id, "node": f"{self._pipeline}.{node}"}
        return [mlmd.Context(type_id=self._types[type_], name=name) for type_, name in names.items()]


def _damage_of_push(stored: StoredArtifact, pushed_to: str, contents: str) -> str | None:
    """The same for what it says of pushed versions. Of an object store that cannot be read, "": the Pusher says why."""
    in_service = Path(str(stored.properties.get(IN_SERVICE) or ""))
    try:
        refresh(Path(pushed_to or in_service).parent)
    except RunError:
        return ""
    if pushed_to:
        if not _is_newest(Path(pushed_to)):
            return ""
        copied = any(Path(stored.uri).iterdir())  # a Pusher of the user's may leave nothing to compare with
        return _damage_of_version(Path(pushed_to), contents) if copied else None
    if not in_service.name:
        return None
    if not _is_newest(in_service):  # it was withdrawn, or another one is in service
        return ""
    return _damage_of_version(in_service, str(stored.properties[IN_SERVICE_CONTENTS]))


def _damage_of_version(version: Path, contents: str) -> str | None:
    return (
        None
        if checksum(version) == contents
        else f"{shown(version)} is damaged: its files are not the ones that were pushed"
    )


def _is_newest(version: Path) -> bool:
    """Whether a model server that watches the parent folder serves this version."""
    return version.exists() and not _is_superseded(version)


def _is_superseded(version: Path) -> bool:
    if not version.name.isdecimal():  # a Pusher of the user's may name it otherwise
        return False
    return any(other.name.isdecimal() and int(other.name) > int(version.name) for other in version.parent.iterdir())


def _set(value: mlmd.Value, content: str | int | float) -> None:
    if isinstance(content, str):
        value.string_value = content
    elif isinstance(content, int):
        value.int_value = content
    else:
        value.double_value = content


def _each(artifacts: Artifacts) -> Iterator[tuple[str, int, StoredArtifact]]:
    for key, group in artifacts.items():
        for number, stored in enumerate(group):
            yield key, number, stored


def _event(type_: int, key: str, index: int) -> mlmd.Event:
    event = mlmd.Event(type=type_)
    event.path.steps.add().key = key
    event.path.steps.add().index = index
    return event
