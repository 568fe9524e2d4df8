"""Every error that a user can cause, as one small tree. The command line prints them as they are, without a traceback.

HeadraceError
├── ConfigError        the YAML file, an overlay or an override is wrong; carries all problems at once
├── DataError          the data cannot be read, or does not match the config; names file, line and column
│   └── BadRecordError    a record cannot be read, and may be skipped
├── GateError          the data was read and rejected: anomalies, missing labels
├── TrainingError      training cannot start or continue: a hook that is not a function, a non-finite loss
│   ├── ModelError         this model cannot be built or trained, and another one may be
│   └── TrainingStoppedError  training was asked to stop, and can resume from a checkpoint
├── RunError           a run failed: a component failed, or another run holds the lock
│   ├── InProgressError   another command holds the lock
│   └── UntrainedError    a run did not get as far as training, so there is nothing of it to share
├── ServerError        a server cannot be reached, refuses a request, or fails
└── MissingDependencyError  something is missing from this machine; `headrace doctor` looks for it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from headrace.common.credentials import redact


class HeadraceError(Exception):
    """The root of the tree.

    `str(error)` is the whole message for the user, including the way out. It never holds a credential, because it is
    written to the terminal, logs, run records, reports and Kubernetes' termination messages.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact(each) if isinstance(each, str) else each for each in args))

    def __str__(self) -> str:
        return redact(super().__str__())


@dataclass(frozen=True)
class Problem:
    """One mistake in a config.

    where: `configs/taxi.yaml:12`, `--set train.epochs=x` or `override train.epochs`.
    what: one or two sentences for the user.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class ConfigError(HeadraceError):
    """All problems found in one reading of the config, in file order."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = tuple(Problem(redact(each.where), redact(each.what)) for each in problems)
        super().__init__("\n".join(map(str, problems)))


class DataError(HeadraceError):
    """Bad input data.

    Args:
        what: What was found and what was expected.
        file: The file; None if the error is not about one file.
        line: The line as a text editor counts it, from 1; None if it has no meaning.
        column: The column's name; None if it has no meaning.
        hint: What to change; `{column}` in it stands for the column's name.
    """

    def __init__(
        self, what: str, *, file: str | None = None, line: int | None = None, column: str | None = None, hint: str = ""
    ) -> None:
        self.what, self.file, self.line, self.column, self.hint = what, file, line, column, hint
        super().__init__("\n  ".join([self.found, *self.ways_out]))

    @property
    def found(self) -> str:
        """The place, and what was found there."""
        location = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        named = f"column {self.column!r}: " if self.column is not None else ""
        return f"{location}: {named}{self.what}" if location else f"{named}{self.what}"

    @property
    def ways_out(self) -> tuple[str, ...]:
        """What to change, each in a line of its own."""
        return tuple(way.replace("{column}", str(self.column)) for way in self.remedies)

    @property
    def remedies(self) -> tuple[str, ...]:
        """The same for any column with this mistake, with `{column}` for its name."""
        return (self.hint,) if self.hint else ()

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the fields when the error is pickled by a Beam worker process."""
        return _data_error, (type(self), self.what, self._fields())

    def _fields(self) -> dict[str, Any]:
        """The arguments of the error but the first."""
        return {"file": self.file, "line": self.line, "column": self.column, "hint": self.hint}


class NoDataError(DataError):
    """There is nothing at all where data is looked for: no file of a pattern, or no span up to a date."""


class BadRecordError(DataError):
    """A record cannot be read, and may be skipped.

    Args:
        setting: What skips such records, for the message.
        data_hint: What else to change in `data:`, such as "set `data.types.x: string`". Another section that names a
            source, such as `predict:`, has no such settings.
    """

    def __init__(
        self, what: str, *, setting: str = "`data.on_bad_record: skip`", data_hint: str = "", **place: Any
    ) -> None:
        self.setting, self.data_hint = setting, data_hint
        super().__init__(what, **place)

    @property
    def remedies(self) -> tuple[str, ...]:
        hint, skip = self._hints(), f"skip such records with {self.setting}"
        return (hint, f"Or {skip}") if hint else (f"Correct the record, or {skip}",)

    def stopping(self) -> DataError:
        """The same where such a record always stops a run."""
        return DataError(self.what, **{**super()._fields(), "hint": self._hints()})

    def skipped_by(self, setting: str) -> BadRecordError:
        """The same where this skips such records, in place of `data.on_bad_record`."""
        return BadRecordError(self.what, **{**self._fields(), "setting": setting, "data_hint": ""})

    def _hints(self) -> str:
        if self.hint and self.data_hint:
            return f"{self.hint}, or {self.data_hint}"
        return self.hint or self.data_hint[:1].upper() + self.data_hint[1:]

    def _fields(self) -> dict[str, Any]:
        return {**super()._fields(), "setting": self.setting, "data_hint": self.data_hint}


class HeaderError(DataError):
    """The header of a file cannot be read as the source says, but with another setting of it.

    Args:
        setting: That setting and a value for it, to see what else is wrong with the data; not always the right one.
    """

    def __init__(self, what: str, *, setting: tuple[str, str] | None = None, **place: Any) -> None:
        super().__init__(what, **place)
        self.setting = setting


class UnreachableError(DataError):
    """The data could not be looked at, which says nothing about it: its server cannot be reached, or is too slow."""


class UnreadableColumnError(DataError):
    """A column of the data is of a type that no feature can hold, such as a map."""


class ContradictionError(DataError):
    """Records contradict each other in a column, so that leaving some of them out would not help.

    Args:
        readable_as: The type by which all of its values can be read.
    """

    def __init__(self, what: str, *, readable_as: str | None = None, **place: Any) -> None:
        super().__init__(what, **place)
        self.readable_as = readable_as


def _data_error(kind: type[DataError], what: str, fields: dict[str, Any]) -> DataError:
    return kind(what, **fields)


class GateError(HeadraceError):
    """The data is unfit for training: one line per anomaly, with column, rule and values.

    verdicts: the outputs that the component wrote before it stopped the run, by key, from whatever ran it.
    """

    verdicts: Mapping[str, Any] = MappingProxyType({})


class TrainingError(HeadraceError):
    """Training cannot start, or must not continue."""


class ModelError(TrainingError):
    """A model cannot be built or trained, for a reason that is its own: not the data, the memory or a disk."""


class TrainingStoppedError(TrainingError):
    """Training was stopped early, and can resume from a checkpoint."""


class RunError(HeadraceError):
    """A run failed or could not start."""


class InProgressError(RunError):
    """Another command holds the lock of the pipeline's folder."""


class UntrainedError(RunError):
    """There is no training to share. `short` names the run or runs, without the paths of this machine."""

    def __init__(self, what: str, short: str) -> None:
        self.short = short
        super().__init__(what)


class ServerError(HeadraceError):
    """A server did not do what it was asked to.

    status: the HTTP status; None if there was no answer. slow: whether the request timed out.
    """

    def __init__(self, what: str, status: int | None = None, *, slow: bool = False) -> None:
        self.status, self.slow = status, slow
        super().__init__(what)


class MissingDependencyError(HeadraceError):
    """Something that the run needs is not installed on this machine."""
