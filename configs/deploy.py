"""`deploy:` where a blessed model goes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.section import Name, Section


class DeployConfig(Section):
    """Where a blessed model goes."""

    push: Name | None = "serving/{name}"
    """Directory that a model server watches: each push makes a new version in it, a number that rises. A model that is
    the newest version already, byte for byte, is not pushed again. `{name}` stands for the pipeline's name. null: never
    push."""
    keep: Annotated[int, Field(ge=2)] | None = None
    """Number of pushed versions that stay, at least 2: the newest, which model servers load, and the one before, which
    they serve until then. Each push removes older ones. null: all stay."""
