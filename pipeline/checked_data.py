"""The key of the last data check that found no mistake, `checked.json`, so that a run does not repeat that check.

key = data_key(config)                                 # before the check
notes = None if key is None else notes_of(config, key)
if notes is None: ...                                  # check
remember_checked(config, key, notes)                   # after a check that found nothing but notes

The notes of the check are kept with the key, as every run repeats them.

The check reads the first rows, for which it imports Arrow: a third of the time of an unchanged run. Its result depends
on nothing but the config (without the sections that it does not read), the files (by their sizes and times, as
ExampleGen's own cache), the code of the check and of all kinds that the config uses, the versions of the libraries, and
the current folder. Where that is not certain, the data is checked each time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from headrace.common.checksums import ChecksumError, with_checksum, without_checksum
from headrace.common.credentials import redact
from headrace.common.digests import digest_text
from headrace.common.durable import write_text
from headrace.common.errors import DataError, RunError
from headrace.components.gates.serving_log import find_log
from headrace.components.spans.find import find_spans
from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation, about, others_of
from headrace.pipeline.code.digest import PROJECT, sources_digest, stack_versions
from headrace.pipeline.folders import Folders
from headrace.pipeline.training_digest import feature_files, file_digests, modules

CHECK = "headrace.pipeline.validate"
"""The module of the check."""
UNREAD = frozenset({"train", "report", "deploy", "beam", "kubeflow", "notify"})
"""Sections of the config that the check does not read, so that an edit of `train.epochs` does not repeat it."""


def data_key(config: PipelineConfig) -> str | None:
    """A digest of everything that decides what a check of the data finds; None if the data has to be checked anyway.

    That is so for sources that are not just files, and with `fingerprint: checksums`, which distrusts times.
    """
    source = config.data.source
    if not (source.found_by_paths and source.implementation.startswith(f"{PROJECT}.")):
        return None
    if config.data.fingerprint != "times":
        return None
    skew = config.gates.skew
    if skew is not None and not skew.source.found_by_paths:
        return None
    try:
        spans = find_spans(config.data).to_json()
        log = "" if skew is None else find_log(skew.data(config.data), "").to_json()
        files = file_digests([config.data.schema_file, *feature_files(config)])
        code = sources_digest(CHECK, *modules(config))
    except (DataError, RunError, OSError):
        return None
    versions = json.dumps(stack_versions(), sort_keys=True)
    settings = config.model_dump_json(by_alias=True, exclude={*UNREAD})
    return digest_text(settings, spans, log, files, versions, code, str(Path.cwd()))


def notes_of(config: PipelineConfig, key: str) -> list[Violation] | None:
    """The notes of the last check of the pipeline's data, if it had this key. A damaged file counts as no check."""
    with contextlib.suppress(OSError, ChecksumError, ValueError, TypeError, KeyError):
        last = json.loads(without_checksum(Folders.of(config).checked.read_bytes()))
        if last["key"] == key:
            return [
                about([tuple(path) for path in (where, *others)], str(what)) for where, what, others in last["notes"]
            ]
    return None


def remember_checked(config: PipelineConfig, key: str, notes: Sequence[Violation]) -> None:
    """Remember a check that found no mistake, and its notes. If that fails, the next run checks again."""
    kept = [(where, redact(what), others_of(what)) for where, what in notes]
    with contextlib.suppress(OSError):
        write_text(Folders.of(config).checked, with_checksum(json.dumps({"key": key, "notes": kept})))
