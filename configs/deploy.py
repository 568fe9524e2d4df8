"""`deploy:` where a blessed model goes."""

from __future__ import annotations

from configs.section import Name, Section


class DeployConfig(Section):
    """Where a blessed model goes."""

    push: Name | None = "serving/{name}"
    """Directory that a model server watches: each push makes a new version in it, a number that rises. A model that is
    the newest version already, byte for byte, is not pushed again. `{name}` stands for the pipeline's name. null: never
    push."""
