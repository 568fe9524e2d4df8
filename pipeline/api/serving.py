"""The TensorFlow Serving of `deploy.serving`, after a run, a promotion and a rollback on this machine."""

from __future__ import annotations

import datetime as dt
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.errors import HeadraceError, RunError
from headrace.common.locks import wait_and_hold
from headrace.configs.config import PipelineConfig
from headrace.pipeline.results.record import Status
from headrace.pipeline.results.serving import ServingOutcome

if TYPE_CHECKING:
    from headrace.pipeline.run import Run

logger = logging.getLogger(__name__)


def serve_in_run(config: PipelineConfig, run: Path) -> None:
    """Bring the server up between the push of a run and its predictions, which are then those of the version that the
    server has, and write what became of it into the run's folder, where `serve_after_run` finds it.
    """
    if config.predict is None:
        return
    outcome = _served(config, roll_back=True, in_run=True)
    if outcome is not None:
        _note(outcome, run)


def serve_after_run(config: PipelineConfig, done: Run) -> ServingOutcome | None:
    """Bring the server up after a run, and write what became of it into the run's folder; None if there is none.

    A version that this run pushed and the server rejects is rolled back if the config says so. Raises nothing: the
    outcome has the error.
    """
    if config.only_predicts or done.status is Status.INTERRUPTED:
        return None
    if (known := ServingOutcome.read(done.path)) is not None:
        return known
    outcome = serve_versions(config, roll_back=done.pushed is not None and done.record.ran("Pusher"))
    if outcome is not None:
        _note(outcome, done.path)
    return outcome


def _note(outcome: ServingOutcome, run: Path) -> None:
    try:
        outcome.write(run)
    except OSError as error:
        logger.warning("%s cannot be written: %s", run, error)


def serve_or_fail(config: PipelineConfig, *, roll_back: bool) -> None:
    """Bring the server up after a promotion or a rollback. Raises RunError if it has not loaded the version."""
    outcome = serve_versions(config, roll_back=roll_back)
    if outcome is not None and outcome.error is not None:
        what = f"version {outcome.version}" if outcome.version else "the version"
        raise RunError(f"{what} was pushed, but deploy.serving {outcome.words}")


def serve_versions(config: PipelineConfig, *, roll_back: bool) -> ServingOutcome | None:
    """Bring the server of `deploy.serving` to the state of `deploy.push`; None if there is nothing to do.

    roll_back: whether a version that it rejects may be rolled back. Commands that do so at the same time wait for each
    other.
    """
    try:
        return _served(config, roll_back=roll_back)
    except KeyboardInterrupt:
        return ServingOutcome(error="interrupted before the server had loaded the version")


def _served(config: PipelineConfig, *, roll_back: bool, in_run: bool = False) -> ServingOutcome | None:
    """The same, but an interruption ends it. in_run: whether the caller holds the lock of a run."""
    if config.deploy.serving is None or config.push_directory is None:
        return None
    from headrace.pipeline.folders import Folders

    folders = Folders.of(config)
    if not folders.push_record.is_file():
        return None
    try:
        with wait_and_hold(
            folders.serving_lock, f"deploy.serving: waiting for another command ({folders.serving_lock})"
        ):
            outcome = _bring_up(config)
            if outcome and outcome.rejected and roll_back and config.deploy.serving.on_failure == "roll_back":
                return _rolled_back(config, outcome, in_run=in_run)
            return outcome
    except (HeadraceError, OSError) as error:
        return ServingOutcome(error=str(error))


def _bring_up(config: PipelineConfig) -> ServingOutcome | None:
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.models.destination import Destination
    from headrace.pipeline.production.serve import bring_up, local_service

    there = local_service(Destination.read(Folders.of(config), config.push_directory or ""))
    return bring_up(config.deploy.serving, config.pipeline.name, there) if config.deploy.serving and there else None


def _rolled_back(config: PipelineConfig, rejected: ServingOutcome, *, in_run: bool) -> ServingOutcome:
    """Put an earlier model back into service, and bring the server up with it."""
    from headrace.pipeline.models.rollback import roll_back

    try:
        version = int(Path(roll_back(config, None, dt.datetime.now(dt.UTC), in_run=in_run).version).name)
    except HeadraceError as error:
        return rejected.model_copy(update={"error": f"{rejected.error}; it cannot be rolled back: {error}"})
    again = _bring_up(config)
    more = f"; version {version}, in its place: {again.error}" if again and again.error else ""
    return rejected.model_copy(update={"restored": version, "error": f"{rejected.error}{more}"})
