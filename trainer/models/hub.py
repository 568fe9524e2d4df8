"""Where a SavedModel lies that is named by a path or by a handle of TensorFlow Hub's.

A handle is an `https://` address. Its files are kept as the `tensorflow_hub` library keeps them, in a folder named by
the SHA-1 of the handle inside TFHUB_CACHE_DIR, so that what one has downloaded the other finds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO

import tensorflow as tf

from headrace.configs.errors import TrainingError

SETTING = "model.backbone.saved_model"
CACHE = "TFHUB_CACHE_DIR"
PATIENCE = 60
"""Seconds without a byte before a download is given up."""


def is_handle(saved_model: str) -> bool:
    """Whether it is an address, not a path."""
    return saved_model.startswith(("https://", "http://"))


def local_folder(saved_model: str) -> str:
    """The folder of the SavedModel, downloaded if need be. Raises TrainingError if there is none."""
    if is_handle(saved_model):
        return str(_kept(saved_model))
    if not tf.io.gfile.exists(f"{saved_model.rstrip('/')}/saved_model.pb"):
        raise TrainingError(
            f"{SETTING}: there is no SavedModel in {saved_model}: no file saved_model.pb"
            + ("" if "://" in saved_model else f" (looked for from {Path.cwd()})")
        )
    return saved_model


def cache_folder() -> Path:
    """Where downloaded SavedModels are kept."""
    return Path(os.environ.get(CACHE) or Path(tempfile.gettempdir(), "tfhub_modules"))


def _kept(handle: str) -> Path:
    folder = cache_folder() / hashlib.sha1(handle.encode()).hexdigest()  # noqa: S324 - a name, no secret
    if not (folder / "saved_model.pb").is_file():
        _download(handle, folder)
    return folder


def _download(handle: str, folder: Path) -> None:
    """Into a folder beside it first, so that a download that breaks off leaves nothing that looks whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        try:
            with urllib.request.urlopen(_compressed(handle), timeout=PATIENCE) as stream:  # noqa: S310 - http(s) only
                _unpack(stream, Path(fresh))
        except (OSError, tarfile.TarError, EOFError) as error:
            raise TrainingError(
                f"{SETTING}: {handle} cannot be downloaded: {error}. Download it by hand, and give its folder"
            ) from error
        if not Path(fresh, "saved_model.pb").is_file():
            raise TrainingError(f"{SETTING}: {handle} gave an archive without a saved_model.pb")
        if folder.exists():
            shutil.rmtree(folder)
        Path(fresh).rename(folder)
        Path(fresh).mkdir()  # for the context to remove


def _compressed(handle: str) -> str:
    """The address of the archive, by TensorFlow Hub's protocol."""
    parts = urllib.parse.urlsplit(handle)
    query = [*urllib.parse.parse_qsl(parts.query), ("tf-hub-format", "compressed")]
    return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(query)))


def _unpack(stream: IO[bytes], folder: Path) -> None:
    with tarfile.open(fileobj=stream, mode="r|gz") as archive:
        archive.extractall(folder, filter="data")
