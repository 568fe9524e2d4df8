"""The TensorFlow Serving of `deploy.serving`, from the Pusher's pod, and after a promotion or rollback on Kubeflow.

serve_pushed(invocation.serving, "s3://bucket/root/taxi", store)
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.common.errors import RunError
from headrace.common.storage.paths import is_remote
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.serving import ServingConfig
from headrace.pipeline.kubeflow.registration import readable
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_models import StoredHome
from headrace.pipeline.production.serve import ModelService, PushedModel, bring_up

logger = logging.getLogger(__name__)


def serving(config: PipelineConfig) -> Mapping[str, Any]:
    """What the server is brought up with, as it is compiled for the Pusher's pod; empty without `deploy.serving`."""
    if config.deploy.serving is None:
        return {}
    settings = config.deploy.serving.model_dump(mode="json")
    return {"serving": settings, "pipeline": config.pipeline.name, "push": config.push_directory}


def serve_pushed(given: Mapping[str, Any], home: str, store: Store, *, from_pod: bool = True) -> None:
    """Bring the server to the state of `deploy.push` in the object store. Raises RunError if it has not loaded the
    version in service.

    given: what `serving` returned; home: URI of the pipeline's folder; from_pod: whether the server must be reached, as
    it is from the Pusher's pod, and may not be from elsewhere.
    """
    settings = ServingConfig.model_validate(given["serving"])
    if not from_pod and settings.config_file is not None and not is_remote(settings.config_file):
        logger.warning(f"serving: {settings.config_file} is a file of the Pusher's pod, so the next run changes it")
        settings = settings.model_copy(update={"config_file": None, "labels": False, "base_path": None})
    service = _service(home, str(given["push"]), store)
    if service is None:
        return
    outcome = bring_up(settings, str(given["pipeline"]), service)
    if outcome.error is not None and (from_pod or outcome.rejected):
        way = "`headrace rollback --kubeflow` puts an earlier model back into service"
        raise RunError(f"version {outcome.version} was pushed, but deploy.serving {outcome.words}.\n  {way}.")
    if outcome.words:
        (logger.info if outcome.error is None else logger.warning)(f"serving: {outcome.words}")


def _service(home: str, push: str, store: Store) -> ModelService | None:
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        models = StoredHome(home, push, store, Path(folder)).models()
    versions = {
        number: PushedModel(model.uri if model.run else None, withdrawn=model.withdrawn_at is not None)
        for model in models
        for number in model.versions
    }
    return ModelService(readable(f"{home}/{push}"), versions) if versions else None
