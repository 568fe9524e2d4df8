"""The comparison of the outputs of a local run with those of a run as compiled.

Most outputs must be equal byte for byte. A transform graph must have the same nodes: TensorFlow Transform numbers its
nodes in an order that differs from run to run, and puts into the names of tables its temporary folder, or how many
objects the process had created before. So a node is identified here by its operation, its attributes and the nodes that
feed it, and a function by its nodes. Models may differ in bytes, and are compared by their metrics.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2

from headrace.components.bulk_predictor.artifact import Predictions
from headrace.components.evaluation.result import FILE_NAME, Metrics, read_evaluation
from headrace.components.examples import column_files
from headrace.pipeline.kubeflow.pod.origin import MADE_FROM
from headrace.pipeline.kubeflow.verify.predictions import compare_predictions
from headrace.pipeline.kubeflow.verify.tables import compare_tables

TOLERANCE = 1e-4
"""Of metrics, relative, and absolute below 1: the order in which training sums depends on threads."""
BY_NAMES = frozenset({"Model", "ModelRun", "PushedModel", "ModelBlessing", "InfraBlessing"})
"""Types whose files may differ in bytes: the names must be equal, and the metrics show the rest."""
GRAPH_FILE = "transform_fn/saved_model.pb"
GRAPH = frozenset({GRAPH_FILE, "transform_fn/fingerprint.pb"})
"""Files that are never equal in bytes."""
TEMPORARY = re.compile(rb"[^' ]*/(tftransform_tmp/[0-9a-f]+|\.temp_path/vocabularies)/")
"""Folders of vocabularies, in the shared names of their tables: TFT's, and those of our own analysis."""
NUMBERED = re.compile(rb"\d+")
"""The shared name of a table whose values are in the graph: a number from a counter of the process."""
NAMES = frozenset({"_gradient_op_type", "_class", "config_proto", "_user_specified_name"})
"""Attributes with names of nodes, or with settings of the machine."""
_PREDICTIONS = {"InferenceResult": compare_predictions, Predictions.TYPE_NAME: compare_tables}
"""How predictions are compared, by type: those of TFX's BulkInferrer, and our own."""


@dataclass(frozen=True)
class OutputComparison:
    """The result for one output, or for a whole component if `output` is "".

    same: whether the two are as equal as they should be; what: how they were compared, or how they differ.
    """

    component: str
    output: str
    same: bool
    what: str

    def __str__(self) -> str:
        name = f"{self.component}.{self.output}" if self.output else self.component
        return f"{'same' if self.same else 'DIFFERENT':<10}{name}: {self.what}"


def skipped(component: str, *, here: bool, there: bool) -> OutputComparison:
    """A component that one run, or both, skipped. here: the local run; there: the run as compiled."""
    where = "skipped in both" if here and there else "skipped here, ran there" if here else "ran here, skipped there"
    return OutputComparison(component, "", here and there, where)


def texts(component: str, output: str, local: str, cluster: str) -> OutputComparison:
    what = "text" if local == cluster else f"{local!r} here, {cluster!r} there"
    return OutputComparison(component, output, local == cluster, what)


def folders(component: str, output: str, type_: str, local: Path, cluster: Path) -> OutputComparison:
    """Compare outputs that are folders. type_: the artifact's type."""
    if type_ == "ModelEvaluation":
        return _evaluations(component, output, local, cluster)
    if (compare := _PREDICTIONS.get(type_)) is not None:
        predictions = compare(local, cluster, TOLERANCE)
        return OutputComparison(component, output, predictions.same, predictions.what)
    ours, theirs = _files(local), _files(cluster)
    if type_ == "PushedModel":
        ours, theirs = _below_version(ours), _below_version(theirs)
    if ours.keys() != theirs.keys():
        only_in_one = sorted(ours.keys() ^ theirs.keys())
        return OutputComparison(component, output, False, f"only in one of the two runs: {', '.join(only_in_one[:5])}")
    unequal = [name for name, path in ours.items() if not _same_bytes(path, theirs[name])]
    if type_ == "TransformGraph" and set(unequal) <= GRAPH and same_graph(ours[GRAPH_FILE], theirs[GRAPH_FILE]):
        return OutputComparison(component, output, True, f"{len(ours)} files, byte for byte; the graph node for node")
    if unequal and type_ not in BY_NAMES:
        return OutputComparison(
            component, output, False, f"{len(unequal)} of {len(ours)} files differ: {', '.join(unequal[:5])}"
        )
    how = f"the same names; {len(unequal)} differ in bytes, as they may" if unequal else "byte for byte"
    return OutputComparison(component, output, True, f"{len(ours)} files, {how}")


def properties(
    component: str, output: str, local: Mapping[str, object], cluster: Mapping[str, object]
) -> OutputComparison | None:
    """Compare properties; None if they are equal apart from paths, and from what only pods note."""
    names = sorted((local.keys() | cluster.keys()) - {MADE_FROM})
    differing = [name for name in names if not _agree(local.get(name), cluster.get(name))]
    return (
        OutputComparison(component, output, False, f"properties differ: {', '.join(differing)}") if differing else None
    )


def _agree(ours: object, theirs: object) -> bool:
    """Whether two values are equal, or both paths, or JSON lists of the same items: TFX stores sets of split names."""
    if ours == theirs or (_is_location(ours) and _is_location(theirs)):
        return True
    lists = [json.loads(one) for one in (ours, theirs) if isinstance(one, str) and one[:1] in ("[", "{")]
    return len(lists) == 2 and _sorted(lists[0]) == _sorted(lists[1])


def _sorted(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, list) else value


def _is_location(value: object) -> bool:
    return isinstance(value, str) and (value.startswith("/") or "://" in value)


def _files(folder: Path) -> dict[str, Path]:
    """Name to path. The names of TensorBoard's event files, which contain time and process, are shortened."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {re.sub(r"(events\.out\.tfevents).*", r"\1", name): path for name, path in files.items()}


def _same_bytes(ours: Path, theirs: Path) -> bool:
    """Whether two files have the same content. Gzip files may differ in bytes (components/examples/compression.py)."""
    one, other = ours.read_bytes(), theirs.read_bytes()
    if ours.name.endswith(f".gz{column_files.SUFFIX}"):
        return column_files.without_footer(one) == column_files.without_footer(other)
    return one == other or (ours.suffix == ".gz" and gzip.decompress(one) == gzip.decompress(other))


def _below_version(files: Mapping[str, Path]) -> dict[str, Path]:
    return {
        name.partition("/")[2] if name.partition("/")[0].isdecimal() else name: path for name, path in files.items()
    }


def _evaluations(component: str, output: str, local: Path, cluster: Path) -> OutputComparison:
    if not (cluster / FILE_NAME).exists():
        return OutputComparison(component, output, False, f"the run as compiled has no {FILE_NAME}")
    ours, theirs = read_evaluation(local), read_evaluation(cluster)
    distances = [_distance(ours.metrics, theirs.metrics)]
    slices = {one.name: one.metrics for one in theirs.slices}
    distances += [_distance(one.metrics, slices.get(one.name, {})) for one in ours.slices]
    largest = max(distances)
    same = largest <= TOLERANCE and (ours.blessed, ours.example_count) == (theirs.blessed, theirs.example_count)
    same = same and slices.keys() == {one.name for one in ours.slices}
    what = (
        f"{len(ours.metrics)} metrics in {len(distances)} slices, at most {largest:.2g} apart (tolerance {TOLERANCE:g})"
    )
    return OutputComparison(component, output, same, f"{what}; blessed: {ours.blessed} here, {theirs.blessed} there")


def _distance(ours: Metrics, theirs: Metrics) -> float:
    """The largest difference of a metric's two values; infinite if one run has a metric that the other lacks."""
    if ours.keys() != theirs.keys():
        return math.inf
    pairs = [(value, theirs[name]) for name, value in ours.items()]
    if any((one is None) != (other is None) for one, other in pairs):
        return math.inf
    return max((abs(a - b) / max(1.0, abs(a)) for a, b in pairs if a is not None and b is not None), default=0.0)


def same_graph(ours: Path, theirs: Path) -> bool:
    """Whether two `saved_model.pb` contain the same graph, whatever the names and the order of its nodes."""
    return _digests(ours) == _digests(theirs)


def _digests(path: Path) -> Counter[str]:
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    found: Counter[str] = Counter()
    for meta in model.meta_graphs:
        graph = meta.graph_def
        functions = _functions(graph.library.function)
        found.update(_nodes(graph.node, functions))
        found.update(functions.values())
    return found


def _functions(functions: Iterable[Any]) -> dict[str, str]:
    """Function name to digest. Functions are digested after those that they call."""
    named = {function.signature.name: function for function in functions}
    calls = {name: _called(function, named) for name, function in named.items()}
    digests: dict[str, str] = {}
    for name in TopologicalSorter(calls).static_order():
        digests[name] = _digest(sorted(_nodes(named[name].node_def, digests)))
    return digests


def _called(function: Any, named: Mapping[str, Any]) -> set[str]:
    values = [value for node in function.node_def for value in node.attr.values()]
    listed = [one.name for value in values for one in value.list.func]
    return {name for name in [*(value.func.name for value in values), *listed] if name in named}


def _nodes(nodes: Iterable[Any], functions: Mapping[str, str]) -> list[str]:
    named = {node.name: node for node in nodes}
    feeds = {name: {_source(one) for one in node.input} & named.keys() for name, node in named.items()}
    digests: dict[str, str] = {}
    for name in TopologicalSorter(feeds).static_order():
        node = named[name]
        inputs = [digests.get(_source(one), "an argument") + one.partition(":")[2] for one in node.input]
        compared = [key for key in sorted(node.attr) if key not in NAMES and not _is_numbered(key, node.attr[key])]
        attributes = [(key, _attribute(node.attr[key], functions)) for key in compared]
        digests[name] = _digest([node.op, inputs, attributes])
    return list(digests.values())


def _is_numbered(key: str, value: Any) -> bool:
    return key == "shared_name" and NUMBERED.fullmatch(value.s) is not None


def _source(name: str) -> str:
    """The node that an input comes from: inputs are spelled `^node` (control) or `node:output`."""
    return name.removeprefix("^").partition(":")[0]


def _attribute(value: Any, functions: Mapping[str, str]) -> str:
    called = [value.func.name, *(one.name for one in value.list.func)]
    if any(called):
        return _digest([functions.get(name, name) for name in called])
    return _digest([TEMPORARY.sub(b"", value.SerializeToString(deterministic=True)[_length(value) :])])


def _length(value: Any) -> int:
    """Bytes before the content of a string value. They encode its length, which varies with the temporary folder."""
    return len(value.SerializeToString()) - len(value.s) if value.s else 0


def _digest(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
