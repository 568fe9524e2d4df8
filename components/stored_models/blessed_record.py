"""The record of a pipeline's blessed models, `blessed.json`; `pushed.json` is in push_record.py.

A model is blessed, listed in `blessed.json`, pushed, and then noted in `pushed.json`, in this order (docs/design.md,
"From the blessing to the push"). A model that is listed but not noted is one whose run stopped before or during its
push; the next run pushes it. With `deploy.approval: manual` a run lists its model as awaiting approval and pushes
nothing; a promotion makes it the newest, pushes it and notes it.

Both files are replaced whole, so that no reader sees half of one, and carry a checksum. Models below the folder of the
file are written relative to it, so that the folder can be moved. In every `Entry` URIs are absolute.

In an object store, where two runs that change one file lose what the other wrote, each blessing is an object of its own
(pipeline/kubeflow/pod/event_log.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from headrace.common.checksums import ChecksumError, with_checksum
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.common.records import parse_record

AUTOMATIC, MANUAL = "automatic", "manual"
"""The values of `deploy.approval`: a blessed model is pushed by its run, or waits for `headrace promote`."""
EXISTS = "exists"
"""Custom property of a baseline: 1 if its URI is a blessed model's, 0 if there is none."""
WHY = "why.txt"
"""File in an empty baseline that says why none of the blessed models can be used. It is a file and not a property, so
that the Evaluator's cache key depends on it."""
DAMAGED = "damaged.txt"
"""File in an empty baseline whose model is damaged: why no candidate may pass a comparison with it, and the way out."""
PUSHING = ".pushing-"
"""Prefix of folders that are not yet versions. The version's name, a number, follows."""
LATE = "headrace_late"
"""Custom property of a PushedModel that an earlier run trained: a description of that model."""
WITHDRAWN = "headrace_withdrawn"
"""Custom property of the PushedModel of a run whose blessed model was rolled back or overtaken: says so."""
AWAITING = "headrace_awaiting"
"""Custom property of the PushedModel of a run whose blessed model waits for approval: where it would be pushed."""
REFUSED = "headrace_refused"
"""Custom property of the PushedModel of a run whose Canary or Lite refused the model in service: where that is."""
IN_SERVICE = "headrace_in_service"
"""Custom property of the PushedModel of a run that pushed nothing: the folder of the version that was pushed last, if
that is there."""
IN_SERVICE_CONTENTS = "headrace_in_service_contents"
"""Custom property: the checksum of that version's files when it was pushed."""

MEND_LIST = (
    "Restore it from a backup. If you edited it yourself, remove its `checksum`. Or delete it: the next blessed model"
    " is then compared with none."
)
"""What to do about a damaged `blessed.json`."""


class MadeFor(BaseModel, frozen=True, extra="forbid", strict=True):
    """What two models must share to be judged on the same examples.

    label: LabelConfig as JSON; columns: the type of each data column; trained_on: the numbers of the spans that it
    learned from, if `data.split_spans` held out others, which need not be the same.
    """

    label: str
    columns: dict[str, str]
    trained_on: tuple[int, ...] = ()

    def fits(self, data: MadeFor) -> bool:
        """Whether a model made for this can read that data and predicts its label."""
        return self.label == data.label and self.columns.items() <= data.columns.items()


class Entry(BaseModel, frozen=True, extra="forbid", strict=True):
    """One blessed model.

    Args:
        uri: URI of its Model artifact.
        blessed_at: ISO 8601, UTC. Of a model that a rollback restored or a person promoted, the time of that.
        compared_with: URI of the newest model at the time. It was the baseline, if it still existed and was made for
            the same label and columns.
        made_for: the label that it predicts and the columns that it reads; None if they are not known.
        contents: checksum of its files when it was blessed; None to take them as they are.
        withdrawn_at: when a rollback took it out of service; None for a model that may be in service.
        judged_at: when an Evaluator last blessed it; None if that is `blessed_at`.
        awaiting_approval: whether it has to be promoted before it is pushed, compared with, or trained from.
        approved_for: the folder that it was last promoted to; None if it never was.
        statistics: URI of the statistics of the data that it was trained on; None if no gate compares with them.
        lite: folder with the model as a `.tflite` file; None if it was not converted.
    """

    uri: Annotated[str, Field(min_length=1)]
    blessed_at: str
    compared_with: str | None = None
    made_for: MadeFor | None = None
    contents: str | None = None
    withdrawn_at: str | None = None
    judged_at: str | None = None
    awaiting_approval: bool = False
    approved_for: str | None = None
    statistics: str | None = None
    lite: str | None = None

    @property
    def judged(self) -> str:
        """When an Evaluator last blessed it, which a rollback or a promotion does not change."""
        return self.judged_at or self.blessed_at

    def with_paths(self, change: Callable[[str], str]) -> Entry:
        """The same entry with `change` applied to its URIs."""
        names = ("compared_with", "approved_for", "statistics", "lite")
        others = {name: uri and change(uri) for name in names for uri in [getattr(self, name)]}
        return self.model_copy(update={"uri": change(self.uri), **others})

    def taken_out(self, at: str) -> Entry:
        """The entry after a rollback from it; the same if it was withdrawn before or still awaits approval."""
        if self.awaiting_approval or self.withdrawn_at:
            return self
        return self.model_copy(update={"withdrawn_at": at})


class NewestEntry(Entry):
    """The newest entry, as RecordBlessing outputs it.

    withdrawn: URI of the run's own model if it was blessed again after a rollback from it, so that it is not pushed.
    waiting: URI of the run's own model if it is blessed and awaits approval.
    refused: URI of the run's own model if it failed its canary, so that it is not pushed.
    """

    withdrawn: str | None = None
    waiting: str | None = None
    refused: str | None = None


class Registry(BaseModel, frozen=True, extra="forbid"):
    """The blessed models in the order of their blessings, each URI once."""

    models: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Registry:
        """The registry in a file; empty if there is no file. Raises RunError if the file is damaged."""
        try:
            found = parse_record(cls, path.read_bytes())
            return cls(models=tuple(entry.with_paths(lambda uri: str(path.parent / uri)) for entry in found.models))
        except FileNotFoundError:
            return cls()
        except ChecksumError as error:
            raise RunError(f"{path}: the list of blessed models is damaged: {error}.\n  {MEND_LIST}") from None
        except ValueError as error:
            raise RunError(
                f"{path}: the list of blessed models cannot be read: {error}\n"
                "  Correct the file, or delete it: the next blessed model is then compared with none."
            ) from None

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        relative = Registry(
            models=tuple(entry.with_paths(lambda uri: inside(path.parent, uri)) for entry in self.models)
        )
        write_text(path, with_checksum(relative.model_dump_json()))

    @property
    def newest(self) -> Entry | None:
        """The model that was blessed last, of those that do not await approval."""
        return next((entry for entry in reversed(self.models) if not entry.awaiting_approval), None)

    @property
    def last_change(self) -> Entry | None:
        """The model that was blessed, restored or promoted last."""
        return max(self.models, key=lambda entry: max(entry.blessed_at, entry.judged), default=None)

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """The models that await approval, in the order of their blessings: all that were judged after the newest."""
        newest = self.newest
        later = (entry for entry in self.models if newest is None or entry.judged > newest.judged)
        return tuple(sorted((each for each in later if not each.withdrawn_at), key=lambda each: each.judged))

    def find(self, uri: str) -> Entry | None:
        return next((entry for entry in self.models if entry.uri == uri), None)

    def predecessors(self, candidate: str) -> tuple[str, ...]:
        """The models that a candidate may be compared with, best first.

        For the newest model, these are the one that it was compared with and all older ones, so that an unchanged
        second run finds the same baseline. For any other candidate, including one that was blessed before, these are
        all models but itself, newest first. So whatever replaces the newest model has been compared with it. A model
        that a rollback withdrew is never a baseline, nor is one that awaits approval.
        """
        uris, newest = [entry.uri for entry in self.models if not entry.awaiting_approval], self.newest
        if newest is not None and newest.uri == candidate:
            earlier = newest.compared_with
            uris = uris[: uris.index(earlier) + 1] if earlier in uris else [earlier] if earlier else []
        unfit = {candidate, *(entry.uri for entry in self.models if entry.withdrawn_at)}
        return tuple(uri for uri in reversed(uris) if uri not in unfit)

    def with_newest(self, entry: Entry) -> Registry:
        """The registry with `entry` as the newest, which replaces an earlier entry of the same model."""
        return Registry(models=(*(each for each in self.models if each.uri != entry.uri), entry))

    def rolled_back_to(self, uri: str, at: str) -> Registry:
        """The registry with this model as the newest again, and all that were blessed after it withdrawn.

        A withdrawn model that is restored undoes a rollback, so the older one that this restored is not withdrawn, and
        what an Evaluator blessed since is, or the next run would push it again. `compared_with` stays, as the model
        was not judged again. Models that await approval still do. at: the time in ISO 8601, later than that of the
        newest entry.
        """
        index = [entry.uri for entry in self.models].index(uri)
        target, later = self.models[index], self.models[index + 1 :]
        undone = target.withdrawn_at is not None
        later = tuple(each if undone and each.judged <= target.judged else each.taken_out(at) for each in later)
        restored = target.model_copy(
            update={"blessed_at": at, "withdrawn_at": None, "judged_at": target.judged, "awaiting_approval": False}
        )
        return Registry(models=(*self.models[:index], *later, restored))

    def judged_again(self, uri: str, at: str, compared_with: str | None) -> Registry:
        """The registry with the time and the baseline of a model's latest blessing, which awaits approval."""
        update = {"judged_at": at, "compared_with": compared_with}
        return Registry(
            models=tuple(each.model_copy(update=update) if each.uri == uri else each for each in self.models)
        )

    def converted(self, uri: str, lite: str | None) -> Registry:
        """The registry with the folder of a model's latest `.tflite` file."""
        return Registry(
            models=tuple(each.model_copy(update={"lite": lite}) if each.uri == uri else each for each in self.models)
        )

    def promoted(self, uri: str, at: str, destination: str, superseded: Entry | None = None) -> Registry:
        """The registry with an approved model as the newest.

        Args:
            uri: the model.
            at: the time in ISO 8601, later than that of any entry.
            destination: the folder that it is approved for.
            superseded: the newer model that it replaces, if it does so. That one is withdrawn, as in a rollback, and so
                is what was judged between the two.
        """
        (target,) = (entry for entry in self.models if entry.uri == uri)
        approval = {"blessed_at": at, "awaiting_approval": False, "approved_for": destination}
        promoted = target.model_copy(update={**approval, "judged_at": target.judged})
        last = superseded.judged if superseded else ""
        changed = (each.taken_out(at) if target.judged < each.judged <= last else each for each in self.models)
        return Registry(models=tuple(changed)).with_newest(promoted)


def inside(folder: Path, uri: str) -> str:
    """The URI relative to a folder if it lies below it."""
    path = Path(uri)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else uri
