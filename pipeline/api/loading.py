"""Loading a config, and checking it and what it names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from headrace.common.environment import prepare, quiet
from headrace.common.errors import ConfigError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import (
    PYTHON_SOURCE,
    ConfigSource,
    LoadedConfig,
    Override,
    load_with_locations,
    read_config,
)
from headrace.configs.rules.rule import Rule, Violation, settings_of

Overrides = Mapping[str, Any] | Sequence[str]
"""Settings that override a config: `{"train.epochs": 3}`, or `["train.epochs=3"]`."""

logger = logging.getLogger(__name__)


def load(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> PipelineConfig:
    """Load a config and fill in its defaults.

    config: the path of a YAML file, its settings as a mapping, or a PipelineConfig; profile: NAME of the overlay
    `<config>.NAME.yaml` next to the file; overrides: single settings, applied last.

    Raises ConfigError with every mistake and its location.
    """
    return load_with_locations(config, profile, as_pairs(overrides)).config


def validate(config: ConfigSource, *, profile: str | None = None, overrides: Overrides = ()) -> None:
    """Check the config as `load` does, then the functions and files that it names, the first rows of the data, and the
    components that `pipeline.extend` adds.

    Raises ConfigError with every mistake in the config and every mismatch with the data.
    """
    load_checked(config, profile, as_pairs(overrides), data=True, components=True)


def load_checked(  # noqa: PLR0913 - most say what to check
    config: ConfigSource,
    profile: str | None,
    overrides: Sequence[Override],
    *,
    data: bool = False,
    functions: bool = False,
    components: bool = False,
    remembered: bool = False,
    valid: Callable[[PipelineConfig], None] | None = None,
    rules: Sequence[Rule] = (),
) -> LoadedConfig:
    """Load a config and check it and what it names, as far as its own mistakes leave certain what that is.

    data: check the data, files and functions; functions: check the functions only; components: if the rest is valid,
    check the components of `pipeline.extend` by building the pipeline; remembered: do not check data again that the
    last run checked by the same config; valid: called with the config if it has no mistake, before anything else is
    checked; rules: further rules for the config. Raises ConfigError with every mistake.
    """
    from headrace.pipeline.checked_data import data_key, notes_of
    from headrace.pipeline.preview.rows import RowsCheck
    from headrace.pipeline.validate import check_columns, file_violations, function_violations

    reading = read_config(config, profile, overrides, rules)
    loaded = reading.loaded
    if loaded is None:
        return reading.checked()
    if valid is not None and not reading.problems:
        valid(loaded.config)
    key = data_key(loaded.config) if remembered and not reading.problems else None
    known = None if key is None else notes_of(loaded.config, key)
    violations: list[Violation] = []
    check = RowsCheck(notes=known or [])
    if data or functions:
        violations += function_violations(loaded.config)
    if data:
        violations += file_violations(loaded.config)
    extension = loaded.config.pipeline.extend is not None and not reading.problems and not violations
    if data and reading.data_is_certain and known is None:
        check = check_columns(loaded.config, loaded.inferred_labels, reading.uncertain)
        violations += check.rejected
    if components and extension:
        violations += component_violations(loaded.config)
    refused = {where for each in violations for where in settings_of(each)}
    for note in loaded.problems(note for note in check.notes if not refused.issuperset(settings_of(note))):
        logger.warning("note: %s", note)
    reading.checked(loaded.located(violations))
    return replace(
        loaded,
        data_key=key,
        data_checked=known is not None,
        data_notes=tuple(check.notes),
        rows_seen=check.seen,
    )


def component_violations(config: PipelineConfig) -> list[Violation]:
    """Check what the function of `pipeline.extend` returns, by building the pipeline."""
    prepare()
    with quiet():
        from headrace.pipeline.build import create_pipeline
    try:
        create_pipeline(config)
    except ConfigError as error:
        return [(("pipeline", "extend"), problem.what) for problem in error.problems]
    return []


def as_pairs(overrides: Overrides) -> tuple[Override, ...]:
    """Overrides as the loader takes them. Raises TypeError for anything but a mapping or a list of strings."""
    if isinstance(overrides, Mapping):
        return tuple(overrides.items())
    if isinstance(overrides, str) or not all(isinstance(each, str) for each in overrides):
        raise TypeError('overrides must be a mapping, or a list of strings such as ["train.epochs=3"]')
    return tuple(overrides)


def name_of(config: ConfigSource) -> str:
    """The name of a config in the record of a run."""
    return str(config) if isinstance(config, str | PathLike) else PYTHON_SOURCE
