"""What the last models of a pipeline were trained on: `trained.json`, replaced whole.

Paths below the folder of the file are written relative to it, so that the pipeline's folder can be moved. The file has
a checksum: with a digit of a fingerprint changed, a night would train again for nothing, or not train on new data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.configs.checksums import with_checksum, without_checksum
from headrace.configs.durable import write_text
from headrace.configs.errors import RunError
from headrace.configs.lock import alone


class TrainedOn(BaseModel):
    """The data of one training.

    fingerprint: of all files that were read, as Spans has it; spans: their names, the newest last; work: a digest of
    the settings and the code; statistics: the URI of the statistics of all spans.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    fingerprint: str
    spans: Annotated[tuple[str, ...], Field(min_length=1)]
    work: str
    statistics: str

    def is_before(self, other: TrainedOn) -> bool:
        """Whether its newest span is an older one. (Numbers have no leading zeros, and dates are of one length.)"""
        ours, theirs = self.spans[-1], other.spans[-1]
        return (len(ours), ours) < (len(theirs), theirs)


class Trained(BaseModel):
    """judged: the last model that came to a judgement, whatever it was; blessed: the last that was blessed; newest: the
    one of the newest data, where later ones were of older spans and not blessed, as those of a backfill may be; passed:
    the fingerprint of data that came after the blessed one and did not drift, with the limits that it was held against.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judged: TrainedOn | None = None
    blessed: TrainedOn | None = None
    newest: TrainedOn | None = None
    passed: tuple[str, str] | None = None

    @classmethod
    def read(cls, path: Path) -> Trained:
        """What a file says; nothing if there is none. RunError if it is damaged."""
        try:
            found = cls.parsed(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except ValueError as error:
            raise RunError(
                f"{path}: the record of what was trained on is damaged: {error}.\n"
                "  Delete it: the next run then trains, as if there were no model yet. If you edited it yourself,"
                " remove its `checksum` instead."
            ) from None
        return found._spelled(lambda uri: str(path.parent / uri))

    @classmethod
    def parsed(cls, text: str | bytes) -> Trained:
        """What JSON says, paths as they are in it. Raises ValueError if it is damaged, with the reason."""
        try:
            return cls.model_validate_json(without_checksum(text))
        except ValidationError as error:
            raise ValueError(error.errors(include_url=False)[0]["msg"]) from None

    def text(self) -> str:
        """As JSON with a checksum, paths as they are here."""
        return with_checksum(self.model_dump_json(exclude_none=True))

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        write_text(path, self._spelled(lambda uri: _inside(path.parent, uri)).text())

    def with_judged(self, data: TrainedOn, *, blessed: bool) -> Trained:
        """After a further training. One of older spans leaves what is known of the newest data as it is, unless its
        model was blessed: that is then the one in use, and did not learn from them.
        """
        if blessed:
            return Trained(judged=data, blessed=data)
        last = self.newest or self.judged
        if last is None or last.work != data.work or not data.is_before(last):
            return Trained(judged=data, blessed=self.blessed)
        return self.model_copy(update={"judged": data, "newest": last})

    def with_passed(self, fingerprint: str, limits: str) -> Trained:
        """After data that did not drift. limits: DriftConfig as JSON."""
        return self.model_copy(update={"passed": (fingerprint, limits)})

    def _spelled(self, change: Callable[[str], str]) -> Trained:
        def changed(data: TrainedOn | None) -> TrainedOn | None:
            return None if data is None else data.model_copy(update={"statistics": change(data.statistics)})

        named = {"judged": self.judged, "blessed": self.blessed, "newest": self.newest}
        return self.model_copy(update={name: changed(data) for name, data in named.items()})


def update(path: Path, change: Callable[[Trained], Trained]) -> None:
    """Replace the file by what `change` makes of it. Runs that share the folder (pods with one volume) wait for each
    other, so that none loses what another wrote.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path.with_name(f".{path.name}.lock")):
        change(Trained.read(path)).write(path)


def _inside(folder: Path, uri: str) -> str:
    """Relative to the folder if it lies below it."""
    path = Path(uri)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else uri
