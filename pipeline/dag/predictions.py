"""The components that predict new data at the end of a run."""

from __future__ import annotations

import json

from tfx.dsl.components.base.base_node import BaseNode

from headrace.components.bulk_predictor.around import PredictSpans, PublishPredictions
from headrace.components.bulk_predictor.component import AUTOMATIC, BulkPredictor
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import Components
from headrace.pipeline.code.digest import sources_digest
from headrace.pipeline.folders import Folders

LISTED = {"source", "window", "fingerprint"}
"""The settings of the new data that decide which of it is predicted."""
READ = {"source", "types", "columns", "on_bad_record", "max_bad_fraction"}
"""Those that decide how it is read."""


def predict_spans(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    """The component that lists the new data, once the model that predicts it is in service."""
    if config.predict is None:
        return None
    data = config.predict.data(config.data).model_dump_json(by_alias=True, include=LISTED)
    own = config.predict.source.modules()
    node = PredictSpans(
        as_of=built.spans.outputs["as_of"],
        data=data,
        code=sources_digest("headrace.components.bulk_predictor.publishing", *own),
    )
    node.add_upstream_node(built.pusher or built.record_blessing)
    return node


def bulk_predictor(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    if config.predict is None or built.predict_spans is None:
        return None
    given = config.predict
    return BulkPredictor(
        spans=built.predict_spans.outputs["spans"],
        model=built.record_blessing.outputs["newest"],
        data=given.data(config.data).model_dump_json(by_alias=True, include=READ),
        ending=given.format,
        columns=json.dumps(given.columns),
        prefix=given.prefix,
        batch_size=given.batch_size or AUTOMATIC,
        code=sources_digest("headrace.components.bulk_predictor.component", *given.source.own_modules()),
    )


def publish_predictions(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    if config.predict is None or built.predict_spans is None or built.bulk_predictor is None:
        return None
    return PublishPredictions(
        predictions=built.bulk_predictor.outputs["predictions"],
        model=built.record_blessing.outputs["newest"],
        spans=built.predict_spans.outputs["spans"],
        publish_to=str(folders.predictions(config.predict.output)),
        pushed_model=None if built.pusher is None else built.pusher.outputs["pushed_model"],
    )
