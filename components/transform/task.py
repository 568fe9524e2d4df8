"""What Transform's analysis is given, whichever way it is computed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils
from tfx.utils import json_utils
from tfx_bsl.tfxio import tf_example_record

from headrace.components.span_analysis import AnalysisCache
from headrace.components.spans import shared_spans


@dataclass(frozen=True)
class AnalysisTask:
    """The examples to analyze, and where the graph goes."""

    files: list[str]
    """The shards."""
    schema: schema_pb2.Schema
    """Of the examples."""
    properties: dict[str, Any]
    """Of the execution."""
    graph: str
    """The folder of the transform graph."""
    keys: dict[str, str]
    """The key of each span, by its name; empty if the examples have no spans."""

    @property
    def temporary(self) -> str:
        """The folder for temporary files, which workers can read and write too."""
        return f"{self.graph}/.temp_path"

    @property
    def custom_config(self) -> dict[str, Any]:
        """The arguments of the preprocessing_fn."""
        config: dict[str, Any] = json_utils.loads(self.properties["custom_config"])
        return config

    @property
    def by_span(self) -> bool:
        """Whether the analysis of each span is stored."""
        return bool(self.keys and self.properties.get("store"))

    def cache(self) -> AnalysisCache:
        """The stored analyses of the spans."""
        return AnalysisCache(Path(self.properties["store"]), self.identity(), self.keys, shared_spans.current())

    def type_specs(self) -> dict[str, tf.TypeSpec]:
        """The types of the data columns, as the preprocessing_fn receives them."""
        tfxio = tf_example_record.TFExampleRecord("", schema=self.schema)
        specs: dict[str, tf.TypeSpec] = tfxio.TensorAdapter().OriginalTypeSpecs()
        return specs

    def identity(self) -> str:
        """What the stored analysis of a span depends on, apart from the span and the analyzers, which have keys."""
        sources = {name: text for name, text in self.custom_config.items() if name != "config"}
        spec = schema_utils.schema_as_feature_spec(self.schema).feature_spec
        splits = self.properties.get("splits_config")
        return json.dumps([self.properties["code"], sources, str(sorted(spec.items())), splits], sort_keys=True)
