"""Which inputs decided a hit or a miss, component by component, of a local run.

explanation = explain(Folders.of(config))          # of the newest run
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.pipeline.cache.differences import Difference
from headrace.pipeline.cache.history import Execution, Run, chosen, most_similar, runs
from headrace.pipeline.cache.manifests import changes
from headrace.pipeline.cache.parts import Input, KeyParts
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.record import NodeRecord, Status

Result = Literal["reused", "ran", "always runs", "not run", "unknown", "would be reused", "would run"]

LOOKS = "it looks at the world outside; what follows goes by its content"
SAME = "nothing that it depends on differs"


@dataclass(frozen=True)
class Explained:
    """One component. `run`: the run that it was reused from, or that it was held against; `reasons`: what decided."""

    component: str
    result: Result
    run: str = ""
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Explanation:
    """All components. `run`: the run in question; "" for the next one."""

    pipeline: str
    run: str
    components: list[Explained]


def explain(folders: Folders, run_id: str | None = None) -> Explanation:
    """Of a run; None: the newest. Raises RunError if there is none."""
    found = runs(folders)
    run = chosen(found, run_id, folders)
    earlier = found[found.index(run) + 1 :]
    return Explanation(
        run.record.pipeline, run.record.run_id, [_explained(node, run, earlier, folders) for node in run.record.nodes]
    )


def _explained(node: NodeRecord, run: Run, earlier: list[Run], folders: Folders) -> Explained:
    parts = KeyParts.read(run.folder, node.id)
    if node.status in (Status.SKIPPED, Status.WAITING):
        return Explained(node.id, "not run", reasons=[_why_skipped(run)])
    if parts is None and run.record.ended is not None:
        return Explained(node.id, "always runs", reasons=[run.record.ended])
    if parts is None:
        return Explained(node.id, "unknown", reasons=["the run kept nothing of its keys: it is of an earlier version"])
    if node.status is Status.CACHED:
        made_in = {run_of(Path(output.uri), folders) for output in node.outputs.values()}
        return Explained(node.id, "reused", ", ".join(sorted(made_in)), [SAME])
    if not parts.cacheable:
        return Explained(node.id, "always runs", reasons=[LOOKS])
    similar = most_similar(earlier, node.id, parts)
    return Explained(node.id, "ran", similar.run.record.run_id if similar else "", why(parts, similar, folders))


def why(parts: KeyParts, similar: Execution | None, folders: Folders) -> list[str]:
    """What decided a miss. similar: the kept execution that is held against."""
    if similar is None:
        return ["no earlier run made it, as far as their keys are kept"]
    if not similar.differences:
        what = "its outputs are gone or changed" if parts.reuse else "--fresh was given"
        return [f"the key is the same; {what}"]
    before = similar.parts.inputs
    return [told(one, before.get(one.name), parts.inputs.get(one.name), folders) for one in similar.differences]


def told(difference: Difference, before: Input | None, now: Input | None, folders: Folders) -> str:
    """One difference in words; of inputs, what their producer did."""
    if difference.kind != "input" or before is None or now is None:
        return str(difference)
    start = f"input {difference.name} from {now.producer}"
    if before.producer != now.producer:
        return f"{start}: was from {before.producer}"
    found = changes(_text(before.uri), _text(now.uri)) if now.producer == "Spans" else []
    if found:
        return f"{start}: {'; '.join(found)}"
    made_in = [run_of(Path(one.uri), folders) for one in (before, now)]
    if before.identity == before.uri or now.identity == now.uri:
        return f"{start}: of run {made_in[0] or 'none'}, now of run {made_in[1] or 'none'}"
    return f"{start}: its content changed"


def _text(uri: str) -> str:
    """What an output that is a text says; "" where it is gone."""
    try:
        return Path(uri).read_text(encoding="utf-8")
    except OSError:
        return ""


def run_of(uri: Path, folders: Folders) -> str:
    """The run that made an artifact: `artifacts/<node>/<output>/<run>`; "" where it is none of the pipeline's."""
    inside = uri.relative_to(folders.artifacts).parts if uri.is_relative_to(folders.artifacts) else ()
    return inside[2] if len(inside) > 2 else ""


def _why_skipped(run: Run) -> str:
    failed = [one.id for one in run.record.nodes if one.status is Status.FAILED]
    if failed:
        return f"{', '.join(failed)} failed"
    return run.record.ended or "the run ended before"
