"""The report of a run and the cards of the models in service, after a run, a promotion and a rollback."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import HeadraceError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import LoadedConfig

if TYPE_CHECKING:
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.results.serving import ServingOutcome
    from headrace.pipeline.run import Run

logger = logging.getLogger(__name__)


def write_pages(loaded: LoadedConfig, done: Run, serving: ServingOutcome | None) -> Path:
    """Write the report of a run and, if a model that it pushed or reused is in service, the model's card, and that of a
    model that was put into service in place of one that the server rejected; returns the path of the report.
    """
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.report import write_report
    from headrace.pipeline.run import list_runs

    config, folders = loaded.config, Folders.of(loaded.config)
    report = write_report(done.path)
    if done.pushed is not None and not (loaded.data_checked and _has_card(folders, done)):
        write_card_of(config, list_runs(folders), done.pushed)
    if serving is not None and serving.restored is not None:
        from headrace.pipeline.models.destination import Destination

        versions = Destination.read(folders, config.push_directory or "").path
        write_card_of(config, list_runs(folders), versions / str(serving.restored))
    return report


def _has_card(folders: Folders, done: Run) -> bool:
    """Whether a run that computed nothing finds a card that is newer than all it shows.

    To write it again, all runs of the pipeline would have to be read.
    """
    from headrace.pipeline.models import CARD

    model = done.record.node("Trainer").outputs.get("model")
    if model is None or (done.path / "logs" / "start.log").exists():
        return False
    try:
        written = (folders.runs / Path(model.uri).name / CARD).stat().st_mtime_ns
        return written > max(file.stat().st_mtime_ns for file in (folders.registry, folders.push_record))
    except OSError:
        return False


def write_card_of(config: PipelineConfig, runs: Sequence[Run], version: Path) -> None:
    """Write the card of a model that is in service. What prevents that is logged: the push itself succeeded.

    runs: those of the pipeline; version: the folder of the pushed version.
    """
    from headrace.pipeline.models.card import write_card

    try:
        write_card(config, runs, version)
    except (HeadraceError, OSError, ValueError) as error:
        logger.warning("%s was pushed, but its model card cannot be written: %s", version, error)


def rewrite_report(runs: Sequence[Run], run: str | None) -> None:
    """Write the report of a run again, which said that its model awaits approval. Without one, nothing is written.

    runs: those of the pipeline; run: the id of one of them.
    """
    from headrace.pipeline.report import FILE_NAME, write_report

    folder = next((one.path for one in runs if one.id == run), None)
    if folder is None or not (folder / FILE_NAME).exists():
        return
    try:
        write_report(folder)
    except (HeadraceError, OSError, ValueError) as error:
        logger.warning("the report of run %s cannot be written again: %s", run, error)
