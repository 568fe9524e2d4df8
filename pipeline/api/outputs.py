"""What is written to a place of the caller's: predictions, a compiled pipeline, a page to share."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.durable import write_output
from headrace.common.environment import prepare, quiet
from headrace.common.errors import RunError
from headrace.common.storage.paths import local_output
from headrace.configs.loading.loader import ConfigSource
from headrace.configs.rules import on_kubeflow
from headrace.configs.schema.predict import Probabilities
from headrace.pipeline.api.loading import Overrides, as_pairs, load, load_checked

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.pipeline.results.run_folder import RunFolder
    from headrace.pipeline.run import Run

logger = logging.getLogger(__name__)


def predict(  # noqa: PLR0913 - one for each option of the command
    config: ConfigSource,
    data: Any = None,
    output: str | PathLike[str] | None = None,
    *,
    model: str | PathLike[str] | int | None = None,
    columns: Sequence[str] | None = None,
    prefix: str = "",
    probabilities: Probabilities = "auto",
    batch_size: int | None = None,
    profile: str | None = None,
    overrides: Overrides = (),
) -> pa.Table | Path:
    """Predict new data with an exported model; returns a table, or writes a file and returns its path.

    config: a config, or the folder of a pushed version or another SavedModel that a run exported; data: a path, a
    pandas DataFrame, a pyarrow Table or {name: array}, by default the data of the config; output: a file whose ending
    names its format; model: a pushed version or a folder, by default the model in service; columns: those of the input
    to keep, by default all; prefix: precedes the names of the predictions' columns; probabilities: of classes, "all",
    "best" for the highest, "none", or "auto" for all up to 10,000; batch_size: examples in a call.

    Raises ConfigError; DataError for data that the model cannot read; RunError if there is no such model, or it is
    damaged, or the output cannot be written.
    """
    from headrace.pipeline.predict.scoring import Form, open_scoring

    scoring = open_scoring(
        config,
        data,
        model=model,
        form=Form(columns=columns, prefix=prefix, probabilities=probabilities, batch_size=batch_size),
        profile=profile,
        overrides=as_pairs(overrides),
    )
    if output is None:
        return scoring.to_table()[0]
    scoring.to_file(Path(output))
    return Path(output)


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
    file = None if output is None else local_output(output)
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise RunError(f"{file} cannot be written: {why}")
    prepare()
    loaded = load_checked(config, profile, as_pairs(overrides), functions=True, rules=on_kubeflow.RULES)
    with quiet():
        from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
    folder = Path(config).parent if isinstance(config, str | PathLike) else None
    text = compile_pipeline(loaded.config, folder=folder)  # its warnings are shown
    loaded.pin_selection()
    if file is not None:
        write_output(file, text)
    return text


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

    target = None if output is None else local_output(output)
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
        place = str(error.filename2 or error.filename or target)  # the second one is what a copy could not write
        place = str(target) if Path(place).is_relative_to(target) else place
        raise RunError(f"{place} cannot be written: {error.strerror or error}") from error
    return SharedPage(page.absolute(), folders, title)


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
