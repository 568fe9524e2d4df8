"""The card of a model that a run on Kubeflow pushed, in the object store: in a folder named after the version.

    <the pipeline's folder>/cards/<version>/model_card.html      with `model_card.md`

It is made of what the runs left in the store, by the pod that pushed, or by the command that promoted the model.
"""

from __future__ import annotations

import logging
import tempfile
from dataclasses import replace
from pathlib import Path

from headrace.common.errors import HeadraceError
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_lineage import Origins
from headrace.pipeline.kubeflow.stored_models import CARDS, StoredHome
from headrace.pipeline.kubeflow.stored_run import StoredRuns

logger = logging.getLogger(__name__)


def write_stored_card(home: str, push: str, store: Store, model: str, version: str) -> None:
    """Write both files for a model that was pushed. What prevents that is logged: the push itself succeeded.

    Args:
        home: URI of the pipeline's folder.
        push: `deploy.push`, relative to it, or absolute on a volume of the Pusher's.
        store: the store, or the volume, that has the folder.
        model: path of the Model artifact below the folder.
        version: the number that it was pushed as.
    """
    try:
        for name, text in _card(home, push, store, model, int(version)).items():
            store.write(f"{home}/{CARDS}/{version}/{name}", text)
    except (HeadraceError, OSError, ValueError) as error:
        logger.warning(f"version {version} was pushed, but its model card cannot be written: {error}")


def _card(home: str, push: str, store: Store, model: str, version: int) -> dict[str, str]:
    """Its files by name; none if no record says what the model was made from, as of earlier versions."""
    from headrace.pipeline.models.card import render_card

    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        stored = StoredHome(home, push, store, Path(folder))
        models = stored.models()
        pushed = next((one for one in models if str(one.path) == model), None)
        if pushed is None:
            return {}
        versions = tuple(sorted({*pushed.versions, version}))
        run = StoredRuns(stored, Origins(stored, len(models)), Path(folder, "runs")).read(
            replace(pushed, versions=versions)
        )
        if run.origin.record is None:
            logger.info(f"{home}/{model} has no record of what it was made from, so it gets no model card")
            return {}
        return render_card(replace(run.origin, judged=None), run.folder, home=home)
