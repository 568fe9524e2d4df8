"""Explain, for each component of a local run, which inputs decided whether it ran or was reused.

explanation = explain(Folders.of(config))          # of the newest run
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.common.errors import RunError
from headrace.common.names import did_you_mean
from headrace.components.contents import UNFINISHED
from headrace.pipeline.cache.differences import LISTING, Difference, differences, manifest_changes
from headrace.pipeline.cache.explanation import ALWAYS_RUNS, UNCHANGED, ComponentExplanation, RunExplanation
from headrace.pipeline.cache_key import KeyInput, KeyParts
from headrace.pipeline.folders import Folders
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status

MAX_RUNS = 100
"""Runs that are searched for a similar execution."""


@dataclass(frozen=True)
class RecordedRun:
    folder: Path
    record: RunRecord

    def node(self, id_: str) -> NodeRecord | None:
        """The record of one component, if the run has it."""
        return next((node for node in self.record.nodes if node.id == id_), None)


@dataclass(frozen=True)
class EarlierExecution:
    """A component whose outputs an earlier run had, and how its key differs from the one in question. unfinished: why
    they were only for that run; "" if they were not.
    """

    run: RecordedRun
    parts: KeyParts
    differences: list[Difference]
    unfinished: str = ""


def explain(folders: Folders, run_id: str | None = None) -> RunExplanation:
    """Explain a run; None for the newest. Raises RunError if there is none."""
    found = runs(folders)
    run = _chosen(found, run_id, folders)
    earlier = found[found.index(run) + 1 :]
    components = [_component(node, run, earlier, folders) for node in run.record.nodes]
    return RunExplanation(run.record.pipeline, run.record.run_id, components)


def runs(folders: Folders) -> list[RecordedRun]:
    """The latest runs with a readable record, newest first."""
    found = list(_readable(folders.runs))
    return sorted(found, key=lambda run: (run.record.started, run.record.run_id), reverse=True)[:MAX_RUNS]


def most_similar(earlier: list[RecordedRun], node: str, parts: KeyParts) -> EarlierExecution | None:
    """The latest of the executions with the fewest differences; None if no run made that component."""
    candidates = [
        EarlierExecution(run, stored, differences(stored, parts), _unfinished(run.node(node)))
        for run in earlier
        for stored in [_parts(run, node)]
        if stored is not None
    ]
    return min(candidates, key=lambda one: len(one.differences), default=None)


def _unfinished(node: NodeRecord | None) -> str:
    outputs = node.outputs.values() if node else ()
    return next((str(one.properties[UNFINISHED]) for one in outputs if UNFINISHED in one.properties), "")


def explain_miss(parts: KeyParts, similar: EarlierExecution | None, folders: Folders) -> list[str]:
    """What decided a cache miss, compared with a similar earlier execution."""
    if similar is None:
        return ["no earlier run with recorded keys made it"]
    if not similar.differences:
        what = similar.unfinished or "its outputs are gone or have changed"
        return [f"the key is the same; {what if parts.reuse else 'the run was started with --fresh'}"]
    before = similar.parts.inputs
    return [
        _describe(difference, before.get(difference.name), parts.inputs.get(difference.name), folders)
        for difference in similar.differences
    ]


def run_of(uri: Path, folders: Folders) -> str:
    """The run that made an artifact, from `artifacts/<node>/<output>/<run>`; "" if it is not one of this pipeline."""
    inside = uri.relative_to(folders.artifacts).parts if uri.is_relative_to(folders.artifacts) else ()
    return inside[2] if len(inside) > 2 else ""


def _component(
    node: NodeRecord, run: RecordedRun, earlier: list[RecordedRun], folders: Folders
) -> ComponentExplanation:
    parts = KeyParts.read(run.folder, node.id)
    if node.status in (Status.SKIPPED, Status.WAITING):
        return ComponentExplanation(node.id, "not run", reasons=[_why_skipped(run)])
    if parts is None and run.record.ended is not None:
        return ComponentExplanation(node.id, "always runs", reasons=[run.record.ended])
    if parts is None:
        reason = "the run recorded no keys: an earlier version of Headrace made it"
        return ComponentExplanation(node.id, "unknown", reasons=[reason])
    if node.status is Status.CACHED:
        made_in = {run_of(Path(output.uri), folders) for output in node.outputs.values()}
        return ComponentExplanation(node.id, "reused", ", ".join(sorted(made_in)), [UNCHANGED])
    if not parts.cacheable:
        return ComponentExplanation(node.id, "always runs", reasons=[ALWAYS_RUNS])
    similar = most_similar(earlier, node.id, parts)
    compared_with = similar.run.record.run_id if similar else ""
    return ComponentExplanation(node.id, "ran", compared_with, explain_miss(parts, similar, folders))


def _describe(difference: Difference, before: KeyInput | None, now: KeyInput | None, folders: Folders) -> str:
    """One difference in words; for an input, what its producer did."""
    if difference.kind != "input" or before is None or now is None:
        return str(difference)
    start = f"input {difference.name} from {now.producer}"
    if before.producer != now.producer:
        return f"{start}: was from {before.producer}"
    changes = manifest_changes(_text(before.uri), _text(now.uri)) if now.producer in LISTING else []
    if changes:
        return f"{start}: {'; '.join(changes)}"
    if before.identity == before.uri or now.identity == now.uri:
        made_in = [run_of(Path(one.uri), folders) for one in (before, now)]
        if made_in[0] == made_in[1]:
            then, here = (_maker(Path(one.uri), folders) for one in (before, now))
            return f"{start}: {then}, now {here}"
        return f"{start}: made by run {made_in[0] or 'none'}, now by run {made_in[1] or 'none'}"
    return f"{start}: its content changed"


def _maker(uri: Path, folders: Folders) -> str:
    """What made an artifact that was handed on: the baseline is the Trainer's model of an earlier run, or "none", an
    empty folder of Baseline itself.
    """
    run = run_of(uri, folders)
    if not run or (uri.is_dir() and not any(uri.iterdir())):
        return "none"
    return f"what {uri.relative_to(folders.artifacts).parts[0]} made in run {run}"


def _text(uri: str) -> str:
    """The content of an output that is text; "" if it is gone."""
    try:
        return Path(uri).read_text(encoding="utf-8")
    except OSError:
        return ""


def _why_skipped(run: RecordedRun) -> str:
    failed = [node.id for node in run.record.nodes if node.status is Status.FAILED]
    if failed:
        return f"{', '.join(failed)} failed"
    return run.record.ended or "the run ended before"


def _chosen(found: list[RecordedRun], id_: str | None, folders: Folders) -> RecordedRun:
    """The run of that id; None for the newest. Raises RunError if there is none."""
    if not found:
        raise RunError(f"there is no run in {folders.runs}; `headrace explain-cache --next` predicts the first one")
    if id_ is None:
        return found[0]
    run = next((run for run in found if run.record.run_id == id_), None)
    if run is None:
        near = did_you_mean(id_, [run.record.run_id for run in found])
        raise RunError(f"there is no run {id_} in {folders.runs}{near}")
    return run


def _parts(run: RecordedRun, node: str) -> KeyParts | None:
    """The key parts of a component whose outputs a run had, whether it made or reused them."""
    record = run.node(node)
    had = record is not None and record.status in (Status.DONE, Status.CACHED)
    return KeyParts.read(run.folder, node) if had else None


def _readable(folder: Path) -> Iterator[RecordedRun]:
    for run_dir in folder.iterdir() if folder.is_dir() else ():
        try:
            yield RecordedRun(run_dir, RunRecord.read(run_dir))
        except (OSError, ValueError, TypeError, KeyError):
            continue
