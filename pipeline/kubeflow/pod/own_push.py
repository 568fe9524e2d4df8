"""What the Pusher's pod pushed. The push of a Pusher of the user's is noted here, as ours notes its own: `models`,
`rollback`, the predictions and the baseline of drift then know the version, as they do after a local run.

made = pushed(properties, inputs, outputs, exchange.home, paths, store)
made.version
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.components.stored_models.push_record import PushRecord, note_own_push
from headrace.pipeline.kubeflow.pod.paths import SCHEMES, PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

if TYPE_CHECKING:
    from headrace.pipeline.execute import Artifacts

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pushed:
    """A noted push. version: the folder of the version, and model: that of the Model artifact, as paths of the pod."""

    version: Path
    model: str


def pushed(
    properties: Mapping[str, Any], inputs: Artifacts, outputs: Artifacts, home: Path, paths: PodPaths, store: Store
) -> Pushed | None:
    """What the component pushed, as its outputs tell; None for nothing, or nothing that can be noted, which is logged.

    home: the pipeline's folder in this pod. Raises RunError if a record is damaged, OSError if the store fails.
    """
    (said,) = outputs.get("pushed_model", [None])
    if said is None or not said.get_int_custom_property("pushed"):
        return None
    if "push_record" in properties:
        version = Path(properties["destination"], said.get_string_custom_property("pushed_version"))
        return Pushed(version, inputs["model"][0].uri)
    where = said.get_string_custom_property("pushed_destination")
    return _noted(where, inputs, home, paths, store) if where else None


def _noted(where: str, inputs: Artifacts, home: Path, paths: PodPaths, store: Store) -> Pushed | None:
    """The push of a Pusher of the user's, once it is noted. where: the folder of the version, as that says."""
    registry, record = home / "blessed.json", home / "pushed.json"
    models = [one.uri for group in inputs.values() for one in group]
    version = _here(where, paths, store)
    with present({"registry": str(registry), "push_record": str(record)}, paths, store):
        why = note_own_push(record, registry, models, version)
        model = None if why else PushRecord.read(record).model_of(record, version)
    if model is None:
        logger.warning(f"Pusher pushed {where}, which is not noted as in service: {why}")
        return None
    return Pushed(version, model)


def _here(where: str, paths: PodPaths, store: Store) -> Path:
    """The folder of a version in this pod, with its files as they are in the object store, if it is there."""
    path = paths.local(where) if where.startswith(tuple(SCHEMES)) else Path(where).absolute()
    uri = paths.remote(path)
    if uri is not None and not paths.mount:
        store.get_all(uri, path)
    return path
