"""What two runs over the same data must have in common in each file of their outputs.

of_calm = compared(Path("calm"), path, "Canary/blessing/verdict.json")
assert compared(Path("killed"), other, "Canary/blessing/verdict.json") == of_calm

Most files are the same byte for byte. Of JSON, only what VARYING names is left out, and folders, runs and versions are
replaced by words. A SavedModel's variables are compared by value.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import tensorflow as tf

NOT_COMPARED = re.compile(
    r"Spans/(go|why)/|Drift/|Trainer/model_run/(?!.*\.h5)|ProfileVerdict/|ProfileGate/"
    r"|.*/(saved_model\.pb|fingerprint\.pb|best_hyperparameters\.txt)|(?!Transform/).*variables/variables\.data.*"
)
"""Outputs that differ from run to run: reasons to train, measurements, graphs in which the order of the nodes varies,
and the file that a SavedModel's `variables.index` leads to."""
VARIABLES = re.compile(r"(?!Transform/).*variables/variables\.index")
JSON = re.compile(
    r"(Spans|PredictSpans)/spans/|ServingLog/|DataVerdict/|Canary/.*verdict\.json|Lite/.*report\.json|PublishPredictions/"
    r"|Record(Blessing|Training)/entry|.*/(origin|eval_config)\.json"
)
VARYING = {
    "mark": "the time of a file",
    "fingerprint": "of files and their times",
    "work": "a digest of what the fingerprint is in",
    "load_seconds": "a time",
    "p50_ms": "a latency",
    "p99_ms": "a latency",
    "memory_bytes": "a measurement",
    "blessed_at": "a time",
    "judged_at": "a time",
    "contents": "a checksum of a graph too, or of a converted one",
    "saved_model_size": "of a graph",
    "changed": "whether an earlier run had published the same",
    "detail": "which of an odd request's errors TensorFlow, whose threads race, met first",
}
"""Names in JSON whose values differ from run to run, and what they are."""
OF_THE_BLESSED = "gates.drift.blessed"
"""The gate that compares with the model blessed last. The night's own run may have ended with its blessing, before
which there may be none, so what the gate found is not compared."""
_NAMED = (
    (re.compile(r"\b\d{8}-\d{6}(-\d+)?\b"), "<run>"),
    (re.compile(r"\b1\d{9}\b"), "<version>"),
    (re.compile(r'(?<="what": ")[\d,]+ rows(?=")'), "<many> rows"),
)
"""What stands for names that differ from run to run, and for the rows of the canary's largest request, which are as
many as the model answers in time."""
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def compared(folder: Path, path: Path, name: str) -> object:
    """What is compared of a file. folder: of the pipeline; name: `<component>/<output>/<file>`; None for nothing."""
    if NOT_COMPARED.match(name):
        return None
    if VARIABLES.match(name):
        return variables(path.with_suffix(""))
    content = path.read_bytes()
    if JSON.match(name) and content.startswith(b"{"):
        return without_varying(json.loads(_renamed(content.decode(), folder)))
    return _renamed(content.decode(), folder) if name.startswith("ModelInService/version") else content


def variables(prefix: Path) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Type, shape and bytes of each tensor of a checkpoint, in an order that does not depend on their names: those of a
    SavedModel's variables are numbered in the order of its graph.
    """
    reader = tf.train.load_checkpoint(str(prefix))
    kept = sorted(reader.get_variable_to_shape_map().keys() - {_OBJECT_GRAPH})
    tensors = (reader.get_tensor(name) for name in kept)
    return sorted((str(one.dtype), one.shape, one.tobytes()) for one in tensors)


def _renamed(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "<folder>")
    for pattern, word in _NAMED:
        text = pattern.sub(word, text)
    return text


def without_varying(value: Any) -> Any:
    """What JSON says, but for what VARYING names."""
    if isinstance(value, list):
        return [without_varying(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("gate") == OF_THE_BLESSED:
        return {name: value[name] for name in ("gate", "on_anomaly")}
    return {name: without_varying(each) for name, each in value.items() if name not in VARYING}
