"""Prepared datasets on disk: the folder and the files that a name stands for.

<data_dir>/mnist/3.0.1/                 dataset_info.json, features.json, mnist-train.tfrecord-00000-of-00001, ...
<data_dir>/glue/sst2/2.0.0/             a dataset with builder configs
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.common.errors import DataError
from headrace.configs.schema.sources import TfdsSource

INFO, FEATURES = "dataset_info.json", "features.json"
DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"

_NAME = re.compile(r"(?P<name>[^/:]+)(?:/(?P<config>[^:]+))?(?::(?P<version>.+))?")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def find_dataset(source: TfdsSource) -> Path:
    """The folder of the newest version that matches. Raises DataError, which lists what exists, if none does."""
    named = _NAME.fullmatch(source.name)
    assert named is not None  # noqa: S101 - the config checks it
    root = Path(source.data_dir).expanduser().absolute()
    base = _with_config(root / named["name"], named["config"], source.section)
    existing = versions(base)
    matching = [version for version in existing if _matches(version, named["version"])]
    if not matching:
        raise DataError(
            f"no version of {source.name.partition(':')[0]!r} matches {named['version']!r}",
            file=str(base),
            hint=f"There {'is' if len(existing) == 1 else 'are'} {', '.join(map(_text, existing))}",
        )
    return base / _text(matching[-1])


def versions(folder: Path) -> list[tuple[int, ...]]:
    """The prepared versions in a folder, oldest first."""
    matches = (_VERSION.fullmatch(path.parent.name) for path in folder.glob(f"*/{INFO}"))
    return sorted(tuple(map(int, match.groups())) for match in matches if match)


def record_files(folder: Path, slices: Sequence[str] | None) -> list[Path]:
    """The record files of the splits that the slices refer to. Raises DataError for an unknown split."""
    info = read_json(folder / INFO)
    splits = {split["name"]: split for split in info.get("splits", [])}
    wanted = dict.fromkeys(splits)
    if slices is not None:
        wanted = dict.fromkeys(part.partition("[")[0].strip() for each in slices for part in each.split("+"))
        wanted = wanted if "all" not in wanted else dict.fromkeys(splits)
    for name in wanted:
        if name not in splits:
            raise DataError(f"there is no split {name!r}", file=str(folder), hint=f"There are {', '.join(splits)}")
    return [folder / name for split in wanted for name in _file_names(info, splits[split])]


def feature_names(folder: Path) -> list[str]:
    """The names of the top-level features."""
    described = read_json(folder / FEATURES)
    try:
        return list(described["featuresDict"]["features"])
    except (KeyError, TypeError):
        raise DataError("the examples are not dictionaries of features", file=str(folder / FEATURES)) from None


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises DataError."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            "the file does not exist",
            file=str(path),
            hint="Prepare the dataset again: its preparation was interrupted, or it is in a very old format",
        ) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
    except ValueError as error:
        raise DataError(f"is not JSON: {error}", file=str(path)) from error


def _with_config(base: Path, config: str | None, section: str) -> Path:
    """The folder that contains the versions."""
    configs = sorted(path.name for path in base.glob("*") if versions(path))
    if config is not None:
        if config not in configs:
            hint = f"The configs are {', '.join(configs)}" if configs else _prepared(base.parent, section)
            raise DataError(f"{base.name!r} has no config {config!r}", file=str(base), hint=hint)
        return base / config
    if versions(base):
        return base
    if len(configs) > 1:
        raise DataError(
            f"{base.name!r} has multiple configs",
            file=str(base),
            hint=f"Name one, for example {base.name}/{configs[0]}; the configs are {', '.join(configs)}",
        )
    if not configs:
        raise DataError(
            f"the dataset {base.name!r} is not prepared in this folder",
            file=str(base.parent),
            hint=_prepared(base.parent, section),
        )
    return base / configs[0]


def _prepared(root: Path, section: str) -> str:
    found = sorted(
        {path.parent for path in root.glob(f"*/*/{INFO}")} | {path.parent for path in root.glob(f"*/*/*/{INFO}")}
    )
    if not found:
        return (
            "No dataset is. Prepare it with `tfds.load(name, data_dir=...)` or `tfds build`, and set"
            f" `{section}.data_dir` to its folder"
        )
    return f"The prepared datasets are {', '.join(sorted({str(path.parent.relative_to(root)) for path in found}))}"


def _matches(version: tuple[int, ...], pattern: str | None) -> bool:
    wanted = (pattern or "*.*.*").split(".")
    return all(part == "*" or int(part) == number for part, number in zip(wanted, version, strict=True))


def _text(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _file_names(info: Any, split: Any) -> list[str]:
    number = len(split.get("shardLengths", []))
    template = split.get("filepathTemplate") or DEFAULT_TEMPLATE
    return [
        template.format(
            DATASET=info["name"],
            SPLIT=split["name"],
            FILEFORMAT=info.get("fileFormat", "tfrecord"),
            SHARD_INDEX=f"{shard:05d}",
            NUM_SHARDS=f"{number:05d}",
            SHARD_X_OF_Y=f"{shard:05d}-of-{number:05d}",
        )
        for shard in range(number)
    ]
