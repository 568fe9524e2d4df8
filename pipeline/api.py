"""The functions that Python programs call: `headrace.run`, `predict`, `load`, `validate`, `runs`, `models`,
`compare`, `lineage`, `promote`, `rollback`, `compile` and `share`.

The command line calls them too, or the variants below them that return more.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import ConfigError, HeadraceError, RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import (
    PYTHON_SOURCE,
    ConfigSource,
    LoadedConfig,
    Override,
    load_with_locations,
    read_config,
)
from headrace.configs.rules import on_kubeflow
from headrace.configs.rules.rule import Rule, Violation
from headrace.pipeline.environment import prepare, quiet

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.pipeline.models.comparison import Comparison
    from headrace.pipeline.models.lineage import Lineage
    from headrace.pipeline.models.listing import Model
    from headrace.pipeline.models.promotion import Promotion
    from headrace.pipeline.models.rollback import Rollback
    from headrace.pipeline.results.run_folder import RunFolder
    from headrace.pipeline.run import Run
    from headrace.pipeline.terminal import Display

Overrides = Mapping[str, Any] | Sequence[str]
"""Settings that override a config: `{"train.epochs": 3}`, or `["train.epochs=3"]`."""

logger = logging.getLogger(__name__)


def load(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> PipelineConfig:
    """Load a config and fill in its defaults.

    config: the path of a YAML file, its settings as a mapping, or a PipelineConfig; profile: NAME of the overlay
    `<config>.NAME.yaml` next to the file; overrides: single settings, applied last.

    Raises ConfigError with every mistake and its location.
    """
    return load_with_locations(config, profile, as_pairs(overrides)).config


def validate(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> None:
    """Check the config as `load` does, then the functions and files that it names, the first rows of the data, and the
    components that `pipeline.extend` adds.

    Raises ConfigError with every mistake in the config and every mismatch with the data.
    """
    load_checked(config, profile, as_pairs(overrides), data=True, components=True)


def run(  # noqa: PLR0913 - one for each option of the command
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
    before anything runs; RunError if a component fails or another run of the pipeline is in progress;
    KeyboardInterrupt after Ctrl-C or SIGTERM, once all processes have ended.
    """
    from headrace.pipeline.interrupts import handlers_restored, uninterrupted
    from headrace.pipeline.results.record import Status
    from headrace.pipeline.run_parameters import value_overrides
    from headrace.pipeline.terminal import SilentDisplay, failure_text, open_display

    given, obey_retrain = value_overrides(parameters or {})
    loaded = load_to_run(config, profile, (*as_pairs(overrides), *given))
    with handlers_restored():
        with open_display() if show else SilentDisplay() as display:
            done = run_loaded(loaded, _name(config), display, fresh=fresh, obey_retrain=obey_retrain)
        with uninterrupted(), notifying(loaded.config, done):
            if done.status is not Status.INTERRUPTED:
                write_pages(loaded.config, done)
        if done.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
    if done.status is Status.FAILED:
        failed = [node for node in done.record.nodes if node.status is Status.FAILED]
        raise RunError("\n\n".join(map(failure_text, failed)))
    return done


def runs(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> list[Run]:
    """List the runs of the config's pipeline on this machine, newest first; empty if there is none.

    A run whose record is damaged, or of another version, is left out.
    """
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.results.record import FILE_NAME
    from headrace.pipeline.run import Run

    found = []
    folder = Folders.of(load(config, profile=profile, overrides=overrides)).runs
    for file in folder.glob(f"*/{FILE_NAME}"):
        try:
            found.append(Run.read(file.parent))
        except RunError:
            continue
    return sorted(found, key=lambda run: (run.record.started, run.id), reverse=True)


def models(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> list[Model]:
    """List the models of the config's pipeline on this machine, newest first; empty if there is none.

    Raises RunError if the list of blessed models or the record of pushed ones is damaged.
    """
    from headrace.pipeline.models.listing import list_models

    loaded = load(config, profile=profile, overrides=overrides)
    return list_models(loaded, runs(loaded))


def compare(
    config: ConfigSource, *names: int | str, profile: str | None = None, overrides: Overrides = ()
) -> Comparison:
    """Compare runs of the config's pipeline on this machine: metrics, and what differs in settings, data and code.

    names: ids of runs, or versions, each of which stands for the run that trained its model; two or more.

    Raises RunError for fewer than two names, or for a name that stands for no run.
    """
    from headrace.pipeline.models.comparison import compare_runs

    loaded = load(config, profile=profile, overrides=overrides)
    return compare_runs(loaded, runs(loaded), [str(name) for name in names])


def lineage(
    config: ConfigSource, name: int | str | None = None, *, profile: str | None = None, overrides: Overrides = ()
) -> Lineage:
    """Follow a model back to its commit, config, code, data and artifacts, or data forward to the models it touched.

    name: a pushed version, the id of a run, or the folder of a model; or a span, or the path of a source file; by
    default the model in service, or else the newest one.

    Raises RunError if there is no model yet, or none that has to do with `name`.
    """
    from headrace.pipeline.models.lineage import lineage as follow

    loaded = load(config, profile=profile, overrides=overrides)
    return follow(loaded, runs(loaded), None if name is None else str(name))


def promote(
    config: ConfigSource,
    to: int | str | None = None,
    *,
    allow_older: bool = False,
    profile: str | None = None,
    overrides: Overrides = (),
) -> Path:
    """Push a blessed model that awaits approval (`deploy.approval: manual`); returns the folder of the new version.

    to: the id of a run that has the model, or a version of it, by default the newest model that awaits approval;
    allow_older: push it even if the model in service is newer, which is then withdrawn as in a rollback.

    Raises RunError, before anything is changed, if the model is not blessed, was rolled back, is in service, older than
    the one in service, gone or damaged; if no model awaits approval; or if a run is in progress.
    """
    return promote_model(config, to, allow_older=allow_older, profile=profile, overrides=overrides).version


def promote_model(
    config: ConfigSource,
    to: int | str | None,
    *,
    allow_older: bool = False,
    profile: str | None = None,
    overrides: Overrides = (),
) -> Promotion:
    """Like `promote`, and returns what was done."""
    import datetime as dt

    loaded = load(config, profile=profile, overrides=overrides)
    prepare()
    with quiet():
        from headrace.pipeline.models.card import write_card
        from headrace.pipeline.models.promotion import promote as push_approved
    there, wanted = runs(loaded), None if to is None else str(to)
    done = push_approved(loaded, there, wanted, dt.datetime.now(dt.UTC), allow_older=allow_older)
    write_card(loaded, there, done.version)
    return done


def rollback(
    config: ConfigSource, to: int | str | None = None, *, profile: str | None = None, overrides: Overrides = ()
) -> Path:
    """Put an earlier blessed model back into service, as a new version; returns the version's folder.

    to: a version with that model, by default the model blessed before the one in service. The next candidate is
    compared with it, and the models blessed after it are not pushed again.

    Raises RunError, before anything is changed, if there is no such model, it is not blessed, its files are gone or
    damaged, or a run is in progress.
    """
    return roll_back(config, to, profile=profile, overrides=overrides).version


def roll_back(
    config: ConfigSource, to: int | str | None, *, profile: str | None = None, overrides: Overrides = ()
) -> Rollback:
    """Like `rollback`, and returns what was done."""
    import datetime as dt

    loaded = load(config, profile=profile, overrides=overrides)
    prepare()
    with quiet():
        from headrace.pipeline.models.rollback import roll_back as put_back
    return put_back(loaded, None if to is None else str(to), dt.datetime.now(dt.UTC))


def compile(  # noqa: A001 - named like the command
    config: ConfigSource,
    output: str | PathLike[str] | None = None,
    *,
    profile: str | None = None,
    overrides: Overrides = (),
) -> str:
    """Compile the pipeline to YAML for Kubeflow Pipelines v2, and write it to `output` if that is given.

    Raises ConfigError, also if a function that the config names does not exist, because its code becomes part of the
    cache keys; RunError if `output` cannot be written.
    """
    file = None if output is None else _output(output)
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise RunError(f"{file} cannot be written: {why}")
    prepare()
    loaded = load_checked(config, profile, as_pairs(overrides), functions=True, rules=on_kubeflow.RULES)
    with quiet():
        from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
    text = compile_pipeline(loaded.config)  # its warnings are shown
    loaded.pin_selection()
    if file is not None:
        file.write_text(text, encoding="utf-8")
    return text


def predict(  # noqa: PLR0913 - one for each option of the command
    config: ConfigSource,
    data: Any = None,
    output: str | PathLike[str] | None = None,
    *,
    model: str | PathLike[str] | int | None = None,
    columns: Sequence[str] | None = None,
    prefix: str = "",
    batch_size: int | None = None,
    profile: str | None = None,
    overrides: Overrides = (),
) -> pa.Table | Path:
    """Predict new data with an exported model; returns a table, or writes a file and returns its path.

    config: a config, or the folder of a pushed version or another SavedModel that a run exported; data: a path, a
    pandas DataFrame, a pyarrow Table or {name: array}, by default the data of the config; output: a file whose ending
    names its format; model: a pushed version or a folder, by default the model in service; columns: those of the input
    to keep, by default all; prefix: precedes the names of the predictions' columns; batch_size: examples in a call.

    Raises ConfigError; DataError for data that the model cannot read; RunError if there is no such model, or it is
    damaged, or the output cannot be written.
    """
    from headrace.pipeline.predict.scoring import Form, open_scoring

    scoring = open_scoring(
        config,
        data,
        model=model,
        form=Form(columns=columns, prefix=prefix, batch_size=batch_size),
        profile=profile,
        overrides=as_pairs(overrides),
    )
    if output is None:
        table, done = scoring.to_table()
    else:
        done = scoring.to_file(file := _output(output))
    for line in done.skipped.reported:
        logger.warning("skipped: %s", line)
    return table if output is None else file


def share(
    runs: Run | ConfigSource | Sequence[Run | ConfigSource],
    output: str | PathLike[str],
    *,
    name: str | None = None,
    description: str = "",
    logs: bool = True,
) -> Path:
    """Write a page about one or more trainings into a folder; returns the path of the page.

    runs: one or more of: a Run, the path of a run's folder or of a pipeline's folder, or a config. A pipeline or config
    stands for its latest run that trained a model. name: the title, by default the names of the pipelines; description:
    plain text under the title; logs: whether to copy TensorBoard's logs.

    The page needs no server: open it from disk, or put the folder on any static host. Runs that trained no model are
    listed on it, and logged as warnings. Raises RunError if no run trained one, or if `output` cannot be written.
    """
    given = [*runs] if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    return share_runs(given, output, name=name, description=description, logs=logs).page


@dataclass(frozen=True)
class SharedPage:
    """A page that `share_runs` wrote. page: its absolute path; runs: those it shows."""

    page: Path
    runs: Sequence[RunFolder]
    title: str


def share_runs(
    runs: Sequence[Run | ConfigSource],
    output: str | PathLike[str] | None,
    *,
    name: str | None = None,
    description: str = "",
    logs: bool = True,
) -> SharedPage:
    """Like `share`, and returns what an upload of the page needs. output: None for `shared/<title>`."""
    from headrace.pipeline.share.find import find_all
    from headrace.pipeline.share.folder import write_share

    target = None if output is None else _output(output)
    if not runs:
        raise RunError("there is no run to share; name at least one")
    folders, left_out = find_all(_run_path(each) for each in runs)
    for error in left_out:
        logger.warning("left out: %s", error)
    title = name or ", ".join(dict.fromkeys(folder.record.pipeline for folder in folders))
    target = target or _page_folder(title)
    untrained = [error.short for error in left_out]
    try:
        page = write_share(folders, target, name=title, description=description, logs=logs, left_out=untrained)
    except OSError as error:
        raise RunError(f"{error.filename or target} cannot be written: {error.strerror or error}") from error
    return SharedPage(page.absolute(), folders, title)


def _output(path: str | PathLike[str]) -> Path:
    if "://" in str(path):
        raise RunError(f"{path} is a URL; name a path on this machine, and copy from there")
    return Path(path)


def _page_folder(title: str) -> Path:
    """The title as a portable folder name. Raises RunError if that folder holds a page of another title."""
    from headrace.pipeline.share.folder import name_of

    folder = Path("shared", re.sub(r"[^\w.]+", "-", title.lower()).strip("-._")[:60] or "page")
    if name_of(folder) not in {None, title}:
        raise RunError(f'{folder} holds the page "{name_of(folder)}"; name another output folder')
    return folder


def _run_path(run: Run | ConfigSource) -> Path:
    """The path at which to look for a run."""
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.run import Run

    if isinstance(run, Run):
        return run.path
    if isinstance(run, str | PathLike) and "://" not in str(run):
        return Path(run)
    home = Folders.of(load(run)).home
    if not home.is_dir():
        raise RunError(f"there is no run in {home} yet")
    return home


def load_checked(  # noqa: PLR0913 - what to load, and one for each kind of check
    config: ConfigSource,
    profile: str | None,
    overrides: Sequence[Override],
    *,
    data: bool = False,
    functions: bool = False,
    components: bool = False,
    rules: Sequence[Rule] = (),
) -> LoadedConfig:
    """Load a config and check it and what it names, as far as its own mistakes leave certain what that is.

    data: check the data, files and functions; functions: check the functions only; components: if the rest is valid,
    check the components of `pipeline.extend` by building the pipeline; rules: further rules for the config. Raises
    ConfigError with every mistake.
    """
    from headrace.pipeline.validate import data_violations, file_violations, function_violations

    reading = read_config(config, profile, overrides, rules)
    loaded = reading.loaded
    if loaded is None:
        return reading.checked()
    violations: list[Violation] = []
    notes: list[Violation] = []
    if data or functions:
        violations += function_violations(loaded.config)
    if data:
        violations += file_violations(loaded.config)
    extension = loaded.config.pipeline.extend is not None and not reading.problems and not violations
    if data and reading.data_is_certain:
        found, notes = data_violations(loaded.config)
        violations += found
    if components and extension:
        violations += component_violations(loaded.config)
    reading.checked(loaded.located(violations))
    for note in loaded.problems(notes):
        logger.warning("note: %s", note)
    return loaded


def load_to_run(config: ConfigSource, profile: str | None, overrides: Sequence[Override]) -> LoadedConfig:
    """Load a config and check it and its data for a run. The receivers of `notify:` are told if it has mistakes.

    Raises ConfigError with every mistake.
    """
    started = time.time()
    try:
        return load_checked(config, profile, overrides, data=True)
    except ConfigError as error:
        with contextlib.suppress(HeadraceError, OSError):
            _notify_of_no_start(load_checked(config, profile, overrides).config, started, error)
        raise


def component_violations(config: PipelineConfig) -> list[Violation]:
    """Check what the function of `pipeline.extend` returns, by building the pipeline."""
    prepare()
    with quiet():
        from headrace.pipeline.build import create_pipeline
    try:
        create_pipeline(config)
    except ConfigError as error:
        return [(("pipeline", "extend"), problem.what) for problem in error.problems]
    return []


def run_loaded(loaded: LoadedConfig, name: str, display: Display, *, fresh: bool, obey_retrain: bool) -> Run:
    """Run the pipeline in processes of its own. A failure or interruption is in the status of the result.

    name: names the config in the record; obey_retrain: train only if `schedule.retrain` sees a reason to. Raises
    ConfigError if this machine lacks what the config needs.
    """
    from headrace.pipeline.local.runner import run as run_pipeline
    from headrace.pipeline.notify.notify import notify_of_killed
    from headrace.pipeline.results.run_folder import RunFolder
    from headrace.pipeline.run import Run
    from headrace.pipeline.validate import check_machine

    config, started, obey_retrain = loaded.config, time.time(), obey_retrain and not fresh
    try:
        if problems := check_machine(loaded):
            raise ConfigError(*problems)
        loaded.pin_selection()
        record, run_dir = run_pipeline(
            config, name, display, reuse=not fresh, obey_retrain=obey_retrain, cleared=lambda: notify_of_killed(config)
        )
    except HeadraceError as error:
        _notify_of_no_start(config, started, error)
        raise
    return Run(RunFolder(run_dir, record))


@contextlib.contextmanager
def notifying(config: PipelineConfig, done: Run) -> Iterator[None]:
    """Tell the receivers of `notify:` what became of a run when the block ends, even if it raises."""
    from headrace.pipeline.notify.notify import notify
    from headrace.pipeline.results.run_folder import RunFolder

    try:
        yield
    finally:
        notify(config, RunFolder(done.path, done.record))


def _notify_of_no_start(config: PipelineConfig, started: float, error: HeadraceError) -> None:
    if config.notify:
        from headrace.pipeline.notify.notify import notify_of_no_start

        notify_of_no_start(config, started, error)


def write_pages(config: PipelineConfig, done: Run) -> Path:
    """Write the report of a run and, if the run pushed a model, the model's card; returns the path of the report."""
    from headrace.pipeline.report import write_report

    report = write_report(done.path)
    if done.pushed is not None:
        from headrace.pipeline.models.card import write_card

        write_card(config, runs(config), done.pushed)
    return report


def as_pairs(overrides: Overrides) -> tuple[Override, ...]:
    """Overrides as the loader takes them. Raises TypeError for anything but a mapping or a list of strings."""
    if isinstance(overrides, Mapping):
        return tuple(overrides.items())
    if isinstance(overrides, str) or not all(isinstance(each, str) for each in overrides):
        raise TypeError('overrides must be a mapping, or a list of strings such as ["train.epochs=3"]')
    return tuple(overrides)


def _name(config: ConfigSource) -> str:
    return str(config) if isinstance(config, str | PathLike) else PYTHON_SOURCE
