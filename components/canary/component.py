"""Canary: asks the exported model as a model server would, before it is pushed. TFX's InfraValidator, without a server.

The model is loaded in a fresh process by TensorFlow's C++ loader, warmed up by the requests in its export, and asked
with real examples in each signature: its answers must equal those of TensorFlow's Python, and those that the Trainer
recorded of its model in memory. Odd inputs follow, which it may refuse, but which must not end the process. Latency and
memory are measured, and judged if there are limits. If there is a staging TensorFlow Serving, the same is asked of it.
"""

import contextlib
import itertools
import json
import logging
from pathlib import Path

import tensorflow as tf
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from headrace.components.canary.examination import Limits, Replaying, Staging, examine
from headrace.components.canary.reference import Reference
from headrace.components.canary.replay import Pairs, read_pairs
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.contents import UNFINISHED
from headrace.components.transform.shards import records_of_split
from headrace.configs.schema.deploy import ReplayConfig
from headrace.configs.schema.serving import CanaryServer
from headrace.trainer.answers import RecordedAnswers

logger = logging.getLogger(__name__)

NO_LIMIT = 0.0
BLESSED, NOT_BLESSED = "INFRA_BLESSED", "INFRA_NOT_BLESSED"
"""The marker files of TFX's InfraValidator."""


@component
def Canary(  # noqa: N802, PLR0913, PLR0917
    model: InputArtifact[standard_artifacts.Model],
    examples: InputArtifact[standard_artifacts.Examples],
    blessing: OutputArtifact[standard_artifacts.InfraBlessing],
    example_splits: Parameter[str],
    count: Parameter[int],
    latency_p50_ms: Parameter[float],
    latency_p99_ms: Parameter[float],
    memory_mb: Parameter[float],
    replay: Parameter[str] = "",
    preprocessing: Parameter[str] = "transform_features",
    server: Parameter[str] = "",
    pipeline: Parameter[str] = "",
    transformed_examples: InputArtifact[standard_artifacts.Examples] = None,
    transform_graph: InputArtifact[standard_artifacts.TransformGraph] = None,
    model_run: InputArtifact[standard_artifacts.ModelRun] = None,
) -> None:
    """Examine the exported model.

    Args:
        model: from the Trainer.
        examples: raw ones.
        blessing: a file and a property as those of TFX's InfraValidator, and CanaryVerdict as JSON.
        example_splits: JSON list with the one split that examples are taken from.
        count: how many examples.
        latency_p50_ms: limit of `deploy.canary`; NO_LIMIT for none.
        latency_p99_ms: limit of `deploy.canary`; NO_LIMIT for none.
        memory_mb: limit of `deploy.canary`; NO_LIMIT for none.
        replay: ReplayConfig as JSON; "" for no replay.
        preprocessing: the signature that computes the features of serialized examples.
        server: CanaryServer as JSON; "" for none.
        pipeline: the pipeline's name, if there is a server.
        transformed_examples: what Transform wrote of the raw ones; None if it wrote none.
        transform_graph: from the same Transform.
        model_run: from the Trainer, with the answers of its model in memory.
    """
    with contextlib.suppress(RuntimeError):  # set up before, so there is none to keep free
        tf.config.set_visible_devices([], "GPU")
    (split,) = json.loads(example_splits)
    records = list(itertools.islice(records_of_split(examples, split), count))
    replaying = None
    if replay:
        settings = ReplayConfig.model_validate_json(replay)
        pairs = read_pairs(examples, transformed_examples, transform_graph, split, settings.examples)
        replaying = Replaying(pairs, preprocessing, settings.on_difference == "refuse")
    recorded = None if model_run is None else RecordedAnswers.read(Path(model_run.uri))
    asked = Pairs() if recorded is None else Pairs(why_not=recorded.why_not)
    if recorded is not None and not recorded.why_not:
        asked = read_pairs(examples, transformed_examples, transform_graph, recorded.split, recorded.examples)
    serving = Path(path_utils.serving_model_path(model.uri))
    limits = Limits(latency_p50_ms or None, latency_p99_ms or None, memory_mb or None)
    staging = Staging(CanaryServer.model_validate_json(server), pipeline) if server else None
    reference = Reference(recorded, asked)
    verdict = examine(serving, records, limits, reference=reference, replaying=replaying, staging=staging)
    verdict = verdict.model_copy(update={"split": split})
    verdict.write(Path(blessing.uri))
    (Path(blessing.uri) / (BLESSED if verdict.passed else NOT_BLESSED)).write_text("", encoding="utf-8")
    blessing.set_int_custom_property("blessed", int(verdict.passed))
    if verdict.server is not None and verdict.server.skipped:
        blessing.set_string_custom_property(UNFINISHED, "the staging server did not take part, and is asked again")
    logger.info(describe(verdict))


def describe(verdict: CanaryVerdict) -> str:
    """The verdict in a few lines."""
    lines = ["passed" if verdict.passed else "not passed:", *verdict.reasons]
    for one in verdict.signatures:
        if one.skipped:
            lines.append(f"{one.name}: not asked: {one.skipped}")
            continue
        latency = "" if one.p50_ms is None else f", p50 {one.p50_ms:.2f} ms, p99 {one.p99_ms:.2f} ms"
        odd = json.dumps({answer.what: answer.outcome for answer in one.odd})
        lines.append(f"{one.name}: {one.examples:,} examples{latency}; {odd}")
    if verdict.answers is not None:
        lines.append(f"answers {verdict.answers.words}")
    if verdict.replay is not None:
        lines.append(f"replay {verdict.replay.words}")
    if verdict.server is not None:
        lines.append(f"server {verdict.server.words}")
    return "\n".join(lines)
