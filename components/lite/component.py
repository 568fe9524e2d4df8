"""Lite: converts the exported model for LiteRT, and compares the two on real examples, before the model is pushed.

A model whose file differs too much is not blessed, like one that fails its canary. The Pusher puts the file beside the
version.
"""

import contextlib
import itertools
import json
import logging
from pathlib import Path

import tensorflow as tf
from tfx.components.util.model_utils import is_infra_validated
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from headrace.common.errors import RunError
from headrace.components.canary.component import BLESSED, NOT_BLESSED
from headrace.components.lite.comparison import examine
from headrace.components.lite.verdict import LiteVerdict
from headrace.components.transform.shards import records_of_split
from headrace.configs.schema.deploy import LiteConfig

logger = logging.getLogger(__name__)

CANARY_FAILED = "the model failed its canary"


@component
def Lite(  # noqa: N802
    model: InputArtifact[standard_artifacts.Model],
    examples: InputArtifact[standard_artifacts.Examples],
    blessing: OutputArtifact[standard_artifacts.InfraBlessing],
    settings: Parameter[str],
    example_splits: Parameter[str],
    canary: InputArtifact[standard_artifacts.InfraBlessing] = None,
) -> None:
    """Convert the exported model, and compare.

    Args:
        model: from the Trainer.
        examples: raw ones.
        blessing: the `.tflite` file and LiteVerdict as JSON; whether the model passed this and its canary, as a file
            and a property like those of TFX's InfraValidator.
        settings: LiteConfig as JSON.
        example_splits: JSON list: the split of the comparison, and that of the representative examples.
        canary: the Canary's verdict; None if there is no canary. A model that it refuses is not converted.
    """
    lite, folder = LiteConfig.model_validate_json(settings), Path(blessing.uri)
    evaluated, train = json.loads(example_splits)
    if canary is not None and not is_infra_validated(canary):
        verdict = LiteVerdict(precision=lite.precision, skipped=CANARY_FAILED)
    else:
        with contextlib.suppress(RuntimeError):  # set up before, so there is none to keep free
            tf.config.set_visible_devices([], "GPU")
        records = list(itertools.islice(records_of_split(examples, evaluated), lite.examples))
        if not records:
            raise RunError(f"deploy.lite: the split {evaluated} has no examples to compare the file with")
        number = lite.representative if lite.precision == "int8" else 0
        ranges = list(itertools.islice(records_of_split(examples, train), number)) if number else []
        serving = Path(path_utils.serving_model_path(model.uri))
        verdict = examine(serving, lite, records, ranges, folder).model_copy(update={"split": evaluated})
    verdict.write(folder)
    (folder / (BLESSED if verdict.passed else NOT_BLESSED)).write_text("", encoding="utf-8")
    blessing.set_int_custom_property("blessed", int(verdict.passed))
    logger.info("\n".join([verdict.words, verdict.skipped, *verdict.reasons]).strip())
