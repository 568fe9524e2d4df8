"""The plan of the last run, `plan.json`: the descriptions of its components, as the fork server made them.

key = plan_key(config, search_path())
nodes = read_plan(folders.plan, key)       # None if anything has changed since that decides what the plan is
write_plan(folders.plan, key, nodes, config)
is_outdated(folders.plan, config)          # whether the config alone shows that it has

Making the plan needs TFX, whose import takes seconds. A plan depends on nothing but the config, the code, the versions
of the libraries, the files that the config names and the current folder; it is used again as long as all of them are
the same. What components read on each run, such as data and the lists of models, is not part of a plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headrace.common.checksums import ChecksumError, with_checksum, without_checksum
from headrace.common.digests import digest_text
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import DECLARATIONS
from headrace.configs.schema.sources import SourceBase
from headrace.pipeline.code.digest import PACKAGES, PROJECT, closure, sources_digest, stack_versions
from headrace.pipeline.training_digest import file_digests, modules, named_files

FORK_SERVER = "headrace.pipeline.local.fork_server"
"""The module that makes plans. Those that build the components are named in their declarations."""


def plan_key(config: PipelineConfig, searched: Sequence[str]) -> str | None:
    """A digest of everything that decides the plan. None if that cannot be known, or if the command must not run what
    the plan's light components call: code of the user's, which a notebook would import only once.

    searched: the folders that are searched for modules.
    """
    if _runs_own_code(config):
        return None
    try:
        code, digests = sources_digest(*_modules(config)), file_digests(named_files(config))
    except (RunError, OSError):
        return None
    versions = json.dumps(stack_versions(), sort_keys=True)
    return digest_text(_settings(config), str(Path.cwd()), json.dumps(searched), code, digests, versions)


def covers(config: PipelineConfig, requested: Iterable[str]) -> bool:
    """Whether the key of a config depends on the code of all these modules, as it does unless a rule is missing."""
    known = closure(*_modules(config))
    return all(module in known or module.partition(".")[0] in PACKAGES for module in requested)


def read_plan(file: Path, key: str | None) -> list[dict[str, Any]] | None:
    """The plan with this key; None if the file has another one, or is damaged."""
    if key is None:
        return None
    try:
        stored = json.loads(without_checksum(file.read_bytes()))
        nodes: list[dict[str, Any]] = stored["nodes"]
        return nodes if stored["key"] == key else None
    except (OSError, ChecksumError, ValueError, TypeError, KeyError):
        return None


def write_plan(file: Path, key: str, nodes: Sequence[dict[str, Any]], config: PipelineConfig) -> None:
    """Replace the stored plan."""
    write_text(file, with_checksum(json.dumps({"key": key, "nodes": nodes, "settings": _settings(config)})))


def is_outdated(file: Path, config: PipelineConfig) -> bool:
    """Whether the stored plan cannot be that of the config, which takes a millisecond to see. False says nothing."""
    if _runs_own_code(config):
        return True
    try:
        return bool(json.loads(without_checksum(file.read_bytes()))["settings"] != _settings(config))
    except (OSError, ChecksumError, ValueError, TypeError, KeyError):
        return True


def _settings(config: PipelineConfig) -> str:
    return digest_text(config.model_dump_json(by_alias=True))


def _runs_own_code(config: PipelineConfig) -> bool:
    return config.pipeline.extend is not None or any(map(_is_own, config.sources))


def _modules(config: PipelineConfig) -> list[str]:
    builders = {declared.module for declared in DECLARATIONS.values()}
    read = [module for source in config.sources for module in source.modules()]
    return sorted({FORK_SERVER, *builders, *modules(config), *read})


def _is_own(source: SourceBase) -> bool:
    """Whether a source runs code of the user's."""
    return bool(source.functions()) or not source.implementation.startswith(f"{PROJECT}.")
