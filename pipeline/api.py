"""What Python programs call, and the command line with them: `headrace.run`, `load`, `validate`, `runs`, and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import ConfigError, RunError
from headrace.configs.loader import IN_PYTHON, ConfigSource, Loaded, Override, load_sound_part, load_with_places
from headrace.pipeline.environment import prepare, quiet

if TYPE_CHECKING:
    from headrace.pipeline.finished import Run
    from headrace.pipeline.terminal import Display

Overrides = Mapping[str, Any] | Sequence[str]
"""Settings laid over a config: `{"train.epochs": 3}`, or `["train.epochs=3"]` as `--set` takes them."""


def load(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> PipelineConfig:
    """The config with its defaults.

    config: path of a YAML file, its settings as a mapping, or a PipelineConfig; profile: NAME of the overlay
    `<config>.NAME.yaml` beside the file; overrides: single settings, over both.

    Raises ConfigError with every mistake, each with its place.
    """
    return load_with_places(config, profile, as_pairs(overrides)).config


def validate(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> None:
    """Check the config as `load` does, then the functions and files that it names, and the first rows of the data.

    Raises ConfigError with every mistake, those of the config and those of the data.
    """
    checked(config, profile, as_pairs(overrides), data=True)


def run(  # noqa: PLR0913 - one for each option of the command
    config: ConfigSource,
    *,
    profile: str | None = None,
    overrides: Overrides = (),
    parameters: Mapping[str, Any] | None = None,
    fresh: bool = False,
    show: bool = True,
) -> Run:
    """Run the pipeline on this machine, from the current folder; only what changed since the last run runs again.

    parameters: by the names that `--param` takes, such as `{"run_date": "2026-11-20"}`; fresh: run every component
    anew; show: the table of components, live on a terminal and in a notebook.

    A model that is not blessed, and a run that ends early, are successes. Raises ConfigError before anything runs;
    RunError if a component fails or another run of the pipeline is going on; KeyboardInterrupt after Ctrl-C or SIGTERM,
    once all processes have ended.
    """
    from headrace.pipeline.local.record import Status
    from headrace.pipeline.local.signals import restored, undisturbed
    from headrace.pipeline.report import write_report
    from headrace.pipeline.run_parameters import of_values
    from headrace.pipeline.terminal import Silent, failure_text, open_display

    given, heed = of_values(parameters or {})
    loaded = checked(config, profile, (*as_pairs(overrides), *given), data=True)
    with restored():
        with open_display() if show else Silent() as display:
            done = carry_out(loaded, _name(config), display, fresh=fresh, heed=heed)
        if done.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        with undisturbed():
            write_report(done.path)
    if done.status is Status.FAILED:
        failed = [node for node in done.record.nodes if node.status is Status.FAILED]
        raise RunError("\n\n".join(map(failure_text, failed)))
    return done


def runs(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> list[Run]:
    """The runs of the config's pipeline on this machine, the newest first; empty if there is none.

    A run whose record is damaged, or of a version that is not understood, is left out.
    """
    from headrace.pipeline.finished import Run
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.local.record import FILE_NAME

    found = []
    there = Folders.of(load(config, profile=profile, overrides=overrides)).runs
    for file in there.glob(f"*/{FILE_NAME}"):
        try:
            found.append(Run.read(file.parent))
        except RunError:
            continue
    return sorted(found, key=lambda run: (run.record.started, run.id), reverse=True)


def compile(  # noqa: A001 - the word of the field, and of the command
    config: ConfigSource,
    output: str | PathLike[str] | None = None,
    *,
    profile: str | None = None,
    overrides: Overrides = (),
) -> str:
    """The pipeline as YAML for Kubeflow Pipelines v2, also written to `output` if that is given.

    Raises ConfigError, also for a function of the user's that is not there, as its code is part of what is compiled;
    RunError if nothing can be written to `output`.
    """
    file = None if output is None else _output(output)
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        raise RunError(f"{file} cannot be written: {'a folder' if file.is_dir() else f'there is no {file.parent}'}")
    prepare()
    loaded = checked(config, profile, as_pairs(overrides), functions=True)
    with quiet():
        from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline

        text = compile_pipeline(loaded.config)
    if file is not None:
        file.write_text(text, encoding="utf-8")
    return text


def share(
    runs: Run | ConfigSource | Sequence[Run | ConfigSource],
    output: str | PathLike[str],
    *,
    name: str | None = None,
    description: str = "",
    logs: bool = True,
) -> Path:
    """Write one page of one or several trainings into a folder, and give the page's path.

    runs: one or several, each a Run, the path of a run's folder or of a pipeline's, or a config: these two stand for
    the latest run that came to a training; name: the title, the pipelines' names if left out; logs: with TensorBoard's
    logs.

    The page asks no server for anything: open it from disk, or put the folder on any static host. Runs that came to no
    training are named on it. Raises RunError if none did, or if nothing can be written to `output`.
    """
    from headrace.pipeline.share import write_share
    from headrace.pipeline.share.find import find_all

    target = _output(output)
    given = [*runs] if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    if not given:
        raise RunError("there is no run to share: give one or several")
    folders, left_out = find_all(_place(each) for each in given)
    title = name or ", ".join(dict.fromkeys(folder.record.pipeline for folder in folders))
    words = [error.short for error in left_out]
    try:
        page = write_share(folders, target, name=title, description=description, logs=logs, left_out=words)
    except OSError as error:
        raise RunError(f"{error.filename or target} cannot be written: {error.strerror or error}") from error
    return page.absolute()


def _output(path: str | PathLike[str]) -> Path:
    if "://" in str(path):
        raise RunError(f"{path} is a URL; name a place on this machine, and copy from there")
    return Path(path)


def _place(run: Run | ConfigSource) -> Path:
    """Where a run that is to be shared is looked for."""
    from headrace.pipeline.finished import Run
    from headrace.pipeline.folders import Folders

    if isinstance(run, Run):
        return run.path
    if isinstance(run, str | PathLike) and "://" not in str(run):
        return Path(run)
    home = Folders.of(load(run)).home
    if not home.is_dir():
        raise RunError(f"no run yet in {home}")
    return home


def checked(
    config: ConfigSource,
    profile: str | None,
    overrides: Sequence[Override],
    *,
    data: bool = False,
    functions: bool = False,
) -> Loaded:
    """The config, with `data` the data checked against it, with `functions` the user's own functions looked for.

    Raises ConfigError with every mistake.
    """
    try:
        loaded = load_with_places(config, profile, overrides)
    except ConfigError as error:
        if data and (part := load_sound_part(config, profile, overrides)):
            from headrace.pipeline.validate import check_data

            raise ConfigError(*error.problems, *check_data(part)) from None
        raise
    if data or functions:
        from headrace.pipeline.validate import check_data, check_functions

        if problems := check_data(loaded) if data else check_functions(loaded):
            raise ConfigError(*problems)
    return loaded


def carry_out(loaded: Loaded, name: str, display: Display, *, fresh: bool, heed: bool) -> Run:
    """Run the pipeline to its end, whatever that is, in processes of its own.

    name: of the config, for the record; heed: train only if there is a reason to, as the config says. Raises
    ConfigError if this machine lacks what the config needs.
    """
    from headrace.pipeline.finished import Run
    from headrace.pipeline.local.runner import run as run_pipeline
    from headrace.pipeline.report.run_folder import RunFolder
    from headrace.pipeline.validate import check_machine

    if lacking := check_machine(loaded):
        raise ConfigError(*lacking)
    record, run_dir = run_pipeline(loaded.config, name, display, reuse=not fresh, heed=heed and not fresh)
    return Run(RunFolder(run_dir, record))


def as_pairs(overrides: Overrides) -> tuple[Override, ...]:
    """Each setting as the loader takes it. Raises TypeError for what is neither a mapping nor a list of texts."""
    if isinstance(overrides, Mapping):
        return tuple(overrides.items())
    if isinstance(overrides, str) or not all(isinstance(each, str) for each in overrides):
        raise TypeError('overrides are a mapping, or a list of texts such as ["train.epochs=3"]')
    return tuple(overrides)


def _name(config: ConfigSource) -> str:
    return str(config) if isinstance(config, str | PathLike) else IN_PYTHON
