"""The components that predict new data at the end of a run, or in a pipeline that only predicts."""

from __future__ import annotations

import json

from tfx.dsl.components.base.base_node import BaseNode

from headrace.components.bulk_predictor.around import ModelInService, PredictSpans, PublishPredictions
from headrace.components.bulk_predictor.component import AUTOMATIC, BulkPredictor
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import Components
from headrace.pipeline.code.digest import sources_digest
from headrace.pipeline.folders import Folders

LISTED = {"source", "window", "fingerprint", "run_date"}
"""The settings of the new data that decide which of it is predicted."""
READ = {"source", "types", "columns", "on_bad_record", "max_bad_fraction"}
"""Those that decide how it is read."""


def model_in_service(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    """The component that points at the model: after the push, or in a pipeline that trains none."""
    if config.predict is None or not (config.only_predicts or built.pusher):
        return None
    return ModelInService(
        registry=str(folders.registry),
        **_pushes(config, folders),
        **({"pushed_model": built.pusher.outputs["pushed_model"]} if built.pusher else {}),
    )


def _pushes(config: PipelineConfig, folders: Folders) -> dict[str, str]:
    """The record of pushed models, and the folder that a model server watches; "" if nothing is ever pushed."""
    serving = str(folders.pushed(config.push_directory)) if config.push_directory else ""
    return {"push_record": str(folders.push_record), "serving": serving}


def predict_spans(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    """The component that lists the new data, once the model that predicts it is known."""
    if config.predict is None:
        return None
    code = sources_digest("headrace.components.bulk_predictor.publishing", *config.predict.source.modules())
    data = config.predict.data(config.data)
    if config.only_predicts:
        data = data.model_copy(update={"run_date": config.data.run_date})
        return PredictSpans(data=data.model_dump_json(by_alias=True, include=LISTED), code=code)
    node = PredictSpans(
        data=data.model_dump_json(by_alias=True, include=LISTED), code=code, as_of=built.spans.outputs["as_of"]
    )
    node.add_upstream_node(_model(built))
    return node


def _model(built: Components) -> BaseNode:
    """The component whose output `newest` is the model."""
    return built.model_in_service or built.record_blessing


def bulk_predictor(config: PipelineConfig, built: Components, _folders: Folders) -> BaseNode | None:
    if config.predict is None or built.predict_spans is None:
        return None
    given = config.predict
    return BulkPredictor(
        spans=built.predict_spans.outputs["spans"],
        model=_model(built).outputs["newest"],
        data=given.data(config.data).model_dump_json(by_alias=True, include=READ),
        ending=given.format,
        columns=json.dumps(given.columns),
        prefix=given.prefix,
        probabilities=given.probabilities,
        batch_size=given.batch_size or AUTOMATIC,
        code=sources_digest("headrace.components.bulk_predictor.component", *given.source.own_modules()),
    )


def publish_predictions(config: PipelineConfig, built: Components, folders: Folders) -> BaseNode | None:
    if config.predict is None or built.predict_spans is None or built.bulk_predictor is None:
        return None
    known = built.model_in_service
    return PublishPredictions(
        predictions=built.bulk_predictor.outputs["predictions"],
        model=_model(built).outputs["newest"],
        spans=built.predict_spans.outputs["spans"],
        publish_to=str(folders.predictions(config.predict.output)),
        **({"version": known.outputs["version"], **_pushes(config, folders)} if known else {}),
    )
