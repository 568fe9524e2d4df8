"""The artifacts of two runs, beside each other."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.components.evaluation_result import FILE_NAME, Metrics, read_evaluation
from headrace.pipeline.kubeflow.verify.graphs import same_graph

TOLERANCE = 1e-4
"""Relative, and below 1 absolute, of metrics: training sums in an order that threads decide."""
BY_NAMES = frozenset({"Model", "ModelRun", "PushedModel", "ModelBlessing"})
"""Types whose files may differ in bytes: of these the names must be equal, and the metrics tell the rest."""

GRAPH_FILE = "transform_fn/saved_model.pb"
GRAPH = frozenset({GRAPH_FILE, "transform_fn/fingerprint.pb"})
"""Files that are never equal in bytes, as TensorFlow Transform numbers its nodes anew each time."""


@dataclass(frozen=True)
class Line:
    """What was found of one output, or of a component where `output` is "". `same`: as it should be; `what`: how it was
    compared, or how they differ.
    """

    component: str
    output: str
    same: bool
    what: str

    def __str__(self) -> str:
        name = f"{self.component}.{self.output}" if self.output else self.component
        return f"{'same' if self.same else 'DIFFERENT':<10}{name}: {self.what}"


def skipped(component: str, *, here: bool, there: bool) -> Line:
    """A component that did not run in one of the two, or in both, as there was no reason to."""
    where = "skipped in both" if here and there else "skipped here, and ran there" if here else "ran, and skipped there"
    return Line(component, "", here and there, where)


def texts(component: str, output: str, local: str, cluster: str) -> Line:
    """Outputs that are texts."""
    return Line(
        component, output, local == cluster, "text" if local == cluster else f"{local!r}, and {cluster!r} there"
    )


def folders(component: str, output: str, type_: str, local: Path, cluster: Path) -> Line:
    """Outputs that are folders."""
    if type_ == "ModelEvaluation":
        return _evaluations(component, output, local, cluster)
    ours, theirs = _files(local), _files(cluster)
    if type_ == "PushedModel":
        ours, theirs = _below_version(ours), _below_version(theirs)
    if ours.keys() != theirs.keys():
        odd = sorted(ours.keys() ^ theirs.keys())
        return Line(component, output, False, f"only in one of the two: {', '.join(odd[:5])}")
    unequal = [name for name, path in ours.items() if not _same_bytes(path, theirs[name])]
    if type_ == "TransformGraph" and set(unequal) <= GRAPH and same_graph(ours[GRAPH_FILE], theirs[GRAPH_FILE]):
        return Line(component, output, True, f"{len(ours)} files, byte for byte; the graph node for node")
    if unequal and type_ not in BY_NAMES:
        return Line(component, output, False, f"{len(unequal)} of {len(ours)} files differ: {', '.join(unequal[:5])}")
    how = f"{len(unequal)} differ in bytes" if unequal else "byte for byte"
    return Line(component, output, True, f"{len(ours)} files, {how}")


def properties(component: str, output: str, local: Mapping[str, object], cluster: Mapping[str, object]) -> Line | None:
    """The properties of both, but for paths; None if they are equal."""
    names = sorted(local.keys() | cluster.keys())
    differing = [name for name in names if not _agree(local.get(name), cluster.get(name))]
    return Line(component, output, False, f"properties differ: {', '.join(differing)}") if differing else None


def _agree(ours: object, theirs: object) -> bool:
    """Equal; or both paths; or JSON lists of the same, as TFX keeps the names of splits in sets."""
    if ours == theirs or (_is_place(ours) and _is_place(theirs)):
        return True
    lists = [json.loads(one) for one in (ours, theirs) if isinstance(one, str) and one[:1] in ("[", "{")]
    return len(lists) == 2 and _sorted(lists[0]) == _sorted(lists[1])


def _sorted(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, list) else value


def _is_place(value: object) -> bool:
    return isinstance(value, str) and (value.startswith("/") or "://" in value)


def _files(folder: Path) -> dict[str, Path]:
    """TensorBoard's event files are named after the time and the process."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {re.sub(r"(events\.out\.tfevents).*", r"\1", name): path for name, path in files.items()}


def _same_bytes(ours: Path, theirs: Path) -> bool:
    """Packed files may hold the same in other bytes (components/example_gen/packing.py)."""
    one, other = ours.read_bytes(), theirs.read_bytes()
    return one == other or (ours.suffix == ".gz" and gzip.decompress(one) == gzip.decompress(other))


def _below_version(files: Mapping[str, Path]) -> dict[str, Path]:
    return {
        name.partition("/")[2] if name.partition("/")[0].isdecimal() else name: path for name, path in files.items()
    }


def _evaluations(component: str, output: str, local: Path, cluster: Path) -> Line:
    if not (cluster / FILE_NAME).exists():
        return Line(component, output, False, f"no {FILE_NAME} there")
    ours, theirs = read_evaluation(local), read_evaluation(cluster)
    apart = [_apart(ours.metrics, theirs.metrics)]
    slices = {one.name: one.metrics for one in theirs.slices}
    apart += [_apart(one.metrics, slices.get(one.name, {})) for one in ours.slices]
    most = max(apart)
    same = most <= TOLERANCE and (ours.blessed, ours.example_count) == (theirs.blessed, theirs.example_count)
    same = same and slices.keys() == {one.name for one in ours.slices}
    what = f"{len(ours.metrics)} metrics in {len(apart)} slices, at most {most:.2g} apart (tolerance {TOLERANCE:g})"
    return Line(component, output, same, f"{what}; blessed: {ours.blessed}, and {theirs.blessed} there")


def _apart(ours: Metrics, theirs: Metrics) -> float:
    """The greatest distance of two values of one metric; infinite if one has a metric that the other has not."""
    if ours.keys() != theirs.keys():
        return math.inf
    pairs = [(value, theirs[name]) for name, value in ours.items()]
    if any((one is None) != (other is None) for one, other in pairs):
        return math.inf
    return max((abs(a - b) / max(1.0, abs(a)) for a, b in pairs if a is not None and b is not None), default=0.0)
