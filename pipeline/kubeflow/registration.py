"""Registers pushed versions from the Pusher's pod, from what the runs left in the object store.

register_pushed(invocation.registration, "s3://bucket/root/taxi", store)
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.common.errors import HeadraceError, RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.model_registry import ModelRegistries, filled
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_lineage import Origins
from headrace.pipeline.kubeflow.stored_models import StoredHome
from headrace.pipeline.models.origin import Origin
from headrace.pipeline.registration.register import register
from headrace.pipeline.registration.versions import PushedVersion, Shelf, facts_of, finite, state_of

logger = logging.getLogger(__name__)

_NEWEST = 50
"""How many of the newest models have their spans looked for among the trainings, if no record beside them has these."""
_MINIO = "minio://"


def registration(config: PipelineConfig) -> Mapping[str, Any]:
    """What versions are registered with, as it is compiled for the Pusher's pod; empty without `deploy.registry`."""
    if config.deploy.registry is None:
        return {}
    registries = config.deploy.registry.model_dump(mode="json")
    return {"registries": registries, "pipeline": config.pipeline.name, "push": config.push_directory}


def register_pushed(given: Mapping[str, Any], home: str, store: Store, environ: Mapping[str, str] = os.environ) -> None:
    """Register what is in `deploy.push`. What prevents that is logged: the push itself succeeded.

    given: what `registration` returned; home: URI of the pipeline's folder.
    """
    pipeline, push = str(given["pipeline"]), str(given["push"])
    try:
        registries = ModelRegistries.model_validate(given["registries"])
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            stored = StoredHome(home, push, store, Path(folder))
            shelf = stored_shelf(stored, registries, pipeline, home, push)
            for one in register(registries, pipeline, shelf, environ):
                if one.added:
                    logger.info(f"registry: {one}")
    except (HeadraceError, OSError, ValueError) as error:
        logger.warning(f"deploy.registry: no version is registered: {error}; the next run tries again")


def stored_shelf(home: StoredHome, registries: ModelRegistries, pipeline: str, uri: str, push: str) -> Shelf:
    """The folder `deploy.push` in the object store. uri: that of the pipeline's folder, `home`.

    Raises RunError if `blessed.json` or `pushed.json` is damaged, OSError if the store fails.
    """
    at = filled(registries.source, pipeline).rstrip("/") if registries.source else readable(f"{uri}/{push}")
    models = home.models()
    pushed = {number: model for model in models if model.run for number in model.versions}
    every = [number for model in models for number in model.versions]
    states = {
        number: state_of(number, every, withdrawn=model.withdrawn_at is not None) for number, model in pushed.items()
    }
    origins = Origins(home, _NEWEST)

    def describe(number: int) -> PushedVersion:
        model = home.judged(pushed[number])
        try:
            origin = origins.of(model)
        except RunError as error:  # the record of a model is damaged, which keeps no version from being registered
            logger.warning(f"deploy.registry: version {number} is registered without where it comes from: {error}")
            origin = Origin(model)
        base = f"{uri}/{origin.started_from}" if origin.started_from else None
        return PushedVersion(
            number=number,
            model=model.uri,
            source=f"{at}/{number}",
            state=states[number],
            run=model.run,
            trained=model.trained,
            metrics=finite(model.metrics),
            facts=facts_of(origin, pipeline, number, {"model": model.uri, "started_from": base}),
        )

    return Shelf(at, states, describe)


def readable(uri: str) -> str:
    """A URI as other programs read it: `minio://` is Kubeflow's own word for its S3-compatible store."""
    return f"s3://{uri.removeprefix(_MINIO)}" if uri.startswith(_MINIO) else uri
