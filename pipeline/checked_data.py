"""The last check of the data that found nothing, `checked.json`, so that a run does not check the same data again.

key = data_key(config)                              # before the check
if key is None or not is_checked(config, key): ...  # check
remember_checked(config, key)                       # after a check that found nothing, not even a note

The check reads the first rows, for which it imports Arrow: a third of the time of an unchanged run. Its result depends
on nothing but the config, the files (by their sizes and times, as ExampleGen's own cache), the code of Headrace, the
versions of the libraries, and the current folder. Where that is not certain, the data is checked each time.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from headrace.common.checksums import ChecksumError, with_checksum, without_checksum
from headrace.common.digests import digest_text
from headrace.common.durable import write_text
from headrace.common.errors import DataError
from headrace.components.example_gen.spans.find import find_spans
from headrace.configs.config import PipelineConfig
from headrace.pipeline.code.digest import PROJECT, stack_versions
from headrace.pipeline.folders import Folders
from headrace.pipeline.training_digest import feature_files, file_digests, model_files


def data_key(config: PipelineConfig) -> str | None:
    """A digest of everything that decides what a check of the data finds; None if the data has to be checked anyway.

    That is so for sources that are not just files, and with `fingerprint: checksums`, which distrusts times.
    """
    source = config.data.source
    if not (source.found_by_paths and source.implementation.startswith(f"{PROJECT}.")):
        return None
    if config.data.fingerprint != "times":
        return None
    try:
        spans = find_spans(config.data).to_json()
        files = file_digests([config.data.schema_file, *feature_files(config), *model_files(config)])
    except (DataError, OSError):
        return None
    versions = json.dumps(stack_versions(), sort_keys=True)
    return digest_text(config.model_dump_json(by_alias=True), spans, files, versions, _code(), str(Path.cwd()))


def is_checked(config: PipelineConfig, key: str) -> bool:
    """Whether the last check of the pipeline's data had this key. A damaged file counts as none."""
    with contextlib.suppress(OSError, ChecksumError, ValueError, TypeError, KeyError):
        return bool(json.loads(without_checksum(Folders.of(config).checked.read_bytes()))["key"] == key)
    return False


def remember_checked(config: PipelineConfig, key: str) -> None:
    """Remember a check that found nothing. If that fails, the next run checks again."""
    with contextlib.suppress(OSError):
        write_text(Folders.of(config).checked, with_checksum(json.dumps({"key": key})))


def _code() -> str:
    """A digest of the names, sizes and times of Headrace's modules. Reads none of them."""
    states = []
    for folder, below, names in os.walk(
        Path(__file__).parents[1], followlinks=True
    ):  # a clone's package is made of links
        below[:] = sorted(name for name in below if name != "__pycache__")
        for name in sorted(name for name in names if name.endswith(".py")):
            state = Path(folder, name).stat()
            states.append(f"{folder}/{name}={state.st_size} {state.st_mtime_ns} {state.st_ino}")
    return digest_text(*states)
