"""The model that predicts: one of a pipeline, by its version or folder, or the one in service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.contents import CONTENTS
from headrace.components.stored_models.blessed_record import Registry
from headrace.components.stored_models.push import fetch
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.stored_models.stored_versions import shown
from headrace.components.stored_models.usable import SERVING, why_unusable
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.results.run_folder import RunFolder

SAVED_MODEL = "saved_model.pb"


@dataclass(frozen=True)
class ChosenModel:
    """A model to predict with. `name` describes it to users."""

    folder: Path
    name: str


def is_model(path: object) -> bool:
    """Whether a path is the folder of a SavedModel, or of a Model artifact, instead of a config."""
    return isinstance(path, str | PathLike) and model_folder(Path(path)) is not None


def model_folder(path: Path) -> Path | None:
    """The SavedModel in a folder: the folder itself, or that of a Model artifact; None if there is none."""
    return next((each for each in (path, path / SERVING) if (each / SAVED_MODEL).is_file()), None)


def choose_model(config: PipelineConfig, wanted: str | None) -> ChosenModel:
    """The wanted model of a pipeline: a pushed version or a folder; None for the one in service, else the newest
    blessed one.

    Raises RunError if there is none, or its files are known not to be the ones that were pushed, blessed or trained.
    """
    folders = Folders.of(config)
    if wanted is not None and not wanted.isdecimal():
        folder = model_folder(Path(wanted))
        if folder is None:
            raise RunError(f"{wanted} is neither a version nor a folder with a {SAVED_MODEL}{_versions_hint(config)}")
        check_folder(Path(os.path.abspath(folder)), folders)  # noqa: PTH100  # resolve() would follow links
        return ChosenModel(folder, wanted)
    destination = folders.pushed(config.push_directory) if config.push_directory else None
    versions = pushed_versions(destination)
    if wanted is not None and int(wanted) not in versions:
        raise RunError(f"there is no version {wanted}{_versions_hint(config)}")
    if wanted is None and not versions:
        return _newest_blessed(folders)
    version = versions[int(wanted) if wanted is not None else max(versions)]
    if not any(version.iterdir()):  # in an object store, where another machine pushed it
        fetch(version)
    _check_version(version, PushRecord.read(folders.push_record))
    return ChosenModel(version, f"version {version.name}")


def _check_version(version: Path, record: PushRecord) -> None:
    """Raise RunError if the files of a version are known not to be the ones that were pushed."""
    if not record.is_damaged(version):
        return
    last = record.last[str(version.parent)].version
    way_out = (
        "Run the pipeline: it replaces a damaged version by an intact one. Or choose another with `--model`"
        if version.name == last
        else f"Choose another with `--model`, or push its model again: `headrace rollback CONFIG --to {version.name}`"
    )
    raise RunError(f"{shown(version)} is damaged: its files are not the ones that were pushed.\n  {way_out}.")


def check_folder(folder: Path, folders: Folders) -> None:
    """Raise RunError if the files in the folder of a model are known not to be the ones that were pushed, blessed or
    written by a component of a run. A blessed model is restored from its pushed copy, if that is intact.

    folder: an absolute path.
    """
    _check_version(folder, PushRecord.read(folders.push_record))
    artifact = folder.parent if folder.name == SERVING else folder
    entry = Registry.read(folders.registry).find(str(artifact))
    if entry and (flaw := why_unusable(entry.uri, entry, None, folders.push_record)):
        raise RunError(f"{flaw.reason}.\n  Choose another model, with `--model` on the command line.")
    known = None if entry else _contents_written(artifact, folders)
    if known is not None and checksum(artifact) != known:
        raise RunError(
            f"{artifact} is damaged: its files have changed since they were written.\n"
            "  Run the pipeline: it computes a damaged artifact again. Or choose another model, with `--model` on the"
            " command line."
        )


def _contents_written(artifact: Path, folders: Folders) -> str | None:
    """The checksum of an artifact in the record of the run that wrote it; None if that is not known.

    The pipeline's folder may have been moved, or be a copy of the one that the artifact is in.
    """
    try:
        component, output, run = artifact.parts[-3:]
        written = RunFolder.read(folders.runs / run)
        found = written.output(component, output) if written.directory(component, output) == artifact else None
    except (OSError, ValueError, TypeError, KeyError):  # the record is gone, or of another version
        return None
    known = found.properties.get(CONTENTS) if found else None
    return None if known is None else str(known)


def pushed_versions(destination: Path | None) -> dict[int, Path]:
    found = destination.iterdir() if destination is not None and destination.is_dir() else ()
    return {int(path.name): path for path in found if path.name.isdecimal()}


def _versions_hint(config: PipelineConfig) -> str:
    if config.push_directory is None:
        return "; `deploy.push` is null, so there are no versions"
    destination = Folders.of(config).pushed(config.push_directory)
    versions = sorted(pushed_versions(destination), reverse=True)
    known = f"the versions are {join_names(map(str, versions))}" if versions else "there are no versions"
    return f"; {known} in {shown(destination)}"


def _newest_blessed(folders: Folders) -> ChosenModel:
    registry = Registry.read(folders.registry)
    entry = registry.newest or next(reversed(registry.waiting), None)
    if entry is None:
        raise RunError(
            f"there is no blessed model in {folders.home} yet.\n"
            "  Run the pipeline first: `headrace run CONFIG`. Or name the folder of another model with `--model`."
        )
    if flaw := why_unusable(entry.uri, entry, None, folders.push_record):
        raise RunError(f"{flaw.reason}.\n  Run the pipeline again, or name another model with `--model`.")
    return ChosenModel(Path(entry.uri, SERVING), f"the model blessed at {entry.blessed_at}")
