"""SchemaGen: infers the schema, also where only some splits have values in a column.

If a column has no values in one split, TFDV assumes that it was removed from the data: it marks the column as
deprecated, so that Transform no longer sees it, or declares it to be text. Here such a split does not count for that
column, and the column's values are optional.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from tensorflow_metadata.proto.v0.schema_pb2 import Schema
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList, FeatureNameStatistics
from tfx import types
from tfx.components.schema_gen import component
from tfx.components.schema_gen.executor import DEFAULT_FILE_NAME
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.dsl.components.base import base_executor, executor_spec
from tfx.types import artifact_utils


def infer_schema(statistics: Sequence[DatasetFeatureStatisticsList]) -> Schema:
    """The schema that TFDV infers from the statistics of all splits, without shapes."""
    present = [
        {_name(feature) for feature in split.datasets[0].features if _num_values(feature)} for split in statistics
    ]
    anywhere = set().union(*present)
    schema: Schema | None = None
    for split, here in zip(statistics, present, strict=True):
        informative = _without(split, anywhere - here)
        if schema is None:
            schema = tfdv.infer_schema(informative, infer_feature_shape=False)
        else:
            before = {feature.name: feature for feature in schema.feature}
            schema = tfdv.update_schema(schema, informative, infer_feature_shape=False)
            for feature in schema.feature:
                if feature.name in anywhere - here:
                    feature.CopyFrom(before[feature.name])
    assert schema is not None  # noqa: S101 - a config has at least two splits
    for feature in schema.feature:
        if feature.name in anywhere and any(feature.name not in here for here in present):
            feature.ClearField("presence")
    return schema


class Executor(base_executor.BaseExecutor):
    """Writes the schema where TFX's executor does."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],  # noqa: ARG002 - TFX passes it
    ) -> None:
        """Write `output_dict["schema"]`, as text, from the statistics of all splits in `input_dict["statistics"]`."""
        statistics = artifact_utils.get_single_instance(input_dict["statistics"])
        splits = artifact_utils.decode_split_names(statistics.split_names)
        loaded = [stats_artifact_utils.load_statistics(statistics, split).proto() for split in splits]
        folder = Path(artifact_utils.get_single_uri(output_dict["schema"]))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DEFAULT_FILE_NAME).write_text(text_format.MessageToString(infer_schema(loaded)), encoding="utf-8")


class SchemaGen(component.SchemaGen):
    """TFX's SchemaGen with the executor above."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)


def _without(statistics: DatasetFeatureStatisticsList, names: set[str]) -> DatasetFeatureStatisticsList:
    copy = DatasetFeatureStatisticsList()
    copy.CopyFrom(statistics)
    features = [feature for feature in copy.datasets[0].features if _name(feature) not in names]
    del copy.datasets[0].features[:]
    copy.datasets[0].features.extend(features)
    return copy


def _name(feature: FeatureNameStatistics) -> str:
    return feature.name or ".".join(feature.path.step)


def _num_values(feature: FeatureNameStatistics) -> int:
    statistics = getattr(feature, feature.WhichOneof("stats"))
    return int(statistics.common_stats.num_non_missing)
