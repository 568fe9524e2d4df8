"""Splits that `headrace init` finds in the names of files, such as those of `train.csv` and `test.csv`.

splits_of(["data/train.csv", "data/test.csv"])      # {"train": "data/train.csv", "test": "data/test.csv"}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from headrace.common.errors import RunError
from headrace.common.storage.paths import is_remote
from headrace.components.sources import open_source
from headrace.components.sources.datasets.streams import splits_of_folder
from headrace.configs.schema.sources import SourceConfig

WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("eval", "valid", "validation", "val", "dev"), "eval"),
    **dict.fromkeys(("test", "testing", "holdout"), "test"),
}
"""The split that a word in the name of a file stands for."""
_SOURCE: TypeAdapter[SourceConfig] = TypeAdapter(SourceConfig)


def split_named_by(path: str) -> str | None:
    """The split that the last part of a path names as a word of its own, such as `titanic_train.csv`."""
    words = re.findall(r"[a-z]+", path.rstrip("/").rpartition("/")[2].lower())
    return next((WORDS[word] for word in words if word in WORDS), None)


def without_split(path: str) -> str:
    """The path without the word that names a split."""
    folder, slash, name = path.rpartition("/")
    return (
        folder + slash + re.sub(rf"[-_]?\b({'|'.join(WORDS)})\b[-_]?", "", name.replace("_", "-"), flags=re.IGNORECASE)
    )


def splits_of(paths: Sequence[str]) -> dict[str, Any]:
    """The path or paths of each split. Raises RunError for a path that names none, or if none is for training."""
    found: dict[str, list[str]] = {}
    for path in paths:
        split = split_named_by(path)
        if split is None:
            hint = "of several files, each needs the name of a split in its own: train, eval or test"
            raise RunError(f"{path}: {hint}; files that are to be split belong in one pattern, such as 'data/*.csv'")
        found.setdefault(split, []).append(path)
    if "train" not in found:
        raise RunError(f"none of {', '.join(paths)} is named `train`, from which the model learns")
    ordered = {split: found[split] for split in ("train", "eval", "test") if split in found}
    return {split: own[0] if len(own) == 1 else own for split, own in ordered.items()}


def unnamed_splits(settings: Mapping[str, Any]) -> list[str]:
    """The folders of a DatasetDict beside those that are read, whose names are those of no split."""
    paths = settings.get("path")
    if settings["kind"] != "datasets" or not isinstance(paths, Mapping):
        return []
    read = [one for own in paths.values() for one in ([own] if isinstance(own, str) else own)]
    folders = dict.fromkeys(one.rstrip("/").rpartition("/")[0] for one in read if not is_remote(one))
    found = [f"{folder}/{split}" for folder in folders for split in splits_of_folder(folder)]
    return [split for split in found if split_named_by(split) is None and split not in read]


def without_unlabelled(settings: Mapping[str, Any], label: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a source without the splits that lack the label, such as the test file of a competition; and the
    paths of those.
    """
    paths = settings.get("path")
    if not isinstance(paths, dict):
        return {**settings}, {}
    source = _SOURCE.validate_python({**settings})
    lacking = {
        split: path
        for split, path in paths.items()
        if split != "train" and label not in open_source(source.of_split(split)).columns()
    }
    kept = {split: path for split, path in paths.items() if split not in lacking}
    return {**settings, "path": kept if len(kept) > 1 else kept["train"]}, lacking
