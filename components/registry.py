"""The blessed models of a pipeline: `blessed.json`, newest last, replaced whole so that no reader sees half of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from configs.errors import RunError


class Entry(BaseModel):
    """One blessed model.

    uri: of its Model artifact; blessed_at: ISO 8601, UTC; compared_with: the URI of the baseline that it was judged by.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    uri: Annotated[str, Field(min_length=1)]
    blessed_at: str
    compared_with: str | None = None


class Registry(BaseModel):
    """The models, in the order of their blessings; each URI once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Registry:
        """The registry in a file; empty if there is none. RunError if the file is damaged."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            raise RunError(
                f"{path}: the list of blessed models cannot be read: {_what(error)}\n"
                "  Mend the file, or delete it: then the next blessed model is compared with none."
            ) from None

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        partial.replace(path)

    def find(self, uri: str) -> Entry | None:
        """The entry of a model."""
        return next((entry for entry in self.models if entry.uri == uri), None)

    def predecessors(self, candidate: str) -> tuple[str, ...]:
        """The models that a candidate may be compared with, best first.

        For a new one: all, newest first. For one that was blessed before: what it was compared with then, and what is
        older, so that an unchanged second run finds the same baseline.
        """
        uris = [entry.uri for entry in self.models]
        entry = self.find(candidate)
        if entry is not None:
            earlier = entry.compared_with
            uris = uris[: uris.index(earlier) + 1] if earlier in uris else [earlier] if earlier else []
        return tuple(reversed(uris))

    def with_newest(self, entry: Entry) -> Registry:
        """All of these and one more."""
        return Registry(models=(*self.models, entry))


def _what(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]
