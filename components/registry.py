"""The blessed models of a pipeline: `blessed.json`, newest last, replaced whole so that no reader sees half of it.

A model below the folder of the file is written relative to it, so that the pipeline's folder can be moved. Here, and in
every Entry, URIs are whole.

A model is listed here before it is pushed (docs/design.md, "From the blessing to the push"). In an object store, where
two runs that change one file lose what the other wrote, each blessing is an object of its own
(pipeline/kubeflow/pod/records.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.configs.checksums import ChecksumError, with_checksum, without_checksum
from headrace.configs.durable import write_text
from headrace.configs.errors import RunError

WHY = "why.txt"
"""File in a baseline that there is none of, if there are blessed models all the same: says why none will do. A file and
no property, so that the Evaluator's cache key tells the one from the other."""
DAMAGED = "damaged.txt"
"""File in a baseline that should be there and is damaged: the text is why no candidate may pass a comparison with it,
and the way out.
"""

MEND_LIST = (
    "Restore it from a backup; or, if you edited it yourself, remove its `checksum`; or delete it: then the next"
    " blessed model is compared with none."
)
"""The way out of a damaged list."""


class MadeFor(BaseModel):
    """What decides whether two models can be judged on the same examples.

    label: LabelConfig as JSON; columns: of the data, each with its type.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    label: str
    columns: dict[str, str]

    def fits(self, data: MadeFor) -> bool:
        """Whether a model made for this can read that data and predicts its label."""
        return self.label == data.label and self.columns.items() <= data.columns.items()


class Entry(BaseModel):
    """One blessed model.

    uri: of its Model artifact; blessed_at: ISO 8601, UTC; compared_with: the URI of the model that was the newest when
    this one was judged, and so was its baseline if it was still there and made for the same columns and label;
    made_for: the label it predicts and the columns it reads; contents: the checksum of its files when it was blessed.
    Both are None in entries of old.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    uri: Annotated[str, Field(min_length=1)]
    blessed_at: str
    compared_with: str | None = None
    made_for: MadeFor | None = None
    contents: str | None = None

    def with_paths(self, change: Callable[[str], str]) -> Entry:
        """The same with other spellings of its URIs."""
        earlier = None if self.compared_with is None else change(self.compared_with)
        return self.model_copy(update={"uri": change(self.uri), "compared_with": earlier})


class Registry(BaseModel):
    """The models, in the order of their blessings; each URI once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Registry:
        """The registry in a file; empty if there is none. RunError if the file is damaged."""
        try:
            found = cls.model_validate_json(without_checksum(path.read_bytes()))
            return cls(models=tuple(entry.with_paths(lambda uri: str(path.parent / uri)) for entry in found.models))
        except FileNotFoundError:
            return cls()
        except ChecksumError as error:
            raise RunError(f"{path}: the list of blessed models is damaged: {error}.\n  {MEND_LIST}") from None
        except ValidationError as error:
            raise RunError(
                f"{path}: the list of blessed models cannot be read: {_what(error)}\n"
                "  Mend the file, or delete it: then the next blessed model is compared with none."
            ) from None

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        written = Registry(
            models=tuple(entry.with_paths(lambda uri: inside(path.parent, uri)) for entry in self.models)
        )
        write_text(path, with_checksum(written.model_dump_json()))

    @property
    def newest(self) -> Entry | None:
        """The model that was blessed last."""
        return self.models[-1] if self.models else None

    def merged(self, others: Iterable[Entry]) -> Registry:
        """These and others by the time of their blessings; of one model's, the latest."""
        merged = Registry()
        for entry in sorted((*self.models, *others), key=lambda entry: entry.blessed_at):
            merged = merged.with_newest(entry)
        return merged

    def find(self, uri: str) -> Entry | None:
        """The entry of a model."""
        return next((entry for entry in self.models if entry.uri == uri), None)

    def predecessors(self, candidate: str) -> tuple[str, ...]:
        """The models that a candidate may be compared with, best first.

        For the newest: what it was compared with, and what is older, so that an unchanged second run finds the same
        baseline. For any other, one that was blessed before included: all but itself, newest first. So what takes the
        place of the newest has always been compared with it.
        """
        uris = [entry.uri for entry in self.models]
        if uris and uris[-1] == candidate:
            earlier = self.models[-1].compared_with
            uris = uris[: uris.index(earlier) + 1] if earlier in uris else [earlier] if earlier else []
        return tuple(uri for uri in reversed(uris) if uri != candidate)

    def with_newest(self, entry: Entry) -> Registry:
        """These with `entry` as the newest; an earlier one of the same model goes."""
        return Registry(models=(*(each for each in self.models if each.uri != entry.uri), entry))


def inside(folder: Path, uri: str) -> str:
    """Relative to the folder if it lies below it."""
    path = Path(uri)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else uri


def _what(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]
