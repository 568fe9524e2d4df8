"""Running the pipeline on this machine, and the runs that there are."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import ConfigError, HeadraceError, InProgressError, RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import ConfigSource, LoadedConfig, Override
from headrace.pipeline.api.loading import Overrides, as_pairs, load, load_checked, name_of
from headrace.pipeline.api.pages import write_pages
from headrace.pipeline.api.serving import serve_after_run, serve_in_run

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from headrace.pipeline.local.server_process import EarlyProcess
    from headrace.pipeline.registration.register import RegistrationOutcome
    from headrace.pipeline.results.serving import ServingOutcome
    from headrace.pipeline.run import Run
    from headrace.pipeline.terminal import Display


def run(
    config: ConfigSource,
    *,
    profile: str | None = None,
    overrides: Overrides = (),
    parameters: Mapping[str, Any] | None = None,
    fresh: bool = False,
    show: bool = True,
) -> Run:
    """Run the pipeline on this machine, relative to the current folder. Components whose inputs, settings and code are
    unchanged since an earlier run are reused.

    parameters: settings of this run by their short names, such as `{"run_date": "2026-11-20"}`; fresh: run every
    component, even if it could be reused; show: display the table of components, live on a terminal and in a notebook.

    A run whose model is not blessed, or that ends early without a reason to train, is a success. Raises ConfigError
    before anything runs; RunError if a component fails, another run of the pipeline is in progress, or the server of
    `deploy.serving` does not load the version in service; KeyboardInterrupt after Ctrl-C or SIGTERM, once all processes
    have ended.
    """
    from headrace.pipeline.interrupts import handlers_restored
    from headrace.pipeline.local.server_process import EarlyProcess
    from headrace.pipeline.results.record import Status
    from headrace.pipeline.run_parameters import value_overrides
    from headrace.pipeline.terminal import SilentDisplay, failure_text, open_display

    given, obey_retrain = value_overrides(parameters or {})
    display = open_display() if show else SilentDisplay()
    settings = (*as_pairs(overrides), *given)
    with handlers_restored(), EarlyProcess(fresh=fresh) as early:
        ended = run_to_the_end(config, profile, settings, display, early, fresh=fresh, obey_retrain=obey_retrain)
    done, serving = ended.run, ended.serving
    if done.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if done.status is Status.FAILED:
        failed = [node for node in done.record.nodes if node.status is Status.FAILED]
        raise RunError("\n\n".join(map(failure_text, failed)))
    if serving is not None and serving.error is not None:
        raise RunError(f"deploy.serving {serving.words}")
    return done


def runs(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> list[Run]:
    """List the runs of the config's pipeline on this machine, newest first; empty if there is none.

    A run whose record is damaged, or of another version, is left out.
    """
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.run import list_runs

    return list_runs(Folders.of(load(config, profile=profile, overrides=overrides)))


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended, and what followed it."""

    run: Run
    report: Path
    """The path of its report."""
    serving: ServingOutcome | None
    """What became of the server of `deploy.serving`; None if there is none."""
    registered: Sequence[RegistrationOutcome] = ()
    """What the model registries of `deploy.registry` were told."""


def run_to_the_end(
    config: ConfigSource,
    profile: str | None,
    overrides: Sequence[Override],
    display: Display,
    early: EarlyProcess,
    *,
    fresh: bool,
    obey_retrain: bool,
    on_end: Callable[[EndedRun], None] | None = None,
) -> EndedRun:
    """Check the config and the data, run the pipeline, and do what follows a run: bring the server of `deploy.serving`
    up, write the report and the model card, tell the receivers of `notify:`, and register the pushed versions.

    display: entered once the config and the data are known to be valid; early: may have started the process of the
    components; obey_retrain: train only if `schedule.retrain`
    sees a reason to; on_end: shows how the run ended, before the receivers are told, while signals are ignored.

    A failure or interruption is in the status of the result. Raises ConfigError before anything runs.
    """
    from headrace.pipeline.interrupts import uninterrupted
    from headrace.pipeline.results.record import Status

    loaded = load_to_run(config, profile, overrides, early.start_if_needed)
    if early.started:  # it imports for seconds, and what the card and the report need takes a tenth of one
        import headrace.pipeline.models.card  # noqa: F401
    with display:
        done = _run_loaded(loaded, name_of(config), display, early, fresh=fresh, obey_retrain=obey_retrain)
    early.end(remember=done.status is Status.DONE)
    serving = serve_after_run(loaded.config, done)
    with uninterrupted(), _notifying(loaded.config, done):
        ended = EndedRun(done, write_pages(loaded, done, serving), serving)
        if on_end is not None:
            on_end(ended)
    if done.status is Status.INTERRUPTED:
        return ended
    return replace(ended, registered=register_after_run(loaded.config))  # last, as it may be long, and interrupted


def _run_loaded(
    loaded: LoadedConfig, name: str, display: Display, early: EarlyProcess, *, fresh: bool, obey_retrain: bool
) -> Run:
    """Run the pipeline in processes of its own. A failure or interruption is in the status of the result.

    name: names the config in the record; early: may have started the first of them; obey_retrain: train only if
    `schedule.retrain` sees a reason to. Raises ConfigError if this machine lacks what the config needs.
    """
    from headrace.pipeline.checked_data import remember_checked
    from headrace.pipeline.local.runner import run as run_pipeline
    from headrace.pipeline.results.run_folder import RunFolder
    from headrace.pipeline.run import Run
    from headrace.pipeline.validate import check_machine

    config, started, obey_retrain = loaded.config, time.time(), obey_retrain and not fresh
    try:
        if problems := check_machine(loaded):
            raise ConfigError(*problems)
        loaded.pin_selection()
        record, run_dir = run_pipeline(
            config,
            name,
            display,
            early=early,
            reuse=not fresh,
            obey_retrain=obey_retrain,
            cleared=lambda: _notify_of_killed(config),
            pushed=partial(serve_in_run, config),
        )
    except InProgressError:  # nothing failed, and the other command notifies of what becomes of it
        raise
    except HeadraceError as error:
        _notify_of_no_start(config, started, error)
        raise
    if loaded.data_key is not None and not loaded.data_checked:
        remember_checked(config, loaded.data_key, loaded.data_notes)
    return Run(RunFolder(run_dir, record))


def load_to_run(
    config: ConfigSource,
    profile: str | None,
    overrides: Sequence[Override],
    valid: Callable[[PipelineConfig], None] | None = None,
) -> LoadedConfig:
    """Load a config and check it and its data for a run, by the code as it is now. The receivers of `notify:` are told
    if it has mistakes.

    valid: called with a config that has no mistake, before the data is checked. Raises ConfigError with every mistake.
    """
    from headrace.pipeline.code.digest import read_again

    started = time.time()
    read_again()
    try:
        return load_checked(config, profile, overrides, data=True, remembered=True, valid=valid)
    except ConfigError as error:
        with contextlib.suppress(HeadraceError, OSError):
            _notify_of_no_start(load_checked(config, profile, overrides).config, started, error)
        raise


@contextlib.contextmanager
def _notifying(config: PipelineConfig, done: Run) -> Iterator[None]:
    """Tell the receivers of `notify:` what became of a run when the block ends, even if it raises."""
    try:
        yield
    finally:
        if config.notify:
            from headrace.pipeline.notify.notify import notify
            from headrace.pipeline.results.run_folder import RunFolder

            notify(config, RunFolder(done.path, done.record))


def _notify_of_killed(config: PipelineConfig) -> None:
    if config.notify:
        from headrace.pipeline.notify.notify import notify_of_killed

        notify_of_killed(config)


def _notify_of_no_start(config: PipelineConfig, started: float, error: HeadraceError) -> None:
    if config.notify:
        from headrace.pipeline.notify.notify import notify_of_no_start

        notify_of_no_start(config, started, error)


def register_versions(config: PipelineConfig) -> list[RegistrationOutcome]:
    """Bring the model registries of `deploy.registry` to the state of `deploy.push`. What prevents that is logged.

    Commands that do so at the same time wait for each other, as both would find the same versions missing.
    """
    if config.deploy.registry is None:
        return []
    from headrace.common.locks import wait_and_hold
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.registration.register import register
    from headrace.pipeline.registration.versions import local_shelf
    from headrace.pipeline.run import list_runs

    try:
        lock = Folders.of(config).registration_lock
        with wait_and_hold(lock, f"deploy.registry: waiting for another command that registers versions ({lock})"):
            shelf = local_shelf(config, lambda: list_runs(Folders.of(config)))
            return register(config.deploy.registry, config.pipeline.name, shelf) if shelf else []
    except (HeadraceError, OSError, ValueError) as error:
        logger.warning("deploy.registry: no version is registered: %s; the next run tries again", error)
        return []


def register_after_run(config: PipelineConfig) -> list[RegistrationOutcome]:
    """Like `register_versions`, unless the run only predicts and so pushes nothing."""
    return [] if config.only_predicts else register_versions(config)
