"""What `predict.source` and `gates.skew.source` have in common, and in part `data.source`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from headrace.configs.rules.rule import Violation
from headrace.configs.schema.data import placeholder_error, placeholders
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources import FileSource, SourceBase


def patterns_of(source: SourceBase) -> Sequence[str]:
    return source.patterns if isinstance(source, FileSource) else ()


def path_errors(where: KeyPath, source: SourceBase) -> Iterator[Violation]:
    """The placeholders of all paths are the same. where: the source."""
    paths = patterns_of(source)
    for path in paths:
        if error := placeholder_error(path):
            yield (*where, "path"), error
            return
        if placeholders(path) != placeholders(paths[0]):
            yield (*where, "path"), f"{path} and {paths[0]} have different placeholders; use the same in all paths"
            return


def window_errors(section: KeyPath, source: SourceBase, window: int | str) -> Iterator[Violation]:
    """A window counts spans. section: the one of `source` and `window`."""
    if window != 1 and not placeholders(patterns_of(source)):
        what = f"no path of {'.'.join(map(str, section))}.source contains {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}}"
        yield (*section, "window"), f"{what}; add them, or remove window"


def split_errors(where: KeyPath, source: SourceBase, rows: str) -> Iterator[Violation]:
    """rows: what they are, in words."""
    if source.split_names:
        divided = next(name for name in source.by_split if isinstance(getattr(source, name), dict))
        yield (*where, divided), f"{rows} no splits; name its files in a list"


def password_errors(where: KeyPath, source: SourceBase) -> Iterator[Violation]:
    """The value is not shown, because it may be the password."""
    variable = getattr(source, "password_env", None)
    if variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        what = "this is not the name of an environment variable, such as DB_PASSWORD; put the password into one"
        yield (*where, "password_env"), f"{what}, and its name here"
