"""What there is to predict and by which model, and the file that gets the predictions. Imports no TFX, as all of this
runs in every run.

The components of around.py are thin layers over these functions, which take TFX's artifacts, or others with the same
methods (pipeline/local/light.py).
"""

from __future__ import annotations

import datetime as dt
import logging
import shutil
from pathlib import Path
from typing import Any

from headrace.common.checksums import same_bytes
from headrace.common.durable import replacing
from headrace.common.errors import RunError
from headrace.components.bulk_predictor.record import FILE, NO_MODEL, ROWS, SKIPPED, PublishedPredictions
from headrace.components.deploy.choices import point
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import SpanManifest
from headrace.components.spans.patterns import path_of_span
from headrace.components.stored_models import shared_models
from headrace.components.stored_models.blessed_record import Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.stored_models.usable import why_unusable
from headrace.configs.schema.data import DATE_PLACEHOLDERS, data_from_json, placeholders
from headrace.configs.schema.predict import PREDICT_SOURCE
from headrace.configs.schema.sources import FileSource

logger = logging.getLogger(__name__)

Artifact = Any
"""An artifact of TFX, or one with its methods."""
_RUN_AGAIN = "Run the whole pipeline again, without `predict.only`."
_RESTORE = "Restore its files from a backup, or bless another model, so that new data can be predicted."


def find_model_in_service(
    newest: Artifact,
    version: Artifact,
    registry: str,
    push_record: str,
    serving: str = "",
    pushed_model: Artifact | None = None,
) -> None:
    """What the component ModelInService does; its arguments are documented there."""
    path, record = Path(push_record), PushRecord.read(Path(push_record))
    blessed, last = Registry.read(Path(registry)), record.last.get(serving)
    found = blessed.find(str(path.parent / last.uri)) if last else blessed.newest
    if found is None and pushed_model is None:
        why = f"version {last.version} is not in the list of blessed models, {registry}" if last else NO_MODEL
        raise RunError(f"{why}.\n  Run the whole pipeline first, without `predict.only`.")
    if found and (flaw := why_unusable(found.uri, found, None, path)):
        raise RunError(f"{flaw.reason}.\n  {_RUN_AGAIN if pushed_model is None else _RESTORE}")
    point(newest, found)
    version.value = last.version if last and found else ""
    where = f"version {last.version}: " if last else ""
    logger.info(f"{where}{found.uri}" if found else NO_MODEL)


def list_new_data(spans: Artifact, data: str, code: str = "", as_of: Artifact | None = None) -> None:  # noqa: ARG001
    """What the component PredictSpans does; its arguments are documented there, and light.py passes them all."""
    config = data_from_json(data, PREDICT_SOURCE)
    paths = config.source.patterns if isinstance(config.source, FileSource) else ()
    if placeholders(paths) >= DATE_PLACEHOLDERS:
        day = as_of.value or None if as_of else config.run_date or str(dt.datetime.now(dt.UTC).date())
        config = config.model_copy(update={"run_date": day})
    spans.value = find_spans(config).to_json()


def publish_predictions(
    predictions: Artifact,
    model: Artifact,
    spans: Artifact,
    published: Artifact,
    publish_to: str,
    version: Artifact | None = None,
    push_record: str = "",
    serving: str = "",
) -> None:
    """What the component PublishPredictions does; its arguments are documented there."""
    file = next((file for file in Path(predictions.uri).iterdir() if file.name.startswith(FILE)), None)
    if file is None:
        logger.warning(NO_MODEL)
        published.value = PublishedPredictions().model_dump_json()
        return
    manifest = SpanManifest.from_json(spans.value)
    output = Path(path_of_span(publish_to, manifest.spans[-1].number))
    if str(output) in manifest.paths:
        raise RunError(f"predict.output: {output} is one of the files that are predicted; name another file")
    by = version.value if version else ""
    later = _pushed_since(by, push_record, serving)
    changed = _replace(output, file, leave=later is not None)
    done = PublishedPredictions(
        output=str(output),
        rows=predictions.get_int_custom_property(ROWS),
        skipped=predictions.get_int_custom_property(SKIPPED),
        version=by or None,
        model=model.uri,
        spans=tuple(span.name for span in manifest.spans if span.name),
        changed=changed,
        later=None if changed else later,
    )
    published.value = done.model_dump_json()
    logger.info(f"{output}{'' if done.changed else ', which is unchanged'}: {done.words}")


def _pushed_since(version: str, push_record: str, serving: str) -> str | None:
    """The version that is in service by now, if it is not the one that predicted.

    It is that of a run, of a rollback or of a promotion that ended meanwhile. (Runs on Kubeflow have no lock in
    common.)
    """
    last = PushRecord.read(Path(push_record)).last.get(serving) if serving else None
    return last.version if last and last.version != version else None


def _replace(output: Path, file: Path, *, leave: bool) -> bool:
    """Give a file the content of another in one step, unless it has it already. Returns whether it was written.

    leave: leave a file that exists as it is.
    """
    try:
        shared_models.fetch_file(output)
        if output.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        if output.exists() and (leave or same_bytes(output, file)):
            return False
        with replacing(output) as partial:
            shutil.copyfile(file, partial)
        shared_models.publish(output.parent, [output.name])
    except OSError as error:
        raise RunError(
            f"predict.output: {output} cannot be written: {error.strerror or error}.\n"
            "  Make its folder writable and free some space, or name another file. What was predicted is not lost: the"
            " next run only writes the file."
        ) from error
    return True
