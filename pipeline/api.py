"""What Python programs call, and the command line with them: `headrace.run`, `load`, `validate`, `runs`, and more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import ConfigError, RunError
from headrace.configs.loader import IN_PYTHON, ConfigSource, Loaded, load_sound_part, load_with_places
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
    return load_with_places(config, profile, as_texts(overrides)).config


def validate(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> None:
    """Check the config as `load` does, then the functions and files that it names, and the first rows of the data.

    Raises ConfigError with every mistake, those of the config and those of the data.
    """
    checked(config, profile, as_texts(overrides), data=True)


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

    parameters: what `--param` takes, such as `{"run_date": "2026-11-20"}`; fresh: run every component anew; show: the
    table of components, live on a terminal and in a notebook.

    A model that is not blessed, and a run that ends early, are successes. Raises ConfigError before anything runs;
    RunError if a component fails or another run of the pipeline is going on; KeyboardInterrupt after Ctrl-C, once all
    processes have ended.
    """
    from headrace.pipeline.local.record import Status
    from headrace.pipeline.local.signals import undisturbed
    from headrace.pipeline.run_parameters import overrides as of_parameters
    from headrace.pipeline.terminal import Silent, open_display

    given, heed = of_parameters([f"{name}={'' if each is None else each}" for name, each in (parameters or {}).items()])
    loaded = checked(config, profile, (*as_texts(overrides), *given), data=True)
    with open_display() if show else Silent() as display:
        done = carry_out(loaded, _name(config), display, fresh=fresh, heed=heed)
    if done.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    with undisturbed():
        _ = done.report
    if done.status is Status.FAILED:
        from headrace.pipeline.terminal import failure_text

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
    for path in sorted((file.parent for file in there.glob(f"*/{FILE_NAME}")), reverse=True):
        try:
            found.append(Run.read(path))
        except RunError:
            continue
    return found


def compile(  # noqa: A001 - the word of the field, and of the command
    config: ConfigSource,
    output: str | PathLike[str] | None = None,
    *,
    profile: str | None = None,
    overrides: Overrides = (),
) -> str:
    """The pipeline as YAML for Kubeflow Pipelines v2, also written to `output` if that is given.

    Raises ConfigError, also for a function of the user's that is not there, as its code is part of what is compiled.
    """
    prepare()
    loaded = checked(config, profile, as_texts(overrides), functions=True)
    with quiet():
        from headrace.pipeline.kubeflow.compile import compile_pipeline

        text = compile_pipeline(loaded.config)
    if output is not None:
        Path(output).write_text(text, encoding="utf-8")
    return text


def share(
    runs: Sequence[Run | str | PathLike[str]],
    output: str | PathLike[str],
    *,
    name: str | None = None,
    description: str = "",
    logs: bool = True,
) -> Path:
    """Write one page of one or several trainings into a folder, and give the page's path.

    runs: each a Run, or the path of a run's folder, of a pipeline's folder or of a config, which stand for the latest
    run that came to a training; name: the title, the pipelines' names if left out; logs: with TensorBoard's logs.

    The page asks no server for anything: open it from disk, or put the folder on any static host. Runs that came to no
    training are named on it. Raises RunError if none did, or if `output` holds something else.
    """
    from headrace.pipeline.finished import Run
    from headrace.pipeline.share import write_share
    from headrace.pipeline.share.find import find_all

    folders, left_out = find_all(each.path if isinstance(each, Run) else Path(each) for each in runs)
    title = name or ", ".join(dict.fromkeys(folder.record.pipeline for folder in folders))
    words = [error.short for error in left_out]
    return write_share(folders, Path(output), name=title, description=description, logs=logs, left_out=words).absolute()


def checked(
    config: ConfigSource,
    profile: str | None,
    overrides: Sequence[str],
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
    """Run the pipeline to its end, whatever that is. name: of the config, for the record; heed: train only if there is
    a reason to, as the config says. Raises ConfigError if this machine lacks what the config needs.
    """
    prepare()
    from headrace.pipeline.finished import Run
    from headrace.pipeline.local.runner import run as run_pipeline
    from headrace.pipeline.report.run_folder import RunFolder
    from headrace.pipeline.validate import check_machine

    if lacking := check_machine(loaded):
        raise ConfigError(*lacking)
    record, run_dir = run_pipeline(loaded.config, name, display, reuse=not fresh, heed=heed and not fresh)
    return Run(RunFolder(run_dir, record))


def as_texts(overrides: Overrides) -> tuple[str, ...]:
    """`NAME=VALUE` for each, the value as YAML reads it. Raises TypeError for a value that YAML has no form of."""
    if isinstance(overrides, str):
        raise TypeError(f'overrides are a mapping or a list of texts, such as ["{overrides}"]')
    if not isinstance(overrides, Mapping):
        return tuple(overrides)
    return tuple(f"{name}={_as_text(value)}" for name, value in overrides.items())


def _as_text(value: Any) -> str:
    if isinstance(value, PathLike):
        value = str(Path(value))
    return json.dumps(value, ensure_ascii=False)


def _name(config: ConfigSource) -> str:
    return str(config) if isinstance(config, str | PathLike) else IN_PYTHON
