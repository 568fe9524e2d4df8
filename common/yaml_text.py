"""Reading YAML quickly, where no positions in the text are needed.

libyaml parses where PyYAML has it. The nodes are composed in Python, which keeps most of the speed: libyaml's binding
would exhaust the C stack, and so end the process, on a text that nests some ten thousand values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

_LOADER: Any = yaml.SafeLoader
if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _FastLoader(Composer, CParser, SafeConstructor, Resolver):
        def __init__(self, text: str | bytes) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

    _LOADER = _FastLoader


def parse(text: str | bytes) -> Any:
    """What `yaml.safe_load` returns. Raises yaml.YAMLError, also for values that are nested too deep."""
    try:
        return _LOADER(text).get_single_data()
    except RecursionError as error:
        raise yaml.YAMLError("values are nested too deep") from error


def parse_all(text: str | bytes) -> list[Any]:
    """The documents of the text, as `yaml.safe_load_all` yields them. Raises yaml.YAMLError, as `parse` does."""
    try:
        return list(_documents(_LOADER(text)))
    except RecursionError as error:
        raise yaml.YAMLError("values are nested too deep") from error


def _documents(loader: Any) -> Iterator[Any]:
    while loader.check_data():
        yield loader.get_data()
