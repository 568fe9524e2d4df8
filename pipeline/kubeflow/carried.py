"""What a component's properties name and a pod would not have: files on the machine that compiles, and the folders of
the pipeline. At compile time names stand in for them; the pod puts its own paths in their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.configs.features import TextFeature, VocabularyFeature
from headrace.pipeline.folders import Folders

HOME = "/headrace-home"
"""Stands for the pipeline's folder."""
FILES = "/headrace-files"
"""Stands for the folder of the files that came along."""
MOST = 60_000
"""Characters in such files, together: they travel in the arguments of the pod."""


class PodFolders(Folders):
    """Below HOME; what is pushed too, unless the config gives an absolute path."""

    def pushed(self, directory: str) -> Path:
        return self.home / directory


def pod_folders() -> PodFolders:
    """Where a pipeline keeps its things in any pod."""
    return PodFolders(Path(HOME))


def named_files(config: PipelineConfig) -> dict[str, str]:
    """Path to content of each file that the config names: the schema and the vocabularies."""
    vocabularies = (
        feature for feature in config.features.values() if isinstance(feature, VocabularyFeature | TextFeature)
    )
    named = [config.data.schema_file, *(feature.file for feature in vocabularies)]
    return {path: Path(path).read_text(encoding="utf-8") for path in named if path is not None}


def without_paths(properties: Mapping[str, Any], files: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The properties with names for the files that they name, and those names with the contents.

    Raises RunError if the contents are too long to travel.
    """
    carried: dict[str, str] = {}
    changed = dict(properties)
    for number, (path, content) in enumerate(sorted(files.items())):
        name = f"{number}-{Path(path).name}"
        pattern = re.compile(rf'(?<=")(?:{re.escape(path)}|{re.escape(str(Path(path).absolute()))})(?=\\*")')
        for key, value in changed.items():
            if isinstance(value, str):
                whole = value in (path, str(Path(path).absolute()))
                new = f"{FILES}/{name}" if whole else pattern.sub(f"{FILES}/{name}", value)
                changed[key] = new
                if new != value:
                    carried[name] = content
    if sum(map(len, carried.values())) > MOST:
        raise RunError(
            f"{', '.join(files)}: together too long to travel with the pipeline ({MOST:,} characters at most).\n"
            "  Let the config name a path on a volume, or in the image, that every pod has."
        )
    return changed, carried


def with_paths(properties: Mapping[str, Any], home: Path, files: Path) -> dict[str, Any]:
    """The properties with the pod's own paths."""
    return {
        key: value.replace(HOME, str(home)).replace(FILES, str(files)) if isinstance(value, str) else value
        for key, value in properties.items()
    }
