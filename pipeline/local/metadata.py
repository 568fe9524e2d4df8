"""Executions, artifacts and how they hang together, in ML Metadata on SQLite, with the types that TFX uses.

The same store answers what the cache asks: which finished execution had this cache key, and what did it make?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ml_metadata import errors
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from headrace.components.contents import CONTENTS
from headrace.components.deploy.registry import IN_SERVICE, IN_SERVICE_CONTENTS
from headrace.configs.checksums import MARK, checksum
from headrace.configs.errors import RunError
from headrace.pipeline.local.contents import signature
from headrace.pipeline.local.wire import Stored

Artifacts = Mapping[str, list[Stored]]
CACHE_KEY = "cache_key"
"""Context type whose instances are named by cache keys: an indexed way from a key to its executions."""
NODE = "headrace_node"
"""Custom property of executions: the node's id. Their others are the component's parameters, as in TFX."""
RUN = "headrace_run"
"""Custom property of executions: the id of the run."""
SIGNATURE = "headrace_signature"
"""Custom property of artifacts: the state of their files when the checksum was last compared (`signature`)."""
PUSHED_TO = "pushed_destination"
"""Custom property of a pushed model: the folder outside the pipeline that it was copied to."""


FULL = "no space is left on the disk"


def cause(error: Exception) -> str:
    """What the store says, without the statement that failed and the message that it was to keep."""
    said = re.search(r"Error when executing query: (.*?)(?: query:|$)", str(error), re.DOTALL)
    text = said[1] if said else str(error).split(" query:")[0]
    return FULL if "disk is full" in text else text


class Metadata:
    """The store of one pipeline. One process writes to it."""

    def __init__(self, path: Path, pipeline: str, run_id: str) -> None:
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(path)
        try:
            self._store = metadata_store.MetadataStore(connection)
        except (errors.StatusError, RuntimeError) as error:
            if cause(error) == FULL:
                raise RunError(
                    f"{path} cannot be written: {FULL}.\n  Make room there, or set another `pipeline.root`."
                ) from error
            raise RunError(
                f"{path} cannot be used: {cause(error)}.\n  Move it away: the next run then makes a new one, computes"
                " everything once more, and leaves older artifacts where they are."
            ) from error
        self._types = {
            name: self._store.put_context_type(mlmd.ContextType(name=name))
            for name in ("pipeline", "pipeline_run", "node", CACHE_KEY)
        }
        self._pipeline, self._run_id = pipeline, run_id
        self._damages: list[str] = []

    def begin(self, node: str, kind: str, parameters: Mapping[str, str | int | float]) -> int:
        """A new running execution of a node, with the parameters that it runs with; its id.

        kind: TFX's name for this sort of component.
        """
        execution = mlmd.Execution(
            type_id=self._store.put_execution_type(mlmd.ExecutionType(name=kind)),
            last_known_state=mlmd.Execution.RUNNING,
        )
        for key, value in parameters.items():
            _set(execution.custom_properties[key], value)
        execution.custom_properties[NODE].string_value = node
        execution.custom_properties[RUN].string_value = self._run_id
        (execution_id, _, _) = self._store.put_execution(execution, [], self._contexts(node), True)
        return int(execution_id)

    def complete(self, execution_id: int, cache_key: str, inputs: Artifacts, outputs: Artifacts) -> dict[str, Stored]:
        """Record what an execution used and made; the outputs with their ids."""
        self._finish(execution_id, mlmd.Execution.COMPLETE, cache_key, inputs, outputs)
        return self._outputs(execution_id)

    def reuse(self, execution_id: int, cache_key: str, inputs: Artifacts, outputs: Artifacts) -> None:
        """Record that an execution took the outputs of an earlier one."""
        self._finish(execution_id, mlmd.Execution.CACHED, cache_key, inputs, outputs)

    def fail(self, execution_id: int, *, canceled: bool = False) -> None:
        """Mark an execution as one that ended without outputs."""
        (execution,) = self._store.get_executions_by_id([execution_id])
        execution.last_known_state = mlmd.Execution.CANCELED if canceled else mlmd.Execution.FAILED
        self._store.put_executions([execution])

    def find(self, cache_key: str) -> dict[str, Stored] | None:
        """The outputs of the latest finished execution with this key, if all of them are still there."""
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
                self._damages += [f"{what}; the outputs of an earlier run are reused" for what in damages[:1]]
                return outputs
            damages += [damage] if damage else []
        self._damages += [f"{what}; computed again" for what in damages[:1]]  # of earlier ones none would be used
        return None

    def take_damages(self) -> list[str]:
        """Since the last call of this, for each `find`: the damage that kept the latest outputs from being reused."""
        told, self._damages = self._damages, []
        return told

    def distrust(self, inputs: Artifacts) -> None:
        """Let the next `find` read the files of these again, as a component failed that was given them."""
        for _, _, stored in _each(inputs):
            stored.artifact.custom_properties[SIGNATURE].string_value = ""
        self._store.put_artifacts([stored.artifact for _, _, stored in _each(inputs)])

    def abandoned(self) -> Iterator[tuple[int, str, str]]:
        """Id, node and run of every execution that a killed run left unfinished."""
        for execution in self._store.get_executions():
            if execution.last_known_state == mlmd.Execution.RUNNING:
                about = execution.custom_properties
                yield execution.id, about[NODE].string_value, about[RUN].string_value

    def _finish(self, execution_id: int, state: int, cache_key: str, inputs: Artifacts, outputs: Artifacts) -> None:
        (execution,) = self._store.get_executions_by_id([execution_id])
        execution.last_known_state = state
        used = [(stored.artifact, _event(mlmd.Event.INPUT, key, n)) for key, n, stored in _each(inputs)]
        made = [(self._typed(stored), _event(mlmd.Event.OUTPUT, key, n)) for key, n, stored in _each(outputs)]
        key_context = mlmd.Context(type_id=self._types[CACHE_KEY], name=cache_key)
        contexts = [*self._contexts(execution.custom_properties[NODE].string_value), key_context]
        self._store.put_execution(execution, [*used, *made], contexts, True)

    def _typed(self, stored: Stored) -> mlmd.Artifact:
        artifact = mlmd.Artifact()
        artifact.CopyFrom(stored.artifact)
        artifact.state = mlmd.Artifact.LIVE
        path = Path(artifact.uri)
        if CONTENTS not in artifact.custom_properties:
            artifact.custom_properties[CONTENTS].string_value = checksum(path)
        artifact.custom_properties[SIGNATURE].string_value = signature(path)
        artifact.type_id = self._store.put_artifact_type(stored.type, can_add_fields=True, can_omit_fields=True)
        return artifact

    def _damage(self, outputs: Mapping[str, Stored]) -> str | None:
        """Why outputs cannot be used again: in words if files are damaged, "" for another reason, None if they can."""
        found = [self._damage_of(stored) for stored in outputs.values()]
        return max((reason for reason in found if reason is not None), default=None)

    def _damage_of(self, stored: Stored) -> str | None:
        """The same of one: its files are to be as they were, and a pushed model the newest version."""
        path, pushed_to = Path(stored.uri), str(stored.properties.get(PUSHED_TO) or "")
        contents = str(stored.properties.get(CONTENTS, ""))
        if not path.exists() or not contents.startswith(MARK):  # gone, or of an earlier version of this program
            return ""
        now = signature(path)
        if now != stored.properties.get(SIGNATURE):
            if checksum(path) != contents:
                return f"{path} is damaged: its files are not as they were when they were written"
            stored.artifact.custom_properties[SIGNATURE].string_value = now
            self._store.put_artifacts([stored.artifact])
        if pushed_to:
            return _damage_of_version(Path(pushed_to), contents) if _is_newest(Path(pushed_to)) else ""
        in_service = Path(str(stored.properties.get(IN_SERVICE) or ""))
        if not in_service.name or not in_service.parent.is_dir():
            return None
        if _is_superseded(in_service):
            return ""
        expected = str(stored.properties[IN_SERVICE_CONTENTS])
        return _damage_of_version(in_service, expected) if in_service.exists() else None  # else it was taken back

    def _outputs(self, execution_id: int) -> dict[str, Stored]:
        events = self._store.get_events_by_execution_ids([execution_id])
        keys = {event.artifact_id: event.path.steps[0].key for event in events if event.type == mlmd.Event.OUTPUT}
        artifacts = self._store.get_artifacts_by_id(list(keys))
        types = {item.id: item for item in self._store.get_artifact_types_by_id([a.type_id for a in artifacts])}
        return {keys[artifact.id]: Stored(artifact, types[artifact.type_id]) for artifact in artifacts}

    def _contexts(self, node: str) -> list[mlmd.Context]:
        names = {"pipeline": self._pipeline, "pipeline_run": self._run_id, "node": f"{self._pipeline}.{node}"}
        return [mlmd.Context(type_id=self._types[type_], name=name) for type_, name in names.items()]


def _damage_of_version(version: Path, contents: str) -> str | None:
    return None if checksum(version) == contents else f"{version} is damaged: its files are not those that were pushed"


def _is_newest(version: Path) -> bool:
    """Whether a model server that watches the folder around a version serves this one."""
    return version.exists() and not _is_superseded(version)


def _is_superseded(version: Path) -> bool:
    return any(other.name.isdecimal() and int(other.name) > int(version.name) for other in version.parent.iterdir())


def _set(value: mlmd.Value, content: str | int | float) -> None:
    if isinstance(content, str):
        value.string_value = content
    elif isinstance(content, int):
        value.int_value = content
    else:
        value.double_value = content


def _each(artifacts: Artifacts) -> Iterator[tuple[str, int, Stored]]:
    for key, group in artifacts.items():
        for number, stored in enumerate(group):
            yield key, number, stored


def _event(type_: int, key: str, index: int) -> mlmd.Event:
    event = mlmd.Event(type=type_)
    event.path.steps.add().key = key
    event.path.steps.add().index = index
    return event
